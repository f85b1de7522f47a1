//! One slot at the gateway: collecting readings, then recovering, then closed (`protocol.md 4`).

use std::sync::Arc;

use super::lists::OwnList;
use super::{ClusterConfig, Record, Rejection, STALL_SECONDS};
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::derive::{self, sha256};
use crate::keys::prefix;
use crate::member_set::MemberSet;
use crate::membership::{Member, MembershipList};
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
    stage: Stage,
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
    },
    /// Publish the last request or retry again.
    Repeat(Arc<[u8]>),
    Close(Result<Aggregate, Failure>),
}

impl OpenSlot {
    pub(super) fn new(slot: Slot, own: Arc<OwnList>) -> Self {
        let params = own.list.params();
        let closes = params.slot_end(slot).plus_secs(params.terms().reading_seconds);
        let readings = Tally::new(params.members());
        Self { slot, own, attempt: 0, closes, readings, stage: Stage::Collecting { retry: None } }
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
    pub(super) fn step(&mut self, now: Timestamp, config: &ClusterConfig) -> Step {
        let params = self.own.list.params();
        let complete = self.is_complete();
        match &mut self.stage {
            Stage::Collecting { retry } => {
                // A slot is never frozen before it has ended, however fast the members' clocks run.
                if self.closes <= now || (complete && params.slot_end(self.slot) <= now) {
                    return self.freeze(now, config);
                }
                retry.as_mut().map_or(Step::Wait, |retry| retry.repeat(now))
            }
            Stage::Recovering { request, reveals, .. } => {
                if complete {
                    let sum = self.readings.sum.wrapping_sub(reveals.sum).cast_signed();
                    let plausible = params.is_plausible(sum);
                    return Step::Close(if plausible { Ok(Aggregate::new(sum)) } else { Err(Failure::UnmaskFailed) });
                }
                if self.closes <= now {
                    return self.try_again(now, config);
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
            Record::Enrolment { .. } | Record::List(_) | Record::Outcome(_) => {}
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
            responders: self.readings.count(),
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
    pub(super) fn heard(&self) -> impl Iterator<Item = (&Member, bool)> {
        let members = (0u16..).zip(self.own.list.members());
        members.map(|(index, member)| (member, self.readings.get(index).is_some()))
    }

    pub(super) fn responders(&self) -> u16 {
        self.readings.count()
    }

    fn add_reading(&mut self, member: u16, ciphertext: u64) {
        let (stream, _) = self.own.member_keys(member);
        let unstreamed = ciphertext.wrapping_sub(derive::stream(stream, self.slot, self.attempt));
        self.readings.add(member, ciphertext, unstreamed);
    }

    /// Ends the reading window: fixes who is missing and asks the others to reveal, if not too many are.
    fn freeze(&mut self, now: Timestamp, config: &ClusterConfig) -> Step {
        let params = *self.own.list.params();
        let absent = (0..params.members()).filter(|&member| self.readings.get(member).is_none());
        let missing = MemberSet::from_members(params.members(), absent);
        // Without time to ask, who is missing says nothing: nobody could be heard.
        let Some(deadline) = self.window(now, params.terms().reveal_seconds) else {
            return Step::Close(Err(Failure::Interrupted));
        };
        if missing.len() > params.max_missing() {
            return Step::Close(Err(Failure::TooManyMissing));
        }
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

    /// Ends the reveal window without all reveals: the attempt is lost; opens the next one if one is left.
    fn try_again(&mut self, now: Timestamp, config: &ClusterConfig) -> Step {
        let params = *self.own.list.params();
        let attempt = self.attempt + 1;
        let needed = params.terms().reading_seconds + params.terms().reveal_seconds;
        let fits = now.as_secs() + needed <= params.slot_expiry(self.slot).as_secs();
        if attempt >= params.attempts() || !fits {
            let away = params.slot_expiry(self.slot).plus_secs(STALL_SECONDS) <= now;
            return Step::Close(Err(if away { Failure::Interrupted } else { Failure::RevealMissing }));
        }
        let deadline = now.as_secs() + params.terms().reading_seconds;
        let retry = Retry { list: *self.own.list.hash(), slot: self.slot, attempt, deadline };
        let bytes: Arc<[u8]> = retry.seal(&config.identity, &GatewayChannel::Recovery.topic(&config.cluster)).into();
        self.start_attempt(attempt, deadline, bytes.clone(), now);
        Step::Retry { attempt, bytes }
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
