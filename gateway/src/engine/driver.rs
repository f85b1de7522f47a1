//! Drives the clusters: messages and time in, and what comes out made durable before it is acted upon.
//!
//! Everything that happens goes through [`Driver::run`], one thing after the other. What a batch of messages leads to is
//! collected in one [`Job`]; whoever receives it commits it and then lets its [`Effect`]s happen, in their order: the
//! acknowledgements among them, so that a message is acknowledged only after everything it caused is on disk.

mod reload;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dream_protocol::cluster::{Input, Output, Rejection};
use dream_protocol::enrolment::EnrolmentError;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::membership::ListError;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::DecodeError;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::info;

use crate::board;
use crate::board::gateway_view::{BrokerView, GatewayView};
use crate::board::named::Names;
use crate::board::offenders;
use crate::board::readiness::Latch;
use crate::config::Config;
use crate::config::secrets::GatewayIdentity;
use crate::engine::announce::{self, Retained};
use crate::engine::effect::Effect;
use crate::engine::parts::Parts;
use crate::engine::served::{self, NEVER, ServedCluster};
use crate::engine::telemetry::Telemetry;
use crate::engine::transport::{BrokerEvent, Delivery, Session};
use crate::engine::writer::{Job, WriterEnded};
use crate::metrics::Stage;
use crate::store::Change;

/// How many events are handled before they are handed to the store: a thousand messages or so.
const BATCH: usize = 8;

/// How many clusters' topics are asked for in one packet.
const SUBSCRIBED_TOGETHER: usize = 10;

/// How long to sleep at most: the wall clock may be set while nothing happens.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How often aggregates that are too old are dropped.
const EXPIRE_EVERY_SECONDS: u64 = 3600;

/// A command to a running driver.
#[derive(Debug)]
pub enum Command {
    Reload(Box<Config>, Box<GatewayIdentity>),
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
}

impl Driver {
    /// Rebuilds the clusters from the store, which takes a while for large ones. Whoever receives the jobs commits each
    /// before it lets its effects happen, in their order: a [`Writer`](crate::engine::writer::Writer) with an [`EffectRunner`](crate::engine::effect::EffectRunner).
    pub fn start(parts: Parts, jobs: mpsc::Sender<Job>) -> anyhow::Result<Self> {
        let Config { clock_skew_seconds, clusters, time_zone, .. } = &parts.config;
        let owned: Vec<_> = parts.config.owned().collect();
        let Parts { identity, store, clock, .. } = &parts;
        let (skew, none) = (*clock_skew_seconds, HashMap::new());
        let served = served::resume_all(&owned, identity, skew, time_zone, store, &none, clock.now())?;
        info!(clusters = served.len(), of = clusters.len(), "clusters rebuilt from the store");
        parts.readiness.set(Latch::StoreReplayed);
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
        let mut driver = Self { parts, jobs, state: State::default() };
        for served in served {
            driver.add(served);
        }
        Ok(driver)
    }

