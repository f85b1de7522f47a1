//! What a cluster costs each of its meters: bytes on the wire and AES blocks.

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementPublic, IdentityKey, ListHash, MacKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::Params;
use dream_protocol::scheme::Kind;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::pairwise::partners;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, FullList, ListStatement, MaskedReading, Message as _, RecoveryRequest,
    Reveal, ShortList,
};
use serde::Serialize;

use super::numbers::real;

/// When the messages that are measured would be sent: early 2027. Sizes stay the same for decades.
const MOMENT: u64 = 1_800_000_000;
/// The size of a certificate made as `protocol.md 3` shows.
pub(super) const CERTIFICATE_BYTES: usize = 300;
/// The ids in the measured messages, equally long.
const CLUSTER: &str = "cluster1";
pub(super) const METER: &str = "meter-01";

/// Bytes between meters and the broker.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Traffic {
    pub(super) reading: MessageSize,
    /// What is sent in the second round: a reveal, or a holder's answer.
    pub(super) answer: MessageSize,
    pub(super) request: MessageSize,
    /// With every enrolment.
    pub(super) list: MessageSize,
    /// With those of drawn holders, or with the header alone.
    pub(super) short_list: MessageSize,
    /// What a member sends and gets in a slot, with MQTT; with a committee, one that is no holder.
    pub(super) per_slot: u64,
    /// What a holder sends and gets.
    pub(super) per_slot_of_holder: Option<u64>,
    /// What such a member gets with each list.
    pub(super) per_list: u64,
    /// The least that lists add to its slot, if nobody joins, leaves or renews its keys.
    pub(super) list_per_slot: f64,
    /// For how many slots a list serves before it is renewed.
    pub(super) slots_per_list: u64,
    pub(super) cluster: ClusterTraffic,
}

