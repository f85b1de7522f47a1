//! The page of one cluster: its load over a chosen range, its recent slots, what it costs in privacy, its downloads.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::aggregate::Failure;
use dream_protocol::time::Timestamp;

use super::chart::{Caption, chart};
use super::html::{Html, html};
use super::overview::{described, estimate, filtered, within};
use super::privacy::privacy;
use super::query::{Id, MAX_LIMIT};
use super::series::Series;
use super::status::Status;
use super::{Shared, blocking, page, words};
use crate::board::{ClosedSlot, ClusterView};
use crate::slot_view::rfc3339;

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
        let text = html("This gateway serves no cluster <code>{}</code>.", &[&id]);
        return page::trouble(&shared, StatusCode::NOT_FOUND, "No such cluster", &text);
    };
    let Some(range) = Range::of(query.as_deref()) else {
        let allowed = "The page takes <code>range=6h</code>, <code>range=24h</code> or <code>range=7d</code>, not \
                       <code>{}</code>.";
        let text = html(allowed, &[&query.unwrap_or_default()]);
        return page::trouble(&shared, StatusCode::BAD_REQUEST, "No such range", &text);
    };
    blocking(move || render(&shared, &view, range, version)).await
}

fn render(shared: &Shared, view: &ClusterView, range: Range, version: u64) -> Response {
    let now = shared.now();
    let from = Timestamp::from_secs(now.as_secs().saturating_sub(range.seconds()));
    let slots = match shared.slots(&view.cluster, from, now, MAX_LIMIT) {
        Ok(slots) => slots,
        Err(error) => {
            let message = error.with_cause();
            tracing::error!(error = message, "past slots cannot be read");
            let text = html("{}.", &[&message]);
            return page::trouble(shared, StatusCode::INTERNAL_SERVER_ERROR, "No past slots", &text);
        }
    };
    let status = Status::of(view, now);
    let id = view.cluster.as_str();
    let content = html(
        include_str!("assets/cluster.html"),
        &[
            &id,
            &status.badge(),
            &status.sentence,
            &status.meaning,
            &figures(view, now),
            &choice(view, range),
            &load_chart(view, &slots, range, from, now),
            &range.words(),
            &outcomes(&slots),
            &recent(&slots, now),
            &privacy(view, now),
            &downloads(view, range, from, now),
        ],
    );
    page::document(shared, StatusCode::OK, id, version, &content)
}

fn figures(view: &ClusterView, now: Timestamp) -> Html {
    let mut tiles = Vec::new();
    if let Some((closed, load)) = view.last_decoded.and_then(|closed| Some((closed, closed.load()?))) {
        let outcome = closed.outcome;
        let ended = words::time(outcome.end, now);
        let note = html("of {} that answered, slot to {}", &[&words::count(outcome.responders), &ended]);
        tiles.push(("Plain sum", within(Some((load, closed.band95))), note));
        let members = words::count(outcome.members);
        tiles.push(("Estimate for all", estimate(&closed), html("scaled up to {} members", &[&members])));
        tiles.push(("Filtered", filtered(&closed), html("for all members, from the sums so far", &[])));
    }
    if let Some(ClosedSlot { outcome, .. }) = view.last {
        let answered = words::count(outcome.responders);
        let answered = html("{} <span class=\"within\">of {}</span>", &[&answered, &words::count(outcome.members)]);
        let missing = html("{} missing in the last slot", &[&words::count(outcome.missing())]);
        tiles.push(("Answered", answered, missing));
    } else {
        let enrolled = html("{}", &[&words::count(view.candidates)]);
        tiles.push(("Enrolled", enrolled, html("at least {} needed", &[&words::count(view.min_members)])));
    }
    let due = view.next_deadline.map_or_else(|| html("–", &[]), |due| words::time(due, now));
    let every = html("a slot every {}", &[&words::duration(view.slot_seconds)]);
    tiles.push(("Next deadline", due, every));
    let tile = |(name, value, note): &(&str, Html, Html)| {
        html("<div class=\"tile\"><dt>{}</dt><dd>{}<span class=\"note\">{}</span></dd></div>", &[name, value, note])
    };
    tiles.iter().map(tile).collect()
}

/// Links to the ranges.
fn choice(view: &ClusterView, chosen: Range) -> Html {
    let link = |range: Range| {
        let current = if range == chosen { html(" aria-current=\"true\"", &[]) } else { Html::EMPTY };
        html(
            "<li><a id=\"range-{}\" href=\"/clusters/{}?range={}\"{}>{}</a></li>",
            &[&range.name(), &view.cluster.as_str(), &range.name(), &current, &range.words()],
        )
    };
    Range::ALL.into_iter().map(link).collect()
}

