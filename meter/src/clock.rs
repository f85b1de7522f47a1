//! The clocks of this machine, and whether its wall clock is right.

mod synchronised;

use std::time::{SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

pub use synchronised::{Synchronised, SystemTimeSource, TimeSource};

/// Returns the time of day, which somebody may set.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Writes Unix seconds as a time in UTC, to the minute.
pub fn utc(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Returns year, month and day of a day that is counted from the beginning of 1970. Years begin in March here, so that a leap
/// day is their last, and 400 of them have 146,097 days.
const fn date(days: u64) -> (u64, u64, u64) {
    let since = days + 719_468; // 0000-03-01
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let (month, next) = if from_march < 10 { (from_march + 3, 0) } else { (from_march - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_868_740, "2000-02-29 23:59 UTC"),
            (1_794_960_000, "2026-11-18 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
