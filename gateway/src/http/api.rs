//! The API, version 1: clusters as they stand, their past slots, their signed membership lists.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, VARY};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use serde::Serialize;

use super::error::ApiError;
use super::query::{Format, HistoryQuery, Id, Parameters, SlotsQuery};
use super::{Shared, blocking};
use crate::board::energy::{self, PeriodsJson, RollupJson};
use crate::board::evidence::EvidenceView;
use crate::board::holders::HoldersView;
use crate::board::offenders::OffenderCounts;
use crate::board::slot_json::{CSV_HEADER, SlotJson, of_micro};
use crate::board::{ClusterView, ListView};
use crate::clock::rfc3339;

/// How long a request with `after` waits for news.
const LONG_POLL: Duration = Duration::from_secs(25);

/// One cluster as the API tells it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterJson {
    pub id: String,
    pub state: ClusterState,
    pub slot_seconds: u64,
    /// How many members a list needs at least.
    pub min_members: u16,
    /// How many meters are enrolled and could be in the next list.
    pub candidates: usize,
    /// How many members spoil slots, and what is done about it.
    pub offenders: OffenderCounts,
    /// How the holders answered when they were last asked; `None` without a committee.
    pub holders: Option<HoldersJson>,
    /// Why the list has no committee, if one was preferred.
    pub no_committee: Option<String>,
    /// Why no list can be formed, if that is so.
    pub cannot_form: Option<String>,
    /// The list in force, or else the newest one published.
    pub list: Option<ListJson>,
    /// What the slots of the current UTC day have cost each participant so far.
    pub epsilon_day: f64,
    pub micro_epsilon_day: u64,
    /// What the running hour, day and month have come to.
    pub energy: PeriodsJson,
    pub last: Option<SlotJson>,
    pub last_decoded: Option<SlotJson>,
    /// How long ago the slot of `last_decoded` ended.
    pub load_age_seconds: Option<u64>,
    /// Whether its load is too old to stand for the present.
    pub load_stale: bool,
    /// When something is due next.
    pub next_deadline: Option<String>,
    /// Since when the gateway serves the cluster.
    pub since: String,
}

/// What a cluster is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// Too few meters are enrolled for a list.
    WaitingForMembers,
    /// There are meters, but no list can be formed of them.
    CannotForm,
    /// There is a list, and none of its slots has closed.
    WaitingForFirstSlot,
    Running,
    /// Slots have closed, or should have, and none did for several slot lengths.
    Stalled,
}

impl ClusterState {
    pub fn of(view: &ClusterView, now: Timestamp) -> Self {
        match (&view.list, &view.last) {
            _ if view.is_stalled(now) => Self::Stalled,
            (None, _) if view.cannot_form.is_some() => Self::CannotForm,
            (None, _) => Self::WaitingForMembers,
            (Some(_), None) => Self::WaitingForFirstSlot,
            (Some(_), Some(_)) => Self::Running,
        }
    }
}

/// A membership list without its members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListJson {
    pub epoch: u64,
    pub from_slot: u64,
    pub to_slot: u64,
    /// When the first slot begins and the last one ends.
    pub start: String,
    pub end: String,
    pub members: u16,
    pub honest: u16,
    pub max_missing: u16,
    pub max_malicious: u16,
    pub min_watts: i64,
    pub max_watts: i64,
    /// How often a slot may be tried.
    pub attempts: u8,
    /// Epsilon of one attempt.
    pub epsilon: f64,
    pub micro_epsilon: u64,
    /// E: epsilon of all slots of a UTC day together, reserved by every member; none if the list states none.
    pub day_epsilon: Option<f64>,
    pub day_micro_epsilon: Option<u64>,
    /// The energy of a day that a meter can tell under E.
    pub day_watt_hours: Option<u64>,
    pub noise_scale_watts: f64,
    /// `pairwise` or `committee`.
    pub scheme: &'static str,
    /// K and q of a committee.
    pub holders: Option<u64>,
    pub holders_needed: Option<u64>,
}

/// How the holders of a committee answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HoldersJson {
    pub holders: u16,
    pub needed: u16,
    pub answered: u16,
    pub wrong: u16,
    pub vanished: u16,
    /// How many more could have vanished.
    pub spare: u16,
}

impl From<&HoldersView> for HoldersJson {
    fn from(view: &HoldersView) -> Self {
        let HoldersView { holders, needed, answered, wrong, .. } = *view;
        Self { holders, needed, answered, wrong, vanished: view.vanished(), spare: view.spare() }
    }
}

