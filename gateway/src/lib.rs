//! The DREAM gateway: masked readings in from MQTT, durable and served aggregates out.
//!
//! `protocol::cluster` decides everything; this crate is what surrounds it. [`driver`] feeds the machines and carries out
//! what they say, in an order that survives a crash; [`mqtt`], [`store`], [`http`] and [`metrics`] each know their own
//! business and nothing of one another; [`daemon`] puts them together.

pub mod announce;
pub mod board;
pub mod check_config;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod decode;
pub mod driver;
pub mod events;
pub mod export;
pub mod http;
pub mod metrics;
pub mod mqtt;
pub mod ownership;
pub mod plan;
pub mod readiness;
pub mod secrets;
pub mod served;
pub mod slot_view;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod window;
