//! The page of one group: the load of its clusters together, what it is the sum of, and its downloads.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Caption, chart};
use super::cluster_page::{asked, choice, energy_downloads, tile};
use super::energy_panel::group_energy;
use super::group_tree::{Tree, best, in_sum, served_here};
use super::headline::{Figure, figure};
use super::overview::described;
use super::past::{CHART_POINTS, step_over};
use super::query::{Id, MAX_LIMIT};
use super::range::Range;
use super::series::{Series, fitted, together};
use super::{Shared, blocking, page, words};
use crate::board::group::{GroupSlot, GroupView};
use crate::clock::rfc3339;
use crate::config::Part;
use crate::history::{History, HistoryError, Step};

/// How many slots the table lists.
const RECENT: usize = 12;

/// How many clusters that are not in the sum are named.
const MOST_NAMED: usize = 6;

/// `GET /groups/{id}`.
pub(super) async fn group(State(shared): State<Arc<Shared>>, Id(id): Id, uri: Uri) -> Response {
    // One look at the board: the tree and the page of a group fit together.
    let (version, groups) = shared.service.board.groups();
    let Some(at) = groups.iter().position(|view| view.id.as_str() == id) else {
        let text = html! { "There is no group " code { (id) } "." };
        return page::error(&shared, StatusCode::NOT_FOUND, "No such group", &text);
    };
    let range = match asked(&uri) {
        Ok(range) => range,
        Err(wrong) => return page::error(&shared, StatusCode::BAD_REQUEST, "No such range", &wrong),
    };
    blocking(move || {
        let now = shared.now();
        match Past::read(&shared, &groups[at], range, now) {
            Ok(past) => render(&shared, &groups, &groups[at], range, past, version),
            Err(error) => page::no_past(&shared, &error),
        }
    })
    .await
}

/// The past of a group over a range.
struct Past {
    now: Timestamp,
    /// Where the range begins.
    from: Timestamp,
    /// The newest slots, newest first.
    newest: Vec<GroupSlot>,
    series: Series,
    /// How many slots, hours or days the chart has, if there may be older ones.
    cut: Option<usize>,
}

impl Past {
    fn read(shared: &Shared, view: &GroupView, range: Range, now: Timestamp) -> Result<Self, HistoryError> {
        let (from, history, most) =
            (range.from(now), shared.service.history.as_ref(), view.most_slots().min(MAX_LIMIT));
        let begun = view.served.iter().filter_map(|shown| Some(shown.view.energy?.extent.begun)).min();
        let shown_from = begun.unwrap_or(now).max(from);
        if let Some(step) = step_over(now.millis_since(shown_from), false) {
            return Self::of_periods(history, view, step, from, shown_from, now);
        }
        let slots = Self::settled(view, view.slots(history, from, now, most)?, now);
        let any_before = !view.slots(history, Timestamp::from_secs(0), from, 1)?.is_empty();
        let cut = Some(slots.len()).filter(|&found| found >= most);
        let kept_from = slots.first().map_or(now, |slot| slot.start);
        if !any_before && cut.is_none() && shown_from < kept_from {
            return Self::of_periods(history, view, Step::Hour, from, shown_from, now);
        }
        // An axis that began in 1970 would show nothing.
        let from = if slots.is_empty() { from.max(Range::Day.from(now)) } else { from };
        let fitted = fitted(slots.first().map(|slot| slot.start), from, any_before && cut.is_none());
        let series = Series::of_group(&slots, fitted, now, CHART_POINTS);
        let newest = slots.iter().rev().take(RECENT).copied().collect();
        Ok(Self { now, from, newest, series, cut })
    }

    /// Leaves out the slot that some clusters have yet to close: it would look like a load that falls.
    fn settled(view: &GroupView, mut slots: Vec<GroupSlot>, now: Timestamp) -> Vec<GroupSlot> {
        if let Some(current) = view.current(now) {
            slots.retain(|slot| slot.end <= current.end);
        }
        slots
    }

    /// Reads hours or days, where slots would be too many or are gone.
    fn of_periods(
        history: &dyn History,
        view: &GroupView,
        step: Step,
        from: Timestamp,
        shown_from: Timestamp,
        now: Timestamp,
    ) -> Result<Self, HistoryError> {
        let most = view.most_slots().min(MAX_LIMIT);
        let together = together(step, shown_from, now, CHART_POINTS);
        let periods = view.periods(history, step, shown_from, now, most, together)?;
        let series = Series::of_group_periods(step, &periods, shown_from, now, together);
        let newest = Self::settled(view, view.slots(history, from, now, RECENT)?, now);
        let newest: Vec<GroupSlot> = newest.into_iter().rev().collect();
        let cut = Some(most).filter(|&most| now.millis_since(shown_from) / step.millis() >= most as u64);
        Ok(Self { now, from, newest, series, cut })
    }
}

