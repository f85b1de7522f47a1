//! What became of a committee's holders in a slot: who answered, who answered wrongly, who vanished.
//!
//! A sum is released as soon as enough answers agree. The others are counted until the request's deadline, so that an
//! operator sees how many holders are to spare, and who is not there.

use std::sync::Arc;

use super::lists::OwnList;
use super::{Cluster, Notice, Output, Rejection};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::time::{Slot, Timestamp};
use crate::wire::{Answer, Mac0};

/// How the holders of a slot's committee answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldersReport {
    pub slot: Slot,
    pub epoch: u64,
    /// K.
    pub holders: u16,
    /// q: how many had to answer.
    pub needed: u16,
    /// How many answered before the deadline.
    pub answered: u16,
    /// Whose answers are not on the polynomial. A wrong answer and a wrong dealing look alike: it is no proof.
    pub wrong: Vec<MeterId>,
    /// Who did not answer.
    pub vanished: Vec<MeterId>,
}

impl HoldersReport {
    /// Returns how many more holders could have vanished.
    pub const fn spare(&self) -> u16 {
        self.answered.saturating_sub(self.needed)
    }
}

/// A request whose sum is released, or lost, while answers still come.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) own: Arc<OwnList>,
    pub(super) attempt: u8,
    /// Names the request.
    pub(super) hash: [u8; 8],
    /// By holder.
    pub(super) answered: MemberSet,
    pub(super) wrong: Vec<u16>,
    pub(super) until: Timestamp,
}

impl Watch {
    fn report(self, slot: Slot) -> HoldersReport {
        let list = &self.own.list;
        let id = |holder: u16| list.holders().nth(holder.into()).map(|holder| holder.id().clone());
        let count = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
        let committee = list.params().terms().scheme.committee();
        let holders = committee.map_or(0, |committee| count(committee.holders));
        HoldersReport {
            slot,
            epoch: list.epoch(),
            holders,
            needed: committee.map_or(0, |committee| count(committee.needed)),
            answered: self.answered.len(),
            wrong: self.wrong.iter().filter_map(|&holder| id(holder)).collect(),
            vanished: (0..holders).filter(|&holder| !self.answered.contains(holder)).filter_map(id).collect(),
        }
    }
}

impl Cluster {
    /// Counts an answer that comes after its slot was closed.
    pub(super) fn late_answer(
        &mut self,
        envelope: &Mac0<'_>,
        answer: &Answer,
        topic: &str,
        meter: &str,
    ) -> Result<(), Rejection> {
        let watch = self.watched.get_mut(&answer.slot).ok_or(Rejection::SlotClosed)?;
        let member = watch.own.authenticate(envelope, topic, meter, &answer.list)?;
        if answer.attempt != watch.attempt {
            return Err(Rejection::OtherAttempt);
        }
        if answer.request != watch.hash {
            return Err(Rejection::OtherRequest);
        }
        let holder = watch.own.list.holder_of(member).ok_or(Rejection::NotAHolder)?;
        if watch.answered.contains(holder) {
            return Err(Rejection::Duplicate);
        }
        watch.answered.insert(holder);
        Ok(())
    }

    /// Tells of the holders of slots whose deadline has passed.
    pub(super) fn report_holders(&mut self, now: Timestamp) {
        let due: Vec<Slot> =
            self.watched.iter().filter(|(_, watch)| watch.until <= now).map(|(&slot, _)| slot).collect();
        for slot in due {
            let Some(watch) = self.watched.remove(&slot) else { continue };
            // Without a connection nobody could be heard.
            if self.listening.is_some() {
                self.outputs.push_back(Output::Notice(Notice::Holders(Box::new(watch.report(slot)))));
            }
        }
    }
}
