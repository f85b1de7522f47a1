//! Every byte of the gateway's messages changed on the way: refused, and nothing comes of it.

use dream_protocol::meter::{Input, Refusal};
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;
use rand_chacha::rand_core::Rng;

use crate::support::liar::{FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::world::Packet;
use crate::support::{at, rng};

/// Delivers a changed message: nothing but a status may follow, and no record may change.
fn assert_ignored(meters: &mut Liar, packet: &Packet, at: usize, bit: u8, wall: Timestamp) {
    let mut payload = packet.payload.to_vec();
    payload[at] ^= 1 << bit;
    let changed = Packet::new(packet.topic.clone(), payload);
    let before = meters.meters[0].store.clone();
    let (sent, refusals) = meters.tell(0, &changed, wall);
    let place = format!("bit {bit} of byte {at}");
    assert_eq!(refusals.len(), 1, "{place}: {refusals:?}");
    assert!(!matches!(refusals[0], Refusal::SecondRequest | Refusal::TwoListsOfAnEpoch(_)), "{place}: believed");
    meters.codes(0, &sent);
    assert_eq!(meters.meters[0].store, before, "{place}");
}

fn every_bit(packet: &Packet) -> impl Iterator<Item = (usize, u8)> + use<> {
    (0..packet.payload.len()).flat_map(|at| (0..8).map(move |bit| (at, bit)))
}

#[test]
fn a_request_with_any_bit_changed_is_refused_before_and_after_the_answer() {
    let mut meters = Liar::new(5, 1, 1);
    meters.measure(0, FIRST, 100);
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request(FIRST, 0, &[3]);
    for (at, bit) in every_bit(&request) {
        assert_ignored(&mut meters, &request, at, bit, asked_at);
    }
    let (sent, refusals) = meters.tell(0, &request, asked_at);
    assert_eq!((on(MeterChannel::Reveal, &sent).len(), refusals), (1, vec![]));
    for (at, bit) in every_bit(&request) {
        assert_ignored(&mut meters, &request, at, bit, asked_at);
    }
}

#[test]
fn a_retry_with_any_bit_changed_is_refused() {
    let mut meters = Liar::new(5, 1, 1);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    let retry = meters.retry(FIRST, 1, wall);
    for (at, bit) in every_bit(&retry) {
        assert_ignored(&mut meters, &retry, at, bit, wall);
    }
    assert_eq!(meters.meters[0].meter.spent(wall), 1_000_000);
    assert_eq!(meters.tell(0, &retry, wall), (vec![], vec![]));
}

#[test]
fn a_list_with_a_bit_of_any_byte_changed_is_refused() {
    let mut meters = Liar::enrolled(5, |_| {}, NO_NOISE);
    let list = meters.draft().sign(&meters.identity);
    let mut random = rng(3);
    for at_byte in 0..list.payload.len() {
        let bit = u8::try_from(random.next_u32() % 8).unwrap();
        assert_ignored(&mut meters, &list, at_byte, bit, at(LISTED));
    }
    assert_eq!(meters.tell(0, &list, at(LISTED)), (vec![], vec![]));
}

#[test]
fn the_gateways_certificate_in_a_list_with_any_bit_changed_is_refused() {
    // It travels in the unprotected header: only the authority's signature protects it.
    let mut meters = Liar::enrolled(5, |_| {}, NO_NOISE);
    let list = meters.draft().sign(&meters.identity);
    let der = meters.identity.der.clone();
    let starts = list.payload.windows(der.len()).position(|part| part == der).unwrap();
    for at_byte in starts..starts + der.len() {
        for bit in 0..8 {
            assert_ignored(&mut meters, &list, at_byte, bit, at(LISTED));
        }
    }
}

#[test]
fn truncated_extended_and_empty_messages_are_refused() {
    let mut meters = Liar::new(5, 1, 1);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(61);
    let messages =
        [meters.request(FIRST, 0, &[]), meters.retry(FIRST, 1, wall), meters.next_draft().sign(&meters.identity)];
    for packet in messages {
        let mut longer = packet.payload.to_vec();
        longer.push(0);
        let cut = |len: usize| packet.payload[..len].to_vec();
        for payload in [longer, cut(packet.payload.len() - 1), cut(1), cut(0)] {
            let before = meters.meters[0].store.clone();
            let changed = Packet::new(packet.topic.clone(), payload);
            let erased = changed.payload.is_empty() && changed.topic.contains("/membership");
            let (_, refusals) = meters.tell(0, &changed, wall);
            let refused = matches!(refusals[..], [Refusal::Decode(_) | Refusal::List(_)]);
            assert!(refused || (erased && refusals.is_empty()), "an erased list says nothing: {refusals:?}");
            assert_eq!(meters.meters[0].store, before);
        }
    }
    assert_eq!(meters.meters[0].handle(Input::Tick, wall), []);
}
