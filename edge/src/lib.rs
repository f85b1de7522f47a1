//! What programs share at their edge, where they meet files, clocks, brokers and their service manager:
//!
//! - [`mqtt`]: a connection to a broker that is kept, over [`tls`] if it is encrypted, and tried again after a [`backoff`],
//! - [`files`]: PEM files, and files for their owner alone; [`database`]: a redb file, opened only if every page of it is sound,
//! - [`clock`] and [`time`]: the time as an argument, and how it is written,
//! - [`http`]: a client for one question; [`service`]: what a service manager wants to know; [`logging`]: what logs look like.

pub mod backoff;
pub mod clock;
pub mod database;
pub mod files;
pub mod http;
pub mod logging;
pub mod mqtt;
pub mod service;
pub mod time;
pub mod tls;
