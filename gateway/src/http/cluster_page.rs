//! The page of one cluster: its load over a chosen range, its recent slots, what it costs in privacy, its downloads.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::api::ClusterState;
use super::chart::{Caption, chart};
use super::energy_panel::energy_panel;
use super::headline::{Figures, figure, headline};
use super::overview::described;
use super::past::Past;
use super::query::{Id, MAX_LIMIT};
use super::range::Range;
use super::reasons::reasons;
use super::slots_page::{outcomes, slot_table};
use super::status::{Standing, Status};
use super::terms::privacy;
use super::{Shared, blocking, page, words};
use crate::board::ClusterView;
use crate::clock::rfc3339;
use crate::history::{ClosedSlot, Step};

/// How many slots the table lists.
const RECENT: usize = 12;

/// `GET /clusters/{id}`.
pub(super) async fn cluster(State(shared): State<Arc<Shared>>, Id(id): Id, uri: Uri) -> Response {
    // Before the view: a page may be newer than its version says, but not older.
    let version = *shared.service.board.watch().borrow();
    let Some(view) = shared.cluster(&id) else { return page::no_cluster(&shared, &id) };
    let range = match asked(&uri) {
        Ok(range) => range,
        Err(wrong) => return page::error(&shared, StatusCode::BAD_REQUEST, "No such range", &wrong),
    };
    blocking(move || {
        let now = shared.now();
        match Past::read(&shared, &view, range, now) {
            Ok(past) => render(&shared, &view, range, &past, version),
            Err(error) => page::no_past(&shared, &error),
        }
    })
    .await
}

/// Returns the range that is asked for; a day, if none is.
pub(super) fn asked(uri: &Uri) -> Result<Range, Markup> {
    let given = page::parameters(uri, &["range"])?;
    given.get("range").map_or(Ok(Range::Day), |name| {
        let names = Range::ALL.map(Range::name).join(", ");
        Range::named(name).ok_or_else(|| html! { code { "range" } " is one of " (names) ", not " code { (name) } "." })
    })
}

/// The pages of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Load,
    Slots,
    Lists,
}

/// Returns what every page of a cluster begins with: its name, how it is doing, and the way to the other pages.
pub(super) fn heading(view: &ClusterView, now: Timestamp, tab: Tab) -> Markup {
    let id = view.cluster.as_str();
    let tabs = [(Tab::Load, "Load", ""), (Tab::Slots, "Slots", "/slots"), (Tab::Lists, "Lists", "/lists")];
    html! {
        nav.crumbs aria-label="Breadcrumb" { a #up href="/" { "All clusters" } }
        div #cluster-head.head data-live { h1 #cluster-name { (id) } (Status::of(view, now).badge()) }
        nav.tabs aria-label={ "Pages of " (id) } {
            @for (own, label, path) in tabs {
                a href={ "/clusters/" (id) (path) } aria-current=[(own == tab).then_some("page")] { (label) }
            }
        }
    }
}

fn render(shared: &Shared, view: &ClusterView, range: Range, past: &Past, version: u64) -> Response {
    let (now, id) = (past.now, view.cluster.as_str());
    let newest: Vec<ClosedSlot> = past.slots.iter().rev().take(RECENT).copied().collect();
    let content = html! {
        (heading(view, now, Tab::Load))
        section #state aria-label="Load now" data-live { (state(view, now)) }
        section #load aria-labelledby="load-heading" data-live {
            div.head {
                h2 #load-heading { "Load" }
                nav aria-label="Range of the chart" { ul.choice { (choice(&format!("/clusters/{id}"), range)) } }
            }
            (load_chart(view, range, past))
        }
        section #energy aria-labelledby="energy-heading" data-live {
            h2 #energy-heading { "Energy so far" }
            (energy_panel(view, now))
        }
        section #figures aria-label="Figures" data-live { dl.tiles { (tiles(view, now)) } (explained()) }
        section #outcomes aria-labelledby="outcomes-heading" data-live {
            h2 #outcomes-heading { "Outcomes " (range.words()) @if past.is_of_periods() { ", of slots that are kept" } }
            div #outcomes-scroll.scroll tabindex="0" role="region" aria-labelledby="outcomes-heading" {
                (outcomes(&view.cluster, &past.slots, false))
            }
        }
        section #recent aria-labelledby="recent-heading" data-live {
            div.head {
                h2 #recent-heading { "Recent slots" }
                a #all-slots href={ "/clusters/" (id) "/slots" } { "All slots" }
            }
            div #recent-scroll.scroll tabindex="0" role="region" aria-labelledby="recent-heading" {
                (slot_table(&newest, now))
            }
        }
        div.pair {
            section #privacy aria-labelledby="privacy-heading" data-live {
                h2 #privacy-heading { "Privacy" }
                (privacy(view, now))
                p { a href={ "/clusters/" (id) "/lists" } { "All terms of the list" } }
            }
            section #downloads aria-labelledby="downloads-heading" data-live {
                h2 #downloads-heading { "Downloads" }
                ul.links { (downloads(view, range, past)) }
            }
        }
    };
    page::document(shared, StatusCode::OK, id, version, &content)
}

