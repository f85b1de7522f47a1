//! A gateway that wants more of a day than its epsilon allows: by load, retries, lists, crashes and clocks.

use dream_protocol::meter::{Input, Key, Notice, Output, Record, Refusal};
use dream_protocol::params::Terms;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{Message as _, Retry};
use dream_testkit::now;
use rand_chacha::rand_core::Rng as _;

use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE, on};
use crate::support::{at, cluster_id, rng};

/// The first slot after midnight; lists begin in the morning of the day before.
const MIDNIGHT: Slot = Slot(20_695 * 144);

/// Half of 72 times lambda: what a day reports, in watts of ten minutes.
const HALF: i64 = 180_000;

fn home() -> Liar {
    Liar::new(10, 2, 1)
}

/// Measures a slot and returns what its message hides.
fn hide(meters: &mut Liar, slot: Slot, watts: i64) -> i64 {
    meters.measure(0, slot, watts);
    let hidden = meters.meters[0].meter.take_hidden().expect("an attempt was made");
    assert_eq!((hidden.slot, hidden.share), (slot, 0));
    hidden.watts
}

/// Uses up the account of the first day.
fn use_up(meters: &mut Liar) {
    assert!(slots(FIRST, FIRST.plus(36)).all(|slot| hide(meters, slot, 5000) == 5000));
}

fn slots(from: Slot, to: Slot) -> impl Iterator<Item = Slot> {
    (from.0..to.0).map(Slot)
}

#[test]
fn a_home_that_is_never_off_reports_half_of_e_and_is_never_silent() {
    let mut meters = home();
    let mut day = |from, to| slots(from, to).map(|slot| hide(&mut meters, slot, 9000)).collect::<Vec<_>>();
    let (today, tomorrow) = (day(FIRST, MIDNIGHT), day(MIDNIGHT, MIDNIGHT.plus(60)));
    for reported in [today, tomorrow] {
        assert!(reported[..36].iter().all(|&watts| watts == 5000), "the account is there for every day");
        assert!(reported[36..].iter().all(|&watts| watts == 0), "a slot counts for the day in which it starts");
    }
}

#[test]
fn a_day_without_its_account_is_a_test_that_can_fail() {
    let simulation = Simulation { energy_account: false, ..NO_NOISE };
    let mut meters = Liar::with(10, 2, 1, |_| {}, |_| {}, simulation);
    assert!(slots(FIRST, FIRST.plus(40)).all(|slot| hide(&mut meters, slot, 9000) == 5000));
}

#[test]
fn every_retry_draws_on_the_account_again() {
    let mut meters = home();
    let mut reported = 0;
    for slot in slots(FIRST, MIDNIGHT) {
        reported += hide(&mut meters, slot, 4000);
        let wall = meters.slot_end(slot).plus_secs(200);
        let (_, refusals) = meters.tell(0, &meters.retry(slot, 1, wall), wall);
        assert_eq!(refusals, []);
        reported += meters.meters[0].meter.take_hidden().unwrap().watts;
    }
    assert_eq!(reported, HALF, "22 slots twice, and what is left");
}

#[test]
fn around_midnight_two_days_are_open_and_each_has_its_own_account() {
    let mut meters = home();
    use_up(&mut meters);
    let last = Slot(MIDNIGHT.0 - 1);
    assert_eq!(hide(&mut meters, last, 5000), 0, "reported after midnight, for the day before");
    assert_eq!(meters.meters[0].meter.day_cost(meters.slot_end(last)), 0, "nothing of the new day yet");
    // A retry of the old day's last slot, while a slot of the new day runs.
    let wall = meters.slot_end(last).plus_secs(300);
    assert_eq!(meters.tell(0, &meters.retry(last, 1, wall), wall).1, []);
    assert_eq!(meters.meters[0].meter.take_hidden().unwrap().watts, 0);
    let before = at(MIDNIGHT.0 * 600 - 1);
    assert_eq!(meters.meters[0].meter.day_cost(before), 72_000_000);
    let closes = meters.slot_end(MIDNIGHT);
    assert_eq!(meters.meters[0].meter.deadline().map(|due| due <= closes), Some(true), "it wakes up to erase");
    assert_eq!(hide(&mut meters, MIDNIGHT, 5000), 5000);
    assert_eq!(meters.meters[0].meter.day_cost(before), 0, "erased when the day's last slot was closed");
    assert_eq!(meters.meters[0].meter.day_cost(closes), 72_000_000);
}

#[test]
fn an_account_is_erased_though_nothing_is_reported_and_a_clock_put_back_finds_the_day_closed() {
    let mut meters = home();
    use_up(&mut meters);
    let closed = at((MIDNIGHT.0 + 1) * 600);
    meters.meters[0].handle(Input::Tick, closed);
    assert_eq!(meters.meters[0].meter.day_cost(at(MIDNIGHT.0 * 600 - 1)), 0);
    meters.restart(0, |_| true);
    let evening = Slot(MIDNIGHT.0 - 20);
    let end = meters.slot_end(evening);
    meters.meters[0].handle(Input::Measured { slot: evening, watts: 5000 }, end);
    assert_eq!(meters.meters[0].refusals(), [Refusal::AlreadyReported]);
}

