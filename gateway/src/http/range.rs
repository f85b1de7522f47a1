//! How far back a chart looks.

use dream_protocol::time::Timestamp;

/// A range of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    Hour,
    SixHours,
    Day,
    Week,
    Month,
    Year,
    /// Everything that is kept.
    All,
}

impl Range {
    pub(super) const ALL: [Self; 7] =
        [Self::Hour, Self::SixHours, Self::Day, Self::Week, Self::Month, Self::Year, Self::All];

    /// As it stands in the address.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "1y",
            Self::All => "all",
        }
    }

    /// On a button.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Hour => "1 h",
            Self::SixHours => "6 h",
            Self::Day => "24 h",
            Self::Week => "7 d",
            Self::Month => "30 d",
            Self::Year => "1 y",
            Self::All => "All",
        }
    }

    /// In a sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Hour => "in the last hour",
            Self::SixHours => "in the last 6 hours",
            Self::Day => "in the last 24 hours",
            Self::Week => "in the last 7 days",
            Self::Month => "in the last 30 days",
            Self::Year => "in the last year",
            Self::All => "in all the time that is kept",
        }
    }

    /// Returns when the range begins.
    pub(super) fn from(self, now: Timestamp) -> Timestamp {
        const HOUR: u64 = 3600;
        let back = match self {
            Self::Hour => HOUR,
            Self::SixHours => 6 * HOUR,
            Self::Day => 24 * HOUR,
            Self::Week => 7 * 24 * HOUR,
            Self::Month => 30 * 24 * HOUR,
            Self::Year => 366 * 24 * HOUR,
            Self::All => u64::MAX,
        };
        Timestamp::from_secs(now.as_secs().saturating_sub(back))
    }

    /// Returns the range of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.name() == name)
    }
}
