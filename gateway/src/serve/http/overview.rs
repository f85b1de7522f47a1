//! The first page: every cluster with its load, how it is doing, and what to look at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Caption, sparkline};
use super::query::MAX_LIMIT;
use super::series::Series;
use super::status::{Group, Status};
use super::{Shared, blocking, page, words};
use crate::serve::board::ClusterView;
use crate::store::{ClosedSlot, HistoryError, Load};

const DAY_SECONDS: u64 = 86_400;

/// So few that a page of a thousand clusters stays light.
const SPARK_POINTS: u64 = 96;

/// How many clusters that need attention are named at the top.
const MOST_NAMED: usize = 12;

/// Drawn sparklines: each is drawn again only when its cluster has closed a slot or should have.
#[derive(Debug, Default)]
pub(super) struct Sparklines {
    drawn: Mutex<HashMap<ClusterId, (SparkKey, Arc<Markup>)>>,
}

/// The last closed slot, and how many slot lengths the clock has counted.
type SparkKey = (Option<u64>, u64);

/// `GET /`.
pub(super) async fn overview(State(shared): State<Arc<Shared>>) -> Response {
    blocking(move || render(&shared)).await
}

fn render(shared: &Shared) -> Response {
    let (version, views) = shared.service.board.clusters();
    let now = shared.now();
    let clusters: Vec<_> = views.iter().map(|view| (view.as_ref(), Status::of(view, now))).collect();
    shared.sparklines.forget_all_but(&clusters);
    let content = html! {
        div.lead {
            h1 { "Clusters" }
            p.explain {
                "Each figure is the sum of the meters that answered, with noise: with 95 % confidence the true sum is within \
                 the ± band. The estimate scales that sum up for meters that were silent; the filtered load takes the sums \
                 before into account as well."
            }
        }
        section #summary aria-label="Overview" data-live {
            ul.tiles { (summary(&clusters)) }
            (attention(&clusters))
        }
        form #filter.filter role="search" hidden {
            label for="filter-text" { "Filter clusters" }
            input #filter-text type="search" autocomplete="off" spellcheck="false" placeholder="name or state";
            output #filter-count for="filter-text" {}
        }
        section #clusters aria-label="All clusters" data-live {
            @if clusters.is_empty() { p.note { "This gateway serves no cluster yet." } }
            ul.cards {
                @for (view, status) in &clusters { (card(shared, view, status, now)) }
            }
        }
    };
    page::document(shared, StatusCode::OK, "Clusters", version, &content)
}

type Clusters<'a> = [(&'a ClusterView, Status)];

fn summary(clusters: &Clusters<'_>) -> Markup {
    let count = |group: Group| clusters.iter().filter(|(_, status)| status.group == group).count();
    html! {
        @for (group, count) in Group::ALL.map(|group| (group, count(group))) {
            li class={ "tile " (group.class()) @if count == 0 { " none" } } {
                span.amount { (words::count(count)) } " "
                span.what { (group.label()) } " "
                span.note { (group.meaning()) }
            }
        }
    }
}

/// Names the clusters that are stalled or gave no sum.
fn attention(clusters: &Clusters<'_>) -> Markup {
    let troubled: Vec<_> =
        clusters.iter().filter(|(_, status)| matches!(status.group, Group::Failed | Group::Stalled)).collect();
    html! {
        @if !troubled.is_empty() {
            div.attention {
                h2 { "Needs a look" }
                ul {
                    @for (view, status) in troubled.iter().take(MOST_NAMED) {
                        li {
                            a id={ "look-" (view.cluster) } href={ "/clusters/" (view.cluster) } { (view.cluster) } " "
                            span.note { (status.label) }
                        }
                    }
                    @if let more @ 1.. = troubled.len().saturating_sub(MOST_NAMED) {
                        li.note { "and " (words::count(more)) " more" }
                    }
                }
            }
        }
    }
}

fn card(shared: &Shared, view: &ClusterView, status: &Status, now: Timestamp) -> Markup {
    let id = &view.cluster;
    let (group, label) = (status.group.label().to_lowercase(), status.label.to_lowercase());
    html! {
        li class={ "card " (status.group.class()) } data-filter={ (id) " " (group) " " (label) } {
            article aria-labelledby={ "name-" (id) } {
                div.head {
                    h2 id={ "name-" (id) } { a id={ "to-" (id) } href={ "/clusters/" (id) } { (id) } }
                    (status.badge())
                }
                @if status.group != Group::Decoded { p.sentence { (status.sentence) } }
                (figure(view, status.group, now))
                (shared.sparklines.of(shared, view, now))
                dl.facts { (facts(view, now)) }
            }
        }
    }
}

