//! What Prometheus sees: a registry of what is counted as it happens, and tables of gauges that are read off the board.

mod clusters;
mod gauges;
mod groups;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dream_protocol::aggregate::Failure;
use dream_protocol::cluster::Rejection;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::StatusCode;
use prometheus::core::Collector;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use self::groups::Told;
use crate::board::Board;
use crate::board::holders::HoldersView;

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    messages: IntCounterVec,
    slots: IntCounterVec,
    stages: HistogramVec,
    broker_connected: IntGauge,
    broker_troubles: IntCounterVec,
    unacknowledged: IntGauge,
    /// The count of the current session.
    session_unacknowledged: Mutex<Arc<AtomicUsize>>,
    commits: Histogram,
    commit_errors: IntCounter,
    store_bytes: IntGauge,
    meter_status: IntCounterVec,
    contradictions: IntCounterVec,
    holder_answers: IntCounterVec,
    certificate_expiry: IntGauge,
    clock_doubtful: IntGauge,
    remote_write_behind: IntGauge,
    remote_write_samples: IntCounterVec,
    remote_write_failures: IntCounter,
}

/// A part of a slot's life, as an operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From the slot's end until the missing members were asked about.
    Request,
    /// From the slot's end until it closed, durably.
    Close,
    /// How long a batch of messages took to handle.
    Handle,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Request, Self::Close, Self::Handle];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Close => "close",
            Self::Handle => "handle",
        }
    }
}

impl Metrics {
    /// Makes all metrics, with every series at zero that is known beforehand; `troubles` are the causes of lost connections.
    pub fn new(troubles: &[&str]) -> Self {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauge = |name: &str, help: &str| registered(&registry, IntGauge::new(name, help));
        let metrics = Self {
            messages: counters("dream_messages_total", "Messages by kind and outcome.", &["kind", "result"]),
            slots: counters("dream_slots_total", "Closed slots by outcome.", &["cluster", "outcome"]),
            stages: registered(&registry, stages()),
            broker_connected: gauge("dream_broker_connected", "1 while connected and subscribed."),
            broker_troubles: counters(
                "dream_broker_troubles_total",
                "Lost or refused connections by cause.",
                &["cause"],
            ),
            unacknowledged: gauge(
                "dream_broker_unacknowledged_messages",
                "Messages received and not yet acknowledged: the broker's in-flight window bounds them.",
            ),
            session_unacknowledged: Mutex::default(),
            commits: registered(&registry, commits()),
            commit_errors: registered(
                &registry,
                IntCounter::new("dream_store_commit_errors_total", "Commits that failed and were tried again."),
            ),
            store_bytes: gauge("dream_store_size_bytes", "The size of the store's file."),
            meter_status: counters(
                "dream_meter_status_total",
                "Reasons that meters give for their silence.",
                &["cluster", "code"],
            ),
            contradictions: counters(
                "dream_contradictions_total",
                "Gateway contradictions that meters have proven with signed messages.",
                &["cluster"],
            ),
            holder_answers: counters(
                "dream_holder_answers_total",
                "Answers that holders of committees owed: right, wrong, or none by the deadline.",
                &["cluster", "answer"],
            ),
            certificate_expiry: gauge(
                "dream_certificate_expiry_timestamp_seconds",
                "When the gateway's certificate expires; no list reaches beyond it.",
            ),
            remote_write_behind: gauge(
                "dream_remote_write_behind_seconds",
                "How old the oldest slot is that waits for the receiver of remote write; 0 if none waits.",
            ),
            remote_write_samples: counters(
                "dream_remote_write_samples_total",
                "Samples that the receiver of remote write has answered for.",
                &["result"],
            ),
            remote_write_failures: registered(
                &registry,
                IntCounter::new(
                    "dream_remote_write_failures_total",
                    "Requests to the receiver of remote write that failed and were tried again.",
                ),
            ),
            clock_doubtful: gauge(
                "dream_clock_doubtful",
                "1 while the machine's clock disagrees with its steady clock, or with the meters.",
            ),
            registry: registry.clone(),
        };
        let info = IntGaugeVec::new(Opts::new("dream_build_info", "The running version."), &["version"]);
        registered(&registry, info).with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        #[cfg(target_os = "linux")]
        registry.register(Box::new(ProcessCollector::for_self())).expect("nobody else counts the process");
        metrics.start_at_zero(troubles);
        metrics
    }

