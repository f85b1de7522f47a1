//! The clocks of the machine, as an argument, so that tests need not wait.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dream_protocol::time::{Now, Timestamp};

/// Says what time it is, on the wall and on a clock that never jumps.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Now;
}

/// The clocks of this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Now {
            wall: Timestamp::from_millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)),
            monotonic_millis: millis(START.elapsed()),
        }
    }
}
