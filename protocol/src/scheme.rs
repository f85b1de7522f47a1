//! The two ways in which a cluster hides its readings and opens their sum.
//!
//! Everything else is the same under both: enrolments, the header of lists, the ledger, noise, requests and retries. What
//! differs has one type for each side, here: what a meter adds to its reading and answers, and what the gateway makes of it.

pub mod committee;
pub mod pairwise;

use core::fmt;
use core::str::FromStr;

use self::committee::Committee;

/// The scheme of a list, with the parameters that only it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Masks between pairs of members, as in the paper (`protocol.md 4`). w is the expected number of mask partners; 0 means
    /// every other member.
    Pairwise { partners: u64 },
    /// Holders among the members open the sum together (`protocol.md 4a`).
    Committee(Committee),
}

impl Scheme {
    /// Masks with every other member.
    pub const PAIRWISE: Self = Self::Pairwise { partners: 0 };

    pub const fn kind(self) -> Kind {
        match self {
            Self::Pairwise { .. } => Kind::Pairwise,
            Self::Committee(_) => Kind::Committee,
        }
    }

    /// Returns w, or 0 where there are no masks.
    pub const fn partners(self) -> u64 {
        match self {
            Self::Pairwise { partners } => partners,
            Self::Committee(_) => 0,
        }
    }

    pub const fn committee(self) -> Option<Committee> {
        match self {
            Self::Pairwise { .. } => None,
            Self::Committee(committee) => Some(committee),
        }
    }
}

/// From how many members on a gateway that may choose forms committees.
pub const COMMITTEE_FROM: u16 = 50;

/// Which schemes a gateway forms its lists in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemeChoice {
    /// A committee from [`COMMITTEE_FROM`] members on, if enough of them are willing to be holders; pairwise otherwise.
    #[default]
    Auto,
    Only(Kind),
}

impl fmt::Display for SchemeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Only(kind) => kind.fmt(f),
        }
    }
}

impl FromStr for SchemeChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Only).map_err(|_| "use auto, committee or pairwise")
    }
}

/// Which scheme it is, without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Pairwise = 0,
    Committee = 1,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Pairwise, Self::Committee];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pairwise => "pairwise",
            Self::Committee => "committee",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or("use pairwise or committee")
    }
}
