//! A fleet of meters over real MQTT: every cluster on a thread of its own, every meter the protocol's own machine.
//!
//! What each meter wants is done in the order that the protocol demands: its records are on disk before anything is sent.
//! Work that is the same for every meter of a process is done once: a list is verified once, and of each pair of meters one
//! end computes their common key for both.

mod connection;
mod faults;
mod homes;
mod member;
mod neighbourhood;
mod records;
#[cfg(test)]
mod repeats;
mod status;

use std::sync::{Arc, Mutex};

use dream_protocol::ids::ClusterId;
use dream_protocol::policy::Policy;
use dream_testkit::oracle::Oracle;
use tokio::sync::watch;

pub use faults::{Fault, Faults};
pub use member::Setup;
pub use neighbourhood::FleetError;
pub use records::{Records, RecordsError};
pub use status::Status;

use crate::source::Source;
use neighbourhood::Neighbourhood;

/// A cluster's meters, and the homes that they measure.
#[derive(Debug, Clone)]
pub struct ClusterSetup {
    pub cluster: ClusterId,
    pub meters: Vec<Setup>,
    /// The home of each meter, as the source counts them.
    pub homes: Vec<usize>,
}

/// What all clusters have in common.
#[derive(Debug)]
pub struct Fleet {
    pub policy: Policy,
    pub source: Source,
    /// How fast time passes in the homes.
    pub speed: f64,
    pub faults: Faults,
    /// What the meters' secrets follow from.
    pub seed: u64,
    pub per_connection: usize,
    pub records: Records,
}

/// A running cluster.
#[derive(Debug)]
pub struct Running {
    pub cluster: ClusterId,
    pub oracle: Arc<Mutex<Oracle>>,
    pub status: Arc<Mutex<Status>>,
    thread: std::thread::JoinHandle<Result<(), FleetError>>,
}

impl Running {
    /// Whether it has ended, which it does by itself only if something is wrong.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end, which comes when the fleet is told to stop.
    pub fn join(self) -> Result<(), FleetError> {
        self.thread.join().unwrap_or(Err(FleetError::Panicked))
    }
}

/// For how many attempts the right answers are kept.
const REMEMBERED: usize = 64;

/// Starts the meters of a cluster on a thread of their own, until `stop` turns true. Call it inside a tokio runtime.
pub fn start(fleet: &Arc<Fleet>, setup: ClusterSetup, stop: watch::Receiver<bool>) -> Result<Running, FleetError> {
    let oracle = Arc::new(Mutex::new(Oracle::remembering(REMEMBERED)));
    let status = Arc::<Mutex<Status>>::default();
    let cluster = setup.cluster.clone();
    let neighbourhood = Neighbourhood::new(fleet.clone(), setup, oracle.clone(), status.clone())?;
    let runtime = tokio::runtime::Handle::current();
    let thread = std::thread::Builder::new()
        .name(format!("meters of {cluster}"))
        .spawn(move || runtime.block_on(neighbourhood.run(stop)))?;
    Ok(Running { cluster, oracle, status, thread })
}
