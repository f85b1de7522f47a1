//! What Prometheus sees. Counters and histograms live here; gauges of clusters are read off the board at each scrape, so
//! that those of a removed cluster are gone and those of a stalled one do not pretend.

mod groups;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dream_protocol::aggregate::Failure;
use dream_protocol::cluster::Rejection;
use dream_protocol::ids::ClusterId;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::StatusCode;
use prometheus::core::Collector;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use self::groups::Told;
use crate::clock::Period;
use crate::serve::board::{Board, ClusterView};
use crate::serve::day_epsilon;
use crate::serve::energy;
use crate::serve::holders::HoldersView;
use crate::serve::offenders::OffenderCounts;
use crate::store::{Extent, FilteredLoad, Load, Rollup};

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
        let metrics = Self {
            messages: counters(
                "dream_messages_total",
                "Messages by kind, and what became of them.",
                &["kind", "result"],
            ),
            slots: counters("dream_slots_total", "Closed slots by how they ended.", &["cluster", "outcome"]),
            stages: stages(),
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
            commits: histogram("dream_store_commit_duration_seconds", "How long commits to the store took."),
            commit_errors: counter("dream_store_commit_errors_total", "Commits that failed and were tried again."),
            store_bytes: gauge("dream_store_size_bytes", "The size of the store's file."),
            meter_status: counters(
                "dream_meter_status_total",
                "Why meters say that they are silent.",
                &["cluster", "code"],
            ),
            contradictions: counters(
                "dream_contradictions_total",
                "Contradictions of gateways that meters have proven with signed messages.",
                &["cluster"],
            ),
            holder_answers: counters(
                "dream_holder_answers_total",
                "Answers that holders of committees owed: right, wrong, or none by the deadline.",
                &["cluster", "answer"],
            ),
            certificate_expiry: gauge(
                "dream_certificate_expiry_timestamp_seconds",
                "When the gateway's certificate ends: no list reaches beyond it.",
            ),
            registry,
        };
        let parts: [Box<dyn Collector>; 13] = [
            Box::new(metrics.messages.clone()),
            Box::new(metrics.slots.clone()),
            Box::new(metrics.stages.clone()),
            Box::new(metrics.broker_connected.clone()),
            Box::new(metrics.broker_troubles.clone()),
            Box::new(metrics.unacknowledged.clone()),
            Box::new(metrics.commits.clone()),
            Box::new(metrics.commit_errors.clone()),
            Box::new(metrics.store_bytes.clone()),
            Box::new(metrics.meter_status.clone()),
            Box::new(metrics.contradictions.clone()),
            Box::new(metrics.holder_answers.clone()),
            Box::new(metrics.certificate_expiry.clone()),
        ];
        for part in parts.into_iter().chain([build_info()]) {
            metrics.registry.register(part).expect("every metric has a name of its own");
        }
        #[cfg(target_os = "linux")]
        metrics.registry.register(Box::new(ProcessCollector::for_self())).expect("nobody else counts the process");
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
    }

    /// Counts a message of a kind by what became of it.
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

    /// Makes the counters of a cluster, at zero.
    pub fn add_cluster(&self, cluster: &ClusterId) {
        for outcome in slot_outcomes() {
            self.slots.with_label_values(&[cluster.as_str(), outcome]);
        }
        for code in StatusCode::ALL.map(status_label) {
            self.meter_status.with_label_values(&[cluster.as_str(), code]);
        }
        self.contradictions.with_label_values(&[cluster.as_str()]);
        for answer in HOLDER_ANSWERS {
            self.holder_answers.with_label_values(&[cluster.as_str(), answer]);
        }
    }

    /// Removes the counters of a cluster.
    pub fn remove_cluster(&self, cluster: &ClusterId) {
        for outcome in slot_outcomes() {
            self.slots.remove_label_values(&[cluster.as_str(), outcome]).ok();
        }
        for code in StatusCode::ALL.map(status_label) {
            self.meter_status.remove_label_values(&[cluster.as_str(), code]).ok();
        }
        self.contradictions.remove_label_values(&[cluster.as_str()]).ok();
        for answer in HOLDER_ANSWERS {
            self.holder_answers.remove_label_values(&[cluster.as_str(), answer]).ok();
        }
    }

    /// Returns the text that Prometheus scrapes.
    pub fn render(&self, board: &Board, now: Timestamp) -> String {
        let waiting =
            self.session_unacknowledged.lock().unwrap_or_else(PoisonError::into_inner).load(Ordering::Relaxed);
        self.unacknowledged.set(waiting.try_into().unwrap_or(i64::MAX));
        let (clusters, groups) = (Gauges::of_clusters(), Gauges::of_groups());
        for view in board.clusters().1 {
            clusters.set(view.cluster.as_str(), &view, now);
        }
        for view in board.groups().1 {
            let told = Told::new(view, now);
            groups.set(told.id(), &told, now);
        }
        let mut families = self.registry.gather();
        families.extend(clusters.collect());
        families.extend(groups.collect());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        TextEncoder::new().encode_to_string(&families).expect("what was registered can be written as text")
    }
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

