//! Records that are lost, and a meter that moves to another cluster with the records it has.

use dream_protocol::ids::ClusterId;
use dream_protocol::meter::{Input, Key, MeterConfig, Refusal};
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel, TopicError};
use dream_protocol::wire::{EnrolmentStatement, Message as _, Sign1, StatusCode};

use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE, on};
use crate::support::world::Packet;
use crate::support::{START, at, enrol, meter_name};

fn enrolment_in(packet: &Packet) -> EnrolmentStatement {
    EnrolmentStatement::decode(Sign1::decode_certified(&packet.payload).unwrap().0.payload()).unwrap()
}

/// What a meter that lost records does, whichever they were, as long as its account was among them.
fn assert_starts_anew(keep: impl Fn(&Key) -> bool) {
    let mut meters = Liar::new(10, 2, 1);
    let before =
        EnrolmentStatement::decode(Sign1::decode_certified(&meters.enrolments[0]).unwrap().0.payload()).unwrap();
    meters.measure(0, FIRST, 100);
    let lost_at = meters.slot_end(FIRST).plus_secs(40);
    meters.restart(0, keep);

    let sent = meters.meters[0].handle(Input::Connected, lost_at);
    let enrolment = enrolment_in(&on(MeterChannel::Enrol, &sent)[0]);
    assert_eq!(sent.len(), 1, "it enrols, and says nothing of the open slot");
    assert_ne!(enrolment.agreement, before.agreement, "with a new key");
    assert!(enrolment.seq > before.seq);

    // The old list, the old slot and the next one are all closed to it.
    let old = Packet::new(GatewayChannel::FullMembership.topic(meters.list().cluster()), meters.list().bytes().clone());
    meters.refused(0, &old, lost_at, &Refusal::RecordLost);
    meters.refused(0, &meters.request(FIRST, 0, &[]), lost_at, &Refusal::UnknownSlot);
    meters.refused(0, &meters.retry(FIRST, 1, lost_at), lost_at, &Refusal::UnknownSlot);
    for slot in [FIRST, FIRST.plus(1)] {
        let end = meters.slot_end(slot).max(lost_at);
        let sent = meters.meters[0].handle(Input::Measured { slot, watts: 100 }, end);
        assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
        assert!(on(MeterChannel::Reading, &sent).is_empty());
    }

    // A list with the new key brings it back, with masks that nobody saw before.
    meters.enrolments[0] = {
        let sent = meters.meters[0].handle(Input::Connected, lost_at.plus_secs(700));
        on(MeterChannel::Enrol, &sent)[0].payload.to_vec()
    };
    let next = Draft { from_slot: FIRST.plus(5), ..meters.next_draft() };
    assert_eq!(meters.tell(0, &next.sign(&meters.identity), lost_at.plus_secs(701)).1, []);
    let end = meters.slot_end(FIRST.plus(5));
    let mut sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(5), watts: 100 }, end);
    sent.extend(meters.meters[0].handle(Input::Tick, end.plus_secs(30)));
    assert_eq!(on(MeterChannel::Reading, &sent).len(), 1);
}

#[test]
fn a_meter_that_lost_all_records_makes_a_new_key_and_is_silent_until_a_new_list() {
    assert_starts_anew(|_| false);
}

#[test]
fn a_meter_that_lost_its_account_alone_starts_anew_too() {
    assert_starts_anew(|key| *key != Key::Account);
}

#[test]
fn a_meter_that_lost_its_enrolment_alone_starts_anew_too() {
    assert_starts_anew(|key| !matches!(key, Key::Enrolment(_)));
}

#[test]
fn a_meter_that_lost_an_open_slot_skips_it() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let lost_at = meters.slot_end(FIRST).plus_secs(40);
    meters.restart(0, |key| !matches!(key, Key::Slot(_)));
    meters.refused(0, &meters.request(FIRST, 0, &[]), lost_at, &Refusal::UnknownSlot);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 200 }, lost_at);
    assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![Refusal::AlreadyReported]));
}

#[test]
fn a_meter_that_lost_its_list_skips_the_slot_and_takes_the_list_again() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let lost_at = meters.slot_end(FIRST).plus_secs(40);
    meters.restart(0, |key| !matches!(key, Key::List(_)));
    let (sent, refusals) = meters.tell(0, &meters.request(FIRST, 0, &[]), lost_at);
    assert_eq!(refusals, [Refusal::UnknownSlot]);
    assert_eq!(on(MeterChannel::Reveal, &sent), []);
    let again =
        Packet::new(GatewayChannel::FullMembership.topic(meters.list().cluster()), meters.list().bytes().clone());
    assert_eq!(meters.tell(0, &again, lost_at).1, []);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 200 }, lost_at);
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList], "it was accepted after the slot");
    assert_eq!(meters.codes(0, &sent), [StatusCode::NoList]);
    meters.measure(0, FIRST.plus(2), 100);
}