    /// Runs until it is told to stop.
    pub async fn run(
        mut self,
        mut incoming: mpsc::Receiver<BrokerEvent>,
        mut commands: mpsc::Receiver<Command>,
    ) -> Result<(), WriterEnded> {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.parts.readiness.beat();
            self.tick();
            self.send_job().await?;
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Reload(config, identity)) => self.reload(*config, *identity).await,
                    Some(Command::Stop) | None => break,
                },
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
        self.stop(incoming).await
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

    fn connected(&mut self, session: Arc<dyn Session>) {
        self.parts.telemetry.broker_connected();
        let since = self.parts.clock.now();
        self.parts.board.update_gateway(|gateway| gateway.broker = BrokerView::Connected { since });
        self.parts.telemetry.metrics.track_unacknowledged(session.state().unacknowledged.clone());
        self.state.session = Some(session);
        self.state.subscribing.clear();
        self.state.foreign.clear();
        self.publish_discovery_removals();
        let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
        self.subscribe(&all);
        // A replica may have no cluster at all.
        self.publish_online_when_subscribed();
    }

    /// Asks for the topics of clusters; they count as connected when the broker has confirmed. A few at a time, so that
    /// one that is refused does not keep all others waiting.
    fn subscribe(&mut self, clusters: &[ClusterId]) {
        let Some(session) = &self.state.session else { return };
        for some in clusters.chunks(SUBSCRIBED_TOGETHER) {
            let tag = self.state.next_tag;
            self.state.next_tag += 1;
            let asking = session.subscribe(some.iter().flat_map(filters).collect(), tag);
            self.state.subscribing.insert(tag, (some.to_vec(), asking));
        }
    }

    fn subscribed(&mut self, session: u64, tag: u64) {
        if self.state.session.as_ref().is_none_or(|current| current.state().number != session) {
            return;
        }
        let Some((clusters, _)) = self.state.subscribing.remove(&tag) else { return };
        for cluster in &clusters {
            self.announce(cluster);
            self.input(cluster, Input::Connected);
        }
        self.publish_online_when_subscribed();
    }

    fn publish_online_when_subscribed(&mut self) {
        if self.state.session.is_some() && self.state.subscribing.is_empty() {
            self.publish(self.parts.status_topic.clone(), b"online".to_vec(), true);
            self.parts.readiness.set(Latch::BrokerSubscribed);
            self.parts.telemetry.broker_subscribed();
            let now = self.parts.clock.now();
            self.parts.board.update_gateway(|gateway| gateway.broker = gateway.broker.subscribed(now));
        }
    }

    /// What other consumers are told about a cluster when a connection stands.
    fn announce(&mut self, cluster: &ClusterId) {
        let Some(served) = self.state.clusters.get(cluster) else { return };
        let slot_seconds = served.settings.terms.slot_seconds;
        // An old one would replace what another replica has published since.
        let last = served.last.filter(|closed| board::is_recent(closed, slot_seconds, self.parts.clock.now()));
        let aggregate = last.map(|closed| announce::aggregate(cluster, &closed, served.energy().as_ref()));
        let Parts { config, status_topic, .. } = &self.parts;
        let prefix = config.home_assistant.as_ref();
        let discovery = prefix.map(|prefix| announce::discovery(prefix, cluster, slot_seconds, status_topic));
        for (topic, payload) in aggregate.into_iter().chain(discovery.into_iter().flatten()) {
            self.publish(topic, payload, true);
        }
    }

    fn publish_discovery_removals(&mut self) {
        if self.state.session.is_some() {
            for (topic, payload) in std::mem::take(&mut self.state.pending_discovery_removals) {
                self.publish(topic, payload, true);
            }
        }
    }

    fn lost(&mut self) {
        self.parts.readiness.unset(Latch::BrokerSubscribed);
        self.parts.telemetry.metrics.track_unacknowledged(Arc::default());
        if self.state.session.take().is_some() {
            let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
            for cluster in &all {
                self.input(cluster, Input::Disconnected);
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.handle_message(&delivery);
        if let (Some(session), Some(receipt)) = (&self.state.session, delivery.receipt) {
            session.state().unacknowledged.fetch_add(1, Ordering::Relaxed);
            match self.state.job.effects.last_mut() {
                Some(Effect::Acknowledge(same, receipts)) if Arc::ptr_eq(same, session) => receipts.push(receipt),
                _ => self.state.job.effects.push(Effect::Acknowledge(session.clone(), vec![receipt])),
            }
        }
    }

    fn handle_message(&mut self, delivery: &Delivery) {
        let Some(topic) = std::str::from_utf8(&delivery.topic).ok() else { return self.parts.telemetry.bad_topic() };
        let (cluster, kind, reports) = match Topic::parse(topic) {
            Ok(Topic::Meter { cluster, channel, meter }) => {
                (cluster, channel.as_str(), (channel == MeterChannel::Reading).then_some(meter))
            }
            Ok(Topic::Gateway { cluster, channel }) => (cluster, channel.as_str(), None),
            Err(_) => return self.parts.telemetry.bad_topic(),
        };
        if delivery.too_large {
            return self.parts.telemetry.too_large(kind);
        }
        if let Some((cluster, meter)) = self.enrolled_elsewhere(topic) {
            return self.parts.telemetry.rejected(kind, cluster, meter.as_ref(), &Rejection::InOtherCluster);
        }
        let Some(served) = self.state.clusters.get_mut(cluster) else { return self.not_served(cluster, kind) };
        let now = self.parts.clock.now();
        served.machine.handle(Input::Message { topic, payload: &delivery.payload }, now, &mut UnwrapErr(SysRng));
        if !std::mem::replace(&mut served.touched, true) {
            self.state.touched.push(served.id.clone());
        }
        if !drain(served, kind, now, &self.state.session, &mut self.state.job, &self.parts.telemetry) {
            *self.state.accepted.entry(kind).or_default() += 1;
            if let Some(meter) = reports {
                served.heard(meter, now);
            }
        }
    }

    /// Returns the cluster and the meter of an enrolment if the meter is in another cluster here. A meter is in one at a time,
    /// and moves when the other one neither lists it nor knows it any more.
    fn enrolled_elsewhere(&self, topic: &str) -> Option<(&ClusterId, Option<MeterId>)> {
        let Ok(Topic::Meter { cluster, channel: MeterChannel::Enrol, meter }) = Topic::parse(topic) else {
            return None;
        };
        let clusters = &self.state.clusters;
        let served = clusters.get(cluster).filter(|served| !served.machine.holds(meter))?;
        let elsewhere = clusters.values().any(|other| other.id != served.id && other.machine.holds(meter));
        elsewhere.then(|| (&served.id, MeterId::new(meter).ok()))
    }

    /// A session outlives a cluster that has moved or was removed: its topics are given up when they turn up.
    fn not_served(&mut self, cluster: &str, kind: &str) {
        self.parts.telemetry.not_served(kind);
        if self.state.foreign.insert(cluster.to_owned())
            && let (Ok(cluster), Some(session)) = (ClusterId::new(cluster), &self.state.session)
        {
            session.unsubscribe(filters(&cluster));
        }
    }

    fn input(&mut self, cluster: &ClusterId, input: Input<'_>) {
        let Some(served) = self.state.clusters.get_mut(cluster) else { return };
        let now = self.parts.clock.now();
        served.machine.handle(input, now, &mut UnwrapErr(SysRng));
        served.changed = true;
        drain(served, "", now, &self.state.session, &mut self.state.job, &self.parts.telemetry);
        if !std::mem::replace(&mut served.touched, true) {
            self.state.touched.push(served.id.clone());
        }
    }

    /// Lets time pass for whoever is due, and works out when that is next.
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
            let ago = |days: u64| Timestamp::from_millis(at.as_millis().saturating_sub(days * 86_400_000));
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

    fn publish(&mut self, topic: String, payload: Vec<u8>, retain: bool) {
        if let Some(session) = &self.state.session {
            let payload = payload.into();
            self.state.job.effects.push(Effect::Publish { session: session.clone(), topic, payload, retain });
        }
    }

    fn add(&mut self, served: ServedCluster) {
        let cluster = served.id.clone();
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

/// Moves all outputs of a machine into the job. Returns whether a message was rejected.
fn drain(
    served: &mut ServedCluster,
    kind: &str,
    now: Timestamp,
    session: &Option<Arc<dyn Session>>,
    job: &mut Job,
    telemetry: &Telemetry,
) -> bool {
    let mut rejected = false;
    while let Some(output) = served.machine.poll() {
        match output {
            Output::Persist(record) => job.changes.push(Change::Put(served.id.clone(), record)),
            Output::Forget(forget) => job.changes.push(Change::Forget(served.id.clone(), forget)),
            Output::Publish { channel, payload } => {
                if let Some(session) = session {
                    let (session, topic) = (session.clone(), channel.topic(&served.id));
                    let (payload, retain) = (bytes::Bytes::from_owner(payload), channel.is_retained());
                    job.effects.push(Effect::Publish { session, topic, payload, retain });
                }
            }
            Output::Reject { meter, reason } => {
                rejected = true;
                telemetry.rejected(kind, &served.id, meter.as_ref(), &reason);
                if is_of_earlier_format(&reason) {
                    if !std::mem::replace(&mut served.earlier_format, true) {
                        telemetry.earlier_format(&served.id, kind);
                    }
                } else if kind == GatewayChannel::FullMembership.as_str()
                    && !std::mem::replace(&mut served.foreign_list, true)
                {
                    telemetry.foreign_list(&served.id, &reason);
                }
            }
            Output::Closed(outcome) => {
                let closed = served.note_closed(outcome, &mut job.changes);
                job.effects.push(Effect::Closed { cluster: served.id.clone(), closed });
                if let Some(session) = session {
                    let (topic, payload) = announce::aggregate(&served.id, &closed, served.energy().as_ref());
                    let (session, payload) = (session.clone(), payload.into());
                    job.effects.push(Effect::Publish { session, topic, payload, retain: true });
                }
            }
            Output::Notice(notice) => {
                served.note(&notice, now);
                telemetry.notice(&served.id, &notice, now);
            }
        }
    }
    rejected
}

/// Returns whether a message was made by a version whose formats were other ones.
const fn is_of_earlier_format(reason: &Rejection) -> bool {
    matches!(
        reason,
        Rejection::Decode(DecodeError::EarlierFormat)
            | Rejection::Enrolment(EnrolmentError::Decode(DecodeError::EarlierFormat))
            | Rejection::List(ListError::Decode(DecodeError::EarlierFormat))
    )
}

/// Returns every topic of a cluster that concerns its gateway.
fn filters(cluster: &ClusterId) -> Vec<String> {
    let meters = MeterChannel::ALL.into_iter().map(|channel| channel.filter(cluster));
    let lists = [GatewayChannel::Membership, GatewayChannel::FullMembership].map(|channel| channel.topic(cluster));
    meters.chain(lists).collect()
}
