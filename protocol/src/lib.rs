//! DREAM, version 1, as pure state machines: differentially private smart metering after Acs and Castelluccia.
//!
//! A cluster of meters reports its load, slot by slot, to a gateway that can open only the noisy sum. Every meter adds a
//! share of the noise and masks the result with keys it shares with the other members; the masks cancel in the sum of the
//! whole cluster and nowhere else. `docs/protocol.md` is the specification of the meter, `docs/protocol-gateway.md` that of
//! the gateway, and `docs/protocol-proofs.md` says why they are safe; comments cite their sections.
//!
//! # What is promised
//! For any two inputs that differ in one meter's reading of one slot, everything that a gateway and up to T colluding
//! members see is epsilon-differentially private per attempt, conditional on who took part. All slots of a UTC day together
//! are rho-concentrated, whatever happened in a home, rho being stated in the list. The meter enforces it all; the
//! gateway is the adversary.
//!
//! # How to drive it
//! Two machines, [`meter::Meter`] and [`cluster::Cluster`] (the gateway's side of one cluster). Both are *sans-IO*: no
//! sockets, clocks, files, threads or randomness of their own. Rebuild one from its records with `resume`, call `handle`
//! with what happened and the time, then `poll` until it is empty, carrying out each output in order, and call `handle`
//! with `Tick` when `deadline` is reached. **Outputs are the durability contract:** what a `Persist` names is on disk
//! before what follows it is sent, and before the message that caused it is acknowledged. Restart is replay.
//!
//! # Where things are
//! - at the bottom: [`ids`], [`time`], [`params`], [`keys`] and [`mod@derive`];
//! - above them: [`noise`] (the exact shares, and how far they move a sum), [`scheme`] (how a sum is opened), [`wire`] and [`topic`],
//!   [`certificate`], [`enrolment`], [`membership`] and [`evidence`];
//! - what a meter accepts and has spent: [`policy`], [`ledger`], [`day`];
//! - on top: [`meter`], [`cluster`], and [`aggregate`], the only values meant to be seen;
//! - beside them: [`code`], the stable names of all errors.

#![cfg_attr(not(test), no_std)] // unit tests have std
#![cfg_attr(
    not(all(feature = "gateway", feature = "meter")),
    allow(dead_code, unused_imports, reason = "what only the other machine uses")
)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
#[cfg_attr(test, macro_use)]
extern crate std;

#[cfg(feature = "gateway")]
pub mod aggregate;
pub mod certificate;
#[cfg(feature = "gateway")]
pub mod cluster;
pub mod code;
pub mod day;
pub mod derive;
pub mod enrolment;
pub mod evidence;
pub mod ids;
pub mod keys;
pub mod ledger;
pub mod member_set;
pub mod membership;
#[cfg(feature = "meter")]
pub mod meter;
pub mod noise;
pub mod params;
mod part;
pub mod policy;
pub mod protection;
pub mod reading;
pub mod scheme;
pub mod time;
pub mod topic;
pub mod wire;

#[cfg(feature = "meter")]
/// What simulators and tests may change about a meter.
pub use meter::simulation;
