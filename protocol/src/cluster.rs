//! The gateway's side of one cluster, as a state machine without input or output of its own.
//!
//! Feed it with [`Cluster::handle`], drain [`Cluster::poll`] after every call, and call again with [`Input::Tick`] when
//! [`Cluster::deadline`] is reached. Outputs come in the order in which they must take effect: what [`Output::Persist`]
//! names is durable before anything that follows it is published, and before the message that caused it is acknowledged.
//!
//! The gateway is trusted to compute, not with privacy: nothing here protects a home, and nothing here can open less than
//! a whole cluster.

mod ahead;
mod allowance;
mod config;
mod holders;
mod member_message;
mod notice;
mod offenders;
mod open_slot;
mod outputs;
mod own_list;
mod proofs;
mod publisher;
mod record;
mod rejection;
mod reports;
mod retained;
mod retries;
mod roster;
mod slots;
mod timers;
mod witnesses;

use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_core::CryptoRng;

pub use ahead::carried_ahead;
pub use config::{ClusterConfig, ClusterError};
pub use holders::HoldersReport;
pub use notice::{CannotForm, Notice};
pub use offenders::{Limits, Offence, Offender, Offenders, Outcome, Search};
pub use record::{Forget, Key, ListRecord, Record, SlotEntry};
pub use rejection::Rejection;
pub use retries::Retries;
pub use roster::RosterRules;

use crate::aggregate::SlotOutcome;
use crate::enrolment::{Enrolment, EnrolmentError, MAX_AHEAD_SECONDS};
use crate::evidence::Contradiction;
use crate::ids::MeterId;
use crate::membership::MembershipList;
use crate::scheme::committee::Committee;
use crate::time::{Slot, Timestamp};
use crate::topic::{GatewayChannel, MeterChannel, Topic, TopicError};
use crate::wire::{EnrolmentStatement, Mac0, Message as _, Sign1, Status, StatusCode};
use allowance::Allowance;
use member_message::MemberMessage;
use outputs::{Outputs, Turn};
use proofs::Proofs;
use publisher::Publisher;
use slots::Slots;
use timers::{Timer, Timers};
use witnesses::Witnesses;

/// How late a deadline is handled before the gateway counts as having been away.
const STALL_SECONDS: u64 = 2;

/// What happens to a cluster.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The broker accepted a connection, and the cluster's topics are subscribed: what may have been lost is said again.
    Connected,
    /// The connection is lost.
    Disconnected,
    /// A message arrived.
    Message { topic: &'a str, payload: &'a [u8] },
    /// Time has passed.
    Tick,
}

/// What to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Make an entry durable before anything that follows, and before acknowledging what caused it.
    Persist(Record),
    Forget(Forget),
    /// Publish with QoS 1 on the cluster's topic for the channel, retained if [`GatewayChannel::is_retained`] says so.
    Publish {
        channel: GatewayChannel,
        payload: Arc<[u8]>,
    },
    /// A message was not used. It is acknowledged all the same, or it would come back for ever.
    Reject {
        meter: Option<MeterId>,
        reason: Rejection,
    },
    /// A slot closed for good.
    Closed(SlotOutcome),
    Notice(Notice),
}

/// The gateway's side of one cluster.
#[derive(Debug)]
pub struct Cluster {
    config: Arc<ClusterConfig>,
    /// Who is enrolled, and the lists that are formed of them.
    lists: Publisher,
    slots: Slots,
    proofs: Proofs,
    allowance: Allowance,
    /// Kept, so that a message that changes nothing costs no search for the next deadline.
    timers: Timers,
    outputs: Outputs,
    /// Whether the time is right, as far as anybody knows; see [`Cluster::doubt_time`].
    time_is_right: bool,
}

impl Cluster {
    /// A cluster as its records left it. A slot whose windows still allow it goes on; a frozen request is the same bytes.
    pub fn resume(
        config: ClusterConfig,
        records: impl IntoIterator<Item = Record>,
        now: Timestamp,
    ) -> Result<Self, ClusterError> {
        Self::of_records(config, records.into_iter().collect(), now)
    }

    fn of_records(config: ClusterConfig, records: Vec<Record>, now: Timestamp) -> Result<Self, ClusterError> {
        let certificate = config.authorities.verify_gateway(&config.certificate)?;
        if *certificate.key() != config.identity.public() {
            return Err(ClusterError::OtherKey);
        }
        config.params_for(config.roster.min_members)?;
        let config = Arc::new(config);
        let mut cluster = Self {
            lists: Publisher::new(config.clone(), certificate, now),
            slots: Slots::new(config.clone()),
            config,
            proofs: Proofs::default(),
            allowance: Allowance::new(),
            timers: Timers::default(),
            outputs: Outputs::default(),
            time_is_right: true,
        };
        cluster.restore(records, now);
        cluster.set_timers(now);
        Ok(cluster)
    }

