//! A run of a fleet, with every slot that the gateway publishes beside the right sum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dream_edge::mqtt::{Client, Event};
use dream_protocol::ids::MeterId;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::verdict::{Aggregate, FromMeters, Injected, Row, Verdict};
use crate::view::View;
use dream_fleet::pace::Pacer;
use dream_fleet::{ClusterSetup, Fleet, FleetError, RunningCluster, Status};

/// How often the status of the meters is shown.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// How many slots may be reported and not yet published when a run ends.
const OPEN_SLOTS: usize = 2;

/// How many slots in a row must give a sum once all dishonest meters are found, before their story is over.
const SUMS_AFTERWARDS: usize = 3;

/// After so many reported slots a result should have been heard.
const SILENT_SLOTS: usize = 3;

const NOTHING_RECEIVED: &str = "meters report, but nothing arrives on dream/v1/CLUSTER/aggregate: is the gateway \
                                running, and may this client read it? It connects with observer.pem of the directory, \
                                or --client-certificate";

/// A fleet, and the client that reads the aggregates.
#[derive(Debug)]
pub struct Trial {
    pub fleet: Arc<Fleet>,
    pub clusters: Vec<ClusterSetup>,
    /// A client that may read aggregates.
    pub observer: Client,
    pub injected: Injected,
    /// After how many slots of each cluster it ends; without, when all dishonest meters are found and sums go on, if there are any.
    pub slots: Option<usize>,
    /// What sets the speed of a simulated clock.
    pub pacer: Option<Pacer>,
    /// What the gateway says about members that spoil slots, by cluster, if it can be asked.
    pub offenders: Option<watch::Receiver<BTreeMap<String, Offenders>>>,
}

/// What a gateway says about members that spoil slots.
#[derive(Debug, Clone, Default)]
pub struct Offenders {
    /// Who is left out of sums: for its silence, or because sums fail with it.
    pub left_out: BTreeSet<String>,
    /// Whether it leaves out groups of members to find one.
    pub searching: bool,
}

impl Trial {
    /// Runs the meters until there were enough slots, or `stop` is done.
    pub async fn run(self, view: &mut View, stop: impl Future<Output = ()>) -> Result<Verdict, FleetError> {
        let begun = self.fleet.now();
        let liars = self.clusters.iter().map(|setup| setup.liars.len()).sum();
        let (stopping, stopped) = watch::channel(false);
        let start = |setup| dream_fleet::start(&self.fleet, setup, stopped.clone());
        let running = self.clusters.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let mut observer = Observer {
            clusters: &running,
            slots: self.slots,
            liars,
            pacer: self.pacer,
            offenders: self.offenders,
            begun,
            view,
            seen: BTreeSet::new(),
            rows: Vec::new(),
            found: BTreeMap::new(),
        };
        tokio::select! {
            () = observer.watch(self.observer) => {}
            () = stop => {}
        }
        let Observer { rows, seen, found, .. } = observer;
        stopping.send_replace(true);
        let mut meters = FromMeters { found: found.values().map(BTreeMap::len).sum(), ..FromMeters::default() };
        for cluster in running {
            let status = status(&cluster);
            for (rule, count) in status.refusals {
                *meters.refusals.entry(rule).or_default() += count;
            }
            meters.accusations += status.accusations;
            let newest = status.slot.map_or(0, |(slot, ..)| slot.0);
            meters.lying.extend(status.lies.iter().map(|begun| newest.saturating_sub(begun.since.0)));
            let published = seen.iter().filter(|(name, _)| name == cluster.cluster.as_str()).count();
            meters.unpublished += status.slots.saturating_sub(published + OPEN_SLOTS);
            cluster.join()?;
        }
        Ok(Verdict::of(&rows, meters, self.injected))
    }
}

/// Something that the observer receives.
#[derive(Debug)]
enum Received {
    Trouble(String),
    /// Published before this run, and not of it.
    Retained,
    Published(Bytes),
}

/// Forwards what is published on these topics, also after a loss.
async fn listen(client: Client, topics: Vec<String>, news: mpsc::UnboundedSender<Received>) {
    let mut connection = client.start();
    while let Some(event) = connection.next().await {
        match event {
            Event::Connected(session) => drop(session.subscribe(topics.clone(), 0)),
            Event::Subscribed { .. } => {}
            Event::Refused { filter, .. } => {
                news.send(Received::Trouble(format!("the broker refuses the subscription to {filter}"))).ok();
            }
            Event::Messages(messages) => {
                for message in messages {
                    let published =
                        if message.retained { Received::Retained } else { Received::Published(message.payload) };
                    news.send(published).ok();
                }
            }
            Event::Lost(trouble) => drop(news.send(Received::Trouble(trouble.to_string()))),
        }
    }
}

