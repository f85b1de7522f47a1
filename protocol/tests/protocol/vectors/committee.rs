//! `committee.json` and `committee_slot.json`: a cluster of fourteen in the committee scheme, from its certificates to its sums.

use dream_protocol::cluster::Notice;
use dream_protocol::scheme::committee::decoding;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{Answer, FullList, Mac0, Message as _};
use dream_testkit::node::Packet;

use super::cluster::{enrolled, identity, one, request_fields, with};
use super::homes::{HOMES, Homes};
use super::json::{Json, hex, list, object, word};
use super::messages::header_fields;
use crate::support::cluster_id;

/// What the homes measure; the last is above the range.
pub(crate) const WATTS: [i64; HOMES] = [230, 0, 4100, 777, 1, 12, 350, 2999, 9000, 64, 480, 5, 1800, 12_000];

pub(crate) fn committee() -> Json {
    let (every, drawn) = (Homes::every(), Homes::drawn());
    let gateway = &every.credentials.gateway;
    object! {
        "comment": "protocol.md 4a, 7 and 8: two authorities of meters, the second of which signs with ECDSA, one of gateways, a gateway, and fourteen meters \
                    with all their private keys and enrolments; home-03 is willing to be a holder among 13 only, and home-08 is \
                    certified by the second authority, and has no draw value. Two lists of them: in `every` all eligible members are holders (k = 0), in \
                    `drawn` they are drawn. Policy of the meters: as in membership.json.",
        "cluster": every.list.cluster().as_str(),
        "meter_authorities": list(&every.credentials.meter_authorities, hex),
        "gateway_authority": hex(&every.credentials.gateway_authority),
        "gateway": with(identity(gateway), [
            ("id", every.list.gateway().as_str().into()),
            ("agreement_private", hex(every.gateway_agreement)),
            ("agreement_public", hex(every.list.gateway_agreement().0)),
        ]),
        "meters": list(0..HOMES, |index| enrolled(&every.meters[index], &every.credentials.meters[index].1)),
        "every": membership(&every),
        "drawn": membership(&drawn),
    }
}

fn membership(homes: &Homes) -> Json {
    let (envelope, header) = FullList::header_of(homes.list.bytes()).unwrap();
    object! {
        "topic": GatewayChannel::FullMembership.topic(&cluster_id()),
        "header_topic": GatewayChannel::Membership.topic(&cluster_id()),
        "fields": header_fields(&header),
        "payload": hex(envelope.payload()),
        "list_hash": hex(homes.list.hash().0),
        "envelope": hex(homes.list.header()),
        "holder_ids": list(homes.list.holders(), |holder| holder.id().as_str().into()),
        "full_list": hex(&**homes.list.bytes()),
        "short_list": hex(homes.list.shortened()),
    }
}

/// What happens in a slot, to members by their places.
struct Slot {
    name: &'static str,
    list: &'static str,
    /// Whose reading does not arrive.
    missing: usize,
    /// Which holder's answer does not arrive.
    vanished: Option<usize>,
    /// Which holder's answer is wrong.
    lying: Option<usize>,
}

pub(crate) fn slots() -> Json {
    let (every, drawn) = (Homes::every(), Homes::drawn());
    let (first, second) = (drawn.holders()[0], drawn.holders()[1]);
    let slots = [
        (
            every,
            Slot {
                name: "a member's reading is lost, a holder vanishes, and another one lies",
                list: "every",
                missing: 6,
                vanished: Some(1),
                lying: Some(10),
            },
        ),
        (
            drawn,
            Slot {
                name: "holders are drawn; one whose reading is lost answers, and another one vanishes",
                list: "drawn",
                missing: first,
                vanished: Some(second),
                lying: None,
            },
        ),
        (
            Homes::drawn(),
            Slot {
                name: "holders are drawn; one of them lies",
                list: "drawn",
                missing: 3,
                vanished: None,
                lying: Some(second),
            },
        ),
    ];
    object! {
        "comment": "protocol.md 4a: slots of the cluster in committee.json, from the measurements to the sum. Numbers modulo p \
                    are hex; the noise z is the meters' own random choice. dealt is P(i,l) for each holder in order; sum is what \
                    a holder has to answer, sent what it sends; points are W at the points of the answers that arrive.",
        "slots": list(slots, |(homes, slot)| play(homes, &slot)),
    }
}

