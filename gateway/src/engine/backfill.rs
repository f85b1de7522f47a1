//! Slots that nobody reported: a demonstration fills in the day before it begins.

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use thiserror::Error;

use super::cluster_filter::ClusterFilter;
use crate::clock::Zone;
use crate::history::ClosedSlot;
use crate::store::{Change, Store, StoreError};

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
/// The days are those of UTC. No command and no configuration of the gateway leads here: it is for demonstrations, before the gateway starts.
pub fn backfill(store: &Store, cluster: &ClusterId, slots: &[SlotOutcome]) -> Result<(), BackfillError> {
    if store.span(cluster)?.is_some() {
        return Err(BackfillError::NotNew(cluster.clone()));
    }
    if let Some(real) = slots.iter().find(|outcome| !ClosedSlot::from(**outcome).is_backfilled()) {
        return Err(BackfillError::OfAList { slot: real.slot.0, epoch: real.epoch });
    }
    let mut filter = ClusterFilter::new(&Zone::default(), &[]);
    let mut changes = Vec::with_capacity(3 * slots.len());
    for outcome in slots {
        changes.push(Change::Put(cluster.clone(), Record::Outcome(*outcome)));
        filter.close(cluster, *outcome, &mut changes);
    }
    Ok(store.commit(&changes)?)
}
