//! What may be shown: the board that the driver writes and that metrics, HTTP and MQTT consumers read.
//!
//! There is nothing on it about a single meter, and loads only as [`SlotOutcome`]s and what the filter made of them: whoever
//! reads the board cannot show more than the protocol released.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, RwLock};

use dream_filter::Filtered;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::ids::ClusterId;
use dream_protocol::noise::Confidence;
use dream_protocol::params::Params;
use dream_protocol::time::{Slot, Timestamp};
use tokio::sync::watch;

/// Everything that may be shown, with a version that grows with every change.
#[derive(Debug)]
pub struct Board {
    clusters: RwLock<BTreeMap<ClusterId, Arc<ClusterView>>>,
    version: watch::Sender<u64>,
}

/// One cluster as it stands.
#[derive(Debug, Clone)]
pub struct ClusterView {
    pub cluster: ClusterId,
    /// How long its slots are by configuration, in seconds.
    pub slot_seconds: u64,
    /// How many members a list needs at least.
    pub min_members: u16,
    /// How many meters are enrolled and could be in the next list.
    pub candidates: usize,
    /// How many of them have an enrolment that ends within [`ENDING_SECONDS`].
    pub ending: usize,
    /// The list in force, or else the newest one published.
    pub list: Option<ListView>,
    /// Why no list can be formed, if that is so.
    pub cannot_form: Option<String>,
    /// The last slot that closed.
    pub last: Option<ClosedSlot>,
    /// The last slot that gave an aggregate.
    pub last_decoded: Option<ClosedSlot>,
    /// What the slots of the current UTC day have cost each participant so far.
    pub spent: Spent,
    /// When something is due next: a slot's end, the end of a window, a new list.
    pub next_deadline: Option<Timestamp>,
    /// Since when the gateway serves the cluster: a cluster that has closed nothing yet is measured from here.
    pub since: Timestamp,
}

/// A membership list, without its members.
#[derive(Debug, Clone)]
pub struct ListView {
    pub epoch: u64,
    pub params: Params,
    pub from_slot: Slot,
    pub to_slot: Slot,
    /// The signed list as it was published.
    pub bytes: Arc<[u8]>,
}

/// A closed slot with how far off its aggregate may be: computed once, shown often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedSlot {
    pub outcome: SlotOutcome,
    pub filtered: Option<FilteredLoad>,
    /// Half the width of the band that holds the true sum with 95 and 99 % confidence, in watts.
    pub band95: u64,
    pub band99: u64,
    /// The mean absolute error of the aggregate, in watts.
    pub mean_error: f64,
}

impl From<SlotOutcome> for ClosedSlot {
    fn from(outcome: SlotOutcome) -> Self {
        let spread = outcome.spread();
        let band = |confidence| if outcome.responders == 0 { 0 } else { spread.half_width(confidence) };
        let mean_error = if outcome.responders == 0 { 0.0 } else { spread.mean_error() };
        Self { outcome, filtered: None, band95: band(Confidence::P95), band99: band(Confidence::P99), mean_error }
    }
}

impl From<KeptSlot> for ClosedSlot {
    fn from(KeptSlot { outcome, filtered }: KeptSlot) -> Self {
        Self { filtered, ..Self::from(outcome) }
    }
}

/// A closed slot as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSlot {
    pub outcome: SlotOutcome,
    /// Absent in a slot without an aggregate, in one that closed after a later one, and in those of versions before the
    /// filter.
    pub filtered: Option<FilteredLoad>,
}

/// What the filter made of a slot when it closed, in whole watts. It is kept with the slot and never computed again, so
/// that everybody is told the same number, also after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredLoad {
    /// The load of all members, silent ones included.
    pub watts: i64,
    /// Half the width of the band that holds it with 95 % confidence, if the filter's model is right.
    pub band95: u64,
}

impl FilteredLoad {
    /// Rounds, the band upwards. Nothing for what is no number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
    pub fn new(Filtered { watts, band95 }: Filtered) -> Option<Self> {
        let finite = watts.is_finite() && band95.is_finite();
        finite.then(|| Self { watts: watts.round() as i64, band95: band95.ceil() as u64 })
    }
}

impl ClosedSlot {
    /// The noisy sum, if the slot gave one.
    pub fn load(&self) -> Option<i64> {
        self.outcome.result.ok().map(|aggregate| aggregate.watts())
    }

    /// By what the sum and its band are scaled to stand for all members: silent meters make the plain sum dip.
    pub fn scale_to_members(&self) -> Option<f64> {
        let SlotOutcome { members, responders, .. } = self.outcome;
        (responders > 0).then(|| f64::from(members) / f64::from(responders))
    }

