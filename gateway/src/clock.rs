//! The wall clock, handed to whoever needs it: tests and demonstrations run gateways in a time of their own.

mod zone;

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

pub use zone::{Period, Zone};

/// Tells the time. It may be set, and jump, while nothing happens.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time by which slots begin and end.
    fn now(&self) -> Timestamp;

    /// Returns for how long to sleep until the clock has gone on by `span`.
    fn to_sleep(&self, span: Duration) -> Duration {
        span
    }
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Writes an instant as RFC 3339 in UTC. Instants beyond the year 9999 are shown as its end.
///
/// An answer of the API has one for each of up to 100,000 slots, so this is not left to the calendar, which is built for a short
/// build and not for speed.
pub fn rfc3339(at: Timestamp) -> String {
    let (year, month, day) = date(at.as_millis() / 86_400_000);
    if year >= 9999 {
        return calendar(at).to_string();
    }
    let (seconds, millis) = (at.as_millis() / 1000 % 86_400, at.as_millis() % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if millis == 0 { whole + "Z" } else { format!("{whole}.{millis:03}").trim_end_matches('0').to_owned() + "Z" }
}

/// Returns year, month and day of a day that is counted from the beginning of 1970. Years begin in March here, so that a leap day
/// is their last, and 400 of them have 146,097 days.
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

/// Returns an instant of the calendar.
pub(crate) fn calendar(at: Timestamp) -> jiff::Timestamp {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_the_calendar_writes_them() {
        // Every day of 400 years with its own time of the day, and instants that are unlike others.
        let days = (0..146_097).map(|day| day * 86_400_000 + day * 997 % 86_400 * 1000 + day % 7 * 150);
        let others = [0, 1, 10, 951_782_399_999, 951_782_400_000, 253_370_764_799_999, 253_370_764_800_000, u64::MAX];
        for millis in days.chain(others) {
            let at = Timestamp::from_millis(millis);
            assert_eq!(rfc3339(at), calendar(at).to_string(), "{millis}");
        }
        assert_eq!(rfc3339(Timestamp::from_millis(1_794_890_000_050)), "2026-11-17T04:33:20.05Z");
    }
}
