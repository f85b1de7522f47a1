//! `membership.json`, `slot.json`, `retry.json`: a cluster of five from its certificates to its sums.

use dream_protocol::meter;
use dream_protocol::time::Timestamp;
use dream_protocol::wire::{EnrolmentStatement, FullList, Mac0, Message as _, RecoveryRequest, Retry, Reveal, Sign1};
use dream_testkit::node::Packet;
use sha2::{Digest, Sha256};

use super::json::{Json, hex, list, object, word};
use super::messages::header_fields;
use super::scene::{Node, Scene};
use crate::support::pki::Issued;

/// What the meters measure. The last one is above the range, the one before it is the missing one's in the first attempt.
pub(crate) const WATTS: [i64; 5] = [230, 0, 4100, 777, 12_000];

/// Whose reading does not arrive in the first attempt.
const MISSING: usize = 3;

/// Whose reveal does not arrive in the first attempt of `retry.json`.
const SILENT: usize = 1;

pub(crate) fn membership() -> Json {
    let scene = Scene::new();
    let (envelope, header) = FullList::header_of(scene.list.bytes()).unwrap();
    object! {
        "comment": "protocol.md 3, 7 and 8: an authority of meters, one of gateways, a gateway and five meters with all their private keys, their \
                    enrolments, and a membership list. Certificates are data: nobody needs to make the same ones. Policy of \
                    the meters: the defaults of protocol.md 2, but for its floors, N >= 3, T >= 1, n >= 2, and a rho of a day of at most 72.",
        "cluster": header.cluster.as_str(),
        "meter_authority": identity(&scene.credentials.meter_authority),
        "gateway_authority": identity(&scene.credentials.gateway_authority),
        "gateway": with(identity(&scene.credentials.gateway), [
            ("id", scene.list.gateway().as_str().into()),
            ("agreement_private", hex(scene.gateway_agreement)),
            ("agreement_public", hex(header.gateway.0)),
        ]),
        "meters": list(scene.meters.iter().zip(&scene.credentials.meters), |(node, (_, issued))| enrolled(node, issued)),
        "list": object! {
            "topic": "dream/v1/north/membership/full",
            "header_topic": "dream/v1/north/membership",
            "fields": header_fields(&header),
            "payload": hex(envelope.payload()),
            "envelope": hex(scene.list.header()),
            "full_list": hex(&**scene.list.bytes()),
            "list_hash": hex(scene.list.hash().0),
        },
    }
}

pub(crate) fn identity(issued: &Issued) -> Json {
    object! {
        "identity_private": hex(issued.seed),
        "identity_public": hex(issued.identity().public().0),
        "certificate": hex(&issued.der),
    }
}