fn render(shared: &Shared, groups: &[GroupView], view: &GroupView, range: Range, past: Past, version: u64) -> Response {
    let (now, id) = (past.now, view.id.as_str());
    let current = view.current(now);
    let series = past.series.of(view.served.iter().map(|shown| shown.view.as_ref()));
    let past = Past { series, ..past };
    let tree = Tree { groups, most_clusters: usize::MAX, now };
    let content = html! {
        (crumbs(groups, view))
        div #cluster-head.head data-live { h1 #cluster-name { (id) } (in_sum(view, current.as_ref())) }
        section #state aria-label="Load now" data-live { (state(view, current.as_ref(), now)) }
        section #load aria-labelledby="load-heading" data-live {
            div.head {
                h2 #load-heading { "Load" }
                nav aria-label="Range of the chart" { ul.choice { (choice(&format!("/groups/{id}"), range)) } }
            }
            (load_chart(view, range, &past))
        }
        section #energy aria-labelledby="energy-heading" data-live {
            h2 #energy-heading { "Energy so far" }
            (group_energy(view, now))
        }
        section #figures aria-label="Figures" data-live { dl.tiles { (tiles(view, current.as_ref())) } (explained()) }
        section #parts aria-labelledby="parts-heading" data-live {
            h2 #parts-heading { "What it is the sum of" }
            div #parts-scroll.scroll tabindex="0" role="region" aria-labelledby="parts-heading" { (tree.render(&[view])) }
        }
        section #recent aria-labelledby="recent-heading" data-live {
            h2 #recent-heading { "Recent slots" }
            div #recent-scroll.scroll tabindex="0" role="region" aria-labelledby="recent-heading" {
                (slot_table(&past.newest, now))
            }
        }
        section #downloads aria-labelledby="downloads-heading" data-live {
            h2 #downloads-heading { "Downloads" }
            ul.links { (downloads(view, range, &past)) }
        }
    };
    page::document(shared, StatusCode::OK, id, version, &content)
}

/// Shows the way up: to the groups that this one is in, and to all clusters.
fn crumbs(groups: &[GroupView], view: &GroupView) -> Markup {
    let part = Part::Group(view.id.clone());
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a #up href="/" { "All clusters" }
            @for above in groups.iter().filter(|above| above.group.of.contains(&part)) {
                " " a id={ "up-" (above.id) } href={ "/groups/" (above.id) } { (above.id) }
            }
        }
    }
}

/// Shows the best number there is, and which clusters are not in it.
fn state(view: &GroupView, slot: Option<&GroupSlot>, now: Timestamp) -> Markup {
    html! {
        @match slot.and_then(|slot| Some((slot, best(slot)?))) {
            None => p.figure.none { "No sum now" },
            Some((slot, best)) => (headline(slot, best, now)),
        }
        @if view.served.len() < view.group.clusters.len() {
            p.sentence { "This gateway is one of several replicas: " (served_here(view)) ", and only they are in its sums." }
        }
        @if let Some(slot) = slot { (absent(view, slot)) }
    }
}

fn headline(slot: &GroupSlot, best: Figure, now: Timestamp) -> Markup {
    let (load, band, unit) = words::load(best.watts, best.band95);
    let estimate = slot.estimate().map(Figure::from);
    let clusters = words::count(slot.clusters);
    html! {
        p.figure { strong { (load) } " " span.within { "± " (band) } " " span.unit { (unit) } }
        p.what {
            "Load of all members of "
            @if slot.is_whole() { "all " (clusters) } @else { (words::count(slot.added())) " of " (clusters) }
            " clusters" @if estimate != Some(best) { ", filtered" } ", slot to " (words::time(slot.end, now))
        }
        @if estimate != Some(best) { p.second { "Estimate of this slot alone " (figure(estimate)) } }
    }
}

/// Names clusters that are served here and not in the sum.
fn absent(view: &GroupView, slot: &GroupSlot) -> Markup {
    let absent: Vec<_> = view.without_a_sum(slot).collect();
    html! {
        @if !absent.is_empty() {
            p.sentence {
                "Without a sum of their own: "
                @for (at, cluster) in absent.iter().take(MOST_NAMED).enumerate() {
                    @if at > 0 { ", " }
                    a id={ "absent-" (cluster.cluster) } href={ "/clusters/" (cluster.cluster) } { (cluster.cluster) }
                }
                @if let more @ 1.. = absent.len().saturating_sub(MOST_NAMED) { " and " (words::count(more)) " more" }
                "."
            }
        }
    }
}

