//! Recovery requests that no honest gateway sends.

use dream_protocol::cluster::{self, Rejection};
use dream_protocol::evidence::{self, Contradiction};
use dream_protocol::member_set::MemberSetError;
use dream_protocol::membership::ListError;
use dream_protocol::meter::{Input, Key, Refusal};
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{DecodeError, Message as _, RecoveryRequest, Sign1, Status, StatusCode};

use crate::support::cluster_id;
use crate::support::liar::{FIRST, Liar, on};
use crate::support::world::{Packet, World};

/// N = 10, M = 2, T = 1, with readings of everyone sent.
fn measured() -> Liar {
    let mut meters = Liar::new(10, 2, 1);
    for meter in 0..10 {
        meters.measure(meter, FIRST, 100);
    }
    meters
}

#[test]
fn a_second_request_with_more_missing_is_refused_and_both_are_kept_as_evidence() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let (first, second) = (meters.request(FIRST, 0, &[1]), meters.request(FIRST, 0, &[1, 2]));
    let (answer, refusals) = meters.tell(0, &first, asked_at);
    assert_eq!((on(MeterChannel::Reveal, &answer).len(), answer.len(), refusals), (1, 1, vec![]));

    let (sent, refusals) = meters.tell(0, &second, asked_at.plus_secs(1));
    assert_eq!(refusals, [Refusal::SecondRequest]);
    assert_eq!(meters.codes(0, &sent), [StatusCode::Equivocation], "status 8, and no second reveal");

    let statement = meters.only_evidence(0);
    assert_eq!((&statement.first[..], &statement.second[..]), (&*first.payload, &*second.payload));
    let verdict = evidence::judge(&statement, &meters.pki.authorities()).expect("anyone can check the proof");
    assert_eq!(verdict.contradiction, Contradiction::Requests { slot: FIRST, attempt: 0 });
    let status = Status::decode(Sign1::decode(&sent[0].payload).unwrap().payload()).unwrap();
    assert_eq!(status.evidence, statement.encode(), "the status carries it");

    // The first one is still answered with the same bytes, also after a restart.
    assert_eq!(meters.tell(0, &first, asked_at.plus_secs(15)), (answer.clone(), vec![]));
    meters.restart(0, |_| true);
    assert_eq!(meters.tell(0, &first, asked_at.plus_secs(16)), (answer, vec![]));
    let (sent, refusals) = meters.tell(0, &second, asked_at.plus_secs(17));
    assert_eq!((on(MeterChannel::Reveal, &sent), refusals), (vec![], vec![Refusal::SecondRequest]));
}

#[test]
fn a_contradiction_that_is_repeated_is_kept_once_and_newer_ones_replace_the_oldest() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let kept = |meters: &Liar| -> Vec<u64> {
        let number = |key: &Key| if let Key::Evidence(number) = key { Some(*number) } else { None };
        meters.meters[0].store.keys().filter_map(number).collect()
    };
    meters.tell(0, &meters.request(FIRST, 0, &[]), asked_at);
    for _ in 0..20 {
        let (_, refusals) = meters.tell(0, &meters.request(FIRST, 0, &[1]), asked_at);
        assert_eq!(refusals, [Refusal::SecondRequest]);
    }
    assert_eq!(kept(&meters), [0]);
    for deadline in 0..20 {
        let other = RecoveryRequest { deadline, ..meters.request_with(FIRST, 0, &[0, 0]) };
        meters.tell(0, &meters.sign(&other), asked_at);
    }
    assert_eq!(kept(&meters), (5..21).collect::<Vec<_>>(), "sixteen are kept");
}

#[test]
fn a_second_request_with_another_deadline_alone_is_refused_too() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request_with(FIRST, 0, &[0, 0]);
    let first = meters.sign(&request);
    let second = meters.sign(&RecoveryRequest { deadline: request.deadline + 1, ..request });
    assert_eq!(meters.tell(0, &first, asked_at).0.len(), 1);
    meters.refused(0, &second, asked_at, &Refusal::SecondRequest);
}