/// Shows the last sum in large type.
fn figure(view: &ClusterView, group: Group, now: Timestamp) -> Markup {
    let Some((outcome, sum)) = view.last_decoded.and_then(|closed| Some((closed.outcome, closed.sum()?))) else {
        return html! { p.figure.none { "No sum yet" } };
    };
    let (load, band, unit) = words::load(sum.watts, sum.band95);
    html! {
        p.figure {
            strong { (load) " " span.unit { (unit) } } " "
            span.within { "± " (band) " " (unit) }
        }
        p.note {
            @if group == Group::Decoded { "Sum" } @else { "Last sum," }
            " of " (words::count(outcome.responders)) " meters that answered, "
            (words::time(outcome.start, now)) "–" (words::time(outcome.end, now))
        }
    }
}

fn facts(view: &ClusterView, now: Timestamp) -> Markup {
    let fact = |term: &str, fact: &Markup| html! { div { dt { (term) } dd { (fact) } } };
    let text = |text: String| html! { (text) };
    html! {
        @if let Some(closed) = &view.last_decoded {
            (fact(&format!("Estimate for all {}", words::count(closed.outcome.members)), &within(closed.estimate())))
            (fact("Filtered", &filtered(closed)))
        }
        @if let Some(ClosedSlot { outcome, .. }) = &view.last {
            (fact("Answered", &html! { (words::count(outcome.responders)) " of " (words::count(outcome.members)) }))
            (fact("Missing", &text(words::count(outcome.missing()))))
        } @else {
            (fact("Enrolled", &text(words::count(view.candidates))))
        }
        @if let Some(list) = &view.list {
            (fact("ε per attempt", &text(words::epsilon(list.params.charge_micro_epsilon()))))
            (fact("ε today", &text(words::epsilon(view.spent.at(now)))))
        }
        @if let Some(due) = view.next_deadline { (fact("Next deadline", &words::time(due, now))) }
    }
}

/// Shows what the filter made of the slot.
pub(super) fn filtered(closed: &ClosedSlot) -> Markup {
    closed.filtered.map_or_else(nothing, |filtered| banded(filtered.watts, filtered.band95))
}

/// Shows a load in its band.
pub(super) fn within(load: Option<Load>) -> Markup {
    load.map_or_else(nothing, |load| banded(load.watts, load.band95))
}

fn nothing() -> Markup {
    html! { "–" }
}

fn banded(watts: i64, band: u64) -> Markup {
    let (load, band, unit) = words::load(watts, band);
    html! { (load) " " span.within { "± " (band) } " " (unit) }
}

impl Sparklines {
    fn of(&self, shared: &Shared, view: &ClusterView, now: Timestamp) -> Arc<Markup> {
        let key = (view.last.map(|closed| closed.outcome.slot.0), now.as_secs() / view.slot_seconds.max(1));
        let known = self.drawn.lock().expect("nobody panics while holding the sparklines").get(&view.cluster).cloned();
        if let Some((_, drawn)) = known.filter(|(drawn_for, _)| *drawn_for == key) {
            return drawn;
        }
        match draw(shared, view, now).map(Arc::new) {
            Ok(drawn) => {
                let entry = (key, drawn.clone());
                let mut all = self.drawn.lock().expect("nobody panics while holding the sparklines");
                all.insert(view.cluster.clone(), entry);
                drawn
            }
            Err(error) => Arc::new(html! { p.note { "No chart: " (error.with_cause()) "." } }),
        }
    }

    fn forget_all_but(&self, clusters: &Clusters<'_>) {
        let mut drawn = self.drawn.lock().expect("nobody panics while holding the sparklines");
        if drawn.len() > clusters.len() {
            drawn.retain(|id, _| clusters.iter().any(|(view, _)| view.cluster == *id));
        }
    }
}

fn draw(shared: &Shared, view: &ClusterView, now: Timestamp) -> Result<Markup, HistoryError> {
    let from = Timestamp::from_secs(now.as_secs().saturating_sub(DAY_SECONDS));
    let slots = shared.service.history.slots(&view.cluster, from, now, MAX_LIMIT)?;
    if slots.is_empty() {
        return Ok(Markup::default());
    }
    let series = Series::new(&slots, from, now, SPARK_POINTS);
    let id = format!("spark-{}", view.cluster);
    let title = format!("Load of {} in the last 24 hours", view.cluster);
    Ok(sparkline(&series, &Caption { id: &id, title, description: described(&series) }))
}

/// Describes a chart in words.
pub(super) fn described(series: &Series) -> String {
    let slots = format!("{} of {} slots gave a sum", words::count(series.decoded), words::count(series.slots));
    let loads = || series.points().map(|point| point.load);
    let Some(last) = series.points().last() else { return format!("{slots}.") };
    format!(
        "{slots}. Lowest {}, highest {}, last {}, within ± {} with 95 % confidence.",
        words::watts(loads().fold(f64::INFINITY, f64::min)),
        words::watts(loads().fold(f64::NEG_INFINITY, f64::max)),
        words::watts(last.load),
        words::watts(last.band),
    )
}
