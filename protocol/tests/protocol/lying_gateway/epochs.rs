//! Lists that contradict, repeat or outrun those before them.

use dream_protocol::evidence;
use dream_protocol::keys::ListHash;
use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::meter::{Input, Key, Notice, Refusal};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{FullList, StatusCode};

use super::lists::enrolled;
use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::{at, cluster_id};

#[test]
fn a_list_whose_last_slot_is_over_is_refused() {
    let mut meters = enrolled();
    let mut draft = meters.draft();
    (draft.from_slot, draft.to_slot) = (Slot(FIRST.0 - 1), Slot(FIRST.0 - 1));
    let packet = draft.sign(&meters.identity);
    let over = at((FIRST.0 + 1) * 600);
    meters.meters[0].handle(Input::Tick, over);
    meters.refused(0, &packet, over, &Refusal::ListOver);
}

#[test]
fn a_stale_epoch_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let jump = Draft { epoch: 7, ..meters.next_draft() };
    assert_eq!(meters.tell(0, &jump.sign(&meters.identity), at(LISTED + 1)).1, []);
    for found in [2, 6] {
        let packet = Draft { epoch: found, ..meters.next_draft() }.sign(&meters.identity);
        meters.refused(0, &packet, at(LISTED + 60 * found), &Refusal::StaleEpoch { last: 7, found });
    }
}

#[test]
fn a_list_after_others_that_were_missed_is_accepted_and_said() {
    let mut meters = Liar::new(10, 2, 1);
    let jump = Draft { epoch: 5, previous_epoch: 4, previous: ListHash([7; 32]), ..meters.next_draft() };
    meters.meters[0].notices.clear();
    let packet = jump.sign(&meters.identity);
    assert_eq!(
        meters.meters[0].handle(Input::Message { topic: &packet.topic, payload: &packet.payload }, at(LISTED)),
        []
    );
    assert_eq!(meters.meters[0].notices, [Notice::ListAccepted { epoch: 5, skipped: true }]);
}

#[test]
fn two_lists_of_one_epoch_are_refused_and_both_are_kept() {
    let mut meters = Liar::new(10, 2, 1);
    let mut other = meters.draft();
    other.terms = *meters.list().params().terms();
    other.to_slot = other.to_slot.plus(1);
    assert_evidence(&mut meters, &other, &Refusal::TwoListsOfAnEpoch(1));
}

#[test]
fn a_contradiction_without_evidence_of_its_own_is_refused_and_no_status_tells_of_it() {
    let mut meters = Liar::with(10, 2, 1, |_| {}, |draft| draft.to_slot = FIRST, NO_NOISE);
    meters.measure(0, FIRST, 100);
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    meters.tell(0, &meters.request(FIRST, 0, &[]), asked_at);
    meters.refused(0, &meters.request(FIRST, 0, &[1]), asked_at, &Refusal::SecondRequest);

    // The accepted list is over and erased: its header is not there any more to show that the next one contradicts it.
    let later = meters.slot_end(FIRST.plus(1)).plus_secs(300);
    meters.meters[0].handle(Input::Tick, later);
    let other = Draft { to_slot: FIRST.plus(100), terms: *meters.list().params().terms(), ..meters.draft() };
    let (sent, refusals) = meters.tell(0, &other.sign(&meters.identity), later);
    assert_eq!(refusals, [Refusal::TwoListsOfAnEpoch(1)]);
    assert_eq!(on(MeterChannel::Status, &sent), [], "the evidence of two requests shows nothing of two lists");
}

#[test]
fn a_list_that_does_not_continue_the_accepted_one_is_refused_and_both_are_kept() {
    let mut meters = Liar::new(10, 2, 1);
    let broken = Draft { previous: ListHash([7; 32]), ..meters.next_draft() };
    assert_evidence(&mut meters, &broken, &Refusal::BrokenChain(2));
}

#[test]
fn a_list_that_skips_the_accepted_one_is_refused_and_both_are_kept() {
    let mut meters = Liar::new(10, 2, 1);
    let skips = Draft { epoch: 9, previous_epoch: 0, previous: ListHash::NONE, ..meters.next_draft() };
    assert_evidence(&mut meters, &skips, &Refusal::BrokenChain(9));
}

#[test]
fn a_list_that_begins_more_than_two_days_ahead_is_refused() {
    let mut meters = enrolled();
    let latest = Slot((LISTED + 2 * 86_400) / 600);
    let draft = |from: Slot| Draft { from_slot: from, to_slot: from, ..meters.draft() };
    let [late, in_time] = [latest.plus(1), latest].map(|from| draft(from).sign(&meters.identity));
    meters.refused(0, &late, at(LISTED), &Refusal::TooFarAhead);
    assert_eq!(meters.tell(0, &in_time, at(LISTED)).1, []);
}

