//! The page of one cluster: its load over a chosen range, its recent slots, what it costs in privacy, its downloads.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::aggregate::Failure;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Caption, chart};
use super::overview::{described, filtered, within};
use super::privacy::privacy;
use super::query::{Id, MAX_LIMIT};
use super::series::Series;
use super::status::Status;
use super::{Shared, blocking, page, words};
use crate::clock::rfc3339;
use crate::serve::board::ClusterView;
use crate::store::ClosedSlot;

/// About as many points as a chart can show.
const CHART_POINTS: u64 = 300;

/// How many slots the table lists.
const RECENT: usize = 24;

/// How far back a chart looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    SixHours,
    Day,
    Week,
}

impl Range {
    const ALL: [Self; 3] = [Self::SixHours, Self::Day, Self::Week];

    /// As it stands in the address.
    const fn name(self) -> &'static str {
        match self {
            Self::SixHours => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::SixHours => "6 hours",
            Self::Day => "24 hours",
            Self::Week => "7 days",
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Self::SixHours => 6 * 3600,
            Self::Day => 24 * 3600,
            Self::Week => 7 * 24 * 3600,
        }
    }

    fn of(query: Option<&str>) -> Option<Self> {
        let Some(query) = query.filter(|query| !query.is_empty()) else { return Some(Self::Day) };
        Self::ALL.into_iter().find(|range| query.strip_prefix("range=") == Some(range.name()))
    }
}

/// `GET /clusters/{id}`.
pub(super) async fn cluster(State(shared): State<Arc<Shared>>, Id(id): Id, RawQuery(query): RawQuery) -> Response {
    // Before the view: a page may be newer than its version says, but not older.
    let version = *shared.service.board.watch().borrow();
    let Some(view) = shared.cluster(&id) else {
        let text = html! { "This gateway serves no cluster " code { (id) } "." };
        return page::error(&shared, StatusCode::NOT_FOUND, "No such cluster", &text);
    };
    let Some(range) = Range::of(query.as_deref()) else {
        let text = html! {
            "The page takes " code { "range=6h" } ", " code { "range=24h" } " or " code { "range=7d" } ", not "
            code { (query.unwrap_or_default()) } "."
        };
        return page::error(&shared, StatusCode::BAD_REQUEST, "No such range", &text);
    };
    blocking(move || render(&shared, &view, range, version)).await
}

fn render(shared: &Shared, view: &ClusterView, range: Range, version: u64) -> Response {
    let now = shared.now();
    let from = Timestamp::from_secs(now.as_secs().saturating_sub(range.seconds()));
    let slots = match shared.service.history.slots(&view.cluster, from, now, MAX_LIMIT) {
        Ok(slots) => slots,
        Err(error) => {
            let message = error.with_cause();
            tracing::error!(error = message, "past slots cannot be read");
            let text = html! { (message) "." };
            return page::error(shared, StatusCode::INTERNAL_SERVER_ERROR, "No past slots", &text);
        }
    };
    let status = Status::of(view, now);
    let id = view.cluster.as_str();
    let content = html! {
        nav.crumbs aria-label="Breadcrumb" { a #up href="/" { "All clusters" } }
        section #state aria-labelledby="cluster-name" data-live {
            div.head { h1 #cluster-name { (id) } (status.badge()) }
            p.sentence { (status.sentence) " " (status.meaning) }
            dl.tiles { (figures(view, now)) }
            p.explain {
                "Loads contain noise: with 95 % confidence the true sum is within the ± band. The estimate assumes that silent \
                 meters used as much as those that answered. The filtered load takes the sums before into account: it has less \
                 noise, its band is that of a model, and it follows a change late: after one that lasts, its band is too \
                 narrow for hours."
            }
        }
        section #load aria-labelledby="load-heading" data-live {
            div.head {
                h2 #load-heading { "Load" }
                nav aria-label="Range of the chart" { ul.choice { (choice(view, range)) } }
            }
            (load_chart(view, &slots, range, from, now))
        }
        section #outcomes aria-labelledby="outcomes-heading" data-live {
            h2 #outcomes-heading { "Outcomes in the last " (range.words()) }
            div #outcomes-scroll.scroll tabindex="0" role="region" aria-labelledby="outcomes-heading" {
                (outcomes(&slots))
            }
        }
        section #recent aria-labelledby="recent-heading" data-live {
            h2 #recent-heading { "Recent slots" }
            div #recent-scroll.scroll tabindex="0" role="region" aria-labelledby="recent-heading" {
                (recent(&slots, now))
            }
        }
        div.pair {
            section #privacy aria-labelledby="privacy-heading" data-live {
                h2 #privacy-heading { "Privacy" }
                (privacy(view, now))
            }
            section #downloads aria-labelledby="downloads-heading" data-live {
                h2 #downloads-heading { "Downloads" }
                ul.links { (downloads(view, range, from, now)) }
            }
        }
    };
    page::document(shared, StatusCode::OK, id, version, &content)
}

