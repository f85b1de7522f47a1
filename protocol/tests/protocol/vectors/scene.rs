//! A whole cluster of five, run by the real machines with real noise, and every number of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use coset::cbor::from_reader;
use coset::cbor::value::Value;
use dream_protocol::cluster;
use dream_protocol::derive;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, MacKey, SelfKey, StreamKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, MeterConfig};
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{Mac0, MaskedReading, Message as _};
use dream_testkit::node::{ClusterNode, MeterNode, Packet};
use rand_chacha::ChaCha20Rng;
use rand_core::{TryCryptoRng, TryRng};

use super::credentials::Credentials;
use crate::support::{START, at, cluster_id, rng};

pub(crate) struct Scene {
    pub(crate) credentials: Credentials,
    pub(crate) gateway: ClusterNode,
    /// The gateway's X25519 key of the list.
    pub(crate) gateway_agreement: [u8; 32],
    pub(crate) meters: Vec<Node>,
    pub(crate) list: Arc<MembershipList>,
}

/// A meter, and the secrets found in its store.
pub(crate) struct Node {
    pub(crate) id: MeterId,
    pub(crate) meter: MeterNode<Recorder>,
    /// What was stored before a list was accepted.
    pub(crate) enrolled: BTreeMap<meter::Key, Vec<u8>>,
    pub(crate) agreement: [u8; 32],
    pub(crate) self_key: [u8; 32],
    pub(crate) enrolment: Arc<[u8]>,
}

/// Everything of one meter's attempt.
pub(crate) struct Attempt {
    pub(crate) reading: i64,
    pub(crate) noise: i64,
    pub(crate) noisy: i64,
    pub(crate) fresh: [u8; 16],
    pub(crate) secret: u64,
    pub(crate) stream: u64,
    pub(crate) masks: u64,
    pub(crate) ciphertext: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) envelope: Arc<[u8]>,
}

impl Scene {
    /// Everyone enrols, and a list is published and accepted.
    pub(crate) fn new() -> Self {
        let credentials = Credentials::new();
        let mut gateway = ClusterNode::new(credentials.cluster_config(), at(START), rng(1));
        let node = |index: usize| {
            Node::new(&credentials.meters[index].0, credentials.meter_config(index), 1000 + index as u64)
        };
        let mut meters: Vec<Node> = (0..credentials.meters.len()).map(node).collect();
        for node in &meters {
            let topic = format!("dream/v1/{}/enrol/{}", cluster_id(), node.id);
            gateway.receive(&Packet::new(topic, node.enrolment.clone()), at(START));
        }
        let full = GatewayChannel::FullMembership.topic(&cluster_id());
        let published = gateway.handle(cluster::Input::Tick, at(START + 5));
        let published = published.into_iter().find(|packet| packet.topic == full).expect("a list is due");
        let record = fields(&gateway.store[&cluster::Key::List(START + 5)]);
        assert_eq!(byte_string(&record[3]), *published.payload);
        let authorities = credentials.authorities();
        let list = MembershipList::verify(&published.payload, &cluster_id(), &authorities).unwrap();
        for node in &mut meters {
            assert!(node.receive(&published, at(START + 6)).is_empty(), "an accepted list needs no answer");
        }
        let gateway_agreement = byte_string(&record[4]).try_into().unwrap();
        Self { credentials, gateway, gateway_agreement, meters, list }
    }

    pub(crate) fn slot(&self) -> Slot {
        self.list.from_slot()
    }

    pub(crate) fn slot_end(&self) -> Timestamp {
        self.list.params().slot_end(self.slot())
    }

    /// Every meter measures and sends its reading, in the middle of the window.
    pub(crate) fn measure(&mut self, watts: &[i64]) -> Vec<Packet> {
        let (slot, end) = (self.slot(), self.slot_end());
        self.gateway_waits(end);
        measure(&mut self.meters, watts, slot, end)
    }

    /// Delivers a message that the gateway must not reject; returns what it publishes.
    pub(crate) fn gateway_receives(&mut self, packet: &Packet, at: Timestamp) -> Vec<Packet> {
        let published = self.gateway.receive(packet, at);
        assert_eq!(self.gateway.rejections, []);
        published
    }

    /// Lets the gateway's time pass, deadline by deadline: one that misses them takes itself for having been away.
    pub(crate) fn gateway_waits(&mut self, until: Timestamp) -> Vec<Packet> {
        self.gateway.tick_until(until)
    }

