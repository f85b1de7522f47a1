//! A run under observation: what the gateway publishes, slot by slot, beside the right answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dream_gateway::driver;
use dream_gateway::slot_view::rfc3339;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Slot;
use dream_protocol::topic::GatewayChannel;
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS, SubscribeFilter};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::fleet::{self, ClusterSetup, Fleet, FleetError, Running, Status};
use crate::verdict::{Aggregate, Injected, Row, Verdict};
use crate::view::View;

/// How often to look how the meters are doing.
const GLANCE: Duration = Duration::from_millis(250);

/// A fleet, and who watches what the gateway makes of it.
#[derive(Debug)]
pub struct Trial {
    pub fleet: Arc<Fleet>,
    pub clusters: Vec<ClusterSetup>,
    /// A client that may read aggregates.
    pub observer: MqttOptions,
    pub injected: Injected,
    /// After how many slots of each cluster it ends; without, it does not end by itself.
    pub slots: Option<usize>,
}

impl Trial {
    /// Runs the meters until there were enough slots, or `stop` is done.
    pub async fn run(self, view: &mut View, stop: impl Future<Output = ()>) -> Result<Verdict, FleetError> {
        let (stopping, stopped) = watch::channel(false);
        let start = |setup| fleet::start(&self.fleet, setup, stopped.clone());
        let running = self.clusters.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let begun = rfc3339(driver::now());
        let mut observer = Observer { clusters: &running, slots: self.slots, begun, view, rows: Vec::new() };
        tokio::select! {
            () = observer.watch(self.observer) => {}
            () = stop => {}
        }
        let rows = observer.rows;
        stopping.send_replace(true);
        let mut refusals = BTreeMap::new();
        for cluster in running {
            for (rule, count) in status(&cluster).refusals {
                *refusals.entry(rule).or_default() += count;
            }
            cluster.join()?;
        }
        Ok(Verdict::of(&rows, refusals, self.injected))
    }
}

struct Observer<'a> {
    clusters: &'a [Running],
    slots: Option<usize>,
    /// RFC 3339, as in aggregates: such texts sort by time.
    begun: String,
    view: &'a mut View,
    rows: Vec<Row>,
}

impl Observer<'_> {
    /// Takes down what is published, until there is enough of it, or meters have ended.
    async fn watch(&mut self, options: MqttOptions) {
        let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
        let filter =
            |cluster: &ClusterId| SubscribeFilter::new(GatewayChannel::Aggregate.topic(cluster), QoS::AtLeastOnce);
        let filters: Vec<_> = self.clusters.iter().map(|running| filter(&running.cluster)).collect();
        let mut seen: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let mut glance = tokio::time::interval(GLANCE);
        loop {
            let event = tokio::select! {
                event = eventloop.poll() => event,
                _ = glance.tick() => {
                    let statuses: Vec<_> = self.clusters.iter().map(|running| (&running.cluster, status(running))).collect();
                    self.view.glance(&statuses);
                    if self.clusters.iter().any(Running::is_over) {
                        return;
                    }
                    continue;
                }
            };
            match event {
                Ok(Event::Incoming(Packet::ConnAck(_))) => drop(client.try_subscribe_many(filters.clone())),
                // What was retained before this run is not of this run.
                Ok(Event::Incoming(Packet::Publish(publish))) if !publish.retain => {
                    let Ok(aggregate) = serde_json::from_slice::<Aggregate>(&publish.payload) else { continue };
                    // The meters were not there for all of it.
                    if aggregate.start < self.begun {
                        continue;
                    }
                    if !seen.entry(aggregate.cluster.clone()).or_default().insert(aggregate.slot) {
                        continue;
                    }
                    let row = self.beside_the_truth(aggregate);
                    self.view.row(&row);
                    self.rows.push(row);
                    let enough =
                        |wanted| seen.len() == self.clusters.len() && seen.values().all(|slots| slots.len() >= wanted);
                    if self.slots.is_some_and(enough) {
                        return;
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    self.view.trouble(&error.to_string());
                    tokio::time::sleep(GLANCE).await;
                }
            }
        }
    }

    fn beside_the_truth(&self, aggregate: Aggregate) -> Row {
        let running = self.clusters.iter().find(|running| running.cluster.as_str() == aggregate.cluster);
        let expected = running.and_then(|running| {
            running.oracle.lock().unwrap_or_else(PoisonError::into_inner).expected(Slot(aggregate.slot))
        });
        Row { aggregate, expected }
    }
}

fn status(running: &Running) -> Status {
    running.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Is done when someone wants this process to end.
pub async fn interrupted() {
    let asked = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! { () = asked(SignalKind::interrupt()) => {}, () = asked(SignalKind::terminate()) => {} }
}