/// The gauges of all clusters or groups, for one scrape, each with how its value is read off what is shown of one.
struct Gauges<V>(Vec<(GaugeVec, ReadOff<V>)>);

type ReadOff<V = ClusterView> = fn(&V, Timestamp) -> Value;

/// Nothing, one number, or one for each confidence, offence or period.
enum Value {
    Absent,
    One(f64),
    Band95(f64),
    Bands(f64, f64),
    Offenders(OffenderCounts),
    /// One for each running period.
    Periods(Vec<(Period, f64)>),
    PeriodBands(Vec<(Period, f64)>),
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Absent, Self::One)
    }
}

impl Value {
    /// Takes the bands of a load.
    fn bands(load: Option<Load>) -> Self {
        load.map_or(Self::Absent, |load| Self::Bands(count(load.band95), count(load.band99)))
    }
}

/// Of a watt-hour. Metrics have base units.
const JOULES: f64 = 3600.0;

/// Reads a number off each running period.
fn periods(view: &ClusterView, now: Timestamp, value: impl Fn(&Rollup, Extent) -> f64) -> Vec<(Period, f64)> {
    let energy = view.energy.as_ref();
    let running = energy.into_iter().flat_map(|energy| energy.running(now).map(|running| (running, energy.extent)));
    running.map(|((period, rollup), extent)| (period, value(&rollup, extent))).collect()
}

