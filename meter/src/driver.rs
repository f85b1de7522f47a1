//! Drives the protocol's machine: what happens goes in with the time, and what comes out is carried out in its order.
//!
//! The durability contract (`protocol.md 9`) is all in `Driver::handle`: what a call asks to persist or erase is on disk before
//! anything of it is published, and the message that caused it is acknowledged after that. There is no other place that sends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dream_edge::clock::Clock;
use dream_edge::mqtt::{Event, Message, Session};
use dream_protocol::code::Coded as _;
use dream_protocol::meter::{Conduct, Honest, Input, Key, Meter, MeterConfig, MeterError, Notice, Output, Record};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_sources::{Event as SourceEvent, SlotMean};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::{debug, info, warn};

use crate::origin::Witness;
use crate::oversight::listed;
use crate::records::{Change, Number, Records, RecordsError};
use crate::shared::{OpenDays, Shared};
use crate::standing::{ClusterLoad, ListTerms, SourceState, Stage, Standing};

/// Looked at least so often, because somebody may set the wall clock.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// For how long after its end a slot waits for samples that are still on their way: a sixtieth of it, and two seconds at most.
const LATE_SAMPLES: (u64, u64) = (60, 2_000);

/// What was subscribed to together.
const PROTOCOL: u64 = 1;
const AGGREGATE: u64 = 2;
const LATER: u64 = 3;

/// Makes the machine, and may look at it: real meters are [`Real`]. Tests bring another one, whose noise is off by its type.
pub trait Machine {
    type Conduct: Conduct;

    /// Rebuilds a meter from its records.
    fn resume(&self, config: MeterConfig, records: Vec<Record>) -> Result<Meter<Self::Conduct>, MeterError>;

    /// Looks at the machine after every input, before anything is carried out.
    fn observe(&mut self, _meter: &mut Meter<Self::Conduct>) {}
}

/// An honest meter.
#[derive(Debug, Clone, Copy)]
pub struct Real;

impl Machine for Real {
    type Conduct = Honest;

    fn resume(&self, config: MeterConfig, records: Vec<Record>) -> Result<Meter, MeterError> {
        Meter::resume(config, records)
    }
}

/// A meter's machine and all that it needs.
#[derive(Debug)]
pub struct Driver<M: Machine> {
    machine: M,
    meter: Meter<M::Conduct>,
    records: Records,
    witness: Witness,
    mean: SlotMean,
    /// The slots that are to be measured, by the moment to look.
    measuring: BTreeMap<Timestamp, Measuring>,
    /// The epochs of lists that the meter holds.
    held: BTreeSet<u64>,
    /// The UTC day, how many slots were reported in it, and the last of them.
    sent: (u64, u64, Option<Slot>),
    /// What was given away so far, and what of that are days that are not closed.
    shared: (Shared, OpenDays),
    aggregate_topic: String,
    session: Option<Session>,
    /// What is asked of the broker for single channels, until it grants them.
    asking: Vec<(GatewayChannel, AbortHandle)>,
    clock: Arc<dyn Clock>,
    standing: watch::Sender<Standing>,
}

#[derive(Debug, Clone, Copy)]
struct Measuring {
    slot: Slot,
    from: Timestamp,
    to: Timestamp,
}

/// Why a meter cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Meter(#[from] MeterError),
}

impl<M: Machine> Driver<M> {
    /// Rebuilds the meter from its records.
    pub fn resume(
        machine: M,
        config: MeterConfig,
        records: Records,
        witness: Witness,
        mean: SlotMean,
        clock: Arc<dyn Clock>,
        standing: watch::Sender<Standing>,
    ) -> Result<Self, ResumeError> {
        let entries = records.load()?;
        let held = entries.iter().filter_map(|record| epoch_of(&record.key())).collect();
        let number = |number| records.number(number).unwrap_or_default();
        let sent = (number(Number::Day), number(Number::Sent), None);
        let aggregate_topic = GatewayChannel::Aggregate.topic(&config.cluster);
        let meter = machine.resume(config, entries)?;
        // Records that have not counted yet begin with the days that are open.
        let shared = match Shared::of(&records) {
            Some(shared) => (shared, meter.day_costs().collect()),
            None => Default::default(),
        };
        let measuring = BTreeMap::new();
        let (session, asking) = (None, Vec::new());
        Ok(Self {
            machine,
            meter,
            records,
            witness,
            mean,
            measuring,
            held,
            sent,
            shared,
            aggregate_topic,
            session,
            asking,
            clock,
            standing,
        })
    }

