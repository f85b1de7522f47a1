//! Every bit of the members' messages changed on the way: refused, and the slot decodes as if nothing had come.

use dream_protocol::cluster::Rejection;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::wire::{Message as _, Status, StatusCode};

use super::Round;
use crate::support::cluster_id;
use crate::support::world::{MeterNode, Packet};
use crate::support::{at, meter_config, rng};

/// Hands every version of a message with one bit changed to the gateway, which must refuse each and write nothing.
///
/// Each comes at an earlier `wall` than the one before: a clock that goes back begins a new minute, in which a meter's signatures
/// are checked again.
fn assert_all_refused(round: &mut Round, packet: &Packet, wall: &mut u64) {
    let before = round.world.gateway.store.clone();
    let candidates = round.world.gateway.cluster.candidates();
    round.world.gateway.notices.clear();
    for byte in 0..packet.payload.len() {
        for bit in 0..8 {
            let mut payload = packet.payload.to_vec();
            payload[byte] ^= 1 << bit;
            let changed = Packet::new(packet.topic.clone(), payload);
            *wall -= 1;
            round.world.gateway.receive(&changed, Timestamp::from_millis(*wall));
            let rejection = round.world.gateway.rejections.pop();
            let rejection = rejection.unwrap_or_else(|| panic!("bit {bit} of byte {byte} was believed"));
            assert!(
                !matches!(
                    rejection,
                    Rejection::Duplicate | Rejection::Contradiction | Rejection::KeyInUse | Rejection::TooOften
                ),
                "bit {bit} of byte {byte}: {rejection:?} comes after authentication"
            );
        }
    }
    assert_eq!(round.world.gateway.store, before);
    assert_eq!(round.world.gateway.cluster.candidates(), candidates);
    assert_eq!(round.world.gateway.notices, []);
}

#[test]
fn a_reading_or_reveal_with_any_bit_changed_is_refused() {
    let mut round = Round::new();
    let mut wall = round.end.plus_secs(round.now).as_millis();
    round.report(1..10);
    let reading = round.reading(0);
    assert_all_refused(&mut round, &reading, &mut wall);
    assert_eq!(round.receive(&reading), None);
    assert_all_refused(&mut round, &reading, &mut wall);
    let request = round.freeze();
    let reveal = round.reveal(0, &request);
    assert_all_refused(&mut round, &reveal, &mut wall);
    assert_eq!(round.receive(&reveal), None);
    assert_all_refused(&mut round, &reveal, &mut wall);
    round.answer(&request, 1..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
}

#[test]
fn an_enrolment_with_any_bit_changed_is_refused() {
    let mut round = Round::new();
    let mut wall = round.end.plus_secs(round.now).as_millis();
    let mut newcomer = MeterNode::new(meter_config(&round.world.pki, "newcomer"), Simulation::default(), rng(5));
    let enrolment = newcomer.handle(dream_protocol::meter::Input::Connected, at(round.end.as_secs())).remove(0);
    assert_all_refused(&mut round, &enrolment, &mut wall);
    assert_eq!(round.receive(&enrolment), None);
    assert_all_refused(&mut round, &enrolment, &mut wall);
}

#[test]
fn a_status_with_any_bit_changed_is_refused() {
    let mut round = Round::new();
    let mut wall = round.end.plus_secs(round.now).as_millis();
    let topic = "dream/v1/north/status/m-0000".to_owned();
    let status = Status {
        cluster: cluster_id(),
        list: Some(round.world.list.hash().prefix()),
        slot: Slot(5),
        code: StatusCode::LedgerExhausted,
        newest_epoch: 7,
        least_malicious: 0,
        evidence: Vec::new(),
    };
    let payload = status.seal(&round.world.pki.meter("m-0000").identity(), &topic);
    assert_all_refused(&mut round, &Packet::new(topic, payload), &mut wall);
}
