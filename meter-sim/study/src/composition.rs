//! What a day costs: the epsilon of a slot is not that of a day.

use dream_protocol::noise::{Composition, Scale};

use super::section::{Axis, Figure, Section, Stroke, Table, row};

/// The range of houses; what a day costs hardly depends on it.
const WATTS: u64 = 5000;
const SLOT_MINUTES: [u32; 4] = [5, 10, 15, 30];
const EPSILONS: [f64; 4] = [0.01, 0.1, 0.5, 1.0];
/// How probable it may be that an epsilon does not hold.
const DELTAS: [f64; 2] = [1e-6, 1e-9];

pub(super) fn section() -> Section {
    let (slots, certain) = (per_day(10), but_for(DELTAS[0], per_day(10), 1.0));
    let finding =
        format!("{slots} slots of epsilon 1 cost a day at most {slots}, and {certain:.1} with probability 1 - 1e-6");
    Section::new([table()], [figure()]).finding(finding)
}

/// The epsilon of so many slots, if each costs `epsilon` and none may fail.
fn plain(slots: u32, epsilon: f64) -> f64 {
    f64::from(slots) * epsilon
}

/// The epsilon of so many slots that holds but for a probability of `delta`.
fn but_for(delta: f64, slots: u32, epsilon: f64) -> f64 {
    // Lambda to the sixth decimal of epsilon.
    let micro = whole(epsilon * 1e6);
    let scale = Scale::new(WATTS * 1_000_000, micro);
    Composition::of(slots.into(), scale, epsilon).epsilon(delta)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "millionths of at most some")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn per_day(minutes: u32) -> u32 {
    24 * 60 / minutes
}

fn table() -> Table {
    const COLUMNS: &str = "slot_minutes epsilon_per_slot slots day_plain day_delta_1e-6 day_delta_1e-9";
    let row = |minutes: u32, epsilon: f64| {
        let slots = per_day(minutes);
        let certain = DELTAS.map(|delta| but_for(delta, slots, epsilon));
        row![minutes, epsilon, slots, plain(slots, epsilon); certain]
    };
    let rows = SLOT_MINUTES.into_iter().flat_map(|minutes| EPSILONS.map(|epsilon| row(minutes, epsilon)));
    Table::new("composition", COLUMNS, rows)
}

fn figure() -> Figure {
    let slots = per_day(10);
    let epsilons = (0..=60).map(|step| 10f64.powf(-2.0 + f64::from(step) / 30.0));
    let but_for = |delta| epsilons.clone().map(move |epsilon| (epsilon, but_for(delta, slots, epsilon)));
    Figure::new(
        "composition_day",
        "Epsilon of a day of 10-minute slots against that of a slot",
        (Axis::logarithmic("epsilon of a slot"), Axis::logarithmic("epsilon of a day")),
        [
            Stroke::Solid.through("added up", epsilons.clone().map(|epsilon| (epsilon, plain(slots, epsilon)))),
            Stroke::Dashed.through("but for one in 10^6", but_for(DELTAS[0])),
            Stroke::Dashed.through("but for one in 10^9", but_for(DELTAS[1])),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_144_slots_costs_144_times_as_much_at_most() {
        assert_eq!(plain(per_day(10), 1.0), 144.0);
    }

    #[test]
    fn but_for_one_in_a_million_it_costs_less() {
        for (epsilon, expected) in [(1.0, 95.5), (0.5, 39.5), (0.1, 5.8)] {
            let found = but_for(1e-6, per_day(10), epsilon);
            assert!((found / expected - 1.0).abs() < 0.01, "{epsilon}: {found}");
        }
    }

    #[test]
    fn more_certainty_costs_more_and_never_more_than_adding_up() {
        for epsilon in EPSILONS {
            let [loose, strict] = DELTAS.map(|delta| but_for(delta, 144, epsilon));
            assert!(loose < strict && strict < plain(144, epsilon), "{epsilon}: {loose} {strict}");
        }
    }
}
