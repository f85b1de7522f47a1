//! The gauges of clusters.

use dream_protocol::params::Params;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::time::Timestamp;

use super::gauges::{Gauge, JOULES, band95, bands, count, each, each_band95, gauge, one, whole};
use crate::board::{ClusterView, day_epsilon};
use crate::clock::Period;
use crate::history::{Extent, FilteredLoad, Load, Rollup};

/// Each with how it is read off a cluster as it stands.
pub(super) const GAUGES: [Gauge<ClusterView>; 38] = [
    gauge(
        "dream_cluster_load_watts",
        "The noisy sum over the responders in the last slot; absent if it failed.",
        &[],
        |view, now| one(sum(view, now).map(|load| whole(load.watts))),
    ),
    gauge(
        "dream_cluster_load_band_watts",
        "Half the width of the band around the load that holds the sum without noise.",
        &["confidence"],
        |view, now| bands(sum(view, now)),
    ),
    gauge(
        "dream_cluster_load_estimated_watts",
        "The load scaled from the responders to all members: silent meters make the plain sum dip.",
        &[],
        |view, now| one(estimate(view, now).map(|load| whole(load.watts))),
    ),
    gauge(
        "dream_cluster_load_estimated_band_watts",
        "Half the width of the band around the estimated load, for the noise alone.",
        &["confidence"],
        |view, now| bands(estimate(view, now)),
    ),
    gauge(
        "dream_cluster_load_filtered_watts",
        "Load of all members in the last slot, estimated by a model using earlier sums: less noise.",
        &[],
        |view, now| one(filtered(view, now).map(|filtered| whole(filtered.watts))),
    ),
    gauge(
        "dream_cluster_load_filtered_band_watts",
        "Half the width of the band around the filtered load, if its model is right.",
        &["confidence"],
        |view, now| band95(filtered(view, now)),
    ),
    gauge(
        "dream_cluster_energy_joules",
        "Energy of all members in the running hour, day or month so far; 3.6e6 is 1 kWh. It contains noise and may fall.",
        &["period"],
        |view, now| each(periods(view, now, |rollup, _| JOULES * rollup.energy_watt_hours())),
    ),
    gauge(
        "dream_cluster_energy_band_joules",
        "Half the width of the band around that energy.",
        &["period", "confidence"],
        |view, now| each_band95(periods(view, now, |rollup, _| JOULES * rollup.band95_watt_hours())),
    ),
    gauge(
        "dream_cluster_energy_filled_ratio",
        "Share of that energy's time in which slots gave no sum and the filter filled in the load.",
        &["period"],
        |view, now| each(periods(view, now, |rollup, _| rollup.filled_share())),
    ),
    gauge(
        "dream_cluster_energy_covered_ratio",
        "Share of the period, until the last slot ended, that the energy covers; the rest is missing.",
        &["period"],
        |view, now| each(periods(view, now, Rollup::covered_share)),
    ),
    gauge("dream_cluster_noise_scale_watts", "The scale of the noise, lambda.", &[], |view, _| {
        one(view.list.as_ref().map(|list| list.params.noise_scale().as_f64()))
    }),
    gauge("dream_cluster_members", "Members of the list in force.", &[], |view, _| {
        one(view.list.as_ref().map(|list| f64::from(list.params.members())))
    }),
    gauge("dream_cluster_candidates", "Enrolled meters that could be in the next list.", &[], |view, _| {
        one(view.candidates as f64)
    }),
    gauge("dream_cluster_min_members", "The fewest members that form a list.", &[], |view, _| {
        one(f64::from(view.min_members))
    }),
    gauge(
        "dream_cluster_enrolments_expiring",
        "Candidates whose enrolment ends within seven days; meters renew earlier than that.",
        &[],
        |view, _| one(view.ending as f64),
    ),
    gauge("dream_cluster_responders", "Members whose readings were in the last slot.", &[], |view, now| {
        one(view.recent(now).map(|closed| f64::from(closed.outcome.responders)))
    }),
    gauge("dream_cluster_missing", "Members whose readings were missing in the last slot.", &[], |view, now| {
        one(view.recent(now).map(|closed| f64::from(closed.outcome.missing())))
    }),
    gauge("dream_cluster_max_missing", "How many members may be missing before the slot is lost.", &[], |view, _| {
        one(view.list.as_ref().map(|list| f64::from(list.params.max_missing())))
    }),
    gauge("dream_cluster_holders", "Holders of the list in force (K), if it has a committee.", &[], |view, _| {
        one(committee(view).map(|committee| count(committee.holders)))
    }),
    gauge("dream_cluster_holders_needed", "How many holders must answer (q).", &[], |view, _| {
        one(committee(view).map(|committee| count(committee.needed)))
    }),
    gauge("dream_cluster_holders_answered", "Holders that answered when they were last asked.", &[], |view, now| {
        one(view.recent_holders(now).map(|holders| f64::from(holders.answered)))
    }),
    gauge(
        "dream_cluster_holders_spare",
        "How many more holders could have dropped out; a wrong answer costs two.",
        &[],
        |view, now| one(view.recent_holders(now).map(|holders| f64::from(holders.spare()))),
    ),
    gauge("dream_cluster_holders_wrong", "Holders whose answers were wrong then.", &[], |view, now| {
        one(view.recent_holders(now).map(|holders| f64::from(holders.wrong)))
    }),
    gauge("dream_cluster_epsilon", "Epsilon of one attempt.", &[], |view, _| {
        one(view.list.as_ref().map(|list| count(list.params.charge_micro_epsilon()) / 1e6))
    }),
    gauge(
        "dream_cluster_epsilon_day",
        "Epsilon that today's slots (UTC) have cost each participant so far, counted slot by slot.",
        &[],
        |view, now| one(count(view.spent.at(now)) / 1e6),
    ),
    gauge(
        "dream_cluster_day_rho",
        "Rho of all slots of a UTC day together, which every member reserves. Not what homes used of it.",
        &[],
        |view, _| one(view.list.as_ref().and_then(|list| day_epsilon::rho(&list.params))),
    ),
    gauge(
        "dream_cluster_day_epsilon",
        "Epsilon of so many whole days of the list in force, but for a probability of 1e-6.",
        &["days"],
        |view, _| by_days(view, day_epsilon::at_delta),
    ),
    gauge(
        "dream_cluster_day_epsilon_pure",
        "Epsilon of so many whole days of the list in force, without exception.",
        &["days"],
        |view, _| by_days(view, day_epsilon::pure),
    ),
    gauge(
        "dream_cluster_membership_epoch",
        "The epoch of the newest list: the Unix time at which it was made, or a little later.",
        &[],
        |view, _| one(view.list.as_ref().map(|list| count(list.epoch))),
    ),
    gauge("dream_cluster_last_slot_timestamp_seconds", "The end of the last slot that closed.", &[], |view, _| {
        one(view.last.map(|closed| count(closed.outcome.end.as_millis()) / 1e3))
    }),
    gauge("dream_cluster_slot_seconds", "The length of a slot.", &[], |view, _| one(count(view.slot_seconds))),
    gauge("dream_cluster_offenders", "Members that spoil slots, by what they do.", &["offence"], |view, _| {
        view.offenders.by_offence().map(|(offence, members)| (vec![offence], members as f64)).into()
    }),
    gauge("dream_cluster_quarantined", "Members that are left out of sums until they pass a trial.", &[], |view, _| {
        one(view.offenders.quarantined as f64)
    }),
    gauge("dream_cluster_left_out_of_lists", "Members left out of lists for some days.", &[], |view, _| {
        one(view.offenders.left_out_of_lists as f64)
    }),
    gauge(
        "dream_cluster_searching",
        "1 while groups of members are left out to find who spoils sums.",
        &[],
        |view, _| one(f64::from(u8::from(view.offenders.searching))),
    ),
    gauge(
        "dream_cluster_left_out_to_search",
        "Members left out of lists for some slots, because several spoil sums.",
        &[],
        |view, _| one(view.offenders.left_out_to_search as f64),
    ),
    gauge(
        "dream_cluster_cannot_be_found",
        "1 if members spoil sums and the search for them was given up.",
        &[],
        |view, _| one(f64::from(u8::from(view.offenders.cannot_be_found))),
    ),
    gauge("dream_cluster_stalled", "1 if slots should have closed and none did.", &[], |view, now| {
        one(f64::from(u8::from(view.is_stalled(now))))
    }),
];

/// Reads a number off each running period.
fn periods(view: &ClusterView, now: Timestamp, value: impl Fn(&Rollup, Extent) -> f64) -> Vec<(Period, f64)> {
    let energy = view.energy.as_ref();
    let running = energy.into_iter().flat_map(|energy| energy.running(now).map(|running| (running, energy.extent)));
    running.map(|((period, rollup), extent)| (period, value(&rollup, extent))).collect()
}

/// Computes a number for each of the periods under the list in force.
fn by_days(view: &ClusterView, value: impl Fn(&Params, u64) -> f64) -> Vec<(Vec<&'static str>, f64)> {
    let params = view.list.as_ref().map(|list| &list.params);
    let of = |params| day_epsilon::PERIODS.map(|days| value(params, days));
    let values = params.into_iter().flat_map(of);
    ["1", "30", "365"].into_iter().zip(values).map(|(days, value)| (vec![days], value)).collect()
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
