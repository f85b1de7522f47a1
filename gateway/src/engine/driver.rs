//! Drives the clusters: messages and time in, and what comes out made durable before it is acted upon.
//!
//! Everything that happens goes through [`Driver::run`], one thing after the other. What a batch of messages leads to is
//! collected in one [`Job`]; the receiver commits it and then runs its [`Effect`]s in order: the
//! acknowledgements among them, so that a message is acknowledged only after everything it caused is on disk.

pub(in crate::engine) mod connection;
mod messages;
mod meters;
mod rebuilding;
mod reload;
mod time;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dream_protocol::cluster::Input;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::board::gateway_view::GatewayView;
use crate::board::named::Names;
use crate::board::offenders;
use crate::board::readiness::Latch;
use crate::clock::Clock as _;
use crate::config::Config;
use crate::config::secrets::GatewayIdentity;
use crate::config::snapshot::{self, Snapshot};
use crate::engine::announce::Retained;
use crate::engine::effect::Effect;
use crate::engine::parts::Parts;
use crate::engine::served::{self, NEVER, ServedCluster};
use crate::engine::transport::{BrokerEvent, Session};
use crate::engine::writer::{Job, WriterEnded};
use crate::metrics::Stage;
use crate::store::Change;
use meters::MeterIndex;
use rebuilding::Rebuilding;
use time::Trust;

/// How many events are handled before they are handed to the store: a thousand messages or so.
const BATCH: usize = 8;

/// How long to sleep at most: the wall clock may be set while nothing happens.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How often aggregates that are too old are dropped.
const EXPIRE_EVERY_SECONDS: u64 = 3600;

/// A command to a running driver.
#[derive(Debug)]
pub enum Command {
    /// Serve by another configuration, and say what has changed, or why nothing has.
    Reload(Box<Config>, Box<GatewayIdentity>, oneshot::Sender<Result<Vec<snapshot::Change>, String>>),
    Stop,
}

/// Runs the clusters that this replica owns.
#[derive(Debug)]
pub struct Driver {
    parts: Parts,
    /// What is to be committed, and the effects that follow.
    jobs: mpsc::Sender<Job>,
    state: State,
}

/// What changes while it runs.
#[derive(Debug, Default)]
struct State {
    clusters: HashMap<ClusterId, ServedCluster>,
    rebuilding: Rebuilding,
    meters: MeterIndex,
    /// When each cluster is to get its next tick.
    ticks: BTreeSet<(Timestamp, ClusterId)>,
    /// Clusters with a message in this batch.
    touched: Vec<ClusterId>,
    session: Option<Arc<dyn Session>>,
    /// Clusters whose subscriptions are asked for, by tag, and what asks for them.
    subscribing: HashMap<u64, (Vec<ClusterId>, AbortHandle)>,
    next_tag: u64,
    /// Messages that remove the Home Assistant sensors of removed clusters, to be published once connected.
    pending_discovery_removals: Vec<Retained>,
    /// Clusters that are not served here, whose topics were given up in this session.
    foreign: HashSet<String>,
    job: Job,
    /// Messages of this batch that were of use, by kind.
    accepted: BTreeMap<&'static str, u64>,
    next_expiry: Option<Timestamp>,
    time: Trust,
}

impl Driver {
    /// Makes a driver, which rebuilds the clusters from the store when it runs. The receiver of the jobs commits each
    /// before it lets its effects happen, in their order: a [`Writer`](crate::engine::writer::Writer) with an [`EffectRunner`](crate::engine::effect::EffectRunner).
    pub fn new(parts: Parts, jobs: mpsc::Sender<Job>) -> Self {
        parts.telemetry.metrics.certificate_ends(parts.identity.checked.not_after());
        let (since, kept) = (parts.clock.now(), &parts.config.store);
        let (retention_days, hours_retention_days) = (kept.retention_days, kept.hours_retention_days);
        let certificate_ends = Some(parts.identity.checked.not_after());
        parts.board.update_gateway(|gateway| {
            *gateway = GatewayView {
                since: Some(since),
                retention_days,
                hours_retention_days,
                certificate_ends,
                ..GatewayView::default()
            };
        });
        parts.board.set_groups(&parts.config.groups);
        parts.running.set_gateway(Snapshot::of(&parts.config));
        parts.readiness.set(Latch::ClockRight);
        let rebuilding = Rebuilding::new(parts.config.owned().map(|(id, _)| id.to_string()));
        Self { parts, jobs, state: State { rebuilding, ..State::default() } }
    }