fn load_chart(view: &ClusterView, slots: &[ClosedSlot], range: Range, from: Timestamp, now: Timestamp) -> Html {
    let series = Series::new(slots, from, now, CHART_POINTS);
    let title = format!("Load of {} in the last {}", view.cluster, range.words());
    let last = series.points().last().and_then(|point| point.filtered);
    let filtered = last.map(|load| format!(" Filtered, the last is {}.", words::watts(load))).unwrap_or_default();
    let description = described(&series) + &filtered;
    let drawn = chart(&series, &Caption { id: "load-chart", title, description });
    let points = match series.slots_per_point {
        1 => html("Each point is one slot.", &[]),
        many => html("Each point is the mean of up to {} slots.", &[&words::count(many)]),
    };
    html(
        "<figure>{}<figcaption><ul class=\"legend\"><li class=\"key-load\">Sum of the meters that answered</li>\
         <li class=\"key-band\">95 % band of that sum</li><li class=\"key-estimate\">Estimate for all members</li>\
         <li class=\"key-filtered\">Filtered, for all members</li>\
         <li class=\"key-failure\">Slot without a sum</li></ul><p class=\"note\">{}</p></figcaption></figure>",
        &[&drawn, &points],
    )
}

/// How the slots of the range ended.
fn outcomes(slots: &[ClosedSlot]) -> Html {
    let row = |class: &str, label: &str, meaning: &str, found: usize| {
        let share = if slots.is_empty() { 0.0 } else { 100.0 * found as f64 / slots.len() as f64 };
        let none = if found == 0 { " none" } else { "" };
        html(
            "<tr class=\"{}{}\"><th scope=\"row\">{} <span class=\"note\">{}</span></th><td class=\"number\">{}</td>\
             <td class=\"number\">{} %</td></tr>",
            &[&class, &none, &label, &meaning, &words::count(found), &format!("{share:.1}")],
        )
    };
    let decoded = slots.iter().filter(|slot| slot.load().is_some()).count();
    let mut rows = row("decoded", "Decoded", "The slot gave a sum.", decoded);
    for failure in Failure::ALL {
        let (label, meaning) = words::failure(failure);
        let found = slots.iter().filter(|slot| slot.outcome.result == Err(failure)).count();
        rows.push(&row("failed", label, meaning, found));
    }
    rows
}

/// The newest slots first.
fn recent(slots: &[ClosedSlot], now: Timestamp) -> Html {
    if slots.is_empty() {
        return html("<tr><td colspan=\"8\">No slot has closed in this range.</td></tr>", &[]);
    }
    slots.iter().rev().take(RECENT).map(|closed| recent_row(closed, now)).collect()
}

fn recent_row(closed: &ClosedSlot, now: Timestamp) -> Html {
    let outcome = closed.outcome;
    let (class, label) =
        outcome.result.map_or_else(|cause| ("failed", words::failure(cause).0), |_| ("decoded", "Decoded"));
    html(
        "<tr><th scope=\"row\">{}–{}</th><td><span class=\"badge {}\">{}</span></td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{} of {}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
        &[
            &words::time(outcome.start, now),
            &words::time(outcome.end, now),
            &class,
            &label,
            &within(closed.load().map(|load| (load, closed.band95))),
            &estimate(closed),
            &filtered(closed),
            &words::count(outcome.responders),
            &words::count(outcome.members),
            &words::count(outcome.missing()),
            &outcome.attempts,
        ],
    )
}

fn downloads(view: &ClusterView, range: Range, from: Timestamp, now: Timestamp) -> Html {
    let id = view.cluster.as_str();
    let list = view.list.as_ref().map_or(Html::EMPTY, |list| {
        let params = &list.params;
        let span = [params.slot_start(list.from_slot), params.slot_end(list.to_slot)].map(|at| words::time(at, now));
        html(
            "<li><a id=\"get-list\" href=\"/api/v1/clusters/{}/membership\" download>Signed membership list {}</a> \
             <span class=\"note\">{} members, slots from {} to {}; CBOR, names its meters</span></li>",
            &[&id, &list.epoch, &words::count(params.members()), &span[0], &span[1]],
        )
    });
    // The end stays open: whoever follows the link later gets what has closed by then.
    let from = rfc3339(from);
    html(
        "{}<li><a id=\"get-csv\" href=\"/api/v1/clusters/{}/slots?format=csv&amp;from={}&amp;limit={}\" download>Slots of \
         the last {} as CSV</a></li><li><a id=\"get-json\" href=\"/api/v1/clusters/{}/slots?from={}&amp;limit={}\">The \
         same as JSON</a></li><li><a id=\"get-cluster\" href=\"/api/v1/clusters/{}\">This cluster as JSON</a></li>",
        &[&list, &id, &from, &MAX_LIMIT, &range.words(), &id, &from, &MAX_LIMIT, &id],
    )
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
