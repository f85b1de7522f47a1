//! The clocks, passed in where they are needed: tests and demonstrations run in a time of their own.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dream_protocol::time::{Now, Timestamp};

/// Tells the time. The wall clock may be set, and jump, while nothing happens.
pub trait Clock: Debug + Send + Sync {
    /// Returns the wall clock, and one beside it that is never set.
    fn both(&self) -> Now;

    /// Returns the time by which slots begin and end.
    fn now(&self) -> Timestamp {
        self.both().wall
    }

    /// Returns for how long to sleep until the clock has gone on by `span`.
    fn to_sleep(&self, span: Duration) -> Duration {
        span
    }

    /// Returns whether this is the time of a simulation, which pages then say.
    fn is_simulated(&self) -> bool {
        false
    }
}

/// The clocks of this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn both(&self) -> Now {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        Now { wall: wall(), monotonic_millis: millis(START.elapsed()) }
    }
}

/// Returns the time of day of this machine.
pub fn wall() -> Timestamp {
    Timestamp::from_millis(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