/// What all members together send and get.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ClusterTraffic {
    pub(super) messages_per_slot: u64,
    pub(super) bytes_per_slot: u64,
    pub(super) bytes_per_list: u64,
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
        let [reading, answer, request] = [messages.reading(), messages.answer(), messages.request()];
        let (list, short_list) = messages.lists(list_slots);
        // A list is renewed in the last quarter of its life, but at least three slots before its end.
        let slots_per_list = list_slots - (list_slots / 4).max(3);
        let members = u64::from(params.members());
        let committee = params.terms().scheme.committee();
        let asked = answer.with_mqtt + request.with_mqtt;
        let (answering, per_slot) = match committee {
            Some(Committee { holders, .. }) => (holders, reading.with_mqtt),
            None => (members, reading.with_mqtt + asked),
        };
        // Holders of a drawn committee take the whole list, other members the short one alone.
        let whole = if committee.is_some_and(|committee| committee.drawn > 0) { answering } else { members };
        let per_list = short_list.with_mqtt + if whole == members { list.with_mqtt } else { 0 };
        Self {
            reading,
            answer,
            request,
            list,
            short_list,
            per_slot,
            per_slot_of_holder: committee.map(|_| reading.with_mqtt + asked),
            per_list,
            list_per_slot: real(per_list) / real(slots_per_list),
            slots_per_list,
            cluster: ClusterTraffic {
                messages_per_slot: members + 2 * answering,
                bytes_per_slot: members * reading.with_mqtt + answering * asked,
                bytes_per_list: members * short_list.with_mqtt + whole * list.with_mqtt,
            },
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
        let (list, slot, attempt) = ([1; 8], self.slot, 0);
        let message = match self.params.terms().scheme.committee() {
            None => MaskedReading { list, slot, attempt, ciphertext: 1 }.seal(&self.mac, &topic),
            Some(committee) => {
                let corrections = vec![0; 8 * usize::try_from(committee.spare()).unwrap_or(0)];
                let (ciphertext, corrections) = (Element::ZERO, corrections.as_slice());
                DealtReading { list, slot, attempt, ciphertext, corrections }.seal(&self.mac, &topic)
            }
        };
        MessageSize::new(&topic, &message)
    }

    fn answer(&self) -> MessageSize {
        let topic = MeterChannel::Reveal.topic(&self.cluster, &self.meter);
        let (list, slot, attempt, request) = ([1; 8], self.slot, 0, [1; 8]);
        let message = match self.params.terms().scheme.kind() {
            Kind::Pairwise => Reveal { list, slot, attempt, revealed: 1, request }.seal(&self.mac, &topic),
            Kind::Committee => Answer { list, slot, attempt, sum: Element::ZERO, request }.seal(&self.mac, &topic),
        };
        MessageSize::new(&topic, &message)
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
            holds: 10_000,
        };
        let topic = MeterChannel::Enrol.topic(&self.cluster, &self.meter);
        statement.seal((&self.key, &[0; CERTIFICATE_BYTES]), &topic)
    }

    /// Returns the sizes of a list and of its short form.
    fn lists(&self, list_slots: u64) -> (MessageSize, MessageSize) {
        let enrolment = self.enrolment();
        let statement = ListStatement {
            cluster: self.cluster.clone(),
            epoch: MOMENT,
            previous_epoch: MOMENT - 1,
            previous: ListHash([1; 32]),
            gateway: AgreementPublic([1; 32]),
            meter_authorities: vec![[1; 32]],
            gateway_authority: [2; 32],
            from_slot: self.slot,
            to_slot: self.slot.plus(list_slots - 1),
            terms: *self.params.terms(),
            enrolments: vec![&enrolment; self.params.members().into()],
            holders: Vec::new(), // Their hash has the same size in any case.
        };
        let topic = GatewayChannel::Membership.topic(&self.cluster);
        let list = statement.seal((&self.key, &[0; CERTIFICATE_BYTES]), &topic);
        let header = FullList::decode(&list).map(|list| list.header).unwrap_or_default();
        let drawn = self.params.terms().scheme.committee().filter(|committee| committee.drawn > 0);
        let holders = drawn.map_or(0, |committee| usize::try_from(committee.holders).unwrap_or(0));
        let digests = vec![0; if drawn.is_some() { 8 * usize::from(self.params.members()) } else { 0 }];
        let short = ShortList { header, holders: vec![&enrolment; holders], digests: &digests }.encode();
        let full_topic = GatewayChannel::FullMembership.topic(&self.cluster);
        (MessageSize::new(&full_topic, &list), MessageSize::new(&topic, &short))
    }
}

/// AES-128 blocks that one meter encrypts (`protocol.md` 3, 4a and 6).
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum AesBlocks {
    Pairwise {
        /// Masks of one slot's first attempt, computed ahead: one block serves two slots.
        masks: f64,
        /// Which pairs mask in the slot: only with fewer partners than members.
        selection: u64,
        /// What only the gateway can take off.
        stream: u64,
        per_slot: f64,
        /// At most, on top, to reveal the masks shared with silent members.
        reveal_at_most: u64,
        /// At most, on top, for each retry, whose masks are not computed ahead.
        retry_at_most: u64,
    },
    Committee {
        /// What is dealt to the holders, in each attempt.
        dealing: u64,
        stream: u64,
        per_slot: u64,
        /// At most, on top, for a holder's answer: what everybody dealt to it.
        answer_at_most: u64,
    },
}

impl AesBlocks {
    pub(super) fn count(params: &Params) -> Self {
        let others = u64::from(params.members() - 1);
        let stream = 1;
        if let Some(Committee { holders: dealing, .. }) = params.terms().scheme.committee() {
            return Self::Committee { dealing, stream, per_slot: dealing + stream, answer_at_most: others };
        }
        let selects = partners::threshold(params).is_some();
        let masks = real(others) / 2.0;
        let selection = if selects { others } else { 0 };
        let blocks_per_pair = 1 + u64::from(selects);
        Self::Pairwise {
            masks,
            selection,
            stream,
            per_slot: masks + real(selection + stream),
            reveal_at_most: u64::from(params.max_missing()) * blocks_per_pair,
            retry_at_most: others * blocks_per_pair + stream,
        }
    }
}