    /// Whether the slot ended lately enough to stand for the present.
    pub fn is_recent(&self, slot_seconds: u64, now: Timestamp) -> bool {
        now <= self.outcome.end.plus_secs(STALLED_SLOTS * slot_seconds)
    }

    /// The word for how the slot ended: `decoded` or why not.
    pub fn word(&self) -> &'static str {
        self.outcome.result.map_or_else(|failure| failure.as_str(), |_| "decoded")
    }
}

/// Privacy spent in one UTC day, in millionths of epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub day: u64,
    pub micro_epsilon: u64,
}

impl Spent {
    /// Adds what a slot's attempts cost to the day in which the slot began. Earlier days are over.
    pub fn add(&mut self, outcome: &SlotOutcome) {
        let (day, cost) = (outcome.start.utc_day(), u64::from(outcome.attempts) * outcome.micro_epsilon);
        match day.cmp(&self.day) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => self.micro_epsilon += cost,
            std::cmp::Ordering::Greater => *self = Self { day, micro_epsilon: cost },
        }
    }

    /// What the day of `now` has cost.
    pub fn at(&self, now: Timestamp) -> u64 {
        if now.utc_day() == self.day { self.micro_epsilon } else { 0 }
    }
}

/// How close the end of an enrolment is worth an operator's look. Meters renew at two thirds of an enrolment's life, which is
/// at most 35 days: one with less than a week left is overdue.
pub const ENDING_SECONDS: u64 = 7 * 86_400;

/// For how many slot lengths a cluster may close nothing before it counts as stalled.
const STALLED_SLOTS: u64 = 3;

impl ClusterView {
    /// Whether the cluster has closed slots before, or has a list, but has closed none for so long that something must
    /// be wrong. One that still waits for its first members is not stalled.
    pub fn is_stalled(&self, now: Timestamp) -> bool {
        let begins = self.list.as_ref().map(|list| list.params.slot_end(list.from_slot));
        let closed = self.last.map(|closed| closed.outcome.end);
        let Some(last) = begins.max(closed) else { return false };
        now > last.max(self.since).plus_secs(STALLED_SLOTS * self.slot_seconds)
    }
}

impl Default for Board {
    fn default() -> Self {
        Self { clusters: RwLock::default(), version: watch::Sender::new(0) }
    }
}

impl Board {
    /// All clusters, by id, with the version they stand for.
    pub fn clusters(&self) -> (u64, Vec<Arc<ClusterView>>) {
        let clusters = self.clusters.read().expect("nobody panics while writing to the board");
        (*self.version.borrow(), clusters.values().cloned().collect())
    }

    pub fn cluster(&self, cluster: &str) -> Option<Arc<ClusterView>> {
        self.clusters.read().expect("nobody panics while writing to the board").get(cluster).cloned()
    }

    /// Puts clusters on the board, as one change.
    pub fn show(&self, views: impl IntoIterator<Item = ClusterView>) {
        let mut clusters = self.clusters.write().expect("nobody panics while writing to the board");
        clusters.extend(views.into_iter().map(|view| (view.cluster.clone(), Arc::new(view))));
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes a cluster off the board.
    pub fn remove(&self, cluster: &ClusterId) {
        self.clusters.write().expect("nobody panics while writing to the board").remove(cluster);
        self.version.send_modify(|version| *version += 1);
    }

    /// For waiting until the board changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

/// Closed slots of the past, from wherever they are kept.
pub trait History: Send + Sync {
    /// The slots of a cluster that ended in `from..to`, oldest first; if there are more than `limit`, the newest of them.
    fn slots(
        &self,
        cluster: &ClusterId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<KeptSlot>, HistoryError>;
}

/// Why the past cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the store cannot be read")]
pub struct HistoryError(#[source] Box<dyn Error + Send + Sync>);

impl HistoryError {
    /// Wraps the error of whatever keeps the past.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }

    /// Returns the error and its cause on one line, for answers that show only one.
    pub fn with_cause(&self) -> String {
        format!("{self}: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_past_is_told_with_its_cause_once() {
        let error = || HistoryError::new("the disk is gone");
        assert_eq!(error().with_cause(), "the store cannot be read: the disk is gone");
        assert_eq!(format!("{:#}", anyhow::Error::from(error())), error().with_cause());
    }

    #[test]
    fn a_filtered_load_is_rounded_and_its_band_never_down() {
        let of = |watts, band95| FilteredLoad::new(Filtered { watts, band95 });
        assert_eq!(of(-1234.6, 99.1), Some(FilteredLoad { watts: -1235, band95: 100 }));
        assert_eq!(of(0.4, 0.0), Some(FilteredLoad { watts: 0, band95: 0 }));
        assert_eq!([of(f64::NAN, 1.0), of(1.0, f64::INFINITY)], [None, None]);
    }
}
