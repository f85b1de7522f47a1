//! What the API answers when it cannot answer: a JSON object that says what was wrong and what is allowed.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::subject::Subject;
use crate::history::HistoryError;

/// An error with its status.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    body: ErrorJson,
}

#[derive(Debug, Default, Serialize)]
struct ErrorJson {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
}

#[derive(Serialize)]
struct Envelope {
    error: ErrorJson,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: String) -> Self {
        Self { status, body: ErrorJson { message, ..ErrorJson::default() } }
    }

    pub(super) fn parameter(name: &str, value: &str, allowed: &str) -> Self {
        let message = format!("`{name}` cannot be `{value}`; allowed: {allowed}");
        let body = ErrorJson {
            message,
            parameter: Some(name.into()),
            value: Some(value.into()),
            allowed: Some(allowed.into()),
        };
        Self { status: StatusCode::BAD_REQUEST, body }
    }

    pub(super) fn unknown_parameter(name: &str, known: &[&str]) -> Self {
        let allowed = if known.is_empty() { "none".into() } else { known.join(", ") };
        let message = format!("there is no parameter `{name}` here; allowed: {allowed}");
        let body = ErrorJson { message, parameter: Some(name.into()), value: None, allowed: Some(allowed) };
        Self { status: StatusCode::BAD_REQUEST, body }
    }

    pub(super) fn unknown<T: Subject>(id: &str) -> Self {
        let kind = T::KIND;
        Self::new(StatusCode::NOT_FOUND, format!("this gateway serves no {kind} `{id}`; see /api/v1/{kind}s"))
    }

    pub(super) fn no_list(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("cluster `{id}` has no membership list yet"))
    }

    pub(super) fn no_evidence(id: &str, kept: usize) -> Self {
        let kept = match kept {
            0 => "none is kept".to_owned(),
            kept => format!("numbers 1 to {kept} are kept"),
        };
        Self::new(StatusCode::NOT_FOUND, format!("cluster `{id}` has no evidence with that number: {kept}"))
    }

    pub(super) fn unknown_path(path: &str) -> Self {
        let mut error = Self::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}"));
        error.body.allowed = path.starts_with("/api/").then(|| {
            "/api/v1/clusters, /api/v1/clusters/{id}, /api/v1/clusters/{id}/slots, /api/v1/clusters/{id}/history, \
             /api/v1/clusters/{id}/membership, /api/v1/clusters/{id}/evidence, /api/v1/groups, \
             /api/v1/groups/{id}, /api/v1/groups/{id}/slots, /api/v1/groups/{id}/history"
                .into()
        });
        error
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        let message = error.with_cause();
        tracing::error!(error = message, "past slots cannot be read");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(Envelope { error: self.body })).into_response()
    }
}

pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let mut error = ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{method} is not allowed at {}; everything here is read only", uri.path()),
    );
    error.body.allowed = Some("GET, HEAD".into());
    error.into_response()
}
