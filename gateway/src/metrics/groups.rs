//! The gauges of groups: what this replica's clusters add up to. Those of all replicas add up to the group.

use dream_protocol::time::Timestamp;

use super::gauges::{Gauge, JOULES, band95, bands, each, each_band95, gauge, one, whole};
use crate::board::group::{GroupPeriod, GroupSlot, GroupView};
use crate::clock::Period;

/// A group and its newest slot.
pub(super) struct Told {
    view: GroupView,
    slot: Option<GroupSlot>,
    energy: Vec<(Period, GroupPeriod)>,
}

impl Told {
    pub(super) fn new(view: GroupView, now: Timestamp) -> Self {
        Self { slot: view.current(now), energy: view.energy(now), view }
    }
}

/// Each with how it is read off a group as it stands.
pub(super) const GAUGES: [Gauge<Told>; 12] = [
    gauge(
        "dream_group_load_watts",
        "The noisy sum over the responders of the clusters served here; absent if none gave a sum. Sum over replicas.",
        &[],
        |told, _| one(slot(told, |slot| slot.sum().map(|load| whole(load.watts)))),
    ),
    gauge(
        "dream_group_load_band_watts",
        "Half the width of the band around it. Over replicas, take the root of the sum of squares.",
        &["confidence"],
        |told, _| bands(slot(told, GroupSlot::sum)),
    ),
    gauge(
        "dream_group_load_estimated_watts",
        "The same, each cluster scaled from its responders to all of its members. Sum over replicas.",
        &[],
        |told, _| one(slot(told, |slot| slot.estimate().map(|load| whole(load.watts)))),
    ),
    gauge(
        "dream_group_load_estimated_band_watts",
        "Half the width of the band around it, for the noise alone. Over replicas, take the root of the sum of squares.",
        &["confidence"],
        |told, _| bands(slot(told, GroupSlot::estimate)),
    ),
    gauge(
        "dream_group_load_filtered_watts",
        "The sum of the filtered loads of the clusters served here. Sum over replicas.",
        &[],
        |told, _| one(slot(told, |slot| slot.filtered().map(|load| whole(load.watts)))),
    ),
    gauge(
        "dream_group_load_filtered_band_watts",
        "Half the width of the band around it, if the filters' models are right and err independently. Over replicas, \
         take the root of the sum of squares.",
        &["confidence"],
        |told, _| band95(slot(told, GroupSlot::filtered)),
    ),
    gauge(
        "dream_group_energy_joules",
        "Energy of all members of the clusters served here in the running hour, day or month so far; 3.6e6 is 1 kWh. \
         Sum over replicas.",
        &["period"],
        |told, _| each(periods(told, |period| JOULES * period.total.energy_watt_hours())),
    ),
    gauge(
        "dream_group_energy_band_joules",
        "Half the width of the band around that energy. Over replicas, take the root of the sum of squares.",
        &["period", "confidence"],
        |told, _| each_band95(periods(told, |period| JOULES * period.total.band95_watt_hours())),
    ),
    gauge(
        "dream_group_energy_clusters_in_sum",
        "How many clusters served here are in that energy. Sum over replicas.",
        &["period"],
        |told, _| each(periods(told, |period| period.in_sum as f64)),
    ),
    gauge(
        "dream_group_clusters",
        "How many clusters the group has, on all replicas together. The same on every replica.",
        &[],
        |told, _| one(told.view.group.clusters.len() as f64),
    ),
    gauge(
        "dream_group_clusters_in_sum",
        "How many clusters served here gave a sum. If these and the filled ones of all replicas are fewer than the \
         group has, its load is incomplete.",
        &[],
        |told, _| one(told.slot.map_or(0, |slot| slot.in_sum) as f64),
    ),
    gauge(
        "dream_group_clusters_filled",
        "How many clusters served here gave no sum and are in the estimate and the filtered load as their filters expected.",
        &[],
        |told, _| one(told.slot.map_or(0, |slot| slot.filled) as f64),
    ),
];

fn periods(told: &Told, value: impl Fn(&GroupPeriod) -> f64) -> Vec<(Period, f64)> {
    told.energy.iter().map(|(period, energy)| (*period, value(energy))).collect()
}

fn slot<T>(told: &Told, value: impl FnOnce(&GroupSlot) -> Option<T>) -> Option<T> {
    told.slot.as_ref().and_then(value)
}
