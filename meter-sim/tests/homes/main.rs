//! What the simulated homes draw, and what a gateway's sums tell about one of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod statistics;
