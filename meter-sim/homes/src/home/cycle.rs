//! One appliance: off, possibly locked out, or somewhere in a cycle.

use super::appliances::{Appliance, Length, Power, Trigger};
use super::calendar::Month;
use super::draw::{self, Draw};
use super::life::{Stretch, Surroundings};

impl Surroundings<'_> {
    /// The probability that an appliance which is off and not locked out starts in a minute of this slot.
    fn start_probability(&self, appliance: &Appliance, active: u8, slot: usize) -> f64 {
        let present = if active > 0 { 1.0 } else { 0.0 };
        let factor = match appliance.trigger {
            Trigger::NightTariff => return night_tariff(self.day.month(), slot),
            Trigger::Always => 1.0,
            Trigger::Presence => present,
            Trigger::PresenceAndSeason => present * SPACE_HEATING[self.day.month().index()],
            Trigger::Doing(activity) => self.activities.probability(self.day.kind(), activity, active, slot),
        };
        appliance.start_probability * factor
    }
}

/// How much more often than on average over a year rooms are heated, January to December.
const SPACE_HEATING: [f64; 12] = [1.63, 1.821, 1.595, 0.867, 0.763, 0.191, 0.156, 0.087, 0.399, 0.936, 1.561, 1.994];

/// Storage heaters charge once a night, from 00:40. Their season is 227 days long, as many as the table gives them
/// cycles, and 14 January is its middle: from late September, when some are on already, to early May.
fn night_tariff(month: Month, slot: usize) -> f64 {
    const CHARGE_SLOT: usize = 4;
    const SWITCH_OVER: f64 = 0.05;
    const SEASON: [f64; 12] = [1.0, 1.0, 1.0, 1.0, SWITCH_OVER, 0.0, 0.0, 0.0, SWITCH_OVER, 1.0, 1.0, 1.0];
    if slot == CHARGE_SLOT { SEASON[month.index()] } else { 0.0 }
}

/// The specimen of a home.
#[derive(Debug)]
pub(super) struct Machine {
    appliance: &'static Appliance,
    /// What it draws, unless it has a programme.
    rated: i32,
    state: State,
    starts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For so many more minutes it cannot start.
    Off { locked: u32 },
    /// So many minutes of its cycle are over.
    On { over: u32, length: u32 },
}

impl Machine {
    /// Off.
    pub(super) fn at_midnight(appliance: &'static Appliance, draw: &mut Draw) -> Self {
        let rated = match appliance.power {
            Power::Rated(mean) => draw::watts(draw.normal(mean, mean / 10.0)).max(0),
            Power::Washing => 0,
        };
        let locked = draw.below(2 * appliance.restart);
        Self { appliance, rated, state: State::Off { locked }, starts: 0 }
    }

    /// Lives through a stretch of a day and says what it does in it.
    pub(super) fn live(&mut self, surroundings: &Surroundings<'_>, draw: &mut Draw) -> Stretch {
        let before = self.starts;
        let mut watts = Vec::with_capacity(10 * surroundings.active.len());
        for (slot, &active) in (surroundings.first_slot..).zip(surroundings.active) {
            let start = surroundings.start_probability(self.appliance, active, slot);
            watts.extend(std::iter::repeat_with(|| self.minute(active > 0, start, draw)).take(10));
        }
        let Appliance { device, standby, .. } = *self.appliance;
        Stretch { device, starts: self.starts - before, standby, watts }
    }

    /// Lives through one minute and says what it draws.
    fn minute(&mut self, anyone_active: bool, start_probability: f64, draw: &mut Draw) -> i32 {
        match self.state {
            State::Off { locked: 0 } if draw.chance(start_probability) => {
                self.starts += 1;
                let length = draw_length(self.appliance.length, draw);
                self.advance(0, length)
            }
            State::Off { locked } => {
                self.state = State::Off { locked: locked.saturating_sub(1) };
                self.appliance.standby
            }
            State::On { .. } if !anyone_active && self.appliance.trigger.pauses() => self.appliance.standby,
            State::On { over, length } => self.advance(over, length),
        }
    }

    /// The next minute of the cycle; after the last one it is off, and locked out.
    fn advance(&mut self, over: u32, length: u32) -> i32 {
        let over = over + 1;
        self.state =
            if over < length { State::On { over, length } } else { State::Off { locked: self.appliance.restart } };
        match self.appliance.power {
            Power::Rated(_) => self.rated,
            Power::Washing => washing(over),
        }
    }
}

fn draw_length(length: Length, draw: &mut Draw) -> u32 {
    let minutes = match length {
        Length::Fixed(minutes) => return minutes,
        Length::Television => (70.0 * draw.exponential().powf(1.1)).round(),
        Length::Spread(mean) => draw.normal(mean, mean / 10.0).round(),
    };
    draw::floor(minutes).max(1)
}

