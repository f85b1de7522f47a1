//! One slot at the gateway: collecting readings, then recovering, then closed (`protocol.md 4`).

use std::sync::Arc;

use super::lists::OwnList;
use super::offenders::Offenders;
use super::roster::Roster;
use super::{ClusterConfig, Record, Rejection, STALL_SECONDS};
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::derive::{self, sha256};
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::keys::prefix;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::{Mac0, MaskedReading, Message, RecoveryRequest, Retry, Reveal, Sign1};

/// A slot from the end of its measurement to its outcome.
#[derive(Debug)]
pub(super) struct OpenSlot {
    slot: Slot,
    own: Arc<OwnList>,
    attempt: u8,
    closes: Timestamp,
    readings: Tally,
    /// Who did not reveal in an earlier attempt.
    silent: MemberSet,
    stage: Stage,
}

/// An attempt that came to its end after a request.
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
    /// Whether the slot closed with it.
    pub(super) last: bool,
}

impl Attempt {
    pub(super) fn list(&self) -> &MembershipList {
        &self.own.list
    }
}

/// What decides whom a slot leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judges<'a> {
    pub(super) config: &'a ClusterConfig,
    pub(super) roster: &'a Roster,
    pub(super) offenders: &'a Offenders,
}

#[derive(Debug)]
enum Stage {
    /// Readings arrive; a retry is repeated while they do.
    Collecting { retry: Option<Broadcast> },
    /// The missing members are frozen; reveals arrive.
    Recovering { missing: MemberSet, request: Broadcast, hash: [u8; 8], reveals: Tally },
}

/// What a slot does next.
#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// Persist a new request, then publish it on the recovery topic.
    Request {
        attempt: u8,
        bytes: Arc<[u8]>,
    },
    /// Persist a new retry, then publish it on the recovery topic.
    Retry {
        attempt: u8,
        bytes: Arc<[u8]>,
        ended: Attempt,
    },
    /// Publish the last request or retry again.
    Repeat(Arc<[u8]>),
    Close(Result<Aggregate, Failure>),
}

impl OpenSlot {
    pub(super) fn new(slot: Slot, own: Arc<OwnList>) -> Self {
        let params = own.list.params();
        let closes = params.slot_end(slot).plus_secs(params.terms().reading_seconds);
        let (readings, silent) = (Tally::new(params.members()), MemberSet::empty(params.members()));
        Self { slot, own, attempt: 0, closes, readings, silent, stage: Stage::Collecting { retry: None } }
    }

    /// The member who made a message, if its list and its tag are right.
    pub(super) fn authenticate(
        &self,
        envelope: &Mac0<'_>,
        topic: &str,
        meter: &str,
        list: &[u8; 8],
    ) -> Result<u16, Rejection> {
        if *list != self.own.list.hash().prefix() {
            return Err(Rejection::OtherList);
        }
        let member = self.own.list.index_of(meter).ok_or(Rejection::NotAMember)?;
        let (_, mac) = self.own.member_keys(member);
        if envelope.verifies(mac, topic) { Ok(member) } else { Err(Rejection::BadMac) }
    }

    pub(super) fn accept_reading(&mut self, member: u16, reading: &MaskedReading) -> Result<(), Rejection> {
        if reading.attempt != self.attempt {
            return Err(Rejection::OtherAttempt);
        }
        match (self.readings.get(member), &self.stage) {
            (Some(known), _) if known == reading.ciphertext => Err(Rejection::Duplicate),
            (Some(_), _) => Err(Rejection::Contradiction),
            (None, Stage::Recovering { .. }) => Err(Rejection::TooLate),
            (None, Stage::Collecting { .. }) => {
                self.add_reading(member, reading.ciphertext);
                Ok(())
            }
        }
    }

    pub(super) fn accept_reveal(&mut self, member: u16, reveal: &Reveal) -> Result<(), Rejection> {
        if reveal.attempt != self.attempt {
            return Err(Rejection::OtherAttempt);
        }
        let Stage::Recovering { missing, hash, reveals, .. } = &mut self.stage else {
            return Err(Rejection::NotAsked);
        };
        if reveal.request != *hash {
            return Err(Rejection::OtherRequest);
        }
        if missing.contains(member) {
            return Err(Rejection::NotAResponder);
        }
        match reveals.get(member) {
            Some(known) if known == reveal.revealed => Err(Rejection::Duplicate),
            Some(_) => Err(Rejection::Contradiction),
            None => {
                reveals.add(member, reveal.revealed, reveal.revealed);
                Ok(())
            }
        }
    }

    /// Whether everything that the stage waits for is in, so that it can move on before its window closes.
    pub(super) fn is_complete(&self) -> bool {
        let members = self.own.list.params().members();
        match &self.stage {
            Stage::Collecting { .. } => self.readings.count() == members,
            Stage::Recovering { missing, reveals, .. } => reveals.count() + missing.len() == members,
        }
    }

