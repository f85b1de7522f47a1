//! A run under observation: what the gateway publishes, slot by slot, beside the right answer.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dream_gateway::clock::rfc3339;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS, SubscribeFilter};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::clock;
use crate::fleet::{self, ClusterSetup, Fleet, FleetError, Running, Status};
use crate::verdict::{Aggregate, FromMeters, Injected, Row, Verdict};
use crate::view::View;

/// How often to look how the meters are doing.
const GLANCE: Duration = Duration::from_millis(250);

/// How many slots may be reported and not yet published when a run ends.
const OPEN_SLOTS: usize = 2;

/// After so many reported slots a result should have been heard.
const SILENT_SLOTS: usize = 3;

const DEAF: &str = "meters report, but nothing is heard on dream/v1/CLUSTER/aggregate: does the gateway run, and may this \
                    client read it? It shows observer.pem of the directory, or --client-certificate";

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
        let begun = clock::wall();
        let (stopping, stopped) = watch::channel(false);
        let start = |setup| fleet::start(&self.fleet, setup, stopped.clone());
        let running = self.clusters.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let (seen, rows) = (BTreeSet::new(), Vec::new());
        let mut observer = Observer { clusters: &running, slots: self.slots, begun, view, seen, rows };
        tokio::select! {
            () = observer.watch(self.observer) => {}
            () = stop => {}
        }
        let Observer { rows, seen, .. } = observer;
        stopping.send_replace(true);
        let mut meters = FromMeters::default();
        for cluster in running {
            let status = status(&cluster);
            for (rule, count) in status.refusals {
                *meters.refusals.entry(rule).or_default() += count;
            }
            meters.accusations += status.accusations;
            let published = seen.iter().filter(|(name, _)| name == cluster.cluster.as_str()).count();
            meters.unpublished += status.slots.saturating_sub(published + OPEN_SLOTS);
            cluster.join()?;
        }
        Ok(Verdict::of(&rows, meters, self.injected))
    }
}

/// What comes from the broker.
#[derive(Debug)]
enum News {
    Trouble(String),
    /// Published before this run, and not of it.
    Retained,
    Published(Bytes),
}

/// Hands on what is published on these topics, and connects again when need be.
async fn listen(options: MqttOptions, topics: Vec<String>, news: mpsc::UnboundedSender<News>) {
    let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
    let filters: Vec<_> = topics.into_iter().map(|topic| SubscribeFilter::new(topic, QoS::AtLeastOnce)).collect();
    while !news.is_closed() {
        let told = match eventloop.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                client.try_subscribe_many(filters.clone()).ok();
                continue;
            }
            Ok(Event::Incoming(Packet::Publish(publish))) if publish.retain => News::Retained,
            Ok(Event::Incoming(Packet::Publish(publish))) => News::Published(publish.payload),
            Ok(Event::Incoming(_) | Event::Outgoing(_)) => continue,
            Err(error) => {
                tokio::time::sleep(GLANCE).await;
                News::Trouble(error.to_string())
            }
        };
        news.send(told).ok();
    }
}

struct Observer<'a> {
    clusters: &'a [Running],
    slots: Option<usize>,
    /// Slots that began before are not of this run.
    begun: Timestamp,
    view: &'a mut View,
    /// Clusters and slots, so that none counts twice.
    seen: BTreeSet<(String, u64)>,
    rows: Vec<Row>,
}

impl Observer<'_> {
    /// Takes down what is published, until there is enough of it, or meters have ended.
    async fn watch(&mut self, options: MqttOptions) {
        let topics = self.clusters.iter().map(|running| GatewayChannel::Aggregate.topic(&running.cluster));
        let (sender, mut news) = mpsc::unbounded_channel();
        // A task of its own: a poll that is given up before a connection stands would begin it anew.
        let mut listening = JoinSet::new();
        listening.spawn(listen(options, topics.collect(), sender));
        let mut heard = false;
        let mut glance = tokio::time::interval(GLANCE);
        while !self.clusters.iter().any(Running::is_over) {
            tokio::select! {
                _ = glance.tick() => self.glance(heard),
                Some(news) = news.recv() => match news {
                    News::Trouble(reason) => self.view.trouble(&reason),
                    News::Retained => heard = true,
                    News::Published(payload) => {
                        heard = true;
                        let Ok(aggregate) = serde_json::from_slice::<Aggregate>(&payload) else { continue };
                        if self.seen.insert((aggregate.cluster.clone(), aggregate.slot)) {
                            self.note(aggregate);
                        }
                        if self.slots.is_some_and(|wanted| self.has_enough(wanted)) {
                            return;
                        }
                    }
                },
            }
        }
    }

    fn glance(&mut self, heard: bool) {
        let statuses: Vec<_> = self.clusters.iter().map(|running| (&running.cluster, status(running))).collect();
        self.view.glance(&statuses);
        if !heard && statuses.iter().any(|(_, status)| status.slots > SILENT_SLOTS) {
            self.view.say(DEAF);
        }
    }

    fn note(&mut self, aggregate: Aggregate) {
        if self.were_all_there(&aggregate) {
            let row = self.beside_the_truth(aggregate);
            self.view.row(&row);
            self.rows.push(row);
        }
    }

    fn has_enough(&self, wanted: usize) -> bool {
        let rows = |cluster: &Running| {
            let of_cluster = |row: &&Row| row.aggregate.cluster == cluster.cluster.as_str();
            self.rows.iter().filter(of_cluster).count()
        };
        self.clusters.iter().all(|cluster| rows(cluster) >= wanted)
    }

    fn beside_the_truth(&self, aggregate: Aggregate) -> Row {
        let running = self.clusters.iter().find(|running| running.cluster.as_str() == aggregate.cluster);
        let expected = running.and_then(|running| {
            running.oracle.lock().unwrap_or_else(PoisonError::into_inner).expected(Slot(aggregate.slot))
        });
        Row { aggregate, expected: expected.map(Into::into) }
    }

    /// Whether all meters were there when the slot began. One that is still agreeing on keys keeps the whole process busy.
    fn were_all_there(&self, aggregate: &Aggregate) -> bool {
        let were = |status: Status| !status.busy && next_second(status.since.unwrap_or(self.begun)) <= aggregate.start;
        self.clusters.iter().map(status).all(were)
    }
}

/// As in aggregates, whose slots begin with a second: without fractions, such texts sort by time.
fn next_second(at: Timestamp) -> String {
    rfc3339(Timestamp::from_secs(at.as_millis().div_ceil(1000)))
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
