//! A gateway that wants more of a day than its rho allows: by load, retries, lists, crashes and clocks.

use dream_protocol::day::DayCost;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, Key, Notice, Output, Record, Refusal};
use dream_protocol::params::Terms;
use dream_protocol::policy::PolicyError;
use dream_protocol::simulation::{Accounting, Simulation};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{Message as _, Retry};
use dream_testkit::now;
use rand_chacha::rand_core::Rng as _;

use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE};
use crate::support::{at, cluster_id, rng};

/// The first slot after midnight; lists begin in the morning of the day before.
const MIDNIGHT: Slot = Slot(20_695 * 144);

/// Rho of a day in millionths, and the squares that it pays for: lambda is 5,000 W.
const RHO: u64 = 2_000_000;
const SQUARES: i64 = 2 * 5000 * 5000;

fn home() -> Liar {
    stating(RHO, NO_NOISE)
}

fn stating(rho: u64, simulation: Simulation) -> Liar {
    Liar::with(10, 2, 1, |_| {}, |draft| draft.terms.day_micro_rho = rho, simulation)
}

/// Measures a slot and returns what its message hides.
fn hide(meters: &mut Liar, slot: Slot, watts: i64) -> i64 {
    meters.measure(0, slot, watts);
    let hidden = meters.meters[0].meter.take_hidden().expect("an attempt was made");
    assert_eq!((hidden.slot, hidden.share), (slot, 0));
    hidden.watts
}

/// Measures the same in every slot, and returns what is reported.
fn report(meters: &mut Liar, from: Slot, to: Slot, watts: i64) -> Vec<i64> {
    slots(from, to).map(|slot| hide(meters, slot, watts)).collect()
}

fn slots(from: Slot, to: Slot) -> impl Iterator<Item = Slot> {
    (from.0..to.0).map(Slot)
}

fn squares(reported: &[i64]) -> i64 {
    reported.iter().map(|watts| watts * watts).sum()
}

/// Asserts that these reports use what an account holds, and no more.
#[track_caller]
fn assert_uses_up(reported: &[i64], whole: i64) {
    let found = squares(reported);
    assert!(found <= whole && found > whole - whole / 1000, "{found} of {whole}");
}

fn cost(meters: &Liar, at: Timestamp) -> DayCost {
    meters.meters[0].meter.day_cost(at)
}

#[test]
fn a_home_that_is_never_off_uses_up_its_day_evenly_and_is_never_silent() {
    let mut meters = home();
    let today = report(&mut meters, FIRST, MIDNIGHT, 9000);
    let tomorrow = report(&mut meters, MIDNIGHT, MIDNIGHT.plus(64), 9000);
    assert_uses_up(&today, SQUARES);
    assert_eq!(today[0], (4 * SQUARES / i64::try_from(today.len()).unwrap()).isqrt(), "four times its even part");
    assert_eq!(tomorrow[0], (4 * SQUARES / 144).isqrt(), "the account is there for every day");
    for reported in [today, tomorrow] {
        assert!(reported.is_sorted_by(|one, next| one >= next));
    }
}

#[test]
fn a_day_without_its_account_is_a_test_that_can_fail() {
    let mut meters = stating(RHO, Simulation { day_account: Accounting::Off, ..NO_NOISE });
    assert!(report(&mut meters, FIRST, FIRST.plus(40), 9000).iter().all(|&watts| watts == 5000));
}

#[test]
fn readings_that_may_be_negative_cost_twice_as_much() {
    let reported = |day_account| {
        let signed = |draft: &mut Draft| (draft.terms.lo, draft.terms.day_micro_rho) = (-5000, RHO);
        let mut meters = Liar::with(10, 2, 1, |_| {}, signed, Simulation { day_account, ..NO_NOISE });
        slots(FIRST, MIDNIGHT)
            .map(|slot| hide(&mut meters, slot, if slot.0 % 3 == 0 { 9000 } else { -9000 }))
            .collect::<Vec<_>>()
    };
    // Lambda is 10,000 W here.
    assert_uses_up(&reported(Accounting::Right), 4 * SQUARES / 2);
    assert_uses_up(&reported(Accounting::SignedAtHalf), 4 * SQUARES);
}

#[test]
fn every_retry_draws_on_the_account_again() {
    let mut meters = home();
    let mut reported = Vec::new();
    for slot in slots(FIRST, MIDNIGHT) {
        reported.push(hide(&mut meters, slot, 4000));
        let wall = meters.slot_end(slot).plus_secs(200);
        let (_, refusals) = meters.tell(0, &meters.retry(slot, 1, wall), wall);
        assert_eq!(refusals, []);
        reported.push(meters.meters[0].meter.take_hidden().unwrap().watts);
    }
    assert_uses_up(&reported, SQUARES);
}

