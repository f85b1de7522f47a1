//! The energy of a group: in the running hour, day and month, and in hours and days of the past.

use std::collections::BTreeMap;

use dream_protocol::time::Timestamp;

use super::GroupView;
use crate::clock::Period;
use crate::config::Group;
use crate::history::{Extent, History, Read, Rollup, Span, Step};

/// The energy of a group's clusters in a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupPeriod {
    /// All of them together: times are those of clusters, added up.
    pub total: Rollup,
    /// How many clusters the group has, on all replicas together.
    pub clusters: usize,
    /// How many of them are in it.
    pub in_sum: usize,
    /// Time of these clusters that is in no energy.
    pub missing_millis: u64,
    load: Means,
    filtered: Option<Means>,
}

/// Mean loads of clusters that were added up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Means {
    watts: f64,
    /// Half the width of their bands, squared.
    squares: f64,
}

impl Means {
    fn add(&mut self, (watts, band95): (f64, f64)) {
        self.watts += watts;
        self.squares += band95 * band95;
    }

    fn with_band(self) -> (f64, f64) {
        (self.watts, self.squares.sqrt())
    }
}

impl GroupPeriod {
    fn new(rollup: &Rollup, clusters: usize) -> Self {
        Self {
            total: Rollup::new(rollup.start..rollup.end),
            clusters,
            in_sum: 0,
            missing_millis: 0,
            load: Means::default(),
            filtered: None,
        }
    }

    /// Returns the hours or days of one cluster, or means over `together` of them.
    pub fn of_one(rows: &[Rollup], step: Step, together: u64) -> Vec<Self> {
        let of = |(_, rollup): (u64, Rollup)| {
            let mut period = Self::new(&rollup, 1);
            period.add(&rollup);
            period
        };
        joined(rows, step, together).map(of).collect()
    }

    /// Adds a cluster; returns whether it is in it: one of which nothing is known in the period is not.
    fn add(&mut self, rollup: &Rollup) -> bool {
        let Some(load) = rollup.mean_load() else { return false };
        self.total.combine(rollup);
        self.in_sum += 1;
        self.load.add(load);
        if let Some(filtered) = rollup.mean_filtered() {
            self.filtered.get_or_insert_default().add(filtered);
        }
        true
    }

    /// Returns the sum of the clusters' mean loads, each over the time that is known of it, and half the width of its band, in
    /// watts.
    pub fn mean_load(&self) -> Option<(f64, f64)> {
        (self.in_sum > 0).then(|| self.load.with_band())
    }

    /// Returns the sum of the clusters' mean filtered loads, and half the width of its band, in watts.
    pub fn mean_filtered(&self) -> Option<(f64, f64)> {
        self.filtered.map(Means::with_band)
    }
}

impl GroupView {
    /// Returns the energy of the running hour, day and month, as far as slots have closed in them.
    pub fn energy(&self, now: Timestamp) -> Vec<(Period, GroupPeriod)> {
        let of = |wanted: Period| {
            let mut all = BTreeMap::new();
            for energy in self.served.iter().filter_map(|shown| shown.view.energy.as_ref()) {
                let running = energy.running(now).find(|(period, _)| *period == wanted);
                add_to(
                    &mut all,
                    &self.group,
                    running.map(|(_, rollup)| (rollup.start.as_millis(), rollup)),
                    energy.extent,
                );
            }
            Some((wanted, all.into_values().next_back()?))
        };
        [Period::Hour, Period::Day, Period::Month].into_iter().filter_map(of).collect()
    }

    /// Returns the hours or days that began in a span, or means over `together` of them, oldest first. Of each cluster at
    /// most the newest `limit` are read.
    pub fn periods(
        &self,
        history: &dyn History,
        step: Step,
        begun: Span,
        limit: usize,
        together: u64,
    ) -> Read<Vec<GroupPeriod>> {
        let mut all = BTreeMap::new();
        for shown in &self.served {
            let Some(energy) = &shown.view.energy else { continue };
            let rows = history.rollups(&shown.view.cluster, step, begun.clone(), limit)?;
            add_to(&mut all, &self.group, joined(&rows, step, together), energy.extent);
        }
        Ok(all.into_values().collect())
    }
}

fn add_to(
    all: &mut BTreeMap<u64, GroupPeriod>,
    group: &Group,
    rollups: impl IntoIterator<Item = (u64, Rollup)>,
    extent: Extent,
) {
    for (key, rollup) in rollups {
        let period = all.entry(key).or_insert_with(|| GroupPeriod::new(&rollup, group.clusters.len()));
        if period.add(&rollup) {
            period.missing_millis += rollup.missing_millis(extent);
        }
    }
}

/// Returns hours or days, or means over `together` of them, each with what tells it from the others.
fn joined(rows: &[Rollup], step: Step, together: u64) -> impl Iterator<Item = (u64, Rollup)> {
    // Where clocks change, two days may begin within the same day of UTC.
    let key = move |row: &Rollup| match together {
        1 => row.start.as_millis(),
        many => row.start.as_millis() / (step.millis() * many),
    };
    let chunks = rows.chunk_by(move |a, b| key(a) == key(b));
    chunks.filter_map(move |rows| Some((key(rows.first()?), Rollup::joined(step, rows)?)))
}
