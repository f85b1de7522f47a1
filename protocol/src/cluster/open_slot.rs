//! One slot at the gateway: collecting readings, then recovering, then closed (`protocol-gateway.md 4, 4a`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::holders::Watch;
use super::member_message::MemberMessage;
use super::offenders::Offenders;
use super::own_list::OwnList;
use super::roster::Roster;
use super::{ClusterConfig, Notice, Record, Rejection, STALL_SECONDS};
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::derive::{self, sha256};
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::keys::prefix;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::params::Params;
use crate::scheme::committee::field::Element;
use crate::scheme::committee::{self, Opened};
use crate::scheme::{Scheme, pairwise};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::{DealtReading, Message, RecoveryRequest, Retry, Sign1};

/// A slot from the end of its measurement to its outcome.
#[derive(Debug)]
pub(super) struct OpenSlot {
    slot: Slot,
    own: Arc<OwnList>,
    attempt: u8,
    closes: Timestamp,
    collected: Collected,
    /// Who did not reveal in an earlier attempt.
    silent: MemberSet,
    stage: Stage,
}

/// An attempt that ended after a request.
#[derive(Debug)]
pub(super) struct Attempt {
    own: Arc<OwnList>,
    pub(super) slot: Slot,
    /// S.
    pub(super) missing: MemberSet,
    /// Who was asked to reveal and did not.
    pub(super) silent: MemberSet,
    /// Whether more than half of the members did not reveal in this attempt or an earlier one.
    pub(super) most_silent: bool,
    /// Whether the sum is one of readings and noise, if everybody revealed.
    pub(super) decoded: Option<bool>,
}

impl Attempt {
    pub(super) fn list(&self) -> &MembershipList {
        &self.own.list
    }

    /// Whether a meter was asked to reveal, and did.
    pub(super) fn took_part(&self, meter: &MeterId) -> bool {
        let index = self.list().index_of(meter.as_str());
        index.is_some_and(|index| !self.missing.contains(index) && !self.silent.contains(index))
    }
}

/// What decides whom a slot leaves out.
pub(super) struct Judges<'a> {
    pub(super) config: &'a ClusterConfig,
    pub(super) roster: &'a Roster,
    pub(super) offenders: &'a mut Offenders,
    /// How many retries are left.
    pub(super) left: u64,
    pub(super) rng: &'a mut dyn CryptoRng,
}

/// Readings, and reveals or answers, of the open attempt, by the list's scheme.
#[derive(Debug)]
enum Collected {
    Pairwise(pairwise::Collector),
    Committee {
        collector: committee::Collector,
        /// The sum, if the answers so far open it.
        opened: Option<Opened>,
        /// Whether the deadline has passed, so that any answers that open the sum are enough.
        overdue: bool,
    },
}

impl Collected {
    fn new(params: &Params) -> Self {
        match params.terms().scheme {
            Scheme::Pairwise { .. } => Self::Pairwise(pairwise::Collector::new(params.members())),
            Scheme::Committee(committee) => Self::Committee {
                collector: committee::Collector::new(params.members(), committee),
                opened: None,
                overdue: false,
            },
        }
    }

    fn heard(&self, member: u16) -> bool {
        match self {
            Self::Pairwise(collector) => collector.reading(member).is_some(),
            Self::Committee { collector, .. } => collector.has_reading(member),
        }
    }

    /// How many readings there are.
    const fn count(&self) -> u16 {
        match self {
            Self::Pairwise(collector) => collector.count(),
            Self::Committee { collector, .. } => collector.count(),
        }
    }
}

#[derive(Debug)]
enum Stage {
    /// Readings arrive; a retry is repeated while they do.
    Collecting { retry: Option<Broadcast> },
    /// The missing members are frozen; reveals or answers arrive.
    Recovering { missing: MemberSet, request: Broadcast, hash: [u8; 8] },
}

/// What a slot does next.
#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// Persist a new request, then publish it on the recovery topic.
    Request {
        attempt: u8,
        bytes: Arc<[u8]>,
        notices: Vec<Notice>,
    },
    /// Persist a new retry, then publish it on the retry topic.
    Retry {
        attempt: u8,
        bytes: Arc<[u8]>,
        /// The attempt before, if it got as far as a request.
        ended: Option<Attempt>,
    },
    /// Publish the last request or retry again.
    Repeat {
        channel: GatewayChannel,
        bytes: Arc<[u8]>,
    },
    Close(Result<Aggregate, Failure>),
}

