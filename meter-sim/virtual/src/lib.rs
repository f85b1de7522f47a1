//! Whole clusters in memory and in virtual time, for the laboratory and for tests. Neither the gateway nor dream-meter links it.
//!
//! - [`pki`]: authorities with fixed keys, and the certificates they issue;
//! - [`node`]: a machine with the records it writes and its own source of randomness: the one place that drives a
//!   [`Meter`](dream_protocol::meter::Meter) or a [`Cluster`](dream_protocol::cluster::Cluster) directly;
//! - [`virtual_cluster`]: a whole cluster on a network without faults;
//! - [`oracle`]: what a gateway must find, from what it asked and what the meters measured;
//! - [`example`]: the cluster that is used unless another is needed.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

pub mod example;
pub mod node;
pub mod oracle;
pub mod pki;
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
