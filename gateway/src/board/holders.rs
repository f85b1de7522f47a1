//! How the holders of committees answer: how many, for everybody, and who did not, for the operator alone.

use dream_protocol::cluster::HoldersReport;
use dream_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The path of the names, which operators alone may ask for.
pub const PATH: &str = "/api/v1/holders";

/// How the holders of a cluster answered in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldersView {
    /// When this was known.
    pub told: Timestamp,
    /// K: how many holders there were.
    pub holders: u16,
    /// q: how many had to answer.
    pub needed: u16,
    pub answered: u16,
    /// How many answers were wrong. They were found and corrected if there were enough right ones.
    pub wrong: u16,
}

impl HoldersView {
    /// Counts what a report names.
    pub fn new(report: &HoldersReport, told: Timestamp) -> Self {
        let wrong = u16::try_from(report.wrong.len()).unwrap_or(u16::MAX);
        let HoldersReport { holders, needed, answered, .. } = *report;
        Self { told, holders, needed, answered, wrong }
    }

    pub const fn vanished(&self) -> u16 {
        self.holders.saturating_sub(self.answered)
    }

    /// Returns how many more could have dropped out. A wrong answer costs two: itself, and the right one that finds it.
    pub const fn spare(&self) -> u16 {
        self.answered.saturating_sub(self.needed.saturating_add(self.wrong.saturating_mul(2)))
    }

    /// Returns how many of a whole committee may drop out.
    pub const fn may_vanish(&self) -> u16 {
        self.holders.saturating_sub(self.needed)
    }

    /// Returns whether at most a quarter of those that may drop out is left.
    pub const fn runs_low(&self) -> bool {
        4 * self.spare() as u32 <= self.may_vanish() as u32
    }
}

/// A holder that dropped out or contradicted others, as the operator sees it. Counts are of today and yesterday (UTC), since
/// the gateway started: anything finer would tell when somebody was at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderJson {
    pub cluster: String,
    pub meter: String,
    /// In how many slots it did not answer.
    pub vanished_slots: u32,
    /// In how many slots its answer was wrong. A member that deals wrongly to a holder makes its answer wrong, so this
    /// is not proof.
    pub wrong_slots: u32,
    /// Of how many slots of the cluster this was counted.
    pub of_slots: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_holders_run_low_at_a_quarter_of_those_that_may_vanish_and_a_wrong_answer_costs_two() {
        let of =
            |answered, wrong| HoldersView { told: Timestamp::from_secs(0), holders: 160, needed: 128, answered, wrong };
        assert_eq!((of(160, 0).may_vanish(), of(160, 0).spare(), of(160, 0).runs_low()), (32, 32, false));
        assert_eq!((of(137, 0).spare(), of(137, 0).runs_low()), (9, false));
        assert_eq!((of(136, 0).spare(), of(136, 0).runs_low(), of(136, 0).vanished()), (8, true, 24));
        assert_eq!((of(140, 2).spare(), of(140, 2).runs_low()), (8, true));
        assert_eq!((of(100, 0).spare(), of(100, 0).runs_low()), (0, true));
    }
}
