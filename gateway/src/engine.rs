//! From the broker to the store: connections, the clusters' state machines, and commits before effects.

pub mod announce;
pub mod cluster_filter;
pub mod driver;
pub mod effect;
pub mod energy;
pub mod holders;
pub mod mqtt;
pub mod parts;
pub mod rights;
pub mod served;
pub mod statuses;
pub mod telemetry;
pub mod transport;
pub mod window;
pub mod writer;
