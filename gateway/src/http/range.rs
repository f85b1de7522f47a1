//! How far back a chart looks.

use dream_protocol::time::Timestamp;

/// A range of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// As it stands in the address.
    pub(super) name: &'static str,
    /// On a button.
    pub(super) label: &'static str,
    /// In a sentence.
    pub(super) words: &'static str,
    seconds: u64,
}

const HOUR: u64 = 3600;

impl Range {
    pub(super) const DAY: Self = Self::new("24h", "24 h", "in the last 24 hours", 24 * HOUR);

    pub(super) const ALL: [Self; 7] = [
        Self::new("1h", "1 h", "in the last hour", HOUR),
        Self::new("6h", "6 h", "in the last 6 hours", 6 * HOUR),
        Self::DAY,
        Self::new("7d", "7 d", "in the last 7 days", 7 * 24 * HOUR),
        Self::new("30d", "30 d", "in the last 30 days", 30 * 24 * HOUR),
        Self::new("1y", "1 y", "in the last year", 366 * 24 * HOUR),
        Self::new("all", "All", "in all the time that is kept", u64::MAX),
    ];

    const fn new(name: &'static str, label: &'static str, words: &'static str, seconds: u64) -> Self {
        Self { name, label, words, seconds }
    }

    /// Returns when the range begins.
    pub(super) fn from(self, now: Timestamp) -> Timestamp {
        Timestamp::from_secs(now.as_secs().saturating_sub(self.seconds))
    }

    /// Returns the range of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.name == name)
    }
}
