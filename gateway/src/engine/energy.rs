//! The running hours and days of a cluster: each closed slot is added to them, and they are stored with its outcome.
//!
//! A row is replaced whole, in the commit of the outcome that it was changed by: after a crash it has that slot or has it not,
//! as the outcomes do, and a commit that is tried again adds nothing twice.

use std::collections::BTreeMap;
use std::ops::Range;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use crate::board::energy::EnergyView;
use crate::clock::{Period, Zone};
use crate::engine::cluster_filter::ClusterFilter;
use crate::history::{ClosedSlot, Extent, History, HistoryError, Rollup, Step};
use crate::store::Change;

/// How long after a later one a slot may close: longer than any does, by far. What is older has its place in the past.
const LATEST_MILLIS: u64 = 4 * 86_400_000;

/// The latest rows of a cluster.
#[derive(Debug, Clone)]
pub struct RunningEnergy {
    cluster: ClusterId,
    zone: Zone,
    hours: Rows,
    days: Rows,
    extent: Option<Extent>,
}

/// Rows by when they begin, and the period that was last looked up.
#[derive(Debug, Clone)]
struct Rows {
    step: Step,
    by_start: BTreeMap<Timestamp, Rollup>,
    period: Range<Timestamp>,
}

impl RunningEnergy {
    /// Continues from the rows of the past.
    pub fn resume(history: &(impl History + ?Sized), cluster: &ClusterId, zone: &Zone) -> Result<Self, HistoryError> {
        let extent = history.extent(cluster)?;
        let mut running = Self {
            cluster: cluster.clone(),
            zone: zone.clone(),
            hours: Rows::new(Step::Hour),
            days: Rows::new(Step::Day),
            extent,
        };
        if let Some(Extent { until, .. }) = extent {
            for rows in [&mut running.hours, &mut running.days] {
                // A period that began before may reach into it.
                let from = rows.kept_from(zone, until).as_millis().saturating_sub(2 * 86_400_000);
                let from = Timestamp::from_millis(from);
                let all = history.rollups(cluster, rows.step, from..Timestamp::from_millis(u64::MAX), usize::MAX)?;
                rows.by_start = all.into_iter().map(|row| (row.start, row)).collect();
            }
        }
        Ok(running)
    }

    /// Adds a slot that just closed; returns the rows that are to be stored with its outcome.
    pub fn close(&mut self, closed: &ClosedSlot) -> impl Iterator<Item = Change> {
        let cluster = self.cluster.clone();
        let rows = self.add(closed).into_iter();
        rows.map(move |(step, rollup)| Change::PutRollup { cluster: cluster.clone(), step, rollup })
    }

    /// Lets a new filter see the slots that it is to look at again, and adds those of the past that are in no row yet, because a
    /// version closed them that knew of no rows; returns the rows that became of it. Slots from before those that the filter
    /// sees are added without being filled in.
    pub fn catch_up(
        &mut self,
        history: &(impl History + ?Sized),
        replayed: &[ClosedSlot],
        filter: &mut ClusterFilter,
    ) -> Result<Vec<Change>, HistoryError> {
        const PIECE: usize = 5000;
        let until = self.until();
        let mut rows = BTreeMap::new();
        let mut keep = |changed: Vec<(Step, Rollup)>| {
            rows.extend(changed.into_iter().map(|(step, rollup)| ((step, rollup.start), rollup)));
        };
        let (mut older, next) = (Vec::new(), until.plus_millis(1));
        let mut end = replayed.first().map_or(next, |first| first.outcome.end);
        while end > next {
            let piece = history.slots(&self.cluster, next..end, PIECE)?;
            let Some(first) = piece.first() else { break };
            end = first.outcome.end;
            older.push(piece);
        }
        older.iter().rev().flatten().for_each(|closed| keep(self.add(closed)));
        filter.replay(replayed, |filter, closed| {
            if closed.outcome.end > until {
                let foreseen = || filter.predict(&closed.outcome).map(|load| load.with(closed.cut_off));
                let predicted = closed.predicted.or_else(foreseen);
                keep(self.add(&ClosedSlot { predicted, ..*closed }));
            }
        });
        let put = |((step, _), rollup)| Change::PutRollup { cluster: self.cluster.clone(), step, rollup };
        Ok(rows.into_iter().map(put).collect())
    }

