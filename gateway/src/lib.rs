//! The DREAM gateway: masked readings in from MQTT, durable and served aggregates out.

pub mod board;
pub mod cli;
pub mod config;
pub mod http;
pub mod readiness;
pub mod slot_view;

#[cfg(test)]
#[path = "../tests/support/outcomes.rs"]
mod outcomes;
