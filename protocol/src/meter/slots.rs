//! One slot at the meter: measured, masked, published, answered, tried again, closed (`protocol.md 4, 9`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::enrolling::uniform;
use super::lists::{HeldList, HeldLists, Role};
use super::record::Stage;
use super::simulation::Hidden;
use super::{About, AnswerRecord, Conduct, Key, Meter, Notice, Output, Record, Refusal, SlotRecord};
use crate::derive::{self, sha256};
use crate::keys::{ListHash, prefix, random};
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::scheme::committee::dealing::Dealing;
use crate::scheme::committee::field::Element;
use crate::time::{Slot, Timestamp};
use crate::topic::MeterChannel;
use crate::wire::{DealtReading, MaskedReading, Message as _, RecoveryRequest, Retry, Reveal, Sign1};

/// What is ready before the slot ends, so that nothing after its end takes a time that depends on the noise.
#[derive(Debug)]
struct Prepared {
    list: ListHash,
    noise: Zeroizing<i64>,
    cover: Cover,
}

/// What hides a noisy reading, by the scheme.
#[derive(Debug)]
enum Cover {
    Masks(Zeroizing<u64>),
    Dealing(Dealing),
}

/// The slots that are not closed, with what was said in each.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) reported: BTreeMap<Slot, SlotRecord>,
    /// What was answered as a holder.
    pub(super) answers: BTreeMap<Slot, AnswerRecord>,
    /// Slots whose reading waits for its moment.
    pub(super) unpublished: BTreeMap<Slot, Timestamp>,
    /// Open slots in which the gateway asked for something.
    pub(super) asked: BTreeSet<Slot>,
    /// When the reveals of open slots were last sent.
    pub(super) revealed: BTreeMap<Slot, Timestamp>,
    prepared: BTreeMap<Slot, Prepared>,
}

impl Slots {
    /// When a reading is published, or a slot closes.
    pub(super) fn deadline(&self, lists: &HeldLists) -> Option<Timestamp> {
        let reported = self.reported.values().map(|record| (&record.list, record.slot));
        let answered = self.answers.values().map(|record| (&record.list, record.slot));
        let ends = reported.chain(answered).filter_map(|(list, slot)| Some(lists.get(list)?.expiry_of(slot)));
        self.unpublished.values().copied().chain(ends).min()
    }

    /// Whether the reveal or answer of a slot may be repeated: once in half a reveal window.
    pub(super) fn may_repeat(&self, slot: Slot, list: &MembershipList, at: Timestamp) -> bool {
        let pause = list.params().terms().reveal_seconds * 1000 / 2;
        self.revealed.get(&slot).is_none_or(|last| last.plus_millis(pause) <= at)
    }

    /// Returns the start of the earliest slot that may still be charged: `start`, or that of an open one before it. Later
    /// ones start after the high-water mark.
    fn oldest_open(&self, start: Timestamp, lists: &HeldLists) -> Timestamp {
        let starts = |record: &SlotRecord| Some(lists.get(&record.list)?.list.params().slot_start(record.slot));
        self.reported.values().filter_map(starts).fold(start, Timestamp::min)
    }

    /// Forgets what was prepared for slots that are over.
    fn drop_stale(&mut self, lists: &HeldLists, at: Timestamp) {
        self.prepared.retain(|slot, ready| lists.get(&ready.list).is_some_and(|held| at < held.expiry_of(*slot)));
    }

    /// The attempt and the message of the newest reading of a slot.
    fn reading(&self, slot: Slot) -> Option<(u8, Arc<[u8]>)> {
        match &self.reported.get(&slot)?.stage {
            Stage::Sent { attempt, message, .. }
            | Stage::Dealt { attempt, message, .. }
            | Stage::Answered { attempt, message, .. } => Some((*attempt, message.clone())),
            Stage::Held => None,
        }
    }
}

