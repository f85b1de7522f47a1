//! Time as an argument: instants, slots, and a meter's two clocks.

use core::fmt;

/// An instant in Unix milliseconds.
///
/// Slots follow the wall clock and outlive a restart, which `std::time::Instant` cannot. Arithmetic saturates: far
/// instants come from hostile messages, and saturating keeps them far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Whole seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }

    #[must_use]
    pub const fn plus_secs(self, secs: u64) -> Self {
        self.plus_millis(secs.saturating_mul(1000))
    }

    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds since `earlier`, or 0 if `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The UTC day, counted from 1970-01-01.
    pub const fn utc_day(self) -> u64 {
        self.as_secs() / 86_400
    }
}

/// What a meter knows of time: the wall clock, and a monotonic clock of any origin to notice that the wall clock jumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub wall: Timestamp,
    /// Milliseconds of a clock that never jumps; its origin is the process's own.
    pub monotonic_millis: u64,
}

/// A slot's number: `floor(unix seconds / slot_seconds)`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

impl Slot {
    #[must_use]
    pub const fn plus(self, slots: u64) -> Self {
        Self(self.0.saturating_add(slots))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