    /// Runs until it is stopped. Clusters are served as soon as they are rebuilt.
    pub async fn run(
        mut self,
        mut incoming: mpsc::Receiver<BrokerEvent>,
        mut commands: mpsc::Receiver<Command>,
    ) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut rebuilt = served::rebuild(&self.parts, self.parts.clock.now());
        if self.state.rebuilding.is_over() {
            self.rebuilt_all().await?;
        }
        loop {
            self.parts.readiness.beat();
            self.check_time().await?;
            self.tick();
            self.send_job().await?;
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Reload(config, identity, done)) => {
                        while let Some(served) = rebuilt.recv().await {
                            self.serve(served?).await?;
                        }
                        done.send(self.reload(*config, *identity).await).ok();
                    }
                    Some(Command::Stop) | None => break,
                },
                Some(served) = rebuilt.recv() => self.serve(served?).await?,
                _ = incoming.recv_many(&mut batch, BATCH) => {}
                () = tokio::time::sleep(self.until_due()) => {}
            }
            let started = Instant::now();
            if !batch.is_empty() {
                batch.drain(..).for_each(|event| self.handle(event));
                for (kind, count) in std::mem::take(&mut self.state.accepted) {
                    self.parts.telemetry.metrics.accepted(kind, count);
                }
                self.parts.telemetry.metrics.stage(Stage::Handle, started.elapsed());
            }
        }
        Ok(self.stop(incoming).await?)
    }

    fn handle(&mut self, event: BrokerEvent) {
        match event {
            BrokerEvent::Connected(session) => self.connected(session),
            BrokerEvent::Subscribed { session, tag } => self.subscribed(session, tag),
            BrokerEvent::SubscriptionRefused { filter } => self.parts.telemetry.subscription_refused(&filter),
            BrokerEvent::Deliveries(deliveries) => {
                for delivery in deliveries.messages {
                    self.deliver(delivery);
                }
            }
            BrokerEvent::Lost(trouble) => {
                self.parts.telemetry.broker_lost(&trouble);
                let (now, reason) = (self.parts.clock.now(), trouble.to_string());
                self.parts.board.update_gateway(|gateway| gateway.broker = gateway.broker.lost(now, reason));
                self.lost();
            }
            // Only a driver that stops asks for it.
            BrokerEvent::Ended => {}
        }
    }

    /// Ticks the clusters that are due, and returns when the next one is.
    fn tick(&mut self) {
        let at = self.parts.clock.now();
        while let Some((due, cluster)) = self.state.ticks.first().cloned().filter(|(due, _)| *due <= at) {
            self.state.ticks.remove(&(due, cluster.clone()));
            self.input(&cluster, Input::Tick);
        }
        let (mut views, mut names) = (Vec::new(), Vec::new());
        for cluster in std::mem::take(&mut self.state.touched) {
            let Some(served) = self.state.clusters.get_mut(&cluster) else { continue };
            served.touched = false;
            self.state.ticks.remove(&(served.next_tick, cluster.clone()));
            served.next_tick = served.machine.deadline().unwrap_or(NEVER);
            self.state.ticks.insert((served.next_tick, cluster));
            let Some(view) = served.take_view(at) else { continue };
            names.push((
                served.id.clone(),
                Names { offenders: offenders::named(&served.id, &served.machine, at), holders: served.named_holders() },
            ));
            views.push(view);
        }
        if !views.is_empty() {
            self.state.job.effects.push(Effect::Show { views, names });
        }
        if self.state.next_expiry.is_none_or(|due| due <= at) {
            self.state.next_expiry = Some(at.plus_secs(EXPIRE_EVERY_SECONDS));
            // Nothing is dropped at a time that may be wrong; the store is written all the same, which shows that it can be.
            let now = if self.time_is_right() { at.as_millis() } else { 0 };
            let ago = |days: u64| Timestamp::from_millis(now.saturating_sub(days * 86_400_000));
            let kept = &self.parts.config.store;
            let (slots, hours) = (ago(kept.retention_days), ago(kept.hours_retention_days));
            self.state.job.changes.push(Change::Expire { slots, hours });
            self.begin_filters();
        }
    }

    /// Lets the filters of clusters that gave no sum yet begin with what the others learned by now.
    fn begin_filters(&mut self) {
        let clusters = &mut self.state.clusters;
        if clusters.values().all(|served| served.filter.has_begun()) {
            return;
        }
        let profiles = served::profiles(clusters.values());
        clusters.values_mut().for_each(|served| served.filter.begin_with(&profiles));
    }

    fn until_due(&self) -> Duration {
        let now = self.parts.clock.now();
        let due = self.state.ticks.first().map_or(u64::MAX, |(due, _)| due.millis_since(now));
        self.parts.clock.to_sleep(Duration::from_millis(due)).min(LONGEST_SLEEP)
    }

    async fn send_job(&mut self) -> Result<(), WriterEnded> {
        if self.state.job.is_empty() {
            return Ok(());
        }
        self.jobs.send(std::mem::take(&mut self.state.job)).await.map_err(|_| WriterEnded)
    }

    /// Waits until everything so far is durable and has had its effects.
    async fn flush(&mut self) -> Result<(), WriterEnded> {
        let (done, flushed) = oneshot::channel();
        self.state.job.effects.push(Effect::Flushed(done));
        self.send_job().await?;
        flushed.await.map_err(|_| WriterEnded)
    }

    fn add(&mut self, mut served: ServedCluster) {
        if !self.time_is_right() {
            served.machine.doubt_time(self.parts.clock.now());
            served.next_tick = served.machine.deadline().unwrap_or(NEVER);
        }
        let cluster = served.id.clone();
        for meter in std::mem::take(&mut served.meters) {
            self.state.meters.note(&cluster, meter.as_str());
        }
        self.parts.telemetry.metrics.add_cluster(&cluster);
        self.state.ticks.insert((served.next_tick, cluster.clone()));
        self.state.clusters.insert(cluster.clone(), served);
        // What was left to do when the records were made, and what the board shows.
        self.input(&cluster, Input::Tick);
    }

    /// Makes durable what there is, says that the gateway is offline, and lets go of the broker. The error is a disk that did
    /// not take it.
    async fn stop(mut self, mut incoming: mpsc::Receiver<BrokerEvent>) -> Result<(), WriterEnded> {
        self.publish(self.parts.status_topic.clone(), b"offline".to_vec(), true);
        let flushed = self.flush().await;
        if let Some(session) = self.state.session.take() {
            session.disconnect();
            // The connection ends by itself once nothing is left to say. What still comes in is not acknowledged.
            while let Some(event) = incoming.recv().await {
                if matches!(event, BrokerEvent::Lost(_) | BrokerEvent::Ended) {
                    break;
                }
            }
        }
        flushed
    }
}
