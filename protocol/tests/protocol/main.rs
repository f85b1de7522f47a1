//! The protocol crate from outside: what it gives against recorded answers and other implementations, what holds for any
//! input, what liars and crashes can do, and whole clusters in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accidents;
mod cddl;
mod certificates;
mod committee;
mod committee_maths;
mod coset;
mod draws;
mod evidence;
mod fuzz_seeds;
mod insiders;
mod lost_store;
mod lying_gateway;
mod lying_meter;
mod noise;
mod offenders;
mod properties;
mod rotation;
mod shrinking;
mod simulation;
mod support;
mod vectors;
