//! Gateways and fleets beside real brokers, which run as processes of their own and with the files of `broker-config/`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acl;
mod chaos;
mod cluster;
mod committee;
mod config;
mod day_two;
mod gateway;
mod interop;
mod killed;
mod lie;
mod limits;
mod online;
mod provisioned;
mod readme;
mod run;
mod spy;
mod trial;

use std::path::Path;
use std::process::Command;

use dream_testkit::lab::command;

/// Outcomes of slots that killing and cutting explain.
const EXPLAINED: [&str; 3] = ["interrupted", "too_many_missing", "reveal_missing"];

/// Returns the command `meter-sim`, to be run in this folder.
fn meter_sim(folder: &Path) -> Command {
    command::command(env!("CARGO_BIN_EXE_meter-sim"), folder)
}

/// Returns a number from the environment, or the default.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