impl OpenSlot {
    pub(super) fn new(slot: Slot, own: Arc<OwnList>) -> Self {
        let params = own.list.params();
        let closes = params.slot_end(slot).plus_secs(params.terms().reading_seconds);
        let (collected, silent) = (Collected::new(params), MemberSet::empty(params.members()));
        Self { slot, own, attempt: 0, closes, collected, silent, stage: Stage::Collecting { retry: None } }
    }

    pub(super) const fn own(&self) -> &Arc<OwnList> {
        &self.own
    }

    /// Takes what a member says, and returns it as an entry.
    pub(super) fn accept(&mut self, member: u16, message: &MemberMessage<'_>) -> Result<Record, Rejection> {
        let (slot, attempt) = (self.slot, self.attempt);
        if message.attempt() != attempt {
            return Err(Rejection::OtherAttempt);
        }
        let record = match (message, &self.collected) {
            (MemberMessage::Reading(reading), Collected::Pairwise(collector)) => {
                let ciphertext = reading.ciphertext;
                self.check_reading(collector.reading(member).map(|known| known == ciphertext))?;
                Record::Reading { slot, attempt, member, ciphertext }
            }
            (
                MemberMessage::Dealt(DealtReading { ciphertext, corrections, .. }),
                Collected::Committee { collector, .. },
            ) => {
                let (expected, found) = (collector.corrections_len(), corrections.len());
                if expected != found {
                    return Err(Rejection::Corrections { expected, found });
                }
                self.check_reading(collector.reading_is(member, *ciphertext, corrections))?;
                Record::Dealt { slot, attempt, member, ciphertext: *ciphertext, corrections: (*corrections).into() }
            }
            (MemberMessage::Reveal(reveal), Collected::Pairwise(collector)) => {
                if self.asked(reveal.request)?.contains(member) {
                    return Err(Rejection::NotAResponder);
                }
                is_new(collector.reveal(member).map(|known| known == reveal.revealed))?;
                Record::Reveal { slot, attempt, member, revealed: reveal.revealed }
            }
            // A meter that is missing as a member may still answer as a holder.
            (MemberMessage::Answer(answer), Collected::Committee { collector, .. }) => {
                let holder = self.own.list.holder_of(member).ok_or(Rejection::NotAHolder)?;
                self.asked(answer.request)?;
                is_new(collector.answer(holder).map(|known| known == answer.sum))?;
                Record::Answer { slot, attempt, member, sum: answer.sum }
            }
            (_, Collected::Pairwise(_) | Collected::Committee { .. }) => return Err(Rejection::OtherScheme),
        };
        self.add(&record);
        Ok(record)
    }

    /// Refuses a reading that has come before, and one that comes after the members were asked to reveal. `known` tells whether
    /// the one before was the same.
    fn check_reading(&self, known: Option<bool>) -> Result<(), Rejection> {
        is_new(known)?;
        match self.stage {
            Stage::Collecting { .. } => Ok(()),
            Stage::Recovering { .. } => Err(Rejection::TooLate),
        }
    }

    /// S of the open request, if it is the one that is named.
    fn asked(&self, named: [u8; 8]) -> Result<&MemberSet, Rejection> {
        match &self.stage {
            Stage::Collecting { .. } => Err(Rejection::NotAsked),
            Stage::Recovering { hash, .. } if *hash != named => Err(Rejection::OtherRequest),
            Stage::Recovering { missing, .. } => Ok(missing),
        }
    }

    /// Whether everything that the stage waits for is in, so that it can move on before its window closes.
    pub(super) fn is_complete(&self) -> bool {
        let members = self.own.list.params().members();
        match (&self.stage, &self.collected) {
            (Stage::Collecting { .. }, collected) => collected.count() == members,
            (Stage::Recovering { missing, .. }, Collected::Pairwise(collector)) => {
                collector.is_complete(members, missing)
            }
            (Stage::Recovering { .. }, Collected::Committee { collector, opened, overdue }) => {
                opened.as_ref().is_some_and(|opened| *overdue || collector.is_settled(opened))
            }
        }
    }

