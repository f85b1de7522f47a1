//! The wall clock, handed to whoever needs it: tests run gateways in a time of their own.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

/// Tells the time. It may be set, and jump, while nothing happens.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time by which slots begin and end.
    fn now(&self) -> Timestamp;
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
