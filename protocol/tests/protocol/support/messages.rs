//! One genuine message of each kind, sealed by the crate.

use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, IdentityKey, ListHash, MacKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::Terms;
use dream_protocol::scheme::committee::field::{Element, MODULUS};
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, FullList, ListStatement, MaskedReading, Message as _, RecoveryRequest,
    Retry, Reveal, ShortList, Status, StatusCode,
};
use sha2::{Digest, Sha256};

use super::liar::named_authorities;
use super::pki::{Issued, Pki};
use super::{START, TERMS, cluster_id};

/// A message as it travels, and what it was made with.
pub(crate) struct Sealed {
    /// The name of its rule in `docs/protocol.cddl`.
    pub(crate) rule: &'static str,
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) envelope: Vec<u8>,
    pub(crate) seal: Seal,
}

/// The key of an envelope.
#[derive(Clone)]
pub(crate) enum Seal {
    /// Mac0 under A_i.
    Mac([u8; 32]),
    /// Sign1 under an Ed25519 key.
    Sign([u8; 32]),
    /// Sign1 that brings its certificate.
    Certified(Issued),
}

const MAC: [u8; 32] = [0xa1; 32];
const LIST: ListHash = ListHash([0x1b; 32]);
const SLOT: Slot = Slot(START / 600);

/// The nine messages.
pub(crate) fn all(pki: &Pki) -> Vec<Sealed> {
    vec![
        reading(),
        recovery_request(pki),
        reveal(),
        enrolment(pki, 0),
        membership_list(pki).0,
        status(pki),
        retry(pki),
        dealt_reading(),
        answer(),
    ]
}

pub(crate) fn reading() -> Sealed {
    let reading = MaskedReading { list: LIST.prefix(), slot: SLOT, attempt: 0, ciphertext: 0x0123_4567_89ab_cdef };
    let topic = MeterChannel::Reading.topic(&cluster_id(), &meter(0));
    let envelope = reading.seal(&MacKey::from_bytes(MAC), &topic);
    Sealed { rule: "reading", topic, payload: reading.payload(), envelope, seal: Seal::Mac(MAC) }
}

pub(crate) fn recovery_request(pki: &Pki) -> Sealed {
    let request = RecoveryRequest {
        list: LIST,
        slot: SLOT,
        attempt: 0,
        missing: MemberSet::from_members(10, [2, 9]).as_bytes().to_vec(),
        deadline: START + 690,
    };
    let topic = GatewayChannel::Recovery.topic(&cluster_id());
    let seed = pki.gateway("gw").seed;
    let envelope = request.seal(&IdentityKey::from_seed(&seed), &topic);
    Sealed { rule: "recovery-request", topic, payload: request.payload(), envelope, seal: Seal::Sign(seed) }
}

pub(crate) fn reveal() -> Sealed {
    let reveal = Reveal { list: LIST.prefix(), slot: SLOT, attempt: 1, revealed: u64::MAX - 1, request: [0x4e; 8] };
    let topic = MeterChannel::Reveal.topic(&cluster_id(), &meter(0));
    let envelope = reveal.seal(&MacKey::from_bytes(MAC), &topic);
    Sealed { rule: "reveal", topic, payload: reveal.payload(), envelope, seal: Seal::Mac(MAC) }
}