    /// The numbers of the attempt that a meter has recorded, each checked against the functions that make it.
    pub(crate) fn attempt(&self, index: usize) -> Attempt {
        let node = &self.meters[index];
        let slot = self.slot();
        let record = fields(&node.meter.store[&meter::Key::Slot(slot)]);
        let attempt = u8::try_from(integer(&record[6])).unwrap();
        let reading = i64::try_from(integer(&record[3])).unwrap();
        let secret = u64::try_from(integer(&record[7])).unwrap();
        let envelope: Arc<[u8]> = byte_string(&record[8]).into();
        let payload = Mac0::decode(&envelope).unwrap().payload().to_vec();
        let ciphertext = MaskedReading::decode(&payload).unwrap().ciphertext;
        let (stream_key, _) = self.gateway_keys(index);
        let stream = derive::stream(&stream_key, slot, attempt);
        let masks = self.masks(index).sum(slot, attempt);
        let noisy = ciphertext.wrapping_sub(stream).wrapping_sub(masks).wrapping_sub(secret).cast_signed();
        let fresh = node.meter.rng.fresh.expect("C was made");
        let self_key = SelfKey::from_bytes(node.self_key);
        assert_eq!(secret, derive::secret(&self_key, self.list.hash(), slot, attempt, noisy, &fresh));
        Attempt { reading, noise: noisy - reading, noisy, fresh, secret, stream, masks, ciphertext, payload, envelope }
    }

    pub(crate) fn gateway_keys(&self, index: usize) -> (StreamKey, MacKey) {
        let node = &self.meters[index];
        let shared = AgreementSecret::from_bytes(node.agreement).agree(self.list.gateway_agreement()).unwrap();
        derive::gateway_keys(self.list.hash(), &shared, self.list.cluster(), &node.id)
    }

    pub(crate) fn masks(&self, index: usize) -> Masks {
        let node = &self.meters[index];
        let own = AgreementSecret::from_bytes(node.agreement);
        let keys = self.list.members().iter().map(|member| {
            (*member.id() != node.id).then(|| {
                let shared = own.agree(member.agreement()).unwrap();
                derive::pair_key(self.list.hash(), &shared, self.list.cluster(), &node.id, member.id())
            })
        });
        Masks::new(keys.collect(), None)
    }
}

/// Every meter measures, and sends its reading in the middle of the window.
pub(crate) fn measure(meters: &mut [Node], watts: &[i64], slot: Slot, end: Timestamp) -> Vec<Packet> {
    let send = |(node, &watts): (&mut Node, &i64)| {
        assert!(node.handle(meter::Input::Measured { slot, watts }, end).is_empty(), "not before its moment");
        let mut sent = node.handle(meter::Input::Tick, end.plus_secs(30));
        assert_eq!(sent.len(), 1);
        sent.remove(0)
    };
    meters.iter_mut().zip(watts).map(send).collect()
}

impl Node {
    /// A meter that has enrolled.
    pub(crate) fn new(id: &MeterId, config: MeterConfig, seed: u64) -> Self {
        let recorder = Recorder { inner: rng(seed), fresh: None };
        let mut meter = MeterNode::new(config, Simulation::default(), recorder);
        meter.handle(meter::Input::Connected, at(START));
        let own = meter.store.iter().find(|(key, _)| matches!(key, meter::Key::Enrolment(_))).unwrap();
        let own = fields(own.1);
        Self {
            id: id.clone(),
            enrolled: meter.store.clone(),
            meter,
            enrolment: byte_string(&own[1]).into(),
            agreement: byte_string(&own[5]).try_into().unwrap(),
            self_key: byte_string(&own[6]).try_into().unwrap(),
        }
    }

    /// Delivers a message that the meter must not refuse; returns what it sends.
    pub(crate) fn receive(&mut self, packet: &Packet, at: Timestamp) -> Vec<Packet> {
        self.handle(meter::Input::Message { topic: &packet.topic, payload: &packet.payload }, at)
    }

    pub(crate) fn handle(&mut self, input: meter::Input<'_>, at: Timestamp) -> Vec<Packet> {
        let sent = self.meter.handle(input, at);
        assert_eq!(self.meter.refusals(), []);
        sent
    }
}

/// A generator that remembers the last r it gave: the only 16 bytes that a meter ever asks for.
pub(crate) struct Recorder {
    inner: ChaCha20Rng,
    fresh: Option<[u8; 16]>,
}

impl TryRng for Recorder {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.inner.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.inner.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.inner.try_fill_bytes(bytes)?;
        self.fresh = (&*bytes).try_into().ok().or(self.fresh);
        Ok(())
    }
}

impl TryCryptoRng for Recorder {}

/// The fields of a record.
pub(crate) fn fields(record: &[u8]) -> Vec<Value> {
    from_reader::<Value, _>(record).unwrap().into_array().unwrap()
}

pub(crate) fn byte_string(value: &Value) -> Vec<u8> {
    value.as_bytes().unwrap().clone()
}

pub(crate) fn integer(value: &Value) -> i128 {
    value.as_integer().unwrap().into()
}
