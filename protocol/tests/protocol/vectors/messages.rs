//! `messages.json`: one of each message, from its fields to its bytes.

use dream_protocol::certificate::Authorities;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementPublic, IdentityKey, ListHash, MacKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::Terms;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::committee::field::{Element, MODULUS};
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, EvidenceStatement, FullList, ListHeader, ListStatement, MaskedReading,
    Message as _, RecoveryRequest, Retry, Reveal, Status, StatusCode,
};
use sha2::{Digest, Sha256};

use super::credentials::Credentials;
use super::json::{Json, hex, list, object, word};
use super::keys::bytes;
use crate::support::messages::Seal;
use crate::support::pki::Issued;
use crate::support::{START, TERMS, cluster_id};

const SLOT: Slot = Slot(START / 600);

pub(crate) fn messages() -> Json {
    let credentials = Credentials::new();
    let meter = &credentials.meters[0];
    let enrolments = [0, 1].map(|index| enrolment(&credentials.meters[index]));
    let entries = [0, 1].map(|index: usize| enrolments[index].2.clone());
    object! {
        "comment": "protocol.md 7: the messages. payload = deterministic CBOR of [kind, fields in this order]; \
                    envelope = COSE_Mac0 under mac_key, or COSE_Sign1 under identity_private, with x5chain if a certificate \
                    is given; external additional data = topic. Some fields' values are made up.",
        "messages": vec![
            reading(&meter.0, 0, SLOT),
            reading(&meter.0, 254, Slot((1 << 40) - 1)),
            request(&credentials.gateway),
            reveal(&meter.0),
            enrolments[0].1.clone(),
            list_message(&credentials.gateway, &credentials.authorities(), &entries),
            status(meter, None, Slot(0), StatusCode::NoList, Vec::new()),
            status(meter, Some(prefix(&bytes("list of north"))), SLOT, StatusCode::NotAsked, Vec::new()),
            status(
                meter,
                Some(prefix(&bytes("list of north"))),
                SLOT,
                StatusCode::Equivocation,
                two_requests(&credentials.gateway),
            ),
            retry(&credentials.gateway),
            dealt_reading(&meter.0, 0, &[]),
            dealt_reading(&meter.0, 254, &[0, 1, MODULUS - 1]),
            dealt_reading(&meter.0, 0, &[0x0123_4567_89ab_cdef; 31]),
            answer(&meter.0),
        ],
    }
}

fn reading(meter: &MeterId, attempt: u8, slot: Slot) -> Json {
    let list = prefix(&bytes("list of north"));
    let message = MaskedReading { list, slot, attempt, ciphertext: 0x0123_4567_89ab_cdef };
    let fields = object! {
        "list": hex(list),
        "slot": slot.0,
        "attempt": attempt,
        "ct": word(message.ciphertext),
    };
    let topic = MeterChannel::Reading.topic(&cluster_id(), meter);
    let key = bytes("mac");
    let envelope = message.seal(&MacKey::from_bytes(key), &topic);
    sealed("reading", 1, fields, &message.payload(), &topic, &Seal::Mac(key), &envelope)
}

fn request(gateway: &Issued) -> Json {
    let missing = MemberSet::from_members(12, [0, 7, 8, 11]);
    let message = RecoveryRequest {
        list: ListHash(bytes("list of north")),
        slot: SLOT,
        attempt: 0,
        missing: missing.as_bytes().to_vec(),
        deadline: START + 690,
    };
    let fields = object! {
        "list": hex(message.list.0),
        "slot": message.slot.0,
        "attempt": message.attempt,
        "missing": hex(&message.missing),
        "deadline": message.deadline,
    };
    let topic = GatewayChannel::Recovery.topic(&cluster_id());
    let envelope = message.seal(&gateway.identity(), &topic);
    let json = sealed("recovery request", 2, fields, &message.payload(), &topic, &Seal::Sign(gateway.seed), &envelope);
    more(json, [("bitmap", object! { "members": 12u64, "indices": list(missing.iter(), Json::from) })])
}

fn reveal(meter: &MeterId) -> Json {
    let message = Reveal {
        list: prefix(&bytes("list of north")),
        slot: SLOT,
        attempt: 1,
        revealed: u64::MAX - 1,
        request: prefix(&bytes("a request")),
    };
    let fields = object! {
        "list": hex(message.list),
        "slot": message.slot.0,
        "attempt": message.attempt,
        "revealed": word(message.revealed),
        "request": hex(message.request),
    };
    let topic = MeterChannel::Reveal.topic(&cluster_id(), meter);
    let key = bytes("mac");
    let envelope = message.seal(&MacKey::from_bytes(key), &topic);
    sealed("reveal", 3, fields, &message.payload(), &topic, &Seal::Mac(key), &envelope)
}

