//! What programs share at their edge, where they meet files, clocks, brokers and their service manager:
//!
//! - [`config`]: a configuration file, and what is wrong with it, by line and key,
//! - [`mqtt`]: a connection to a broker that is kept, over [`tls`] if it is encrypted, and tried again after a [`backoff`],
//! - [`files`]: PEM files, and files for their owner alone; [`database`]: a redb file, opened only if every page of it is sound,
//! - [`clock`] and [`time`]: the time as an argument, and how it is written,
//! - [`http`]: a client for one question; [`serve`]: a server for clients that may be slow, or many,
//! - [`service`]: what a service manager wants to know; [`logging`]: what logs look like,
//! - [`shell`]: man pages and completions; [`task`]: what to do when a task ends that should not,
//! - [`HomeKind`]: what configurations, plans and studies call a cluster's homes; [`cut_off`]: what their meters do not report.

pub mod backoff;
pub mod clock;
pub mod config;
pub mod cut_off;
pub mod database;
pub mod files;
mod home_kind;
pub mod http;
#[cfg(feature = "issuer")]
pub mod issuer;
pub mod logging;
pub mod mqtt;
pub mod serve;
pub mod service;
pub mod shell;
pub mod task;
pub mod time;
pub mod tls;

pub use home_kind::HomeKind;
