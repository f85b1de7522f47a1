//! The frame that every page shares, and the page for what does not exist.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use dream_protocol::time::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::Shared;
use super::assets::VERSION;
use super::error::ApiError;
use super::subject::Subject;
use super::words;
use crate::clock::rfc3339;
use crate::history::HistoryError;

/// Returns a page around its content. The script replaces the parts of `main` that are marked as live.
pub(super) fn document(shared: &Shared, status: StatusCode, title: &str, version: u64, content: &Markup) -> Response {
    let now = shared.now();
    let gateway = shared.gateway();
    let asset = |name: &str| format!("/assets/{name}?v={}", *VERSION);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · DREAM gateway " (gateway) }
                link rel="icon" type="image/svg+xml" href=(asset("icon.svg"));
                link rel="stylesheet" href=(asset("page.css"));
                script src=(asset("page.js")) defer {}
                noscript { meta http-equiv="refresh" content="60"; }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" {
                        span.mark aria-hidden="true" {}
                        span { "DREAM gateway" } " " span.name { (gateway) }
                    }
                    nav.main aria-label="Pages" {
                        a href="/" { "Clusters" }
                        a href="/gateway" { "This gateway" }
                    }
                    p #news.news role="status" {
                        "Updated " time datetime=(rfc3339(now)) { (words::clock_seconds(now)) } " UTC"
                    }
                }
                p #lost.banner role="alert" hidden {
                    "Connection to the gateway lost. What you see may be out of date; retrying…"
                }
                main #main tabindex="-1" data-version=(version) { (notice(shared)) (content) }
                footer.foot {
                    p {
                        "All times are UTC. Every load contains noise that protects single homes: it is a value within a \
                         band, not an exact meter reading."
                    }
                    ul {
                        li { a href="/api/v1/clusters" { "API" } }
                        li { a href="/metrics" { "Metrics" } }
                        li { a href="/readyz" { "Readiness" } }
                    }
                }
            }
        }
    };
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}

/// Returns what every page begins with, if anything, and what the clock shows: where there is a notice, it may pass too fast for
/// seconds.
fn notice(shared: &Shared) -> Markup {
    let now = Timestamp::from_secs(shared.now().as_secs() / 60 * 60);
    html! {
        @if let Some(notice) = shared.notice() {
            p #notice.notice data-live {
                time datetime=(rfc3339(now)) { (words::day(now)) ", " (words::clock(now)) } " UTC. " (notice)
            }
        }
    }
}

/// Returns a page that says why there is no other.
pub(super) fn error(shared: &Shared, status: StatusCode, title: &str, text: &Markup) -> Response {
    let version = shared.version();
    let content = html! {
        div #trouble.trouble data-live {
            h1 { (title) }
            p { (text) }
            p { a href="/" { "All clusters" } }
        }
    };
    document(shared, status, title, version, &content)
}

/// Returns the page for a cluster or a group that is not served here.
pub(super) fn unknown<T: Subject>(shared: &Shared, id: &str) -> Response {
    let text = html! { "This gateway serves no " (T::KIND) " " code { (id) } "." };
    error(shared, StatusCode::NOT_FOUND, &format!("No such {}", T::KIND), &text)
}

/// Returns the page for a past that cannot be read.
pub(super) fn no_past(shared: &Shared, cause: &HistoryError) -> Response {
    let message = cause.with_cause();
    tracing::error!(error = message, "past slots cannot be read");
    error(shared, StatusCode::INTERNAL_SERVER_ERROR, "No past slots", &html! { (message) "." })
}

/// Returns the parameters of a page's address, or what is wrong with them: one that is not `known` would otherwise be
/// ignored in silence.
pub(super) fn parameters(uri: &Uri, known: &[&str]) -> Result<BTreeMap<String, String>, Markup> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|_| html! { code { (uri.query().unwrap_or_default()) } " is not understood." })?;
    match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        None => Ok(pairs.into_iter().collect()),
        Some((name, _)) if known.is_empty() => Err(html! { "The page takes no parameter " code { (name) } "." }),
        Some((name, _)) => Err(html! { "The page takes " (known.join(", ")) ", not " code { (name) } "." }),
    }
}

/// Shows a part of a page that is replaced when there is news, with something beside its heading.
pub(super) fn section(id: &str, heading: &str, beside: &Markup, content: &Markup) -> Markup {
    let named = format!("{id}-heading");
    html! {
        section id=(id) aria-labelledby=(named) data-live {
            @if beside.0.is_empty() { h2 id=(named) { (heading) } }
            @else { div.head { h2 id=(named) { (heading) } (beside) } }
            (content)
        }
    }
}

/// Lets what is too wide for a section scroll.
pub(super) fn scroll(section: &str, content: &Markup) -> Markup {
    html! {
        div.scroll id={ (section) "-scroll" } tabindex="0" role="region" aria-labelledby={ (section) "-heading" } { (content) }
    }
}

/// Shows links of which one is chosen, each with its id, its address and its label.
pub(super) fn choice(label: &str, links: &[(String, String, &str, bool)]) -> Markup {
    html! {
        nav aria-label=(label) {
            ul.choice {
                @for (id, href, label, chosen) in links {
                    li { a id=(id) href=(href) aria-current=[chosen.then_some("true")] { (label) } }
                }
            }
        }
    }
}

/// Shows one figure with its name and what it is.
pub(super) fn tile(name: &str, value: &Markup, note: &Markup) -> Markup {
    html! { div.tile { dt { (name) } dd { (value) span.note { (note) } } } }
}

/// Shows a table with columns of words and of numbers; without rows, that there are `none`.
pub(super) fn table(words: &[&str], numbers: &[&str], rows: impl Iterator<Item = Markup>, none: &str) -> Markup {
    let mut rows = rows.peekable();
    html! {
        table.stacks {
            thead {
                tr {
                    @for name in words { th scope="col" { (name) } }
                    @for name in numbers { th.number scope="col" { (name) } }
                }
            }
            tbody {
                @if rows.peek().is_none() { tr { td colspan=(words.len() + numbers.len()) { (none) } } }
                @for row in rows { (row) }
            }
        }
    }
}

/// Shows a number in its column, with further classes.
pub(super) fn number(column: &str, classes: &str, value: &Markup) -> Markup {
    html! { td class={ "number" (classes) } data-name=(column) { (value) } }
}

pub(super) async fn not_found(shared: Shared, uri: Uri) -> Response {
    if uri.path().starts_with("/api/") {
        return ApiError::unknown_path(uri.path()).into_response();
    }
    let text = html! { "There is nothing at " code { (uri.path()) } "." };
    error(&shared, StatusCode::NOT_FOUND, "Not found", &text)
}
