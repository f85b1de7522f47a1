//! A meter with the records it writes, and the clusters of `membership.json` and `committee.json`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::meter::{Input, Key, Meter, MeterConfig, Notice, Output, Record, Refusal};
use dream_protocol::policy::{Floors, Policy, Profile};
use dream_protocol::time::{Now, Slot, Timestamp};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::json::{Value, array, bytes, each, small, text, vectors};

/// When everybody enrols: the start of slot 2,980,000 of ten minutes.
pub(crate) const START: u64 = 2_980_000 * 600;

pub(crate) type Records = BTreeMap<Key, Vec<u8>>;

/// A message in transit.
pub(crate) struct Packet {
    pub(crate) topic: String,
    pub(crate) payload: Arc<[u8]>,
}

pub(crate) struct Node {
    pub(crate) meter: Meter,
    pub(crate) store: Records,
    pub(crate) refusals: Vec<Refusal>,
    rng: ChaCha20Rng,
}

impl Node {
    pub(crate) fn resume(config: MeterConfig, store: Records, seed: u64) -> Self {
        let records = store.values().map(|bytes| Record::decode(bytes).expect("a record that was written"));
        let meter = Meter::resume(config, records.collect::<Vec<_>>()).expect("a sound configuration");
        Self { meter, store, refusals: Vec::new(), rng: ChaCha20Rng::seed_from_u64(seed) }
    }

    /// Handles an input, with both clocks in step; returns what is to be sent.
    pub(crate) fn handle(&mut self, input: Input<'_>, wall: Timestamp) -> Vec<Packet> {
        self.meter.handle(input, Now { wall, monotonic_millis: wall.as_millis() }, &mut self.rng);
        let mut packets = Vec::new();
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => drop(self.store.insert(record.key(), record.encode().to_vec())),
                Output::Erase(key) => drop(self.store.remove(&key)),
                Output::Publish { channel, payload, .. } => {
                    packets.push(Packet { topic: self.meter.topic(channel), payload });
                }
                Output::Notice(Notice::Refused(refusal)) => self.refusals.push(refusal),
                Output::Notice(_) | Output::Measure { .. } | Output::Subscribe(_) | Output::Unsubscribe(_) => {}
            }
        }
        packets
    }

    pub(crate) fn receive(&mut self, topic: &str, payload: &[u8], wall: Timestamp) -> Vec<Packet> {
        self.handle(Input::Message { topic, payload }, wall)
    }

    /// Measures, and returns what is sent in the middle of the reading window.
    pub(crate) fn measure(&mut self, slot: Slot, watts: i64, end: Timestamp) -> Vec<Packet> {
        let mut sent = self.handle(Input::Measured { slot, watts }, end);
        sent.extend(self.handle(Input::Tick, end.plus_secs(30)));
        sent
    }
}

/// A cluster of the vectors.
pub(crate) struct Cluster {
    pub(crate) file: Value,
    is_committee: bool,
}

impl Cluster {
    pub(crate) fn pairwise() -> Self {
        Self { file: vectors("membership"), is_committee: false }
    }

    pub(crate) fn committee() -> Self {
        Self { file: vectors("committee"), is_committee: true }
    }

    pub(crate) fn members(&self) -> &[Value] {
        each(&self.file["meters"])
    }

    pub(crate) fn place(&self, id: &Value) -> usize {
        self.members().iter().position(|member| member["id"] == *id).expect("a member")
    }

    pub(crate) fn authorities(&self) -> Authorities {
        let ders = |value: &Value| match value {
            Value::Array(all) => all.iter().map(bytes).collect(),
            Value::Object(one) => [bytes(&one["certificate"])].to_vec(),
            one => [bytes(one)].to_vec(),
        };
        let anchors = |ders: Vec<Vec<u8>>| Anchors::new(ders.iter().map(Vec::as_slice)).expect("authorities");
        let meters = if self.is_committee { &self.file["meter_authorities"] } else { &self.file["meter_authority"] };
        Authorities::new(anchors(ders(meters)), anchors(ders(&self.file["gateway_authority"]))).expect("two of them")
    }

    pub(crate) fn config(&self, index: usize) -> MeterConfig {
        let member = &self.members()[index];
        let policy = Policy::new(self.authorities(), [GatewayId::new("gw").expect("an id")]);
        let policy = Policy {
            floors: Floors { members: 3, ..Profile::Trial.floors() },
            day_micro_rho: 72_000_000,
            ..policy
        };
        let holds = small(&member["enrolment"]["holds"]);
        MeterConfig {
            identity: IdentityKey::from_seed(&array(&member["identity_private"])),
            certificate: bytes(&member["certificate"]),
            cluster: ClusterId::new(text(&self.file["cluster"])).expect("an id"),
            policy: if self.is_committee { Policy { holds, ..policy } } else { policy },
        }
    }

    /// A member that has enrolled, with the randomness with which the vectors were made.
    pub(crate) fn enrolled(&self, index: usize) -> Node {
        let seed = if self.is_committee { 2000 } else { 1000 } + index as u64;
        let mut node = Node::resume(self.config(index), Records::new(), seed);
        node.handle(Input::Connected, Timestamp::from_secs(START));
        node
    }
}
