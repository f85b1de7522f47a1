//! The result of a slot: the only values meant to be seen.

use core::fmt;

use crate::noise::{Scale, Spread};
use crate::time::{Slot, Timestamp};

/// The noisy sum of a cluster's readings in one slot. Only [`crate::cluster`] makes one, and
/// [`unmasked_sum`](crate::simulation::unmasked_sum) for simulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    watts: i64,
}

impl Aggregate {
    pub(crate) const fn new(watts: i64) -> Self {
        Self { watts }
    }

    /// The sum over the responders, with noise, in watts.
    pub const fn watts(&self) -> i64 {
        self.watts
    }
}

/// Why a slot gave no aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// More readings were missing than the list tolerates; nothing was asked.
    TooManyMissing,
    /// A responder did not reveal, and no attempt was left.
    RevealMissing,
    /// The sum is not one of readings and noise: a member lied, or a mask did not cancel.
    UnmaskFailed,
    /// The gateway was away for so long that the slot's windows passed.
    Interrupted,
}

impl Failure {
    pub const ALL: [Self; 4] = [Self::TooManyMissing, Self::RevealMissing, Self::UnmaskFailed, Self::Interrupted];

    /// The word used in metrics and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyMissing => "too_many_missing",
            Self::RevealMissing => "reveal_missing",
            Self::UnmaskFailed => "unmask_failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A closed slot. It never reopens: two noisy answers to one question leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOutcome {
    pub slot: Slot,
    /// When the slot began and ended.
    pub start: Timestamp,
    pub end: Timestamp,
    pub epoch: u64,
    /// N.
    pub members: u16,
    /// n.
    pub honest: u16,
    /// Whose readings are in the sum; in a failed slot, how many arrived in the last attempt.
    pub responders: u16,
    /// How many attempts were made, each of which cost everyone who took part one epsilon.
    pub attempts: u8,
    /// Epsilon of one attempt, in millionths.
    pub micro_epsilon: u64,
    /// Lambda.
    pub noise_scale: Scale,
    pub result: Result<Aggregate, Failure>,
}

impl SlotOutcome {
    pub const fn missing(&self) -> u16 {
        self.members - self.responders
    }

    /// How many attempts were answered, and so have cost somebody something. Only the last can have remained without an
    /// answer: one that is followed by another had enough readings.
    pub const fn attempts_answered(&self) -> u8 {
        if self.responders == 0 { self.attempts.saturating_sub(1) } else { self.attempts }
    }

    /// How far the noise may have moved the sum.
    pub fn spread(&self) -> Spread {
        Spread::new(self.noise_scale, self.honest.into(), self.responders.into())
    }
}