fn play(mut homes: Homes, slot: &Slot) -> Json {
    let end = homes.slot_end();
    let readings = homes.measure(&WATTS);
    for (_, packet) in readings.iter().enumerate().filter(|(index, _)| *index != slot.missing) {
        assert!(homes.gateway_receives(packet, end.plus_secs(31)).is_empty(), "the window is open");
    }
    let request = one(homes.gateway.tick_until(end.plus_secs(60)));
    let members: Vec<Json> = (0..HOMES).map(|index| member(&homes, index, &readings[index], slot)).collect();
    let answers = answers(&mut homes, &request, slot, end.plus_secs(61));
    for answer in answers.iter().filter(|answer| Some(answer.index) != slot.vanished) {
        homes.gateway_receives(&answer.packet, end.plus_secs(62));
    }
    homes.gateway.tick_until(end.plus_secs(90));
    let outcome = homes.gateway.outcomes.first().expect("the slot is closed");
    let reports = homes.gateway.notices.iter();
    let mut reports =
        reports.filter_map(|notice| if let Notice::Holders(report) = notice { Some(report) } else { None });
    let report = reports.next_back().expect("the holders are reported");
    let id = |index: usize| homes.meters[index].id.clone();
    assert_eq!(report.wrong, Vec::from_iter(slot.lying.map(id)));
    assert_eq!(report.vanished, Vec::from_iter(slot.vanished.map(id)));
    let points = points(&homes, &answers, slot);
    let decoded = decoding::decode(usize::from(report.needed), &points).unwrap();
    object! {
        "name": slot.name,
        "list": slot.list,
        "slot": homes.slot().0,
        "attempt": 0u64,
        "members": members,
        "request": request_fields(&request),
        "answers": list(&answers, |answer| answered(&homes, answer, slot)),
        "points": list(&points, |(point, value)| object! { "point": u64::from(*point), "value": word(value.to_canonical()) }),
        "secret": word(decoded.secret.to_canonical()),
        "agreeing": decoded.agreeing as u64,
        "wrong": list(&report.wrong, |id| id.as_str().into()),
        "result": object! {
            "responders": outcome.responders,
            "watts": outcome.result.expect("the slot decodes").watts(),
        },
    }
}

/// A holder's answer, and what it should have been.
struct Given {
    index: usize,
    right: Answer,
    sent: Answer,
    packet: Packet,
}

/// Every holder answers the request, one of them with a number that is off by one.
fn answers(homes: &mut Homes, request: &Packet, slot: &Slot, at: Timestamp) -> Vec<Given> {
    let holders = homes.holders();
    let answer = |index: usize| {
        let packet = one(homes.meters[index].receive(request, at));
        let right = Answer::decode(Mac0::decode(&packet.payload).unwrap().payload()).unwrap();
        let lie = if slot.lying == Some(index) { Element::ONE } else { Element::ZERO };
        let sent = Answer { sum: right.sum + lie, ..right };
        let (_, mac) = homes.gateway_keys(index);
        let packet = Packet::new(packet.topic.clone(), sent.seal(&mac, &packet.topic));
        Given { index, right, sent, packet }
    };
    holders.into_iter().map(answer).collect()
}

/// W at the points of the answers that arrive.
fn points(homes: &Homes, answers: &[Given], slot: &Slot) -> Vec<(u16, Element)> {
    let needed = usize::try_from(homes.committee().needed).unwrap();
    let dealt: Vec<_> = (0..HOMES).filter(|index| *index != slot.missing).map(|index| homes.attempt(index)).collect();
    let arrived = answers.iter().enumerate().filter(|(_, answer)| Some(answer.index) != slot.vanished);
    let point = |(place, answer): (usize, &Given)| {
        let correction = |place: usize| {
            let values = dealt.iter().map(|of| of.corrections.as_chunks::<8>().0[place]);
            values.map(|value| Element::from_be_bytes(value).unwrap()).sum::<Element>()
        };
        let corrected = place.checked_sub(needed).map_or(Element::ZERO, correction);
        (u16::try_from(place + 1).unwrap(), answer.sent.sum + corrected)
    };
    arrived.map(point).collect()
}

fn member(homes: &Homes, index: usize, packet: &Packet, slot: &Slot) -> Json {
    let dealt = homes.attempt(index);
    assert_eq!(dealt.envelope, packet.payload, "what is recorded is what is sent");
    let (stream, mac) = homes.gateway_keys(index);
    object! {
        "id": homes.meters[index].id.as_str(),
        "stream_key": hex(stream.expose()),
        "mac_key": hex(mac.expose()),
        "measured": WATTS[index],
        "x": dealt.reading,
        "z": dealt.noisy - dealt.reading,
        "y": dealt.noisy,
        "stream": word(dealt.stream.to_canonical()),
        "dealt": list(&dealt.dealt, |value| word(value.to_canonical())),
        "secret": word(dealt.secret.to_canonical()),
        "ct": word(dealt.ciphertext.to_canonical()),
        "corrections": hex(&dealt.corrections),
        "topic": packet.topic.as_str(),
        "payload": hex(&dealt.payload),
        "envelope": hex(&*dealt.envelope),
        "arrived": if index == slot.missing { "no" } else { "yes" },
    }
}

fn answered(homes: &Homes, answer: &Given, slot: &Slot) -> Json {
    object! {
        "id": homes.meters[answer.index].id.as_str(),
        "sum": word(answer.right.sum.to_canonical()),
        "sent": word(answer.sent.sum.to_canonical()),
        "topic": answer.packet.topic.as_str(),
        "payload": hex(answer.sent.payload()),
        "envelope": hex(&*answer.packet.payload),
        "arrived": if Some(answer.index) == slot.vanished { "no" } else { "yes" },
    }
}