    /// Makes the series whose labels are known: a rate needs the zero before the first event.
    fn start_at_zero(&self, troubles: &[&str]) {
        for kind in message_kinds() {
            for result in Rejection::WORDS.into_iter().chain(["accepted", "too_large", "not_ours"]) {
                self.messages.with_label_values(&[kind, result]);
            }
        }
        for cause in troubles {
            self.broker_troubles.with_label_values(&[cause]);
        }
        for stage in Stage::ALL {
            self.stages.with_label_values(&[stage.as_str()]);
        }
        for result in ["accepted", "refused"] {
            self.remote_write_samples.with_label_values(&[result]);
        }
    }

    /// Counts a message by kind and outcome.
    pub fn message(&self, kind: &str, result: &str) {
        self.messages.with_label_values(&[kind, result]).inc();
    }

    /// Counts the accepted messages of a batch.
    pub fn accepted(&self, kind: &str, count: u64) {
        self.messages.with_label_values(&[kind, "accepted"]).inc_by(count);
    }

    pub fn slot_closed(&self, cluster: &ClusterId, outcome: &str) {
        self.slots.with_label_values(&[cluster.as_str(), outcome]).inc();
    }

    pub fn meter_status(&self, cluster: &ClusterId, code: &str) {
        self.meter_status.with_label_values(&[cluster.as_str(), code]).inc();
    }

    pub fn contradiction(&self, cluster: &ClusterId) {
        self.contradictions.with_label_values(&[cluster.as_str()]).inc();
    }

    /// Counts how the holders of a slot answered.
    pub fn holders_answered(&self, cluster: &ClusterId, holders: &HoldersView) {
        let right = holders.answered.saturating_sub(holders.wrong);
        for (answer, count) in HOLDER_ANSWERS.into_iter().zip([right, holders.wrong, holders.vanished()]) {
            self.holder_answers.with_label_values(&[cluster.as_str(), answer]).inc_by(count.into());
        }
    }

    pub fn stage(&self, stage: Stage, took: Duration) {
        self.stages.with_label_values(&[stage.as_str()]).observe(took.as_secs_f64());
    }

    pub fn broker_connected(&self, connected: bool) {
        self.broker_connected.set(connected.into());
    }

    pub fn broker_trouble(&self, cause: &str) {
        self.broker_troubles.with_label_values(&[cause]).inc();
    }

    /// Takes the count of unacknowledged messages of a new session.
    pub fn track_unacknowledged(&self, unacknowledged: Arc<AtomicUsize>) {
        *self.session_unacknowledged.lock().unwrap_or_else(PoisonError::into_inner) = unacknowledged;
    }

    pub fn committed(&self, took: Duration, file_bytes: u64) {
        self.commits.observe(took.as_secs_f64());
        self.store_bytes.set(file_bytes.try_into().unwrap_or(i64::MAX));
    }

    pub fn commit_failed(&self) {
        self.commit_errors.inc();
    }

    /// Notes when the certificate that signs new lists ends.
    pub fn certificate_ends(&self, unix_seconds: u64) {
        self.certificate_expiry.set(unix_seconds.try_into().unwrap_or(i64::MAX));
    }

    /// Notes whether the clock is believed.
    pub fn clock_doubtful(&self, doubtful: bool) {
        self.clock_doubtful.set(doubtful.into());
    }

    /// Notes how old the oldest slot is that waits for the receiver of remote write.
    pub fn remote_write_behind(&self, behind: Duration) {
        self.remote_write_behind.set(behind.as_secs().try_into().unwrap_or(i64::MAX));
    }

    /// Counts samples that a receiver has accepted or refused.
    pub fn remote_written(&self, result: &str, samples: u64) {
        self.remote_write_samples.with_label_values(&[result]).inc_by(samples);
    }

    pub fn remote_write_failed(&self) {
        self.remote_write_failures.inc();
    }

