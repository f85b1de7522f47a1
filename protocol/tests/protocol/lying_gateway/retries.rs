//! Retries beyond need, beyond the terms and beyond the budget.

use dream_protocol::cluster;
use dream_protocol::evidence::{self, Contradiction};
use dream_protocol::meter::{Input, Refusal};
use dream_protocol::policy::Policy;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{DecodeError, EvidenceStatement, Message as _, Sign1, Status, StatusCode};

use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE, on, reading_in, reveal_in};
use crate::support::world::{Packet, World};
use crate::support::{START, at};

/// Tells a meter to try again and returns its new reading.
fn retried(meters: &mut Liar, meter: usize, slot: Slot, attempt: u8, wall: Timestamp) -> Packet {
    let (sent, refusals) = meters.tell(meter, &meters.retry(slot, attempt, wall), wall);
    assert_eq!((sent, refusals), (vec![], vec![]));
    let sent = meters.meters[meter].handle(Input::Tick, wall.plus_secs(30));
    let [reading] = sent.as_slice() else { panic!("one reading, not {}", sent.len()) };
    reading.clone()
}

/// A generous policy under a list that allows fewer attempts, or the other way round.
fn with_attempts(policy: u8, list: u64) -> Liar {
    let policy = |limits: &mut Policy| limits.max_attempts = policy;
    Liar::with(10, 2, 1, policy, |draft| draft.terms.attempts = list, NO_NOISE)
}

#[test]
fn a_retry_beyond_the_lists_attempts_is_refused() {
    let mut meters = with_attempts(5, 2);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    meters.refused(0, &meters.retry(FIRST, 2, wall), wall, &Refusal::TooManyAttempts { most: 2, found: 2 });
    retried(&mut meters, 0, FIRST, 1, wall);
    let (sent, refusals) = meters.tell(0, &meters.retry(FIRST, 254, wall), wall.plus_secs(40));
    assert_eq!((sent, refusals), (vec![], vec![Refusal::TooManyAttempts { most: 2, found: 254 }]), "said once");
    assert_eq!(meters.meters[0].meter.spent(wall), 2_000_000);
}

#[test]
fn a_retry_beyond_the_ledger_is_refused() {
    let mut meters = Liar::with(10, 2, 1, |policy| policy.daily_micro_epsilon = 1_500_000, |_| {}, NO_NOISE);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    let retry = meters.retry(FIRST, 1, wall);
    meters.refused(0, &retry, wall, &Refusal::LedgerExhausted);
    assert_eq!(meters.meters[0].meter.spent(wall), 1_000_000);
    // The attempt that was paid for can still be finished.
    let (sent, refusals) = meters.tell(0, &meters.request(FIRST, 0, &[]), wall.plus_secs(1));
    assert_eq!((on(MeterChannel::Reveal, &sent).len(), refusals), (1, vec![]));
}

#[test]
fn a_retry_that_goes_back_is_refused() {
    let mut meters = with_attempts(3, 3);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    let reading = retried(&mut meters, 0, FIRST, 2, wall);
    let later = wall.plus_secs(40);
    let unreadable = Refusal::Decode(DecodeError::OutOfRange { field: "attempt" });
    for (attempt, rule) in [(0, unreadable), (1, Refusal::AttemptNotAbove { found: 1 })] {
        let (sent, refusals) = meters.tell(0, &meters.retry(FIRST, attempt, later), later);
        assert_eq!(refusals, [rule]);
        assert_eq!(on(MeterChannel::Reading, &sent), []);
    }
    let (sent, refusals) = meters.tell(0, &meters.retry(FIRST, 2, wall), later);
    assert_eq!((sent, refusals), (vec![reading], vec![]), "the same retry again resends the same bytes");
    let (sent, refusals) = meters.tell(0, &meters.retry(FIRST, 2, later), later);
    assert_eq!((meters.codes(0, &sent), refusals), (vec![StatusCode::Equivocation], vec![Refusal::SecondRetry]));
    let status = Status::decode(Sign1::decode(&sent[0].payload).unwrap().payload()).unwrap();
    let evidence = EvidenceStatement::decode(&status.evidence).unwrap();
    let verdict = evidence::judge(&evidence, &meters.pki.authorities()).unwrap();
    assert_eq!(verdict.contradiction, Contradiction::Retries { slot: FIRST, attempt: 2 });
    assert_eq!(meters.meters[0].meter.spent(wall), 2_000_000);
}

#[test]
fn a_retry_for_attempt_zero_of_a_held_slot_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let late = meters.slot_end(FIRST).plus_secs(60);
    meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 1 }, late);
    let retry = meters.retry(FIRST, 0, late);
    meters.refused(0, &retry, late, &Refusal::Decode(DecodeError::OutOfRange { field: "attempt" }));
}

