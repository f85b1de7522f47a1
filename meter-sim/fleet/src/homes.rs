//! The loads of a cluster's homes, whose time may pass faster than real time.

use std::collections::HashMap;

use dream_protocol::time::{Slot, Timestamp};

use dream_homes::home::Minutes;
use dream_homes::slots::{self, SECONDS_PER_DAY};
use dream_homes::source::Source;

/// The homes behind some meters.
#[derive(Debug)]
pub struct Homes {
    /// The index of each meter's home in the source.
    of: Vec<usize>,
    /// The loads of each home on the day that was asked for last.
    days: HashMap<usize, (u32, Box<Minutes>)>,
}

impl Homes {
    pub fn new(of: Vec<usize>) -> Self {
        Self { of, days: HashMap::new() }
    }

    /// Returns the mean power behind a meter in a slot, in watts. A file has a row for every slot, and starts over when it
    /// ends; in a simulated home time passes `speed` times as fast as between `begin` and `end`.
    pub fn watts(
        &mut self,
        source: &Source,
        speed: f64,
        meter: usize,
        slot: Slot,
        (begin, end): (Timestamp, Timestamp),
    ) -> i64 {
        let home = self.of[meter];
        match source {
            Source::Readings(readings) => {
                let column = readings.column(home);
                column[usize::try_from(slot.0 % column.len() as u64).expect("within the file")]
            }
            Source::Model { homes, calendar } => {
                let begin = own_seconds(begin, speed);
                let end = own_seconds(end, speed).max(begin + 1);
                let (mut at, mut joules) = (begin, 0);
                while at < end {
                    let (number, second) = (at / DAY, at % DAY);
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    let until = (end - at + second).min(DAY);
                    let seconds = usize::try_from(second).expect("of a day")..usize::try_from(until).expect("of a day");
                    let simulate = || (number, Box::new(homes[home].day(calendar.day(number)).total()));
                    let day = self.days.entry(home).or_insert_with(simulate);
                    if day.0 != number {
                        *day = simulate();
                    }
                    joules += slots::joules(&day.1, seconds);
                    at += until - second;
                }
                slots::mean(joules, i64::try_from(end - begin).unwrap_or(i64::MAX))
            }
        }
    }
}

const DAY: u64 = SECONDS_PER_DAY as u64;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since 1970, a thousand times")]
fn own_seconds(at: Timestamp, speed: f64) -> u64 {
    (at.as_millis() as f64 * speed / 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::{ActivityModel, Calendar, DayKind, Month, Residents};
    use dream_homes::readings::Readings;
    use dream_homes::slots::SlotLength;
    use dream_homes::street;

    fn span(begin: u64, end: u64) -> (Timestamp, Timestamp) {
        (Timestamp::from_millis(begin * 1000), Timestamp::from_millis(end * 1000))
    }

    fn model() -> (Source, Vec<i64>) {
        let homes = street::homes(1, 2, Residents::exactly(2).unwrap(), ActivityModel::Crest);
        let calendar = Calendar::Same(Month::new(6).unwrap(), DayKind::Weekend);
        let day = homes[1].day(calendar.day(3)).total();
        (Source::Model { homes, calendar }, SlotLength::new(600).unwrap().means(&day))
    }

    #[test]
    fn at_its_own_pace_a_home_draws_what_the_model_says() {
        let (source, day) = model();
        let mut homes = Homes::new(vec![0, 1]);
        for (slot, expected) in day.iter().enumerate() {
            let begin = 3 * DAY + slot as u64 * 600;
            let found = homes.watts(&source, 1.0, 1, Slot(slot as u64), span(begin, begin + 600));
            assert_eq!(found, *expected, "{slot}");
        }
    }

    #[test]
    fn short_slots_stand_for_long_ones() {
        let (source, day) = model();
        let mut homes = Homes::new(vec![1]);
        let begin = 3 * DAY / 150;
        for (slot, expected) in day.iter().enumerate() {
            let begin = begin + slot as u64 * 4;
            assert_eq!(homes.watts(&source, 150.0, 0, Slot(1), span(begin, begin + 4)), *expected, "{slot}");
        }
    }

    #[test]
    fn time_may_nearly_stand_still() {
        let (source, day) = model();
        let begin = 3 * DAY * 100;
        let found = Homes::new(vec![1]).watts(&source, 0.01, 0, Slot(1), span(begin + 1, begin + 2));
        assert!(day[0] > 0 && found > 0, "{found}");
    }

    #[test]
    fn a_slot_may_span_midnight() {
        let (source, _) = model();
        let mut homes = Homes::new(vec![0]);
        let mut watts = |begin, end| homes.watts(&source, 1.0, 0, Slot(1), span(begin, end));
        let (before, after) = (watts(4 * DAY - 300, 4 * DAY), watts(4 * DAY, 4 * DAY + 300));
        let both = watts(4 * DAY - 300, 4 * DAY + 300);
        assert!((2 * both - before - after).abs() <= 2, "{before} {after} {both}");
    }

    #[test]
    fn a_file_has_a_row_for_every_slot_and_starts_over() {
        let source = Source::Readings(Readings::parse("1,10\n2,20\n3,30\n", "three.csv".as_ref()).unwrap());
        let mut homes = Homes::new(vec![1]);
        let found = [3, 4, 5, 6].map(|slot| homes.watts(&source, 9.0, 0, Slot(slot), span(0, 600)));
        assert_eq!(found, [10, 20, 30, 10]);
    }
}
