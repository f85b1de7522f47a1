//! The DREAM gateway: masked readings in from MQTT, durable and served aggregates out.
//!
//! `dream_protocol::cluster` decides what happens to a reading. This crate surrounds it, in five rooms:
//!
//! | Module | Contains | May import |
//! |---|---|---|
//! | [`config`] | the configuration and the files that it names | nothing of the others |
//! | [`store`] | the file of records and closed slots | nothing of the others |
//! | [`serve`] | what is shown: HTTP, metrics, messages for other consumers | `store` |
//! | [`ingest`] | the broker, the clusters, and commits before effects | `config`, `store`, `serve` |
//! | [`cmd`] | the command line | all, and [`daemon`] |
//!
//! [`clock`] may be used everywhere. [`daemon`] puts the rooms together.

pub mod clock;
pub mod cmd;
pub mod config;
pub mod daemon;
pub mod ingest;
pub mod logging;
pub mod serve;
pub mod store;
