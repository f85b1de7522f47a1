//! What the fuzz targets do with their bytes, one function each.
//!
//! A decoder must not panic, and what it accepts must have one encoding only: the bytes that were given. `scripts/fuzz` runs them;
//! the corpora come from the test vectors (`fuzz/README.md`).

mod machines;
mod sources;

use std::sync::LazyLock;

use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::enrolment::Enrolment;
use dream_protocol::evidence;
use dream_protocol::membership::MembershipList;
use dream_protocol::topic::Topic;
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, EvidenceStatement, FullList, ListHeader, Mac0, MaskedReading, Message as _,
    RecoveryMessage, Reveal, ShortList, Sign1, Status,
};
use dream_protocol::{cluster, meter};
use dream_testkit::example::cluster_id;
use dream_testkit::second_reader::assert_readers_agree;
use dream_testkit::simulation::insider;

use machines::machines;
use sources::{ciphered, dlms, line, modbus_registers, mqtt_message, p1, sml, tic};

/// Every target by its name.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("answer", answer),
    ("certificate", certificate),
    ("ciphered", ciphered),
    ("cluster_record", cluster_record),
    ("dealt_reading", dealt_reading),
    ("dlms", dlms),
    ("enrolment", enrolment),
    ("evidence", evidence),
    ("header", header),
    ("insider", insider::run),
    ("line", line),
    ("list", list),
    ("machines", machines),
    ("meter_record", meter_record),
    ("modbus_registers", modbus_registers),
    ("mqtt_message", mqtt_message),
    ("p1", p1),
    ("reading", reading),
    ("recovery", recovery),
    ("reveal", reveal),
    ("short_list", short_list),
    ("sml", sml),
    ("status", status),
    ("tic", tic),
    ("topic", topic),
];

/// The authorities of the vectors: one of gateways, and two of meters, of which their committee's lists name both.
static AUTHORITIES: LazyLock<Authorities> = LazyLock::new(|| {
    let file = include_str!("../../protocol/tests/vectors/committee.json");
    let file: serde_json::Value = serde_json::from_str(file).expect("JSON");
    let certificate = |value: &serde_json::Value| hex::decode(value.as_str().expect("hexadecimal")).expect("bytes");
    let meters: Vec<Vec<u8>> = [0, 1].map(|at| certificate(&file["meter_authorities"][at])).into();
    let meters = Anchors::new(meters.iter().map(Vec::as_slice)).expect("authorities");
    let gateways = Anchors::new([&*certificate(&file["gateway_authority"])]).expect("an authority");
    Authorities::new(meters, gateways).expect("two roles")
});

/// Decodes a message of the channel `reading`, or its payload alone.
fn reading(data: &[u8]) {
    let payload = Mac0::decode(data).map_or(data, |envelope| envelope.payload());
    if let Ok(reading) = MaskedReading::decode(payload) {
        assert_eq!(reading.payload(), payload);
    }
}

/// Decodes a message of the channel `reveal`, or its payload alone.
fn reveal(data: &[u8]) {
    let payload = Mac0::decode(data).map_or(data, |envelope| envelope.payload());
    if let Ok(reveal) = Reveal::decode(payload) {
        assert_eq!(reveal.payload(), payload);
    }
}

/// Decodes a reading of the committee scheme, or its payload alone.
fn dealt_reading(data: &[u8]) {
    let payload = Mac0::decode(data).map_or(data, |envelope| envelope.payload());
    if let Ok(reading) = DealtReading::decode(payload) {
        assert_eq!(reading.payload(), payload);
        assert_eq!(reading.corrections.len() % 8, 0);
    }
}

/// Decodes a holder's answer, or its payload alone.
fn answer(data: &[u8]) {
    let payload = Mac0::decode(data).map_or(data, |envelope| envelope.payload());
    if let Ok(answer) = Answer::decode(payload) {
        assert_eq!(answer.payload(), payload);
    }
}

