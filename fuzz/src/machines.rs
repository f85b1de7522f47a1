//! Whole clusters, in which the bytes decide what goes wrong.

use dream_testkit::simulation::{Dice, Run, Scenario};

/// Runs a small cluster over a simulated network. Every decision of the run comes from the bytes as long as there are any:
/// its scheme, faults, clocks and delays, what is forged and which records are damaged. The referee panics if a rule is broken.
pub fn machines(data: &[u8]) {
    let mut dice = Dice::from_bytes(data);
    let committee = dice.one_in(2);
    let scenario = Scenario::hostile(&mut dice);
    let scenario = if committee { scenario.in_committee(&mut dice) } else { scenario };
    Run::with_dice(scenario, dice, 0).finish();
}
