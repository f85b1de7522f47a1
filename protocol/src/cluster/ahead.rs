//! What a gateway did in a future that never was, because its clock was ahead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Forget, Record};
use crate::aggregate::{Failure, SlotOutcome};
use crate::membership::MAX_LIST_AHEAD_SECONDS;
use crate::time::{Slot, Timestamp};
use crate::wire::{FullList, ListHeader};

/// Returns what is to be forgotten of a cluster's records, and of the outcomes that its history has, because it is later than
/// `now`, which is right: outcomes of slots that have not ended, readings of such slots, and lists that begin so late that no
/// meter has accepted them.
///
/// A slot for which the gateway may have asked anything stays closed: nothing is asked twice.
pub fn carried_ahead<'a>(
    records: &[Record],
    outcomes: impl IntoIterator<Item = &'a SlotOutcome>,
    now: Timestamp,
) -> Vec<Forget> {
    // Whether anything was asked, by the slots that have entries.
    let mut open: BTreeMap<Slot, bool> = BTreeMap::new();
    let mut headers = Vec::new();
    for record in records {
        match record {
            Record::Reading { slot, .. } | Record::Dealt { slot, .. } => drop(open.entry(*slot).or_default()),
            Record::Request { slot, .. }
            | Record::Retry { slot, .. }
            | Record::Reveal { slot, .. }
            | Record::Answer { slot, .. } => drop(open.insert(*slot, true)),
            Record::List(list) => {
                headers.extend(FullList::header_of(&list.bytes).map(|(_, header)| (list.epoch, header)))
            }
            Record::Enrolment { .. }
            | Record::Outcome(_)
            | Record::Offenders(_)
            | Record::Retries(_)
            | Record::Evidence { .. } => {}
        }
    }
    let lengths = |slot: Slot| {
        let covering =
            headers.iter().rev().find(move |(_, header)| (header.from_slot..=header.to_slot).contains(&slot));
        covering.map(|(_, header)| header.terms.slot_seconds)
    };
    let is_later = |slot: Slot| lengths(slot).is_some_and(|length| now < Timestamp::from_secs(slot.0 * length));
    let slots = open.iter().filter(|(slot, asked)| !**asked && is_later(**slot)).map(|(slot, _)| Forget::Slot(*slot));
    let begins = |(epoch, header): &(u64, ListHeader)| {
        let starts = Timestamp::from_secs(header.from_slot.0.saturating_mul(header.terms.slot_seconds));
        (now.plus_secs(MAX_LIST_AHEAD_SECONDS) < starts).then_some(Forget::List(*epoch))
    };
    let later = outcomes.into_iter().filter(|outcome| now < outcome.end && asked_nothing(outcome));
    let outcomes = later.map(|outcome| Forget::Outcome(*outcome));
    slots.chain(headers.iter().filter_map(begins)).chain(outcomes).collect()
}

/// Whether a slot closed without a request or a retry.
const fn asked_nothing(outcome: &SlotOutcome) -> bool {
    match outcome.result {
        Err(Failure::TooManyMissing) => outcome.attempts == 1,
        Err(Failure::Interrupted) => outcome.attempts == 1 && outcome.responders == 0,
        Ok(_) | Err(Failure::RevealMissing | Failure::UnmaskFailed) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregate;
    use crate::noise::Scale;

    const SLOT: u64 = 600;

    fn closed(slot: u64, attempts: u8, responders: u16, result: Result<Aggregate, Failure>) -> SlotOutcome {
        SlotOutcome {
            slot: Slot(slot),
            start: Timestamp::from_secs(slot * SLOT),
            end: Timestamp::from_secs((slot + 1) * SLOT),
            epoch: 1,
            members: 100,
            honest: 80,
            responders,
            attempts,
            micro_epsilon: 1_000_000,
            noise_scale: Scale::checked(9000, 1).unwrap(),
            result,
        }
    }

    #[test]
    fn a_slot_of_the_future_is_withdrawn_unless_something_was_asked() {
        let (missing, interrupted) = (Err(Failure::TooManyMissing), Err(Failure::Interrupted));
        let withdrawn = [closed(10, 1, 0, missing), closed(11, 1, 40, missing), closed(12, 1, 0, interrupted)];
        let kept = [
            closed(9, 1, 0, missing),
            closed(10, 2, 0, missing),
            closed(11, 1, 90, interrupted),
            closed(12, 2, 0, interrupted),
            closed(13, 1, 95, Ok(Aggregate::new(5))),
            closed(14, 1, 95, Err(Failure::RevealMissing)),
            closed(15, 1, 95, Err(Failure::UnmaskFailed)),
        ];
        let now = Timestamp::from_secs(10 * SLOT);
        let forgotten = carried_ahead(&[], withdrawn.iter().chain(&kept), now);
        assert_eq!(forgotten, withdrawn.map(Forget::Outcome));
    }
}
