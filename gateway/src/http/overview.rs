//! The first page: every cluster with its load, how it is doing, and what to look at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use super::chart::{Caption, sparkline};
use super::html::{Html, html};
use super::query::MAX_LIMIT;
use super::series::Series;
use super::status::{Group, Status};
use super::{Shared, blocking, page, words};
use crate::board::{ClosedSlot, ClusterView, HistoryError};
use crate::slot_view::SlotView;

const DAY_SECONDS: u64 = 86_400;

/// So few that a page of a thousand clusters stays light.
const SPARK_POINTS: u64 = 96;

/// How many clusters that need attention are named at the top.
const MOST_NAMED: usize = 12;

/// Drawn sparklines: each is drawn again only when its cluster has closed a slot or should have.
#[derive(Debug, Default)]
pub(super) struct Sparklines {
    drawn: Mutex<HashMap<ClusterId, (SparkKey, Arc<Html>)>>,
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
    let cards: Html = clusters.iter().map(|(view, status)| card(shared, view, status, now)).collect();
    let content = html(
        include_str!("assets/overview.html"),
        &[&summary(&clusters), &attention(&clusters), &empty(clusters.is_empty()), &cards],
    );
    page::document(shared, StatusCode::OK, "Clusters", version, &content)
}

type Clusters<'a> = [(&'a ClusterView, Status)];

fn summary(clusters: &Clusters<'_>) -> Html {
    let tile = |group: Group| {
        let count = clusters.iter().filter(|(_, status)| status.group == group).count();
        let some = if count > 0 { "" } else { " none" };
        html(
            "<li class=\"tile {}{}\"><span class=\"amount\">{}</span> <span class=\"what\">{}</span> \
             <span class=\"note\">{}</span></li>",
            &[&group.class(), &some, &words::count(count), &group.label(), &group.meaning()],
        )
    };
    Group::ALL.into_iter().map(tile).collect()
}

/// The clusters that are stalled or gave no sum, by name.
fn attention(clusters: &Clusters<'_>) -> Html {
    let troubled: Vec<_> =
        clusters.iter().filter(|(_, status)| matches!(status.group, Group::Failed | Group::Stalled)).collect();
    if troubled.is_empty() {
        return Html::EMPTY;
    }
    let link = |(view, status): &&(&ClusterView, Status)| {
        let id = view.cluster.as_str();
        html(
            "<li><a id=\"look-{}\" href=\"/clusters/{}\">{}</a> <span class=\"note\">{}</span></li>",
            &[&id, &id, &id, &status.label],
        )
    };
    let links: Html = troubled.iter().take(MOST_NAMED).map(link).collect();
    let more = match troubled.len().saturating_sub(MOST_NAMED) {
        0 => Html::EMPTY,
        more => html("<li class=\"note\">and {} more</li>", &[&words::count(more)]),
    };
    html("<div class=\"attention\"><h2>Needs a look</h2><ul>{}{}</ul></div>", &[&links, &more])
}

fn empty(is_empty: bool) -> Html {
    if is_empty { html("<p class=\"note\">This gateway serves no cluster yet.</p>", &[]) } else { Html::EMPTY }
}

fn card(shared: &Shared, view: &ClusterView, status: &Status, now: Timestamp) -> Html {
    let id = view.cluster.as_str();
    let sentence = match status.group {
        Group::Decoded => Html::EMPTY,
        Group::Failed | Group::Stalled | Group::Waiting => html("<p class=\"sentence\">{}</p>", &[&status.sentence]),
    };
    html(
        include_str!("assets/card.html"),
        &[
            &status.group.class(),
            &id,
            &status.group.label().to_lowercase(),
            &status.label.to_lowercase(),
            &id,
            &id,
            &id,
            &id,
            &id,
            &status.badge(),
            &sentence,
            &figure(view, status.group, now),
            &shared.sparklines.of(shared, view, now),
            &facts(view, now),
        ],
    )
}

