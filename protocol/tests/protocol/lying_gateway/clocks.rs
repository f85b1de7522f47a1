//! Clocks that go back or ahead, as a gateway that also serves the time could make them.

use dream_protocol::meter::{Input, Refusal};
use dream_protocol::time::{Now, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::StatusCode;

use crate::support::liar::{FIRST, Liar, on};
use crate::support::{at, now};

#[test]
fn a_clock_set_back_an_hour_reports_no_time_twice() {
    let mut meters = Liar::new(10, 2, 1);
    for slot in 0..8 {
        meters.measure(0, FIRST.plus(slot), 100);
    }
    let ended = meters.slot_end(FIRST.plus(7));
    let spent = meters.meters[0].meter.spent(ended);
    // The monotonic clock goes on while the wall clock goes over the last hour again.
    let mut monotonic = ended.plus_secs(30).as_millis();
    for slot in 1..8 {
        let wall = meters.slot_end(FIRST.plus(slot));
        monotonic += 600_000;
        let now = Now { wall, monotonic_millis: monotonic };
        let sent = meters.meters[0].handle_at(Input::Measured { slot: FIRST.plus(slot), watts: 200 }, now);
        assert_eq!(meters.meters[0].refusals(), [Refusal::AlreadyReported], "slot {slot}");
        assert_eq!(on(MeterChannel::Reading, &sent), []);
    }
    assert_eq!(meters.meters[0].meter.spent(ended), spent, "nothing is charged");
    // The first slot that was not reported is, and once only.
    let next = meters.slot_end(FIRST.plus(8));
    let now = Now { wall: next, monotonic_millis: monotonic + 600_000 };
    meters.meters[0].handle_at(Input::Measured { slot: FIRST.plus(8), watts: 200 }, now);
    assert_eq!(meters.meters[0].refusals(), []);
}

#[test]
fn a_clock_set_back_across_a_restart_reports_no_time_twice() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    meters.measure(0, FIRST.plus(1), 100);
    meters.restart(0, |_| true);
    let end = meters.slot_end(FIRST);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 5000 }, end);
    assert_eq!(meters.meters[0].refusals(), [Refusal::AlreadyReported]);
    assert_eq!(on(MeterChannel::Reading, &sent), []);
}

#[test]
fn a_clock_a_day_ahead_silences_the_meter_until_the_time_is_confirmed() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let end = meters.slot_end(FIRST);
    let asked_at = end.plus_secs(61);
    let ahead = Now { wall: asked_at.plus_secs(86_400), monotonic_millis: asked_at.as_millis() };
    let store = meters.meters[0].store.clone();

    assert_eq!(meters.meters[0].handle_at(Input::Tick, ahead), [], "not even what a tick would close");
    assert_eq!(meters.meters[0].meter.deadline(), None);
    let request = meters.request(FIRST, 0, &[]);
    let retry = meters.retry(FIRST, 1, ahead.wall);
    let tomorrow = FIRST.plus(144);
    let packets = [request.clone(), retry, meters.next_draft().sign(&meters.identity)];
    let mut inputs: Vec<Input<'_>> =
        packets.iter().map(|packet| Input::Message { topic: &packet.topic, payload: &packet.payload }).collect();
    inputs.push(Input::Measured { slot: tomorrow, watts: 100 });
    inputs.push(Input::List(meters.list().clone()));
    let mut codes = Vec::new();
    for input in inputs {
        let sent = meters.meters[0].handle_at(input, ahead);
        codes.extend(meters.codes(0, &sent));
        assert_eq!(meters.meters[0].refusals(), [Refusal::ClockDoubtful]);
    }
    assert_eq!(codes, [StatusCode::ClockDoubtful], "said once");
    assert_eq!(meters.meters[0].store, store, "nothing was written or erased");

    // Setting the clock right is not enough: only a confirmation is.
    let (sent, refusals) = meters.tell(0, &request, asked_at.plus_secs(1));
    assert_eq!((sent, refusals), (vec![], vec![Refusal::ClockDoubtful]));
    meters.meters[0].handle(Input::TimeConfirmed, asked_at.plus_secs(2));
    let (sent, refusals) = meters.tell(0, &request, asked_at.plus_secs(3));
    assert_eq!((on(MeterChannel::Reveal, &sent).len(), refusals), (1, vec![]));
}

#[test]
fn a_wall_clock_that_keeps_step_or_lags_is_not_doubted() {
    let mut meters = Liar::new(10, 2, 1);
    let start = now(at(FIRST.0 * 600));
    let within = |wall: u64, monotonic: u64| Now {
        wall: Timestamp::from_millis(start.wall.as_millis() + wall),
        monotonic_millis: start.monotonic_millis + monotonic,
    };
    meters.meters[0].handle_at(Input::TimeConfirmed, start);
    for (wall, monotonic) in [(60_000, 0), (60_000, 1_000_000), (2_000_000, 3_000_000)] {
        meters.meters[0].handle_at(Input::Tick, within(wall, monotonic));
        assert!(meters.meters[0].meter.deadline().is_some(), "{wall} {monotonic}");
    }
    meters.meters[0].handle_at(Input::Tick, within(3_063_000, 3_000_000));
    assert!(meters.meters[0].meter.deadline().is_some(), "60 s and a thousandth ahead");
    meters.meters[0].handle_at(Input::Tick, within(3_063_001, 3_000_000));
    assert_eq!(meters.meters[0].meter.deadline(), None, "a millisecond more");
}

#[test]
fn small_steps_ahead_add_up_to_doubt() {
    let mut meters = Liar::new(10, 2, 1);
    let start = now(at(FIRST.0 * 600));
    meters.meters[0].handle_at(Input::TimeConfirmed, start);
    let stepped = |steps: u64| Now { wall: start.wall.plus_secs(30 * steps), ..start };
    let doubted = (0..5).find(|&steps| {
        meters.meters[0].handle_at(Input::Tick, stepped(steps));
        meters.meters[0].meter.deadline().is_none()
    });
    assert_eq!(doubted, Some(3));
}

#[test]
fn a_slot_is_not_reported_before_it_ends_or_after_the_next() {
    let mut meters = Liar::new(10, 2, 1);
    let end = meters.slot_end(FIRST);
    let early = Timestamp::from_millis(end.as_millis() - 1);
    let late = meters.slot_end(FIRST.plus(1));
    for (wall, rule) in [(early, Refusal::SlotNotOver), (late, Refusal::SlotOver)] {
        let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 1 }, wall);
        assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![rule]));
    }
}

#[test]
fn a_slot_measured_after_its_reading_window_is_held_for_a_retry_and_not_reported_twice() {
    let mut meters = Liar::new(10, 2, 1);
    let late = meters.slot_end(FIRST).plus_secs(60);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 1 }, late);
    assert_eq!((sent, meters.charges(0)), (vec![], 0));
    meters.refused(0, &meters.request(FIRST, 0, &[]), late, &Refusal::OtherAttempt);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 2 }, late);
    assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![Refusal::AlreadyReported]));
    let retry = meters.retry(FIRST, 1, late);
    assert_eq!(meters.tell(0, &retry, late).1, []);
    let sent = meters.meters[0].handle(Input::Tick, late.plus_secs(30));
    assert_eq!(on(MeterChannel::Reading, &sent).len(), 1);
}
