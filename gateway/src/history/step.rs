//! The lengths of periods that are stored.

/// Which periods are stored as rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Hour,
    Day,
}

impl Step {
    pub const ALL: [Self; 2] = [Self::Hour, Self::Day];

    /// Returns the step of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }

    /// Returns how long one is, but for days on which clocks change.
    pub const fn millis(self) -> u64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }

    /// Returns the word for it in addresses and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}
