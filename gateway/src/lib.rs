//! The DREAM gateway: masked readings in from MQTT, durable and served aggregates out.

pub mod board;
pub mod cli;
pub mod config;
mod decode;
mod plan;
