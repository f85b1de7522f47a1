//! A whole cluster of five, run by the real machines with real noise, and every number of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use coset::cbor::from_reader;
use coset::cbor::value::Value;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{self, Cluster};
use dream_protocol::derive;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, MacKey, SelfKey, StreamKey};
use dream_protocol::mask::Masks;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, Meter};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::wire::{Mac0, MaskedReading};
use rand_chacha::ChaCha20Rng;
use rand_core::{TryCryptoRng, TryRng};

use super::credentials::Credentials;
use crate::support::{START, at, cluster_id, now, rng};

/// A message in transit.
#[derive(Debug, Clone)]
pub struct Packet {
    pub topic: String,
    pub payload: Arc<[u8]>,
}

pub struct Scene {
    pub credentials: Credentials,
    pub gateway: Cluster,
    pub gateway_rng: ChaCha20Rng,
    /// The gateway's X25519 key of the list.
    pub gateway_agreement: [u8; 32],
    pub outcomes: Vec<SlotOutcome>,
    pub meters: Vec<Node>,
    pub list: Arc<MembershipList>,
}

/// A meter, its store, and the secrets found there.
pub struct Node {
    pub id: MeterId,
    pub meter: Meter,
    pub rng: Recorder,
    pub store: BTreeMap<meter::Key, Vec<u8>>,
    /// What was stored before a list was accepted.
    pub enrolled: Vec<Vec<u8>>,
    pub agreement: [u8; 32],
    pub self_key: [u8; 32],
    pub enrolment: Arc<[u8]>,
}

/// Everything of one meter's attempt.
pub struct Attempt {
    pub reading: i64,
    pub noise: i64,
    pub noisy: i64,
    pub fresh: [u8; 16],
    pub secret: u64,
    pub stream: u64,
    pub masks: u64,
    pub ciphertext: u64,
    pub payload: Vec<u8>,
    pub envelope: Arc<[u8]>,
}

impl Scene {
    /// Everyone enrols, and a list is published and accepted.
    pub fn new() -> Self {
        let credentials = Credentials::new();
        let mut gateway = Cluster::resume(credentials.cluster_config(), [], at(START)).unwrap();
        let mut gateway_rng = rng(1);
        gateway.handle(cluster::Input::Connected, at(START), &mut gateway_rng);
        let mut meters: Vec<Node> = (0..credentials.meters.len()).map(|index| Node::new(&credentials, index)).collect();
        for node in &meters {
            let topic = format!("dream/v1/{}/enrol/{}", cluster_id(), node.id);
            let message = cluster::Input::Message { topic: &topic, payload: &node.enrolment };
            gateway.handle(message, at(START), &mut gateway_rng);
        }
        gateway.handle(cluster::Input::Tick, at(START + 5), &mut gateway_rng);
        let mut published = None;
        while let Some(output) = gateway.poll() {
            if let cluster::Output::Persist(record @ cluster::Record::List(_)) = output {
                published = Some(fields(&record.encode()));
            }
        }
        let published = published.expect("a list is due");
        let bytes = byte_string(&published[3]);
        let authorities = credentials.authorities();
        let list = MembershipList::verify(&bytes, &cluster_id(), &authorities).unwrap();
        for node in &mut meters {
            let message = meter::Input::Message { topic: "dream/v1/north/membership", payload: &bytes };
            assert!(node.handle(message, at(START + 6)).is_empty(), "an accepted list needs no answer");
        }
        let gateway_agreement = byte_string(&published[4]).try_into().unwrap();
        Self { credentials, gateway, gateway_rng, gateway_agreement, outcomes: Vec::new(), meters, list }
    }

    pub fn slot(&self) -> Slot {
        self.list.from_slot()
    }

    pub fn slot_end(&self) -> Timestamp {
        self.list.params().slot_end(self.slot())
    }

    /// Every meter measures and sends its reading, in the middle of the window.
    pub fn measure(&mut self, watts: &[i64]) -> Vec<Packet> {
        let (slot, end) = (self.slot(), self.slot_end());
        self.gateway_waits(end);
        let send = |(node, &watts): (&mut Node, &i64)| {
            assert!(node.handle(meter::Input::Measured { slot, watts }, end).is_empty(), "not before its moment");
            let mut sent = node.handle(meter::Input::Tick, end.plus_secs(30));
            assert_eq!(sent.len(), 1);
            sent.remove(0)
        };
        self.meters.iter_mut().zip(watts).map(send).collect()
    }

    pub fn gateway_receives(&mut self, packet: &Packet, at: Timestamp) -> Vec<Packet> {
        self.gateway_handles(cluster::Input::Message { topic: &packet.topic, payload: &packet.payload }, at)
    }

