//! What may be shown of a group: sums of what its clusters released, made when somebody asks.
//!
//! A replica serves some of a group's clusters. It adds up those, and says how many they are of how many.

mod period;

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use crate::board::ClusterView;
use crate::config::{Group, GroupId};
use crate::history::{AddedNoise, ClosedSlot, FilteredLoad, History, Load, Read, Span};

pub use period::GroupPeriod;

/// How many slots of clusters, or hours or days, are read for one answer.
const MOST_READ: usize = 1_000_000;

/// A group, and those of its clusters that are served here.
#[derive(Debug, Clone)]
pub struct GroupView {
    pub id: GroupId,
    pub group: Arc<Group>,
    pub served: Vec<Shown>,
}

/// A cluster on the board, with the slot that it closed before its last one.
#[derive(Debug, Clone)]
pub struct Shown {
    pub view: Arc<ClusterView>,
    pub before: Option<ClosedSlot>,
}

/// One slot of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupSlot {
    pub start: Timestamp,
    pub end: Timestamp,
    /// How many clusters the group has, on all replicas together.
    pub clusters: usize,
    /// How many of them gave a sum that is known here.
    pub in_sum: usize,
    /// How many gave none, and are filled in with what their filters expected, in the estimate and the filtered load.
    pub filled: usize,
    /// Members and responders of those that gave a sum.
    pub members: u64,
    pub responders: u64,
    sum: Total,
    estimate: Total,
    /// Filtered loads, and estimates of clusters that have none.
    filtered: Total,
    any_filtered: bool,
    /// What of the estimate is of meters that cut off, in watts; none if no cluster knows.
    cut_off: Option<f64>,
}

/// Loads of clusters that were added up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Total {
    watts: i64,
    noise: AddedNoise,
    /// The bands of the only one.
    only: Option<(u64, u64)>,
    count: usize,
}

impl Total {
    fn add(&mut self, watts: i64, bands: (u64, u64), noise: AddedNoise) {
        self.watts += watts;
        self.noise += noise;
        self.count += 1;
        self.only = (self.count == 1).then_some(bands);
    }

    /// Returns the total with its bands, which are exact for one cluster, and rounded up.
    fn load(&self) -> Option<Load> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
        let whole = |band: f64| band.ceil() as u64;
        let (band95, band99) = self.only.unwrap_or_else(|| (whole(self.noise.band95()), whole(self.noise.band99())));
        (self.count > 0).then_some(Load { watts: self.watts, band95, band99 })
    }
}

impl GroupSlot {
    fn new(start: Timestamp, end: Timestamp, group: &Group) -> Self {
        Self {
            start,
            end,
            clusters: group.clusters.len(),
            in_sum: 0,
            filled: 0,
            members: 0,
            responders: 0,
            sum: Total::default(),
            estimate: Total::default(),
            filtered: Total::default(),
            any_filtered: false,
            cut_off: None,
        }
    }

    /// Adds what a cluster released in the slot.
    fn add(&mut self, closed: &ClosedSlot) {
        let (Some(sum), Some(estimate)) = (closed.sum(), closed.estimate()) else { return self.fill(closed) };
        let outcome = &closed.outcome;
        self.in_sum += 1;
        self.members += u64::from(outcome.members);
        self.responders += u64::from(outcome.responders);
        self.sum.add(sum.watts, (sum.band95, sum.band99), AddedNoise::of(closed, 1.0));
        let (bands, noise) = ((estimate.band95, estimate.band99), AddedNoise::of_estimate(closed));
        self.estimate.add(estimate.watts, bands, noise);
        if let Some(share) = closed.cut_off_share() {
            *self.cut_off.get_or_insert_default() += share * estimate.watts as f64;
        }
        match closed.filtered {
            None => self.filtered.add(estimate.watts, bands, noise),
            Some(FilteredLoad { watts, band95 }) => {
                self.any_filtered = true;
                self.filtered.add(watts, (band95, band95), AddedNoise::normal(band95 as f64));
            }
        }
    }

    /// Adds what the filter of a cluster expected, if it gave no sum.
    fn fill(&mut self, closed: &ClosedSlot) {
        let Some(FilteredLoad { watts, band95 }) = closed.predicted else { return };
        let noise = AddedNoise::normal(band95 as f64);
        self.filled += 1;
        // Without a sum of any cluster nothing of it is shown, so that this is never the only one.
        self.estimate.add(watts, (band95, band95), noise);
        self.filtered.add(watts, (band95, band95), noise);
    }

