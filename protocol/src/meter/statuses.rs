//! What a meter has said and shown of late: statuses, and evidence against its gateway. Neither is repeated without need.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::Evidence;
use crate::time::{Slot, Timestamp};
use crate::wire::StatusCode;

/// The least time between two statuses of one code.
const STATUS_INTERVAL_SECONDS: u64 = 60;

/// When each status was last sent, and for which list and slot.
#[derive(Debug, Default)]
pub(super) struct Statuses(BTreeMap<StatusCode, (Timestamp, Option<[u8; 8]>, Slot)>);

impl Statuses {
    /// Returns whether a status may be sent, and takes it as sent: once for each list and slot, and not more than once a
    /// minute.
    pub(super) fn note(&mut self, code: StatusCode, list: Option<[u8; 8]>, slot: Slot, at: Timestamp) -> bool {
        let said = |&(then, of, when): &(Timestamp, Option<[u8; 8]>, Slot)| {
            (of, when) == (list, slot) || at < then.plus_secs(STATUS_INTERVAL_SECONDS)
        };
        let new = !self.0.get(&code).is_some_and(said);
        if new {
            self.0.insert(code, (at, list, slot));
        }
        new
    }

    /// What was the matter is over: if it happens again, it is said again.
    pub(super) fn forget(&mut self, code: StatusCode) {
        self.0.remove(&code);
    }
}

/// The evidence that is kept.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// Hashes of the contradictions, by number, so that their repetition is not kept.
    known: BTreeMap<u64, [u8; 32]>,
    /// The contradiction that was seen last, until the status that tells of it.
    pub(super) newest: Option<Arc<[u8]>>,
}

impl Proofs {
    pub(super) fn reopen(&mut self, evidence: &Evidence) {
        self.known.insert(evidence.number, evidence.hash());
    }

    /// Takes note of a contradiction; returns whether it is a new one.
    pub(super) fn note(&mut self, evidence: &Evidence) -> bool {
        self.newest = Some(evidence.bytes.clone());
        let hash = evidence.hash();
        let new = !self.known.values().any(|known| *known == hash);
        if new {
            self.known.insert(evidence.number, hash);
        }
        new
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.known.remove(&number);
    }
}