/// Shows the best number there is, how the cluster is doing, and what needs a look.
fn state(view: &ClusterView, now: Timestamp) -> Markup {
    let when =
        html! { @if let Some(closed) = view.last_decoded { ", slot to " (words::time(closed.outcome.end, now)) } };
    let found = reasons(view, now);
    let status = Status::of(view, now);
    // A sum speaks for itself, and where there is none for long, the reason is the sentence.
    let state = ClusterState::of(view, now);
    let silent =
        status.standing == Standing::Decoded || matches!(state, ClusterState::Stalled | ClusterState::CannotForm);
    html! {
        (headline(view, now, &when))
        @if !silent { p.sentence { (status.sentence) } }
        @if !found.is_empty() {
            div.attention {
                h2 { "Needs a look" }
                ul {
                    @for reason in found {
                        li { span.why { (reason.text) "." @if let Some(link) = reason.link { " " a href=(link) { "Evidence" } } } }
                    }
                }
            }
        }
    }
}

/// Shows what else is known. Later figures have their place here.
fn tiles(view: &ClusterView, now: Timestamp) -> Markup {
    let decoded = view.recent_decoded(now).and_then(|closed| Some((closed.outcome, Figures::of(closed)?)));
    let due = view.next_deadline.map_or_else(|| html! { "–" }, |due| words::time(due, now));
    html! {
        @if let Some((outcome, figures)) = decoded {
            (tile("Plain sum", &figure(Some(figures.sum)), &html! { "of " (words::count(outcome.responders)) " that answered" }))
            (tile("Estimate for all", &figure(figures.estimate), &html! {
                "the sum scaled up to " (words::count(outcome.members)) " members"
            }))
            @if figures.warm().is_none() {
                (tile("Filtered", &figure(figures.filtered), &html! { "still learning from the sums so far" }))
            }
        }
        @if let Some(ClosedSlot { outcome, .. }) = view.last {
            (tile("Answered", &html! {
                (words::count(outcome.responders)) " " span.within { "of " (words::count(outcome.members)) }
            }, &html! {
                @if outcome.responders == 0 { "none was heard in the last slot" }
                @else { (words::count(outcome.missing())) " missing in the last slot" }
            }))
        } @else {
            (tile("Enrolled", &html! { (words::count(view.candidates)) }, &html! {
                "at least " (words::count(view.min_members)) " needed"
            }))
        }
        @if let Some(holders) = view.recent_holders(now) {
            (tile("Holders", &html! {
                (words::count(holders.answered)) " " span.within { "of " (words::count(holders.holders)) }
            }, &html! {
                "answered; " (words::count(holders.needed)) " are needed, " (words::count(holders.spare())) " to spare"
                @if holders.wrong > 0 { ", " (words::count(holders.wrong)) " wrong" }
            }))
        }
        @if let Some(list) = &view.list {
            (tile("ε today", &html! { (words::epsilon(view.spent.at(now))) }, &html! {
                "spent by a meter that took part in all, " (words::epsilon(list.params.charge_micro_epsilon())) " an attempt"
            }))
        }
        (tile("Next deadline", &due, &html! { "a slot every " (words::duration(view.slot_seconds)) }))
    }
}

/// Shows one figure with its name and what it is.
pub(super) fn tile(name: &str, value: &Markup, note: &Markup) -> Markup {
    html! { div.tile { dt { (name) } dd { (value) span.note { (note) } } } }
}