pub(crate) fn enrolment(pki: &Pki, index: usize) -> Sealed {
    let issued = pki.meter(meter(index).as_str());
    let statement = EnrolmentStatement {
        cluster: cluster_id(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: AgreementSecret::from_bytes([u8::try_from(index + 1).unwrap(); 32]).public(),
        not_before: START,
        not_after: START + 35 * 86_400,
        seq: START,
        holds: 0,
    };
    let topic = MeterChannel::Enrol.topic(&cluster_id(), &meter(index));
    let envelope = statement.seal((&issued.identity(), &issued.der), &topic);
    Sealed { rule: "enrolment", topic, payload: statement.payload(), envelope, seal: Seal::Certified(issued) }
}

/// A sound list of five members: its header, and the whole list.
pub(crate) fn membership_list(pki: &Pki) -> (Sealed, Vec<u8>) {
    let enrolments: Vec<_> = (0..5).map(|index| enrolment(pki, index).envelope).collect();
    let (meter_authorities, gateway_authority) = named_authorities(pki);
    let statement = ListStatement {
        cluster: cluster_id(),
        epoch: 1,
        previous_epoch: 0,
        previous: ListHash::NONE,
        gateway: AgreementSecret::from_bytes([0x99; 32]).public(),
        meter_authorities,
        gateway_authority,
        from_slot: SLOT.plus(2),
        to_slot: SLOT.plus(145),
        terms: Terms { max_missing: 1, max_malicious: 1, lo: -500, ..TERMS },
        enrolments: enrolments.iter().map(Vec::as_slice).collect(),
        holders: Vec::new(),
    };
    let topic = GatewayChannel::Membership.topic(&cluster_id());
    let issued = pki.gateway("gw");
    let list = statement.seal((&issued.identity(), &issued.der), &topic);
    let (payload, envelope) =
        (statement.header(&issued.der).payload(), FullList::decode(&list).unwrap().header.to_vec());
    (Sealed { rule: "list-header", topic, payload, envelope, seal: Seal::Certified(issued) }, list)
}

pub(crate) fn status(pki: &Pki) -> Sealed {
    let status = Status {
        cluster: cluster_id(),
        list: None,
        slot: Slot(0),
        code: StatusCode::NoList,
        newest_epoch: START,
        least_malicious: 1,
        evidence: Vec::new(),
    };
    let topic = MeterChannel::Status.topic(&cluster_id(), &meter(0));
    let seed = pki.meter(meter(0).as_str()).seed;
    let envelope = status.seal(&IdentityKey::from_seed(&seed), &topic);
    Sealed { rule: "status", topic, payload: status.payload(), envelope, seal: Seal::Sign(seed) }
}

pub(crate) fn retry(pki: &Pki) -> Sealed {
    let retry = Retry { list: LIST, slot: SLOT, attempt: 1, deadline: START + 750 };
    let topic = GatewayChannel::Retry.topic(&cluster_id());
    let seed = pki.gateway("gw").seed;
    let envelope = retry.seal(&IdentityKey::from_seed(&seed), &topic);
    Sealed { rule: "retry", topic, payload: retry.payload(), envelope, seal: Seal::Sign(seed) }
}

pub(crate) fn dealt_reading() -> Sealed {
    let corrections = [1, MODULUS - 1].map(u64::to_be_bytes).concat();
    let ciphertext = Element::from_canonical(0x0123_4567_89ab_cdef).unwrap();
    let reading = DealtReading { list: LIST.prefix(), slot: SLOT, attempt: 0, ciphertext, corrections: &corrections };
    let topic = MeterChannel::Reading.topic(&cluster_id(), &meter(0));
    let envelope = reading.seal(&MacKey::from_bytes(MAC), &topic);
    Sealed { rule: "dealt-reading", topic, payload: reading.payload(), envelope, seal: Seal::Mac(MAC) }
}

pub(crate) fn answer() -> Sealed {
    let sum = Element::from_canonical(MODULUS - 1).unwrap();
    let answer = Answer { list: LIST.prefix(), slot: SLOT, attempt: 1, sum, request: [0x4e; 8] };
    let topic = MeterChannel::Reveal.topic(&cluster_id(), &meter(0));
    let envelope = answer.seal(&MacKey::from_bytes(MAC), &topic);
    Sealed { rule: "answer", topic, payload: answer.payload(), envelope, seal: Seal::Mac(MAC) }
}

/// A short list of five members, two of whom are holders. Its header is one of a pairwise list: only its shape is right.
pub(crate) fn short_list(pki: &Pki) -> Vec<u8> {
    let (header, whole) = membership_list(pki);
    let entries = FullList::decode(&whole).unwrap().enrolments;
    let digests: Vec<u8> = entries.iter().flat_map(|entry| Sha256::digest(entry)[..8].to_vec()).collect();
    ShortList { header: &header.envelope, holders: vec![entries[1], entries[4]], digests: &digests }.encode()
}

fn meter(index: usize) -> MeterId {
    MeterId::new(&super::meter_name(index)).unwrap()
}
