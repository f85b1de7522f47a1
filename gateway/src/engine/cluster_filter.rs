//! The filter of a cluster's load, fed with closed slots and by the clocks where the homes are.

use dream_edge::cut_off::{CutOff, CutOffDay};
use dream_filter::{Filter, Profile, Release, Slot};
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use crate::clock::Zone;
use crate::history::{ClosedSlot, FilteredLoad};
use crate::store::Change;

/// The filter of one cluster, in its time zone.
#[derive(Debug, Clone)]
pub struct ClusterFilter {
    filter: Filter,
    zone: Zone,
    /// What meters are expected to cut off under the list of the last slot.
    cut_off: Option<CutOffDay>,
}

impl ClusterFilter {
    /// Returns the filter of a new cluster, which begins with what others learned, if there are any.
    pub fn new(zone: &Zone, others: &[Profile]) -> Self {
        Self { filter: Filter::starting_from(others), zone: zone.clone(), cut_off: None }
    }

    /// Sets what meters are expected to cut off from now on.
    pub fn expect_cut_off(&mut self, cut_off: Option<CutOffDay>) {
        self.cut_off = cut_off;
    }

    /// Returns what so many members are expected to cut off at this time.
    fn cut_off_at(&self, at: Timestamp, members: u16) -> Option<CutOff> {
        Some(self.cut_off?.at(self.zone.moment(at), members))
    }

    /// Lets the filter see what was released; returns what it makes of the slot, if anything.
    pub fn observe(&mut self, outcome: &SlotOutcome) -> Option<FilteredLoad> {
        let release = Release {
            start_millis: outcome.start.as_millis(),
            end_millis: outcome.end.as_millis(),
            local: self.zone.local_time(middle(outcome)),
            watts: outcome.result.ok()?.watts() as f64,
            variance: outcome.spread().variance(),
            responders: outcome.responders,
            members: outcome.members,
        };
        FilteredLoad::new(self.filter.observe(&release)?)
    }

    /// The same for a slot that just closed; returns it with what the filter makes of it, or expected of it if it gave no sum.
    /// What is to be stored with its outcome is added to `changes`: that, and what is final now of slots that ended an hour before.
    pub fn close(&mut self, cluster: &ClusterId, outcome: SlotOutcome, changes: &mut Vec<Change>) -> ClosedSlot {
        let cut_off = self.cut_off_at(middle(&outcome), outcome.members);
        let filtered = self.observe(&outcome).map(|load| load.with(cut_off));
        let predicted = self.predict(&outcome).map(|load| load.with(cut_off));
        let closed = ClosedSlot { filtered, predicted, cut_off, ..outcome.into() };
        let end = outcome.end;
        changes.extend(cut_off.map(|cut_off| Change::PutCutOff { cluster: cluster.clone(), end, cut_off }));
        let load = closed.filtered.or(closed.predicted);
        changes.extend(load.map(|filtered| Change::PutFiltered {
            cluster: cluster.clone(),
            end: outcome.end,
            filtered,
        }));
        if filtered.is_some() {
            let half_a_slot = outcome.end.millis_since(outcome.start) / 2;
            for slot in self.filter.smoothed() {
                let (cluster, end) = (cluster.clone(), Timestamp::from_millis(slot.end_millis));
                let at = Timestamp::from_millis(slot.end_millis.saturating_sub(half_a_slot));
                let cut_off = self.cut_off_at(at, outcome.members);
                let smoothed = FilteredLoad::new(slot.load).map(|load| load.with(cut_off));
                changes.extend(smoothed.map(|smoothed| Change::PutSmoothed { cluster, end, smoothed }));
            }
        }
        closed
    }

    /// Returns the load that the filter expects of a slot that gave no sum; `None` of one that did, and before the first sum.
    pub fn predict(&self, outcome: &SlotOutcome) -> Option<FilteredLoad> {
        outcome.result.err()?;
        let slot = Slot {
            start_millis: outcome.start.as_millis(),
            end_millis: outcome.end.as_millis(),
            local: self.zone.local_time(middle(outcome)),
            members: outcome.members,
        };
        FilteredLoad::new(self.filter.predict(&slot)?)
    }

    /// Lets a new filter see what the one before a restart saw: not what closed too late for it. `then` is called for
    /// every slot when
    /// the filter is as it was when the slot had closed.
    pub fn replay(&mut self, slots: &[ClosedSlot], mut then: impl FnMut(&Self, &ClosedSlot)) {
        let first = slots.iter().position(|closed| closed.filtered.is_some()).unwrap_or(slots.len());
        for (at, closed) in slots.iter().enumerate() {
            if at < first || closed.filtered.is_some() {
                self.observe(&closed.outcome);
            }
            then(self, closed);
        }
    }

    /// Returns what a new cluster may begin with; `None` before there was a week of sums.
    pub fn profile(&self) -> Option<Profile> {
        self.filter.profile()
    }

    /// Returns whether it had sums of less than three days, and so knows little of its own days.
    pub fn is_new(&self) -> bool {
        self.filter.is_new()
    }

    /// Lets a filter that saw no sum yet begin with what others learned.
    pub fn begin_with(&mut self, others: &[Profile]) {
        if !self.filter.has_begun() {
            self.filter = Filter::starting_from(others);
        }
    }

    /// Returns whether there was a sum yet.
    pub fn has_begun(&self) -> bool {
        self.filter.has_begun()
    }
}

fn middle(outcome: &SlotOutcome) -> Timestamp {
    Timestamp::from_millis(outcome.start.as_millis().midpoint(outcome.end.as_millis()))
}