/// What a washing machine draws in this minute of its cycle, from 1; a washer-dryer then goes on to dry.
fn washing(minute: u32) -> i32 {
    match minute {
        9..=29 => 2056,
        93..=94 | 106..=107 | 119..=120 | 132..=133 => 250,
        134..=138 => 568,
        139.. => 2500,
        _ => 73,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::activity::ActivityModel;
    use crate::home::appliances::Device;
    use crate::home::calendar::{Calendar, DayKind};

    fn appliance(name: &str) -> &'static Appliance {
        Appliance::of(Device::named(name).unwrap())
    }

    /// A day on which so many residents are active in each slot.
    fn day(name: &str, month: u8, seed: u64, active: impl Fn(usize) -> u8) -> Stretch {
        let day = Calendar::Same(Month::new(month).unwrap(), DayKind::Weekday).day(1);
        let active: Vec<u8> = (0..144).map(active).collect();
        let surroundings = Surroundings { day, first_slot: 0, active: &active, activities: ActivityModel::Crest };
        let mut draw = Draw::of_home(seed, 1);
        Machine::at_midnight(appliance(name), &mut draw).live(&surroundings, &mut draw)
    }

    /// A machine that was just switched on, after its first minute.
    fn started(name: &str, draw: &mut Draw) -> Machine {
        let mut machine = Machine { state: State::Off { locked: 0 }, ..Machine::at_midnight(appliance(name), draw) };
        machine.minute(true, 1.0, draw);
        machine
    }

    /// Lengths of the runs of minutes in which it draws more than its standby, without those that midnight cuts off.
    fn runs(load: &Stretch) -> Vec<usize> {
        let pieces: Vec<usize> = load.watts.split(|watts| *watts == load.standby).map(<[i32]>::len).collect();
        pieces[..pieces.len() - 1].iter().copied().filter(|length| *length > 0).collect()
    }

    #[test]
    fn the_minute_of_the_start_draws_power_and_counts() {
        let mut draw = Draw::of_home(1, 1);
        let mut kettle =
            Machine { state: State::Off { locked: 0 }, ..Machine::at_midnight(appliance("kettle"), &mut draw) };
        let powers = [1.0, 0.0, 0.0, 0.0].map(|start| kettle.minute(true, start, &mut draw));
        assert_eq!(powers, [kettle.rated, kettle.rated, kettle.rated, 1]);
        assert_eq!(kettle.starts, 1);
    }

    #[test]
    fn a_cycle_pauses_while_nobody_is_active_and_keeps_its_rest() {
        let mut draw = Draw::of_home(1, 1);
        let mut hob = started("hob", &mut draw);
        for _ in 0..100 {
            assert_eq!(hob.minute(false, 0.0, &mut draw), 1);
        }
        assert_eq!(hob.state, State::On { over: 1, length: 16 });
        for _ in 1..16 {
            assert_eq!(hob.minute(true, 0.0, &mut draw), hob.rated);
        }
        assert_eq!(hob.minute(true, 0.0, &mut draw), 1);
    }

    #[test]
    fn laundry_goes_on_in_an_empty_home() {
        let mut draw = Draw::of_home(1, 1);
        let mut machine = started("washing_machine", &mut draw);
        let drawn: Vec<i32> = (2..=139).map(|_| machine.minute(false, 0.0, &mut draw)).collect();
        assert_eq!(drawn[136], 568, "minute 138, the last");
        assert_eq!(drawn[137], 1, "standby");
    }

    #[test]
    fn a_fridge_rests_before_it_starts_again() {
        let mut draw = Draw::of_home(1, 1);
        let mut fridge = started("fridge", &mut draw);
        (1..18).for_each(|_| assert_eq!(fridge.minute(false, 1.0, &mut draw), fridge.rated));
        (0..36).for_each(|_| assert_eq!(fridge.minute(false, 1.0, &mut draw), 0));
        assert_eq!(fridge.minute(false, 1.0, &mut draw), fridge.rated);
    }

    #[test]
    fn a_day_begins_with_a_rest_of_up_to_twice_the_usual() {
        let locks =
            (0..500).map(|seed| match Machine::at_midnight(appliance("fridge"), &mut Draw::of_home(seed, 1)).state {
                State::Off { locked } => locked,
                State::On { .. } => unreachable!("off at midnight"),
            });
        let locks: Vec<u32> = locks.collect();
        // Each of the 72 values is missed by 500 draws with probability 0.0009; the extremes of these seeds are hit.
        assert_eq!((locks.iter().min(), locks.iter().max()), (Some(&0), Some(&71)));
    }

    #[test]
    fn fridges_run_in_an_empty_home_and_kettles_do_not() {
        assert!(day("fridge", 11, 1, |_| 0).starts > 10);
        let kettle = day("kettle", 11, 1, |_| 0);
        assert_eq!(kettle.starts, 0);
        assert!(kettle.watts.iter().all(|watts| *watts == 1), "standby");
        let kettle = day("kettle", 11, 1, |slot| u8::from(slot >= 72));
        assert!(kettle.starts > 0 && kettle.watts[..720].iter().all(|watts| *watts == 1));
    }

    #[test]
    fn what_only_stands_by_never_starts() {
        for name in ["answer_machine", "clock", "phone"] {
            let load = day(name, 11, 1, |_| 5);
            assert_eq!((load.starts, load.watts.iter().max()), (0, Some(&load.standby)), "{name}");
        }
    }

    #[test]
    fn a_washing_machine_follows_its_programme() {
        let by_phase = [(8, 73), (21, 2056), (63, 73), (2, 250), (11, 73), (2, 250), (11, 73), (2, 250), (11, 73)];
        let by_phase = by_phase.into_iter().chain([(2, 250), (5, 568), (60, 2500)]);
        let expected: Vec<i32> = by_phase.flat_map(|(minutes, watts)| std::iter::repeat_n(watts, minutes)).collect();
        assert_eq!((1..=198).map(washing).collect::<Vec<_>>(), expected);
        // The table's mean power of a cycle is that of the programme, to a per cent.
        let mean = f64::from(expected[..138].iter().sum::<i32>()) / 138.0;
        assert!((mean - 405.5).abs() < 4.0, "{mean}");
    }

    #[test]
    fn a_storage_heater_charges_at_night_in_winter() {
        for month in [10, 11, 12, 1, 2, 3, 4] {
            let load = day("storage_heater", month, 1, |_| 0);
            assert_eq!(load.starts, 1, "month {month}");
            assert!(load.watts[..40].iter().all(|watts| *watts == 0) && load.watts[40] > 5000);
            let lasted = runs(&load);
            assert!(lasted.len() == 1 && (216..504).contains(&lasted[0]), "{lasted:?}: four deviations around 360");
        }
    }

    #[test]
    fn a_storage_heater_rests_in_summer_and_is_on_in_some_homes_between() {
        assert!(
            [6, 7, 8].iter().all(|month| (0..200).all(|seed| day("storage_heater", *month, seed, |_| 1).starts == 0))
        );
        for month in [5, 9] {
            let on: u32 = (0..400).map(|seed| day("storage_heater", month, seed, |_| 0).starts).sum();
            // Ten minutes at 0.05 each: 0.401 of the homes, and five standard errors are 0.123.
            assert!((f64::from(on) / 400.0 - 0.401).abs() < 0.123, "{on}");
        }
    }

    #[test]
    fn rooms_are_heated_by_the_season() {
        let starts = |month| (0..3000).map(|seed| day("elec_space_heating", month, seed, |_| 1).starts).sum::<u32>();
        let [august, november] = [8, 11].map(starts).map(f64::from);
        // While it is off it starts every 4,820 minutes in August, and runs for 240 then; every 270 in November.
        assert!(november / 3000.0 > 2.0 && november / 3000.0 < 4.0, "{november}");
        assert!((august / 3000.0 - 0.000_207_5 * 1440.0).abs() < 0.06, "{august}");
    }

    #[test]
    fn television_lasts_73_minutes_on_average() {
        let mut draw = Draw::of_home(1, 1);
        let lengths: Vec<u32> = (0..20_000).map(|_| draw_length(Length::Television, &mut draw)).collect();
        let mean = f64::from(lengths.iter().sum::<u32>()) / 20_000.0;
        // The deviation is about 81 minutes: five standard errors are 2.9.
        assert!((mean - 73.3).abs() < 2.9, "{mean}");
        assert!(lengths.iter().all(|length| *length >= 1));
    }

    #[test]
    fn specimens_differ_by_a_tenth() {
        let rated: Vec<f64> =
            (0..2000).map(|seed| f64::from(started("kettle", &mut Draw::of_home(seed, 1)).rated)).collect();
        let mean = rated.iter().sum::<f64>() / 2000.0;
        let deviation = (rated.iter().map(|watts| (watts - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
        // Five standard errors each.
        assert!((mean - 2000.0).abs() < 22.4 && (deviation - 200.0).abs() < 15.9, "{mean} {deviation}");
    }

    #[test]
    fn cooking_is_done_by_cooks_at_cooking_times() {
        let starts = |slots: std::ops::Range<usize>| -> u32 {
            (0..300).map(|seed| day("hob", 11, seed, |slot| u8::from(slots.contains(&slot))).starts).sum()
        };
        let (night, evening) = (starts(6..18), starts(99..111));
        assert!(evening > 4 * night, "{night} {evening}");
    }
}
