//! A gateway that lies to its meters, one test per lie: nothing opens that should not, and the rule that refuses is named.
//!
//! The gateway here is hand-made and signs anything; the meters are the real machines.

mod clocks;
mod crashes;
mod day;
mod enrolling;
mod epochs;
mod equivocation;
mod few_homes;
mod leaks;
mod lists;
mod memberships;
mod minting;
mod protection;
mod records;
mod requests;
mod retries;
mod takeover;
mod tampering;
