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
use super::gateway_page::trouble_of_the_gateway;
use super::group_tree::Tree;
use super::headline::headline;
use super::query::MAX_LIMIT;
use super::reasons::reasons;
use super::series::{Series, fitted};
use super::status::{Standing, Status};
use super::{Shared, blocking, page, words};
use crate::board::ClusterView;
use crate::history::{ClosedSlot, HistoryError};

const DAY_SECONDS: u64 = 86_400;

/// So few that a page of a thousand clusters stays light.
const SPARK_POINTS: u64 = 96;

/// How many clusters are named that need attention, or that are in a group, and how many reasons for each.
const MOST_NAMED: usize = 12;
const MOST_REASONS: usize = 2;

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
                "Each figure is the load of a whole cluster, never of a home, and lies within its ± band with 95 % confidence: \
                 the filtered load, which takes the sums before into account, as soon as it knows more than the last sum alone."
            }
        }
        section #summary aria-label="Overview" data-live {
            ul.tiles { (summary(&clusters)) }
            (attention(shared, &clusters, now))
        }
        (groups(shared, now))
        form #filter.filter role="search" hidden {
            label for="filter-text" { "Filter clusters" }
            input #filter-text type="search" autocomplete="off" spellcheck="false" placeholder="name or state";
            output #filter-count for="filter-text" {}
        }
        section #clusters aria-label="All clusters" {
            @if clusters.is_empty() { p.note { "This gateway serves no cluster yet." } }
            ul.cards {
                @for (view, status) in &clusters { (card(shared, view, status, now)) }
            }
        }
    };
    page::document(shared, StatusCode::OK, "Clusters", version, &content)
}

/// Shows groups as a tree, if there are any.
fn groups(shared: &Shared, now: Timestamp) -> Markup {
    let (_, groups) = shared.service.board.groups();
    let tree = Tree { groups: &groups, most_clusters: MOST_NAMED, now };
    html! {
        @if !groups.is_empty() {
            section #groups aria-labelledby="groups-heading" data-live {
                h2 #groups-heading { "Groups" }
                div #groups-scroll.scroll tabindex="0" role="region" aria-labelledby="groups-heading" {
                    (tree.render(&tree.roots()))
                }
            }
        }
    }
}

type Clusters<'a> = [(&'a ClusterView, Status)];

fn summary(clusters: &Clusters<'_>) -> Markup {
    let count = |standing: Standing| clusters.iter().filter(|(_, status)| status.standing == standing).count();
    html! {
        @for (standing, count) in Standing::ALL.map(|standing| (standing, count(standing))) {
            li class={ "tile " (standing.class()) @if count == 0 { " none" } } {
                span.amount { (words::count(count)) } " "
                span.what { (standing.label()) } " "
                span.note { (standing.meaning()) }
            }
        }
    }
}

/// Names what needs a look, and why: the gateway itself, and clusters.
fn attention(shared: &Shared, clusters: &Clusters<'_>, now: Timestamp) -> Markup {
    let own = trouble_of_the_gateway(shared, now);
    let found = clusters.iter().map(|(view, _)| (*view, reasons(view, now)));
    let mut troubled: Vec<_> = found.filter(|(_, reasons)| !reasons.is_empty()).collect();
    // What costs sums goes before what is worth a look in time.
    troubled.sort_by_key(|(_, reasons)| !reasons.iter().any(|reason| reason.urgent));
    html! {
        @if own.is_some() || !troubled.is_empty() {
            div.attention {
                h2 { "Needs a look" }
                ul {
                    @if let Some(trouble) = own {
                        li { a #look-at-gateway href="/gateway" { "This gateway" } " " span.why { (trouble) "." } }
                    }
                    @for (view, reasons) in troubled.iter().take(MOST_NAMED) {
                        li {
                            a id={ "look-" (view.cluster) } href={ "/clusters/" (view.cluster) } { (view.cluster) } " "
                            span.why {
                                @for reason in reasons.iter().take(MOST_REASONS) { (reason.text) ". " }
                            }
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
    let (standing, label) = (status.standing.label().to_lowercase(), status.label.to_lowercase());
    let earlier = view.last_decoded.filter(|_| status.standing != Standing::Decoded);
    let when = html! { @if let Some(closed) = earlier { ", slot to " (words::time(closed.outcome.end, now)) } };
    html! {
        li id={ "card-" (id) } class={ "card " (status.standing.class()) } data-filter={ (id) " " (standing) " " (label) } data-live {
            article aria-labelledby={ "name-" (id) } {
                div.head {
                    h2 id={ "name-" (id) } { a id={ "to-" (id) } href={ "/clusters/" (id) } { (id) } }
                    (status.badge())
                }
                @if status.standing != Standing::Decoded { p.sentence { (status.sentence) } }
                (headline(view, now, &when))
                (shared.sparklines.of(shared, view, now))
                dl.facts { (facts(view, now)) }
            }
        }
    }
}

fn facts(view: &ClusterView, now: Timestamp) -> Markup {
    let fact = |term: &str, fact: &Markup| html! { div { dt { (term) } dd { (fact) } } };
    let text = |text: String| html! { (text) };
    html! {
        @if let Some(ClosedSlot { outcome, .. }) = &view.last {
            (fact("Answered", &html! { (words::count(outcome.responders)) " of " (words::count(outcome.members)) }))
        } @else {
            (fact("Enrolled", &text(words::count(view.candidates))))
        }
        @if view.list.is_some() { (fact("ε today", &text(words::epsilon(view.spent.at(now))))) }
        @if let Some(due) = view.next_deadline { (fact("Next deadline", &words::time(due, now))) }
    }
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
    let any_before = !shared.service.history.slots(&view.cluster, Timestamp::from_secs(0), from, 1)?.is_empty();
    let series =
        Series::new(&slots, fitted(slots.first().map(|slot| slot.outcome.start), from, any_before), now, SPARK_POINTS)
            .of([view]);
    let id = format!("spark-{}", view.cluster);
    let title = format!("Load of {} in the last 24 hours", view.cluster);
    Ok(sparkline(&series, &Caption { id: &id, title, description: described(&series) }))
}

/// Describes a chart in words.
pub(super) fn described(series: &Series) -> String {
    let slots = format!("{} of {} slots gave a sum", words::count(series.decoded), words::count(series.slots));
    let loads = || series.points().map(|point| point.best().watts);
    let Some(last) = series.points().last() else { return format!("{slots}.") };
    format!(
        "{slots}. Lowest {}, highest {}, last {}, within ± {} with 95 % confidence.",
        words::watts(loads().fold(f64::INFINITY, f64::min)),
        words::watts(loads().fold(f64::NEG_INFINITY, f64::max)),
        words::watts(last.best().watts),
        words::watts(last.best().band95),
    )
}
