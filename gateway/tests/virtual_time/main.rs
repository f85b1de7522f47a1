//! Whole gateways in virtual time: the real driver, store and API, an in-memory broker, and a clock that jumps to the next
//! moment at which something is due.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod backups;
mod clock;
mod crash;
mod energy;
mod filtered;
mod groups;
mod holders;
mod no_list;
mod offenders;
mod outages;
mod pages;
mod rebuilding;
mod reload;
mod replicas;
mod slots;
mod store;
mod world;
