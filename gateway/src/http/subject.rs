//! A series with a name: a cluster, or a group of clusters. API and pages serve both alike.

use std::sync::Arc;

use dream_protocol::time::Timestamp;
use serde::Serialize;

use super::cluster_json::ClusterJson;
use super::group_json::{GroupJson, GroupPeriodJson, GroupSlotJson};
use super::query::MAX_LIMIT;
use super::series::{Series, together};
use super::shared::Shared;
use crate::board::ClusterView;
use crate::board::energy::RollupJson;
use crate::board::group::{GroupPeriod, GroupSlot, GroupView};
use crate::board::slot_json::SlotJson;
use crate::history::{ClosedSlot, History, Read, Span, Step};

/// What has loads under a name.
pub(super) trait Subject: Send + Sync + Sized + 'static {
    /// What it is, in addresses with an `s`.
    const KIND: &'static str;
    /// How many slots are read beside a chart of hours or days.
    const SLOTS_BESIDE_PERIODS: usize;

    type Slot: Copy;
    type Json: Serialize;
    type SlotJson: Serialize + Default + for<'a> From<&'a Self::Slot>;
    type PeriodJson: Serialize + Default;

    fn find(shared: &Shared, id: &str) -> Option<Self>;

    /// Returns all of them, by id, with the version of the shared.
    fn all(shared: &Shared) -> (u64, Vec<Self>);

    fn id(&self) -> &str;

    fn json(&self, now: Timestamp) -> Self::Json;

    /// Returns how many slots, hours or days can be asked for at once.
    fn most_rows(&self) -> usize;

    /// Returns the slots that ended in a span, oldest first; if there are more than `limit`, the newest of them.
    fn slots(&self, history: &dyn History, ended: Span, limit: usize) -> Read<Vec<Self::Slot>>;

    /// Returns the hours or days that began in a span in the same way.
    fn periods(&self, history: &dyn History, step: Step, begun: Span, limit: usize) -> Read<Vec<Self::PeriodJson>>;

    /// Returns when a slot began.
    fn start(slot: &Self::Slot) -> Timestamp;

    /// Returns when the first slot began, as far as hours and days know.
    fn begun(&self, history: &dyn History) -> Read<Option<Timestamp>>;

    /// Leaves out the slot that is not all there yet.
    fn settle(&self, slots: Vec<Self::Slot>, _now: Timestamp) -> Vec<Self::Slot> {
        slots
    }

    /// Makes about `most` points or fewer of slots.
    fn series(&self, slots: &[Self::Slot], over: Span, most: u64) -> Series;

    /// Makes about `most` points or fewer of the hours or days that began in a span.
    fn series_of_periods(&self, history: &dyn History, step: Step, over: Span, most: u64) -> Read<Series>;
}

impl Subject for Arc<ClusterView> {
    const KIND: &'static str = "cluster";
    const SLOTS_BESIDE_PERIODS: usize = MAX_LIMIT;

    type Slot = ClosedSlot;
    type Json = ClusterJson;
    type SlotJson = SlotJson;
    type PeriodJson = RollupJson;

    fn find(shared: &Shared, id: &str) -> Option<Self> {
        shared.cluster(id)
    }

    fn all(shared: &Shared) -> (u64, Vec<Self>) {
        shared.clusters()
    }

    fn id(&self) -> &str {
        self.cluster.as_str()
    }

    fn json(&self, now: Timestamp) -> ClusterJson {
        ClusterJson::new(self, now)
    }

    fn most_rows(&self) -> usize {
        MAX_LIMIT
    }

    fn slots(&self, history: &dyn History, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>> {
        history.slots(&self.cluster, ended, limit)
    }

    fn periods(&self, history: &dyn History, step: Step, begun: Span, limit: usize) -> Read<Vec<RollupJson>> {
        let Some(extent) = history.extent(&self.cluster)? else { return Ok(Vec::new()) };
        let rows = history.rollups(&self.cluster, step, begun, limit)?;
        Ok(rows.iter().map(|row| RollupJson::new(row, extent)).collect())
    }

    fn start(slot: &ClosedSlot) -> Timestamp {
        slot.outcome.start
    }

    fn begun(&self, history: &dyn History) -> Read<Option<Timestamp>> {
        Ok(history.extent(&self.cluster)?.map(|extent| extent.begun))
    }

    fn series(&self, slots: &[ClosedSlot], over: Span, most: u64) -> Series {
        Series::new(slots, over, most).of([self.as_ref()])
    }

    fn series_of_periods(&self, history: &dyn History, step: Step, over: Span, most: u64) -> Read<Series> {
        let together = together(step, &over, most);
        let rows = history.rollups(&self.cluster, step, over.clone(), MAX_LIMIT)?;
        let periods = GroupPeriod::of_one(&rows, step, together);
        Ok(Series::of_periods(step, &periods, over, together).of([self.as_ref()]))
    }
}

impl Subject for GroupView {
    const KIND: &'static str = "group";
    const SLOTS_BESIDE_PERIODS: usize = super::load_page::RECENT;

    type Slot = GroupSlot;
    type Json = GroupJson;
    type SlotJson = GroupSlotJson;
    type PeriodJson = GroupPeriodJson;

    fn find(shared: &Shared, id: &str) -> Option<Self> {
        shared.group(id)
    }

    fn all(shared: &Shared) -> (u64, Vec<Self>) {
        shared.groups()
    }

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn json(&self, now: Timestamp) -> GroupJson {
        GroupJson::new(self, now)
    }

    fn most_rows(&self) -> usize {
        self.most_slots().min(MAX_LIMIT)
    }

    fn slots(&self, history: &dyn History, ended: Span, limit: usize) -> Read<Vec<GroupSlot>> {
        self.slots(history, ended, limit)
    }

    fn periods(&self, history: &dyn History, step: Step, begun: Span, limit: usize) -> Read<Vec<GroupPeriodJson>> {
        Ok(self.periods(history, step, begun, limit, 1)?.iter().map(GroupPeriodJson::from).collect())
    }

    fn start(slot: &GroupSlot) -> Timestamp {
        slot.start
    }

    fn begun(&self, _: &dyn History) -> Read<Option<Timestamp>> {
        Ok(self.served.iter().filter_map(|shown| Some(shown.view.energy?.extent.begun)).min())
    }

    /// What some clusters have yet to close would look like a load that falls.
    fn settle(&self, mut slots: Vec<GroupSlot>, now: Timestamp) -> Vec<GroupSlot> {
        if let Some(current) = self.current(now) {
            slots.retain(|slot| slot.end <= current.end);
        }
        slots
    }

    /// A point is of those of its slots that have most clusters in them. Drawn are estimates for all members: meters that are silent
    /// in many clusters are nothing to look into at once.
    fn series(&self, slots: &[GroupSlot], over: Span, most: u64) -> Series {
        Series::new(slots, over, most).of_estimates().of(self.views())
    }

    fn series_of_periods(&self, history: &dyn History, step: Step, over: Span, most: u64) -> Read<Series> {
        let together = together(step, &over, most);
        let periods = self.periods(history, step, over.clone(), self.most_rows(), together)?;
        Ok(Series::of_periods(step, &periods, over, together).of_estimates().of(self.views()))
    }
}