impl<C: Conduct> Meter<C> {
    pub(super) fn measured(&mut self, slot: Slot, watts: i64, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        if let Err(refusal) = self.report(slot, watts, at, rng) {
            let concerned = if refusal == Refusal::NoList { Slot(0) } else { slot };
            self.refuse(&refusal, None, concerned);
        }
    }

    fn report(
        &mut self,
        slot: Slot,
        watts: i64,
        at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(), Refusal> {
        let held = self.lists.in_force(slot).ok_or(Refusal::NoList)?;
        let (params, list) = (*held.list.params(), *held.list.hash());
        let ended = params.slot_end(slot);
        if at < ended {
            return Err(Refusal::SlotNotOver);
        }
        if params.slot_expiry(slot) <= at {
            return Err(Refusal::SlotOver);
        }
        if params.slot_start(slot).as_secs() < self.account.high_water {
            return Err(Refusal::AlreadyReported);
        }
        let record = SlotRecord { slot, list, reading: params.clip(watts), retry: None, stage: Stage::Held };
        let closes = ended.plus_secs(params.terms().reading_seconds);
        if closes <= at {
            self.account.high_water = ended.as_secs();
            self.persist_account();
            self.keep(record);
            return Ok(());
        }
        let publish_at = ended.plus_millis(first_half(closes.millis_since(ended), rng));
        self.attempt(record, 0, publish_at, rng)
    }

    /// Answers a request once; the same request again gets the same bytes, once in half a reveal window; another one nothing.
    pub(super) fn answer(&mut self, request: &RecoveryRequest, bytes: &[u8], at: Timestamp) -> Result<(), Refusal> {
        let slot = request.slot;
        let record = self.slots.reported.get(&slot).ok_or(Refusal::UnknownSlot)?;
        let held = self.lists.get(&record.list).ok_or(Refusal::UnknownSlot)?;
        let (attempt, secret, message) = match &record.stage {
            Stage::Answered { attempt, request: answered, .. } if *attempt == request.attempt => {
                if payload_of(answered) == payload_of(bytes) {
                    if self.slots.may_repeat(slot, &held.list, at) {
                        self.publish_reveal(slot, at);
                    }
                    return Ok(());
                }
                if !self.conduct.answers_once() {
                    return self.answer_again(request, bytes, at);
                }
                let (certificate, answered) = (held.list.gateway_certificate().to_vec(), answered.to_vec());
                self.keep_evidence(certificate, answered, bytes.to_vec());
                return Err(Refusal::SecondRequest);
            }
            Stage::Sent { attempt, secret, message, .. } if *attempt == request.attempt => (*attempt, secret, message),
            Stage::Dealt { .. } => return Err(Refusal::NotAHolder),
            Stage::Held | Stage::Sent { .. } | Stage::Answered { .. } => return Err(Refusal::OtherAttempt),
        };
        if self.slots.unpublished.get(&slot).is_some_and(|&publish_at| at < publish_at) {
            return Err(Refusal::OtherAttempt);
        }
        let Role::Pairwise(member) = &held.role else { return Err(Refusal::NotAHolder) };
        let missing = MemberSet::from_bytes(held.list.params().members(), &request.missing)?;
        self.check_missing(&missing, held.list.params().max_missing(), member.index)?;
        let revealed = secret.wrapping_add(member.given_up(&missing, slot, attempt));
        let reveal = self.seal_reveal(request, revealed)?;
        let stage = Stage::Answered { attempt, message: message.clone(), request: bytes.into(), reveal };
        self.keep(SlotRecord { stage, ..record.clone() });
        self.publish_reveal(slot, at);
        self.notice(Notice::Answered { slot, attempt });
        Ok(())
    }

    pub(super) fn check_missing(&self, missing: &MemberSet, most: u16, index: u16) -> Result<(), Refusal> {
        let (found, most) = (missing.len(), self.conduct.most_missing(most));
        if found > most {
            return Err(Refusal::TooManyMissing { most, found });
        }
        if missing.contains(index) {
            return Err(Refusal::NamesThisMeter);
        }
        Ok(())
    }

    pub(super) fn seal_reveal(&self, request: &RecoveryRequest, revealed: u64) -> Result<Arc<[u8]>, Refusal> {
        let held = self.lists.get(&request.list).ok_or(Refusal::OtherList)?;
        let reveal = Reveal {
            list: request.list.prefix(),
            slot: request.slot,
            attempt: request.attempt,
            revealed,
            request: prefix(&sha256(&request.payload())),
        };
        Ok(reveal.seal(&held.mac, &MeterChannel::Reveal.topic(&self.config.cluster, &self.id)).into())
    }

    /// Opens the next attempt: the earlier one is closed for good, its secret gone.
    pub(super) fn retry(
        &mut self,
        retry: Retry,
        bytes: &[u8],
        at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(), Refusal> {
        let record = self.slots.reported.get(&retry.slot).ok_or(Refusal::UnknownSlot)?.clone();
        let list = self.lists.get(&record.list).ok_or(Refusal::UnknownSlot)?.list.clone();
        let params = *list.params();
        match record.stage {
            Stage::Sent { attempt, .. } | Stage::Dealt { attempt, .. } | Stage::Answered { attempt, .. }
                if attempt == retry.attempt =>
            {
                if let Some(first) = record.retry.filter(|first| payload_of(first) != payload_of(bytes)) {
                    self.keep_evidence(list.gateway_certificate().to_vec(), first.to_vec(), bytes.to_vec());
                    return Err(Refusal::SecondRetry);
                }
                if !self.slots.unpublished.contains_key(&retry.slot) {
                    self.publish_reading(retry.slot);
                }
                return Ok(());
            }
            Stage::Sent { attempt, .. } | Stage::Dealt { attempt, .. } | Stage::Answered { attempt, .. }
                if attempt > retry.attempt =>
            {
                return Err(Refusal::AttemptNotAbove { found: retry.attempt });
            }
            Stage::Held | Stage::Sent { .. } | Stage::Dealt { .. } | Stage::Answered { .. } => {}
        }
        let most = params.attempts();
        if retry.attempt >= most {
            return Err(Refusal::TooManyAttempts { most, found: retry.attempt });
        }
        let closes = Timestamp::from_secs(retry.deadline).min(params.slot_expiry(retry.slot));
        if closes <= at {
            return Err(Refusal::RetryOver);
        }
        let publish_at = at.plus_millis(first_half(closes.millis_since(at), rng));
        self.attempt(SlotRecord { retry: Some(bytes.into()), ..record }, retry.attempt, publish_at, rng)
    }

    /// Draws noise and secret, charges the ledger and the day, masks, records, and schedules the reading (`protocol.md 4`, steps 2 to 6).
    fn attempt(
        &mut self,
        record: SlotRecord,
        attempt: u8,
        publish_at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(), Refusal> {
        let slot = record.slot;
        let held = self.lists.get(&record.list).ok_or(Refusal::NoList)?;
        let params = *held.list.params();
        let start = params.slot_start(slot);
        let policy = &self.config.policy;
        let (day, largest) = (start.utc_day(), self.lists.largest_rho(start));
        if !self.account.days.allow(day, &params, largest, policy)
            || !self.account.ledger.charge(start, params.charge_micro_epsilon(), policy.daily_micro_epsilon)
        {
            return Err(Refusal::LedgerExhausted);
        }
        self.account.days.charge(day, &params, largest);
        let reported = self.reported(slot, &params, &record.reading);
        let prepared = self.slots.prepared.remove(&slot).filter(|ready| attempt == 0 && ready.list == record.list);
        let prepared = prepared.unwrap_or_else(|| self.draw(slot, &record.list, attempt, rng));
        let held = self.lists.get(&record.list).ok_or(Refusal::NoList)?;
        let share = Zeroizing::new(self.conduct.share(*prepared.noise));
        let noisy = Zeroizing::new(reported.watts().wrapping_add(*share));
        let stage = match prepared.cover {
            Cover::Masks(masks) => self.mask(held, slot, attempt, &noisy, &masks, publish_at, rng),
            Cover::Dealing(dealing) => self.deal(held, slot, attempt, &noisy, &dealing, publish_at),
        };

        self.conduct.hid(Hidden { slot, attempt, watts: reported.watts(), share: *share });
        self.account.high_water = self.account.high_water.max(params.slot_end(slot).as_secs());
        self.account.ledger.forget_before(self.slots.oldest_open(start, &self.lists));
        self.persist_account();
        self.keep(SlotRecord { stage, ..record });
        self.slots.unpublished.insert(slot, publish_at);
        self.notice(Notice::Charged { slot, attempt });
        Ok(())
    }

    /// Masks a noisy reading with the sum of masks, and a secret that is kept until a request asks for it.
    fn mask(
        &self,
        held: &HeldList,
        slot: Slot,
        attempt: u8,
        noisy: &i64,
        masks: &u64,
        publish_at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Stage {
        let fresh = Zeroizing::new(random(rng));
        let list = held.list.hash();
        let secret = Zeroizing::new(derive::secret(&held.self_key, list, slot, attempt, *noisy, &fresh));
        let ciphertext = noisy
            .cast_unsigned()
            .wrapping_add(derive::stream(&held.stream, slot, attempt))
            .wrapping_add(*masks)
            .wrapping_add(*secret);
        let reading = MaskedReading { list: list.prefix(), slot, attempt, ciphertext };
        let message = reading.seal(&held.mac, &self.topic(MeterChannel::Reading)).into();
        Stage::Sent { attempt, secret, message, publish_at }
    }

    /// Hides a noisy reading with what only the holders together can open.
    fn deal(
        &self,
        held: &HeldList,
        slot: Slot,
        attempt: u8,
        noisy: &i64,
        dealing: &Dealing,
        publish_at: Timestamp,
    ) -> Stage {
        let stream = Element::from_block(derive::stream_block(&held.stream, slot, attempt));
        let corrections: Vec<u8> = dealing.corrections().iter().flat_map(|value| value.to_be_bytes()).collect();
        let reading = DealtReading {
            list: held.list.hash().prefix(),
            slot,
            attempt,
            ciphertext: Element::from_signed(*noisy) + stream + dealing.secret(),
            corrections: &corrections,
        };
        let message = reading.seal(&held.mac, &self.topic(MeterChannel::Reading)).into();
        Stage::Dealt { attempt, message, publish_at }
    }

    /// Draws noise, and computes what hides a reading.
    fn draw(&mut self, slot: Slot, list: &ListHash, attempt: u8, rng: &mut (impl CryptoRng + ?Sized)) -> Prepared {
        let held =
            self.lists.held.values_mut().find(|held| held.list.hash() == list).expect("the caller has just found it");
        let cover = match &mut held.role {
            Role::Pairwise(member) => Cover::Masks(member.masks(slot, attempt, held.list.to_slot())),
            Role::Committee { member, .. } => Cover::Dealing(member.deal(slot, attempt)),
        };
        let noise = Zeroizing::new(held.sampler.sample(rng));
        Prepared { list: *list, noise, cover }
    }

    /// Prepares the slot that has begun, and asks for its measurement.
    pub(super) fn prepare(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let Some((slot, list, from, to)) = self.lists.measuring(at) else { return };
        if self.slots.prepared.get(&slot).is_none_or(|ready| ready.list != list) {
            let prepared = self.draw(slot, &list, 0, rng);
            self.slots.prepared.insert(slot, prepared);
            self.outputs.push_back(Output::Measure { slot, from, to });
        }
    }

    pub(super) fn publish_what_is_due(&mut self, at: Timestamp) {
        let due: Vec<Slot> =
            self.slots.unpublished.iter().filter(|(_, publish_at)| **publish_at <= at).map(|(&slot, _)| slot).collect();
        for slot in due {
            self.slots.unpublished.remove(&slot);
            self.publish_reading(slot);
        }
    }

    /// Closes what is over: at the end of the following slot, reading, noise and secret are erased.
    pub(super) fn close_what_is_over(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let over =
            |record: &SlotRecord| self.lists.get(&record.list).is_none_or(|held| held.expiry_of(record.slot) <= at);
        let closed: Vec<Slot> =
            self.slots.reported.values().filter(|record| over(record)).map(|record| record.slot).collect();
        for slot in closed {
            let record = self.slots.reported.remove(&slot);
            self.slots.unpublished.remove(&slot);
            self.slots.revealed.remove(&slot);
            self.erase(Key::Slot(slot));
            let asked = self.slots.asked.remove(&slot);
            if let Some(SlotRecord { list, stage: Stage::Sent { .. } | Stage::Dealt { .. }, .. }) =
                record.filter(|_| !asked)
                && self.lists.get(&list).is_some_and(|held| held.role.is_asked())
            {
                self.not_asked(slot, &list, at, rng);
            }
        }
        self.close_answers(at);
        self.slots.drop_stale(&self.lists, at);
        self.drop_lists_that_are_over(at);
    }

    /// Takes an open slot from the meter's own records: it resends or answers from them, or the slot is skipped.
    pub(super) fn reopen_slot(&mut self, record: SlotRecord) {
        if self.lists.get(&record.list).is_none() {
            self.erase(Key::Slot(record.slot));
            return;
        }
        if let Stage::Sent { publish_at, .. } | Stage::Dealt { publish_at, .. } = record.stage {
            self.slots.unpublished.insert(record.slot, publish_at);
        }
        self.slots.reported.insert(record.slot, record);
    }

    /// Sends a slot's last message again: its reading or its reveal.
    pub(super) fn publish_slot(&mut self, slot: Slot, at: Timestamp) {
        match self.slots.reported.get(&slot).map(|record| &record.stage) {
            Some(Stage::Sent { .. } | Stage::Dealt { .. }) => self.publish_reading(slot),
            Some(Stage::Answered { .. }) => self.publish_reveal(slot, at),
            Some(Stage::Held) | None => {}
        }
    }

    fn publish_reading(&mut self, slot: Slot) {
        if let Some((attempt, message)) = self.slots.reading(slot) {
            self.publish(MeterChannel::Reading, Some(About { slot, attempt }), message);
        }
    }

    pub(super) fn publish_reveal(&mut self, slot: Slot, at: Timestamp) {
        self.slots.revealed.insert(slot, at);
        match self.slots.reported.get(&slot).map(|record| &record.stage) {
            Some(Stage::Answered { attempt, reveal, .. }) => {
                let (about, reveal) = (About { slot, attempt: *attempt }, reveal.clone());
                self.publish(MeterChannel::Reveal, Some(about), reveal);
            }
            Some(Stage::Held | Stage::Sent { .. } | Stage::Dealt { .. }) | None => {}
        }
    }

    pub(super) fn keep(&mut self, record: SlotRecord) {
        self.persist(Record::Slot(record.clone()));
        self.slots.reported.insert(record.slot, record);
    }
}

/// What a signature covers: two envelopes with the same payload are the same request.
pub(super) fn payload_of(envelope: &[u8]) -> Option<&[u8]> {
    Sign1::decode(envelope).ok().map(|envelope| envelope.payload())
}

/// A random moment in the first half of a window, so that a cluster does not speak at once.
fn first_half(window_millis: u64, rng: &mut (impl CryptoRng + ?Sized)) -> u64 {
    uniform(0, window_millis / 2, rng)
}
