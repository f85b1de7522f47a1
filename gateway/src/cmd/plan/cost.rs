//! What a cluster costs each of its meters: bytes on the wire and AES blocks.

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementPublic, IdentityKey, ListHash, MacKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::Params;
use dream_protocol::scheme::pairwise::partners;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{EnrolmentStatement, ListStatement, MaskedReading, Message as _, RecoveryRequest, Reveal};
use serde::Serialize;

use super::real;

/// When the messages that are measured would be sent: early 2027. Sizes stay the same for decades.
const MOMENT: u64 = 1_800_000_000;
/// The size of a certificate made as `protocol.md 3` shows.
pub(super) const CERTIFICATE_BYTES: usize = 300;
/// The ids in the measured messages, equally long.
const CLUSTER: &str = "cluster1";
const METER: &str = "meter-01";
pub(super) const ID_CHARACTERS: usize = METER.len();

/// Bytes between one meter and the broker.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Traffic {
    pub(super) reading: MessageSize,
    pub(super) reveal: MessageSize,
    pub(super) request: MessageSize,
    pub(super) list: MessageSize,
    /// A reading, a reveal and a request, with MQTT.
    pub(super) per_slot: u64,
    /// The least that lists add to a slot, if nobody joins, leaves or renews its keys.
    pub(super) list_per_slot: f64,
    /// For how many slots a list serves before it is renewed.
    pub(super) slots_per_list: u64,
}

/// The size of a message.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct MessageSize {
    pub(super) message: u64,
    /// With the PUBLISH packet around it and the PUBACK that answers it; without TLS and TCP.
    pub(super) with_mqtt: u64,
}

impl Traffic {
    /// Seals one message of each kind and counts its bytes.
    pub(super) fn measure(params: &Params, list_slots: u64) -> Self {
        let messages = Messages::new(params);
        let [reading, reveal, request] = [messages.reading(), messages.reveal(), messages.request()];
        let list = messages.list(list_slots);
        // A list is renewed in the last quarter of its life, but at least three slots before its end.
        let slots_per_list = list_slots - (list_slots / 4).max(3);
        Self {
            reading,
            reveal,
            request,
            list,
            per_slot: reading.with_mqtt + reveal.with_mqtt + request.with_mqtt,
            list_per_slot: real(list.with_mqtt) / real(slots_per_list),
            slots_per_list,
        }
    }
}

impl MessageSize {
    fn new(topic: &str, message: &[u8]) -> Self {
        const PUBACK: usize = 4;
        // Topic and packet identifier have two bytes of their own each.
        let content = 2 + topic.len() + 2 + message.len();
        // The fixed header has a byte of flags, and the length in groups of seven bits.
        let header = 1 + (content.max(1).ilog2() / 7 + 1) as usize;
        Self { message: message.len() as u64, with_mqtt: (header + content + PUBACK) as u64 }
    }
}

/// Makes messages that are genuine in all but their keys.
struct Messages<'a> {
    params: &'a Params,
    cluster: ClusterId,
    meter: MeterId,
    key: IdentityKey,
    mac: MacKey,
    slot: Slot,
}

impl<'a> Messages<'a> {
    fn new(params: &'a Params) -> Self {
        Self {
            params,
            cluster: ClusterId::new(CLUSTER).expect("a valid id"),
            meter: MeterId::new(METER).expect("a valid id"),
            key: IdentityKey::from_seed(&[1; 32]),
            mac: MacKey::from_bytes([1; 32]),
            slot: Slot(MOMENT / params.terms().slot_seconds),
        }
    }

    fn reading(&self) -> MessageSize {
        let topic = MeterChannel::Reading.topic(&self.cluster, &self.meter);
        let reading = MaskedReading { list: [1; 8], slot: self.slot, attempt: 0, ciphertext: 1 };
        MessageSize::new(&topic, &reading.seal(&self.mac, &topic))
    }

    fn reveal(&self) -> MessageSize {
        let topic = MeterChannel::Reveal.topic(&self.cluster, &self.meter);
        let reveal = Reveal { list: [1; 8], slot: self.slot, attempt: 0, revealed: 1, request: [1; 8] };
        MessageSize::new(&topic, &reveal.seal(&self.mac, &topic))
    }

    fn request(&self) -> MessageSize {
        let topic = GatewayChannel::Recovery.topic(&self.cluster);
        let missing = MemberSet::empty(self.params.members()).as_bytes().to_vec();
        let list = ListHash([1; 32]);
        let request = RecoveryRequest { list, slot: self.slot, attempt: 0, missing, deadline: MOMENT };
        MessageSize::new(&topic, &request.seal(&self.key, &topic))
    }

    fn enrolment(&self) -> Vec<u8> {
        let statement = EnrolmentStatement {
            cluster: self.cluster.clone(),
            certificate: [1; 32],
            agreement: AgreementPublic([1; 32]),
            not_before: MOMENT,
            not_after: MOMENT,
            seq: MOMENT,
            holds: 0,
        };
        let topic = MeterChannel::Enrol.topic(&self.cluster, &self.meter);
        statement.seal((&self.key, &[0; CERTIFICATE_BYTES]), &topic)
    }

    fn list(&self, list_slots: u64) -> MessageSize {
        let enrolment = self.enrolment();
        let statement = ListStatement {
            cluster: self.cluster.clone(),
            epoch: MOMENT,
            previous_epoch: MOMENT - 1,
            previous: ListHash([1; 32]),
            gateway: AgreementPublic([1; 32]),
            authorities: vec![[1; 32]],
            from_slot: self.slot,
            to_slot: self.slot.plus(list_slots - 1),
            terms: *self.params.terms(),
            enrolments: vec![&enrolment; self.params.members().into()],
            holders: Vec::new(),
        };
        let topic = GatewayChannel::Membership.topic(&self.cluster);
        let list = statement.seal((&self.key, &[0; CERTIFICATE_BYTES]), &topic);
        MessageSize::new(&GatewayChannel::FullMembership.topic(&self.cluster), &list)
    }
}

/// AES-128 blocks that one meter encrypts (`protocol.md` 3 and 6).
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct AesBlocks {
    /// Masks of one slot's first attempt, computed ahead: one block serves two slots.
    pub(super) masks: f64,
    /// Which pairs mask in the slot: only with fewer partners than members.
    pub(super) selection: u64,
    /// What only the gateway can take off.
    pub(super) stream: u64,
    pub(super) per_slot: f64,
    /// At most, on top, to reveal the masks shared with silent members.
    pub(super) reveal_at_most: u64,
    /// At most, on top, for each retry, whose masks are not computed ahead.
    pub(super) retry_at_most: u64,
}

impl AesBlocks {
    pub(super) fn count(params: &Params) -> Self {
        let others = u64::from(params.members() - 1);
        let selects = partners::threshold(params).is_some();
        let (masks, stream) = (real(others) / 2.0, 1);
        let selection = if selects { others } else { 0 };
        let blocks_per_pair = 1 + u64::from(selects);
        Self {
            masks,
            selection,
            stream,
            per_slot: masks + real(selection + stream),
            reveal_at_most: u64::from(params.max_missing()) * blocks_per_pair,
            retry_at_most: others * blocks_per_pair + stream,
        }
    }
}
