//! Which day it is, as far as a household's habits depend on it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A day to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Tells days of the same kind and month apart: each number has randomness of its own.
    pub number: u32,
    pub month: Month,
    pub kind: DayKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayKind {
    Weekday,
    Weekend,
}

impl DayKind {
    /// The one of a pair of tables that is for this kind of day.
    pub(super) fn choose<T>(self, [weekday, weekend]: &[T; 2]) -> &T {
        match self {
            Self::Weekday => weekday,
            Self::Weekend => weekend,
        }
    }
}

impl fmt::Display for DayKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: &&str = self.choose(&["weekday", "weekend"]);
        f.write_str(name)
    }
}

/// A month, 1 to 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month(u8);

impl Month {
    /// The month that the paper looks at.
    pub const NOVEMBER: Self = Self(11);

    pub fn new(month: u8) -> Result<Self, MonthError> {
        if (1..=12).contains(&month) { Ok(Self(month)) } else { Err(MonthError) }
    }

    /// Counts from 0, for tables.
    pub(super) fn index(self) -> usize {
        usize::from(self.0) - 1
    }

    /// The middle of the month as a day of the year, from 1.
    pub(super) fn middle(self) -> u16 {
        [15, 46, 74, 105, 135, 166, 196, 227, 258, 288, 318, 349][self.index()]
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        f.write_str(NAMES[self.index()])
    }
}

impl FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        text.parse().map_err(|_| MonthError).and_then(Self::new)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use a month from 1 to 12")]
pub struct MonthError;