#[test]
fn a_meter_that_moves_to_another_cluster_keeps_its_ledger_and_reports_no_time_twice() {
    let mut meters = Liar::with(10, 2, 1, |policy| policy.daily_micro_epsilon = 3_000_000, |_| {}, NO_NOISE);
    meters.measure(0, FIRST, 100);
    let old_request = meters.request(FIRST, 0, &[]);

    // It starts again in another cluster, with its clock back before the slot that it has reported.
    let south = ClusterId::new("south").unwrap();
    let config = MeterConfig { cluster: south.clone(), ..meters.config(0) };
    let moved_at = at(FIRST.0 * 600 - 300);
    let node = &mut meters.meters[0];
    node.restart(config, NO_NOISE);
    let sent = node.handle(Input::Connected, moved_at);
    let mine = on(MeterChannel::Enrol, &sent)[0].clone();
    assert_eq!(enrolment_in(&mine).cluster, south);
    assert!(!node.store.keys().any(|key| matches!(key, Key::List(_) | Key::Slot(_))), "the old cluster's are erased");
    assert_eq!(node.meter.spent(at(FIRST.0 * 600)), 1_000_000, "the ledger is kept");
    assert_eq!(meters.tell(0, &old_request, moved_at).1, [Refusal::Topic(TopicError::UnknownChannel)]);

    // The new cluster has shorter slots, none of which is one of the old.
    let first = Slot(FIRST.0 * 600 / 400);
    let mut draft = Draft { cluster: south.clone(), from_slot: first, to_slot: first.plus(99), ..meters.draft() };
    (draft.terms.slot_seconds, draft.terms.max_missing) = (400, 2);
    for (index, bytes) in draft.enrolments.iter_mut().enumerate() {
        let id = meter_name(index);
        let join = |statement: &mut EnrolmentStatement| statement.cluster = south.clone();
        *bytes = if index == 0 { mine.payload.to_vec() } else { enrol(&id, &meters.pki.meter(&id), join) };
    }
    let payload = draft.sign(&meters.identity).payload;
    let packet = Packet::new(GatewayChannel::FullMembership.topic(&south), payload);
    assert_eq!(meters.tell(0, &packet, moved_at).1, []);

    // Time that overlaps the reported slot is refused; later time is reported, and charged to the same ledger.
    let reported_until = (FIRST.0 + 1) * 600;
    let mut said = Vec::new();
    for slot in (0..6).map(|ahead| first.plus(ahead)) {
        let (start, end) = (slot.0 * 400, at((slot.0 + 1) * 400));
        let mut sent = meters.meters[0].handle(Input::Measured { slot, watts: 100 }, end);
        sent.extend(meters.meters[0].handle(Input::Tick, end.plus_secs(30)));
        let refusals = meters.meters[0].refusals();
        assert_eq!(on(MeterChannel::Reading, &sent).len(), usize::from(refusals.is_empty()));
        assert_eq!(refusals.contains(&Refusal::AlreadyReported), start < reported_until, "{refusals:?}");
        said.extend(refusals);
    }
    let (reported, spent) = (Refusal::AlreadyReported, Refusal::LedgerExhausted);
    assert_eq!(said, [reported.clone(), reported, spent.clone(), spent], "and two readings between");
}

#[test]
fn a_shorter_slot_under_a_later_list_does_not_report_the_same_time_again() {
    // One cluster, two lists for overlapping time: the second one, accepted in time, has slots of five minutes.
    let mut meters = Liar::new(10, 2, 1);
    let mut short = meters.next_draft();
    short.terms = dream_protocol::params::Terms { slot_seconds: 300, ..short.terms };
    (short.from_slot, short.to_slot) = (Slot(FIRST.0 * 2), Slot(FIRST.0 * 2 + 99));
    assert_eq!(meters.tell(0, &short.sign(&meters.identity), at(START + 10)).1, []);
    let half = at(FIRST.0 * 600 + 300);
    let mut sent = meters.meters[0].handle(Input::Measured { slot: Slot(FIRST.0 * 2), watts: 100 }, half);
    sent.extend(meters.meters[0].handle(Input::Tick, half.plus_secs(30)));
    assert_eq!(on(MeterChannel::Reading, &sent).len(), 1, "the first half");
    let end = meters.slot_end(FIRST);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, end);
    assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![Refusal::AlreadyReported]), "not the whole");
    assert_eq!(meters.meters[0].meter.spent(end), 1_000_000);
}

#[test]
fn a_meter_without_a_list_says_so_once() {
    let mut meters = Liar::enrolled(1, |_| {}, NO_NOISE);
    let mut codes = Vec::new();
    for slot in 0..3 {
        let end = at((FIRST.0 + slot + 1) * 600);
        let sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(slot), watts: 100 }, end);
        assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
        codes.extend(meters.codes(0, &on(MeterChannel::Status, &sent)));
    }
    assert_eq!(codes, [StatusCode::NoList]);
}
