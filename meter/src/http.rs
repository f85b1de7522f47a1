//! A small page on the loopback, the same as text for `dream-meter status`, what `explain` says, and metrics. Nothing here changes anything.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, html};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::explain;
use crate::standing::{SourceState, Stage, Standing};
use crate::words;

/// How many clients may be connected at a time, so that there are files left for the broker and the source.
const CONNECTIONS: usize = 64;

/// Answers until the process ends, by the names of this machine's loopback and these.
pub async fn serve(
    listener: TcpListener,
    names: Vec<String>,
    standing: watch::Receiver<Standing>,
) -> std::io::Result<()> {
    dream_edge::serve::serve(listener, router(names, standing), CONNECTIONS, None, std::future::pending()).await
}

fn router(names: Vec<String>, standing: watch::Receiver<Standing>) -> Router {
    let names: Arc<[String]> = names.into();
    Router::new()
        .route("/", get(page))
        .route("/status", get(text))
        .route("/explain", get(explanation))
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .with_state(standing)
        .layer(from_fn(move |request, next| only_by_name(names.clone(), request, next)))
}

/// Refuses a request for any other host: the page of a stranger, whose name was made to point to this machine, would read this
/// one's as its own (DNS rebinding).
async fn only_by_name(names: Arc<[String]>, request: Request, next: Next) -> Response {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(Authority::as_str).or(header);
    if host.is_some_and(|host| is_ours(host, &names)) {
        return next.run(request).await;
    }
    let words = "This page answers only to the names localhost, 127.0.0.1 and [::1]; add others with `http.names` in meter.toml.\n";
    (StatusCode::MISDIRECTED_REQUEST, words).into_response()
}

/// Whether a host, with or without a port, is the loopback or has one of these names.
fn is_ours(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match literal {
        Ok(address) => address.is_loopback(),
        Err(_) => ["localhost"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .any(|known| known.eq_ignore_ascii_case(name.trim_end_matches('.'))),
    }
}

async fn page(State(standing): State<watch::Receiver<Standing>>) -> impl IntoResponse {
    let standing = standing.borrow().clone();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                meta http-equiv="refresh" content="30";
                title { "Meter " (standing.meter) }
                style { (STYLE) }
            }
            body {
                h1 { "Meter " (standing.meter) }
                dl { @for (heading, words) in words::lines(&standing) { dt { (heading) } dd { (words) } } }
                p { "No page shows your readings: they leave this machine only blurred and masked." }
            }
        }
    };
    ([(CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'")], Html(page.into_string()))
}

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}\
                     dt{font-weight:600;margin-top:.8rem}dd{margin:0}";

async fn text(State(standing): State<watch::Receiver<Standing>>) -> String {
    words::text(&standing.borrow())
}

async fn explanation(State(standing): State<watch::Receiver<Standing>>) -> String {
    explain::text(&standing.borrow())
}

async fn metrics(State(standing): State<watch::Receiver<Standing>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], exposition(&standing.borrow()))
}

/// Writes the metrics in Prometheus' text format.
fn exposition(standing: &Standing) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: &str| {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .expect("a String takes everything");
    };
    let flag = |is: bool| if is { "1" } else { "0" };
    let gauge = "gauge";
    one(
        "dream_meter_taking_part",
        gauge,
        "Whether readings of this home are in the sums.",
        flag(standing.takes_part()),
    );
    let connected = flag(standing.stage == Stage::Connected);
    one("dream_meter_connected", gauge, "Whether the community's broker is connected.", connected);
    one("dream_meter_listed", gauge, "Whether a list names this meter.", flag(standing.list.is_some()));
    let fine = !matches!(standing.source, SourceState::NoReading(_));
    one("dream_meter_source_up", gauge, "Whether the last slot had a reading.", flag(fine));
    let sent = standing.sent_today.to_string();
    one("dream_meter_readings_sent_today", gauge, "Slots of this UTC day that a reading was sent for.", &sent);
    let spent = words::micro(standing.spent_micro);
    one("dream_meter_epsilon_spent", gauge, "Epsilon spent in the last 24 hours.", &spent);
    if standing.budget_micro != u64::MAX {
        let budget = words::micro(standing.budget_micro);
        one("dream_meter_epsilon_budget", gauge, "Epsilon allowed in any 24 hours.", &budget);
    }
    let ends = standing.certificate_to.to_string();
    one("dream_meter_certificate_end_seconds", gauge, "When the certificate ends, in Unix seconds.", &ends);
    let totals = standing.totals;
    for (name, help, value) in [
        ("dream_meter_readings_total", "Slots that a reading was sent for.", totals.readings),
        (
            "dream_meter_slots_without_reading_total",
            "Slots that the source gave no reading for.",
            totals.slots_without_reading,
        ),
        ("dream_meter_refusals_total", "Refusals that the meter reported to the gateway.", totals.refusals),
        ("dream_meter_connections_lost_total", "Lost connections to the community's broker.", totals.connections_lost),
    ] {
        one(name, "counter", help, &value.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;
    use crate::words::tests::ordinary;

    async fn status(host: Option<&str>) -> StatusCode {
        let (_, standing) = watch::channel(ordinary());
        let mut request = Request::get("/status");
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let request = request.body(Body::empty()).unwrap();
        router(vec!["pi.example".to_owned()], standing).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_page_answers_by_its_own_names_alone() {
        for host in
            ["localhost", "LOCALHOST:9465", "127.0.0.1:9465", "127.0.0.2", "[::1]:9465", "pi.example", "pi.example.:80"]
        {
            assert_eq!(status(Some(host)).await, StatusCode::OK, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9465",
            "localhost.evil.example",
            "192.0.2.1:9465",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert_eq!(status(Some(host)).await, StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
        assert_eq!(status(None).await, StatusCode::MISDIRECTED_REQUEST);
    }

    #[test]
    fn the_metrics_of_an_ordinary_day() {
        insta::assert_snapshot!(exposition(&ordinary()));
    }
}