fn figures(view: &ClusterView, now: Timestamp) -> Markup {
    let tile = |name: &str, value: &Markup, note: &Markup| {
        html! { div.tile { dt { (name) } dd { (value) span.note { (note) } } } }
    };
    let decoded = view.last_decoded.and_then(|closed| Some((closed, closed.sum()?)));
    let due = view.next_deadline.map_or_else(|| html! { "–" }, |due| words::time(due, now));
    html! {
        @if let Some((closed, sum)) = decoded {
            @let outcome = closed.outcome;
            (tile("Plain sum", &within(Some(sum)), &html! {
                "of " (words::count(outcome.responders)) " that answered, slot to " (words::time(outcome.end, now))
            }))
            (tile("Estimate for all", &within(closed.estimate()), &html! {
                "scaled up to " (words::count(outcome.members)) " members"
            }))
            (tile("Filtered", &filtered(&closed), &html! { "for all members, from the sums so far" }))
        }
        @if let Some(ClosedSlot { outcome, .. }) = view.last {
            (tile("Answered", &html! {
                (words::count(outcome.responders)) " " span.within { "of " (words::count(outcome.members)) }
            }, &html! { (words::count(outcome.missing())) " missing in the last slot" }))
        } @else {
            (tile("Enrolled", &html! { (words::count(view.candidates)) }, &html! {
                "at least " (words::count(view.min_members)) " needed"
            }))
        }
        (tile("Next deadline", &due, &html! { "a slot every " (words::duration(view.slot_seconds)) }))
    }
}

/// Returns links to the ranges.
fn choice(view: &ClusterView, chosen: Range) -> Markup {
    html! {
        @for range in Range::ALL {
            @let href = format!("/clusters/{}?range={}", view.cluster, range.name());
            li {
                a id={ "range-" (range.name()) } href=(href) aria-current=[(range == chosen).then_some("true")] {
                    (range.words())
                }
            }
        }
    }
}

fn load_chart(view: &ClusterView, slots: &[ClosedSlot], range: Range, from: Timestamp, now: Timestamp) -> Markup {
    let series = Series::new(slots, from, now, CHART_POINTS);
    let title = format!("Load of {} in the last {}", view.cluster, range.words());
    let last = series.points().last().and_then(|point| point.filtered);
    let filtered = last.map(|load| format!(" Filtered, the last is {}.", words::watts(load))).unwrap_or_default();
    let description = described(&series) + &filtered;
    html! {
        figure {
            (chart(&series, &Caption { id: "load-chart", title, description }))
            figcaption {
                ul.legend {
                    li.key-load { "Sum of the meters that answered" }
                    li.key-band { "95 % band of that sum" }
                    li.key-estimate { "Estimate for all members" }
                    li.key-filtered { "Filtered, for all members" }
                    li.key-failure { "Slot without a sum" }
                }
                p.note {
                    @match series.slots_per_point {
                        1 => "Each point is one slot.",
                        many => { "Each point is the mean of up to " (words::count(many)) " slots." }
                    }
                }
            }
        }
    }
}