    /// What is to be done now; called again until it says to wait.
    pub(super) fn step(&mut self, now: Timestamp, judges: &mut Judges<'_>) -> Step {
        let params = *self.own.list.params();
        let complete = self.is_complete();
        match &mut self.stage {
            Stage::Collecting { retry } => {
                // A slot is never frozen before it has ended, however fast the members' clocks run.
                if self.closes <= now || (complete && params.slot_end(self.slot) <= now) {
                    return self.freeze(now, judges);
                }
                retry.as_mut().map_or(Step::Wait, |retry| retry.repeat(now))
            }
            Stage::Recovering { request, .. } => {
                if complete {
                    return self.unmask(now, judges);
                }
                if now < self.closes {
                    return request.repeat(now);
                }
                self.deadline_passed(now, judges)
            }
        }
    }

    /// The reveal window is over and something is missing. Reveals that are missing cost the attempt. Answers of a committee
    /// are waited for until the following slot ends, and now any that open the sum are enough.
    fn deadline_passed(&mut self, now: Timestamp, judges: &mut Judges<'_>) -> Step {
        let expiry = self.own.list.params().slot_expiry(self.slot);
        let failure = match &mut self.collected {
            Collected::Pairwise(_) => {
                if let Some(again) = self.try_again(now, judges) {
                    return again;
                }
                Failure::RevealMissing
            }
            Collected::Committee { overdue, .. } if !*overdue => {
                *overdue = true;
                self.closes = expiry;
                self.open_sum();
                return self.step(now, judges);
            }
            Collected::Committee { collector, .. } if collector.has_enough() => Failure::UnmaskFailed,
            Collected::Committee { .. } => Failure::RevealMissing,
        };
        let away = expiry.plus_secs(STALL_SECONDS) <= now;
        Step::Close(Err(if away { Failure::Interrupted } else { failure }))
    }

    pub(super) fn deadline(&self) -> Timestamp {
        let params = self.own.list.params();
        match &self.stage {
            Stage::Collecting { .. } if self.is_complete() => params.slot_end(self.slot),
            Stage::Collecting { retry: None } => self.closes,
            Stage::Collecting { retry: Some(broadcast) } | Stage::Recovering { request: broadcast, .. } => {
                self.closes.min(broadcast.next)
            }
        }
    }

    pub(super) fn broadcast_now(&mut self, now: Timestamp) {
        match &mut self.stage {
            Stage::Collecting { retry: None } => {}
            Stage::Collecting { retry: Some(broadcast) } | Stage::Recovering { request: broadcast, .. } => {
                broadcast.next = now;
            }
        }
    }

    /// Gives what queued up while the gateway was away the time of a window to arrive, within the slot's own.
    pub(super) fn allow_catching_up(&mut self, now: Timestamp) {
        let params = self.own.list.params();
        let terms = params.terms();
        let (window, reserve) = match self.stage {
            Stage::Collecting { .. } => (terms.reading_seconds, terms.reveal_seconds),
            Stage::Recovering { .. } => (terms.reveal_seconds, 0),
        };
        let latest = params.slot_start(self.slot.plus(2)).as_secs().saturating_sub(reserve);
        // A whole second, as every deadline is: the window that follows would else lose the rest of the one it begins in.
        self.closes = self.closes.max(Timestamp::from_secs((now.as_secs_ceil() + window).min(latest)));
        self.broadcast_now(now);
    }

    /// Applies an entry that was persisted before a restart.
    pub(super) fn replay(&mut self, record: &Record) {
        match record {
            Record::Retry { attempt, bytes, .. } => {
                let deadline = decode(bytes).map(|retry: Retry| retry.deadline);
                self.start_attempt(*attempt, deadline.unwrap_or(0), bytes.clone(), Timestamp::from_millis(0));
            }
            Record::Request { attempt, bytes, .. } if *attempt == self.attempt => {
                if let Some(request) = decode::<RecoveryRequest>(bytes) {
                    self.start_recovery(&request, bytes.clone(), Timestamp::from_millis(0));
                }
            }
            Record::Reading { attempt, member, .. } | Record::Dealt { attempt, member, .. }
                if *attempt == self.attempt && self.own.list.member(*member).is_some() =>
            {
                self.add(record);
            }
            Record::Reveal { attempt, .. } | Record::Answer { attempt, .. }
                if *attempt == self.attempt && matches!(self.stage, Stage::Recovering { .. }) =>
            {
                self.add(record);
            }
            Record::Reading { .. }
            | Record::Dealt { .. }
            | Record::Request { .. }
            | Record::Reveal { .. }
            | Record::Answer { .. }
            | Record::Enrolment { .. }
            | Record::List(_)
            | Record::Outcome(_)
            | Record::Offenders(_)
            | Record::Retries(_)
            | Record::Evidence { .. } => {}
        }
    }