#[test]
fn a_retry_whose_deadline_has_passed_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    let retry = meters.retry(FIRST, 1, wall);
    meters.refused(0, &retry, wall.plus_secs(60), &Refusal::RetryOver);
}

#[test]
fn a_retry_for_a_slot_without_a_reading_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let wall = meters.slot_end(FIRST).plus_secs(100);
    let retry = meters.retry(FIRST, 1, wall);
    meters.refused(0, &retry, wall, &Refusal::UnknownSlot);
}

#[test]
fn a_needless_retry_costs_budget_that_attempts_and_ledger_bound_and_opens_nothing_new() {
    let mut meters = Liar::with(10, 2, 1, |policy| policy.daily_micro_epsilon = 3_000_000, |_| {}, NO_NOISE);
    let mut sums = Vec::new();
    let mut codes = Vec::new();
    for slot in [FIRST, FIRST.plus(1)] {
        let end = meters.slot_end(slot);
        let mut opened = [0u64; 2];
        for meter in 0..10 {
            let reading = meters.measure(meter, slot, 100);
            let (sent, _) = meters.tell(meter, &meters.request(slot, 0, &[]), end.plus_secs(61));
            opened[0] = opened[0].wrapping_add(meters.open(meter, &reading, on(MeterChannel::Reveal, &sent).first()));
            // Everything was there; the gateway asks again all the same.
            let wall = end.plus_secs(100);
            let (sent, refusals) = meters.tell(meter, &meters.retry(slot, 1, wall), wall);
            if slot != FIRST {
                assert_eq!(refusals, [Refusal::LedgerExhausted]);
                codes.extend(meters.codes(meter, &sent));
                continue;
            }
            let reading = on(MeterChannel::Reading, &meters.meters[meter].handle(Input::Tick, wall.plus_secs(30)));
            let (sent, _) = meters.tell(meter, &meters.request(slot, 1, &[]), wall.plus_secs(61));
            opened[1] =
                opened[1].wrapping_add(meters.open(meter, &reading[0], on(MeterChannel::Reveal, &sent).first()));
            meters.refused(meter, &meters.request(slot, 0, &[1, 2]), wall.plus_secs(62), &Refusal::OtherAttempt);
        }
        sums.push(opened);
    }
    assert_eq!(sums, [[1000, 1000], [1000, 0]]);
    assert_eq!(codes, [StatusCode::LedgerExhausted; 10], "status 4");
    assert_eq!(meters.meters[0].meter.spent(meters.slot_end(FIRST)), 3_000_000);
}

#[test]
fn attempts_share_no_mask_no_secret_and_no_stream() {
    let mut meters = Liar::new(10, 2, 1);
    let first = meters.measure(0, FIRST, 100);
    let end = meters.slot_end(FIRST);
    let (sent, _) = meters.tell(0, &meters.request(FIRST, 0, &[1]), end.plus_secs(61));
    let first_reveal = sent[0].clone();
    let second = retried(&mut meters, 0, FIRST, 1, end.plus_secs(100));
    let (sent, _) = meters.tell(0, &meters.request(FIRST, 1, &[1]), end.plus_secs(161));
    let (a, b) = (reading_in(&first), reading_in(&second));
    assert_ne!(a.ciphertext, b.ciphertext);
    assert_ne!(reveal_in(&first_reveal).revealed, reveal_in(&sent[0]).revealed);
    let apart = meters.open(0, &first, Some(&first_reveal)).wrapping_sub(meters.open(0, &second, Some(&sent[0])));
    assert!(apart.cast_signed().unsigned_abs() > 1 << 32, "what is left of the two differs by uncancelled masks");
}

#[test]
fn an_accepted_retry_closes_the_earlier_attempt_before_its_request_comes() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let wall = meters.slot_end(FIRST).plus_secs(61);
    let (sent, refusals) = meters.tell(0, &meters.retry(FIRST, 1, wall), wall);
    assert_eq!((sent, refusals), (vec![], vec![]));
    meters.refused(0, &meters.request(FIRST, 0, &[]), wall, &Refusal::OtherAttempt);
    meters.refused(0, &meters.request(FIRST, 1, &[]), wall, &Refusal::OtherAttempt);
}