fn tiles(view: &GroupView, slot: Option<&GroupSlot>) -> Markup {
    html! {
        @if let Some(slot) = slot {
            (tile("Estimate for all", &figure(slot.estimate().map(Figure::from)), &html! {
                "the clusters\u{2019} sums scaled up to " (words::count(slot.members)) " members"
            }))
            (tile("Plain sum", &figure(slot.sum().map(Figure::from)), &html! {
                "of " (words::count(slot.responders)) " that answered"
            }))
            (tile("Filtered", &figure(slot.filtered().map(Figure::from)), &html! { "the sum of the filtered loads" }))
            (tile("In the sum", &html! {
                (words::count(slot.in_sum)) " " span.within { "of " (words::count(slot.clusters)) }
            }, &html! {
                "clusters in the last slot" @if slot.filled > 0 { "; " (words::count(slot.filled)) " filled in" }
            }))
        }
        (tile("Slot", &html! { (words::duration(view.group.slot_seconds)) }, &html! { "in all of its clusters" }))
    }
}

fn explained() -> Markup {
    html! {
        details.explain {
            summary #explained { "How to read these numbers" }
            p {
                "A group is added up from what its clusters released, so it costs no home any privacy beyond that. The noise of \
                 different clusters is independent: the band of a sum is narrower than the sum of the bands, and holds the true \
                 load with 95 % confidence. The estimate assumes that silent meters used as much as those that answered. The \
                 filtered load is the sum of the clusters\u{2019} own, and its band takes them to err independently: what \
                 the weather or a holiday does to all at once is not in it. A sum without all clusters is that of a part, and \
                 says so. Where a cluster gave no sum, its \
                 own filter\u{2019}s expectation fills it in, and is counted as such."
            }
        }
    }
}

fn load_chart(view: &GroupView, range: Range, past: &Past) -> Markup {
    let series = &past.series;
    let period = series.step.map_or("slot", Step::as_str);
    let title = format!("Load of {} {}", view.id, range.words());
    html! {
        figure {
            (chart(series, &Caption { id: "load-chart", title, description: described(series) }))
            figcaption {
                ul.legend {
                    li.key-filtered { "Filtered load" }
                    li.key-load { "Estimate of each " (period) " alone" }
                    li.key-failure { "Not all clusters are in the sum" }
                }
                p.note {
                    "Shaded are the 95 % bands. A line ends where other clusters are in the sum than before. "
                    @match series.slots_per_point {
                        1 => { "Each point is one " (period) "." }
                        many => {
                            "Each point is the mean of up to " (words::count(many)) " " (period) "s, in the band of that mean."
                        }
                    }
                    @if let Some(cut) = past.cut { " Only the newest " (words::count(cut)) " " (period) "s are shown." }
                }
            }
        }
    }
}

/// Shows a row for each slot, in this order.
fn slot_table(slots: &[GroupSlot], now: Timestamp) -> Markup {
    const NUMBERS: [&str; 4] = ["Estimate for all", "Plain sum", "Filtered", "Clusters in the sum"];
    html! {
        table.stacks {
            thead {
                tr {
                    th scope="col" { "Slot (UTC)" }
                    @for name in NUMBERS { th.number scope="col" { (name) } }
                }
            }
            tbody {
                @if slots.is_empty() { tr { td colspan=(NUMBERS.len() + 1) { "There is no such slot." } } }
                @for slot in slots {
                    tr {
                        th scope="row" { (words::period(slot.start, slot.end, now)) }
                        td.number data-name=(NUMBERS[0]) { (figure(slot.estimate().map(Figure::from))) }
                        td.number.minor data-name=(NUMBERS[1]) { (figure(slot.sum().map(Figure::from))) }
                        td.number data-name=(NUMBERS[2]) { (figure(slot.filtered().map(Figure::from))) }
                        td.number data-name=(NUMBERS[3]) {
                            (words::count(slot.in_sum)) " of " (words::count(slot.clusters))
                            @if slot.filled > 0 { ", " (words::count(slot.filled)) " filled in" }
                        }
                    }
                }
            }
        }
    }
}

fn downloads(view: &GroupView, range: Range, past: &Past) -> Markup {
    let api = format!("/api/v1/groups/{}", view.id);
    // The end stays open: whoever follows the link later gets what has closed by then.
    let slots = format!("from={}&limit={MAX_LIMIT}", rfc3339(past.from));
    html! {
        li { a #get-csv href={ (api) "/slots?format=csv&" (slots) } download { "Slots " (range.words()) " as CSV" } }
        li { a #get-json href={ (api) "/slots?" (slots) } { "The same as JSON" } }
        (energy_downloads(&api))
        li { a #get-group href=(api) { "This group as JSON" } }
    }
}