    /// Adds a member's message. Tries to decode once there may be enough answers.
    fn add(&mut self, record: &Record) {
        let (own, slot, attempt) = (&self.own, self.slot, self.attempt);
        match (record, &mut self.collected) {
            (&Record::Reading { member, ciphertext, .. }, Collected::Pairwise(collector)) => {
                collector.add_reading(member, ciphertext, unstreamed(own, slot, attempt, member, ciphertext));
            }
            (&Record::Dealt { member, ciphertext, ref corrections, .. }, Collected::Committee { collector, .. }) => {
                let unstreamed = unstream(own, slot, attempt, member, ciphertext);
                collector.add_reading(member, ciphertext, unstreamed, corrections);
            }
            (&Record::Reveal { member, revealed, .. }, Collected::Pairwise(collector)) => {
                collector.add_reveal(member, revealed);
            }
            (&Record::Answer { member, sum, .. }, Collected::Committee { collector, overdue, .. }) => {
                let Some(holder) = own.list.holder_of(member) else { return };
                collector.add_answer(holder, sum);
                if collector.may_be_enough() || (*overdue && collector.has_enough()) {
                    self.open_sum();
                }
            }
            (_, Collected::Pairwise(_) | Collected::Committee { .. }) => {}
        }
    }

    pub(super) fn outcome(&self, result: Result<Aggregate, Failure>) -> SlotOutcome {
        let params = self.own.list.params();
        SlotOutcome {
            slot: self.slot,
            start: params.slot_start(self.slot),
            end: params.slot_end(self.slot),
            epoch: self.own.list.epoch(),
            members: params.members(),
            honest: params.honest(),
            responders: self.in_sum(),
            attempts: self.attempt + 1,
            micro_epsilon: params.charge_micro_epsilon(),
            noise_scale: params.noise_scale(),
            result,
        }
    }

    /// The end of the slot's measurement.
    pub(super) fn ends(&self) -> Timestamp {
        self.own.list.params().slot_end(self.slot)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.own.list.epoch()
    }

    pub(super) fn list(&self) -> &MembershipList {
        &self.own.list
    }

    /// Every member, with whether its reading of the last attempt arrived.
    pub(super) fn heard(&self) -> impl Iterator<Item = (&Enrolment, bool)> {
        let members = (0u16..).zip(self.own.list.members());
        members.map(|(index, member)| (member, self.collected.heard(index)))
    }

    /// How many readings arrived in the last attempt.
    pub(super) fn heard_from(&self) -> u16 {
        self.collected.count()
    }

    /// How many readings are in the sum; before S is fixed, how many arrived.
    fn in_sum(&self) -> u16 {
        match &self.stage {
            Stage::Collecting { .. } => self.collected.count(),
            Stage::Recovering { missing, .. } => self.own.list.params().members() - missing.len(),
        }
    }

    /// The attempt at its end, if its members were asked to reveal.
    pub(super) fn ended(&self) -> Option<Attempt> {
        let Stage::Recovering { missing, .. } = &self.stage else { return None };
        let silent = self.unrevealed();
        let decoded = match &self.collected {
            Collected::Pairwise(_) if !silent.is_empty() => None,
            Collected::Committee { collector, .. } if !collector.has_enough() => None,
            Collected::Pairwise(_) | Collected::Committee { .. } => {
                Some(self.sum(missing).is_some_and(|sum| self.own.list.params().is_plausible(sum)))
            }
        };
        let (members, missing) = (self.own.list.params().members(), missing.clone());
        let not_revealed = (0..members).filter(|&member| silent.contains(member) || self.silent.contains(member));
        let most_silent = not_revealed.count() > usize::from(members / 2);
        let (own, slot) = (self.own.clone(), self.slot);
        Some(Attempt { own, slot, missing, silent, most_silent, decoded })
    }

