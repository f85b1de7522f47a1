//! The first page: every cluster with its load, how it is doing, and what to look at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Caption, described, sparkline};
use super::gateway_page::trouble_of_the_gateway;
use super::group_tree::Tree;
use super::headline::headline;
use super::page::{self, scroll, section};
use super::past::Past;
use super::range::Range;
use super::reasons::reasons;
use super::status::{Standing, Status};
use super::{Shared, blocking, words};
use crate::board::ClusterView;
use crate::history::{ClosedSlot, HistoryError};

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
pub(super) async fn overview(shared: Shared) -> Response {
    blocking(move || render(&shared)).await
}

fn render(shared: &Shared) -> Response {
    let (version, views) = shared.clusters();
    let now = shared.now();
    let clusters: Vec<_> = views.iter().map(|view| (view, Status::of(view, now))).collect();
    if shared.rights().clusters.is_none() {
        shared.sparklines().forget_all_but(&clusters);
    }
    let content = html! {
        div.lead {
            h1 { "Clusters" }
            p.explain {
                "Each figure is the load of a whole cluster, never of a home, and lies within its ± band with 95 % confidence: \
                 the filtered load, estimated using earlier sums, once it is better than the last sum alone."
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
    let (_, groups) = shared.groups();
    let tree = Tree { groups: &groups, most_clusters: MOST_NAMED, now };
    html! {
        @if !groups.is_empty() {
            (section("groups", "Groups", &html! {}, &scroll("groups", &tree.render(&tree.roots()))))
        }
    }
}

type Clusters<'a> = [(&'a Arc<ClusterView>, Status)];

fn summary(clusters: &Clusters<'_>) -> Markup {
    let count = |standing: Standing| clusters.iter().filter(|(_, status)| status.standing == standing).count();
    html! {
        @for (standing, count) in Standing::ALL.map(|standing| (standing, count(standing))) {
            @let (class, label, meaning) = standing.words();
            li class={ "tile " (class) @if count == 0 { " none" } } {
                span.amount { (words::count(count)) } " "
                span.what { (label) } " "
                span.note { (meaning) }
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

fn card(shared: &Shared, view: &Arc<ClusterView>, status: &Status, now: Timestamp) -> Markup {
    let id = &view.cluster;
    let (standing, label) = (status.standing.words().1.to_lowercase(), status.label.to_lowercase());
    let earlier = view.last_decoded.filter(|_| status.standing != Standing::Decoded);
    let when = html! { @if let Some(closed) = earlier { ", slot to " (words::time(closed.outcome.end, now)) } };
    html! {
        li id={ "card-" (id) } class={ "card " (status.standing.words().0) } data-filter={ (id) " " (standing) " " (label) } data-live {
            article aria-labelledby={ "name-" (id) } {
                div.head {
                    h2 id={ "name-" (id) } { a id={ "to-" (id) } href={ "/clusters/" (id) } { (id) } }
                    (status.badge())
                }
                @if status.standing != Standing::Decoded { p.sentence { (status.sentence) } }
                (headline(view, now, &when))
                (shared.sparklines().of(shared, view, now))
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
    fn of(&self, shared: &Shared, view: &Arc<ClusterView>, now: Timestamp) -> Arc<Markup> {
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

fn draw(shared: &Shared, view: &Arc<ClusterView>, now: Timestamp) -> Result<Markup, HistoryError> {
    let past = Past::read(shared.history(), view, Range::DAY, now, SPARK_POINTS)?;
    if past.slots.is_empty() {
        return Ok(Markup::default());
    }
    let id = format!("spark-{}", view.cluster);
    let title = format!("Load of {} in the last 24 hours", view.cluster);
    Ok(sparkline(&past.series, &Caption { id: &id, title, description: described(&past.series) }))
}
