//! Slots that nobody reported: a demonstration fills in the day before it begins.

use dream_filter::Filter;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use thiserror::Error;

use super::served::filtered;
use crate::store::{Change, ClosedSlot, Store, StoreError};

/// Why slots cannot be filled in.
#[derive(Debug, Error)]
pub enum BackfillError {
    #[error("the cluster `{0}` has closed slots already: only a new one can be filled in")]
    NotNew(ClusterId),
    #[error("slot {slot} is of list {epoch}; only slots of no list, epoch 0, can be filled in")]
    OfAList { slot: u64, epoch: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Fills in slots that a simulator made, oldest first, and what the filter makes of them. They are marked as
/// [back-filled](ClosedSlot::is_backfilled) from then on.
///
/// No command and no configuration of the gateway leads here: it is for demonstrations, before the gateway starts.
pub fn backfill(store: &Store, cluster: &ClusterId, slots: &[SlotOutcome]) -> Result<(), BackfillError> {
    if store.span(cluster)?.is_some() {
        return Err(BackfillError::NotNew(cluster.clone()));
    }
    if let Some(real) = slots.iter().find(|outcome| !ClosedSlot::from(**outcome).is_backfilled()) {
        return Err(BackfillError::OfAList { slot: real.slot.0, epoch: real.epoch });
    }
    let mut filter = Filter::default();
    let mut changes = Vec::with_capacity(2 * slots.len());
    for outcome in slots {
        changes.push(Change::Put(cluster.clone(), Record::Outcome(*outcome)));
        if let Some(filtered) = filtered(&mut filter, outcome) {
            changes.push(Change::PutFiltered { cluster: cluster.clone(), end: outcome.end, filtered });
        }
    }
    Ok(store.commit(&changes)?)
}
