//! A fleet of simulated meters over real MQTT: every cluster on a thread of its own, every meter the protocol's own machine.
//!
//! Effects of a meter are carried out in the order that the protocol demands: its records are on disk before anything is
//! sent. Work that is the same for every meter of a process is done once: a list is verified once, and of each pair of
//! meters one end computes their common key for both.
//!
//! [`authority`] issues certificates, [`directory`] reads those that `meter-sim provision` wrote, and [`access`] says how to
//! reach a broker. The crate depends on neither the gateway nor a broker.

pub mod access;
mod agreements;
pub mod authority;
pub mod clock;
mod cluster;
mod connection;
#[cfg(test)]
mod determinism;
pub mod directory;
mod faults;
mod homes;
pub mod liar;
mod meter;
pub mod pace;
mod pem;
mod records;
mod status;

use std::sync::{Arc, Mutex};

use dream_edge::clock::{Clock as _, wall};
use dream_homes::source::Source;
use dream_protocol::ids::ClusterId;
use dream_protocol::policy::Policy;
use dream_protocol::time::Timestamp;
use dream_virtual::oracle::Oracle;
use tokio::sync::watch;

pub use cluster::FleetError;
pub use faults::{Fault, Faults};
pub use homes::Homes;
pub use meter::MeterSetup;
pub use records::{Records, RecordsError};
pub use status::Status;

use clock::SimulatedClock;
use cluster::ClusterRunner;
use liar::Liar;

/// A cluster's meters, and the homes that they measure.
#[derive(Debug, Clone)]
pub struct ClusterSetup {
    pub cluster: ClusterId,
    pub meters: Vec<MeterSetup>,
    /// The index of each meter's home in the source.
    pub homes: Vec<usize>,
    /// The meters that turn dishonest, by their index.
    pub liars: Vec<(usize, Liar)>,
}

/// The settings that all clusters share.
#[derive(Debug)]
pub struct Fleet {
    pub policy: Policy,
    pub source: Source,
    /// How fast time passes in the homes.
    pub speed: f64,
    pub faults: Faults,
    /// The time that meters live by; without, the clocks of this machine.
    pub clock: Option<Arc<SimulatedClock>>,
    /// The seed of the meters' keys and noise; anyone who knows it can compute them. Without, they come from the
    /// operating system, as they must for real readings.
    pub seed: Option<u64>,
    /// How many meters share a connection.
    pub per_connection: usize,
    pub records: Records,
}

impl Fleet {
    /// Returns the time of day for its meters.
    pub fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or_else(wall, |clock| clock.now())
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct RunningCluster {
    pub cluster: ClusterId,
    pub oracle: Arc<Mutex<Oracle>>,
    pub status: Arc<Mutex<Status>>,
    thread: std::thread::JoinHandle<Result<(), FleetError>>,
}

impl RunningCluster {
    /// Returns whether the cluster has ended, which it does by itself only after an error.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the cluster has ended, and returns its error if it had one.
    pub fn join(self) -> Result<(), FleetError> {
        self.thread.join().unwrap_or(Err(FleetError::Panicked))
    }
}

/// How many attempts the oracle remembers.
const REMEMBERED: usize = 64;

/// Starts the meters of a cluster on a thread of their own, until `stop` turns true. Call it inside a tokio runtime.
pub fn start(
    fleet: &Arc<Fleet>,
    setup: ClusterSetup,
    stop: watch::Receiver<bool>,
) -> Result<RunningCluster, FleetError> {
    let oracle = Arc::new(Mutex::new(Oracle::remembering(REMEMBERED)));
    let status = Arc::<Mutex<Status>>::default();
    let cluster = setup.cluster.clone();
    let runner = ClusterRunner::new(fleet.clone(), setup, oracle.clone(), status.clone())?;
    let runtime = tokio::runtime::Handle::current();
    let thread = std::thread::Builder::new()
        .name(format!("meters of {cluster}"))
        .spawn(move || runtime.block_on(runner.run(stop)))?;
    Ok(RunningCluster { cluster, oracle, status, thread })
}
