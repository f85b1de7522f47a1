//! What became of a committee's holders in a slot: who answered, who answered wrongly, who vanished.
//!
//! A sum is released as soon as enough answers agree. The others are counted until the request's deadline, so that an
//! operator sees how many holders are to spare, and who is not there.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::offenders::{Answers, Outcome};
use super::open_slot::unstream;
use super::outputs::Outputs;
use super::own_list::OwnList;
use super::slots::Slots;
use super::{Notice, Rejection};
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::scheme::committee::{Collector, Opened};
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
    pub(super) slot: Slot,
    pub(super) attempt: u8,
    /// Names the request.
    pub(super) hash: [u8; 8],
    /// S.
    pub(super) missing: MemberSet,
    pub(super) collector: Collector,
    pub(super) until: Timestamp,
}

impl Watch {
    /// Returns the sum that all answers open, if they open one.
    fn opened(&self) -> Option<Opened> {
        let Self { own, slot, attempt, missing, collector, .. } = self;
        collector.open(missing, |member, ciphertext| unstream(own, *slot, *attempt, member, ciphertext))
    }

    /// How the attempt ended for those who bet on it. The sum counts only if every answer agrees with it, late ones too: as
    /// long as q honest holders answer, nobody can make another one of it.
    fn outcome(&self, opened: Option<&Opened>) -> Outcome {
        let params = self.own.list.params();
        match opened.filter(|opened| opened.wrong.is_empty() && self.collector.is_confirmed(opened)) {
            Some(opened) if params.is_plausible(opened.sum) => Outcome::Good,
            Some(opened) if params.is_beyond_doubt(opened.sum) => Outcome::Bad,
            Some(_) | None => Outcome::Contested,
        }
    }

    /// Who answered rightly, and who did not.
    fn answers(&self, opened: &Opened) -> Answers {
        let answered =
            (0u16..).zip(self.own.list.holders()).filter(|(holder, _)| self.collector.answer(*holder).is_some());
        let (wrong, right): (Vec<_>, Vec<_>) = answered.partition(|(holder, _)| opened.wrong.contains(holder));
        let named =
            |holders: Vec<(u16, &Enrolment)>| holders.into_iter().map(|(_, known)| known.id().clone()).collect();
        Answers { right: named(right), wrong: named(wrong) }
    }

    fn report(&self, opened: Option<&Opened>) -> HoldersReport {
        let list = &self.own.list;
        let id = |holder: u16| list.holders().nth(holder.into()).map(|holder| holder.id().clone());
        let count = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
        let committee = list.params().terms().scheme.committee();
        let holders = committee.map_or(0, |committee| count(committee.holders));
        let vanished: Vec<u16> = (0..holders).filter(|&holder| self.collector.answer(holder).is_none()).collect();
        HoldersReport {
            slot: self.slot,
            epoch: list.epoch(),
            holders,
            needed: committee.map_or(0, |committee| count(committee.needed)),
            answered: holders - count(vanished.len() as u64),
            wrong: opened.iter().flat_map(|opened| &opened.wrong).filter_map(|&holder| id(holder)).collect(),
            vanished: vanished.into_iter().filter_map(id).collect(),
        }
    }

    /// Counts an answer that comes after its slot was closed.
    pub(super) fn late_answer(&mut self, answer: &Answer, sealed: (&Mac0<'_>, &str, &str)) -> Result<(), Rejection> {
        let member = self.own.authenticate(sealed, &answer.list)?;
        if answer.attempt != self.attempt {
            return Err(Rejection::OtherAttempt);
        }
        if answer.request != self.hash {
            return Err(Rejection::OtherRequest);
        }
        let holder = self.own.list.holder_of(member).ok_or(Rejection::NotAHolder)?;
        if self.collector.answer(holder).is_some() {
            return Err(Rejection::Duplicate);
        }
        self.collector.add_answer(holder, answer.sum);
        Ok(())
    }
}

impl Slots {
    /// Tells of the holders of slots whose deadline has passed.
    pub(super) fn report_holders(&mut self, connected: bool, now: Timestamp, outputs: &mut Outputs) {
        let due: Vec<Slot> =
            self.watched.iter().filter(|(_, watch)| watch.until <= now).map(|(&slot, _)| slot).collect();
        for slot in due {
            let Some(watch) = self.watched.remove(&slot) else { continue };
            let opened = watch.opened();
            // Without a connection nobody could be heard.
            if connected {
                outputs.notice(Notice::Holders(Box::new(watch.report(opened.as_ref()))));
            }
            let list = &watch.own.list;
            let in_sum = (0u16..).zip(list.members()).filter(|(member, _)| !watch.missing.contains(*member));
            let in_sum: BTreeSet<&MeterId> = in_sum.map(|(_, member)| member.id()).collect();
            let answers = opened.as_ref().map(|opened| watch.answers(opened));
            let (outcome, members) = (watch.outcome(opened.as_ref()), list.params().members());
            outputs.notices(self.offenders.settle(slot, outcome, members, &in_sum, answers.as_ref()));
        }
        self.persist_offenders(outputs);
    }
}