/// The statement, the vector and the envelope.
fn enrolment((meter, issued): &(MeterId, Issued)) -> (EnrolmentStatement, Json, Vec<u8>) {
    let message = EnrolmentStatement {
        cluster: cluster_id(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: AgreementPublic(bytes(&format!("a public key of {meter}"))),
        not_before: START,
        not_after: START + 35 * 86_400,
        seq: START,
        holds: 0,
    };
    let fields = object! {
        "cluster": message.cluster.as_str(),
        "certificate": hex(message.certificate),
        "agreement": hex(message.agreement.0),
        "not_before": message.not_before,
        "not_after": message.not_after,
        "seq": message.seq,
        "holds": message.holds,
    };
    let topic = MeterChannel::Enrol.topic(&cluster_id(), meter);
    let envelope = message.seal((&issued.identity(), &issued.der), &topic);
    let seal = Seal::Certified(issued.clone());
    let json = sealed("enrolment", 4, fields, &message.payload(), &topic, &seal, &envelope);
    (message, json, envelope)
}

fn list_message(gateway: &Issued, authorities: &Authorities, entries: &[Vec<u8>]) -> Json {
    let message = ListStatement {
        cluster: cluster_id(),
        epoch: START,
        previous_epoch: START - 86_400,
        previous: ListHash(bytes("the list before")),
        gateway: AgreementPublic(bytes("a public key of the gateway")),
        meter_authorities: authorities.meters().fingerprints(),
        gateway_authority: authorities.gateways().fingerprints()[0],
        from_slot: SLOT.plus(2),
        to_slot: SLOT.plus(145),
        terms: Terms { max_missing: 0, max_malicious: 1, lo: -500, epsilon_denominator: 3, ..TERMS },
        enrolments: entries.iter().map(Vec::as_slice).collect(),
        holders: Vec::new(),
    };
    let header = message.header(&gateway.der);
    let topic = GatewayChannel::Membership.topic(&cluster_id());
    let whole = message.seal((&gateway.identity(), &gateway.der), &topic);
    let envelope = FullList::decode(&whole).unwrap().header;
    let seal = Seal::Certified(gateway.clone());
    let json = sealed("list header", 10, header_fields(&header), &header.payload(), &topic, &seal, envelope);
    more(json, [("enrolments", list(entries, hex)), ("full_list", hex(&whole))])
}

/// The fields of a list's header, in its order.
pub(crate) fn header_fields(header: &ListHeader) -> Json {
    let terms = &header.terms;
    let Committee { drawn, needed, holders } =
        terms.scheme.committee().unwrap_or_else(|| Committee { drawn: terms.scheme.partners(), needed: 0, holders: 0 });
    object! {
        "cluster": header.cluster.as_str(),
        "epoch": header.epoch,
        "previous_epoch": header.previous_epoch,
        "previous": hex(header.previous.0),
        "certificate": hex(header.certificate),
        "gateway": hex(header.gateway.0),
        "meter_authorities": hex(header.meter_authorities.concat()),
        "gateway_authority": hex(header.gateway_authority),
        "from_slot": header.from_slot.0,
        "to_slot": header.to_slot.0,
        "slot_seconds": terms.slot_seconds,
        "reading_seconds": terms.reading_seconds,
        "reveal_seconds": terms.reveal_seconds,
        "scheme": terms.scheme.kind() as u64,
        "max_missing": terms.max_missing,
        "max_malicious": terms.max_malicious,
        "partners": drawn,
        "quorum": needed,
        "lo": terms.lo,
        "hi": terms.hi,
        "epsilon_numerator": terms.epsilon_numerator,
        "epsilon_denominator": terms.epsilon_denominator,
        "account": 2 * u64::from(terms.day_micro_rho > 0),
        "day_micro_rho": terms.day_micro_rho,
        "attempts": terms.attempts,
        "members": header.members,
        "holders": holders,
        "entries_hash": hex(header.hashes.entries),
        "digests_hash": hex(header.hashes.digests),
        "holders_hash": hex(header.hashes.holders),
    }
}

/// An object with more fields after its own.
fn more<const N: usize>(object: Json, last: [(&'static str, Json); N]) -> Json {
    match object {
        Json::Object(fields) => Json::Object(fields.into_iter().chain(last).collect()),
        other @ (Json::Null | Json::Number(_) | Json::Text(_) | Json::List(_)) => other,
    }
}

fn status(
    (meter, issued): &(MeterId, Issued),
    list: Option<[u8; 8]>,
    slot: Slot,
    code: StatusCode,
    evidence: Vec<u8>,
) -> Json {
    let (newest_epoch, least_malicious) = if code == StatusCode::NoList { (0, 0) } else { (START, 12) };
    let message = Status { cluster: cluster_id(), list, slot, code, newest_epoch, least_malicious, evidence };
    let fields = object! {
        "cluster": message.cluster.as_str(),
        "list": list.map_or_else(|| Json::from(""), hex),
        "slot": slot.0,
        "code": code as u64,
        "newest_epoch": newest_epoch,
        "least_malicious": least_malicious,
        "evidence": hex(&message.evidence),
    };
    let topic = MeterChannel::Status.topic(&cluster_id(), meter);
    let envelope = message.seal(&issued.identity(), &topic);
    sealed("status", 6, fields, &message.payload(), &topic, &Seal::Sign(issued.seed), &envelope)
}

/// Evidence that a gateway asked for two different things.
fn two_requests(gateway: &Issued) -> Vec<u8> {
    let topic = GatewayChannel::Recovery.topic(&cluster_id());
    let asked = |missing: u8| {
        let (list, missing) = (ListHash(bytes("list of north")), vec![missing]);
        RecoveryRequest { list, slot: SLOT, attempt: 0, missing, deadline: START + 690 }
            .seal(&gateway.identity(), &topic)
    };
    let (first, second) = (asked(0x80), asked(0x40));
    EvidenceStatement { cluster: cluster_id(), certificate: gateway.der.clone(), first, second }.encode()
}

fn retry(gateway: &Issued) -> Json {
    let message = Retry { list: ListHash(bytes("list of north")), slot: SLOT, attempt: 1, deadline: START + 750 };
    let fields = object! {
        "list": hex(message.list.0),
        "slot": message.slot.0,
        "attempt": message.attempt,
        "deadline": message.deadline,
    };
    let topic = GatewayChannel::Retry.topic(&cluster_id());
    let envelope = message.seal(&gateway.identity(), &topic);
    sealed("retry", 7, fields, &message.payload(), &topic, &Seal::Sign(gateway.seed), &envelope)
}

fn dealt_reading(meter: &MeterId, attempt: u8, corrections: &[u64]) -> Json {
    let list = prefix(&bytes("list of north"));
    let corrections: Vec<u8> = corrections.iter().flat_map(|value| value.to_be_bytes()).collect();
    let ciphertext = Element::from_canonical(MODULUS - 1).unwrap();
    let message = DealtReading { list, slot: SLOT, attempt, ciphertext, corrections: &corrections };
    let fields = object! {
        "list": hex(list),
        "slot": SLOT.0,
        "attempt": attempt,
        "ct": word(ciphertext.to_canonical()),
        "corrections": hex(&corrections),
    };
    let topic = MeterChannel::Reading.topic(&cluster_id(), meter);
    let key = bytes("mac");
    let envelope = message.seal(&MacKey::from_bytes(key), &topic);
    sealed("dealt reading", 8, fields, &message.payload(), &topic, &Seal::Mac(key), &envelope)
}

fn answer(meter: &MeterId) -> Json {
    let message = Answer {
        list: prefix(&bytes("list of north")),
        slot: SLOT,
        attempt: 1,
        sum: Element::from_canonical(0x0123_4567_89ab_cdef).unwrap(),
        request: prefix(&bytes("a request")),
    };
    let fields = object! {
        "list": hex(message.list),
        "slot": message.slot.0,
        "attempt": message.attempt,
        "sum": word(message.sum.to_canonical()),
        "request": hex(message.request),
    };
    let topic = MeterChannel::Reveal.topic(&cluster_id(), meter);
    let key = bytes("mac");
    let envelope = message.seal(&MacKey::from_bytes(key), &topic);
    sealed("answer", 9, fields, &message.payload(), &topic, &Seal::Mac(key), &envelope)
}

fn sealed(name: &str, kind: u64, fields: Json, payload: &[u8], topic: &str, seal: &Seal, envelope: &[u8]) -> Json {
    let mut json = vec![
        ("message", Json::from(name)),
        ("kind", kind.into()),
        ("fields", fields),
        ("payload", hex(payload)),
        ("payload_hash", hex(Sha256::digest(payload))),
        ("topic", topic.into()),
    ];
    let public = |seed| hex(IdentityKey::from_seed(seed).public().0);
    match seal {
        Seal::Mac(key) => json.push(("mac_key", hex(key))),
        Seal::Sign(seed) => json.extend([("identity_private", hex(seed)), ("identity_public", public(seed))]),
        Seal::Certified(issued) => json.extend([
            ("identity_private", hex(issued.seed)),
            ("identity_public", public(&issued.seed)),
            ("certificate", hex(&issued.der)),
        ]),
    }
    json.push(("envelope", hex(envelope)));
    Json::Object(json)
}

fn prefix(hash: &[u8; 32]) -> [u8; 8] {
    std::array::from_fn(|i| hash[i])
}