    /// Who was asked to reveal and did not yet.
    fn unrevealed(&self) -> MemberSet {
        let members = self.own.list.params().members();
        match (&self.stage, &self.collected) {
            // Holders may drop out: no member is asked for anything that only it can give.
            (Stage::Collecting { .. }, _) | (_, Collected::Committee { .. }) => MemberSet::empty(members),
            (Stage::Recovering { missing, .. }, Collected::Pairwise(collector)) => {
                let awaited = |member: &u16| !missing.contains(*member) && collector.reveal(*member).is_none();
                MemberSet::from_members(members, (0..members).filter(awaited))
            }
        }
    }

    /// The sum over everybody who is not in S, if what has come opens it.
    fn sum(&self, missing: &MemberSet) -> Option<i64> {
        match &self.collected {
            Collected::Pairwise(collector) => {
                Some(collector.sum(missing, |member, ciphertext| {
                    unstreamed(&self.own, self.slot, self.attempt, member, ciphertext)
                }))
            }
            Collected::Committee { opened, .. } => opened.as_ref().map(|opened| opened.sum),
        }
    }

    /// Opens the sum of a committee as far as the answers allow.
    fn open_sum(&mut self) {
        let (Stage::Recovering { missing, .. }, Collected::Committee { collector, opened, .. }) =
            (&self.stage, &mut self.collected)
        else {
            return;
        };
        let (own, slot, attempt) = (&self.own, self.slot, self.attempt);
        *opened = collector.open(missing, |member, ciphertext| unstream(own, slot, attempt, member, ciphertext));
    }

    /// Hands over who has answered as a holder, and how, from a request on.
    pub(super) fn into_watch(self, now: Timestamp) -> Option<Watch> {
        let Stage::Recovering { hash, missing, .. } = self.stage else { return None };
        let Collected::Committee { collector, overdue, .. } = self.collected else { return None };
        let (own, slot, attempt) = (self.own, self.slot, self.attempt);
        let until = if overdue { now } else { self.closes };
        Some(Watch { own, slot, attempt, hash, missing, collector, until })
    }

    /// Ends an attempt whose sum is open. A spoiled one is tried again if the probable offender can be left out.
    fn unmask(&mut self, now: Timestamp, judges: &mut Judges<'_>) -> Step {
        let Stage::Recovering { missing, .. } = &self.stage else { return Step::Wait };
        let Some(sum) = self.sum(missing) else { return Step::Wait };
        if self.own.list.params().is_plausible(sum) {
            return Step::Close(Ok(Aggregate::new(sum)));
        }
        let again = judges.offenders.may_repeat(&self.own.list, judges.left);
        let retry = if again { self.try_again(now, judges) } else { None };
        retry.unwrap_or(Step::Close(Err(Failure::UnmaskFailed)))
    }

    /// Ends the reading window: fixes who is missing or left out and asks the others to reveal, if not too many are missing.
    fn freeze(&mut self, now: Timestamp, judges: &mut Judges<'_>) -> Step {
        let params = *self.own.list.params();
        let absent = (0..params.members()).filter(|&member| !self.collected.heard(member));
        let absent = MemberSet::from_members(params.members(), absent);
        // Without time to ask, who is missing says nothing: nobody could be heard.
        let Some(deadline) = self.window(now, params.terms().reveal_seconds) else {
            return Step::Close(Err(Failure::Interrupted));
        };
        if absent.len() > params.max_missing() {
            // In a committee nothing else costs an attempt, so that one may be left for this.
            let again = matches!(self.collected, Collected::Committee { .. }).then(|| self.try_again(now, judges));
            return again.flatten().unwrap_or(Step::Close(Err(Failure::TooManyMissing)));
        }
        let Judges { config, roster, offenders, left, rng } = judges;
        let denied = |meter: &MeterId| !roster.allows(meter);
        let (missing, notices) =
            offenders.choose(self.slot, &self.own.list, absent, &self.silent, denied, *left, &mut **rng);
        let request = RecoveryRequest {
            list: *self.own.list.hash(),
            slot: self.slot,
            attempt: self.attempt,
            missing: missing.as_bytes().to_vec(),
            deadline,
        };
        let bytes: Arc<[u8]> = request.seal(&config.identity, &GatewayChannel::Recovery.topic(&config.cluster)).into();
        self.start_recovery(&request, bytes.clone(), now);
        Step::Request { attempt: self.attempt, bytes, notices }
    }

