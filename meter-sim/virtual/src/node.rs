//! A machine with the records it writes and its own source of randomness.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{self, Cluster, ClusterConfig};
use dream_protocol::meter::{self, About, Meter, MeterConfig, MeterError};
use dream_protocol::simulation::{Simulated, Simulation};
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::CryptoRng;

use crate::now;

/// A message in transit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub topic: String,
    /// The slot and attempt of a meter's reading or reveal.
    pub about: Option<About>,
    pub payload: Arc<[u8]>,
}

impl Packet {
    pub fn new(topic: String, payload: impl Into<Arc<[u8]>>) -> Self {
        Self { topic, about: None, payload: payload.into() }
    }
}

/// A meter with the records it has written.
#[derive(Debug)]
pub struct MeterNode<R = ChaCha20Rng> {
    pub meter: Meter<Simulated>,
    pub store: BTreeMap<meter::Key, Vec<u8>>,
    pub rng: R,
    pub notices: Vec<meter::Notice>,
    /// The channels that it subscribed to, and whose retained messages it has not been given yet.
    pub subscribed: Vec<GatewayChannel>,
    /// The slots it was asked to measure, by their end.
    measuring: BTreeMap<Timestamp, Slot>,
}

impl<R: CryptoRng> MeterNode<R> {
    /// Makes a meter that has never run, with certificates that are known to be good.
    pub fn new(config: MeterConfig, simulation: Simulation, rng: R) -> Self {
        Self::try_new(config, simulation, rng).unwrap()
    }

    /// Makes a meter that has never run. All its randomness comes from `rng`.
    pub fn try_new(config: MeterConfig, simulation: Simulation, rng: R) -> Result<Self, MeterError> {
        Self::from_store(BTreeMap::new(), config, simulation, rng)
    }

    /// Makes a meter that has written these records before.
    pub fn from_store(
        store: BTreeMap<meter::Key, Vec<u8>>,
        config: MeterConfig,
        simulation: Simulation,
        rng: R,
    ) -> Result<Self, MeterError> {
        let meter = Meter::simulated(config, decode_meter_records(&store), simulation)?;
        Ok(Self { meter, store, rng, notices: Vec::new(), subscribed: Vec::new(), measuring: BTreeMap::new() })
    }

    /// Handles an input with both clocks in step; returns what is to be sent.
    pub fn handle(&mut self, input: meter::Input<'_>, wall: Timestamp) -> Vec<Packet> {
        self.handle_at(input, now(wall))
    }

    /// Handles an input; returns what is to be sent.
    pub fn handle_at(&mut self, input: meter::Input<'_>, now: Now) -> Vec<Packet> {
        self.meter.handle(input, now, &mut self.rng);
        self.drain()
    }

    /// Delivers a message; returns what is to be sent in answer.
    pub fn receive(&mut self, packet: &Packet, wall: Timestamp) -> Vec<Packet> {
        self.handle(meter::Input::Message { topic: &packet.topic, payload: &packet.payload }, wall)
    }

    /// Like [`MeterNode::advance_at`], with both clocks in step.
    pub fn advance(&mut self, wall: Timestamp, watts: impl FnMut(Slot) -> Option<i64>) -> Vec<Packet> {
        self.advance_at(now(wall), watts)
    }

    /// Reports the slots that have ended, with what `watts` says of each (`None` for a home that is not read), and ticks if
    /// something is due; returns what is to be sent.
    pub fn advance_at(&mut self, now: Now, mut watts: impl FnMut(Slot) -> Option<i64>) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(ended) = self.measuring.first_entry().filter(|next| *next.key() <= now.wall) {
            let slot = ended.remove();
            if let Some(watts) = watts(slot) {
                packets.extend(self.handle_at(meter::Input::Measured { slot, watts }, now));
            }
        }
        if self.meter.deadline().is_some_and(|due| due <= now.wall) {
            packets.extend(self.handle_at(meter::Input::Tick, now));
        }
        packets
    }

    /// Returns when to call [`MeterNode::advance`] next.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.meter.deadline().into_iter().chain(self.measuring.keys().next().copied()).min()
    }

    /// Carries out all outputs; returns what is to be sent.
    pub fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(output) = self.meter.poll() {
            packets.extend(self.carry_out(output));
        }
        packets
    }

    /// Carries out one output; returns the message if it is one to send.
    pub fn carry_out(&mut self, output: meter::Output) -> Option<Packet> {
        match output {
            meter::Output::Persist(record) => drop(self.store.insert(record.key(), record.encode().to_vec())),
            meter::Output::Erase(key) => drop(self.store.remove(&key)),
            meter::Output::Measure { slot, to, .. } => drop(self.measuring.insert(to, slot)),
            meter::Output::Publish { channel, about, payload } => {
                return Some(Packet { topic: self.meter.topic(channel), about, payload });
            }
            meter::Output::Subscribe(channel) => self.subscribed.push(channel),
            meter::Output::Unsubscribe(_) => {}
            meter::Output::Notice(notice) => self.notices.push(notice),
        }
        None
    }

    /// Returns the records, decoded from what was written.
    pub fn records(&self) -> Vec<meter::Record> {
        decode_meter_records(&self.store)
    }

    /// Stops the machine and starts it again from what it has written.
    pub fn restart(&mut self, config: MeterConfig, simulation: Simulation) {
        self.meter = Meter::simulated(config, self.records(), simulation).unwrap();
        self.measuring.clear();
    }

    /// Returns the refusals since the last call, and forgets all notices.
    pub fn refusals(&mut self) -> Vec<meter::Refusal> {
        let notices = std::mem::take(&mut self.notices);
        notices.iter().filter_map(meter::Notice::refusal).cloned().collect()
    }
}