    /// Returns when the last slot ended that was added.
    fn until(&self) -> Timestamp {
        self.extent.map_or(Timestamp::from_millis(0), |extent| extent.until)
    }

    /// Adds a closed slot; returns the rows that have changed. Slots of no list
    /// count nowhere.
    pub fn add(&mut self, closed: &ClosedSlot) -> Vec<(Step, Rollup)> {
        let (start, end) = (closed.outcome.start, closed.outcome.end);
        let until = self.until().max(end);
        if !closed.is_of_a_list() || start.plus_millis(LATEST_MILLIS) < until {
            return Vec::new();
        }
        let begun = self.extent.map_or(start, |extent| extent.begun.min(start));
        self.extent = Some(Extent { begun, until });
        let mut changed = Vec::new();
        for rows in [&mut self.hours, &mut self.days] {
            let mut at = start;
            while at < end {
                let rollup = rows.at(&self.zone, at);
                rollup.add(closed);
                let row = *rollup;
                changed.push((rows.step, row));
                at = row.end;
            }
            rows.forget_before(&self.zone, until);
        }
        changed
    }

    /// Returns the hour, the day and the month that the last slot ended in, so far; `None` before the first.
    pub fn view(&self) -> Option<EnergyView> {
        let extent = self.extent?;
        // A slot that ended at midnight is of the day before.
        let at = Timestamp::from_millis(extent.until.as_millis().saturating_sub(1));
        let row = |rows: &Rows, period| {
            let bounds = self.zone.bounds(period, at);
            rows.by_start.get(&bounds.start).copied().unwrap_or_else(|| Rollup::new(bounds))
        };
        let bounds = self.zone.bounds(Period::Month, at);
        let mut month = Rollup::new(bounds.clone());
        self.days.by_start.range(bounds).for_each(|(_, day)| month.add_day(day));
        Some(EnergyView { hour: row(&self.hours, Period::Hour), day: row(&self.days, Period::Day), month, extent })
    }
}

impl Rows {
    const fn new(step: Step) -> Self {
        let never = Timestamp::from_millis(0);
        Self { step, by_start: BTreeMap::new(), period: never..never }
    }

    /// Returns the row of an instant.
    fn at(&mut self, zone: &Zone, at: Timestamp) -> &mut Rollup {
        if !self.period.contains(&at) {
            self.period = zone.bounds(self.step.into(), at);
        }
        let period = self.period.clone();
        let row = self.by_start.entry(period.start).or_insert_with(|| Rollup::new(period.clone()));
        // After a change of the time zone a day that began alike may end otherwise.
        row.end = period.end;
        row
    }

    /// Returns from when on rows are needed: as long as slots may be added, and days for as long as the month runs.
    fn kept_from(&self, zone: &Zone, until: Timestamp) -> Timestamp {
        let latest = Timestamp::from_millis(until.as_millis().saturating_sub(LATEST_MILLIS));
        match self.step {
            Step::Hour => latest,
            Step::Day => zone.bounds(Period::Month, latest).start,
        }
    }

    fn forget_before(&mut self, zone: &Zone, until: Timestamp) {
        // Not for every slot: looking up a month takes longer than adding one.
        const SPARE: usize = 60;
        const NEEDED: usize = 24 * 6;
        if self.by_start.len() > NEEDED + SPARE {
            let from = self.kept_from(zone, until);
            self.by_start.retain(|_, row| row.end > from);
        }
    }
}

impl From<Step> for Period {
    fn from(step: Step) -> Self {
        match step {
            Step::Hour => Self::Hour,
            Step::Day => Self::Day,
        }
    }
}