struct Observer<'a> {
    clusters: &'a [RunningCluster],
    slots: Option<usize>,
    /// How many meters turn dishonest.
    liars: usize,
    pacer: Option<Pacer>,
    offenders: Option<watch::Receiver<BTreeMap<String, Offenders>>>,
    /// Slots that began before are not of this run.
    begun: Timestamp,
    view: &'a mut View,
    /// Clusters and slots, so that none counts twice.
    seen: BTreeSet<(String, u64)>,
    rows: Vec<Row>,
    /// The liars that are found, by cluster and meter, each with the slot in which it was.
    found: BTreeMap<String, BTreeMap<MeterId, Slot>>,
}

impl Observer<'_> {
    /// Records what is published, until there is enough of it or the meters have ended.
    async fn watch(&mut self, client: Client) {
        let topics = self.clusters.iter().map(|running| GatewayChannel::Aggregate.topic(&running.cluster));
        let (sender, mut news) = mpsc::unbounded_channel();
        // A task of its own, which ends with this one.
        let mut listening = JoinSet::new();
        listening.spawn(listen(client, topics.collect(), sender));
        let mut heard = false;
        let mut interval = tokio::time::interval(STATUS_INTERVAL);
        while !self.clusters.iter().any(RunningCluster::is_over) {
            tokio::select! {
                _ = interval.tick() => self.show_status(heard),
                Some(news) = news.recv() => match news {
                    Received::Trouble(reason) => self.view.trouble(&reason),
                    Received::Retained => heard = true,
                    Received::Published(payload) => {
                        heard = true;
                        let Ok(aggregate) = serde_json::from_slice::<Aggregate>(&payload) else { continue };
                        if self.seen.insert((aggregate.cluster.clone(), aggregate.slot)) {
                            self.note(aggregate);
                        }
                        if self.slots.map_or_else(|| self.is_story_over(), |wanted| self.has_enough(wanted)) {
                            return;
                        }
                    }
                },
            }
        }
    }

    fn show_status(&mut self, heard: bool) {
        if let Some(pacer) = &mut self.pacer {
            pacer.look(self.clusters);
        }
        let statuses: Vec<_> = self.clusters.iter().map(|running| (&running.cluster, status(running))).collect();
        self.view.status(&statuses);
        let offenders = self.offenders.as_ref().map(|known| known.borrow().clone()).unwrap_or_default();
        for (cluster, status) in &statuses {
            let Some(known) = offenders.get(cluster.as_str()) else { continue };
            let found = self.found.entry(cluster.to_string()).or_default();
            self.view.liars(cluster, status, known, found);
        }
        if !heard && statuses.iter().any(|(_, status)| status.slots > SILENT_SLOTS) {
            self.view.say(NOTHING_RECEIVED);
        }
    }

    fn note(&mut self, aggregate: Aggregate) {
        if self.were_all_there(&aggregate) {
            let row = self.with_expected(aggregate);
            self.view.row(&row);
            self.rows.push(row);
        }
    }

    fn has_enough(&self, wanted: usize) -> bool {
        let rows = |cluster: &RunningCluster| {
            let of_cluster = |row: &&Row| row.aggregate.cluster == cluster.cluster.as_str();
            self.rows.iter().filter(of_cluster).count()
        };
        self.clusters.iter().all(|cluster| rows(cluster) >= wanted)
    }

    /// Returns whether meters were dishonest, all of them are found, and sums go on.
    fn is_story_over(&self) -> bool {
        let found = || self.found.values().flat_map(BTreeMap::values);
        let goes_on = |cluster: &RunningCluster| {
            let since = found().max().map_or(0, |slot| slot.0);
            let rows = self.rows.iter().rev().filter(|row| row.aggregate.cluster == cluster.cluster.as_str());
            let sums = rows.take_while(|row| row.aggregate.slot > since && row.aggregate.load_watts.is_some());
            sums.count() >= SUMS_AFTERWARDS
        };
        self.liars > 0 && found().count() >= self.liars && self.clusters.iter().all(goes_on)
    }

    fn with_expected(&self, aggregate: Aggregate) -> Row {
        let running = self.clusters.iter().find(|running| running.cluster.as_str() == aggregate.cluster);
        let expected = running.and_then(|running| {
            running.oracle.lock().unwrap_or_else(PoisonError::into_inner).expected(Slot(aggregate.slot))
        });
        Row { aggregate, expected: expected.map(Into::into) }
    }

    /// Whether all meters were there when the slot began. One that is still agreeing on keys keeps the whole process busy.
    fn were_all_there(&self, aggregate: &Aggregate) -> bool {
        let Ok(start) = aggregate.start.parse::<jiff::Timestamp>() else { return false };
        let start = Timestamp::from_millis(u64::try_from(start.as_millisecond()).unwrap_or(0));
        // Without a list, nobody was there.
        let were = |status: Status| !status.busy && status.since.is_some_and(|since| since.max(self.begun) <= start);
        self.clusters.iter().map(status).all(were)
    }
}

fn status(running: &RunningCluster) -> Status {
    running.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Completes on SIGINT or SIGTERM.
pub async fn interrupted() {
    let asked = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! { () = asked(SignalKind::interrupt()) => {}, () = asked(SignalKind::terminate()) => {} }
}