    /// Returns how many clusters are in the estimate and the filtered load.
    pub fn added(&self) -> usize {
        self.in_sum + self.filled
    }

    /// Returns whether every cluster of the group is in them.
    pub fn is_whole(&self) -> bool {
        self.added() == self.clusters
    }

    /// Returns the sum of the noisy sums over the responders; `None` if no cluster gave one.
    pub fn sum(&self) -> Option<Load> {
        self.sum.load()
    }

    /// Returns the sum of the clusters' estimates for all of their members, and of what was filled in; `None` if no cluster gave
    /// a sum.
    pub fn estimate(&self) -> Option<Load> {
        self.estimate.load().filter(|_| self.in_sum > 0)
    }

    /// Returns the share of the estimate that is estimated, because meters cut high readings off.
    pub fn cut_off_share(&self) -> Option<f64> {
        self.cut_off.filter(|_| self.estimate.watts != 0).map(|watts| watts / self.estimate.watts as f64)
    }

    /// Returns the noise in both.
    pub fn noise(&self) -> (AddedNoise, AddedNoise) {
        (self.sum.noise, self.estimate.noise)
    }

    /// Returns the sum of the filtered loads; a cluster without one counts with its estimate. What the noise does to clusters is
    /// independent. What the filter's model gets wrong may not be: a band in quadrature does not hold that.
    pub fn filtered(&self) -> Option<FilteredLoad> {
        let Load { watts, band95, .. } = self.filtered.load().filter(|_| self.any_filtered)?;
        Some(FilteredLoad { watts, band95 })
    }
}

impl GroupView {
    /// Takes those of a group's clusters that are shown.
    pub(super) fn new<'a>(id: &GroupId, group: &Arc<Group>, shown: impl Fn(&ClusterId) -> Option<&'a Shown>) -> Self {
        let served = group.clusters.iter().filter_map(|cluster| shown(cluster).cloned()).collect();
        Self { id: id.clone(), group: group.clone(), served }
    }

    /// Returns the group as it stands: the newest slot that its clusters have closed. While some have yet to close it, the one
    /// before, if more clusters are in that. `None` if all slots are too old to stand for the present.
    pub fn current(&self, now: Timestamp) -> Option<GroupSlot> {
        let recent: Vec<&ClosedSlot> = self.served.iter().filter_map(|shown| shown.view.recent(now)).collect();
        let newest = recent.iter().map(|closed| closed.outcome.end).max()?;
        let at = |end: Timestamp| {
            let closed = self.served.iter().flat_map(|shown| [shown.view.last, shown.before]).flatten();
            let slots = add_up(&self.group, closed.filter(|closed| closed.outcome.end == end));
            slots.into_values().next_back()
        };
        let last = at(newest)?;
        let awaited = recent.iter().any(|closed| closed.outcome.end < newest);
        let before = at(last.start).filter(|before| awaited && before.added() > last.added());
        Some(before.unwrap_or(last))
    }

    /// Returns the clusters that are served here and gave no sum in a slot, as far as the board knows.
    pub fn without_a_sum(&self, slot: &GroupSlot) -> impl Iterator<Item = &ClusterView> {
        let gave = |closed: &ClosedSlot| closed.outcome.end == slot.end && closed.is_decoded();
        let without = move |shown: &&Shown| ![shown.view.last, shown.before].iter().flatten().any(gave);
        self.served.iter().filter(without).map(|shown| shown.view.as_ref())
    }

    /// Returns the clusters that are served here.
    pub fn views(&self) -> impl Iterator<Item = &ClusterView> {
        self.served.iter().map(|shown| shown.view.as_ref())
    }

    /// Returns how many of the newest slots, hours or days can be asked for at once.
    pub fn most_slots(&self) -> usize {
        MOST_READ / self.served.len().max(1)
    }

    /// Returns the slots that ended in a span, oldest first; if there are more than `limit`, the newest of them.
    pub fn slots(&self, history: &dyn History, ended: Span, limit: usize) -> Read<Vec<GroupSlot>> {
        let mut all = BTreeMap::new();
        // One cluster after the other: only sums are kept.
        for shown in &self.served {
            let slots = history.slots(&shown.view.cluster, ended.clone(), limit)?;
            add_up_into(&mut all, &self.group, slots);
        }
        let older = all.len().saturating_sub(limit);
        Ok(all.into_values().skip(older).collect())
    }
}

