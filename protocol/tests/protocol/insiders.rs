//! Members and a gateway that hold keys say what they like with them: no machine panics, contradicts itself or is lost.

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
