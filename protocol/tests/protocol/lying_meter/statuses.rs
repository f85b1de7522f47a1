//! Statuses that are forged, misplaced or make no sense.

use dream_protocol::cluster::{Notice, Rejection};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Slot;
use dream_protocol::wire::{DecodeError, Message as _, Status, StatusCode};

use super::Round;
use crate::support::cluster_id;
use crate::support::world::Packet;

const TOPIC: &str = "dream/v1/north/status/m-0000";

fn status() -> Status {
    Status {
        cluster: cluster_id(),
        list: None,
        slot: Slot(0),
        code: StatusCode::LedgerExhausted,
        newest_epoch: 0,
        least_malicious: 0,
        evidence: Vec::new(),
    }
}

fn packet(topic: &str, payload: Vec<u8>) -> Packet {
    Packet::new(topic.to_owned(), payload)
}

#[test]
fn a_genuine_status_is_told_to_the_operator() {
    let mut round = Round::new();
    let meter = round.world.pki.meter("m-0000").identity();
    round.world.gateway.notices.clear();
    assert_eq!(round.receive(&packet(TOPIC, status().seal(&meter, TOPIC))), None);
    let id = round.world.list.members()[0].id().clone();
    let notice = Notice::MeterStatus { meter: id, code: StatusCode::LedgerExhausted, epoch: None, slot: Slot(0) };
    assert_eq!(round.world.gateway.notices, [notice]);
}

#[test]
fn a_status_about_a_list_is_told_with_its_epoch_if_the_list_is_known() {
    let mut round = Round::new();
    let meter = round.world.pki.meter("m-0000").identity();
    let known = round.world.list.hash().prefix();
    let mut told = |list| {
        let status = Status { list: Some(list), code: StatusCode::ListRefused, ..status() };
        round.world.gateway.notices.clear();
        assert_eq!(round.receive(&packet(TOPIC, status.seal(&meter, TOPIC))), None);
        match round.world.gateway.notices.as_slice() {
            [Notice::MeterStatus { epoch, .. }] => *epoch,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([told([7; 8]), told(known)], [None, Some(round.world.list.epoch())]);
}

#[test]
fn forged_and_misplaced_statuses_are_refused() {
    let mut round = Round::new();
    let pki = &round.world.pki;
    let [own, other, gateway] =
        [pki.meter("m-0000"), pki.meter("m-0001"), pki.gateway("gw")].map(|issued| issued.identity());
    let elsewhere = Status { cluster: ClusterId::new("south").unwrap(), ..status() };
    round.world.gateway.notices.clear();
    for (what, bytes) in [
        ("another member's key", status().seal(&other, TOPIC)),
        ("the gateway's key", status().seal(&gateway, TOPIC)),
        ("another topic", status().seal(&own, "dream/v1/north/status/m-0001")),
        ("another cluster", elsewhere.seal(&own, TOPIC)),
    ] {
        assert_eq!(round.receive(&packet(TOPIC, bytes)), Some(Rejection::BadSignature), "{what}");
    }
    assert_eq!(round.world.gateway.notices, []);
}

#[test]
fn a_status_of_a_meter_that_never_enrolled_is_refused() {
    let mut round = Round::new();
    let topic = "dream/v1/north/status/stranger";
    let stranger = round.world.pki.meter("stranger").identity();
    let rejection = round.receive(&packet(topic, status().seal(&stranger, topic)));
    assert_eq!(rejection, Some(Rejection::Unknown));
}

#[test]
fn an_unknown_status_code_is_refused() {
    let mut round = Round::new();
    let own = round.world.pki.meter("m-0000").identity();
    let genuine = status();
    let payload = genuine.payload();
    for code in [0, 10, 23] {
        // An epoch, T and evidence follow the code, of a byte each; the decoder sees it before the signature does.
        let mut bytes = genuine.seal(&own, TOPIC);
        let at = bytes.windows(payload.len()).position(|part| part == payload).unwrap() + payload.len() - 4;
        bytes[at] = code;
        let rejection = round.receive(&packet(TOPIC, bytes));
        assert_eq!(rejection, Some(Rejection::Decode(DecodeError::OutOfRange { field: "code" })));
    }
}