#[test]
fn one_list_of_a_stolen_key_cannot_use_up_epochs() {
    let mut meters = Liar::new(10, 2, 1);
    // The latest epoch that a meter takes is the start of the latest first slot that it takes.
    let from = Slot(LISTED / 600 + 2 * 144);
    let poison = Draft { epoch: from.0 * 600, from_slot: from, to_slot: from.plus(9), ..meters.next_draft() };
    let beyond = Draft { epoch: from.0 * 600 + 1, ..poison.clone() }.sign(&meters.identity);
    let start = from.0 * 600;
    let refused = ListError::Epoch { epoch: start + 1, previous: 1, start };
    meters.refused(0, &beyond, at(LISTED + 1), &Refusal::List(refused));
    assert_eq!(meters.tell(0, &poison.sign(&meters.identity), at(LISTED + 1)).1, []);
    let hash =
        *MembershipList::verify(&poison.sign(&meters.identity).payload, &cluster_id(), &meters.pki.authorities())
            .unwrap()
            .hash();
    // Two days later at most a list follows it, and nothing was lost in between: the list before stays in force.
    let next = Draft {
        epoch: poison.epoch + 1,
        previous_epoch: poison.epoch,
        previous: hash,
        from_slot: from.plus(1),
        ..meters.next_draft()
    };
    let next = Draft { to_slot: from.plus(20), ..next }.sign(&meters.identity);
    assert_eq!(meters.tell(0, &next, at(LISTED + 2 * 86_400)).1, []);
}

fn assert_evidence(meters: &mut Liar, draft: &Draft, rule: &Refusal) {
    let packet = draft.sign(&meters.identity);
    meters.refused(0, &packet, at(LISTED + 1), rule);
    let statement = meters.only_evidence(0);
    let header = FullList::decode(&packet.payload).unwrap().header;
    assert_eq!((&statement.first[..], &statement.second[..]), (meters.list().header(), header));
    let verdict = evidence::judge(&statement, &meters.pki.authorities()).unwrap();
    assert_eq!(verdict.gateway, *meters.list().gateway(), "anyone can check the proof");
    // The accepted list goes on.
    let reading = meters.measure(0, FIRST, 100);
    assert!(reading.topic.contains("/reading/"));
}

#[test]
fn lists_faster_than_slots_pass_are_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let mut draft = meters.next_draft();
    for epoch in 2..=6 {
        let packet = Draft { epoch, from_slot: FIRST.plus(epoch), ..draft.clone() }.sign(&meters.identity);
        assert_eq!(meters.tell(0, &packet, at(LISTED + 1)).1, []);
        draft.previous_epoch = epoch;
        draft.previous =
            *MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap().hash();
    }
    let packet = Draft { epoch: 7, from_slot: FIRST.plus(7), ..draft }.sign(&meters.identity);
    meters.refused(0, &packet, at(LISTED + 2), &Refusal::TooManyLists);
}

#[test]
fn a_list_accepted_in_the_middle_of_a_slot_does_not_hold_for_it() {
    let mut meters = enrolled();
    let packet = meters.draft().sign(&meters.identity);
    let middle = at(FIRST.0 * 600 + 300);
    assert_eq!(meters.tell(0, &packet, middle).1, []);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 1 }, at((FIRST.0 + 1) * 600));
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
    assert_eq!(meters.codes(0, &sent), [StatusCode::NoList]);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(1), watts: 1 }, at((FIRST.0 + 2) * 600));
    assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![]));
}

#[test]
fn a_list_that_came_late_is_in_force_from_the_next_slot_on_and_the_one_before_is_not_held_for_it() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    // It replaces the list in force from the next slot on, and arrives in the middle of the third one.
    let next = Draft { from_slot: FIRST.plus(1), ..meters.next_draft() };
    let late = meters.slot_end(FIRST.plus(1)).plus_secs(300);
    assert_eq!(meters.tell(0, &next.sign(&meters.identity), late).1, []);
    let end = meters.slot_end(FIRST.plus(2));
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(2), watts: 100 }, end);
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList], "the old list is erased, the new one came too late");
    assert_eq!(on(MeterChannel::Reading, &sent), []);
    let end = meters.slot_end(FIRST.plus(3));
    let mut sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(3), watts: 100 }, end);
    sent.extend(meters.meters[0].handle(Input::Tick, end.plus_secs(30)));
    assert_eq!(on(MeterChannel::Reading, &sent).len(), 1);
}

#[test]
fn a_list_is_erased_with_its_last_slot_when_later_ones_cover_the_rest_and_not_before() {
    // The second list ends early, so that the first one is still needed; the third and the fourth take its place.
    let mut meters = Liar::with(10, 2, 1, |_| {}, |draft| draft.to_slot = FIRST.plus(100), NO_NOISE);
    for (from, to) in [(3, 50), (8, 100), (20, 120)] {
        let draft = Draft { from_slot: FIRST.plus(from), to_slot: FIRST.plus(to), ..meters.next_draft() };
        meters.publish(&draft);
    }
    let mut held_at = |slot: Slot, before: u64| {
        let end = Timestamp::from_millis(meters.slot_end(slot).as_millis() - before);
        meters.meters[0].handle(Input::Tick, end);
        let epochs = meters.meters[0].store.keys().filter_map(|key| match key {
            Key::List(epoch) => Some(*epoch),
            Key::Account | Key::Enrolment(_) | Key::Slot(_) | Key::Answer(_) | Key::Evidence(_) => None,
        });
        epochs.collect::<Vec<u64>>()
    };
    // The slot before the third list's first is the last of the first two; it is closed at the end of the following one.
    assert_eq!(held_at(FIRST.plus(8), 1), [1, 2, 3, 4]);
    assert_eq!(held_at(FIRST.plus(8), 0), [3, 4]);
    assert_eq!((held_at(FIRST.plus(20), 1), held_at(FIRST.plus(20), 0)), (vec![3, 4], vec![4]));
}