    /// Handles one input. Never fails and never blocks: what is not used comes out as a rejection.
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, mut rng: &mut (impl CryptoRng + ?Sized)) {
        self.step(input, now, &mut rng);
    }

    fn step(&mut self, input: Input<'_>, now: Timestamp, rng: &mut dyn CryptoRng) {
        if let Some(due) = self.timers.next().filter(|due| *due <= now) {
            self.advance(due, now, rng);
        }
        match input {
            Input::Connected => self.say_again(now, rng),
            Input::Message { topic, payload } => {
                if let Err((meter, reason)) = self.message(topic, payload, now, rng) {
                    self.outputs.reject(meter, reason);
                }
            }
            Input::Disconnected => {
                self.lists.retained.disconnected();
                self.set_list_timer();
            }
            Input::Tick => {}
        }
        if self.timers.is_due(Timer::List, now) {
            let turn = &mut Turn { now, rng, outputs: &mut self.outputs };
            self.lists.publish_lists(&self.slots.offenders, turn);
            self.set_timers(now);
        }
    }

    /// Lets nothing happen because of the time alone, which may be wrong: readings are collected, but no slot closes, no list
    /// replaces one, and nothing is forgotten. A cluster that has no list of its own yet forms one.
    pub fn doubt_time(&mut self, now: Timestamp) {
        self.time_is_right = false;
        self.set_timers(now);
    }

    /// Lets time act again, at the next [`Input::Tick`]. Slots that ended in between are those of a gateway that was away.
    pub fn trust_time(&mut self, now: Timestamp) {
        self.time_is_right = true;
        self.slots.catch_up(now);
        self.set_timers(now);
    }

    /// Returns whether members' readings fit the time at which they came.
    pub fn time_is_witnessed(&self) -> bool {
        self.slots.witnesses.fit(self.config.clock_skew_seconds)
    }

    /// Returns whether so many members speak of another time that this one must be wrong.
    pub fn time_is_contradicted(&self, now: Timestamp) -> bool {
        self.slots.witnesses.contradict(self.config.clock_skew_seconds, now)
    }

    /// Returns whether members' readings fit a clock that is so many milliseconds ahead, and do so no worse than this one.
    pub fn fits_clock_ahead(&self, millis: i64, now: Timestamp) -> bool {
        self.slots.witnesses.prefer(millis, self.config.clock_skew_seconds, now)
    }

    /// Forgets what members said of the time, because it was set.
    pub fn forget_witnesses(&mut self) {
        self.slots.witnesses = Witnesses::default();
    }

    /// Returns whether slots were opened, or a list formed, at a time later than this one.
    pub fn was_carried_ahead(&self, now: Timestamp) -> bool {
        let slot_seconds = self.config.terms.slot_seconds;
        self.slots.opened_until() > now.plus_secs(slot_seconds) || self.lists.is_ahead(now)
    }

    /// The next thing to do; drain after every [`Cluster::handle`].
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.next()
    }

    /// When to call with [`Input::Tick`] if nothing else happens before.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// The newest list, if it was published here.
    pub fn newest_list(&self) -> Option<&Arc<MembershipList>> {
        self.lists.lists().next_back().map(|own| &own.list)
    }

    /// The list in force at an instant.
    pub fn list_at(&self, at: Timestamp) -> Option<&Arc<MembershipList>> {
        self.lists.in_force_at(at).map(|own| &own.list)
    }

    /// Whether a meter is enrolled here, or is in a list with an open or future slot.
    pub fn holds(&self, meter: &str) -> bool {
        self.lists.roster.get(meter).is_some() || self.lists.lists().any(|own| own.list.index_of(meter).is_some())
    }

    /// How many meters are enrolled and not denied.
    pub fn candidates(&self) -> usize {
        self.lists.roster.candidates()
    }

    /// How many of them have an enrolment that ends before an instant, unless they renew it.
    pub fn enrolments_ending_before(&self, at: Timestamp) -> usize {
        self.lists.roster.ending_before(at)
    }

    /// Returns the members that spoiled slots, as far as the gateway can tell, by their ids.
    pub fn offenders(&self) -> impl Iterator<Item = (&MeterId, Offender)> {
        let params = self.newest_list().map(|list| list.params());
        let malicious = params.map_or(u16::MAX, |params| params.max_malicious());
        let colluding = params.and_then(|params| {
            let committee = params.terms().scheme.committee()?;
            Committee::colluding(committee.drawn, params.members().into(), malicious.into())
        });
        let colluding = colluding.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        self.slots.offenders.iter(colluding, malicious.into())
    }

    /// Returns whether groups of members are left out to find who spoils sums.
    pub fn is_searching(&self) -> bool {
        self.slots.offenders.search().is_searching()
    }

    /// Returns whether sum after sum fails, so that who spoils them cannot be found, or only by chance.
    pub fn cannot_be_found(&self) -> bool {
        self.slots.offenders.search().cannot_be_found()
    }

    /// Returns how many members lists are formed without for some slots, to find who spoils sums.
    pub fn left_out_to_search(&self) -> usize {
        self.slots.offenders.search().away().count()
    }

    /// How many members of the list in force at an instant are denied by now: they count until a list without them begins.
    pub fn denied_members(&self, at: Timestamp) -> usize {
        let members = self.list_at(at).map_or(&[][..], |list| list.members());
        members.iter().filter(|member| !self.lists.roster.allows(member.id())).count()
    }

    /// Returns what members have proven against this cluster's gateways, each with its evidence.
    pub fn evidence(&self) -> &[(Contradiction, Arc<[u8]>)] {
        &self.proofs.kept
    }

    fn message(
        &mut self,
        topic: &str,
        payload: &[u8],
        now: Timestamp,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), (Option<MeterId>, Rejection)> {
        let anonymous = |reason: Rejection| (None, reason);
        let unknown = || anonymous(TopicError::UnknownChannel.into());
        match Topic::parse(topic).map_err(|error| anonymous(error.into()))? {
            Topic::Meter { cluster, channel, meter } if cluster == self.config.cluster.as_str() => {
                let result = match channel {
                    MeterChannel::Reading | MeterChannel::Reveal => self.report(channel, topic, meter, payload, now),
                    MeterChannel::Enrol => self.enrolment(meter, payload, now).map(|()| None),
                    MeterChannel::Status => self.status(topic, meter, payload, now).map(|()| None),
                };
                if let Some(complete) =
                    result.map_err(|reason| (MeterId::new(meter).ok(), reason))?.filter(|_| self.time_is_right)
                {
                    let turn = &mut Turn { now, rng, outputs: &mut self.outputs };
                    let closed = self.slots.step(complete, &mut self.lists, turn);
                    self.set_slot_timers(closed);
                }
                Ok(())
            }
            Topic::Gateway { cluster, channel } if cluster == self.config.cluster.as_str() => {
                let found = match channel {
                    GatewayChannel::Membership => {
                        self.lists.found_short(payload, now, &mut self.outputs);
                        Ok(())
                    }
                    GatewayChannel::FullMembership => self.lists.found_full(payload, now, &mut self.outputs),
                    GatewayChannel::Recovery | GatewayChannel::Retry | GatewayChannel::Aggregate => {
                        return Err(unknown());
                    }
                };
                self.set_timers(now);
                found.map_err(anonymous)
            }
            Topic::Meter { .. } | Topic::Gateway { .. } => Err(unknown()),
        }
    }

    /// What a member says in a slot. Returns the slot if it can go on.
    fn report(
        &mut self,
        channel: MeterChannel,
        topic: &str,
        meter: &str,
        payload: &[u8],
        now: Timestamp,
    ) -> Result<Option<Slot>, Rejection> {
        let envelope = Mac0::decode(payload)?;
        let message = MemberMessage::decode(channel, envelope.payload())?;
        self.slots.receive(&message, (&envelope, topic, meter), &self.lists, now, &mut self.outputs)
    }

    fn enrolment(&mut self, meter: &str, payload: &[u8], now: Timestamp) -> Result<(), Rejection> {
        if self.lists.roster.heard_again(meter, payload) {
            return Err(Rejection::Duplicate);
        }
        let (envelope, _) = Sign1::decode_certified(payload).map_err(EnrolmentError::from)?;
        let statement = EnrolmentStatement::decode(envelope.payload()).map_err(EnrolmentError::from)?;
        if statement.not_before > now.as_secs().saturating_add(MAX_AHEAD_SECONDS) {
            return Err(Rejection::DatedAhead);
        }
        self.allowance.take(meter, now)?;
        let enrolment = Enrolment::verify(payload, &self.config.cluster, &self.config.authorities)?;
        if enrolment.id().as_str() != meter {
            return Err(Rejection::BadSignature);
        }
        self.lists.admit(enrolment, now, &mut self.outputs)?;
        self.set_list_timer();
        Ok(())
    }

    fn status(&mut self, topic: &str, meter: &str, payload: &[u8], now: Timestamp) -> Result<(), Rejection> {
        let envelope = Sign1::decode(payload)?;
        let status = Status::decode(envelope.payload())?;
        let known = self.lists.roster.get(meter).ok_or(Rejection::Unknown)?;
        self.allowance.take(meter, now)?;
        if status.cluster != self.config.cluster || !envelope.verifies(known.identity(), topic) {
            return Err(Rejection::BadSignature);
        }
        let proof = (status.code == StatusCode::Equivocation).then(|| proofs::judge(&status.evidence, &self.config));
        let proof = proof.transpose()?;
        let (meter, code, slot) = (known.id().clone(), status.code, status.slot);
        let epoch = status.list.and_then(|hash| self.lists.epoch_of(hash));
        self.lists.note_epoch(&meter, status.newest_epoch, now);
        self.outputs.notice(Notice::MeterStatus { meter: meter.clone(), code, epoch, slot });
        if let Some(verdict) = proof {
            self.proofs.keep(verdict, &status.evidence, &mut self.outputs);
        }
        self.lists.note_malicious(meter, status.least_malicious, now);
        self.set_list_timer();
        Ok(())
    }

    /// Lets time act, which should have been at `due`: moves open slots on, opens those whose readings are due, forgets what
    /// is over.
    fn advance(&mut self, due: Timestamp, now: Timestamp, rng: &mut dyn CryptoRng) {
        let Self { slots, lists, outputs, .. } = self;
        if !self.time_is_right {
            return self.set_timers(now);
        }
        if due.plus_secs(STALL_SECONDS) <= now {
            slots.catch_up(now);
        }
        let turn = &mut Turn { now, rng, outputs };
        slots.step_all(lists, turn);
        slots.open_due(lists, turn);
        slots.report_holders(lists.retained.is_connected(), now, outputs);
        slots.forget_lists(lists, now, outputs);
        self.set_timers(now);
    }

    /// Sets every timer anew.
    fn set_timers(&mut self, now: Timestamp) {
        let next = if self.time_is_right {
            self.slots.next(&self.lists).map(|(_, _, opens)| opens)
        } else {
            self.slots.open_present(&self.lists, now)
        };
        self.timers.set(Timer::NextSlot, next);
        self.set_slot_timers(true);
    }

    /// Sets the timers of open slots and, if one closed, that of the next list.
    fn set_slot_timers(&mut self, closed: bool) {
        self.timers.set(Timer::OpenSlots, self.slots.deadline().filter(|_| self.time_is_right));
        self.timers.set(Timer::Holders, self.slots.holders_deadline().filter(|_| self.time_is_right));
        if closed {
            self.set_list_timer();
        }
    }

    fn set_list_timer(&mut self) {
        let may_form = self.time_is_right || self.lists.lists().next().is_none();
        self.timers.set(Timer::List, self.lists.deadline().filter(|_| may_form));
    }

    /// Says again what a new connection may have lost: open requests and retries now, the newest list if it turns out that
    /// the broker has lost it.
    fn say_again(&mut self, now: Timestamp, rng: &mut dyn CryptoRng) {
        self.lists.retained.connected(now);
        self.slots.broadcast_now(now);
        if !self.time_is_right {
            return self.set_timers(now);
        }
        self.slots.step_all(&mut self.lists, &mut Turn { now, rng, outputs: &mut self.outputs });
        self.set_slot_timers(true);
    }

    fn restore(&mut self, mut records: Vec<Record>, now: Timestamp) {
        let Self { config, slots, lists, proofs, outputs, .. } = self;
        records.sort_by_key(Record::key);
        for record in records {
            match record {
                Record::Enrolment { meter, bytes } => lists.reopen_enrolment(meter, bytes, now, outputs),
                Record::List(list) => lists.reopen_list(list, now, outputs),
                Record::Offenders(offenders) => slots.offenders = *offenders,
                Record::Retries(retries) => slots.retries = *retries,
                Record::Evidence { number, bytes } => proofs.reopen(number, bytes, config),
                Record::Outcome(outcome) => slots.reopen_outcome(&outcome, outputs),
                Record::Retry { slot, .. }
                | Record::Reading { slot, .. }
                | Record::Dealt { slot, .. }
                | Record::Answer { slot, .. }
                | Record::Request { slot, .. }
                | Record::Reveal { slot, .. } => slots.reopen(slot, &record, lists, outputs),
            }
        }
        slots.catch_up(now);
        // The configuration may have changed meanwhile.
        lists.roster.change(now);
        lists.hurry_without(&slots.offenders);
    }
}
