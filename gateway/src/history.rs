//! Closed slots, hours and days, with every number that follows from them, and reading those of the past.

mod closed_slot;
mod noise;
mod rollup;
mod step;

use std::error::Error;
use std::ops::Range;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

pub use closed_slot::{Best, ClosedSlot, FilteredLoad, Load};
pub use noise::{AddedNoise, NORMAL95};
pub use rollup::Rollup;
pub use step::Step;

/// From one moment to another, which is not in it.
pub type Span = Range<Timestamp>;

/// Something of the past, or why it cannot be read.
pub type Read<T> = Result<T, HistoryError>;

/// Closed slots of the past: those in the store, or in tests those in memory.
pub trait History: Send + Sync {
    /// Returns the slots of a cluster that ended in a span, oldest first; if there are more than `limit`, the newest of them.
    fn slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>>;

    /// Returns the hours or days of a cluster that began in a span, oldest first; if there are more than `limit`, the newest
    /// of them.
    fn rollups(&self, cluster: &ClusterId, step: Step, begun: Span, limit: usize) -> Read<Vec<Rollup>>;

    /// Returns from when to when there were slots, as the days know it; `None` before the first.
    fn extent(&self, cluster: &ClusterId) -> Read<Option<Extent>>;

    /// Returns how large the file is that they are in, in bytes.
    fn file_bytes(&self) -> u64;
}

/// The time over which a cluster's slots are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// When the first of them began.
    pub begun: Timestamp,
    /// When the last of them ended.
    pub until: Timestamp,
}

/// Why the past cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the store cannot be read")]
pub struct HistoryError(#[source] Box<dyn Error + Send + Sync>);

impl HistoryError {
    /// Wraps the error of whatever keeps the past.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }

    /// Returns the error and its cause on one line, for answers that show only one.
    pub fn with_cause(&self) -> String {
        format!("{self}: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_past_is_told_with_its_cause_once() {
        let error = || HistoryError::new("the disk is gone");
        assert_eq!(error().with_cause(), "the store cannot be read: the disk is gone");
        assert_eq!(format!("{:#}", anyhow::Error::from(error())), error().with_cause());
    }
}
