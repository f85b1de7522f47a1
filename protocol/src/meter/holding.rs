//! Answering as a holder of a committee (`protocol.md 4a, 9`): one answer for an attempt, over restarts, lost records and
//! clocks that are put back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::slots::payload_of;
use super::{About, AnswerRecord, Conduct, Key, Meter, Notice, Record, Refusal};
use crate::derive::sha256;
use crate::keys::prefix;
use crate::member_set::MemberSet;
use crate::time::{Slot, Timestamp};
use crate::topic::MeterChannel;
use crate::wire::{Answer, Message as _, RecoveryRequest};

impl<C: Conduct> Meter<C> {
    /// Answers a request once; the same request again gets the same bytes, once in half a reveal window; another one nothing.
    pub(super) fn answer_as_holder(
        &mut self,
        request: &RecoveryRequest,
        bytes: &[u8],
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let (slot, attempt) = (request.slot, request.attempt);
        let held = self.lists.in_force(slot).ok_or(Refusal::UnknownSlot)?;
        if *held.list.hash() != request.list {
            return Err(Refusal::OtherList);
        }
        let holder = held.role.holder().ok_or(Refusal::NotAHolder)?;
        let params = *held.list.params();
        if at < params.slot_end(slot) {
            return Err(Refusal::SlotNotOver);
        }
        if params.slot_expiry(slot) <= at {
            return Err(Refusal::SlotOver);
        }
        let most = params.attempts();
        if attempt >= most {
            return Err(Refusal::TooManyAttempts { most, found: attempt });
        }
        let mark = (params.slot_end(slot).as_secs(), attempt);
        if mark <= self.account.answered && self.conduct.answers_once() {
            return self.answer_again_as_holder(request, bytes, at);
        }
        let missing = MemberSet::from_bytes(params.members(), &request.missing)?;
        let (found, most) = (missing.len(), self.conduct.most_missing(params.max_missing()));
        if found > most {
            return Err(Refusal::TooManyMissing { most, found });
        }
        let answer = Answer {
            list: request.list.prefix(),
            slot,
            attempt,
            sum: self.conduct.answer(holder.answer(&missing, slot, attempt)),
            request: prefix(&sha256(&request.payload())),
        };
        let answer: Arc<[u8]> = answer.seal(&held.mac, &self.topic(MeterChannel::Reveal)).into();
        self.account.answered = self.account.answered.max(mark);
        self.persist_account();
        let record = AnswerRecord { slot, list: request.list, attempt, request: bytes.into(), answer };
        self.persist(Record::Answer(record.clone()));
        self.slots.answers.insert(slot, record);
        self.publish_answer(slot, at);
        self.notice(Notice::Answered { slot, attempt });
        Ok(())
    }

    /// Repeats an answer that is kept, to the same request. Whatever else comes at or below the mark gets nothing.
    fn answer_again_as_holder(
        &mut self,
        request: &RecoveryRequest,
        bytes: &[u8],
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let slot = request.slot;
        let kept = |record: &&AnswerRecord| record.list == request.list && record.attempt == request.attempt;
        let record = self.slots.answers.get(&slot).filter(kept).ok_or(Refusal::AlreadyAnswered)?;
        let held = self.lists.get(&record.list).ok_or(Refusal::UnknownSlot)?;
        if payload_of(&record.request) != payload_of(bytes) {
            let (certificate, first) = (held.list.gateway_certificate().to_vec(), record.request.to_vec());
            self.keep_evidence(certificate, first, bytes.to_vec());
            return Err(Refusal::SecondRequest);
        }
        if self.slots.may_repeat(slot, &held.list, at) {
            self.publish_answer(slot, at);
        }
        Ok(())
    }

    /// Sends the answer of a slot, if there is one.
    pub(super) fn publish_answer(&mut self, slot: Slot, at: Timestamp) {
        let Some(record) = self.slots.answers.get(&slot) else { return };
        let (about, answer) = (About { slot, attempt: record.attempt }, record.answer.clone());
        self.slots.revealed.insert(slot, at);
        self.publish(MeterChannel::Reveal, Some(about), answer);
    }

    /// Erases answers whose slots are closed.
    pub(super) fn close_answers(&mut self, at: Timestamp) {
        let over =
            |record: &AnswerRecord| self.lists.get(&record.list).is_none_or(|held| held.expiry_of(record.slot) <= at);
        let closed: Vec<Slot> =
            self.slots.answers.values().filter(|record| over(record)).map(|record| record.slot).collect();
        for slot in closed {
            self.slots.answers.remove(&slot);
            self.slots.revealed.remove(&slot);
            self.slots.asked.remove(&slot);
            self.erase(Key::Answer(slot));
        }
    }
}
