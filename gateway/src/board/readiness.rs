//! Whether the gateway is ready: a latch for each thing that must have happened first, as linkerd's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A set of named latches; ready when all are set. One may be unset again, when what it stands for is lost.
#[derive(Debug, Default)]
pub struct Readiness {
    latches: [AtomicBool; Latch::ALL.len()],
    /// Grows as long as the driver makes progress.
    beats: AtomicU64,
}

/// What must have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latch {
    /// The store is open, and every cluster rebuilt from it.
    StoreReplayed,
    /// What was to be kept could be written.
    StoreWritable,
    /// The broker has confirmed the subscriptions.
    BrokerSubscribed,
    /// Nothing says that the clock is wrong.
    ClockRight,
}

impl Latch {
    pub const ALL: [Self; 4] = [Self::StoreReplayed, Self::StoreWritable, Self::BrokerSubscribed, Self::ClockRight];

    /// Returns the name by which `/readyz` tells that it is not set.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StoreReplayed => "store replayed",
            Self::StoreWritable => "store writable",
            Self::BrokerSubscribed => "broker subscribed",
            Self::ClockRight => "clock right",
        }
    }
}

impl Readiness {
    /// Sets a latch.
    pub fn set(&self, latch: Latch) {
        self.latches[latch as usize].store(true, Ordering::Release);
    }

    /// Unsets a latch: what it stands for is lost.
    pub fn unset(&self, latch: Latch) {
        self.latches[latch as usize].store(false, Ordering::Release);
    }

    pub fn is_set(&self, latch: Latch) -> bool {
        self.latches[latch as usize].load(Ordering::Acquire)
    }

    /// Notes that the driver makes progress.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that grows as long as the driver makes progress: at least once a second.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Returns the latches that are not set; ready means that the list is empty.
    pub fn awaited(&self) -> Vec<Latch> {
        Latch::ALL.into_iter().filter(|&latch| !self.is_set(latch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_latch_is_set_and_none_was_lost() {
        let readiness = Readiness::default();
        assert_eq!(readiness.awaited(), Latch::ALL);
        readiness.set(Latch::BrokerSubscribed);
        readiness.set(Latch::StoreWritable);
        readiness.set(Latch::ClockRight);
        assert_eq!(readiness.awaited(), [Latch::StoreReplayed]);
        readiness.set(Latch::StoreReplayed);
        assert_eq!(readiness.awaited(), []);
        readiness.unset(Latch::BrokerSubscribed);
        assert_eq!(readiness.awaited(), [Latch::BrokerSubscribed]);
    }
}
