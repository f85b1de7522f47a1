//! Simulated homes and meters for DREAM.
//!
//! [`trace`] writes down what the homes of `dream-homes` draw.
//!
//! [`provision`] makes the certificates of a trial, [`access`] and [`broker`] reach a broker or start one, and [`lie`] plays a
//! dishonest gateway against honest meters.
//!
//! [`fleet`] runs meters over MQTT, which misbehave as [`conduct`] says; an [oracle](dream_testkit::oracle) knows what they hid,
//! [`trial`] holds it against what the gateway publishes, [`view`] shows it and [`verdict`] says whether anything was wrong. [`run`] does so on a
//! broker of one's own, and [`demo`] is all of it on one machine, with the real gateway.

pub mod access;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod conduct;
pub mod demo;
pub mod fleet;
pub mod lie;
mod progress;
pub mod provision;
pub mod run;
pub mod trace;
pub mod trial;
pub mod verdict;
pub mod view;

pub use dream_homes::{clustering, home, readings, slots, source, street};
