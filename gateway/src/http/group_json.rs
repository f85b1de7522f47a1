//! Groups in the API: sums of clusters as they stand, and of their past slots.

use std::io::{self, Write};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dream_protocol::time::Timestamp;
use serde::Serialize;

use super::api::{csv, maybe_truncated};
use super::error::ApiError;
use super::query::{Format, HistoryQuery, Id, Parameters, SlotsQuery};
use super::{Shared, blocking};
use crate::board::energy::{EnergyJson, MeanLoadsJson};
use crate::board::group::{GroupPeriod, GroupSlot, GroupView};
use crate::board::slot_json::cell;
use crate::clock::{Period, rfc3339};
use crate::config::{GroupId, Part};

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
    pub energy: GroupPeriodsJson,
}

impl GroupJson {
    fn new(view: &GroupView, now: Timestamp) -> Self {
        Self {
            id: view.id.to_string(),
            of: view.group.of.iter().map(Part::to_string).collect(),
            slot_seconds: view.group.slot_seconds,
            clusters: view.group.clusters.len(),
            clusters_served: view.served.len(),
            last: view.current(now).as_ref().map(GroupSlotJson::from),
            energy: GroupPeriodsJson::running(view, now),
        }
    }
}

/// The energy of a group in a period. Times are those of its clusters, added up.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The running periods; `null` for one that no slot of it has closed in yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GroupPeriodsJson {
    pub hour: Option<GroupEnergyJson>,
    pub day: Option<GroupEnergyJson>,
    pub month: Option<GroupEnergyJson>,
}

impl GroupPeriodsJson {
    fn running(view: &GroupView, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (period, energy) in view.energy(now) {
            let energy = Some(GroupEnergyJson::from(&energy));
            match period {
                Period::Hour => all.hour = energy,
                Period::Day => all.day = energy,
                Period::Month => all.month = energy,
            }
        }
        all
    }
}

/// A slot of a group. Loads are those of the clusters in the sum, and absent (`null`) if there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSlotJson {
    /// RFC 3339, UTC.
    pub start: String,
    pub end: String,
    /// How many clusters the group has, how many of them are in the sum, and how many others are filled in with what their filters
    /// expected.
    pub clusters: usize,
    pub in_sum: usize,
    pub filled: usize,
    /// The sum of the noisy sums over the responders, and its bands.
    pub load_watts: Option<i64>,
    pub band95_watts: Option<u64>,
    pub band99_watts: Option<u64>,
    /// The sum of the clusters' estimates for all of their members, and its bands.
    pub load_estimated_watts: Option<i64>,
    pub band95_estimated_watts: Option<u64>,
    pub band99_estimated_watts: Option<u64>,
    /// The sum of the filtered loads, and its band.
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<u64>,
    /// Of the clusters in the sum.
    pub members: u64,
    pub responders: u64,
}

impl From<&GroupSlot> for GroupSlotJson {
    fn from(slot: &GroupSlot) -> Self {
        let (sum, estimate, filtered) = (slot.sum(), slot.estimate(), slot.filtered());
        Self {
            start: rfc3339(slot.start),
            end: rfc3339(slot.end),
            clusters: slot.clusters,
            in_sum: slot.in_sum,
            filled: slot.filled,
            load_watts: sum.map(|load| load.watts),
            band95_watts: sum.map(|load| load.band95),
            band99_watts: sum.map(|load| load.band99),
            load_estimated_watts: estimate.map(|load| load.watts),
            band95_estimated_watts: estimate.map(|load| load.band95),
            band99_estimated_watts: estimate.map(|load| load.band99),
            load_filtered_watts: filtered.map(|load| load.watts),
            band95_filtered_watts: filtered.map(|load| load.band95),
            members: slot.members,
            responders: slot.responders,
        }
    }
}

/// The first line of a CSV file of a group's slots.
const CSV_HEADER: &str = "group,start,end,clusters,in_sum,filled,load_watts,band95_watts,band99_watts,load_estimated_watts,\
    band95_estimated_watts,band99_estimated_watts,load_filtered_watts,band95_filtered_watts,members,responders";

impl GroupSlotJson {
    /// Writes the slot as a line under [`CSV_HEADER`].
    fn write_csv(&self, group: &GroupId, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{group},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            self.start,
            self.end,
            self.clusters,
            self.in_sum,
            self.filled,
            cell(self.load_watts),
            cell(self.band95_watts),
            cell(self.band99_watts),
            cell(self.load_estimated_watts),
            cell(self.band95_estimated_watts),
            cell(self.band99_estimated_watts),
            cell(self.load_filtered_watts),
            cell(self.band95_filtered_watts),
            self.members,
            self.responders,
        )
    }
}

#[derive(Serialize)]
struct GroupsJson<'a> {
    gateway: &'a str,
    version: u64,
    now: String,
    groups: Vec<GroupJson>,
}

