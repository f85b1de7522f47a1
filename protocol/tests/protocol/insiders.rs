//! Members and a gateway that hold keys say what they like with them: no machine panics, contradicts itself or is lost.

use std::panic::catch_unwind;

use dream_protocol::simulation::Simulation;
use dream_protocol::wire::{Message as _, RecoveryMessage};
use dream_testkit::simulation::{Dice, insider};

/// Honest messages are heard as honest ones, in every order: the scenes would be empty otherwise.
#[test]
fn honest_messages_are_heard_in_any_order() {
    for mut said in insider::seeds() {
        for order in 0..4 {
            said[1] = order;
            insider::run(&said);
        }
    }
}

#[test]
fn payloads_that_are_changed_anywhere_are_taken_or_refused() {
    let mut dice = Dice::new(35);
    for seed in insider::seeds() {
        for _ in 0..40 {
            let mut said = seed.clone();
            said[1] = u8::try_from(dice.below(4)).unwrap();
            for _ in 0..=dice.below(3) {
                let at = 2 + dice.below(said.len() - 2);
                said[at] = u8::try_from(dice.below(256)).unwrap();
            }
            insider::run(&said);
        }
    }
}

/// A check of the check: two requests for one attempt, and meters that answer both.
#[test]
fn a_meter_that_answers_twice_is_noticed() {
    let mut asked = 0;
    for seed in insider::seeds().iter().filter(|seed| seed[1] == 1) {
        let Ok(RecoveryMessage::Request(mut request)) = RecoveryMessage::decode(&seed[2..]) else { continue };
        request.missing[0] ^= 0b10;
        let said = [&seed[..2], &request.payload()].concat();
        insider::run(&said);
        let twice = Simulation { one_answer: false, ..Simulation::default() };
        assert!(catch_unwind(|| insider::run_with(&said, twice)).is_err());
        asked += 1;
    }
    assert_eq!(asked, 2, "one of each scheme");
}