fn explained() -> Markup {
    html! {
        details.explain {
            summary #explained { "How to read these numbers" }
            p {
                "Loads contain noise: with 95 % confidence the true load is within the ± band. The plain sum is that of the                  meters that answered. The estimate assumes that silent meters used as much as those. The filtered load takes                  the sums before into account: it has less noise, its band is that of a model, and it follows a change late:                  after one that lasts, its band is too narrow for hours. A load below 0 is noise around a small one, or homes that \
                 feed in more than the others draw."
            }
        }
    }
}

/// Shows links to the ranges of a page's chart.
pub(super) fn choice(page: &str, chosen: Range) -> Markup {
    html! {
        @for range in Range::ALL {
            @let href = format!("{page}?range={}", range.name());
            li {
                a id={ "range-" (range.name()) } href=(href) aria-current=[(range == chosen).then_some("true")] {
                    (range.label())
                }
            }
        }
    }
}

fn load_chart(view: &ClusterView, range: Range, past: &Past) -> Markup {
    let series = past.series(view);
    let period = series.step.map(Step::as_str);
    let title = format!("Load of {} {}", view.cluster, range.words());
    html! {
        figure {
            (chart(&series, &Caption { id: "load-chart", title, description: described(&series) }))
            figcaption {
                ul.legend {
                    @match series.step {
                        Some(Step::Day) => li.key-filtered { "Mean load of all members" },
                        Some(Step::Hour) => {
                            li.key-filtered { "Filtered load of all members" }
                            li.key-load { "Mean load of all members" }
                        }
                        None => {
                            li.key-filtered { "Filtered load of all members" }
                            li.key-load { "Plain sum of those who answered" }
                            li.key-failure { "Slot without a sum" }
                        }
                    }
                }
                p.note {
                    "Shaded are the 95 % bands. "
                    @match (series.slots_per_point, period.unwrap_or("slot")) {
                        (1, period) => { "Each point is one " (period) "." },
                        (many, period) => {
                            "Each point is the mean of up to " (words::count(many)) " " (period) "s, in the band of that mean."
                        }
                    }
                    @if period.is_none() && past.slots.len() >= MAX_LIMIT { " Only the newest " (words::count(MAX_LIMIT)) " slots are shown." }
                }
            }
        }
    }
}

fn downloads(view: &ClusterView, range: Range, past: &Past) -> Markup {
    let now = past.now;
    let api = format!("/api/v1/clusters/{}", view.cluster);
    // The end stays open: whoever follows the link later gets what has closed by then.
    let slots = format!("from={}&limit={MAX_LIMIT}", rfc3339(past.from));
    html! {
        @if let Some(list) = &view.list {
            @let params = &list.params;
            li {
                a #get-list href={ (api) "/membership" } download { "Signed membership " (words::list(list.epoch, now)) } " "
                span.note {
                    (words::count(params.members())) " members, "
                    (words::period(params.slot_start(list.from_slot), params.slot_end(list.to_slot), now))
                    "; CBOR, names its meters"
                }
            }
        }
        li {
            a #get-csv href={ (api) "/slots?format=csv&" (slots) } download {
                "Slots " (range.words()) " as CSV"
            }
        }
        li { a #get-json href={ (api) "/slots?" (slots) } { "The same as JSON" } }
        (energy_downloads(&api))
        li { a #get-cluster href=(api) { "This cluster as JSON" } }
    }
}

/// Shows links to hours and days of what has this address in the API.
pub(super) fn energy_downloads(api: &str) -> Markup {
    const STEPS: [(Step, &str); 2] =
        [(Step::Hour, "Energy by the hour, of the last 7 days"), (Step::Day, "Energy by the day, of the last year")];
    html! {
        @for (step, words) in STEPS {
            li {
                a id={ "get-" (step.as_str()) "s" } href={ (api) "/history?step=" (step.as_str()) "&format=csv" } download {
                    (words) ", as CSV"
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_of_seven_and_a_day_if_none_is_asked_for() {
        let of = |query: &str| asked(&format!("/clusters/x{query}").parse().unwrap()).ok();
        assert_eq!([of(""), of("?")], [Some(Range::Day); 2]);
        assert_eq!(Range::ALL.map(|range| of(&format!("?range={}", range.name()))), Range::ALL.map(Some));
        assert_eq!([of("?range=2y"), of("?rage=6h"), of("?range=")], [None; 3]);
    }
}
