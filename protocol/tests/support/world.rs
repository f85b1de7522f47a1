//! Meters and a gateway with the stores they write to, and a whole honest cluster whose messages are carried by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{self, Cluster, ClusterConfig};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, Meter, MeterConfig};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::ListStatement;
use rand_chacha::ChaCha20Rng;

use super::pki::Pki;
use super::{START, at, cluster_config, cluster_id, meter_config, meter_name, now, rng};

/// A message in transit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub topic: String,
    pub payload: Arc<[u8]>,
}

/// A meter with the store it writes to.
pub struct MeterNode {
    pub meter: Meter,
    pub store: BTreeMap<meter::Key, Vec<u8>>,
    pub rng: ChaCha20Rng,
    pub notices: Vec<meter::Notice>,
}

impl MeterNode {
    pub fn new(config: MeterConfig, seed: u64) -> Self {
        let meter = Meter::resume(config, []).unwrap();
        Self { meter, store: BTreeMap::new(), rng: rng(seed), notices: Vec::new() }
    }

    /// Handles an input, writes what must persist, and returns what is to be sent.
    pub fn handle(&mut self, input: meter::Input<'_>, wall: Timestamp) -> Vec<Packet> {
        self.handle_at(input, now(wall))
    }

    pub fn handle_at(&mut self, input: meter::Input<'_>, now: Now) -> Vec<Packet> {
        self.meter.handle(input, now, &mut self.rng);
        self.drain()
    }

    pub fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(output) = self.meter.poll() {
            match output {
                meter::Output::Persist(record) => {
                    self.store.insert(record.key(), record.encode().to_vec());
                }
                meter::Output::Erase(key) => {
                    self.store.remove(&key);
                }
                meter::Output::Publish { topic, payload } => packets.push(Packet { topic, payload }),
                meter::Output::Notice(notice) => self.notices.push(notice),
            }
        }
        packets
    }

    /// The records, decoded from what was written.
    pub fn records(&self) -> Vec<meter::Record> {
        self.store.values().map(|bytes| meter::Record::decode(bytes).unwrap()).collect()
    }

    /// Stops the machine and starts it again from what it has written.
    pub fn restart(&mut self, config: MeterConfig, simulation: Simulation) {
        self.meter = Meter::resume(config, self.records()).unwrap();
        self.meter.simulate(simulation);
    }

    /// The refusals since the last call.
    pub fn refusals(&mut self) -> Vec<meter::Refusal> {
        let refusal = |notice| match notice {
            meter::Notice::Refused(refusal) => Some(refusal),
            meter::Notice::Enrolled { .. }
            | meter::Notice::ListAccepted { .. }
            | meter::Notice::Charged { .. }
            | meter::Notice::Answered { .. } => None,
        };
        std::mem::take(&mut self.notices).into_iter().filter_map(refusal).collect()
    }
}

/// A gateway's cluster with the store it writes to.
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
    /// A new cluster, connected to its broker.
    pub fn new(config: ClusterConfig, wall: Timestamp, seed: u64) -> Self {
        let mut node = Self {
            cluster: Cluster::resume(config.clone(), [], wall).unwrap(),
            config,
            store: BTreeMap::new(),
            rng: rng(seed),
            outcomes: Vec::new(),
            rejections: Vec::new(),
            notices: Vec::new(),
        };
        node.handle(cluster::Input::Connected, wall);
        node
    }

    pub fn handle(&mut self, input: cluster::Input<'_>, wall: Timestamp) -> Vec<Packet> {
        self.cluster.handle(input, wall, &mut self.rng);
        self.drain()
    }

    pub fn receive(&mut self, packet: &Packet, wall: Timestamp) -> Vec<Packet> {
        self.handle(cluster::Input::Message { topic: &packet.topic, payload: &packet.payload }, wall)
    }

    /// Ticks at every deadline until `wall`, as a driver does that is never late.
    pub fn tick_until(&mut self, wall: Timestamp) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(due) = self.cluster.deadline().filter(|due| *due <= wall) {
            packets.extend(self.handle(cluster::Input::Tick, due));
            assert_ne!(self.cluster.deadline(), Some(due), "a handled deadline moves or disappears");
        }
        packets
    }

    pub fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(output) = self.cluster.poll() {
            match output {
                cluster::Output::Persist(record) => {
                    self.store.insert(record.key(), record.encode().to_vec());
                }
                cluster::Output::Forget(forget) => self.forget(&forget),
                cluster::Output::Publish { channel, payload } => {
                    packets.push(Packet { topic: channel.topic(&self.config.cluster), payload });
                }
                cluster::Output::Reject { reason, .. } => self.rejections.push(reason),
                cluster::Output::Closed(outcome) => self.outcomes.push(outcome),
                cluster::Output::Notice(notice) => self.notices.push(notice),
            }
        }
        packets
    }

    pub fn forget(&mut self, forget: &cluster::Forget) {
        match forget {
            cluster::Forget::Enrolment(id) => {
                self.store.remove(&cluster::Key::Enrolment(id.clone()));
            }
            cluster::Forget::List(epoch) => {
                self.store.remove(&cluster::Key::List(*epoch));
            }
            cluster::Forget::Slot(slot) => {
                self.store.retain(|key, _| !matches!(key, cluster::Key::Slot(of, ..) if of == slot));
            }
        }
    }

    pub fn records(&self) -> Vec<cluster::Record> {
        self.store.values().map(|bytes| cluster::Record::decode(bytes).unwrap()).collect()
    }

    /// Stops the machine, starts it again from what it has written, and connects it.
    pub fn restart(&mut self, wall: Timestamp) -> Vec<Packet> {
        self.cluster = Cluster::resume(self.config.clone(), self.records(), wall).unwrap();
        self.handle(cluster::Input::Connected, wall)
    }
}

