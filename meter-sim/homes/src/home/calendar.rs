//! Which day it is, as far as a household's habits depend on it.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan as _;
use thiserror::Error;

/// A day to simulate: one of a calendar, which knows what the day before was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    number: u32,
    calendar: Calendar,
}

impl Day {
    /// Tells days of the same kind and month apart: each number has randomness of its own.
    pub fn number(self) -> u32 {
        self.number
    }

    pub fn month(self) -> Month {
        match self.calendar {
            Calendar::Year => Month::from_november(self.number.saturating_sub(1)),
            Calendar::Of(month) | Calendar::Same(month, _) => month,
        }
    }

    pub fn kind(self) -> DayKind {
        match self.calendar {
            Calendar::Year | Calendar::Of(_) => DayKind::of(self.number),
            Calendar::Same(_, kind) => kind,
        }
    }

    /// The day before; day 0 is its own.
    pub(super) fn before(self) -> Self {
        Self { number: self.number.saturating_sub(1), ..self }
    }

    /// The day and all that follow.
    pub(super) fn and_after(self) -> impl Iterator<Item = Self> {
        (self.number..).map(move |number| Self { number, ..self })
    }
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

/// Days in a row. Where there are weeks, the first is a Monday, and every sixth and seventh day is a weekend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Calendar {
    /// Through all months, from the first of November, the paper's month; after a year of 365 days again.
    #[default]
    Year,
    /// In one month for ever.
    Of(Month),
    /// In one month for ever, without weeks: all days are of one kind.
    Same(Month, DayKind),
}

impl Calendar {
    pub const DAYS_OF_A_YEAR: u32 = 365;

    /// The day of this number, from 1.
    pub fn day(self, number: u32) -> Day {
        Day { number, calendar: self }
    }
}

impl DayKind {
    /// Of the day of this number, if day 1 is a Monday.
    fn of(number: u32) -> Self {
        if matches!(number % 7, 6 | 0) { Self::Weekend } else { Self::Weekday }
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

    /// The month so many days after the first of November, in years without a leap day.
    fn from_november(days: u32) -> Self {
        let day = jiff::civil::date(2025, 11, 1).saturating_add(i64::from(days % Calendar::DAYS_OF_A_YEAR).days());
        Self(day.month().unsigned_abs())
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
        jiff::civil::date(2025, self.0.cast_signed(), 1).strftime("%B").fmt(f)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_has_five_weekdays_and_then_a_weekend() {
        let june = Calendar::Of(Month(6));
        let kinds: String =
            (1..=15).map(|number| if june.day(number).kind() == DayKind::Weekend { 'e' } else { 'd' }).collect();
        assert_eq!(kinds, "dddddeedddddeed");
        assert!((1..400).all(|number| june.day(number).month() == Month(6)));
    }

    #[test]
    fn a_year_runs_through_all_months_from_november() {
        let month = |number| Calendar::Year.day(number).month().0;
        assert_eq!([1, 30, 31, 61, 62, 92, 93, 120, 121].map(month), [11, 11, 12, 12, 1, 1, 2, 2, 3]);
        assert_eq!([365, 366].map(month), [10, 11]);
        let count = |of| (1..=Calendar::DAYS_OF_A_YEAR).filter(|number| month(*number) == of).count();
        assert_eq!((1..=12).map(count).collect::<Vec<_>>(), [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
    }

    #[test]
    fn a_day_knows_what_the_day_before_was() {
        let december = Calendar::Year.day(31).before();
        assert_eq!((december.number(), december.month()), (30, Month::NOVEMBER));
        let monday = Calendar::Of(Month(6)).day(8);
        assert_eq!((monday.kind(), monday.before().kind()), (DayKind::Weekday, DayKind::Weekend));
        let same = Calendar::Same(Month(6), DayKind::Weekday);
        assert!((1..15).all(|number| same.day(number).before().kind() == DayKind::Weekday));
    }
}