/// An object with more fields before its own.
pub(crate) fn with<const N: usize>(object: Json, first: [(&'static str, Json); N]) -> Json {
    match object {
        Json::Object(fields) => Json::Object(first.into_iter().chain(fields).collect()),
        other @ (Json::Null | Json::Number(_) | Json::Text(_) | Json::List(_)) => other,
    }
}

pub(crate) fn enrolled(node: &Node, issued: &Issued) -> Json {
    let (envelope, _) = Sign1::decode_certified(&node.enrolment).unwrap();
    let statement = EnrolmentStatement::decode(envelope.payload()).unwrap();
    let enrolment = object! {
        "topic": format!("dream/v1/north/enrol/{}", node.id),
        "certificate_hash": hex(statement.certificate),
        "not_before": statement.not_before,
        "not_after": statement.not_after,
        "seq": statement.seq,
        "holds": statement.holds,
        "payload": hex(envelope.payload()),
        "envelope": hex(&*node.enrolment),
    };
    with(
        identity(issued),
        [
            ("id", node.id.as_str().into()),
            ("agreement_private", hex(node.agreement)),
            ("agreement_public", hex(statement.agreement.0)),
            ("self_key", hex(node.self_key)),
            ("enrolment", enrolment),
        ],
    )
}

pub(crate) fn slot() -> Json {
    let mut scene = Scene::new();
    let end = scene.slot_end();
    let readings = scene.measure(&WATTS);
    for (index, packet) in readings.iter().enumerate().filter(|(index, _)| *index != MISSING) {
        assert!(scene.gateway_receives(packet, end.plus_secs(31)).is_empty(), "{index}: the window is open");
    }
    let request = one(scene.gateway_waits(end.plus_secs(60)));
    let sent = attempts(&scene);
    let reveals = answers(&mut scene, &request, &[MISSING], end.plus_secs(61));
    for (_, packet) in &reveals {
        assert!(scene.gateway_receives(packet, end.plus_secs(62)).is_empty());
    }
    object! {
        "comment": "protocol.md 4: a slot of the cluster in membership.json whose fourth member's reading does not arrive, \
                    from the measurements to the sum. Numbers modulo 2^64 are hex; the noise z and r are the meters' own \
                    random choices.",
        "slot": scene.slot().0,
        "attempt": 0u64,
        "members": list(0..scene.meters.len(), |index| {
            member(&scene, index, &sent, &readings, if index == MISSING { "no" } else { "yes" })
        }),
        "request": request_fields(&request),
        "reveals": list(&reveals, |(index, packet)| reveal(&scene, *index, packet)),
        "result": result(&scene),
    }
}

pub(crate) fn retry() -> Json {
    let mut scene = Scene::new();
    let end = scene.slot_end();
    let readings = scene.measure(&WATTS);
    for (index, packet) in readings.iter().enumerate() {
        if index != MISSING {
            scene.gateway_receives(packet, end.plus_secs(31));
        }
    }
    let request = one(scene.gateway_waits(end.plus_secs(60)));
    for (index, packet) in answers(&mut scene, &request, &[MISSING], end.plus_secs(61)) {
        if index != SILENT {
            scene.gateway_receives(&packet, end.plus_secs(62));
        }
    }
    let retry = scene.gateway_waits(end.plus_secs(90)).pop().expect("a retry is due");
    let open = end.plus_secs(91);
    let again: Vec<Packet> = scene
        .meters
        .iter_mut()
        .map(|node| {
            assert!(node.receive(&retry, open).is_empty(), "not before its moment");
            one(node.handle(meter::Input::Tick, open.plus_secs(30)))
        })
        .collect();
    let sent = attempts(&scene);
    scene.gateway_waits(open.plus_secs(31));
    let published: Vec<Packet> =
        again.iter().flat_map(|packet| scene.gateway_receives(packet, open.plus_secs(31))).collect();
    let request = one(published);
    let reveals = answers(&mut scene, &request, &[SILENT], open.plus_secs(32));
    for (_, packet) in &reveals {
        scene.gateway_receives(packet, open.plus_secs(33));
    }
    let payload = Sign1::decode(&retry.payload).unwrap().payload().to_vec();
    object! {
        "comment": "protocol.md 4: the slot of slot.json again, whose second member's reveal is lost this time. The gateway \
                    opens attempt 1; the member that was missing before joins, and the one that did not reveal is left out.",
        "slot": scene.slot().0,
        "attempt": 1u64,
        "retry": object! {
            "topic": retry.topic.as_str(),
            "deadline": Retry::decode(&payload).unwrap().deadline,
            "payload": hex(&payload),
            "envelope": hex(&*retry.payload),
        },
        "members": list(0..scene.meters.len(), |index| {
            member(&scene, index, &sent, &again, if index == SILENT { "left out" } else { "yes" })
        }),
        "request": request_fields(&request),
        "reveals": list(&reveals, |(index, packet)| reveal(&scene, *index, packet)),
        "result": result(&scene),
    }
}

fn attempts(scene: &Scene) -> Vec<super::scene::Attempt> {
    (0..scene.meters.len()).map(|index| scene.attempt(index)).collect()
}

/// Everyone who is not missing answers a request.
fn answers(scene: &mut Scene, request: &Packet, missing: &[usize], at: Timestamp) -> Vec<(usize, Packet)> {
    let asked = scene.meters.iter_mut().enumerate().filter(|(index, _)| !missing.contains(index));
    asked.map(|(index, node)| (index, one(node.receive(request, at)))).collect()
}

fn member(scene: &Scene, index: usize, sent: &[super::scene::Attempt], readings: &[Packet], arrived: &str) -> Json {
    let attempt = &sent[index];
    assert_eq!(attempt.envelope, readings[index].payload, "what is recorded is what is sent");
    let (stream, mac) = scene.gateway_keys(index);
    object! {
        "id": scene.meters[index].id.as_str(),
        "stream_key": hex(stream.expose()),
        "mac_key": hex(mac.expose()),
        "measured": WATTS[index],
        "x": attempt.reading,
        "z": attempt.noise,
        "y": attempt.noisy,
        "r": hex(attempt.fresh),
        "stream": word(attempt.stream),
        "mask_sum": word(attempt.masks),
        "secret": word(attempt.secret),
        "ct": word(attempt.ciphertext),
        "topic": readings[index].topic.as_str(),
        "payload": hex(&attempt.payload),
        "envelope": hex(&*attempt.envelope),
        "arrived": arrived,
    }
}

pub(crate) fn request_fields(packet: &Packet) -> Json {
    let payload = Sign1::decode(&packet.payload).unwrap().payload();
    let request = RecoveryRequest::decode(payload).unwrap();
    object! {
        "topic": packet.topic.as_str(),
        "missing": hex(&request.missing),
        "deadline": request.deadline,
        "payload": hex(payload),
        "payload_hash": hex(Sha256::digest(payload)),
        "envelope": hex(&*packet.payload),
    }
}

fn reveal(scene: &Scene, index: usize, packet: &Packet) -> Json {
    let payload = Mac0::decode(&packet.payload).unwrap().payload();
    object! {
        "id": scene.meters[index].id.as_str(),
        "revealed": word(Reveal::decode(payload).unwrap().revealed),
        "topic": packet.topic.as_str(),
        "payload": hex(payload),
        "envelope": hex(&*packet.payload),
    }
}

fn result(scene: &Scene) -> Json {
    let outcome = scene.gateway.outcomes.first().expect("the slot is closed");
    let watts = outcome.result.expect("the slot decodes").watts();
    object! { "responders": outcome.responders, "watts": watts }
}

pub(crate) fn one(mut packets: Vec<Packet>) -> Packet {
    assert_eq!(packets.len(), 1, "{packets:?}");
    packets.remove(0)
}
