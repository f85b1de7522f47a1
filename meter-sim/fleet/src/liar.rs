//! Meters that turn dishonest: from some slot on they spoil the slots of their cluster.

use dream_protocol::ids::MeterId;
use dream_protocol::time::Slot;

/// How a member spoils slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// It sends its readings and never helps to unmask.
    NeverReveals,
    /// It makes every sum it is in invalid.
    SpoilsSums,
}

/// A meter that is honest at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liar {
    pub lie: Lie,
    /// After how many slots of its cluster it begins to lie.
    pub after_slots: usize,
}

/// A meter that lies by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub meter: MeterId,
    pub lie: Lie,
    /// The slot that was reported last before it began.
    pub since: Slot,
}

/// What a member that spoils sums adds to its reading, in watts: far more than any cluster draws.
pub const NONSENSE: i64 = 1 << 50;
