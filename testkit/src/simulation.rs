//! Whole clusters over a simulated network in virtual time: loss, delay, duplication, crashes at every step, clocks that
//! jump. A [`Run`] is fixed by its [`Scenario`] and its seed, and is checked against every rule by a [`referee::Referee`].

mod fixture;
pub mod insider;
pub mod network;
pub mod referee;
pub mod run;
pub mod scenario;
pub mod tally;
mod witness;

pub use network::{Dice, Link, Node};
pub use run::Run;
pub use scenario::{Enrolments, Faults, Scenario, Timer};
pub use tally::Tally;
