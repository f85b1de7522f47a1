//! The gateway as a process, with real brokers: what a broker's rules, a signal, a full disk or a flood do to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod access;
mod backup;
mod brokers;
mod crash;
mod disk;
mod doctor;
mod gateway;
mod hostile;
mod postgres;
mod reload;
mod remote_write;
mod signals;