impl From<&ListView> for ListJson {
    fn from(list: &ListView) -> Self {
        let params = &list.params;
        let (micro_epsilon, scheme) = (params.charge_micro_epsilon(), params.terms().scheme);
        let day_micro_epsilon = Some(params.terms().day_micro_epsilon).filter(|&stated| stated > 0);
        Self {
            epoch: list.epoch,
            from_slot: list.from_slot.0,
            to_slot: list.to_slot.0,
            start: rfc3339(params.slot_start(list.from_slot)),
            end: rfc3339(params.slot_end(list.to_slot)),
            members: params.members(),
            honest: params.honest(),
            max_missing: params.max_missing(),
            max_malicious: params.max_malicious(),
            min_watts: params.terms().lo,
            max_watts: params.terms().hi,
            attempts: params.attempts(),
            epsilon: of_micro(micro_epsilon),
            micro_epsilon,
            day_epsilon: day_micro_epsilon.map(of_micro),
            day_micro_epsilon,
            day_watt_hours: params.day_watt_hours(),
            noise_scale_watts: params.noise_scale().as_f64(),
            scheme: scheme.kind().as_str(),
            holders: scheme.committee().map(|committee| committee.holders),
            holders_needed: scheme.committee().map(|committee| committee.needed),
        }
    }
}

impl ClusterJson {
    pub fn new(view: &ClusterView, now: Timestamp) -> Self {
        let micro_epsilon_day = view.spent.at(now);
        Self {
            id: view.cluster.to_string(),
            state: ClusterState::of(view, now),
            slot_seconds: view.slot_seconds,
            min_members: view.min_members,
            candidates: view.candidates,
            offenders: view.offenders,
            holders: view.recent_holders(now).map(HoldersJson::from),
            no_committee: view.no_committee.clone(),
            cannot_form: view.cannot_form.clone(),
            list: view.list.as_ref().map(ListJson::from),
            epsilon_day: of_micro(micro_epsilon_day),
            micro_epsilon_day,
            energy: PeriodsJson::running(view.energy.as_ref(), now),
            last: view.last.as_ref().map(SlotJson::from),
            last_decoded: view.last_decoded.as_ref().map(SlotJson::from),
            load_age_seconds: view.load_age(now),
            load_stale: view.last_decoded.is_some() && view.recent_decoded(now).is_none(),
            next_deadline: view.next_deadline.map(rfc3339),
            since: rfc3339(view.since),
        }
    }
}

#[derive(Serialize)]
struct ClustersJson<'a> {
    gateway: &'a str,
    /// Grows with every change: wait for the next one with `?after=`.
    version: u64,
    now: String,
    clusters: Vec<ClusterJson>,
}

/// `GET /api/v1/clusters`: all clusters; with `after`, once the board's version is another than that, or after a while.
pub(super) async fn clusters(State(shared): State<Arc<Shared>>, parameters: Parameters) -> Result<Response, ApiError> {
    if let Some(after) = parameters.after()? {
        news(&shared, after).await;
    }
    let (version, views) = shared.service.board.clusters();
    let now = shared.now();
    let clusters = views.iter().map(|view| ClusterJson::new(view, now)).collect();
    let body = ClustersJson { gateway: &shared.service.gateway, version, now: rfc3339(now), clusters };
    Ok(Json(body).into_response())
}

/// Waits for a version other than `after`, for a while. Not for a greater one: versions start over with the gateway.
async fn news(shared: &Shared, after: u64) {
    let mut versions = shared.service.board.watch();
    let mut closing = shared.closing.subscribe();
    tokio::select! {
        _ = versions.wait_for(|&version| version != after) => {}
        _ = closing.wait_for(|&closing| closing) => {}
        () = tokio::time::sleep(LONG_POLL) => {}
    }
}

/// `GET /api/v1/clusters/{id}`.
pub(super) async fn cluster(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    parameters.none()?;
    Ok(Json(ClusterJson::new(&view, shared.now())).into_response())
}

#[derive(Serialize)]
struct SlotsJson<'a> {
    cluster: &'a str,
    from: String,
    to: String,
    limit: usize,
    /// Whether there are older slots in the range than those told.
    truncated: bool,
    slots: Vec<SlotJson>,
}

/// `GET /api/v1/clusters/{id}/slots`: the slots that ended in `from..to`, oldest first.
pub(super) async fn slots(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    let query = parameters.slots(shared.now())?;
    blocking(move || slots_of(&shared, &view.cluster, &query)).await
}

fn slots_of(shared: &Shared, cluster: &ClusterId, query: &SlotsQuery) -> Result<Response, ApiError> {
    // One more than asked for tells whether there is more.
    let mut slots = shared.service.history.slots(cluster, query.from, query.to, query.limit + 1)?;
    let truncated = slots.len() > query.limit;
    slots.drain(..slots.len().saturating_sub(query.limit));
    let slots: Vec<_> = slots.iter().map(SlotJson::from).collect();
    let body = match query.format {
        Format::Json => {
            let (from, to) = (rfc3339(query.from), rfc3339(query.to));
            Json(SlotsJson { cluster: cluster.as_str(), from, to, limit: query.limit, truncated, slots })
                .into_response()
        }
        Format::Csv => csv(&format!("{cluster}-slots.csv"), CSV_HEADER, |body| {
            slots.iter().try_for_each(|slot| slot.write_csv(cluster, body))
        }),
    };
    Ok(maybe_truncated(truncated, body))
}