/// Slots by start and end.
type Slots = BTreeMap<(Timestamp, Timestamp), GroupSlot>;

fn add_up(group: &Group, closed: impl IntoIterator<Item = ClosedSlot>) -> Slots {
    let mut all = Slots::new();
    add_up_into(&mut all, group, closed);
    all
}

fn add_up_into(all: &mut Slots, group: &Group, closed: impl IntoIterator<Item = ClosedSlot>) {
    for closed in closed {
        let (start, end) = (closed.outcome.start, closed.outcome.end);
        all.entry((start, end)).or_insert_with(|| GroupSlot::new(start, end, group)).add(&closed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use dream_testkit::outcomes::Slotted;
    use dream_testkit::rng;
    use rand::RngExt as _;

    use super::*;

    fn group(clusters: usize) -> Group {
        let names = (0..clusters).map(|number| ClusterId::new(&format!("c-{number}")).unwrap());
        Group { of: Vec::new(), clusters: names.collect::<BTreeSet<_>>(), slot_seconds: 600 }
    }

    fn added<'a>(closed: impl IntoIterator<Item = &'a ClosedSlot>) -> GroupSlot {
        let closed: Vec<_> = closed.into_iter().copied().collect();
        let slots = add_up(&group(closed.len()), closed);
        assert_eq!(slots.len(), 1);
        slots.into_values().next().unwrap()
    }

    /// A cluster whose noise is that of so many whole Laplace noises.
    #[derive(Clone, Copy)]
    struct Noisy {
        members: u16,
        responders: u16,
        laplaces: u16,
        noise_scale: u64,
        /// The sum of those who answer, without noise.
        truth: i64,
        filter_deviation: f64,
    }

    impl Noisy {
        fn truth_of_all(self) -> f64 {
            self.truth as f64 * f64::from(self.members) / f64::from(self.responders)
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "loads are small")]
        fn draw(self, chance: &mut impl FnMut() -> f64) -> ClosedSlot {
            let Self { members, responders, laplaces, noise_scale, .. } = self;
            let mut exponential = || -chance().ln();
            let noise: f64 = (0..laplaces).map(|_| exponential() - exponential()).sum::<f64>() * noise_scale as f64;
            // The root of an exponential and an angle make a normal number.
            let radius = (2.0 * exponential()).sqrt();
            let normal = radius * (std::f64::consts::TAU * chance()).cos();
            let slotted = Slotted { members, honest: responders / laplaces, noise_scale, ..Slotted::new(7) };
            let filtered = FilteredLoad {
                watts: (self.truth_of_all() + self.filter_deviation * normal).round() as i64,
                band95: (1.959_964 * self.filter_deviation).round() as u64,
            };
            let outcome = slotted.decoded(self.truth + noise.round() as i64, responders);
            ClosedSlot { filtered: Some(filtered), ..ClosedSlot::from(outcome) }
        }
    }

    /// How often the bands of a sum of these clusters hold the truth: of the plain sum at 95 and 99 %, of the estimate at both,
    /// and of the filtered load.
    fn coverage(clusters: &[Noisy]) -> [f64; 5] {
        const DRAWS: u32 = 30_000;
        let mut rng = rng(20);
        let mut chance = || rng.random::<f64>().max(1e-300);
        let (sum, all) = clusters
            .iter()
            .fold((0.0, 0.0), |(sum, all), cluster| (sum + cluster.truth as f64, all + cluster.truth_of_all()));
        let mut held = [0u32; 5];
        for _ in 0..DRAWS {
            let closed: Vec<ClosedSlot> = clusters.iter().map(|cluster| cluster.draw(&mut chance)).collect();
            let slot = added(&closed);
            let (plain, estimate, filtered) = (slot.sum().unwrap(), slot.estimate().unwrap(), slot.filtered().unwrap());
            let bands = [
                (plain.watts, plain.band95, sum),
                (plain.watts, plain.band99, sum),
                (estimate.watts, estimate.band95, all),
                (estimate.watts, estimate.band99, all),
                (filtered.watts, filtered.band95, all),
            ];
            for (held, (watts, band, truth)) in held.iter_mut().zip(bands) {
                *held += u32::from((watts as f64 - truth).abs() <= band as f64);
            }
        }
        held.map(|held| f64::from(held) / f64::from(DRAWS))
    }

    /// With 30,000 draws the standard deviation of a share of 0.95 is 0.0013. Bands that were added up would hold 0.986 of two
    /// alike clusters, an estimate with the noise of the plain sum 0.842, and a normal quantile 0.939.
    #[test]
    fn the_bands_of_sums_of_few_or_many_clusters_hold_the_truth_as_often_as_they_say() {
        let loud = Noisy {
            members: 90,
            responders: 60,
            laplaces: 1,
            noise_scale: 9000,
            truth: 40_000,
            filter_deviation: 4000.0,
        };
        let quiet = Noisy { members: 300, responders: 280, laplaces: 2, noise_scale: 6000, ..loud };
        let faint =
            Noisy { members: 600, responders: 400, truth: -70_000, noise_scale: 3000, filter_deviation: 900.0, ..loud };
        for clusters in [vec![loud], vec![loud; 2], vec![loud, quiet], vec![loud, quiet, faint], vec![loud; 12]] {
            let found = coverage(&clusters);
            for (share, stated) in found.into_iter().zip([0.95, 0.99, 0.95, 0.99, 0.95]) {
                let tolerance = if stated > 0.95 { 0.002 } else { 0.005 };
                assert!((share - stated).abs() < tolerance, "{} clusters: {found:?}", clusters.len());
            }
        }
    }

    #[test]
    fn a_sum_is_that_of_what_the_clusters_show() {
        let one = ClosedSlot::from(Slotted::new(7).decoded(900, 90));
        let other = ClosedSlot {
            filtered: Some(FilteredLoad { watts: 5000, band95: 300 }),
            ..ClosedSlot::from(Slotted { members: 200, ..Slotted::new(7) }.decoded(4000, 160))
        };
        let failed = ClosedSlot::from(Slotted::new(7).failed("too_many_missing", 60));
        let slot = added([&one, &other, &failed]);
        assert_eq!((slot.clusters, slot.in_sum, slot.is_whole()), (3, 2, false));
        assert_eq!((slot.members, slot.responders), (300, 250));
        assert_eq!(slot.sum().unwrap().watts, 4900);
        assert_eq!(slot.estimate().unwrap().watts, 1000 + 5000);
        // The first has no filtered load, and counts with its estimate.
        let filtered = slot.filtered().unwrap();
        assert_eq!(filtered.watts, 1000 + 5000);
        assert!(filtered.band95 > one.estimate().unwrap().band95 / 2, "{filtered:?}");
        assert!(added([&one, &one]).filtered().is_none(), "no cluster has one");
        let none = added([&failed]);
        assert_eq!((none.sum(), none.estimate(), none.filtered(), none.in_sum), (None, None, None, 0));
    }

    #[test]
    fn a_cluster_without_a_sum_is_filled_in_with_what_its_filter_expected_and_counted_as_such() {
        let one = ClosedSlot {
            filtered: Some(FilteredLoad { watts: 1100, band95: 300 }),
            ..ClosedSlot::from(Slotted::new(7).decoded(900, 90))
        };
        let failed = Slotted::new(7).failed("too_many_missing", 60);
        let filled = ClosedSlot { predicted: Some(FilteredLoad { watts: 700, band95: 400 }), ..failed.into() };
        let slot = added([&one, &filled]);
        assert_eq!((slot.clusters, slot.in_sum, slot.filled, slot.is_whole()), (2, 1, 1, true));
        assert_eq!((slot.sum(), slot.estimate().unwrap().watts), (one.sum(), 1000 + 700), "no meter stands behind it");
        let filtered = slot.filtered().unwrap();
        assert_eq!((filtered.watts, filtered.band95.abs_diff(500) <= 1), (1100 + 700, true), "{filtered:?}");
        let quadrature = f64::hypot(one.estimate().unwrap().band95 as f64, 400.0);
        assert!((slot.estimate().unwrap().band95 as f64 / quadrature - 1.0).abs() < 0.01);
        // Expectations alone are never shown.
        let none = added([&filled, &filled]);
        assert_eq!((none.sum(), none.estimate(), none.filtered(), none.filled), (None, None, None, 2));
    }

    #[test]
    fn the_band_of_one_cluster_is_its_own() {
        let one = ClosedSlot::from(Slotted::new(7).decoded(900, 90));
        let slot = added([&one]);
        assert_eq!((slot.sum(), slot.estimate()), (one.sum(), one.estimate()));
    }
}
