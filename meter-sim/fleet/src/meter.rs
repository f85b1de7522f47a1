//! One simulated meter: the protocol's own machine with its randomness, its clock and the slots it has to measure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::meter::{About, Input, Meter, MeterConfig, MeterError, Notice, Output, Record};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::{Hidden, Simulated, Simulation};
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};

use crate::access::Access;
use crate::authority::Issued;
use crate::records::Change;

/// The identity of a meter, and how it connects and behaves.
#[derive(Debug, Clone)]
pub struct MeterSetup {
    pub id: MeterId,
    pub issued: Issued,
    /// How it reaches the broker.
    pub access: Access,
    /// Whether, and how, it cheats.
    pub simulation: Simulation,
}

impl MeterSetup {
    /// Restores the machine from its records.
    pub fn resume(
        &self,
        cluster: &ClusterId,
        policy: &Policy,
        records: Vec<Record>,
    ) -> Result<Meter<Simulated>, MeterError> {
        let config = MeterConfig {
            identity: self.issued.identity(),
            certificate: self.issued.der.clone(),
            cluster: cluster.clone(),
            policy: policy.clone(),
        };
        Meter::simulated(config, records, self.simulation)
    }
}

/// A meter's machine and its surroundings.
#[derive(Debug)]
pub(crate) struct SimulatedMeter {
    pub(crate) setup: MeterSetup,
    pub(crate) meter: Meter<Simulated>,
    /// The source of all its randomness.
    rng: ChaCha20Rng,
    /// What it has to hear of the gateway now.
    pub(crate) channels: BTreeSet<GatewayChannel>,
    /// The slots that are to be measured, by their end.
    measuring: BTreeMap<Timestamp, Measuring>,
    /// How far its clock is ahead.
    pub(crate) ahead_millis: u64,
    /// When the runner looks at it next.
    pub(crate) wake: Timestamp,
}

/// A slot, its begin and its end.
pub(crate) type Measuring = (Slot, Timestamp, Timestamp);

/// What a meter asks for. The changes must be on disk before the packets are sent.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) changes: Vec<Change>,
    pub(crate) packets: Vec<Packet>,
    /// Whether it has other channels to hear, and which of them are new.
    pub(crate) resubscribes: bool,
    pub(crate) subscribed: Vec<GatewayChannel>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) hidden: Option<Hidden>,
}

#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) channel: MeterChannel,
    pub(crate) about: Option<About>,
    pub(crate) topic: String,
    pub(crate) payload: Arc<[u8]>,
}

impl SimulatedMeter {
    /// Restores a meter from its records. With a seed, its randomness is derived from that and the records: a repeated run draws
    /// the same numbers, and a restart draws others, because every secret is recorded before it is used. Without a seed, it
    /// comes from the operating system.
    pub(crate) fn resume(
        setup: MeterSetup,
        cluster: &ClusterId,
        policy: &Policy,
        records: Vec<Record>,
        seed: Option<u64>,
    ) -> Result<Self, MeterError> {
        let rng = match seed {
            Some(seed) => {
                let mut hash = Sha256::new().chain_update(format!("{seed}/secrets/{}/", setup.id));
                records.iter().for_each(|record| hash.update(record.encode()));
                ChaCha20Rng::from_seed(hash.finalize().into())
            }
            None => ChaCha20Rng::from_rng(&mut UnwrapErr(SysRng)),
        };
        let meter = setup.resume(cluster, policy, records)?;
        let topics = meter.subscriptions();
        let wanted = |channel: &GatewayChannel| topics.contains(&channel.topic(cluster));
        let channels = GatewayChannel::ALL.into_iter().filter(wanted).collect();
        let (measuring, wake) = (BTreeMap::new(), Timestamp::from_millis(0));
        Ok(Self { setup, meter, rng, channels, measuring, ahead_millis: 0, wake })
    }

    pub(crate) fn handle(&mut self, input: Input<'_>, now: Now) -> Effects {
        let now = self.clock(now);
        self.meter.handle(input, now, &mut self.rng);
        let mut effects = Effects { hidden: self.meter.take_hidden(), ..Effects::default() };
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => effects.changes.push(Change::Put(record)),
                Output::Erase(key) => effects.changes.push(Change::Erase(key)),
                Output::Measure { slot, from, to } => drop(self.measuring.insert(to, (slot, from, to))),
                Output::Publish { channel, about, payload } => {
                    effects.packets.push(Packet { channel, about, topic: self.meter.topic(channel), payload });
                }
                Output::Subscribe(channel) => {
                    self.channels.insert(channel);
                    effects.subscribed.push(channel);
                    effects.resubscribes = true;
                }
                Output::Unsubscribe(channel) => {
                    self.channels.remove(&channel);
                    effects.resubscribes = true;
                }
                Output::Notice(notice) => effects.notices.push(notice),
            }
        }
        effects
    }

    /// Returns the time by the meter's own clock.
    pub(crate) fn clock(&self, now: Now) -> Now {
        Now { wall: now.wall.plus_millis(self.ahead_millis), ..now }
    }

    /// Returns the slot that has just ended by its clock, if one has.
    pub(crate) fn ended(&mut self, now: Now) -> Option<Measuring> {
        let at = self.clock(now).wall;
        let ended = self.measuring.first_entry().filter(|next| *next.key() <= at);
        ended.map(|ended| ended.remove())
    }

    /// Returns when something is due next, by the true clock.
    pub(crate) fn due(&self) -> Timestamp {
        let due = self.meter.deadline().into_iter().chain(self.measuring.keys().next().copied()).min();
        let due = due.map_or(u64::MAX, Timestamp::as_millis);
        Timestamp::from_millis(due.saturating_sub(self.ahead_millis))
    }
}
