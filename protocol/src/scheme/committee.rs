//! The committee scheme: members speak once a slot, and enough of K *holders* open the sum together (`protocol.md 4a`).
//!
//! Every member deals one number to each holder. Through the first q of them goes a polynomial of degree below q, whose
//! value at 0 hides the member's reading; what the other holders lack to lie on it the member publishes as
//! *corrections*. Polynomials add up like their values: when each holder adds what it was dealt, the sums lie on the sum
//! of the polynomials, and any q of them give its value at 0, which hides the sum of the readings and nothing else.
//!
//! - [`field`]: the numbers, integers modulo 2^61 - 1;
//! - [`dealing`]: a member's polynomial, without ever writing it down;
//! - [`decoding`]: its sum's value at 0 from the holders' answers, although some are missing or wrong;
//! - [`member`]: what a meter deals and answers; the gateway's side is `collector`;
//! - here and in `draw`: how many holders there are, who they are, and how many of them may collude.

#[cfg(feature = "gateway")]
mod collector;
pub mod dealing;
#[cfg(feature = "gateway")]
pub mod decoding;
mod draw;
pub mod field;
pub mod member;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

#[cfg(feature = "gateway")]
pub(crate) use collector::{Collector, Opened};
pub use draw::{Choice, LEAST_SPARE, NoCommittee, choose, day_of, threshold};

/// The most holders that a list may have.
pub const MAX_HOLDERS: u64 = 256;

/// By the mean number of drawn colluders, from 1: the least f that more than f of them exceed with a probability of at most
/// 2^-64, if their number has a Poisson distribution.
const MOST_COLLUDING: [u64; 64] = [
    20, 25, 29, 33, 36, 39, 42, 45, 48, 50, 53, 55, 57, 60, 62, 64, 66, 68, 71, 73, 75, 77, 79, 81, 82, 84, 86, 88, 90,
    92, 94, 96, 97, 99, 101, 103, 105, 106, 108, 110, 111, 113, 115, 117, 118, 120, 122, 123, 125, 127, 128, 130, 132,
    133, 135, 136, 138, 140, 141, 143, 144, 146, 148, 149,
];

/// What a list says of its committee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committee {
    /// k: the expected number of holders if every member were willing; 0 if all that are willing are holders.
    pub drawn: u64,
    /// q: how many answers open the sum.
    pub needed: u64,
    /// K: how many holders there are.
    pub holders: u64,
}

/// Why a committee is not safe in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CommitteeError {
    #[error("{holders} holders among {members} members; there may be 1 to {MAX_HOLDERS}, and no more than members")]
    Holders { holders: u64, members: u64 },
    #[error(
        "holders are drawn with k = {drawn} of {members} members, {malicious} of them malicious; k must be below the number of \
         members, and 2*T*k/N at most 64"
    )]
    Drawn { drawn: u64, members: u64, malicious: u64 },
    #[error(
        "{needed} of {holders} answers open a sum, while {colluding} holders may collude; q must be above {colluding}, at \
         most {holders}, and 2q above {holders} + {colluding}"
    )]
    Needed { needed: u64, holders: u64, colluding: u64 },
    #[error(
        "{missing} of {members} members may be missing, {malicious} malicious; with a committee 4M must be below N - T"
    )]
    #[strum(serialize = "committee_missing")]
    Missing { missing: u64, members: u64, malicious: u64 },
}

impl Committee {
    /// Returns f: how many of the holders may collude with the gateway before single readings open. `None` if k is out of
    /// range, or if so many colluders would be drawn that no bound is known.
    ///
    /// The factor 2 leaves room for two valid certificates of one colluder, and for a gateway that leaves honest holders
    /// out of its list.
    pub fn colluding(drawn: u64, members: u64, malicious: u64) -> Option<u64> {
        let twice = malicious.checked_mul(2)?;
        if drawn == 0 {
            return Some(twice);
        }
        if drawn >= members {
            return None;
        }
        let mean = twice.checked_mul(drawn)?.div_ceil(members).max(1);
        let most = MOST_COLLUDING.get(usize::try_from(mean - 1).ok()?)?;
        Some(twice.min(*most))
    }