#[test]
fn a_list_of_a_larger_epsilon_waits_for_the_next_day() {
    let change = |draft: &mut Draft| draft.terms.day_micro_epsilon = 2_000_000;
    let mut meters = Liar::with(10, 2, 1, |_| {}, change, NO_NOISE);
    assert_eq!(hide(&mut meters, FIRST, 3000), 3000);
    let mut larger = Draft { from_slot: FIRST.plus(3), to_slot: FIRST.plus(140), ..meters.next_draft() };
    larger.terms.day_micro_epsilon = 72_000_000;
    meters.publish_at(&larger, meters.slot_end(FIRST).plus_secs(60));
    let rest: i64 = slots(FIRST.plus(3), MIDNIGHT).map(|slot| hide(&mut meters, slot, 5000)).sum();
    assert_eq!(rest, 2000, "the day reserved 2 before its first slot");
    let next: i64 = slots(MIDNIGHT, MIDNIGHT.plus(60)).map(|slot| hide(&mut meters, slot, 5000)).sum();
    assert_eq!(next, HALF);
}

#[test]
fn a_list_that_is_held_before_the_first_slot_of_a_day_binds_it_and_a_smaller_one_gets_less() {
    let mut meters = home();
    let mut smaller = Draft { from_slot: FIRST.plus(10), to_slot: FIRST.plus(40), ..meters.next_draft() };
    smaller.terms.day_micro_epsilon = 12_000_000;
    meters.publish(&smaller);
    let first: i64 = slots(FIRST, FIRST.plus(10)).map(|slot| hide(&mut meters, slot, 2500)).sum();
    assert_eq!((first, meters.meters[0].meter.day_cost(at(FIRST.0 * 600))), (25_000, 72_000_000));
    let second: i64 = slots(FIRST.plus(10), FIRST.plus(40)).map(|slot| hide(&mut meters, slot, 2500)).sum();
    assert_eq!(second, 5000, "the day is beyond six lambda");
}

#[test]
fn a_day_of_both_kinds_of_lists_stays_within_the_limit() {
    let plain = |draft: &mut Draft| {
        draft.terms = Terms { day_micro_epsilon: 0, epsilon_numerator: 2, epsilon_denominator: 3, ..draft.terms };
    };
    let mut meters = Liar::with(10, 2, 1, |_| {}, plain, NO_NOISE);
    let turn = FIRST.plus(43);
    assert!(slots(FIRST, turn).all(|slot| hide(&mut meters, slot, 9000) == 5000), "without E nothing is held back");
    assert_eq!(meters.meters[0].meter.day_cost(at(FIRST.0 * 600)), 43 * 666_667);
    let mut stated = Draft { from_slot: turn, to_slot: FIRST.plus(140), ..meters.next_draft() };
    stated.terms.day_micro_epsilon = 72_000_000;
    meters.publish_at(&stated, at(turn.0 * 600 - 700));
    let sent = meters.try_measure(0, turn, 100);
    assert_eq!(meters.meters[0].refusals(), [Refusal::LedgerExhausted], "28.7 and 72 are more than 100");
    assert_eq!(on(MeterChannel::Reading, &sent), []);
    assert_eq!(hide(&mut meters, MIDNIGHT, 100), 100);
}

/// What can be seen of a meter from outside, and when it wakes up: everything but the bytes of its messages.
fn seen_of(watts: i64) -> Vec<String> {
    let mut meters = Liar::with(10, 2, 1, |_| {}, |_| {}, Simulation::default());
    let mut seen = Vec::new();
    for slot in slots(FIRST, MIDNIGHT.plus(10)) {
        let end = meters.slot_end(slot);
        let request = meters.request(slot, 1, &[3]);
        let retry = meters.retry(slot, 1, end.plus_secs(150));
        let node = &mut meters.meters[0];
        let mut step = |input: Input<'_>, wall: Timestamp| {
            let sent = node.handle(input, wall);
            let notices: Vec<Notice> = node.notices.drain(..).collect();
            let sent: Vec<(String, usize)> = sent.into_iter().map(|one| (one.topic, one.payload.len())).collect();
            let account = node.store[&Key::Account].len();
            seen.push(format!("{wall:?} {sent:?} {notices:?} {:?} {account}", node.meter.deadline()));
        };
        step(Input::Measured { slot, watts }, end);
        step(Input::Tick, end.plus_secs(30));
        if slot.0.is_multiple_of(3) {
            step(Input::Message { topic: &retry.topic, payload: &retry.payload }, end.plus_secs(150));
            step(Input::Tick, end.plus_secs(200));
            step(Input::Message { topic: &request.topic, payload: &request.payload }, end.plus_secs(220));
        }
    }
    seen
}