/// Decodes a message of the channels `recovery` and `retry`, or its payload alone.
fn recovery(data: &[u8]) {
    let payload = Sign1::decode(data).map_or(data, |envelope| envelope.payload());
    match RecoveryMessage::decode(payload) {
        Ok(RecoveryMessage::Request(request)) => assert_eq!(request.payload(), payload),
        Ok(RecoveryMessage::Retry(retry)) => assert_eq!(retry.payload(), payload),
        Err(_) => {}
    }
}

/// Decodes a message of the channel `status`, or its payload alone.
fn status(data: &[u8]) {
    let payload = Sign1::decode(data).map_or(data, |envelope| envelope.payload());
    if let Ok(status) = Status::decode(payload) {
        assert_eq!(status.payload(), payload);
    }
}

/// Decodes and verifies a message of the channel `enrol`, or decodes its payload alone.
fn enrolment(data: &[u8]) {
    if let Ok(enrolment) = Enrolment::verify(data, &cluster_id(), &AUTHORITIES) {
        assert_eq!(enrolment.bytes(), data);
    }
    let payload = Sign1::decode_certified(data).map_or(data, |(envelope, _)| envelope.payload());
    if let Ok(statement) = EnrolmentStatement::decode(payload) {
        assert_eq!(statement.payload(), payload);
    }
}

/// Decodes and verifies a message of the channel `membership/full`.
fn list(data: &[u8]) {
    if let Ok(list) = MembershipList::verify(data, &cluster_id(), &AUTHORITIES) {
        assert_eq!(**list.bytes(), *data);
    }
    if let Ok(list) = FullList::decode(data) {
        assert_eq!(list.encode(), data);
    }
}

/// Decodes and verifies a message of the channel `membership`.
fn short_list(data: &[u8]) {
    if let Ok(Some(list)) = MembershipList::verify_short(data, &cluster_id(), &AUTHORITIES) {
        assert_eq!(**list.bytes(), *data);
    }
    if let Ok(list) = ShortList::decode(data) {
        assert_eq!(list.encode(), data);
    }
}

/// Decodes the header of a list, or its payload alone.
fn header(data: &[u8]) {
    let payload = Sign1::decode_certified(data).map_or(data, |(envelope, _)| envelope.payload());
    if let Ok(header) = ListHeader::decode(payload) {
        assert_eq!(header.payload(), payload);
    }
}

/// Decodes evidence against a gateway, and judges it.
fn evidence(data: &[u8]) {
    if let Ok(evidence) = EvidenceStatement::decode(data) {
        assert_eq!(evidence.encode(), data);
        drop(evidence::judge(&evidence, &AUTHORITIES));
    }
}

/// Verifies a certificate, takes it for an authority's, and has a second reader read it.
fn certificate(data: &[u8]) {
    if let Ok(certificate) = AUTHORITIES.verify_meter(data).or_else(|_| AUTHORITIES.verify_gateway(data)) {
        assert!(certificate.meter().is_ok() != certificate.gateway().is_ok(), "one role each");
    }
    drop(Anchors::new([data]));
    assert_readers_agree(data);
}

/// Decodes a meter's record.
fn meter_record(data: &[u8]) {
    // An account of an earlier version, of kind 1, is written anew.
    if let Ok(record) = meter::Record::decode(data) {
        assert!(data[1] == 1 || *record.encode() == *data);
    }
}

/// Decodes a record of a gateway's cluster.
fn cluster_record(data: &[u8]) {
    if let Ok(record) = cluster::Record::decode(data) {
        assert_eq!(*record.encode(), *data);
    }
}

/// Parses a topic.
fn topic(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match Topic::parse(text) {
        Ok(Topic::Meter { cluster, channel, meter }) => {
            assert_eq!(text, format!("dream/v1/{cluster}/{}/{meter}", channel.as_str()));
        }
        Ok(Topic::Gateway { cluster, channel }) => assert_eq!(text, format!("dream/v1/{cluster}/{}", channel.as_str())),
        Err(_) => {}
    }
}
