//! What the tests, the benchmarks and the simulator share. Never published, and no part of what a gateway or a meter runs.
//!
//! - [`pki`]: an authority with fixed keys, and the certificates it issues;
//! - [`node`]: a machine with the records it writes and its own source of randomness: the one place that drives a
//!   [`Meter`](dream_protocol::meter::Meter) or a [`Cluster`](dream_protocol::cluster::Cluster) by hand;
//! - [`virtual_cluster`]: a whole cluster in virtual time, on a network without faults;
//! - `simulation`, behind a feature: whole clusters in virtual time with everything that can go wrong, and a referee;
//! - [`oracle`]: what a gateway must find, from what it asked and what the meters measured;
//! - [`outcomes`]: closed slots without a cluster that closed them;
//! - [`keyed_cluster`]: a gateway's cluster of any size, for benchmarks;
//! - `plain_cluster`, behind the same feature: a gateway's cluster whose members mask nothing, honest ones and liars, for many slots at little cost;
//! - [`example`]: the cluster that tests use unless they need another;
//! - `lab`, behind a feature: brokers, browsers and gateways as processes, and clients of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod example;
pub mod keyed_cluster;
#[cfg(feature = "lab")]
pub mod lab;
pub mod node;
pub mod oracle;
pub mod outcomes;
pub mod pki;
#[cfg(feature = "simulation")]
pub mod plain_cluster;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod virtual_cluster;

use dream_protocol::time::{Now, Timestamp};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;

/// Returns a generator whose numbers follow from the seed.
pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Returns both clocks of a meter, in step.
pub fn now(wall: Timestamp) -> Now {
    Now { wall, monotonic_millis: wall.as_millis() }
}
