//! Readings that are replayed, contradictory, misplaced, random or shifted.

use dream_protocol::aggregate::Failure;
use dream_protocol::cluster::{Input, Rejection};
use dream_protocol::topic::TopicError;
use dream_protocol::wire::MaskedReading;

use super::Round;
use crate::support::insider::Insider;
use crate::support::liar::reading_in;
use crate::support::world::Packet;

#[test]
fn a_replayed_reading_is_a_duplicate() {
    let mut round = Round::new();
    round.report(0..9);
    let reading = round.reading(9);
    assert_eq!(round.receive(&reading), None);
    assert_eq!(round.receive(&reading), Some(Rejection::Duplicate));
    let request = round.freeze();
    assert_eq!(round.receive(&reading), Some(Rejection::Duplicate), "also while reveals arrive");
    round.answer(&request, 0..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
    assert_eq!(round.receive(&reading), Some(Rejection::SlotClosed));
}

#[test]
fn a_reading_replayed_on_another_topic_is_refused() {
    let mut round = Round::new();
    let reading = round.reading(0);
    for (topic, rejection) in [
        ("dream/v1/north/reading/m-0001", Rejection::BadMac),
        ("dream/v1/north/reading/stranger", Rejection::NotAMember),
        ("dream/v1/south/reading/m-0000", TopicError::UnknownChannel.into()),
        ("dream/v2/north/reading/m-0000", TopicError::UnknownVersion.into()),
        ("dream/v1/north/reading/m-0000/x", TopicError::UnknownChannel.into()),
        ("dream/v1/north/recovery", TopicError::UnknownChannel.into()),
    ] {
        let moved = Packet::new(topic.to_owned(), reading.payload.clone());
        assert_eq!(round.receive(&moved), Some(rejection), "{topic}");
    }
    for channel in ["reveal", "enrol", "status"] {
        let moved = Packet::new(format!("dream/v1/north/{channel}/m-0000"), reading.payload.clone());
        let rejection = round.receive(&moved).unwrap();
        assert!(matches!(rejection, Rejection::Decode(_) | Rejection::Enrolment(_)), "{channel}: {rejection:?}");
    }
    assert_eq!(round.receive(&reading), None, "where it belongs it is taken");
}

#[test]
fn a_reading_replayed_in_another_slot_is_refused() {
    let mut round = Round::new();
    round.report(1..10);
    let reading = round.reading(0);
    assert_eq!(round.receive(&reading), None);
    let request = round.freeze();
    round.answer(&request, 0..10);
    // In the next slot the payload names the old one; naming the new one needs the key.
    round.world.gateway.tick_until(round.end.plus_secs(600));
    round.now = 601;
    assert_eq!(round.receive(&reading), Some(Rejection::SlotClosed));
    let mut forged = reading.payload.to_vec();
    let at = forged.windows(3).position(|part| part == &round.slot.0.to_be_bytes()[5..]).unwrap();
    let next = round.slot.plus(1).0.to_be_bytes();
    forged[at..at + 3].copy_from_slice(&next[5..]);
    let forged = Packet::new(reading.topic.clone(), forged);
    assert_eq!(reading_in(&forged).slot, round.slot.plus(1));
    assert_eq!(round.receive(&forged), Some(Rejection::BadMac));
}

#[test]
fn a_reading_before_its_slot_is_open_or_of_no_slot_is_refused() {
    let mut round = Round::new();
    let liar = Insider::new(&round.world, 0);
    for slot in [round.slot.plus(1), round.slot.plus(1_000_000)] {
        assert_eq!(round.receive(&liar.reading(slot, 0, 1)), Some(Rejection::SlotNotOpen));
    }
}

#[test]
fn a_second_different_reading_is_a_contradiction_and_the_first_counts() {
    let mut round = Round::new();
    round.report(1..10);
    let reading = round.reading(0);
    assert_eq!(round.receive(&reading), None);
    let liar = Insider::new(&round.world, 0);
    let other = liar.reading(round.slot, 0, reading_in(&reading).ciphertext.wrapping_add(5));
    assert_eq!(round.receive(&other), Some(Rejection::Contradiction));
    let request = round.freeze();
    round.answer(&request, 0..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
}

#[test]
fn a_reading_under_another_list_or_for_another_attempt_is_refused() {
    let mut round = Round::new();
    let liar = Insider::new(&round.world, 0);
    for attempt in [1, 254] {
        assert_eq!(round.receive(&liar.reading(round.slot, attempt, 1)), Some(Rejection::OtherAttempt));
    }
    let other = MaskedReading { list: [1; 8], slot: round.slot, attempt: 0, ciphertext: 1 };
    assert_eq!(round.receive(&liar.seal_reading(&other)), Some(Rejection::OtherList));
}

#[test]
fn a_late_reading_is_too_late() {
    let mut round = Round::new();
    round.report(1..10);
    let late = round.reading(0);
    let request = round.freeze();
    assert_eq!(round.receive(&late), Some(Rejection::TooLate));
    round.answer(&request, 1..10);
    assert_eq!((round.decoded(), round.outcome().responders), (Round::sum(1..10), 9));
}

#[test]
fn readings_that_come_before_the_slot_ends_do_not_freeze_it() {
    // Ten fast clocks: the gateway opens a slot five seconds early, but never asks before its end.
    let mut round = Round::new();
    round.world.gateway.tick_until(round.end.plus_secs(595));
    let next = round.slot.plus(1);
    round.now = 596;
    for meter in 0..10 {
        let liar = Insider::new(&round.world, meter);
        assert_eq!(round.receive(&liar.reading(next, 0, 7)), None);
    }
    assert_eq!(round.world.gateway.tick_until(round.end.plus_secs(599)), []);
    assert_eq!(round.world.gateway.tick_until(round.end.plus_secs(600)).len(), 1);
}

#[test]
fn a_random_ciphertext_fails_the_slot_after_one_retry() {
    let mut round = Round::new();
    round.report(1..10);
    round.reading(0);
    let liar = Insider::new(&round.world, 0);
    assert_eq!(round.receive(&liar.reading(round.slot, 0, 0x0123_4567_89ab_cdef)), None);
    let request = round.freeze();
    round.answer(&request, 0..10);
    assert_fails_after_one_retry(&mut round);
}

#[test]
fn a_random_reveal_fails_the_slot_after_one_retry() {
    let mut round = Round::new();
    round.report(0..10);
    let request = round.freeze();
    round.answer(&request, 1..10);
    let liar = Insider::new(&round.world, 0);
    let reveal = liar.reveal(round.slot, 0, 0x0123_4567_89ab_cdef, &request);
    assert_eq!(round.receive(&reveal), None);
    assert_fails_after_one_retry(&mut round);
}

/// A spoiled sum is tried once more, without others, and nobody takes part here. One liar must not burn everyone's budget: nothing
/// more is asked about the slot.
fn assert_fails_after_one_retry(round: &mut Round) {
    assert_eq!(round.world.gateway.outcomes, [], "the first sum is spoiled");
    let mut sent = round.world.gateway.tick_until(round.end.plus_secs(590));
    sent.extend(round.world.gateway.handle(Input::Connected, round.end.plus_secs(591)));
    assert!(!sent.iter().any(|packet| packet.topic.ends_with("/recovery")));
    let outcome = round.outcome();
    assert_eq!((outcome.result, outcome.attempts), (Err(Failure::TooManyMissing), 2));
}

#[test]
fn a_member_can_shift_the_sum_within_the_plausible_range_which_is_a_documented_limit() {
    let mut round = Round::new();
    round.report(1..10);
    let honest = reading_in(&round.reading(0)).ciphertext;
    let liar = Insider::new(&round.world, 0);
    assert_eq!(round.receive(&liar.reading(round.slot, 0, honest.wrapping_add(12_345))), None);
    let request = round.freeze();
    round.answer(&request, 0..10);
    assert_eq!(round.decoded(), Round::sum(0..10) + 12_345);
}

#[test]
fn a_member_that_shifts_the_sum_out_of_the_plausible_range_fails_the_slot() {
    let mut round = Round::new();
    round.report(1..10);
    let honest = reading_in(&round.reading(0)).ciphertext;
    let liar = Insider::new(&round.world, 0);
    // 100 noise scales beyond the most that ten readings add up to.
    let most = 10 * 5000 + 100 * 5000;
    let shift = most - Round::sum(0..10) + 1;
    assert_eq!(round.receive(&liar.reading(round.slot, 0, honest.wrapping_add_signed(shift))), None);
    let request = round.freeze();
    round.answer(&request, 0..10);
    assert_fails_after_one_retry(&mut round);
}