    /// Puts a machine with a renewed certificate in the place of this one. It goes on from the records.
    pub fn renew(&mut self, config: MeterConfig) -> Result<(), ResumeError> {
        self.meter = self.machine.resume(config, self.records.load()?)?;
        self.measuring.clear();
        Ok(self.handle(Input::Tick)?)
    }

    /// Takes in what happened at the community's broker.
    pub fn broker_event(&mut self, event: Event) -> Result<(), RecordsError> {
        match event {
            Event::Connected(session) => {
                session.subscribe(self.meter.subscriptions(), PROTOCOL);
                session.subscribe(vec![self.aggregate_topic.clone()], AGGREGATE);
                self.session = Some(session);
                self.asking.clear();
            }
            // Of a connection that is gone.
            Event::Subscribed { session, .. } if self.session.as_ref().is_none_or(|ours| ours.number() != session) => {}
            Event::Subscribed { tag: PROTOCOL, .. } => {
                info!("connected to the community's broker");
                self.standing.send_modify(|standing| standing.stage = Stage::Connected);
                self.handle(Input::Connected)?;
            }
            Event::Subscribed { tag: AGGREGATE, .. } => {
                self.standing.send_modify(|standing| standing.load_refused = false);
            }
            Event::Subscribed { .. } => {}
            // What the cluster's load is may be a matter between gateway and observers.
            Event::Refused { tag: AGGREGATE, .. } => {
                self.standing.send_modify(|standing| standing.load_refused = true);
            }
            Event::Refused { tag, filter, again_in } => {
                let seconds = again_in.as_secs();
                warn!(filter, seconds, "the broker refused a subscription; retrying after this many seconds");
                if tag == PROTOCOL {
                    let trouble = "the broker does not let this meter subscribe to the cluster's topics".to_owned();
                    self.standing.send_modify(|standing| standing.stage = Stage::Connecting { trouble: Some(trouble) });
                }
            }
            Event::Messages(messages) => {
                for message in messages {
                    self.message(message)?;
                }
            }
            Event::Lost(trouble) => {
                warn!(reason = %trouble, "no connection to the community's broker");
                self.session = None;
                self.standing.send_modify(|standing| {
                    standing.totals.connections_lost += 1;
                    standing.stage = Stage::Connecting { trouble: Some(trouble.to_string()) };
                });
            }
        }
        Ok(())
    }

    /// Takes in what happened at the source.
    pub fn source_event(&mut self, event: &SourceEvent) {
        match event {
            SourceEvent::Connected { .. } => info!("the source answers"),
            SourceEvent::Lost { why, .. } => warn!(why, "lost the source"),
            SourceEvent::Garbled { why, .. } => warn!(why, "the source sent what cannot be read"),
            SourceEvent::Refused { why, .. } => warn!(why, "the source is not the whole of this home"),
            SourceEvent::ClockStepped { .. } => warn!("this machine's clock was set"),
            SourceEvent::Sample(_) => {}
        }
        self.mean.push(event);
    }

    /// The clock was found to be right.
    pub fn time_confirmed(&mut self) -> Result<(), RecordsError> {
        self.handle(Input::TimeConfirmed)
    }

    /// Does what is due.
    pub fn tick(&mut self) -> Result<(), RecordsError> {
        let now = self.clock.now();
        while let Some(ended) = self.measuring.first_entry().filter(|next| *next.key() <= now) {
            let ended = ended.remove();
            self.measure(ended)?;
        }
        self.handle(Input::Tick)
    }