    /// Lets the gateway's time pass, deadline by deadline: one that misses them takes itself for having been away.
    pub fn gateway_waits(&mut self, until: Timestamp) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(due) = self.gateway.deadline().filter(|due| *due <= until) {
            packets.extend(self.gateway_handles(cluster::Input::Tick, due));
        }
        packets
    }

    pub fn gateway_handles(&mut self, input: cluster::Input<'_>, at: Timestamp) -> Vec<Packet> {
        self.gateway.handle(input, at, &mut self.gateway_rng);
        let mut packets = Vec::new();
        while let Some(output) = self.gateway.poll() {
            match output {
                cluster::Output::Publish { channel, payload } => {
                    packets.push(Packet::new(channel.topic(&cluster_id()), payload));
                }
                cluster::Output::Closed(outcome) => self.outcomes.push(outcome),
                cluster::Output::Reject { reason, .. } => panic!("the gateway rejects: {reason}"),
                cluster::Output::Persist(_) | cluster::Output::Forget(_) | cluster::Output::Notice(_) => {}
            }
        }
        packets
    }

    /// The numbers of the attempt that a meter has recorded, each checked against the functions that make it.
    pub fn attempt(&self, index: usize) -> Attempt {
        let node = &self.meters[index];
        let slot = self.slot();
        let record = fields(&node.store[&meter::Key::Slot(slot)]);
        let attempt = u8::try_from(integer(&record[5])).unwrap();
        let reading = i64::try_from(integer(&record[3])).unwrap();
        let secret = u64::try_from(integer(&record[6])).unwrap();
        let envelope: Arc<[u8]> = byte_string(&record[7]).into();
        let payload = Mac0::decode(&envelope).unwrap().payload().to_vec();
        let ciphertext = MaskedReading::decode(&payload).unwrap().ciphertext;
        let (stream_key, _) = self.gateway_keys(index);
        let stream = derive::stream(&stream_key, slot, attempt);
        let masks = self.masks(index).sum(slot, attempt);
        let noisy = ciphertext.wrapping_sub(stream).wrapping_sub(masks).wrapping_sub(secret).cast_signed();
        let fresh = node.rng.fresh.expect("C was made");
        let self_key = SelfKey::from_bytes(node.self_key);
        assert_eq!(secret, derive::secret(&self_key, self.list.hash(), slot, attempt, noisy, &fresh));
        Attempt { reading, noise: noisy - reading, noisy, fresh, secret, stream, masks, ciphertext, payload, envelope }
    }

    pub fn gateway_keys(&self, index: usize) -> (StreamKey, MacKey) {
        let node = &self.meters[index];
        let shared = AgreementSecret::from_bytes(node.agreement).agree(self.list.gateway_agreement()).unwrap();
        derive::gateway_keys(self.list.hash(), &shared, self.list.cluster(), &node.id)
    }

    pub fn masks(&self, index: usize) -> Masks {
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

impl Node {
    fn new(credentials: &Credentials, index: usize) -> Self {
        let meter = Meter::resume(credentials.meter_config(index), []).unwrap();
        let mut node = Self {
            id: credentials.meters[index].0.clone(),
            meter,
            rng: Recorder { inner: rng(1000 + index as u64), fresh: None },
            store: BTreeMap::new(),
            enrolled: Vec::new(),
            agreement: [0; 32],
            self_key: [0; 32],
            enrolment: Arc::new([]),
        };
        node.handle(meter::Input::Connected, at(START));
        node.enrolled = node.store.values().cloned().collect();
        let own = node.store.iter().find(|(key, _)| matches!(key, meter::Key::Enrolment(_))).unwrap();
        let own = fields(own.1);
        node.enrolment = byte_string(&own[1]).into();
        node.agreement = byte_string(&own[5]).try_into().unwrap();
        node.self_key = byte_string(&own[6]).try_into().unwrap();
        node
    }

    pub fn receive(&mut self, packet: &Packet, at: Timestamp) -> Vec<Packet> {
        self.handle(meter::Input::Message { topic: &packet.topic, payload: &packet.payload }, at)
    }

    pub fn handle(&mut self, input: meter::Input<'_>, at: Timestamp) -> Vec<Packet> {
        self.meter.handle(input, now(at), &mut self.rng);
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
                meter::Output::Notice(meter::Notice::Refused(refusal)) => panic!("the meter refuses: {refusal}"),
                meter::Output::Notice(_) => {}
            }
        }
        packets
    }
}

/// A generator that remembers the last r it gave: the only 16 bytes that a meter ever asks for.
pub struct Recorder {
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
pub fn fields(record: &[u8]) -> Vec<Value> {
    from_reader::<Value, _>(record).unwrap().into_array().unwrap()
}

fn byte_string(value: &Value) -> Vec<u8> {
    value.as_bytes().unwrap().clone()
}

fn integer(value: &Value) -> i128 {
    value.as_integer().unwrap().into()
}
