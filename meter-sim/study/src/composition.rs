//! What a day costs: the epsilon of a slot is not that of a day.

use super::section::{Axis, Cell, Figure, Section, Series, Stroke, Table};

const SLOT_MINUTES: [u32; 4] = [5, 10, 15, 30];
const EPSILONS: [f64; 4] = [0.01, 0.1, 0.5, 1.0];
/// How probable it may be that the epsilon of zero-concentrated privacy does not hold.
const DELTAS: [f64; 2] = [1e-6, 1e-9];

pub(super) fn section() -> Section {
    Section { tables: vec![table()], figures: vec![figure()] }
}

/// The epsilon of so many slots, if each costs `epsilon` and none may fail.
fn plain(slots: u32, epsilon: f64) -> f64 {
    f64::from(slots) * epsilon
}

/// The epsilon of so many slots that holds but for a probability of `delta`.
///
/// What costs epsilon is (epsilon^2 / 2)-zero-concentrated private, and that adds up (Bun and Steinke 2016). What comes of
/// rho in all is the least epsilon for which `delta >= exp((a-1)(a rho - epsilon)) / (a-1) * (1 - 1/a)^a` for some a > 1
/// (Canonne, Kamath and Steinke 2020).
fn concentrated(slots: u32, epsilon: f64, delta: f64) -> f64 {
    let rho = f64::from(slots) * epsilon * epsilon / 2.0;
    let by_order = |order: f64| {
        let above = order - 1.0;
        rho * order + (order * (1.0 - 1.0 / order).ln() - above.ln() - delta.ln()) / above
    };
    // Convex in the order's logarithm: a fine grid finds the least to more digits than are shown.
    let orders = (1..=4000).map(|step| 1.0 + (f64::from(step) / 4000.0 * 16.0 - 8.0).exp());
    orders.map(by_order).fold(f64::INFINITY, f64::min).min(plain(slots, epsilon))
}

fn per_day(minutes: u32) -> u32 {
    24 * 60 / minutes
}

fn table() -> Table {
    let row = |minutes: u32, epsilon: f64| {
        let slots = per_day(minutes);
        let of = |delta| Cell::Number(concentrated(slots, epsilon, delta));
        vec![
            Cell::Count(minutes.into()),
            Cell::Number(epsilon),
            Cell::Count(slots.into()),
            Cell::Number(plain(slots, epsilon)),
            of(DELTAS[0]),
            of(DELTAS[1]),
        ]
    };
    Table {
        name: "composition",
        header: &["slot_minutes", "epsilon_per_slot", "slots", "day_plain", "day_delta_1e-6", "day_delta_1e-9"],
        rows: SLOT_MINUTES.into_iter().flat_map(|minutes| EPSILONS.map(|epsilon| row(minutes, epsilon))).collect(),
    }
}

fn figure() -> Figure {
    let slots = per_day(10);
    let epsilons = || (0..=60).map(|step| 10f64.powf(-2.0 + f64::from(step) / 30.0));
    let curve = |label: &str, stroke, of: &dyn Fn(f64) -> f64| Series {
        label: label.to_owned(),
        points: epsilons().map(|epsilon| (epsilon, of(epsilon))).collect(),
        stroke,
    };
    Figure {
        name: "composition_day",
        title: "Epsilon of a day of 10-minute slots against that of a slot".to_owned(),
        x: Axis::logarithmic("epsilon of a slot"),
        y: Axis::logarithmic("epsilon of a day"),
        series: vec![
            curve("added up", Stroke::Solid, &|epsilon| plain(slots, epsilon)),
            curve("zero-concentrated, delta 1e-6", Stroke::Dashed, &|epsilon| concentrated(slots, epsilon, DELTAS[0])),
            curve("zero-concentrated, delta 1e-9", Stroke::Dashed, &|epsilon| concentrated(slots, epsilon, DELTAS[1])),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_144_slots_costs_144_times_as_much_at_most() {
        assert_eq!(plain(per_day(10), 1.0), 144.0);
    }

    #[test]
    fn zero_concentrated_privacy_comes_to_what_another_program_computed() {
        for (slots, epsilon, expected) in [(144, 0.1, 6.426), (288, 1.0, 230.889)] {
            let found = concentrated(slots, epsilon, 1e-6);
            assert!((found - expected).abs() < 0.001, "{slots} {epsilon}: {found}");
            // rho + 2 sqrt(rho ln(1/delta)) is the older and slightly larger conversion.
            let rho = f64::from(slots) * epsilon * epsilon / 2.0;
            assert!(found < rho + 2.0 * (rho * 1e6f64.ln()).sqrt());
        }
    }

    #[test]
    fn more_certainty_costs_more_and_never_more_than_adding_up() {
        for epsilon in EPSILONS {
            let [loose, strict] = DELTAS.map(|delta| concentrated(144, epsilon, delta));
            assert!(loose <= strict && strict <= plain(144, epsilon));
        }
        assert!(concentrated(144, 0.1, 1e-6) < 0.5 * plain(144, 0.1));
    }
}