#[test]
fn nothing_that_leaves_a_meter_tells_whether_its_account_is_used_up() {
    let empty = seen_of(0);
    assert!(empty.iter().any(|step| step.contains("Answered")) && empty.len() > 200);
    assert_eq!(empty, seen_of(9000));
}

/// Every lambda below divides this many units of an epsilon.
const UNITS: i128 = 1_440_000;

/// Slots, retries, lists of any range, epsilon and E, and crashes between any two outputs, until midnight. Adds up what could
/// have left the meter, exactly; returns that, the E that was reserved, and how many attempts the account held back.
fn any_day(seed: u64) -> (i128, u64, u32) {
    let mut dice = rng(seed);
    let mut below = move |limit: u32| dice.next_u32() % limit;
    let reserved = [4, 10, 30][below(3) as usize] * 1_000_000;
    let first = |draft: &mut Draft| draft.terms.day_micro_epsilon = reserved;
    let mut meters = Liar::with(10, 2, 1, |policy| policy.daily_micro_epsilon = u64::MAX, first, NO_NOISE);
    let mut lists = vec![meters.list().clone()];
    let (mut used, mut held_back) = (0, 0);
    for slot in slots(FIRST, MIDNIGHT) {
        if lists.last().is_some_and(|newest| newest.from_slot().plus(2) < slot) && below(6) == 0 {
            let mut draft = Draft { from_slot: slot.plus(2), to_slot: FIRST.plus(140), ..meters.next_draft() };
            let (lo, hi) = [(0, 5000), (-4500, 4500), (0, 3000), (-8000, 8000)][below(4) as usize];
            let day_micro_epsilon = [4, 10, 30][below(3) as usize] * 1_000_000;
            let epsilon_numerator = 1 + u64::from(below(2));
            draft.terms = Terms { lo, hi, epsilon_numerator, epsilon_denominator: 2, day_micro_epsilon, ..draft.terms };
            meters.publish_at(&draft, at(slot.0 * 600 + 30));
            lists.push(meters.list().clone());
        }
        let list = lists.iter().rev().find(|list| list.covers(slot)).unwrap();
        let (params, watts) = (list.params(), i64::from(below(20_000)) - 6000);
        for attempt in 0..=u8::from(below(3) == 0) {
            let wall = params.slot_end(slot).plus_secs(u64::from(attempt) * 200);
            let retry = Retry { list: *list.hash(), slot, attempt, deadline: wall.plus_secs(60).as_secs() };
            let topic = GatewayChannel::Recovery.topic(&cluster_id());
            let payload = retry.seal(&meters.identity.identity(), &topic);
            let input = match attempt {
                0 => Input::Measured { slot, watts },
                _ => Input::Message { topic: &topic, payload: &payload },
            };
            let node = &mut meters.meters[0];
            node.meter.handle(input, now(wall), &mut node.rng);
            let outputs: Vec<Output> = std::iter::from_fn(|| node.meter.poll()).collect();
            let crash = below(5) == 0;
            let kept = if crash { below(u32::try_from(outputs.len()).unwrap() + 1) as usize } else { outputs.len() };
            let recorded = outputs[..kept].iter().any(|one| matches!(one, Output::Persist(Record::Slot(_))));
            let hidden = node.meter.take_hidden().filter(|_| recorded);
            outputs.into_iter().take(kept).for_each(|output| drop(node.carry_out(output)));
            if let Some(hidden) = hidden {
                let terms = params.terms();
                let cost = i128::from(hidden.watts.abs()) * i128::from(terms.epsilon_numerator) * UNITS;
                let lambda = i128::from(params.sensitivity() * terms.epsilon_denominator);
                assert_eq!(cost % lambda, 0, "the test itself is exact");
                used += cost / lambda;
                held_back += u32::from(hidden.watts != watts.clamp(terms.lo, terms.hi));
            }
            if crash {
                meters.restart(0, |_| true);
            }
        }
    }
    assert_eq!(meters.meters[0].meter.day_cost(at(FIRST.0 * 600)), reserved, "the first list binds the day");
    (used, reserved, held_back)
}

#[test]
fn no_crash_retry_or_list_takes_more_than_half_of_e_out_of_a_day() {
    let (mut nearly_all, days) = (0, 60);
    for seed in 0..days {
        let (used, reserved, held_back) = any_day(seed);
        let half = i128::from(reserved / 1_000_000) * UNITS / 2;
        assert!(used <= half, "{seed}: {used} units of {half}");
        assert!(held_back > 10, "{seed}: {held_back}");
        nearly_all += u64::from(used > half * 9 / 10);
    }
    assert!(nearly_all > days / 2, "it is nearly all used in {nearly_all} of {days} days");
}