#[test]
fn the_same_request_a_hundred_times_gives_the_same_bytes_and_one_charge() {
    let mut meters = Liar::new(10, 2, 1);
    let reading = meters.measure(0, FIRST, 100);
    assert_eq!(meters.charges(0), 1);
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let spent = meters.meters[0].meter.spent(asked_at);
    let request = meters.request(FIRST, 0, &[3]);
    let (first, _) = meters.tell(0, &request, asked_at);
    let store = meters.meters[0].store.clone();
    for number in 1..=100 {
        // Half a reveal window is 15 s: in between, a repetition changes nothing.
        let answer = if number % 5 == 0 { first.clone() } else { vec![] };
        assert_eq!(meters.tell(0, &request, asked_at.plus_secs(number * 3)), (answer, vec![]));
    }
    assert_eq!(meters.meters[0].store, store, "nothing more is written");
    assert_eq!((meters.charges(0), meters.meters[0].meter.spent(asked_at)), (0, spent));
    assert_eq!(spent, 1_000_000);
    let again = meters.meters[0].handle(Input::Connected, asked_at);
    assert_eq!(again, first, "a new connection repeats the reveal, and no other reading than {reading:?}");
}

#[test]
fn more_missing_members_than_the_list_allows_are_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request(FIRST, 0, &[1, 2, 3]);
    meters.refused(0, &request, asked_at, &Refusal::TooManyMissing { most: 2, found: 3 });
}

#[test]
fn a_request_that_names_the_meter_itself_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request(FIRST, 0, &[0]);
    meters.refused(0, &request, asked_at, &Refusal::NamesThisMeter);
}

#[test]
fn spare_bits_and_wrong_lengths_of_the_bitmap_are_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    for (bitmap, error) in [
        (&[0, 0x20][..], MemberSetError::SpareBits { members: 10 }),
        (&[0, 0x01], MemberSetError::SpareBits { members: 10 }),
        (&[], MemberSetError::Length { members: 10, expected: 2, found: 0 }),
        (&[0], MemberSetError::Length { members: 10, expected: 2, found: 1 }),
        (&[0, 0, 0], MemberSetError::Length { members: 10, expected: 2, found: 3 }),
    ] {
        let request = meters.sign(&meters.request_with(FIRST, 0, bitmap));
        let (sent, refusals) = meters.tell(0, &request, asked_at);
        assert_eq!((on(MeterChannel::Reveal, &sent), refusals), (vec![], vec![Refusal::Bitmap(error)]));
    }
    let (sent, _) = meters.tell(0, &meters.request(FIRST, 0, &[]), asked_at);
    assert_eq!(on(MeterChannel::Reveal, &sent).len(), 1, "none of them counted as the one request");
}

#[test]
fn a_request_before_the_reading_was_sent_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let end = meters.slot_end(FIRST);
    let request = meters.request(FIRST, 0, &[]);
    meters.refused(0, &request, end, &Refusal::UnknownSlot);
    assert_eq!(meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, end), []);
    let publish_at = meters.meters[0].meter.deadline().unwrap();
    assert!(end < publish_at, "the test's seed waits before it publishes");
    meters.refused(0, &request, end, &Refusal::OtherAttempt);
    let (sent, refusals) = meters.tell(0, &request, publish_at);
    let channels = [MeterChannel::Reading, MeterChannel::Reveal].map(|channel| on(channel, &sent).len());
    assert_eq!((channels, refusals), ([1, 1], vec![]));
}

#[test]
fn a_request_before_the_reading_stays_refused_across_a_restart() {
    let mut meters = Liar::new(10, 2, 1);
    let end = meters.slot_end(FIRST);
    assert_eq!(meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, end), []);
    meters.restart(0, |_| true);
    let request = meters.request(FIRST, 0, &[]);
    meters.refused(0, &request, end, &Refusal::OtherAttempt);
}

#[test]
fn a_request_for_a_slot_that_was_never_measured_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    for slot in [Slot(0), Slot(FIRST.0 - 1), FIRST.plus(1), Slot(u64::MAX)] {
        let request = meters.sign(&RecoveryRequest { slot, ..meters.request_with(FIRST, 0, &[0, 0]) });
        meters.refused(0, &request, asked_at, &Refusal::UnknownSlot);
    }
}

#[test]
fn a_request_for_a_slot_that_is_over_is_refused_and_nothing_of_it_is_left() {
    let mut meters = measured();
    let over = meters.slot_end(FIRST.plus(1));
    let request = meters.request(FIRST, 0, &[]);
    let node = &mut meters.meters[0];
    assert!(node.store.contains_key(&Key::Slot(FIRST)));
    let (sent, refusals) = meters.tell(0, &request, over);
    assert_eq!((sent, refusals), (vec![], vec![Refusal::UnknownSlot]));
    assert!(!meters.meters[0].store.contains_key(&Key::Slot(FIRST)), "reading and secret are erased");
}