    /// Returns for how long nothing is due.
    pub fn idle(&self) -> Duration {
        let now = self.clock.now();
        let due = self.meter.deadline().into_iter().chain(self.measuring.keys().next().copied()).min();
        // A deadline that was handled has moved; never look twice in one millisecond.
        due.map_or(LONGEST_SLEEP, |due| Duration::from_millis(due.millis_since(now).max(1))).min(LONGEST_SLEEP)
    }

    fn message(&mut self, message: Message) -> Result<(), RecordsError> {
        let Message { topic, payload, receipt, .. } = message;
        if topic == self.aggregate_topic {
            // It is for people, and nothing is decided by it.
            if let Ok(load) = serde_json::from_slice::<ClusterLoad>(&payload) {
                self.standing.send_modify(|standing| standing.load = Some(load));
            }
        } else if let Ok(topic) = std::str::from_utf8(&topic) {
            self.handle(Input::Message { topic, payload: &payload })?;
            self.note_list(&payload);
        }
        if let (Some(session), Some(receipt)) = (&self.session, receipt) {
            session.acknowledge([receipt]);
        }
        Ok(())
    }

    /// Shows the terms of a message if it is the newest list that the meter has accepted.
    fn note_list(&self, payload: &[u8]) {
        let newest = self.held.last().copied();
        if let Some(terms) = ListTerms::of(payload).filter(|terms| Some(terms.epoch) == newest) {
            self.standing.send_if_modified(|standing| {
                let is_new = standing.list.replace(terms) != Some(terms);
                if is_new {
                    standing.listed = listed(payload).into();
                }
                is_new
            });
        }
    }

    /// Reports the mean of a slot that has ended, or says why it has no reading: silence, never a zero.
    fn measure(&mut self, Measuring { slot, from, to }: Measuring) -> Result<(), RecordsError> {
        let mean = self.mean.mean(from, to);
        self.mean.forget_before(to);
        match mean {
            Ok(watts) => {
                self.standing.send_modify(|standing| standing.source = SourceState::Fine);
                self.handle(Input::Measured { slot, watts })
            }
            Err(why) => {
                warn!(slot = slot.0, %why, "no reading; nothing is sent");
                self.standing.send_modify(|standing| {
                    standing.source = SourceState::NoReading(why.to_string());
                    standing.totals.slots_without_reading += 1;
                });
                Ok(())
            }
        }
    }

