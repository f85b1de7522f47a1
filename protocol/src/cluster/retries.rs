//! Attempts beyond the first of each slot: how many a cluster may make in any 24 hours (`protocol-gateway.md 4`, "How
//! often a slot is tried again").
//!
//! Every attempt costs every meter epsilon, no matter who made it necessary. Members that make slots fail in turn would otherwise
//! have the others spend their ledgers, and fall silent for the rest of the day.

use alloc::vec::Vec;

use super::ClusterConfig;
use crate::ledger::Ledger;
use crate::params::Params;
use crate::policy::Budget;
use crate::time::Slot;
use crate::wire::{DecodeError, Reader, Writer};

/// The part of the spare attempts that is not used, rounded up: for meters that have spent elsewhere, and retries that a
/// store from a back-up does not know.
const RESERVED: u64 = 8;

/// A smaller budget is none: meters whose ledgers hardly last for a day without retries fall silent with or without them.
const LEAST_BUDGET: u64 = 3;

/// No slot starts later than this, in Unix seconds, and no slot costs more.
const MOST: u64 = 1 << 50;

/// More slots than may be tried again in two days.
const MOST_SLOTS: u64 = 1 << 18;

/// The retries of the last 24 hours, counted as meters count: by the start of the slot, in millionths of epsilon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retries(Ledger);

impl Retries {
    /// Returns how many more retries a slot may have, if nothing else is tried again: one budget for whatever makes them
    /// necessary.
    pub(super) fn left(&self, slot: Slot, params: &Params, config: &ClusterConfig) -> u64 {
        let Some(spare) = spare(params, config.budget) else { return u64::MAX };
        let spent = self.0.fullest(params.slot_start(slot));
        spare.saturating_sub(spent) / params.charge_micro_epsilon()
    }

    /// Counts a retry of a slot; returns whether that must be durable before it is published.
    pub(super) fn spend(&mut self, slot: Slot, params: &Params, config: &ClusterConfig) -> bool {
        let counted = spare(params, config.budget).is_some();
        if counted {
            let start = params.slot_start(slot);
            self.0.forget_before(start);
            self.0.charge(start, params.charge_micro_epsilon(), u64::MAX);
        }
        counted
    }

    /// Appends the entry after its kind: an array of one more item.
    pub(super) fn encode(&self, writer: Writer) -> Writer {
        let charges = self.0.charges();
        let writer = writer.nested_array(2 * charges.len() as u64);
        charges.fold(writer, |writer, (start, spent)| writer.uint(start).uint(spent))
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let out_of_range = DecodeError::OutOfRange { field: "retries" };
        let items = reader.array_of_any()?;
        if items % 2 != 0 || items > 2 * MOST_SLOTS {
            return Err(out_of_range);
        }
        let charges = (0..items / 2).map(|_| Ok((reader.below(MOST, "start")?, reader.below(MOST, "spent")?)));
        Ok(Self(Ledger::from_charges(charges.collect::<Result<Vec<_>, DecodeError>>()?)))
    }
}

/// Returns what retries may cost in 24 hours, beside the first attempts of all slots that start within them; `None` if meters
/// set no limit, or one that leaves too little.
fn spare(params: &Params, budget: Budget) -> Option<u64> {
    // Attempts under a list with a rho for the day cost no epsilon of the day.
    let day = if params.terms().day_micro_rho > 0 { u64::MAX } else { budget.day_micro_epsilon };
    let most = budget.daily_micro_epsilon.min(day);
    if most == u64::MAX {
        return None;
    }
    let slots = 86_400_u64.div_ceil(params.terms().slot_seconds);
    let charge = params.charge_micro_epsilon();
    let spare = (most / charge).saturating_sub(slots);
    let budget = spare - spare.div_ceil(RESERVED);
    (budget >= LEAST_BUDGET).then_some(budget * charge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Terms;
    use crate::policy::Profile;

    fn spare_of(profile: Profile, terms: Terms) -> Option<u64> {
        spare(&Params::unchecked(50, terms), profile.budget())
    }

    #[test]
    fn what_is_to_spare_follows_from_the_meters_ledger_less_a_reserve() {
        let whole = |seconds| Terms { epsilon_denominator: 1, ..Terms::with_slots_of(seconds) };
        let half = Terms { epsilon_denominator: 2, ..Terms::DEFAULT };
        let whole_days = |seconds| Terms { day_micro_rho: 0, ..whole(seconds) };
        assert_eq!(spare_of(Profile::Strict, whole(600)), Some(14_000_000), "160 less 144 and a reserve of 2");
        assert_eq!(spare_of(Profile::Strict, half), Some(77 * 1_000_000), "320 less 144 and 22, of half an epsilon");
        assert_eq!(spare_of(Profile::Strict, Terms::with_slots_of(60)), None, "the ledger ends before the day");
        assert_eq!(spare_of(Profile::Strict, whole_days(900)), Some(3_000_000), "a day may cost 100, and 96 slots do");
        assert_eq!(spare_of(Profile::Trial, Terms::DEFAULT), None);
    }
}
