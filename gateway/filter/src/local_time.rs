//! What the clocks say where the homes are, as far as habits follow it.

const DAY_SECONDS: u32 = 86_400;

/// A moment by the clocks where the homes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Since midnight, by what the clock shows: an hour is left out of a day in spring, and one comes twice in autumn.
    pub second_of_day: u32,
    /// Whether the day is a Saturday or a Sunday. Public holidays count as the day of the week that they are on.
    pub weekend: bool,
}

impl LocalTime {
    /// Returns the time of UTC, for callers without a zone.
    pub fn utc(millis: u64) -> Self {
        let (seconds, day) = (millis / 1000, u64::from(DAY_SECONDS));
        let second_of_day = u32::try_from(seconds % day).expect("a day has fewer seconds");
        // The first day of Unix time was a Thursday.
        Self { second_of_day, weekend: matches!(seconds / day % 7, 2 | 3) }
    }

    /// Returns the seconds since midnight, below a day whatever a caller says.
    pub(crate) fn time(self) -> f64 {
        f64::from(self.second_of_day % DAY_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekends_of_utc_are_its_saturdays_and_sundays() {
        let weekends: Vec<u64> = (0..14).filter(|day| LocalTime::utc(day * 86_400_000).weekend).collect();
        assert_eq!(weekends, [2, 3, 9, 10], "1970 began on a Thursday");
        // 2026-11-14T23:59:59.999Z was a Saturday, and a day later a Sunday's end.
        let saturday = LocalTime { second_of_day: 86_399, weekend: true };
        assert_eq!(LocalTime::utc(1_794_700_799_999), saturday);
        assert_eq!(LocalTime::utc(1_794_787_200_000), LocalTime { second_of_day: 0, weekend: false });
    }
}