fn decode_meter_records(store: &BTreeMap<meter::Key, Vec<u8>>) -> Vec<meter::Record> {
    store.values().map(|bytes| meter::Record::decode(bytes).unwrap()).collect()
}

/// A gateway's cluster with the records it has written.
#[derive(Debug)]
pub struct ClusterNode {
    pub cluster: Cluster,
    pub config: ClusterConfig,
    pub store: BTreeMap<cluster::Key, Vec<u8>>,
    pub rng: ChaCha20Rng,
    pub outcomes: Vec<SlotOutcome>,
    pub rejections: Vec<cluster::Rejection>,
    pub notices: Vec<cluster::Notice>,
}

impl ClusterNode {
    /// Makes a new cluster that is connected to its broker.
    pub fn new(config: ClusterConfig, wall: Timestamp, rng: ChaCha20Rng) -> Self {
        let mut node = Self::from_store(BTreeMap::new(), config, wall, rng);
        node.handle(cluster::Input::Connected, wall);
        node
    }

    /// Makes a cluster that has written these records before, and is not connected yet.
    pub fn from_store(
        store: BTreeMap<cluster::Key, Vec<u8>>,
        config: ClusterConfig,
        wall: Timestamp,
        rng: ChaCha20Rng,
    ) -> Self {
        Self {
            cluster: Cluster::resume(config.clone(), decode_cluster_records(&store), wall).unwrap(),
            config,
            store,
            rng,
            outcomes: Vec::new(),
            rejections: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Handles an input; returns what is to be published.
    pub fn handle(&mut self, input: cluster::Input<'_>, wall: Timestamp) -> Vec<Packet> {
        self.cluster.handle(input, wall, &mut self.rng);
        self.drain()
    }

    /// Delivers a message; returns what is to be published in answer.
    pub fn receive(&mut self, packet: &Packet, wall: Timestamp) -> Vec<Packet> {
        self.handle(cluster::Input::Message { topic: &packet.topic, payload: &packet.payload }, wall)
    }

    /// Delivers a message, and carries out nothing of what follows; returns how many entries it would write.
    pub fn count_writes(&mut self, packet: &Packet, wall: Timestamp) -> u64 {
        let input = cluster::Input::Message { topic: &packet.topic, payload: &packet.payload };
        self.cluster.handle(input, wall, &mut self.rng);
        let outputs = std::iter::from_fn(|| self.cluster.poll());
        outputs.map(|output| u64::from(matches!(output, cluster::Output::Persist(_)))).sum()
    }

    /// Ticks at every deadline until `wall`, as a driver does that is never late; returns what is to be published.
    pub fn tick_until(&mut self, wall: Timestamp) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(due) = self.cluster.deadline().filter(|due| *due <= wall) {
            packets.extend(self.handle(cluster::Input::Tick, due));
            assert_ne!(self.cluster.deadline(), Some(due), "a handled deadline moves or disappears");
        }
        packets
    }

    /// Carries out all outputs; returns what is to be published.
    pub fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(output) = self.cluster.poll() {
            packets.extend(self.carry_out(output));
        }
        packets
    }

    /// Carries out one output; returns the message if it is one to publish.
    pub fn carry_out(&mut self, output: cluster::Output) -> Option<Packet> {
        match output {
            cluster::Output::Persist(record) => drop(self.store.insert(record.key(), record.encode().to_vec())),
            cluster::Output::Forget(forget) => self.forget(&forget),
            cluster::Output::Publish { channel, payload } => {
                return Some(Packet::new(channel.topic(&self.config.cluster), payload));
            }
            cluster::Output::Reject { reason, .. } => self.rejections.push(reason),
            cluster::Output::Closed(outcome) => self.outcomes.push(outcome),
            cluster::Output::Notice(notice) => self.notices.push(notice),
        }
        None
    }

    fn forget(&mut self, forget: &cluster::Forget) {
        self.store.retain(|key, _| match (key, forget) {
            (cluster::Key::Enrolment(meter), cluster::Forget::Enrolment(gone)) => meter != gone,
            (cluster::Key::List(epoch), cluster::Forget::List(gone)) => epoch != gone,
            (cluster::Key::Slot(slot, ..), cluster::Forget::Slot(gone)) => slot != gone,
            (cluster::Key::Outcome(slot), cluster::Forget::Outcome(gone)) => *slot != gone.slot,
            (
                cluster::Key::Enrolment(_)
                | cluster::Key::List(_)
                | cluster::Key::Slot(..)
                | cluster::Key::Outcome(_)
                | cluster::Key::Offenders
                | cluster::Key::Retries
                | cluster::Key::Evidence(_),
                _,
            ) => true,
        });
    }

    /// Returns the records, decoded from what was written.
    pub fn records(&self) -> Vec<cluster::Record> {
        decode_cluster_records(&self.store)
    }

    /// Stops the machine, starts it again from what it has written, and connects it; returns what is to be published.
    pub fn restart(&mut self, wall: Timestamp) -> Vec<Packet> {
        self.cluster = Cluster::resume(self.config.clone(), self.records(), wall).unwrap();
        self.handle(cluster::Input::Connected, wall)
    }
}

fn decode_cluster_records(store: &BTreeMap<cluster::Key, Vec<u8>>) -> Vec<cluster::Record> {
    store.values().map(|bytes| cluster::Record::decode(bytes).unwrap()).collect()
}
