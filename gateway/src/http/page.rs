//! The frame that every page shares, and the page for what does not exist.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::assets::VERSION;
use super::error::ApiError;
use super::html::{Html, html};
use super::words;
use crate::slot_view::rfc3339;

/// A page around its content. The script replaces the parts of `main` that are marked as live.
pub(super) fn document(shared: &Shared, status: StatusCode, title: &str, version: u64, content: &Html) -> Response {
    let now = shared.now();
    let page = html(
        include_str!("assets/page.html"),
        &[
            &title,
            &shared.service.gateway,
            &VERSION.as_str(),
            &VERSION.as_str(),
            &VERSION.as_str(),
            &shared.service.gateway,
            &rfc3339(now),
            &words::clock_seconds(now),
            &version,
            content,
        ],
    );
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}

/// A page that says why there is no other.
pub(super) fn trouble(shared: &Shared, status: StatusCode, title: &str, text: &Html) -> Response {
    let version = *shared.service.board.watch().borrow();
    let content = html(
        "<div id=\"trouble\" class=\"trouble\" data-live><h1>{}</h1><p>{}</p><p><a href=\"/\">All clusters</a></p></div>",
        &[&title, text],
    );
    document(shared, status, title, version, &content)
}

pub(super) async fn not_found(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    if uri.path().starts_with("/api/") {
        return ApiError::unknown_path(uri.path()).into_response();
    }
    let text = html("There is nothing at <code>{}</code>.", &[&uri.path()]);
    trouble(&shared, StatusCode::NOT_FOUND, "Not found", &text)
}