#[test]
fn a_ledger_that_is_exhausted_is_silent_for_24_hours_whatever_the_calendar_says() {
    // FIRST is not the first slot of its day: find the last one of that day.
    let last = Slot(FIRST.0 / 144 * 144 + 143);
    let (first_of_next, a_day_later) = (last.plus(1), Slot(last.0 - 2 + 144));
    let policy = |policy: &mut Policy| policy.daily_micro_epsilon = 2_000_000;
    let mut meters = Liar::with(10, 2, 1, policy, |draft| draft.to_slot = last.plus(200), NO_NOISE);
    meters.measure(0, Slot(last.0 - 2), 100);
    meters.measure(0, Slot(last.0 - 1), 100);

    for slot in [last, first_of_next, Slot(a_day_later.0 - 1)] {
        let end = meters.slot_end(slot);
        let sent = meters.meters[0].handle(Input::Measured { slot, watts: 100 }, end);
        assert_eq!(meters.meters[0].refusals(), [Refusal::LedgerExhausted], "two readings of the last 24 hours");
        let statuses = meters.codes(0, &on(MeterChannel::Status, &sent));
        assert!(statuses.contains(&StatusCode::LedgerExhausted), "{statuses:?}");
        // Nor does a retry bring it back.
        let wall = end.plus_secs(100);
        meters.refused(0, &meters.retry(slot, 1, wall), wall, &Refusal::UnknownSlot);
    }
    // 24 hours after the first reading there is room for one, also after a restart.
    meters.restart(0, |_| true);
    meters.measure(0, a_day_later, 100);
    assert_eq!(meters.meters[0].meter.spent(meters.list().params().slot_start(a_day_later)), 2_000_000);
}

#[test]
fn what_an_open_slot_has_cost_is_not_forgotten_while_it_is_open() {
    // A slot of 80,000 s that starts late in a day is open until two days later, when a shorter slot is charged.
    const LONG: u64 = 80_000;
    let long = (START / LONG + 1..).find(|slot| slot * LONG % 86_400 > 20_000).map(Slot).unwrap();
    let first_of_its_day = Slot(((long.0 * LONG) / 86_400 + 2) * 144);
    let change = |draft: &mut Draft| {
        draft.terms.slot_seconds = LONG;
        (draft.from_slot, draft.to_slot) = (long, long);
    };
    let policy = |policy: &mut Policy| policy.daily_micro_epsilon = 1_000_000;
    let mut meters = Liar::with(10, 2, 1, policy, change, NO_NOISE);
    let wall = at(first_of_its_day.plus(1).0 * 600 + 300);
    let retry = meters.retry(long, 1, wall);
    let next = Draft {
        from_slot: first_of_its_day,
        to_slot: first_of_its_day.plus(9),
        terms: meters.draft().terms,
        ..meters.next_draft()
    };
    let end = meters.slot_end(long);
    meters.publish_at(&next, end);
    meters.meters[0].handle(Input::Measured { slot: long, watts: 100 }, end);
    meters.meters[0].handle(Input::Tick, end.plus_secs(60));
    assert_eq!(meters.meters[0].refusals(), []);
    meters.measure(0, first_of_its_day, 100);
    meters.refused(0, &retry, wall, &Refusal::LedgerExhausted);
}

#[test]
fn a_lost_reveal_costs_an_attempt_and_the_next_one_decodes_exactly() {
    let mut world = World::new(10);
    let slot = world.first_slot();
    let end = world.slot_end(slot);
    world.gateway.handle(cluster::Input::Tick, end);
    for meter in 0..10 {
        for reading in world.measure(meter, slot, 100 << meter) {
            world.gateway.receive(&reading, end.plus_secs(31));
        }
    }
    let request = world.gateway.handle(cluster::Input::Connected, end.plus_secs(31)).pop().unwrap();
    for meter in 0..10 {
        let reveals = world.deliver(meter, &request, end.plus_secs(32));
        for reveal in reveals.iter().filter(|_| meter != 4) {
            world.gateway.receive(reveal, end.plus_secs(32));
        }
    }
    assert_eq!(world.gateway.outcomes, []);
    let closes = end.plus_secs(61);
    let retry = world.gateway.tick_until(closes).pop().unwrap();
    for meter in 0..10 {
        world.deliver(meter, &retry, closes.plus_secs(1));
        for reading in world.meters[meter].handle(Input::Tick, closes.plus_secs(31)) {
            world.gateway.receive(&reading, closes.plus_secs(31));
        }
    }
    let request = world.gateway.handle(cluster::Input::Connected, closes.plus_secs(31)).pop().unwrap();
    for meter in 0..10 {
        for reveal in world.deliver(meter, &request, closes.plus_secs(32)) {
            world.gateway.receive(&reveal, closes.plus_secs(32));
        }
    }
    let outcome = world.gateway.outcomes[0];
    // Without the member whose reveal was lost: it is left out of the next attempt.
    let others = (0..10).filter(|&meter| meter != 4);
    assert_eq!(outcome.result.unwrap().watts(), others.map(|meter| (100i64 << meter).min(5000)).sum::<i64>());
    assert_eq!((outcome.attempts, outcome.responders), (2, 9));
    for node in &world.meters {
        assert_eq!(node.meter.spent(end), 2_000_000, "both attempts are charged");
    }
}
