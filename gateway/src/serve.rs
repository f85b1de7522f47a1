//! What the gateway shows: the page and the API, metrics, and messages for other consumers on the broker.

pub mod announce;
pub mod board;
pub mod day_epsilon;
pub mod energy;
pub mod evidence;
pub mod gateway_view;
pub mod group;
pub mod holders;
pub mod http;
pub mod metrics;
pub mod offenders;
pub mod operator;
pub mod readiness;
pub mod slot_json;
