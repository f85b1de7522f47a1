//! The page of the gateway itself: whether it is ready, its broker, its store, its certificate, what runs.

use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::{Shared, page, words};
use crate::board::gateway_view::{BrokerView, CERTIFICATE_ENDS_SOON_SECONDS, GatewayView};
use crate::board::readiness::Latch;
use crate::clock::rfc3339;

/// `GET /gateway`.
pub(super) async fn gateway(shared: Shared) -> Response {
    let version = shared.version();
    let now = shared.now();
    let awaited = shared.readiness().awaited();
    let view = shared.gateway_view();
    let ready = if awaited.is_empty() { ("decoded", "Ready") } else { ("stalled", "Not ready") };
    let content = html! {
        section #gateway aria-labelledby="gateway-name" data-live {
            div.head { h1 #gateway-name { (shared.gateway()) } (badge(ready)) }
            @if let Some(trouble) = trouble_of_the_gateway(&shared, now) { p.why { (trouble) "." } }
            dl.health {
                (part("Broker", broker(&view.broker, now)))
                (part("Store", store(&shared, &view)))
                (part("Certificate", certificate(view.certificate_ends, now)))
                (part("Clusters", clusters(&shared)))
                (part("Version", (html! {}, html! {
                    (env!("CARGO_PKG_VERSION"))
                    @if let Some(since) = view.since { ", running since " (words::time(since, now)) }
                })))
            }
            p.note {
                "The same for machines: " a href="/readyz" { "/readyz" } " says whether the gateway is ready, "
                a href="/metrics" { "/metrics" } " has every number over time."
            }
        }
    };
    page::document(&shared, StatusCode::OK, "This gateway", version, &content)
}

/// Says in a sentence why the gateway is not well; `None` if it is.
pub(super) fn trouble_of_the_gateway(shared: &Shared, now: Timestamp) -> Option<String> {
    let view = shared.gateway_view();
    let readiness = shared.readiness();
    if !readiness.is_set(Latch::StoreReplayed) {
        return Some("The clusters are being rebuilt from the store".to_owned());
    }
    if let Some(error) = view.commit_error {
        return Some(format!("The store cannot be written: {error}"));
    }
    if let BrokerView::Lost { since, reason } = &view.broker {
        return Some(format!("No connection to the broker since {}: {reason}", words::instant(*since, now)));
    }
    if !readiness.is_set(Latch::BrokerSubscribed) {
        return Some("The broker has not confirmed the subscriptions yet".to_owned());
    }
    if let Some(trouble) = view.clock_trouble {
        return Some(trouble);
    }
    let ends = view.certificate_ends.filter(|&ends| ends_soon(ends, now))?;
    Some(format!("The gateway\u{2019}s certificate expires on {}", words::date(Timestamp::from_secs(ends))))
}

fn badge((class, label): (&str, &str)) -> Markup {
    html! { span class={ "badge " (class) } { (label) } }
}

fn part(name: &str, (state, text): (Markup, Markup)) -> Markup {
    html! { div { dt { (name) } dd { (state) " " (text) } } }
}

fn broker(broker: &BrokerView, now: Timestamp) -> (Markup, Markup) {
    match broker {
        BrokerView::Connecting => (badge(("waiting", "Connecting")), html! { "Not reached yet." }),
        BrokerView::Connected { since } => (
            badge(("waiting", "Connected")),
            html! { "Since " (words::time(*since, now)) "; subscriptions are not confirmed yet." },
        ),
        BrokerView::Subscribed { since } => (
            badge(("decoded", "Connected")),
            html! { "Since " (words::time(*since, now)) "; all subscriptions are confirmed." },
        ),
        BrokerView::Lost { since, reason } => {
            (badge(("stalled", "No connection")), html! { "Since " (words::time(*since, now)) ": " (reason) "." })
        }
    }
}

fn store(shared: &Shared, view: &GatewayView) -> (Markup, Markup) {
    let readiness = shared.readiness();
    let state = match (&view.commit_error, readiness.is_set(Latch::StoreReplayed)) {
        (Some(_), _) => ("stalled", "Cannot be written"),
        (None, false) => ("waiting", "Being read"),
        (None, true) => ("decoded", "Writable"),
    };
    let text = html! {
        (words::bytes(shared.history().file_bytes())) "; closed slots are kept for " (days(view.retention_days))
        ", hours for " (days(view.hours_retention_days)) ", and days forever."
        @if let Some(error) = &view.commit_error { " " (error) "." }
    };
    (badge(state), text)
}

fn days(days: u64) -> String {
    if days == 1 { "1 day".to_owned() } else { format!("{} days", words::count(days)) }
}

fn ends_soon(ends: u64, now: Timestamp) -> bool {
    ends < now.as_secs() + CERTIFICATE_ENDS_SOON_SECONDS
}

fn certificate(ends: Option<u64>, now: Timestamp) -> (Markup, Markup) {
    let Some(ends) = ends else { return (badge(("waiting", "Not loaded")), Markup::default()) };
    let state = match ends.saturating_sub(now.as_secs()) {
        0 => ("stalled", "Over"),
        _ if ends_soon(ends, now) => ("failed", "Ends soon"),
        _ => ("decoded", "Valid"),
    };
    let end = Timestamp::from_secs(ends);
    let days = ends.saturating_sub(now.as_secs()) / 86_400;
    let text = html! {
        "Until " time datetime=(rfc3339(end)) { (words::date(end)) } ", for " (words::count(days)) " more days. To renew it, replace the \
         files and send SIGHUP."
    };
    (badge(state), text)
}

fn clusters(shared: &Shared) -> (Markup, Markup) {
    let (_, views) = shared.clusters();
    let members: u64 =
        views.iter().filter_map(|view| view.list.as_ref()).map(|list| u64::from(list.params.members())).sum();
    let text = html! {
        a href="/" { (words::count(views.len())) " served here" } ", with " (words::count(members)) " members in their lists."
    };
    (Markup::default(), text)
}
