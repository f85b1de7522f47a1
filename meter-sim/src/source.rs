//! Where the loads of homes come from: the model, or a file of one's own readings.

use crate::home::{Day, DayKind, Home, Month};
use crate::readings::Readings;
use crate::slots::SlotLength;

/// The loads of some homes, slot by slot.
#[derive(Debug)]
pub enum Source {
    Model {
        homes: Vec<Home>,
        month: Month,
        kind: DayKind,
    },
    /// Each row is a slot. After its last row a file starts over.
    Readings(Readings),
}

impl Source {
    pub fn homes(&self) -> usize {
        match self {
            Self::Model { homes, .. } => homes.len(),
            Self::Readings(readings) => readings.homes(),
        }
    }

    /// What a home, counted from 0, draws in each slot of a day, counted from 0: the mean in watts, negative if it feeds
    /// in.
    ///
    /// # Panics
    ///
    /// If there is no such home.
    pub fn day(&self, home: usize, number: u32, slot: SlotLength) -> Vec<i64> {
        match self {
            Self::Model { homes, month, kind } => {
                let day = Day { number, month: *month, kind: *kind };
                slot.means(&homes[home].day(day).total())
            }
            Self::Readings(readings) => {
                let column = readings.column(home);
                let first = number as usize * slot.per_day();
                (first..first + slot.per_day()).map(|row| column[row % column.len()]).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{ActivityModel, Residents};
    use crate::street;

    #[test]
    fn the_model_gives_what_the_home_draws() {
        let homes = street::homes(1, 2, Residents::exactly(2).unwrap(), ActivityModel::Crest);
        let (month, kind) = (Month::new(6).unwrap(), DayKind::Weekend);
        let expected = homes[1].day(Day { number: 3, month, kind }).total().map(i64::from);
        let source = Source::Model { homes, month, kind };
        assert_eq!(source.homes(), 2);
        assert_eq!(source.day(1, 3, SlotLength::new(60).unwrap()), expected);
    }

    #[test]
    fn a_file_starts_over_when_it_ends() {
        let source = Source::Readings(Readings::parse("1,10\n2,20\n3,30\n", "three.csv".as_ref()).unwrap());
        let quarter = SlotLength::new(21_600).unwrap();
        assert_eq!(source.homes(), 2);
        assert_eq!(source.day(0, 0, quarter), [1, 2, 3, 1]);
        assert_eq!(source.day(1, 1, quarter), [20, 30, 10, 20]);
    }
}
