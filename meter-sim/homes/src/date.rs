//! Days of the calendar, as far as weekends follow from them.

use std::str::FromStr;

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Since 1970-01-01.
    days: u64,
}

impl Date {
    /// Returns the date that an instant begins with, such as `2026-11-17T10:00:00Z` or `2026-11-17 10:00`.
    pub fn of_instant(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        if rest.starts_with(|after: char| after.is_ascii_digit()) { None } else { date.parse().ok() }
    }

    /// Returns how many days it is after a Monday, below 7.
    pub fn weekday(self) -> u64 {
        // The first of January 1970 was a Thursday.
        (self.days + 3) % 7
    }
}

impl FromStr for Date {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or("it is no date; use year, month and day from 1970 on, such as 2026-11-17")
    }
}

fn parse(text: &str) -> Option<Date> {
    let mut parts = text.split('-').map(|part| part.parse::<u64>().ok().filter(|_| !part.starts_with('+')));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let exists = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=length(year, month)).contains(&day);
    if !exists || parts.next().is_some() {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| length(year, month)).sum();
    Some(Date { days: years + months + day - 1 })
}

/// Returns how many days a month has.
fn length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekdays_are_those_of_the_calendar() {
        let monday = ["1970-01-05", "2000-02-28", "2024-03-04", "2026-11-16"];
        assert!(monday.iter().all(|date| date.parse::<Date>().unwrap().weekday() == 0));
        assert_eq!("2024-02-29".parse::<Date>().unwrap().weekday(), 3);
        assert_eq!("1970-01-01".parse::<Date>().unwrap().weekday(), 3);
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in
            ["", "2026", "2026-11", "2026-13-01", "2026-02-29", "2026-11-0", "1969-12-31", "2026-11-17-1", "+2026-1-1"]
        {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_instant_begins_with_its_date() {
        let date = "2026-11-17".parse().ok();
        for text in ["2026-11-17", "2026-11-17T10:00:00Z", "2026-11-17 10:00"] {
            assert_eq!(Date::of_instant(text), date, "{text}");
        }
        for text in ["1795132800", "17/11/2026 10:00", "2026-11-171", "slot 7", "ümlaut-ü-ü"] {
            assert_eq!(Date::of_instant(text), None, "{text}");
        }
    }
}
