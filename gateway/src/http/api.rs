//! The API, version 1: clusters and groups as they stand, their past slots, hours and days, and the signed membership lists of
//! clusters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::cluster_json::EvidenceJson;
use super::error::ApiError;
use super::query::{Format, HistoryQuery, Id, Parameters, SlotsQuery};
use super::shared::Common;
use super::subject::Subject;
use super::{Shared, blocking};
use crate::board::ClusterView;
use crate::board::csv::NamedRow;
use crate::board::group::GroupView;
use crate::board::holders::HolderJson;
use crate::board::offenders::OffenderJson;
use crate::board::running::RunningJson;
use crate::clock::rfc3339;
use crate::history::{HistoryError, Step};

/// How long a request with `after` waits for news.
const LONG_POLL: Duration = Duration::from_secs(25);

/// The cluster or group that a path names.
#[derive(Debug)]
pub(super) struct Found<T>(T);

impl<T: Subject> FromRequestParts<Arc<Common>> for Found<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, common: &Arc<Common>) -> Result<Self, ApiError> {
        // What follows the id is left to the handler.
        let Id(path) = Id::<Vec<(String, String)>>::from_request_parts(parts, common).await?;
        let Ok(shared) = Shared::from_request_parts(parts, common).await;
        let id = path.into_iter().next().map(|(_, id)| id).unwrap_or_default();
        T::find(&shared, &id).map(Self).ok_or_else(|| ApiError::unknown::<T>(&id))
    }
}

/// `GET /api/v1/clusters`: all clusters; with `after`, once the board's version is another than that, or after a while.
pub(super) async fn clusters(shared: Shared, parameters: Parameters) -> Result<Response, ApiError> {
    if let Some(after) = parameters.after()? {
        news(&shared, after).await;
    }
    Ok(all::<Arc<ClusterView>>(&shared))
}

/// Waits for a version other than `after`, for a while. Not for a greater one: versions start over with the gateway.
async fn news(shared: &Shared, after: u64) {
    let mut versions = shared.versions();
    let mut closing = shared.closing();
    tokio::select! {
        _ = versions.wait_for(|&version| version != after) => {}
        _ = closing.wait_for(|&closing| closing) => {}
        () = tokio::time::sleep(LONG_POLL) => {}
    }
}

/// `GET /api/v1/groups`: all groups of the configuration.
pub(super) async fn groups(shared: Shared, parameters: Parameters) -> Result<Response, ApiError> {
    parameters.none()?;
    Ok(all::<GroupView>(&shared))
}

#[derive(Serialize)]
struct AllJson<'a, T> {
    gateway: &'a str,
    /// Grows with every change: wait for the next one with `?after=`.
    version: u64,
    now: String,
    /// Under `clusters` or `groups`.
    #[serde(flatten)]
    all: BTreeMap<String, Vec<T>>,
}

fn all<T: Subject>(shared: &Shared) -> Response {
    let (version, subjects) = T::all(shared);
    let now = shared.now();
    let all = subjects.iter().map(|subject| subject.json(now)).collect();
    let all = BTreeMap::from([(format!("{}s", T::KIND), all)]);
    Json(AllJson { gateway: shared.gateway(), version, now: rfc3339(now), all }).into_response()
}

/// `GET /api/v1/clusters/{id}`, and the same of groups.
pub(super) async fn one<T: Subject>(
    shared: Shared,
    Found(subject): Found<T>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.none()?;
    Ok(Json(subject.json(shared.now())).into_response())
}

/// `GET /api/v1/clusters/{id}/slots`, and the same of groups: the slots that ended in `from..to`, oldest first.
pub(super) async fn slots<T: Subject>(
    shared: Shared,
    Found(subject): Found<T>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = parameters.slots(shared.now())?;
    blocking(move || {
        rows(&subject, None, &asked, |limit| {
            let slots = subject.slots(shared.history(), asked.from..asked.to, limit)?;
            Ok(slots.iter().map(T::SlotJson::from).collect())
        })
    })
    .await
}

/// `GET /api/v1/clusters/{id}/history`, and the same of groups: the hours or days that began in `from..to`, oldest first.
pub(super) async fn history<T: Subject>(
    shared: Shared,
    Found(subject): Found<T>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let HistoryQuery { step, rows: asked } = parameters.history(shared.now())?;
    blocking(move || {
        let read = |limit| subject.periods(shared.history(), step, asked.from..asked.to, limit);
        rows(&subject, Some(step), &asked, read)
    })
    .await
}

#[derive(Serialize)]
struct RowsJson<'a, R> {
    /// The `cluster` or `group` that they are of.
    #[serde(flatten)]
    of: BTreeMap<&'static str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'static str>,
    from: String,
    to: String,
    /// Less than was asked for, of a group that has very many clusters.
    limit: usize,
    /// Whether the range has older ones than those shown.
    truncated: bool,
    /// Under `slots` or `periods`.
    #[serde(flatten)]
    rows: BTreeMap<&'static str, Vec<R>>,
}

