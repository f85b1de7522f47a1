//! What a gateway might read from the outside of messages, or from a meter whose random source fails.

use dream_protocol::meter::{Input, Refusal};
use dream_protocol::simulation::Simulation;
use dream_protocol::topic::MeterChannel;
use rand_chacha::ChaCha20Rng;

use crate::support::liar::{FIRST, Liar, NO_NOISE, on, reading_in};
use crate::support::pki::Pki;
use crate::support::rng;

/// The ciphertext and the moment of a reading, by a meter whose random source stands still.
fn reported(watts: i64, source: &ChaCha20Rng) -> (u64, Option<u64>, usize) {
    let mut meters = Liar::with(10, 2, 1, |_| {}, |_| {}, NO_NOISE);
    meters.meters[0].rng = source.clone();
    let end = meters.slot_end(FIRST);
    let node = &mut meters.meters[0];
    node.handle(Input::Measured { slot: FIRST, watts }, end);
    let moment = node.meter.deadline().map(|deadline| deadline.millis_since(end));
    let sent = on(MeterChannel::Reading, &node.handle(Input::Tick, end.plus_secs(30)));
    let [reading] = sent.as_slice() else { panic!("one reading, not {}", sent.len()) };
    (reading_in(reading).ciphertext, moment, reading.payload.len())
}

#[test]
fn length_and_moment_of_a_reading_tell_nothing_of_its_value() {
    let source = rng(7);
    let (_, moment, len) = reported(0, &source);
    assert!(moment.is_some_and(|moment| moment <= 30_000), "in the first half of the window");
    assert_eq!(len, 43);
    for watts in [1, 23, 24, 255, 256, 9000, 9001, i64::MAX, -1, i64::MIN] {
        let (_, at, size) = reported(watts, &source);
        assert_eq!((at, size), (moment, len), "{watts} W");
    }
}

#[test]
fn a_random_source_that_stands_still_does_not_give_away_differences_of_readings() {
    let source = rng(7);
    let (first, ..) = reported(1000, &source);
    let (again, ..) = reported(1000, &source);
    let (second, ..) = reported(1001, &source);
    assert_eq!(first, again, "the source does stand still");
    assert!(second.wrapping_sub(first).cast_signed().unsigned_abs() > 1 << 40);
}

#[test]
fn a_list_that_a_stricter_policy_refuses_is_dropped_at_the_next_start() {
    let mut meters = Liar::new(10, 2, 1);
    meters.policy.max_attempts = 1;
    meters.restart(0, |_| true);
    let end = meters.slot_end(FIRST);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, end);
    assert!(on(MeterChannel::Reading, &sent).is_empty());
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
}

#[test]
fn an_input_that_is_printed_says_nothing_of_the_reading() {
    let printed = format!("{:?}", Input::Measured { slot: FIRST, watts: 4321 });
    assert!(!printed.contains("4321"), "{printed}");
}

#[test]
fn a_list_of_an_authority_that_was_removed_is_dropped_at_the_next_start() {
    let mut meters = Liar::new(10, 2, 1);
    let other = Pki::named("another authority");
    meters.policy.authorities = other.authorities();
    let mut config = meters.config(0);
    let issued = other.meter("m-0000");
    (config.identity, config.certificate) = (issued.identity(), issued.der.clone());
    meters.meters[0].restart(config, NO_NOISE);
    let end = meters.slot_end(FIRST);
    meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, end);
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
}

#[test]
fn the_noise_of_a_slot_is_drawn_before_the_slot_ends() {
    // Sampling takes a time that depends on the noise: after the end of a slot, the moment of sending could tell it.
    let share = |late: u64| {
        let mut meters = Liar::with(10, 2, 1, |_| {}, |_| {}, Simulation::default());
        let (start, end) = (meters.list().params().slot_start(FIRST), meters.slot_end(FIRST));
        let node = &mut meters.meters[0];
        node.handle(Input::Tick, start);
        node.rng = rng(late);
        node.handle(Input::Measured { slot: FIRST, watts: 100 }, end);
        node.meter.take_hidden().unwrap().share
    };
    assert_eq!(share(1), share(2), "what the random source gives after the end is no part of the noise");
}
