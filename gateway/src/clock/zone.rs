//! The operator's time zone: when hours, days and months begin, and what clocks show where the homes are.

use std::ops::Range;

use dream_edge::cut_off::Moment;
use dream_filter::LocalTime;
use dream_protocol::time::Timestamp;
use jiff::Zoned;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use super::calendar;

/// A time zone by its name in the IANA database, which is part of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

/// What is counted from and to a moment that clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    Hour,
    Day,
    Month,
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Returns the zone of a name such as `Europe/Amsterdam`; `None` if it does not exist.
    pub fn named(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns what clocks show at an instant.
    pub fn local_time(&self, at: Timestamp) -> LocalTime {
        let local = self.zoned(at);
        let (hour, minute, second) = (local.hour(), local.minute(), local.second());
        let seconds = 3600 * i32::from(hour) + 60 * i32::from(minute) + i32::from(second);
        LocalTime {
            second_of_day: u32::try_from(seconds).unwrap_or(0),
            weekend: matches!(local.weekday(), Weekday::Saturday | Weekday::Sunday),
        }
    }

    /// Returns the same with the day of the year, for what meters cut off.
    pub fn moment(&self, at: Timestamp) -> Moment {
        let LocalTime { second_of_day, weekend } = self.local_time(at);
        Moment { second_of_day, day_of_year: self.zoned(at).day_of_year().unsigned_abs(), weekend }
    }

    /// Returns the hour, day or month that an instant is in: from its beginning to just before its end. Days have 23 or 25
    /// hours when clocks change. Hours are counted from midnight, so that they never overlap.
    pub fn bounds(&self, period: Period, at: Timestamp) -> Range<Timestamp> {
        let local = self.zoned(at);
        let day = || {
            let start = local.start_of_day();
            let end = local.tomorrow().and_then(|next| next.start_of_day());
            start.and_then(|start| Ok(timestamp(&start)..timestamp(&end?)))
        };
        let found = match period {
            Period::Hour => day().map(|day| hour(&day, at)),
            Period::Day => day(),
            Period::Month => local.first_of_month().and_then(|first| {
                let next = local.last_of_month().and_then(|last| last.tomorrow());
                Ok(timestamp(&first.start_of_day()?)..timestamp(&next?.start_of_day()?))
            }),
        };
        // The calendar ends with the year 9999.
        found.unwrap_or(at..Timestamp::from_millis(u64::MAX))
    }

    fn zoned(&self, at: Timestamp) -> Zoned {
        calendar(at).to_zoned(self.0.clone())
    }
}

/// Returns the hour that an instant of a day is in. Where a day is not a whole number of hours long, the last is shorter.
fn hour(day: &Range<Timestamp>, at: Timestamp) -> Range<Timestamp> {
    const HOUR: u64 = 3_600_000;
    let since = at.as_millis().saturating_sub(day.start.as_millis());
    let start = day.start.as_millis() + since / HOUR * HOUR;
    Timestamp::from_millis(start)..Timestamp::from_millis(start + HOUR).min(day.end)
}

/// Returns an instant of the calendar as one of slots; what was before 1970 counts as its beginning.
fn timestamp(at: &Zoned) -> Timestamp {
    Timestamp::from_millis(u64::try_from(at.timestamp().as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_millis(u64::try_from(instant.as_millisecond()).unwrap())
    }

    fn hours(range: &Range<Timestamp>) -> f64 {
        (range.end.as_millis() - range.start.as_millis()) as f64 / 3_600_000.0
    }

    #[test]
    fn days_are_those_of_the_clocks_also_when_they_change() {
        let zone = Zone::named("Europe/Amsterdam").unwrap();
        for (noon, start, length) in [
            ("2026-03-29T11:00:00Z", "2026-03-28T23:00:00Z", 23.0),
            ("2026-10-25T11:00:00Z", "2026-10-24T22:00:00Z", 25.0),
            ("2026-11-17T11:00:00Z", "2026-11-16T23:00:00Z", 24.0),
        ] {
            let day = zone.bounds(Period::Day, at(noon));
            assert_eq!((day.start, hours(&day)), (at(start), length));
            assert_eq!(zone.bounds(Period::Day, day.start), day, "its first moment is in it");
            assert_eq!(zone.bounds(Period::Day, day.end).start, day.end, "its end is in the next");
            let mut hour = zone.bounds(Period::Hour, day.start);
            while hour.end < day.end {
                let next = zone.bounds(Period::Hour, hour.end);
                assert_eq!((next.start, hours(&next)), (hour.end, 1.0));
                hour = next;
            }
            assert_eq!(hour.end, day.end);
        }
        let march = zone.bounds(Period::Month, at("2026-03-05T00:00:00Z"));
        assert_eq!((march.start, march.end), (at("2026-02-28T23:00:00Z"), at("2026-03-31T22:00:00Z")));
    }

    #[test]
    fn hours_of_a_zone_that_changes_by_half_an_hour_do_not_overlap() {
        let zone = Zone::named("Australia/Lord_Howe").unwrap();
        let day = zone.bounds(Period::Day, at("2026-04-05T03:00:00Z"));
        assert_eq!(hours(&day), 24.5);
        let last = zone.bounds(Period::Hour, Timestamp::from_millis(day.end.as_millis() - 1));
        assert_eq!((last.end, hours(&last)), (day.end, 0.5));
    }

    #[test]
    fn clocks_show_the_time_of_the_zone_and_its_weekends() {
        let zone = Zone::named("Pacific/Auckland").unwrap();
        // Friday afternoon in UTC is Saturday morning there.
        let local = zone.local_time(at("2026-11-20T17:30:05Z"));
        assert_eq!(local, LocalTime { second_of_day: 6 * 3600 + 30 * 60 + 5, weekend: true });
        let utc = Zone::default();
        for instant in [at("2026-11-20T17:30:05Z"), at("2026-11-21T00:00:00Z"), at("2026-11-22T23:59:59Z")] {
            assert_eq!(utc.local_time(instant), LocalTime::utc(instant.as_millis()));
        }
    }

    #[test]
    fn the_end_of_the_calendar_is_no_end_of_the_gateway() {
        let end = Timestamp::from_millis(u64::MAX);
        for period in [Period::Hour, Period::Day, Period::Month] {
            assert_eq!(Zone::default().bounds(period, end).end, end);
        }
    }
}