/// Returns a table of how the slots of the range ended.
fn outcomes(slots: &[ClosedSlot]) -> Markup {
    let row = |class: &str, label: &str, meaning: &str, found: usize| {
        let share = if slots.is_empty() { 0.0 } else { 100.0 * found as f64 / slots.len() as f64 };
        html! {
            tr class={ (class) @if found == 0 { " none" } } {
                th scope="row" { (label) " " span.note { (meaning) } }
                td.number { (words::count(found)) }
                td.number { (format!("{share:.1}")) " %" }
            }
        }
    };
    let decoded = slots.iter().filter(|slot| slot.is_decoded()).count();
    html! {
        table.outcomes {
            thead {
                tr {
                    th scope="col" { "Outcome" }
                    @for name in ["Slots", "Share"] { th.number scope="col" { (name) } }
                }
            }
            tbody {
                (row("decoded", "Decoded", "The slot gave a sum.", decoded))
                @for failure in Failure::ALL {
                    @let (label, meaning) = words::failure(failure);
                    @let found = slots.iter().filter(|slot| slot.outcome.result == Err(failure)).count();
                    (row("failed", label, meaning, found))
                }
            }
        }
    }
}

/// Returns a table of the newest slots, the newest first.
fn recent(slots: &[ClosedSlot], now: Timestamp) -> Markup {
    const NUMBERS: [&str; 6] = ["Plain sum", "Estimate for all", "Filtered", "Answered", "Missing", "Attempts"];
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Slot (UTC)" }
                    th scope="col" { "Outcome" }
                    @for name in NUMBERS { th.number scope="col" { (name) } }
                }
            }
            tbody {
                @if slots.is_empty() {
                    tr { td colspan=(NUMBERS.len() + 2) { "No slot has closed in this range." } }
                }
                @for closed in slots.iter().rev().take(RECENT) { (recent_row(closed, now)) }
            }
        }
    }
}

fn recent_row(closed: &ClosedSlot, now: Timestamp) -> Markup {
    let outcome = closed.outcome;
    let (class, label) =
        outcome.result.map_or_else(|cause| ("failed", words::failure(cause).0), |_| ("decoded", "Decoded"));
    html! {
        tr {
            th scope="row" { (words::time(outcome.start, now)) "–" (words::time(outcome.end, now)) }
            td { span class={ "badge " (class) } { (label) } }
            td.number { (within(closed.sum())) }
            td.number { (within(closed.estimate())) }
            td.number { (filtered(closed)) }
            td.number { (words::count(outcome.responders)) " of " (words::count(outcome.members)) }
            td.number { (words::count(outcome.missing())) }
            td.number { (outcome.attempts) }
        }
    }
}

fn downloads(view: &ClusterView, range: Range, from: Timestamp, now: Timestamp) -> Markup {
    let api = format!("/api/v1/clusters/{}", view.cluster);
    // The end stays open: whoever follows the link later gets what has closed by then.
    let slots = format!("from={}&limit={MAX_LIMIT}", rfc3339(from));
    html! {
        @if let Some(list) = &view.list {
            @let params = &list.params;
            li {
                a #get-list href={ (api) "/membership" } download { "Signed membership list " (list.epoch) } " "
                span.note {
                    (words::count(params.members())) " members, slots from "
                    (words::time(params.slot_start(list.from_slot), now)) " to "
                    (words::time(params.slot_end(list.to_slot), now)) "; CBOR, names its meters"
                }
            }
        }
        li {
            a #get-csv href={ (api) "/slots?format=csv&" (slots) } download {
                "Slots of the last " (range.words()) " as CSV"
            }
        }
        li { a #get-json href={ (api) "/slots?" (slots) } { "The same as JSON" } }
        li { a #get-cluster href=(api) { "This cluster as JSON" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_of_three_and_a_day_if_none_is_asked_for() {
        assert_eq!(Range::of(None), Some(Range::Day));
        assert_eq!(Range::of(Some("")), Some(Range::Day));
        assert_eq!(Range::ALL.map(|range| Range::of(Some(&format!("range={}", range.name())))), Range::ALL.map(Some));
        assert_eq!(Range::of(Some("range=1y")), None);
        assert_eq!(Range::of(Some("rage=6h")), None);
    }
}
