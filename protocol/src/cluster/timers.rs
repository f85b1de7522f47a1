//! What a cluster waits for, by name.

use crate::time::Timestamp;

/// One thing that a cluster waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// An open slot moves on: a window closes, or a request or retry is repeated.
    OpenSlots,
    /// The next slot opens.
    NextSlot,
    /// A list is formed, or published again.
    List,
    /// The holders of a closed slot had their time to answer.
    Holders,
}

/// When each timer is due.
#[derive(Debug, Default)]
pub(super) struct Timers([Option<Timestamp>; 4]);

impl Timers {
    /// Sets a timer, or stops it.
    pub(super) const fn set(&mut self, timer: Timer, due: Option<Timestamp>) {
        self.0[timer as usize] = due;
    }

    pub(super) fn is_due(&self, timer: Timer, now: Timestamp) -> bool {
        self.0[timer as usize].is_some_and(|due| due <= now)
    }

    /// Returns the moment at which the first timer is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.iter().flatten().copied().min()
    }
}
