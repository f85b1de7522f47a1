//! A member that holds its own keys and says with them what it likes.

use std::sync::Arc;

use dream_protocol::derive;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, MacKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{MaskedReading, Message as _, Reveal, Sign1};
use sha2::{Digest, Sha256};

use super::world::{MeterNode, Packet, World};

pub(crate) struct Insider {
    id: MeterId,
    list: Arc<MembershipList>,
    mac: MacKey,
}

impl Insider {
    /// Takes the keys of a meter out of its records.
    pub(crate) fn new(world: &World, meter: usize) -> Self {
        let list = world.list.clone();
        let id = list.members()[meter].id().clone();
        let shared = agreement_secret(&world.meters[meter]).agree(list.gateway_agreement()).unwrap();
        let (_, mac) = derive::gateway_keys(list.hash(), &shared, list.cluster(), &id);
        Self { id, list, mac }
    }

    pub(crate) fn reading(&self, slot: Slot, attempt: u8, ciphertext: u64) -> Packet {
        self.seal_reading(&MaskedReading { list: self.list.hash().prefix(), slot, attempt, ciphertext })
    }

    pub(crate) fn seal_reading(&self, reading: &MaskedReading) -> Packet {
        let topic = MeterChannel::Reading.topic(self.list.cluster(), &self.id);
        let payload = reading.seal(&self.mac, &topic);
        Packet::new(topic, payload)
    }

    /// A reveal that claims to answer a request.
    pub(crate) fn reveal(&self, slot: Slot, attempt: u8, revealed: u64, request: &Packet) -> Packet {
        let hash = Sha256::digest(Sign1::decode(&request.payload).unwrap().payload());
        let request = std::array::from_fn(|i| hash[i]);
        let topic = MeterChannel::Reveal.topic(self.list.cluster(), &self.id);
        let reveal = Reveal { list: self.list.hash().prefix(), slot, attempt, revealed, request };
        let payload = reveal.seal(&self.mac, &topic);
        Packet::new(topic, payload)
    }
}

/// A meter's X25519 key, as its record of its enrolment has it.
fn agreement_secret(node: &MeterNode) -> AgreementSecret {
    let record = node.store.iter().find(|(key, _)| matches!(key, meter::Key::Enrolment(_))).unwrap().1;
    let mut decoder = minicbor::Decoder::new(record);
    assert_eq!(decoder.array().unwrap(), Some(7));
    for _ in 0..5 {
        decoder.skip().unwrap();
    }
    AgreementSecret::from_bytes(decoder.bytes().unwrap().try_into().unwrap())
}