#[test]
fn around_midnight_two_days_are_open_and_each_has_its_own_account() {
    let mut meters = home();
    let last = Slot(MIDNIGHT.0 - 1);
    let mut today = report(&mut meters, FIRST, last, 9000);
    today.push(hide(&mut meters, last, 5000));
    let none = DayCost { micro_epsilon: 0, micro_rho: 0 };
    assert_eq!(
        cost(&meters, meters.slot_end(last)),
        none,
        "nothing of the new day yet, though it was reported after midnight"
    );
    // A retry of the old day's last slot, while a slot of the new day runs.
    let wall = meters.slot_end(last).plus_secs(300);
    assert_eq!(meters.tell(0, &meters.retry(last, 1, wall), wall).1, []);
    today.push(meters.meters[0].meter.take_hidden().unwrap().watts);
    assert_uses_up(&today, SQUARES);
    let (before, reserved) = (at(MIDNIGHT.0 * 600 - 1), DayCost { micro_epsilon: 0, micro_rho: RHO });
    assert_eq!(cost(&meters, before), reserved);
    let closes = meters.slot_end(MIDNIGHT);
    assert_eq!(meters.meters[0].meter.deadline().map(|due| due <= closes), Some(true), "it wakes up to erase");
    assert_eq!(hide(&mut meters, MIDNIGHT, 5000), (4 * SQUARES / 144).isqrt());
    assert_eq!(cost(&meters, before), none, "erased when the day's last slot was closed");
    assert_eq!(cost(&meters, closes), reserved);
}

#[test]
fn an_account_is_erased_though_nothing_is_reported_and_a_clock_put_back_finds_the_day_closed() {
    let mut meters = home();
    report(&mut meters, FIRST, FIRST.plus(36), 5000);
    let closed = at((MIDNIGHT.0 + 1) * 600);
    meters.meters[0].handle(Input::Tick, closed);
    assert_eq!(cost(&meters, at(MIDNIGHT.0 * 600 - 1)).micro_rho, 0);
    meters.restart(0, |_| true);
    let evening = Slot(MIDNIGHT.0 - 20);
    let end = meters.slot_end(evening);
    meters.meters[0].handle(Input::Measured { slot: evening, watts: 5000 }, end);
    assert_eq!(meters.meters[0].refusals(), [Refusal::AlreadyReported]);
}

#[test]
fn a_list_of_a_larger_rho_waits_for_the_next_day() {
    let mut meters = stating(RHO / 4, NO_NOISE);
    let mut today = vec![hide(&mut meters, FIRST, 500)];
    let mut larger = Draft { from_slot: FIRST.plus(3), to_slot: FIRST.plus(140), ..meters.next_draft() };
    larger.terms.day_micro_rho = RHO;
    meters.publish_at(&larger, meters.slot_end(FIRST).plus_secs(60));
    today.extend(report(&mut meters, FIRST.plus(3), MIDNIGHT, 5000));
    assert_uses_up(&today, SQUARES / 4);
    assert_eq!(hide(&mut meters, MIDNIGHT, 5000), (4 * SQUARES / 144).isqrt());
}

#[test]
fn a_list_that_is_held_before_the_first_slot_of_a_day_binds_it_and_a_smaller_one_gets_less() {
    let mut meters = home();
    let mut smaller = Draft { from_slot: FIRST.plus(10), to_slot: FIRST.plus(40), ..meters.next_draft() };
    smaller.terms.day_micro_rho = RHO / 4;
    meters.publish(&smaller);
    let first = report(&mut meters, FIRST, FIRST.plus(10), 2500);
    assert_eq!(cost(&meters, at(FIRST.0 * 600)).micro_rho, RHO);
    assert!(squares(&first) > SQUARES / 4);
    assert!(report(&mut meters, FIRST.plus(10), FIRST.plus(40), 2500).iter().all(|&watts| watts == 0));
}

#[test]
fn rho_and_epsilon_of_a_day_each_have_their_own_limit() {
    let plain = |draft: &mut Draft| {
        draft.terms = Terms { day_micro_rho: 0, epsilon_numerator: 2, epsilon_denominator: 3, ..draft.terms };
    };
    let mut meters = Liar::with(10, 2, 1, |policy| policy.day_micro_rho = RHO, plain, NO_NOISE);
    let turn = FIRST.plus(43);
    let whole = report(&mut meters, FIRST, turn, 9000);
    assert!(whole.iter().all(|&watts| watts == 5000), "without rho nothing is held back");
    let mut too_much = Draft { from_slot: turn, to_slot: FIRST.plus(140), ..meters.next_draft() };
    too_much.terms.day_micro_rho = RHO + 1;
    let packet = too_much.sign(&meters.identity);
    let (_, refusals) = meters.tell(0, &packet, at(turn.0 * 600 - 800));
    assert_eq!(refusals, [Refusal::Policy(PolicyError::DayRho { most: RHO, found: RHO + 1 })]);
    let mut stated = too_much;
    stated.terms.day_micro_rho = RHO;
    meters.publish_at(&stated, at(turn.0 * 600 - 700));
    assert_uses_up(&report(&mut meters, turn, MIDNIGHT, 9000), SQUARES * 9 / 4);
    let found = cost(&meters, at(FIRST.0 * 600));
    assert_eq!(found, DayCost { micro_epsilon: 43 * 666_667, micro_rho: RHO }, "and they are not added");
}