/// `GET /api/v1/groups`: all groups of the configuration.
pub(super) async fn groups(State(shared): State<Arc<Shared>>, parameters: Parameters) -> Result<Response, ApiError> {
    parameters.none()?;
    let (version, views) = shared.service.board.groups();
    let now = shared.now();
    let groups = views.iter().map(|view| GroupJson::new(view, now)).collect();
    Ok(Json(GroupsJson { gateway: &shared.service.gateway, version, now: rfc3339(now), groups }).into_response())
}

/// `GET /api/v1/groups/{id}`.
pub(super) async fn group(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.group(&id).ok_or_else(|| ApiError::unknown_group(&id))?;
    parameters.none()?;
    Ok(Json(GroupJson::new(&view, shared.now())).into_response())
}

#[derive(Serialize)]
struct GroupSlotsJson<'a> {
    group: &'a str,
    from: String,
    to: String,
    /// Less than was asked for, if the group has very many clusters.
    limit: usize,
    /// Whether there are older slots in the range than those told.
    truncated: bool,
    slots: Vec<GroupSlotJson>,
}

/// `GET /api/v1/groups/{id}/slots`: the slots that ended in `from..to`, oldest first.
pub(super) async fn slots(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.group(&id).ok_or_else(|| ApiError::unknown_group(&id))?;
    let query = parameters.slots(shared.now())?;
    blocking(move || slots_of(&shared, &view, &query)).await
}

fn slots_of(shared: &Shared, view: &GroupView, query: &SlotsQuery) -> Result<Response, ApiError> {
    let limit = query.limit.min(view.most_slots());
    // One more than asked for tells whether there is more.
    let mut slots = view.slots(shared.service.history.as_ref(), query.from, query.to, limit + 1)?;
    let truncated = slots.len() > limit;
    slots.drain(..slots.len().saturating_sub(limit));
    let slots: Vec<_> = slots.iter().map(GroupSlotJson::from).collect();
    let body = match query.format {
        Format::Json => {
            let (from, to) = (rfc3339(query.from), rfc3339(query.to));
            Json(GroupSlotsJson { group: view.id.as_str(), from, to, limit, truncated, slots }).into_response()
        }
        Format::Csv => csv(&format!("{}-slots.csv", view.id), CSV_HEADER, |body| {
            slots.iter().try_for_each(|slot| slot.write_csv(&view.id, body))
        }),
    };
    Ok(maybe_truncated(truncated, body))
}

/// An hour or a day of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The first line of a CSV file of a group's hours or days.
const PERIODS_CSV_HEADER: &str = "group,start,end,energy_watt_hours,band95_energy_watt_hours,measured_seconds,filled_seconds,\
    missing_seconds,filled_share,clusters,in_sum,load_estimated_watts,band95_estimated_watts,load_filtered_watts,\
    band95_filtered_watts";

impl GroupPeriodJson {
    /// Writes the period as a line under [`PERIODS_CSV_HEADER`].
    fn write_csv(&self, group: &GroupId, out: &mut impl Write) -> io::Result<()> {
        let GroupEnergyJson { energy, clusters, in_sum } = &self.energy;
        writeln!(out, "{group},{},{clusters},{in_sum},{}", energy.cells(), self.loads.cells())
    }
}

#[derive(Serialize)]
struct GroupHistoryJson<'a> {
    group: &'a str,
    step: &'static str,
    from: String,
    to: String,
    /// Less than was asked for, if the group has very many clusters.
    limit: usize,
    /// Whether there are older ones in the range than those told.
    truncated: bool,
    periods: Vec<GroupPeriodJson>,
}

/// `GET /api/v1/groups/{id}/history`: the hours or days that began in `from..to`, oldest first.
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.group(&id).ok_or_else(|| ApiError::unknown_group(&id))?;
    let query = parameters.history(shared.now())?;
    blocking(move || history_of(&shared, &view, &query)).await
}

fn history_of(shared: &Shared, view: &GroupView, query: &HistoryQuery) -> Result<Response, ApiError> {
    let HistoryQuery { step, rows: SlotsQuery { from, to, limit, format } } = *query;
    let limit = limit.min(view.most_slots());
    let mut periods = view.periods(shared.service.history.as_ref(), step, from, to, limit + 1, 1)?;
    let truncated = periods.len() > limit;
    periods.drain(..periods.len().saturating_sub(limit));
    let (step, group) = (step.as_str(), view.id.as_str());
    let periods: Vec<_> = periods.iter().map(GroupPeriodJson::from).collect();
    let body = match format {
        Format::Json => {
            let (from, to) = (rfc3339(from), rfc3339(to));
            Json(GroupHistoryJson { group, step, from, to, limit, truncated, periods }).into_response()
        }
        Format::Csv => csv(&format!("{group}-{step}s.csv"), PERIODS_CSV_HEADER, |body| {
            periods.iter().try_for_each(|period| period.write_csv(&view.id, body))
        }),
    };
    Ok(maybe_truncated(truncated, body))
}