/// A gateway and its meters, all honest, with a list in force; messages are carried by hand.
pub struct World {
    pub pki: Pki,
    pub gateway: ClusterNode,
    pub meters: Vec<MeterNode>,
    pub list: Arc<MembershipList>,
    /// The list as it was published.
    pub list_packet: Packet,
}

impl World {
    /// Enrols `members` meters without noise and delivers their list. The next slot to measure is the list's first.
    pub fn new(members: usize) -> Self {
        Self::with(members, |_| {}, Simulation { share: Some(0), ..Simulation::default() })
    }

    pub fn with(members: usize, change: impl FnOnce(&mut ClusterConfig), simulation: Simulation) -> Self {
        let pki = Pki::new();
        let mut config = cluster_config(&pki, u16::try_from(members).unwrap());
        change(&mut config);
        let mut gateway = ClusterNode::new(config, at(START), 1);
        let mut meters = Vec::new();
        for index in 0..members {
            let mut node = MeterNode::new(meter_config(&pki, &meter_name(index)), 1000 + index as u64);
            node.meter.simulate(simulation);
            for packet in node.handle(meter::Input::Connected, at(START)) {
                gateway.receive(&packet, at(START));
            }
            meters.push(node);
        }
        let list_packet = gateway.handle(cluster::Input::Tick, at(START + 5)).pop().expect("a list is due");
        let list = MembershipList::verify(&list_packet.payload, &cluster_id(), &pki.authorities()).unwrap();
        for node in &mut meters {
            let sent = node.handle(meter::Input::List(list.clone()), at(START + 6));
            assert_eq!(sent, [], "an accepted list needs no answer");
        }
        Self { pki, gateway, meters, list, list_packet }
    }

    pub fn first_slot(&self) -> Slot {
        self.list.from_slot()
    }

    pub fn slot_end(&self, slot: Slot) -> Timestamp {
        self.list.params().slot_end(slot)
    }

    /// Lets a meter measure a slot and returns the reading it sends within its window.
    pub fn measure(&mut self, meter: usize, slot: Slot, watts: i64) -> Vec<Packet> {
        let end = self.slot_end(slot);
        let node = &mut self.meters[meter];
        let mut sent = node.handle(meter::Input::Measured { slot, watts }, end);
        sent.extend(node.handle(meter::Input::Tick, end.plus_secs(30)));
        sent
    }

    /// Delivers a packet of the gateway's to one meter.
    pub fn deliver(&mut self, meter: usize, packet: &Packet, wall: Timestamp) -> Vec<Packet> {
        self.meters[meter].handle(meter::Input::Message { topic: &packet.topic, payload: &packet.payload }, wall)
    }
}

/// A list that a gateway signs, whatever it says: for lists that no honest gateway would make.
pub fn sign_list(pki: &Pki, statement: &ListStatement<'_>) -> Packet {
    let gateway = pki.gateway("gw");
    let topic = GatewayChannel::Membership.topic(&statement.cluster);
    let payload = statement.sign(&gateway.identity(), &topic, &gateway.der).into();
    Packet { topic, payload }
}