/// What can be seen of a meter from outside, and when it wakes up: everything but the bytes of its messages.
fn seen_of(watts: i64) -> Vec<String> {
    let mut meters = stating(RHO, Simulation::default());
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

/// Every lambda below divides this.
const MULTIPLE: i128 = 1_440_000;

/// A rho of one, in units that the square of every lambda below divides.
const ONE: i128 = MULTIPLE * MULTIPLE;

/// What came of a day on which anything may happen.
struct AnyDay {
    /// What the reported readings cost, and what was reserved.
    used: i128,
    whole: i128,
    /// How many attempts the account held back, how many were retries, and how many readings could have been negative.
    held_back: u32,
    retries: u32,
    signed: u32,
}

/// Slots, retries, lists of any range, epsilon and rho, whose readings may be negative or not, and crashes between any two
/// outputs, until midnight. Adds up what could have left the meter, exactly.
fn any_day(seed: u64, day_account: Accounting) -> AnyDay {
    let mut dice = rng(seed);
    let mut below = move |limit: u32| dice.next_u32() % limit;
    let rho = |choice: u32| [200_000, 500_000, 900_000][choice as usize];
    let reserved = rho(below(3));
    let first = |draft: &mut Draft| draft.terms.day_micro_rho = reserved;
    let simulation = Simulation { day_account, ..NO_NOISE };
    let mut meters = Liar::with(10, 2, 1, |policy| policy.daily_micro_epsilon = u64::MAX, first, simulation);
    let mut lists = vec![meters.list().clone()];
    let whole = i128::from(reserved) * (ONE / 1_000_000);
    let mut day = AnyDay { used: 0, whole, held_back: 0, retries: 0, signed: 0 };
    for slot in slots(FIRST, MIDNIGHT) {
        if lists.last().is_some_and(|newest| newest.from_slot().plus(2) < slot) && below(6) == 0 {
            let mut draft = Draft { from_slot: slot.plus(2), to_slot: FIRST.plus(140), ..meters.next_draft() };
            let (lo, hi) = [(0, 5000), (-4500, 4500), (0, 3000), (-8000, 8000)][below(4) as usize];
            let day_micro_rho = rho(below(3));
            let epsilon_numerator = 1 + u64::from(below(2));
            draft.terms = Terms { lo, hi, epsilon_numerator, epsilon_denominator: 2, day_micro_rho, ..draft.terms };
            let packet = draft.sign(&meters.identity);
            let list = MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap();
            // Nobody asks for reveals here, of which the meter may tell besides.
            meters.meters[0].refusals();
            meters.meters[0].handle(Input::List(list.clone()), at(slot.0 * 600 + 30));
            assert_eq!(meters.meters[0].refusals(), []);
            meters.list = Some(list.clone());
            lists.push(list);
        }
        let list = lists.iter().rev().find(|list| list.covers(slot)).unwrap();
        let (params, watts) = (list.params(), i64::from(below(20_000)) - 6000);
        for attempt in 0..=u8::from(below(3) == 0) {
            let wall = params.slot_end(slot).plus_secs(u64::from(attempt) * 200);
            let retry = Retry { list: *list.hash(), slot, attempt, deadline: wall.plus_secs(60).as_secs() };
            let topic = GatewayChannel::Retry.topic(&cluster_id());
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
                let lambda = i128::from(params.sensitivity() * terms.epsilon_denominator / terms.epsilon_numerator);
                assert_eq!(MULTIPLE % lambda, 0, "the test itself is exact");
                let weight = if terms.lo < 0 { 2 } else { 1 };
                day.used += weight * i128::from(hidden.watts).pow(2) * (ONE / lambda.pow(2));
                day.held_back += u32::from(hidden.watts != watts.clamp(terms.lo, terms.hi));
                day.retries += u32::from(attempt);
                day.signed += u32::from(terms.lo < 0 && hidden.watts != 0);
            }
            if crash {
                meters.restart(0, |_| true);
            }
        }
    }
    assert_eq!(cost(&meters, at(FIRST.0 * 600)).micro_rho, reserved, "the first list binds the day");
    day
}

#[test]
fn no_crash_retry_or_list_takes_more_than_rho_out_of_a_day() {
    let days: Vec<AnyDay> = (0..60).map(|seed| any_day(seed, Accounting::Right)).collect();
    for (seed, AnyDay { used, whole, held_back, retries, .. }) in days.iter().enumerate() {
        assert!(used <= whole, "{seed}: {used} units of {whole}");
        assert!(*held_back > 10 && *retries > 10, "{seed}: {held_back} {retries}");
    }
    let most = |which: fn(&AnyDay) -> bool| days.iter().filter(|day| which(day)).count() > days.len() / 2;
    assert!(most(|day| day.used > day.whole * 9 / 10), "nearly all is used");
    assert!(most(|day| day.signed > 5), "lists of both kinds draw on one account");
}

#[test]
fn such_days_take_more_without_their_account_or_where_signed_readings_cost_half() {
    for broken in [Accounting::Off, Accounting::SignedAtHalf] {
        let more = |seed| any_day(seed, broken);
        assert!((0..20).map(more).filter(|day| day.used > day.whole).count() > 10, "{broken:?}");
    }
}
