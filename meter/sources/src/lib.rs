//! What real meters and their bridges say, as samples, and the mean power of a slot from them.
//!
//! [`Source::read`] reads the section `[source]` of a configuration, and [`Source::run`] yields
//! [`Event`]s: samples, and whether the source is alive. [`SlotMean`] gathers them and returns the mean power of a slot, or
//! why the slot has no reading. Nothing here sends anything to the community's broker.

mod catalogue;
pub mod ciphered;
mod config;
mod crc;
mod decimal;
pub mod dlms;
mod document;
mod http;
pub mod lines;
mod link;
mod mapping;
pub mod modbus;
pub mod mqtt;
mod names;
mod obis;
mod outlet;
pub mod p1;
mod pointer;
mod recognise;
mod sample;
mod serial;
mod slot_mean;
pub mod sml;
mod sniff;
mod source;
mod telegrams;
pub mod tic;
mod units;

pub use catalogue::table;
pub use dream_edge::clock::{Clock, SystemClock};
pub use recognise::{Proposal, name_foreign, recognise_bytes, recognise_document, recognise_message};
pub use sample::{Event, Sample, Values};
pub use slot_mean::{Cadence, LEAST_COVERAGE, Liveness, NoReading, SlotMean};
pub use sniff::Port;
pub use source::Source;
pub use units::{Sign, Unit};
