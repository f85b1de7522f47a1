//! What tests and benchmarks share. Never published, and linked by nothing but them.
//!
//! - `dream_virtual`'s modules, under this name as well: certificates, machines with their records, clusters in virtual time, right
//!   answers;
//! - `simulation`, behind a feature: whole clusters in virtual time with everything that can go wrong, and a referee;
//! - [`outcomes`]: closed slots without a cluster that closed them;
//! - `plain_cluster`, behind the same feature: a gateway's cluster whose members mask nothing, honest ones and liars, for many
//!   members and many slots at little cost;
//! - [`second_reader`]: what x509-parser makes of a certificate that the protocol accepts;
//! - `lab`, behind a feature: brokers, browsers and gateways as processes, and clients of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "lab")]
pub mod lab;
pub mod outcomes;
#[cfg(feature = "simulation")]
pub mod plain_cluster;
pub mod second_reader;
#[cfg(feature = "simulation")]
pub mod simulation;

pub use dream_virtual::{example, node, now, oracle, pki, rng, virtual_cluster};
