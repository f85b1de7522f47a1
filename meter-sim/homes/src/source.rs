//! Where the loads of homes come from: the model, or a file of one's own readings.

use crate::home::{ActivityModel, Calendar, DayKind, Home, Month, PvShare};
use crate::readings::Readings;
use crate::street;

/// The loads of some homes.
#[derive(Debug)]
pub enum Source {
    Model {
        homes: Vec<Home>,
        calendar: Calendar,
    },
    /// Each row is a slot. After its last row a file starts over.
    Readings(Readings),
}

impl Source {
    /// So many simulated homes of one to five residents, on weekdays in November.
    pub fn street(seed: u64, homes: u32) -> Self {
        let homes = street::usual_homes(seed, homes, ActivityModel::Crest);
        Self::Model { homes, calendar: weekdays(Month::NOVEMBER) }
    }

    /// The same homes in another month, some of them with panels on their roofs. A file stays as it is.
    #[must_use]
    pub fn with_pv(self, share: PvShare, month: Month) -> Self {
        match self {
            Self::Model { homes, .. } => {
                Self::Model { homes: street::with_pv(homes, share), calendar: weekdays(month) }
            }
            Self::Readings(readings) => Self::Readings(readings),
        }
    }

    pub fn homes(&self) -> usize {
        match self {
            Self::Model { homes, .. } => homes.len(),
            Self::Readings(readings) => readings.homes(),
        }
    }

    /// How much each home uses, to compare them: over a day of the model, or over the whole file.
    pub fn consumption(&self) -> Vec<i64> {
        match self {
            Self::Model { homes, calendar } => {
                let day = calendar.day(0);
                let used = |home: &Home| home.day(day).total().iter().map(|&watts| i64::from(watts)).sum();
                street::in_parallel(street::all_cores(), homes, used)
            }
            Self::Readings(readings) => (0..readings.homes()).map(|home| readings.column(home).iter().sum()).collect(),
        }
    }
}

fn weekdays(month: Month) -> Calendar {
    Calendar::Same(month, DayKind::Weekday)
}