    /// What is to be done now; called again until it says to wait.
    pub(super) fn step(&mut self, now: Timestamp, judges: Judges<'_>) -> Step {
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
                if self.closes <= now {
                    return self.try_again(now, judges.config).unwrap_or_else(|| {
                        let away = params.slot_expiry(self.slot).plus_secs(STALL_SECONDS) <= now;
                        Step::Close(Err(if away { Failure::Interrupted } else { Failure::RevealMissing }))
                    });
                }
                request.repeat(now)
            }
        }
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
            Record::Reading { attempt, member, ciphertext, .. }
                if *attempt == self.attempt && self.own.list.member(*member).is_some() =>
            {
                self.add_reading(*member, *ciphertext);
            }
            Record::Request { attempt, bytes, .. } if *attempt == self.attempt => {
                if let Some(request) = decode::<RecoveryRequest>(bytes) {
                    self.start_recovery(&request, bytes.clone(), Timestamp::from_millis(0));
                }
            }
            Record::Reveal { attempt, member, revealed, .. } if *attempt == self.attempt => {
                if let Stage::Recovering { reveals, .. } = &mut self.stage {
                    reveals.add(*member, *revealed, *revealed);
                }
            }
            Record::Reading { .. } | Record::Request { .. } | Record::Reveal { .. } => {}
            Record::Enrolment { .. }
            | Record::List(_)
            | Record::Outcome(_)
            | Record::Offenders(_)
            | Record::Evidence { .. } => {}
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
        members.map(|(index, member)| (member, self.readings.get(index).is_some()))
    }

    /// How many readings arrived in the last attempt.
    pub(super) fn heard_from(&self) -> u16 {
        self.readings.count()
    }

    /// How many readings are in the sum; before S is fixed, how many arrived.
    fn in_sum(&self) -> u16 {
        match &self.stage {
            Stage::Collecting { .. } => self.readings.count(),
            Stage::Recovering { missing, .. } => self.own.list.params().members() - missing.len(),
        }
    }

    /// The attempt at its end, if its members were asked to reveal.
    pub(super) fn ended(&self, last: bool) -> Option<Attempt> {
        let Stage::Recovering { missing, reveals, .. } = &self.stage else { return None };
        let silent = self.unrevealed();
        let decoded = silent.is_empty().then(|| self.own.list.params().is_plausible(self.sum(missing, reveals)));
        let (members, missing) = (self.own.list.params().members(), missing.clone());
        let not_revealed = (0..members).filter(|&member| silent.contains(member) || self.silent.contains(member));
        let most_silent = not_revealed.count() > usize::from(members / 2);
        Some(Attempt { own: self.own.clone(), slot: self.slot, missing, silent, most_silent, decoded, last })
    }

    /// Who was asked to reveal and did not yet.
    fn unrevealed(&self) -> MemberSet {
        let members = self.own.list.params().members();
        match &self.stage {
            Stage::Collecting { .. } => MemberSet::empty(members),
            Stage::Recovering { missing, reveals, .. } => {
                let awaited = |member: &u16| !missing.contains(*member) && reveals.get(*member).is_none();
                MemberSet::from_members(members, (0..members).filter(awaited))
            }
        }
    }

    /// The sum over everybody who is not in S.
    fn sum(&self, missing: &MemberSet, reveals: &Tally) -> i64 {
        let left_out = missing.iter().filter_map(|member| Some(self.unstreamed(member, self.readings.get(member)?)));
        let readings = left_out.fold(self.readings.sum, u64::wrapping_sub);
        readings.wrapping_sub(reveals.sum).cast_signed()
    }

    /// Ends an attempt with all reveals. One that was spoiled is tried again if whoever probably did it can be left out.
    fn unmask(&mut self, now: Timestamp, judges: Judges<'_>) -> Step {
        let Stage::Recovering { missing, reveals, .. } = &self.stage else { return Step::Wait };
        let sum = self.sum(missing, reveals);
        if self.own.list.params().is_plausible(sum) {
            return Step::Close(Ok(Aggregate::new(sum)));
        }
        let again = judges.offenders.may_repeat(self.slot, &self.own.list, missing);
        let retry = if again { self.try_again(now, judges.config) } else { None };
        retry.unwrap_or(Step::Close(Err(Failure::UnmaskFailed)))
    }

    fn unstreamed(&self, member: u16, ciphertext: u64) -> u64 {
        let (stream, _) = self.own.member_keys(member);
        ciphertext.wrapping_sub(derive::stream(stream, self.slot, self.attempt))
    }

    fn add_reading(&mut self, member: u16, ciphertext: u64) {
        let unstreamed = self.unstreamed(member, ciphertext);
        self.readings.add(member, ciphertext, unstreamed);
    }

    /// Ends the reading window: fixes who is missing or left out and asks the others to reveal, if not too many are missing.
    fn freeze(&mut self, now: Timestamp, Judges { config, roster, offenders }: Judges<'_>) -> Step {
        let params = *self.own.list.params();
        let absent = (0..params.members()).filter(|&member| self.readings.get(member).is_none());
        let absent = MemberSet::from_members(params.members(), absent);
        // Without time to ask, who is missing says nothing: nobody could be heard.
        let Some(deadline) = self.window(now, params.terms().reveal_seconds) else {
            return Step::Close(Err(Failure::Interrupted));
        };
        if absent.len() > params.max_missing() {
            return Step::Close(Err(Failure::TooManyMissing));
        }
        let denied = |meter: &MeterId| !roster.allows(meter);
        let missing = offenders.choose(self.slot, &self.own.list, absent, &self.silent, denied);
        let request = RecoveryRequest {
            list: *self.own.list.hash(),
            slot: self.slot,
            attempt: self.attempt,
            missing: missing.as_bytes().to_vec(),
            deadline,
        };
        let bytes: Arc<[u8]> = request.seal(&config.identity, &GatewayChannel::Recovery.topic(&config.cluster)).into();
        self.start_recovery(&request, bytes.clone(), now);
        Step::Request { attempt: self.attempt, bytes }
    }

    /// Opens the next attempt, because this one is lost; `None` if none is left, or no time for it.
    fn try_again(&mut self, now: Timestamp, config: &ClusterConfig) -> Option<Step> {
        let params = *self.own.list.params();
        let attempt = self.attempt + 1;
        let needed = params.terms().reading_seconds + params.terms().reveal_seconds;
        let fits = now.as_secs() + needed <= params.slot_expiry(self.slot).as_secs();
        if attempt >= params.attempts() || !fits {
            return None;
        }
        let ended = self.ended(false)?;
        let deadline = now.as_secs() + params.terms().reading_seconds;
        let retry = Retry { list: *self.own.list.hash(), slot: self.slot, attempt, deadline };
        let bytes: Arc<[u8]> = retry.seal(&config.identity, &GatewayChannel::Recovery.topic(&config.cluster)).into();
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
            request: Broadcast::new(bytes, params.terms().reveal_seconds, now),
            hash: prefix(&sha256(&request.payload())),
            reveals: Tally::new(members),
        };
    }

    fn start_attempt(&mut self, attempt: u8, deadline: u64, bytes: Arc<[u8]>, now: Timestamp) {
        self.unrevealed().iter().for_each(|member| self.silent.insert(member));
        let params = self.own.list.params();
        self.attempt = attempt;
        self.closes = Timestamp::from_secs(deadline);
        self.readings = Tally::new(params.members());
        self.stage = Stage::Collecting { retry: Some(Broadcast::new(bytes, params.terms().reading_seconds, now)) };
    }
}

