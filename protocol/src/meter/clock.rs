//! Whether a meter's clock can be believed.

use crate::time::{Now, Timestamp};

/// How far the wall clock may run ahead of the monotonic one since both were last known to be right: a minute, and a
/// thousandth of the time passed, which is more than any crystal drifts.
const CLOCK_TOLERANCE_MILLIS: u64 = 60_000;
const CLOCK_DRIFT: u64 = 1_000;

/// Notices a wall clock that runs ahead. One that jumps back is caught by the high-water mark.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// When both clocks were first seen, or last confirmed: small steps that add up are noticed too.
    anchor: Option<Now>,
    pub(super) last: Option<Timestamp>,
    pub(super) doubtful: bool,
}

impl Clock {
    pub(super) fn observe(&mut self, now: Now, confirmed: bool) {
        let anchor = match self.anchor {
            Some(anchor) if !confirmed => anchor,
            Some(_) | None => *self.anchor.insert(now),
        };
        let wall = now.wall.millis_since(anchor.wall);
        let monotonic = now.monotonic_millis.saturating_sub(anchor.monotonic_millis);
        let tolerated = CLOCK_TOLERANCE_MILLIS + monotonic / CLOCK_DRIFT;
        let ahead = wall > monotonic.saturating_add(tolerated);
        self.doubtful = !confirmed && (self.doubtful || ahead);
        self.last = Some(now.wall);
    }
}