#[test]
fn a_request_for_another_attempt_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    for attempt in [1, 2, 254] {
        meters.refused(0, &meters.request(FIRST, attempt, &[]), asked_at, &Refusal::OtherAttempt);
    }
}

#[test]
fn a_request_under_another_list_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let mut request = meters.request_with(FIRST, 0, &[0, 0]);
    request.list.0[31] ^= 1;
    meters.refused(0, &meters.sign(&request), asked_at, &Refusal::OtherList);
}

#[test]
fn a_request_signed_by_anyone_but_the_lists_gateway_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request_with(FIRST, 0, &[0, 0]);
    let topic = GatewayChannel::Recovery.topic(&cluster_id());
    // Another certified gateway, a certified meter, and the same gateway id with a renewed key.
    let renewed = meters.pki.issue_for("gw", "gateway", [9; 32], |_| {});
    for signer in [meters.pki.gateway("gw-2"), meters.pki.meter("m-0001"), renewed] {
        let packet = Packet::new(topic.clone(), request.seal(&signer.identity(), &topic));
        meters.refused(0, &packet, asked_at, &Refusal::BadSignature);
    }
}

#[test]
fn a_request_signed_for_another_topic_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request_with(FIRST, 0, &[0, 0]);
    for other in ["dream/v1/south/recovery", "dream/v2/north/recovery", "dream/v1/north/membership", ""] {
        let payload = request.seal(&meters.identity.identity(), other);
        let packet = Packet::new(GatewayChannel::Recovery.topic(&cluster_id()), payload);
        meters.refused(0, &packet, asked_at, &Refusal::BadSignature);
    }
}

#[test]
fn a_good_request_on_a_topic_that_is_not_the_recovery_topic_is_refused() {
    let mut meters = measured();
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let request = meters.request(FIRST, 0, &[]);
    for other in ["dream/v1/south/recovery", "dream/v2/north/recovery", "dream/v1/north/aggregate", "north/recovery"] {
        let packet = Packet::new(other.to_owned(), request.payload.clone());
        let (sent, refusals) = meters.tell(0, &packet, asked_at);
        assert!(matches!(refusals[..], [Refusal::Topic(_)]) && sent.is_empty(), "{other}: {refusals:?}");
    }
    // One envelope is what a list was in an earlier format: a gateway that publishes it would not understand a status.
    for topic in ["dream/v1/north/membership", "dream/v1/north/membership/full"] {
        let (sent, refusals) = meters.tell(0, &Packet::new(topic.to_owned(), request.payload.clone()), asked_at);
        let earlier = ListError::Decode(DecodeError::EarlierFormat);
        assert_eq!((sent, refusals), (vec![], vec![Refusal::List(earlier)]), "{topic}");
    }
}

#[test]
fn a_late_reading_is_not_taken_and_the_request_that_names_its_meter_is_refused_by_it() {
    let mut world = World::new(10);
    let slot = world.first_slot();
    let end = world.slot_end(slot);
    world.gateway.handle(cluster::Input::Tick, end);
    let readings: Vec<Packet> = (0..10).flat_map(|meter| world.measure(meter, slot, 100)).collect();
    for reading in &readings[1..] {
        world.gateway.receive(reading, end.plus_secs(31));
    }
    let request = world.gateway.handle(cluster::Input::Tick, end.plus_secs(60)).remove(0);
    world.gateway.receive(&readings[0], end.plus_secs(60));
    assert_eq!(world.gateway.rejections, [Rejection::TooLate]);
    assert_eq!(world.deliver(0, &request, end.plus_secs(61)), []);
    assert_eq!(world.meters[0].refusals(), [Refusal::NamesThisMeter]);
    for meter in 1..10 {
        for reveal in world.deliver(meter, &request, end.plus_secs(61)) {
            world.gateway.receive(&reveal, end.plus_secs(62));
        }
    }
    assert_eq!(world.gateway.outcomes[0].result.unwrap().watts(), 900, "without the late one");
    assert_eq!(world.gateway.outcomes[0].responders, 9);
}
