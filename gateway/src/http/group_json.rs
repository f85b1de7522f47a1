//! A group as the API tells it: sums of clusters as they stand, and of their past slots.

use dream_protocol::time::Timestamp;
use serde::Serialize;

use crate::board::energy::{EnergyJson, MeanLoadsJson, PeriodsJson};
use crate::board::group::{GroupPeriod, GroupSlot, GroupView};
use crate::board::slot_json::LoadsJson;
use crate::clock::rfc3339;
use crate::config::Part;

/// One group as the API tells it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupJson {
    pub id: String,
    /// The clusters and groups that it is the sum of.
    pub of: Vec<String>,
    pub slot_seconds: u64,
    /// How many clusters it has, also in groups in it, and how many of them this replica serves: only those are in its sums.
    pub clusters: usize,
    pub clusters_served: usize,
    /// The newest slot.
    pub last: Option<GroupSlotJson>,
    /// The running hour, day and month.
    pub energy: PeriodsJson<GroupEnergyJson>,
}

impl GroupJson {
    pub(super) fn new(view: &GroupView, now: Timestamp) -> Self {
        Self {
            id: view.id.to_string(),
            of: view.group.of.iter().map(Part::to_string).collect(),
            slot_seconds: view.group.slot_seconds,
            clusters: view.group.clusters.len(),
            clusters_served: view.served.len(),
            last: view.current(now).as_ref().map(GroupSlotJson::from),
            energy: view.energy(now).iter().map(|(period, energy)| (*period, energy.into())).collect(),
        }
    }
}

/// The energy of a group in a period. Times are those of its clusters, added up.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GroupEnergyJson {
    #[serde(flatten)]
    pub energy: EnergyJson,
    /// How many clusters the group has, and how many of them are in the energy.
    pub clusters: usize,
    pub in_sum: usize,
}

impl From<&GroupPeriod> for GroupEnergyJson {
    fn from(period: &GroupPeriod) -> Self {
        let GroupPeriod { total, clusters, in_sum, missing_millis, .. } = *period;
        let energy = EnergyJson { missing_seconds: missing_millis / 1000, ..EnergyJson::of(&total) };
        Self { energy, clusters, in_sum }
    }
}

/// A slot of a group. Loads are those of the clusters in the sum, and absent (`null`) without one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GroupSlotJson {
    /// RFC 3339, UTC.
    pub start: String,
    pub end: String,
    /// How many clusters the group has, how many of them are in the sum, and how many others are filled in with what their filters
    /// expected.
    pub clusters: usize,
    pub in_sum: usize,
    pub filled: usize,
    /// Sums of those of the clusters.
    #[serde(flatten)]
    pub loads: LoadsJson,
    /// Of the clusters in the sum.
    pub members: u64,
    pub responders: u64,
}

impl From<&GroupSlot> for GroupSlotJson {
    fn from(slot: &GroupSlot) -> Self {
        Self {
            start: rfc3339(slot.start),
            end: rfc3339(slot.end),
            clusters: slot.clusters,
            in_sum: slot.in_sum,
            filled: slot.filled,
            loads: LoadsJson::new(slot.sum(), slot.estimate(), slot.filtered(), slot.cut_off_share()),
            members: slot.members,
            responders: slot.responders,
        }
    }
}

/// An hour or a day of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GroupPeriodJson {
    #[serde(flatten)]
    pub energy: GroupEnergyJson,
    /// Sums of those of the clusters.
    #[serde(flatten)]
    pub loads: MeanLoadsJson,
}

impl From<&GroupPeriod> for GroupPeriodJson {
    fn from(period: &GroupPeriod) -> Self {
        Self { energy: period.into(), loads: MeanLoadsJson::new(period.mean_load(), period.mean_filtered()) }
    }
}