impl Gauges<ClusterView> {
    fn of_clusters() -> Self {
        let one = |name: &str, help: &str, value: ReadOff| (gauges(name, help, &["cluster"]), value);
        let bands = |name: &str, help: &str, value: ReadOff| (gauges(name, help, &["cluster", "confidence"]), value);
        let each = |name: &str, help: &str, value: ReadOff| (gauges(name, help, &["cluster", "period"]), value);
        Self(vec![
            one(
                "dream_cluster_load_watts",
                "The noisy sum over the responders in the last slot; absent if it failed.",
                |view, now| sum(view, now).map(|load| whole(load.watts)).into(),
            ),
            bands(
                "dream_cluster_load_band_watts",
                "Half the width of the band around the load that holds the sum without noise.",
                |view, now| Value::bands(sum(view, now)),
            ),
            one(
                "dream_cluster_load_estimated_watts",
                "The load scaled from the responders to all members: silent meters make the plain sum dip.",
                |view, now| estimate(view, now).map(|load| whole(load.watts)).into(),
            ),
            bands(
                "dream_cluster_load_estimated_band_watts",
                "Half the width of the band around the estimated load, for the noise alone.",
                |view, now| Value::bands(estimate(view, now)),
            ),
            one(
                "dream_cluster_load_filtered_watts",
                "What the sums so far tell about the load of all members in the last slot: less noise, by a model.",
                |view, now| filtered(view, now).map(|filtered| whole(filtered.watts)).into(),
            ),
            bands(
                "dream_cluster_load_filtered_band_watts",
                "Half the width of the band around the filtered load, if its model is right.",
                |view, now| filtered(view, now).map_or(Value::Absent, |filtered| Value::Band95(count(filtered.band95))),
            ),
            each(
                "dream_cluster_energy_joules",
                "Energy of all members in the running hour, day or month so far; 3.6e6 are a kWh. It has noise, and may fall.",
                |view, now| Value::Periods(periods(view, now, |rollup, _| JOULES * rollup.energy_watt_hours())),
            ),
            (
                gauges(
                    "dream_cluster_energy_band_joules",
                    "Half the width of the band around that energy.",
                    &["cluster", "period", "confidence"],
                ),
                |view, now| Value::PeriodBands(periods(view, now, |rollup, _| JOULES * rollup.band95_watt_hours())),
            ),
            each(
                "dream_cluster_energy_filled_ratio",
                "Share of the time behind that energy in which slots gave no sum, and the filter filled in their load.",
                |view, now| Value::Periods(periods(view, now, |rollup, _| rollup.filled_share())),
            ),
            each(
                "dream_cluster_energy_covered_ratio",
                "Share of the time of the period, until the last slot ended, that is in the energy: the rest is missing.",
                |view, now| Value::Periods(periods(view, now, Rollup::covered_share)),
            ),
            one("dream_cluster_noise_scale_watts", "The scale of the noise, lambda.", |view, _| {
                view.list.as_ref().map(|list| list.params.noise_scale().as_f64()).into()
            }),
            one("dream_cluster_members", "Members of the list in force.", |view, _| {
                view.list.as_ref().map(|list| list.params.members().into()).into()
            }),
            one("dream_cluster_candidates", "Enrolled meters that could be in the next list.", |view, _| {
                Value::One(view.candidates as f64)
            }),
            one("dream_cluster_min_members", "Fewer members than this make no list.", |view, _| {
                Value::One(view.min_members.into())
            }),
            one(
                "dream_cluster_enrolments_expiring",
                "Candidates whose enrolment ends within seven days; meters renew earlier than that.",
                |view, _| Value::One(view.ending as f64),
            ),
            one("dream_cluster_responders", "Members whose readings were in the last slot.", |view, now| {
                view.recent(now).map(|closed| closed.outcome.responders.into()).into()
            }),
            one("dream_cluster_missing", "Members whose readings were missing in the last slot.", |view, now| {
                view.recent(now).map(|closed| closed.outcome.missing().into()).into()
            }),
            one("dream_cluster_max_missing", "More missing members than this cost the slot.", |view, _| {
                view.list.as_ref().map(|list| list.params.max_missing().into()).into()
            }),
            one("dream_cluster_holders", "Holders of the list in force (K), if it has a committee.", |view, _| {
                committee(view).map(|committee| count(committee.holders)).into()
            }),
            one("dream_cluster_holders_needed", "How many holders must answer (q).", |view, _| {
                committee(view).map(|committee| count(committee.needed)).into()
            }),
            one("dream_cluster_holders_answered", "Holders that answered when they were last asked.", |view, now| {
                view.recent_holders(now).map(|holders| holders.answered.into()).into()
            }),
            one(
                "dream_cluster_holders_spare",
                "How many more holders could have vanished then; a wrong answer costs two.",
                |view, now| view.recent_holders(now).map(|holders| holders.spare().into()).into(),
            ),
            one("dream_cluster_holders_wrong", "Holders whose answers were wrong then.", |view, now| {
                view.recent_holders(now).map(|holders| holders.wrong.into()).into()
            }),
            one("dream_cluster_epsilon", "Epsilon of one attempt.", |view, _| {
                view.list.as_ref().map(|list| count(list.params.charge_micro_epsilon()) / 1e6).into()
            }),
            one(
                "dream_cluster_epsilon_day",
                "Epsilon that today's slots (UTC) have cost each participant so far, counted slot by slot.",
                |view, now| Value::One(count(view.spent.at(now)) / 1e6),
            ),
            one(
                "dream_cluster_epsilon_day_reserved",
                "E: epsilon of all slots of a UTC day together, which every member reserves. Never what homes used of it.",
                |view, _| {
                    let stated = view.list.as_ref().map(|list| list.params.terms().day_micro_epsilon);
                    stated.filter(|&stated| stated > 0).map(|stated| count(stated) / 1e6).into()
                },
            ),
            one(
                "dream_cluster_epsilon_day_at_delta",
                "Epsilon of a whole day of the list in force, but for a probability of 1e-6, if no slot is tried twice.",
                |view, _| view.list.as_ref().map(|list| day_epsilon::at_delta(&list.params, 1)).into(),
            ),
            one(
                "dream_cluster_membership_epoch",
                "The epoch of the newest list: the Unix time at which it was made, or a little later.",
                |view, _| view.list.as_ref().map(|list| count(list.epoch)).into(),
            ),
            one("dream_cluster_last_slot_timestamp_seconds", "The end of the last slot that closed.", |view, _| {
                view.last.map(|closed| count(closed.outcome.end.as_millis()) / 1e3).into()
            }),
            one("dream_cluster_slot_seconds", "The length of a slot.", |view, _| Value::One(count(view.slot_seconds))),
            (
                gauges(
                    "dream_cluster_offenders",
                    "Members that spoil slots, by what they do.",
                    &["cluster", "offence"],
                ),
                |view, _| Value::Offenders(view.offenders),
            ),
            one(
                "dream_cluster_quarantined",
                "Members that are left out of sums until they pass a trial.",
                |view, _| Value::One(view.offenders.quarantined as f64),
            ),
            one(
                "dream_cluster_left_out_of_lists",
                "Members that lists are formed without, for some days.",
                |view, _| Value::One(view.offenders.left_out_of_lists as f64),
            ),
            one(
                "dream_cluster_searching",
                "1 while groups of members are left out to find who spoils sums.",
                |view, _| Value::One(f64::from(u8::from(view.offenders.searching))),
            ),
            one(
                "dream_cluster_left_out_to_search",
                "Members that lists are formed without for some slots, because several spoil sums.",
                |view, _| Value::One(view.offenders.left_out_to_search as f64),
            ),
            one(
                "dream_cluster_cannot_be_found",
                "1 if members spoil sums and the search for them was given up.",
                |view, _| Value::One(f64::from(u8::from(view.offenders.cannot_be_found))),
            ),
            one("dream_cluster_stalled", "1 if slots should have closed and none did.", |view, now| {
                Value::One(f64::from(u8::from(view.is_stalled(now))))
            }),
        ])
    }
}

