//! Reveals that were not asked for, or answer something else.

use dream_protocol::cluster::Rejection;
use dream_protocol::meter;

use super::Round;
use crate::support::insider::Insider;
use crate::support::liar::{Liar, reveal_in};
use crate::support::world::Packet;

#[test]
fn a_reveal_before_it_is_asked_for_is_refused() {
    let mut round = Round::new();
    let liar = Insider::new(&round.world, 0);
    let anything = Liar::new(5, 1, 1).request(round.slot, 0, &[]);
    assert_eq!(round.receive(&liar.reveal(round.slot, 0, 1, &anything)), Some(Rejection::NotAsked));
}

#[test]
fn a_reveal_that_answers_another_request_is_refused() {
    let mut round = Round::new();
    round.report(0..10);
    let request = round.freeze();
    let other = Liar::new(5, 1, 1).request(round.slot, 0, &[]);
    let liar = Insider::new(&round.world, 0);
    assert_eq!(round.receive(&liar.reveal(round.slot, 0, 1, &other)), Some(Rejection::OtherRequest));
    assert_eq!(round.receive(&liar.reveal(round.slot, 1, 1, &request)), Some(Rejection::OtherAttempt));
    round.answer(&request, 0..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
}

#[test]
fn a_reveal_of_a_member_that_was_missing_is_refused() {
    let mut round = Round::new();
    round.report(1..10);
    let request = round.freeze();
    let liar = Insider::new(&round.world, 0);
    assert_eq!(round.receive(&liar.reveal(round.slot, 0, 1, &request)), Some(Rejection::NotAResponder));
    round.answer(&request, 1..10);
    assert_eq!(round.decoded(), Round::sum(1..10));
}

#[test]
fn a_second_reveal_is_a_duplicate_or_a_contradiction_and_the_first_counts() {
    let mut round = Round::new();
    round.report(0..10);
    let request = round.freeze();
    let reveal = round.reveal(0, &request);
    assert_eq!(round.receive(&reveal), None);
    assert_eq!(round.receive(&reveal), Some(Rejection::Duplicate));
    let liar = Insider::new(&round.world, 0);
    let other = liar.reveal(round.slot, 0, reveal_in(&reveal).revealed.wrapping_add(5), &request);
    assert_eq!(round.receive(&other), Some(Rejection::Contradiction));
    round.answer(&request, 1..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
}

#[test]
fn a_reveal_on_another_members_topic_is_refused() {
    let mut round = Round::new();
    round.report(0..10);
    let request = round.freeze();
    let reveal = round.reveal(0, &request);
    for (topic, rejection) in
        [("dream/v1/north/reveal/m-0001", Rejection::BadMac), ("dream/v1/north/reveal/stranger", Rejection::NotAMember)]
    {
        let moved = Packet::new(topic.to_owned(), reveal.payload.clone());
        assert_eq!(round.receive(&moved), Some(rejection), "{topic}");
    }
    assert_eq!(round.receive(&reveal), None);
    round.answer(&request, 1..10);
    assert_eq!(round.decoded(), Round::sum(0..10));
}

#[test]
fn a_member_that_does_not_reveal_costs_one_attempt_and_is_left_out_of_the_next() {
    let mut round = Round::new();
    round.report(0..10);
    let request = round.freeze();
    round.answer(&request, 0..9);
    let retry = round.world.gateway.tick_until(round.end.plus_secs(61)).pop().unwrap();
    for meter in 0..10 {
        round.world.deliver(meter, &retry, round.end.plus_secs(61));
    }
    round.now = 91;
    round.world.gateway.tick_until(round.end.plus_secs(91));
    for meter in 0..10 {
        let reading = round.world.meters[meter].handle(meter::Input::Tick, round.end.plus_secs(91)).remove(0);
        assert_eq!(round.receive(&reading), None);
    }
    let request = round.freeze();
    round.answer(&request, 0..9);
    assert_eq!((round.decoded(), round.outcome().attempts, round.outcome().responders), (Round::sum(0..9), 2, 9));
}