    /// Opens the next attempt, because this one is lost; `None` if none is left, of the slot's or of the day's, or no time for
    /// it.
    fn try_again(&mut self, now: Timestamp, Judges { config, left, .. }: &Judges<'_>) -> Option<Step> {
        let params = *self.own.list.params();
        let attempt = self.attempt + 1;
        let needed = params.terms().reading_seconds + params.terms().reveal_seconds;
        let fits = now.as_secs() + needed <= params.slot_expiry(self.slot).as_secs();
        if attempt >= params.attempts() || *left == 0 || !fits {
            return None;
        }
        let ended = self.ended();
        let deadline = now.as_secs() + params.terms().reading_seconds;
        let retry = Retry { list: *self.own.list.hash(), slot: self.slot, attempt, deadline };
        let bytes: Arc<[u8]> = retry.seal(&config.identity, &GatewayChannel::Retry.topic(&config.cluster)).into();
        self.start_attempt(attempt, deadline, bytes.clone(), now);
        Some(Step::Retry { attempt, bytes, ended })
    }

    /// The end of a window that starts now, in whole seconds: rounded up while the schedule has room, never past the
    /// slot's own end. `None` if there is no time left.
    fn window(&self, now: Timestamp, seconds: u64) -> Option<u64> {
        let starts = if now < self.closes { now.as_secs_ceil() } else { now.as_secs() };
        let ends = (starts + seconds).min(self.own.list.params().slot_expiry(self.slot).as_secs());
        (now < Timestamp::from_secs(ends)).then_some(ends)
    }

    fn start_recovery(&mut self, request: &RecoveryRequest, bytes: Arc<[u8]>, now: Timestamp) {
        let params = self.own.list.params();
        let members = params.members();
        let Ok(missing) = MemberSet::from_bytes(members, &request.missing) else { return };
        self.closes = Timestamp::from_secs(request.deadline);
        self.stage = Stage::Recovering {
            missing,
            request: Broadcast::new(GatewayChannel::Recovery, bytes, params.terms().reveal_seconds, now),
            hash: prefix(&sha256(&request.payload())),
        };
    }

    fn start_attempt(&mut self, attempt: u8, deadline: u64, bytes: Arc<[u8]>, now: Timestamp) {
        self.unrevealed().iter().for_each(|member| self.silent.insert(member));
        let params = self.own.list.params();
        self.attempt = attempt;
        self.closes = Timestamp::from_secs(deadline);
        self.collected = Collected::new(params);
        let retry = Broadcast::new(GatewayChannel::Retry, bytes, params.terms().reading_seconds, now);
        self.stage = Stage::Collecting { retry: Some(retry) };
    }
}

/// Refuses what has come before; `known` tells whether that was the same.
const fn is_new(known: Option<bool>) -> Result<(), Rejection> {
    match known {
        None => Ok(()),
        Some(true) => Err(Rejection::Duplicate),
        Some(false) => Err(Rejection::Contradiction),
    }
}

/// What is left of a member's ciphertext without its stream, modulo 2^64.
fn unstreamed(own: &OwnList, slot: Slot, attempt: u8, member: u16, ciphertext: u64) -> u64 {
    let (stream, _) = own.member_keys(member);
    ciphertext.wrapping_sub(derive::stream(stream, slot, attempt))
}

/// What is left of a member's ciphertext without its stream, modulo p.
pub(super) fn unstream(own: &OwnList, slot: Slot, attempt: u8, member: u16, ciphertext: Element) -> Element {
    let (stream, _) = own.member_keys(member);
    ciphertext - Element::from_block(derive::stream_block(stream, slot, attempt))
}

fn decode<'a, T: Message<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::decode(Sign1::decode(bytes).ok()?.payload()).ok()
}

/// A signed message that is repeated, byte for byte, four times per window but at most once a second.
#[derive(Debug)]
struct Broadcast {
    channel: GatewayChannel,
    bytes: Arc<[u8]>,
    every_millis: u64,
    next: Timestamp,
}

impl Broadcast {
    fn new(channel: GatewayChannel, bytes: Arc<[u8]>, window_seconds: u64, now: Timestamp) -> Self {
        let every_millis = (window_seconds * 250).max(1000);
        Self { channel, bytes, every_millis, next: now.plus_millis(every_millis) }
    }

    fn repeat(&mut self, now: Timestamp) -> Step {
        if now < self.next {
            return Step::Wait;
        }
        self.next = now.plus_millis(self.every_millis);
        Step::Repeat { channel: self.channel, bytes: self.bytes.clone() }
    }
}