impl<V> Gauges<V> {
    fn set(&self, id: &str, view: &V, now: Timestamp) {
        for (gauge, value) in &self.0 {
            match value(view, now) {
                Value::Absent => {}
                Value::One(value) => gauge.with_label_values(&[id]).set(value),
                Value::Band95(p95) => gauge.with_label_values(&[id, "0.95"]).set(p95),
                Value::Offenders(counts) => counts
                    .by_offence()
                    .into_iter()
                    .for_each(|(offence, members)| gauge.with_label_values(&[id, offence]).set(members as f64)),
                Value::Periods(all) => all
                    .into_iter()
                    .for_each(|(period, value)| gauge.with_label_values(&[id, energy::label(period)]).set(value)),
                Value::PeriodBands(all) => all.into_iter().for_each(|(period, p95)| {
                    gauge.with_label_values(&[id, energy::label(period), "0.95"]).set(p95);
                }),
                Value::Bands(p95, p99) => {
                    gauge.with_label_values(&[id, "0.95"]).set(p95);
                    gauge.with_label_values(&[id, "0.99"]).set(p99);
                }
            }
        }
    }

    fn collect(&self) -> impl Iterator<Item = prometheus::proto::MetricFamily> {
        self.0.iter().flat_map(|(gauge, _)| gauge.collect()).filter(|family| !family.get_metric().is_empty())
    }
}

/// Returns the committee of the list in force.
fn committee(view: &ClusterView) -> Option<Committee> {
    view.list.as_ref()?.params.terms().scheme.committee()
}

/// Returns the sum of a recent last slot.
fn sum(view: &ClusterView, now: Timestamp) -> Option<Load> {
    view.recent(now)?.sum()
}

/// Returns the estimate for all members of such a slot.
fn estimate(view: &ClusterView, now: Timestamp) -> Option<Load> {
    view.recent(now)?.estimate()
}

/// Returns the filtered load of such a slot.
fn filtered(view: &ClusterView, now: Timestamp) -> Option<FilteredLoad> {
    view.recent(now)?.filtered
}

/// Sums stay below 2^40, so nothing is lost.
fn whole(watts: i64) -> f64 {
    watts as f64
}

fn count(number: u64) -> f64 {
    number as f64
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> GaugeVec {
    GaugeVec::new(Opts::new(name, help), labels).expect("a valid name")
}

fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("a valid name")
}

fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("a valid name")
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name")
}

fn histogram(name: &str, help: &str) -> Histogram {
    let buckets = prometheus::exponential_buckets(0.000_5, 2.0, 16).expect("valid buckets");
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)).expect("a valid name")
}

fn stages() -> HistogramVec {
    let buckets = vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];
    let help = "How long the stages of a slot took: from its end to the request, to its close, and handling a batch of messages.";
    HistogramVec::new(HistogramOpts::new("dream_stage_duration_seconds", help).buckets(buckets), &["stage"])
        .expect("a valid name")
}

fn build_info() -> Box<dyn Collector> {
    let info =
        IntGaugeVec::new(Opts::new("dream_build_info", "The version that runs."), &["version"]).expect("a valid name");
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    Box::new(info)
}
