//! What a meter has spent of its privacy in any 24 hours.

use alloc::collections::BTreeMap;

use crate::time::Timestamp;

/// The length of the window that a budget holds for.
const WINDOW_SECONDS: u64 = 86_400;

/// Millionths of epsilon spent on each slot, by its start in Unix seconds. Charged before anything is sent, never refunded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    charges: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Charges the slot that starts at `start`, unless the slots that start within some 24 hours would then cost more than
    /// `limit`; returns whether it did.
    pub(crate) fn charge(&mut self, start: Timestamp, amount: u64, limit: u64) -> bool {
        if self.fullest(start).saturating_add(amount) > limit {
            return false;
        }
        let spent = self.charges.entry(start.as_secs()).or_default();
        *spent = spent.saturating_add(amount);
        true
    }

    /// Returns what was spent in the most expensive 24 hours that hold the slot that starts at `start`.
    pub(crate) fn fullest(&self, start: Timestamp) -> u64 {
        let start = start.as_secs();
        // They may end with the slot or with any slot of the following 24 hours.
        let later = self.charges.range(start..start.saturating_add(WINDOW_SECONDS)).map(|(&later, _)| later);
        later.map(|end| self.spent_until(end)).fold(self.spent_until(start), u64::max)
    }

    /// Returns what the slots cost that start in the 24 hours up to `end`.
    pub fn spent(&self, end: Timestamp) -> u64 {
        self.spent_until(end.as_secs())
    }

    fn spent_until(&self, end: u64) -> u64 {
        let window = self.charges.range((end.saturating_add(1)).saturating_sub(WINDOW_SECONDS)..=end);
        window.fold(0, |sum, (_, &spent)| sum.saturating_add(spent))
    }

    /// Forgets charges that share no 24 hours with a slot that starts at `oldest` or later.
    pub(crate) fn forget_before(&mut self, oldest: Timestamp) {
        let oldest = oldest.as_secs();
        self.charges.retain(|&start, _| start.saturating_add(WINDOW_SECONDS) > oldest);
    }

    /// Returns the charges by the start of their slots.
    pub(crate) fn charges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.charges.iter().map(|(&start, &spent)| (start, spent))
    }

    pub(crate) fn from_charges(charges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self { charges: charges.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDNIGHT: u64 = 20_000 * 86_400;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn midnight_does_not_fill_the_budget_anew() {
        let mut ledger = Ledger::default();
        assert!((0..160).all(|slot| ledger.charge(at(MIDNIGHT - 16_000 + slot * 100), 1, 160)));
        assert!(!ledger.charge(at(MIDNIGHT), 1, 160), "160 of the last 16,000 seconds are spent");
        assert!(!ledger.charge(at(MIDNIGHT - 16_000 + 86_399), 1, 160));
        assert!(ledger.charge(at(MIDNIGHT - 16_000 + 86_400), 1, 160), "the first one is 24 hours ago");
        assert!(!ledger.charge(at(MIDNIGHT - 16_000 + 86_401), 1, 160), "and the second is not");
    }

    #[test]
    fn an_earlier_slot_counts_in_every_window_that_holds_it() {
        let mut ledger = Ledger::default();
        assert!(ledger.charge(at(MIDNIGHT), 60, 100));
        assert!(ledger.charge(at(MIDNIGHT + 86_000), 40, 100));
        assert!(!ledger.charge(at(MIDNIGHT + 10), 1, 100), "a retry: the day from midnight is spent");
        assert!(!ledger.charge(at(MIDNIGHT - 1000), 41, 100));
        assert!(ledger.charge(at(MIDNIGHT - 1000), 40, 100), "more than 24 hours before the last");
        assert!(!ledger.charge(at(MIDNIGHT + 86_000), u64::MAX, 100), "and nothing overflows");
    }

    #[test]
    fn what_an_open_slot_needs_is_kept() {
        let mut ledger = Ledger::default();
        assert!(ledger.charge(at(MIDNIGHT), 100, 100));
        ledger.forget_before(at(MIDNIGHT + 86_399));
        assert!(!ledger.charge(at(MIDNIGHT + 86_399), 1, 100));
        ledger.forget_before(at(MIDNIGHT + 86_400));
        assert_eq!((ledger.spent(at(MIDNIGHT)), ledger.charges().len()), (0, 0));
    }
}