/// Answers with the newest rows of those that were asked for.
fn rows<T: Subject, R: Serialize + Default>(
    subject: &T,
    step: Option<Step>,
    asked: &SlotsQuery,
    read: impl FnOnce(usize) -> Result<Vec<R>, HistoryError>,
) -> Result<Response, ApiError> {
    let limit = asked.limit.min(subject.most_rows());
    // One more than asked for tells whether there is more.
    let mut rows = read(limit + 1)?;
    let truncated = rows.len() > limit;
    rows.drain(..rows.len().saturating_sub(limit));
    let (id, step) = (subject.id(), step.map(Step::as_str));
    let body = match asked.format {
        Format::Json => Json(RowsJson {
            of: BTreeMap::from([(T::KIND, id)]),
            step,
            from: rfc3339(asked.from),
            to: rfc3339(asked.to),
            limit,
            truncated,
            rows: BTreeMap::from([(if step.is_some() { "periods" } else { "slots" }, rows)]),
        })
        .into_response(),
        Format::Csv => {
            let mut body = Vec::new();
            let header = NamedRow::new(T::KIND, id, &R::default()).write_header(&mut body);
            let mut written = rows.iter().map(|row| NamedRow::new(T::KIND, id, row).write_line(&mut body));
            header.and_then(|()| written.try_for_each(|line| line)).expect("a Vec takes everything");
            file(&format!("{id}-{}s.csv", step.unwrap_or("slot")), "text/csv; charset=utf-8; header=present", body)
        }
    };
    let truncated = HeaderValue::from_static(if truncated { "true" } else { "false" });
    let truncated = (HeaderName::from_static("dream-truncated"), truncated);
    Ok(([truncated, (VARY, HeaderValue::from_static("accept"))], body).into_response())
}

/// `GET /api/v1/clusters/{id}/membership`: the signed list as it was published.
pub(super) async fn membership(
    Found(view): Found<Arc<ClusterView>>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.none()?;
    let list = view.list.as_ref().ok_or_else(|| ApiError::no_list(view.id()))?;
    Ok(file(&format!("{}-{}.cbor", view.cluster, list.epoch), "application/cbor", list.bytes.to_vec()))
}

/// `GET /api/v1/clusters/{id}/evidence`: what members have proven against gateways.
pub(super) async fn evidence(
    Found(view): Found<Arc<ClusterView>>,
    parameters: Parameters,
) -> Result<Json<Vec<EvidenceJson>>, ApiError> {
    parameters.none()?;
    Ok(Json(view.evidence.iter().map(EvidenceJson::from).collect()))
}

/// `GET /api/v1/clusters/{id}/evidence/{number}`: one of them, for `dream-gateway verify-evidence`.
pub(super) async fn evidence_bytes(
    Found(view): Found<Arc<ClusterView>>,
    Id((_, number)): Id<(String, String)>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.none()?;
    let found = view.evidence.iter().find(|evidence| evidence.number.to_string() == number);
    let evidence = found.ok_or_else(|| ApiError::no_evidence(view.id(), view.evidence.len()))?;
    let name = format!("{}-evidence-{number}.cbor", view.cluster);
    Ok(file(&name, "application/cbor", evidence.bytes.to_vec()))
}

/// `GET /api/v1/offenders`: which members spoil slots.
pub(super) async fn offenders(shared: Shared, parameters: Parameters) -> Result<Json<Vec<OffenderJson>>, ApiError> {
    parameters.none()?;
    Ok(Json(shared.offenders()))
}

/// `GET /api/v1/holders`: which holders of committees drop out.
pub(super) async fn holders(shared: Shared, parameters: Parameters) -> Result<Json<Vec<HolderJson>>, ApiError> {
    parameters.none()?;
    Ok(Json(shared.holders()))
}

/// `GET /api/v1/configuration`: what the gateway has of its configuration, and how the last reload went.
pub(super) async fn configuration(shared: Shared, parameters: Parameters) -> Result<Json<RunningJson>, ApiError> {
    parameters.none()?;
    shared.running().map(Json).ok_or_else(|| {
        let message = "this is about all clusters and needs the role `operator` without a limit to some".to_owned();
        ApiError::new(StatusCode::FORBIDDEN, message)
    })
}

/// Answers with a file to keep.
fn file(name: &str, kind: &'static str, bytes: Vec<u8>) -> Response {
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")).expect("ids are plain ASCII");
    ([(CONTENT_TYPE, HeaderValue::from_static(kind)), (CONTENT_DISPOSITION, name)], bytes).into_response()
}