    /// Returns the least q that is safe with so many holders, of whom so many may collude, and that waits for at least three
    /// in four.
    pub const fn needed_of(holders: u64, colluding: u64) -> u64 {
        let safe = (holders + colluding) / 2 + 1;
        let usual = holders - holders / 4;
        if safe > usual { safe } else { usual }
    }

    /// Returns how many holders may drop out.
    pub const fn spare(&self) -> u64 {
        self.holders.saturating_sub(self.needed)
    }

    /// Checks the conditions under which nothing but one whole sum opens (`protocol.md 4a`, and `protocol-proofs.md 4a` for why).
    pub fn check(&self, members: u64, missing: u64, malicious: u64) -> Result<(), CommitteeError> {
        let Self { drawn, needed, holders } = *self;
        if holders == 0 || holders > MAX_HOLDERS.min(members) {
            return Err(CommitteeError::Holders { holders, members });
        }
        let colluding = Self::colluding(drawn, members, malicious);
        let colluding = colluding.ok_or(CommitteeError::Drawn { drawn, members, malicious })?;
        if needed <= colluding || needed > holders || 2 * needed <= holders + colluding {
            return Err(CommitteeError::Needed { needed, holders, colluding });
        }
        if 4 * missing >= members.saturating_sub(malicious) {
            return Err(CommitteeError::Missing { missing, members, malicious });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_on_drawn_colluders_is_that_of_the_poisson_distribution() {
        let poisson_above = |mean: f64, most: u64| {
            let mut term = (-mean).exp();
            let terms: Vec<f64> = (1u32..600)
                .map(|k| {
                    term *= mean / f64::from(k);
                    term
                })
                .collect();
            terms[usize::try_from(most).unwrap()..].iter().rev().sum::<f64>()
        };
        for (mean, most) in (1u32..).zip(MOST_COLLUDING) {
            let mean = f64::from(mean);
            assert!(poisson_above(mean, most) <= 2f64.powi(-64), "{mean}");
            assert!(poisson_above(mean, most - 1) > 2f64.powi(-64), "{mean}");
        }
    }

    #[test]
    fn committees_have_the_sizes_of_the_specification() {
        let of = |members, drawn, holders| {
            let colluding = Committee::colluding(drawn, members, members / 10).unwrap();
            (colluding, Committee::needed_of(holders, colluding))
        };
        assert_eq!(of(30, 0, 30), (6, 23));
        assert_eq!(of(100, 0, 100), (20, 75));
        assert_eq!(of(1000, 160, 160), (96, 129));
        assert_eq!(of(10_000, 160, 160), (96, 129));
    }

    #[test]
    fn every_condition_is_checked_at_its_edge() {
        let committee = Committee { drawn: 0, needed: 75, holders: 100 };
        assert_eq!(committee.check(100, 20, 10), Ok(()));
        assert!(matches!(committee.check(99, 9, 10), Err(CommitteeError::Holders { .. })));
        assert!(matches!(committee.check(100, 20, 20), Err(CommitteeError::Missing { .. })));
        assert_eq!(committee.check(100, 19, 20), Ok(()));
        // 2q = K + f is not enough.
        let edge = |needed| Committee { needed, ..committee }.check(100, 10, 10);
        assert!(matches!(edge(60), Err(CommitteeError::Needed { colluding: 20, .. })));
        assert_eq!(edge(61), Ok(()));
        assert!(matches!(edge(101), Err(CommitteeError::Needed { .. })));
        let none = Committee { drawn: 0, needed: 0, holders: 0 };
        assert!(matches!(none.check(100, 10, 10), Err(CommitteeError::Holders { .. })));
        let drawn = |drawn| Committee { drawn, needed: 129, holders: 160 }.check(1000, 100, 100);
        assert_eq!(drawn(160), Ok(()));
        assert!(matches!(drawn(321), Err(CommitteeError::Drawn { .. })));
        assert!(matches!(drawn(u64::MAX), Err(CommitteeError::Drawn { .. })));
    }
}
