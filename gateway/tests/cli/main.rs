//! The command line: what an operator types, and reads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod command;
mod committee;
mod config;
mod decode;
mod documentation;
mod evidence;
mod export;
mod plan;
