//! The clocks of this machine: the one place of the simulator that reads them.

use std::time::{SystemTime, UNIX_EPOCH};

use dream_protocol::time::{Now, Timestamp};
use tokio::time::Instant;

/// Returns the time of day, which somebody may set.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Both clocks of a meter, in step: as much time passes as passes for tokio. Where its clock is paused, as in tests, time goes
/// at once to whatever is due next.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begun: Instant,
    wall: Timestamp,
}

impl Clock {
    /// Starts a clock at the present time of day.
    pub fn start() -> Self {
        Self { begun: Instant::now(), wall: wall() }
    }

    pub fn now(self) -> Now {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { wall: self.wall.plus_millis(passed), monotonic_millis: passed }
    }
}
