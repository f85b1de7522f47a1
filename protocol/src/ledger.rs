//! What a meter has spent of its privacy, by UTC day.

use std::collections::BTreeMap;

/// Millionths of epsilon spent on the slots that start in each day. Charged before anything is sent, never refunded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    days: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Charges a day unless that would exceed `limit`; says whether it did.
    pub(crate) fn charge(&mut self, day: u64, amount: u64, limit: u64) -> bool {
        let spent = self.spent(day).saturating_add(amount);
        if spent > limit {
            return false;
        }
        self.days.insert(day, spent);
        true
    }

    pub fn spent(&self, day: u64) -> u64 {
        self.days.get(&day).copied().unwrap_or(0)
    }

    /// Forgets days that no open or future slot can start in.
    pub(crate) fn forget_before(&mut self, day: u64) {
        self.days.retain(|&kept, _| kept >= day);
    }

    pub(crate) fn days(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.days.iter().map(|(&day, &spent)| (day, spent))
    }

    pub(crate) fn from_days(days: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self { days: days.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_spent_once_and_others_are_not_touched() {
        let mut ledger = Ledger::default();
        assert!(ledger.charge(5, 60, 100));
        assert!(!ledger.charge(5, 41, 100), "would exceed the limit");
        assert!(ledger.charge(5, 40, 100));
        assert!(!ledger.charge(5, 1, 100));
        assert!(ledger.charge(6, 100, 100));
        assert!(!ledger.charge(6, u64::MAX, 100), "and does not overflow");
        ledger.forget_before(6);
        assert_eq!((ledger.spent(5), ledger.spent(6)), (0, 100));
    }
}