/// The last sum, large.
fn figure(view: &ClusterView, group: Group, now: Timestamp) -> Html {
    let Some((closed, load)) = view.last_decoded.and_then(|closed| Some((closed, closed.load()?))) else {
        return html("<p class=\"figure none\">No sum yet</p>", &[]);
    };
    let (load, band, unit) = words::load(load, closed.band95);
    let outcome = closed.outcome;
    let span = [outcome.start, outcome.end].map(|at| words::time(at, now));
    let which = if group == Group::Decoded { "Sum" } else { "Last sum," };
    html(
        "<p class=\"figure\"><strong>{} <span class=\"unit\">{}</span></strong> <span class=\"within\">± {} {}</span></p>\
         <p class=\"note\">{} of {} meters that answered, {}–{}</p>",
        &[&load, &unit, &band, &unit, &which, &words::count(outcome.responders), &span[0], &span[1]],
    )
}

fn facts(view: &ClusterView, now: Timestamp) -> Html {
    let mut facts: Vec<(Html, Html)> = Vec::new();
    let text = |text: String| html("{}", &[&text]);
    if let Some(closed) = &view.last_decoded {
        facts.push((text(format!("Estimate for all {}", words::count(closed.outcome.members))), estimate(closed)));
        facts.push((text("Filtered".into()), filtered(closed)));
    }
    match &view.last {
        Some(ClosedSlot { outcome, .. }) => {
            let answered = format!("{} of {}", words::count(outcome.responders), words::count(outcome.members));
            facts.push((text("Answered".into()), text(answered)));
            facts.push((text("Missing".into()), text(words::count(outcome.missing()))));
        }
        None => facts.push((text("Enrolled".into()), text(words::count(view.candidates)))),
    }
    if let Some(list) = &view.list {
        let epsilon = words::epsilon(list.params.charge_micro_epsilon());
        facts.push((text("ε per attempt".into()), text(epsilon)));
        facts.push((text("ε today".into()), text(words::epsilon(view.spent.at(now)))));
    }
    if let Some(due) = view.next_deadline {
        facts.push((text("Next deadline".into()), words::time(due, now)));
    }
    facts.iter().map(|(term, fact)| html("<div><dt>{}</dt><dd>{}</dd></div>", &[term, fact])).collect()
}

/// The sum scaled to all members.
pub(super) fn estimate(closed: &ClosedSlot) -> Html {
    let view = SlotView::from(closed);
    within(view.load_estimated_watts.zip(view.band95_estimated_watts))
}

/// What the filter made of the slot.
pub(super) fn filtered(closed: &ClosedSlot) -> Html {
    within(closed.filtered.map(|filtered| (filtered.watts, filtered.band95)))
}

/// A load in its band.
pub(super) fn within(load: Option<(i64, u64)>) -> Html {
    let Some((load, band)) = load else { return html("–", &[]) };
    let (load, band, unit) = words::load(load, band);
    html("{} <span class=\"within\">± {}</span> {}", &[&load, &band, &unit])
}

impl Sparklines {
    fn of(&self, shared: &Shared, view: &ClusterView, now: Timestamp) -> Arc<Html> {
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
            Err(error) => Arc::new(html("<p class=\"note\">No chart: {}.</p>", &[&error.with_cause()])),
        }
    }

    fn forget_all_but(&self, clusters: &Clusters<'_>) {
        let mut drawn = self.drawn.lock().expect("nobody panics while holding the sparklines");
        if drawn.len() > clusters.len() {
            drawn.retain(|id, _| clusters.iter().any(|(view, _)| view.cluster == *id));
        }
    }
}

fn draw(shared: &Shared, view: &ClusterView, now: Timestamp) -> Result<Html, HistoryError> {
    let from = Timestamp::from_secs(now.as_secs().saturating_sub(DAY_SECONDS));
    let slots = shared.slots(&view.cluster, from, now, MAX_LIMIT)?;
    if slots.is_empty() {
        return Ok(Html::EMPTY);
    }
    let series = Series::new(&slots, from, now, SPARK_POINTS);
    let id = format!("spark-{}", view.cluster);
    let title = format!("Load of {} in the last 24 hours", view.cluster);
    Ok(sparkline(&series, &Caption { id: &id, title, description: described(&series) }))
}

/// A chart in words.
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