#[derive(Serialize)]
struct HistoryJson<'a> {
    cluster: &'a str,
    step: &'static str,
    from: String,
    to: String,
    limit: usize,
    /// Whether there are older ones in the range than those told.
    truncated: bool,
    periods: Vec<RollupJson>,
}

/// `GET /api/v1/clusters/{id}/history`: the hours or days that began in `from..to`, oldest first.
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    let query = parameters.history(shared.now())?;
    blocking(move || history_of(&shared, &view.cluster, &query)).await
}

fn history_of(shared: &Shared, cluster: &ClusterId, query: &HistoryQuery) -> Result<Response, ApiError> {
    let HistoryQuery { step, rows: SlotsQuery { from, to, limit, format } } = *query;
    let mut rows = shared.service.history.rollups(cluster, step, from, to, limit + 1)?;
    let truncated = rows.len() > limit;
    rows.drain(..rows.len().saturating_sub(limit));
    let extent = shared.service.history.extent(cluster)?;
    let periods: Vec<_> =
        extent.map(|extent| rows.iter().map(|row| RollupJson::new(row, extent)).collect()).unwrap_or_default();
    let step = step.as_str();
    let body = match format {
        Format::Json => {
            let (from, to) = (rfc3339(from), rfc3339(to));
            Json(HistoryJson { cluster: cluster.as_str(), step, from, to, limit, truncated, periods }).into_response()
        }
        Format::Csv => csv(&format!("{cluster}-{step}s.csv"), energy::CSV_HEADER, |body| {
            periods.iter().try_for_each(|period| period.write_csv(cluster, body))
        }),
    };
    Ok(maybe_truncated(truncated, body))
}

/// Says in a header whether there are older ones in the range than those told.
pub(super) fn maybe_truncated(truncated: bool, body: Response) -> Response {
    let truncated = HeaderValue::from_static(if truncated { "true" } else { "false" });
    let truncated = (HeaderName::from_static("dream-truncated"), truncated);
    ([truncated, (VARY, HeaderValue::from_static("accept"))], body).into_response()
}

/// Answers with a file of comma-separated values.
pub(super) fn csv(file: &str, header: &str, write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Response {
    let mut body = format!("{header}\n").into_bytes();
    write(&mut body).expect("a Vec takes everything");
    let kind = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    ([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, attachment(file))], body).into_response()
}

/// `GET /api/v1/clusters/{id}/membership`: the signed list as it was published.
pub(super) async fn membership(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    parameters.none()?;
    let list = view.list.as_ref().ok_or_else(|| ApiError::no_list(&id))?;
    Ok(cbor(&format!("{}-{}.cbor", view.cluster, list.epoch), &list.bytes))
}

/// A contradiction that members have proven, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct EvidenceJson {
    number: usize,
    gateway: String,
    shows: String,
}

impl From<&EvidenceView> for EvidenceJson {
    fn from(view: &EvidenceView) -> Self {
        let EvidenceView { number, gateway, contradiction, .. } = view;
        Self { number: *number, gateway: gateway.clone(), shows: contradiction.to_string() }
    }
}

/// `GET /api/v1/clusters/{id}/evidence`: what members have proven against gateways.
pub(super) async fn evidence(
    State(shared): State<Arc<Shared>>,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Json<Vec<EvidenceJson>>, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    parameters.none()?;
    Ok(Json(view.evidence.iter().map(EvidenceJson::from).collect()))
}

/// `GET /api/v1/clusters/{id}/evidence/{number}`: one of them, for `dream-gateway verify-evidence`.
pub(super) async fn evidence_bytes(
    State(shared): State<Arc<Shared>>,
    Id((id, number)): Id<(String, String)>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let view = shared.cluster(&id).ok_or_else(|| ApiError::unknown_cluster(&id))?;
    parameters.none()?;
    let found = view.evidence.iter().find(|evidence| evidence.number.to_string() == number);
    let evidence = found.ok_or_else(|| ApiError::no_evidence(&id, view.evidence.len()))?;
    Ok(cbor(&format!("{}-evidence-{number}.cbor", view.cluster), &evidence.bytes))
}

fn cbor(file: &str, bytes: &[u8]) -> Response {
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static("application/cbor")), (CONTENT_DISPOSITION, attachment(file))];
    (headers, bytes.to_vec()).into_response()
}

fn attachment(file: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("attachment; filename=\"{file}\"")).expect("ids are plain ASCII")
}
