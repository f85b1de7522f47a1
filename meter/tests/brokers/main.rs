//! Meters of homes beside a real gateway and real brokers, each a process of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agent;
mod community;
mod homes;
mod observer;
mod probe;
mod readme;
mod site;
mod strangers;

/// Returns a number from the environment, or the default.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
