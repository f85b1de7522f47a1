//! The DREAM gateway: masked readings in from MQTT, durable and served aggregates out.
//!
//! `dream_protocol::cluster` decides what happens to a reading. This crate surrounds it, in rooms. A room imports only those above
//! it in this table, and of them only those it names:
//!
//! | Module | Contains | Imports |
//! |---|---|---|
//! | [`config`] | the configuration and the files that it names | nothing of the others |
//! | [`history`] | closed slots, hours and days, and reading them | nothing of the others |
//! | [`board`] | the clusters, the groups and the gateway as they stand | `config`, `history` |
//! | [`store`] | records and closed slots, in a file or in PostgreSQL | `config`, `history` |
//! | [`metrics`] | what Prometheus sees | `board`, `history` |
//! | [`http`] | the pages, the API, health, and who may see what | `config`, `board`, `history` |
//! | [`engine`] | the broker, the clusters, and commits before effects | `config`, `history`, `board`, `store`, `metrics` |
//! | `remote_write` | released sums to a receiver | `config`, `history`, `board`, `store`, `metrics` |
//! | [`daemon`] | puts the rooms together | all of these, and of `cmd` the arguments that name a configuration |
//! | [`cmd`] | the command line | all |
//!
//! [`clock`] may be used everywhere. A test keeps to this table (`rooms.rs`).

pub mod board;
pub mod clock;
pub mod cmd;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod history;
pub mod http;
pub mod logging;
pub mod metrics;
#[cfg(feature = "remote-write")]
mod remote_write;
#[cfg(test)]
mod rooms;
pub mod store;
