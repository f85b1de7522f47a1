//! The command `meter-sim`: simulated homes and meters for DREAM.
//!
//! The parts are crates of their own: `dream-homes` models households, `dream-fleet` runs meters over MQTT, and
//! `dream-study` computes errors and privacy. Here are the commands: [`run`] runs a fleet on a broker, `demo` adds a broker
//! and the real gateway, and `lie` plays a dishonest gateway against honest meters. [`trial`] compares what the gateway
//! publishes with the right sums, [`view`] prints it, and [`verdict`] says whether anything was wrong.
//!
//! The features `demo` and `lie` are on by default. Without them neither the gateway nor a broker is built.

#[cfg(feature = "broker")]
mod broker;
pub mod cli;
pub mod conduct;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(feature = "lie")]
pub mod lie;
pub mod provision;
pub mod run;
pub mod trace;
pub mod trial;
pub mod verdict;
pub mod view;