fn decode<'a, T: Message<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::decode(Sign1::decode(bytes).ok()?.payload()).ok()
}

/// A signed message that is repeated, byte for byte, four times per window but at most once a second.
#[derive(Debug)]
struct Broadcast {
    bytes: Arc<[u8]>,
    every_millis: u64,
    next: Timestamp,
}

impl Broadcast {
    fn new(bytes: Arc<[u8]>, window_seconds: u64, now: Timestamp) -> Self {
        let every_millis = (window_seconds * 250).max(1000);
        Self { bytes, every_millis, next: now.plus_millis(every_millis) }
    }

    fn repeat(&mut self, now: Timestamp) -> Step {
        if now < self.next {
            return Step::Wait;
        }
        self.next = now.plus_millis(self.every_millis);
        Step::Repeat(self.bytes.clone())
    }
}

/// One value per member, and the sum of what they contribute.
#[derive(Debug)]
struct Tally {
    values: Box<[u64]>,
    present: MemberSet,
    count: u16,
    sum: u64,
}

impl Tally {
    fn new(members: u16) -> Self {
        Self { values: vec![0; members.into()].into(), present: MemberSet::empty(members), count: 0, sum: 0 }
    }

    fn get(&self, member: u16) -> Option<u64> {
        self.present.contains(member).then(|| self.values[usize::from(member)])
    }

    fn add(&mut self, member: u16, value: u64, contribution: u64) {
        if self.present.contains(member) || usize::from(member) >= self.values.len() {
            return;
        }
        self.present.insert(member);
        self.values[usize::from(member)] = value;
        self.count += 1;
        self.sum = self.sum.wrapping_add(contribution);
    }

    fn count(&self) -> u16 {
        self.count
    }
}
