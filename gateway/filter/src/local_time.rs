//! What clocks show where the homes are: people get up by them, not by UTC.

/// The time of day and the kind of day in the middle of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Below 86,400, whatever the length of the day.
    pub second_of_day: u32,
    /// Saturday or Sunday.
    pub weekend: bool,
}

impl LocalTime {
    /// Returns the local time of an instant, in milliseconds of Unix time, where clocks show UTC.
    pub fn utc(millis: u64) -> Self {
        const DAY_MILLIS: u64 = 86_400_000;
        let second_of_day = u32::try_from(millis % DAY_MILLIS / 1000).expect("a day has fewer seconds");
        // The first of January 1970 was a Thursday.
        Self { second_of_day, weekend: matches!(millis / DAY_MILLIS % 7, 2 | 3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekends_of_utc_are_those_of_the_calendar() {
        // 2026-11-20 was a Friday.
        let friday = 1_795_132_800_000;
        let weekend = [false, true, true, false, false, false, false];
        for (day, weekend) in (0..).zip(weekend) {
            let last = friday + day * 86_400_000 + 86_399_999;
            assert_eq!(LocalTime::utc(last), LocalTime { second_of_day: 86_399, weekend });
            assert_eq!(LocalTime::utc(last - 86_399_999), LocalTime { second_of_day: 0, weekend });
        }
    }
}