    /// Makes the counters of a cluster, at zero.
    pub fn add_cluster(&self, cluster: &ClusterId) {
        self.each_of_cluster(cluster, |counters, labels| drop(counters.with_label_values(labels)));
    }

    /// Removes the counters of a cluster.
    pub fn remove_cluster(&self, cluster: &ClusterId) {
        self.each_of_cluster(cluster, |counters, labels| drop(counters.remove_label_values(labels)));
    }

    /// Does something with every counter of a cluster.
    fn each_of_cluster(&self, cluster: &ClusterId, each: impl Fn(&IntCounterVec, &[&str])) {
        slot_outcomes().for_each(|outcome| each(&self.slots, &[cluster.as_str(), outcome]));
        StatusCode::ALL.iter().for_each(|code| each(&self.meter_status, &[cluster.as_str(), status_label(*code)]));
        HOLDER_ANSWERS.iter().for_each(|answer| each(&self.holder_answers, &[cluster.as_str(), answer]));
        each(&self.contradictions, &[cluster.as_str()]);
    }

    /// Returns the text that Prometheus scrapes.
    pub fn render(&self, board: &Board, now: Timestamp) -> String {
        let waiting =
            self.session_unacknowledged.lock().unwrap_or_else(PoisonError::into_inner).load(Ordering::Relaxed);
        self.unacknowledged.set(waiting.try_into().unwrap_or(i64::MAX));
        let clusters: Vec<_> = board.clusters().1.into_iter().map(|view| (view.cluster.to_string(), view)).collect();
        let groups: Vec<_> =
            board.groups().1.into_iter().map(|view| (view.id.to_string(), Told::new(view, now))).collect();
        let mut families = self.registry.gather();
        families.extend(gauges::collect(&clusters::GAUGES, "cluster", &clusters, now));
        families.extend(gauges::collect(&groups::GAUGES, "group", &groups, now));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        TextEncoder::new().encode_to_string(&families).expect("what was registered can be written as text")
    }
}

/// Registers what was made of a valid name.
fn registered<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let metric = made.expect("a valid name");
    registry.register(Box::new(metric.clone())).expect("every metric has a name of its own");
    metric
}

/// Returns the label of a meter's status (`protocol.md 7`, message 6) in metrics and logs.
pub const fn status_label(code: StatusCode) -> &'static str {
    match code {
        StatusCode::NoList => "no_list",
        StatusCode::ListRefused => "list_refused",
        StatusCode::NotListed => "not_listed",
        StatusCode::LedgerExhausted => "ledger_exhausted",
        StatusCode::ClockDoubtful => "clock_doubtful",
        StatusCode::RecordLost => "record_lost",
        StatusCode::RequestRefused => "request_refused",
        StatusCode::Equivocation => "equivocation",
        StatusCode::NotAsked => "not_asked",
    }
}

/// The labels of `answer`.
const HOLDER_ANSWERS: [&str; 3] = ["right", "wrong", "none"];

/// Returns the labels of `kind`: the channels that a gateway subscribes to, and `other`.
fn message_kinds() -> impl Iterator<Item = &'static str> {
    let lists = [GatewayChannel::Membership, GatewayChannel::FullMembership].map(GatewayChannel::as_str);
    MeterChannel::ALL.map(MeterChannel::as_str).into_iter().chain(lists).chain(["other"])
}

/// Returns the labels of `outcome`.
fn slot_outcomes() -> impl Iterator<Item = &'static str> {
    Failure::ALL.map(Failure::as_str).into_iter().chain(["decoded"])
}

fn commits() -> prometheus::Result<Histogram> {
    let buckets = prometheus::exponential_buckets(0.000_5, 2.0, 16).expect("valid buckets");
    let help = "How long commits to the store took.";
    Histogram::with_opts(HistogramOpts::new("dream_store_commit_duration_seconds", help).buckets(buckets))
}

fn stages() -> prometheus::Result<HistogramVec> {
    let buckets = vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];
    let help = "How long the stages of a slot took: from its end to the request, to its close, and handling a batch of messages.";
    HistogramVec::new(HistogramOpts::new("dream_stage_duration_seconds", help).buckets(buckets), &["stage"])
}
