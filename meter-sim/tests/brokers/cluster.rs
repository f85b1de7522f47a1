//! A whole cluster beside a broker: the gateway's process, a fleet of meters, and an observer that holds every slot against
//! the truth.

use std::sync::{Arc, PoisonError};

use dream_fleet::{ClusterSetup, Faults, Fleet, MeterSetup, Records, RunningCluster};
use dream_homes::source::Source;
use dream_meter_sim::verdict::{Aggregate, Row};
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::time::Slot;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::gateway::Gateway;
use dream_testkit::lab::watcher::Watcher;
use tempfile::TempDir;
use tokio::sync::watch;

use super::gateway;
use super::trial::{CLUSTER, GATEWAY, Trial};

pub(super) struct Cluster {
    pub(super) gateway: Gateway,
    pub(super) rows: Vec<Row>,
    observer: Watcher,
    meters: RunningCluster,
    stop: watch::Sender<bool>,
    /// The meters' records, and the gateway's files.
    _directory: TempDir,
}

impl Cluster {
    /// With these terms of the cluster, and faults.
    pub(super) async fn start(trial: &Trial, broker: &Broker, terms: &str, faults: Faults) -> Self {
        let observer = Watcher::start(trial.options(broker, &trial.observer), &["dream/v1/+/aggregate"]).await;
        let directory = TempDir::new().unwrap();
        let mut gateway = gateway::of_trial(trial, broker, terms, directory.path());
        gateway.start();
        gateway.wait_until_ready().await;
        let fleet = Arc::new(fleet_of(trial, Records::open(&directory.path().join("meters.redb")).unwrap(), faults));
        let setup = ClusterSetup {
            cluster: ClusterId::new(CLUSTER).unwrap(),
            meters: setups(trial, broker),
            homes: (0..trial.setups.len()).collect(),
            liars: Vec::new(),
        };
        let (stop, stopped) = watch::channel(false);
        let meters = dream_fleet::start(&fleet, setup, stopped).unwrap();
        Self { gateway, rows: Vec::new(), observer, meters, stop, _directory: directory }
    }

    /// Waits for slots to close until the rows are as wanted.
    pub(super) async fn run_until(&mut self, mut enough: impl FnMut(&[Row]) -> bool) {
        while !enough(&self.rows) {
            let message = self.observer.next().await;
            let aggregate: Aggregate = serde_json::from_slice(&message.payload).unwrap();
            if self.rows.iter().any(|row| row.aggregate.slot == aggregate.slot) {
                continue;
            }
            let oracle = self.meters.oracle.lock().unwrap_or_else(PoisonError::into_inner);
            let expected = oracle.expected(Slot(aggregate.slot));
            drop(oracle);
            self.rows.push(Row { aggregate, expected: expected.map(Into::into) });
        }
        assert!(self.gateway.is_running(), "the gateway has ended by itself");
    }

    /// Waits until so many more slots are decoded and held against the truth.
    pub(super) async fn run_for(&mut self, decoded: usize) {
        let before = self.rows.len();
        self.run_until(|rows| rows[before..].iter().filter(|row| is_proven(row)).count() >= decoded).await;
    }

    /// Ends it all.
    pub(super) async fn end(mut self) {
        assert!(self.gateway.stop().success());
        self.stop.send_replace(true);
        let meters = self.meters;
        tokio::task::spawn_blocking(|| meters.join()).await.unwrap().unwrap();
    }
}

/// A share of readings that something goes wrong with, and of requests that do not reach whom they ask.
pub(super) fn faults(rate: f64, vanish: f64) -> Faults {
    Faults { seed: 2026, rate, vanish }
}

/// Whether a slot was decoded, and the truth is known.
pub(super) fn is_proven(row: &Row) -> bool {
    row.aggregate.load_watts.is_some() && row.expected.is_some()
}

/// The meters, each with its certificate for this broker.
pub(super) fn setups(trial: &Trial, broker: &Broker) -> Vec<MeterSetup> {
    let each = trial.setups.iter().zip(&trial.meters);
    each.map(|(setup, party)| MeterSetup { access: trial.access(broker, party), ..setup.clone() }).collect()
}

pub(super) fn fleet_of(trial: &Trial, records: Records, faults: Faults) -> Fleet {
    Fleet {
        policy: Policy::new(trial.authorities(), [GatewayId::new(GATEWAY).unwrap()]).with_profile(Profile::Trial),
        source: Source::street(2026, trial.setups.len().try_into().unwrap()),
        speed: 100.0,
        faults,
        clock: None,
        seed: Some(2026),
        per_connection: 1,
        records,
    }
}
