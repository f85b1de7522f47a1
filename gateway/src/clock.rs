//! The wall clock, handed to whoever needs it: tests and demonstrations run gateways in a time of their own.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

/// Tells the time. It may be set, and jump, while nothing happens.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time by which slots begin and end.
    fn now(&self) -> Timestamp;

    /// Returns for how long to sleep until the clock has gone on by `span`.
    fn to_sleep(&self, span: Duration) -> Duration {
        span
    }

    /// Returns whether this is the time of a simulation, which pages then say.
    fn is_simulated(&self) -> bool {
        false
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
pub fn rfc3339(at: Timestamp) -> String {
    calendar(at).to_string()
}

/// Returns an instant of the calendar.
pub(crate) fn calendar(at: Timestamp) -> jiff::Timestamp {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
}