    /// Hands the machine an input and carries out what it asks for: first what is to be durable, then what is to be sent.
    fn handle(&mut self, input: Input<'_>) -> Result<(), RecordsError> {
        let now = self.clock.both();
        // The system's own generator: nothing that was drawn can be drawn again from its state.
        self.meter.handle(input, now, &mut UnwrapErr(SysRng));
        self.machine.observe(&mut self.meter);
        let (mut changes, mut subscriptions, mut packets) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => changes.push(Change::Put(record)),
                Output::Erase(key) => changes.push(Change::Erase(key)),
                Output::Measure { slot, from, to } => self.expect_measurement(Measuring { slot, from, to }),
                Output::Publish { channel, payload, .. } => packets.push((channel, payload)),
                Output::Subscribe(channel) => subscriptions.push((channel, true)),
                Output::Unsubscribe(channel) => subscriptions.push((channel, false)),
                Output::Notice(notice) => self.note(&notice, now.wall),
            }
        }
        if !changes.is_empty() {
            self.note_lists_held(&changes);
            let (day, count, _) = self.sent;
            self.count_shared();
            let numbers = [vec![(Number::Day, day), (Number::Sent, count)], self.shared.0.numbers()].concat();
            let commits = self.records.commit(&changes, &numbers)?;
            if let Err(error) = self.witness.note(commits) {
                debug!(%error, "cannot write the witness");
            }
        }
        for (channel, wanted) in subscriptions {
            self.subscribe(channel, wanted);
        }
        for (channel, payload) in packets {
            self.publish(channel, &payload);
        }
        self.show(now.wall);
        Ok(())
    }

    /// Follows a channel of the gateway's from now on, or no longer. Every new connection subscribes to all that are wanted then.
    fn subscribe(&mut self, channel: GatewayChannel, wanted: bool) {
        let Some(session) = &self.session else { return };
        let topics = vec![self.meter.gateway_topic(channel)];
        self.asking.extract_if(.., |(asked, _)| *asked == channel).for_each(|(_, asking)| asking.abort());
        if wanted {
            self.asking.push((channel, session.subscribe(topics, LATER)));
        } else {
            session.unsubscribe(topics);
        }
    }

    fn publish(&self, channel: MeterChannel, payload: &[u8]) {
        debug!(channel = channel.as_str(), "publishing");
        // Without a connection it is dropped: the machine says again what matters when the next one stands.
        if let Some(session) = &self.session {
            session.publish(self.meter.topic(channel), payload.to_vec(), false);
        }
    }

    fn expect_measurement(&mut self, measuring: Measuring) {
        let late = (measuring.to.millis_since(measuring.from) / LATE_SAMPLES.0).min(LATE_SAMPLES.1);
        self.measuring.insert(measuring.to.plus_millis(late), measuring);
    }

    fn note(&mut self, notice: &Notice, at: Timestamp) {
        match notice {
            Notice::Enrolled { seq } => info!(seq, "enrolled with a new key"),
            Notice::ListAccepted { epoch, skipped } => info!(epoch, skipped, "accepted a list"),
            Notice::Charged { slot, attempt } => {
                info!(slot = slot.0, attempt, "recorded a reading to send");
                self.count(*slot, at);
            }
            Notice::Answered { slot, attempt } => info!(slot = slot.0, attempt, "answered the gateway's request"),
            Notice::Refused(refusal) if refusal.status().is_none() => {
                debug!(code = refusal.code_path(), %refusal, "refused");
            }
            Notice::Refused(refusal) => {
                warn!(code = refusal.code_path(), %refusal, "refused");
                self.standing.send_modify(|standing| {
                    standing.totals.refusals += 1;
                    standing.last_refusal = Some((at, refusal.clone()));
                });
            }
        }
    }

    /// Counts a slot once, whatever attempt of it.
    fn count(&mut self, slot: Slot, at: Timestamp) {
        let (day, count, last) = self.sent;
        if last == Some(slot) {
            return;
        }
        let today = at.utc_day();
        self.sent = (today, if day == today { count + 1 } else { 1 }, Some(slot));
        self.standing.send_modify(|standing| standing.totals.readings += 1);
    }

    /// Adds what open days have come to cost; recorded with the account that says so.
    fn count_shared(&mut self) {
        let (shared, known) = &mut self.shared;
        let costs = self.meter.day_costs().collect();
        shared.add(known, &costs);
        *known = costs;
    }

    fn note_lists_held(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(record) => self.held.extend(epoch_of(&record.key())),
                Change::Erase(key) => {
                    if let Some(epoch) = epoch_of(key) {
                        self.held.remove(&epoch);
                    }
                }
            }
        }
    }

    /// Brings the standing up to date with the machine.
    fn show(&self, at: Timestamp) {
        let (day, count, _) = self.sent;
        let sent_today = if day == at.utc_day() { count } else { 0 };
        let spent_micro = self.meter.spent(at);
        let shared = self.shared.0;
        self.standing.send_if_modified(|standing| {
            let seen = |standing: &Standing| {
                (standing.sent_today, standing.spent_micro, standing.shared, standing.list.is_some())
            };
            let before = seen(standing);
            (standing.sent_today, standing.spent_micro, standing.shared) = (sent_today, spent_micro, shared);
            standing.list = standing.list.filter(|list| self.held.contains(&list.epoch));
            before != seen(standing)
        });
    }
}

const fn epoch_of(key: &Key) -> Option<u64> {
    match key {
        Key::List(epoch) => Some(*epoch),
        Key::Account | Key::Enrolment(_) | Key::Slot(_) | Key::Answer(_) | Key::Evidence(_) => None,
    }
}
