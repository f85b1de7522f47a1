//! Groups and clusters as a tree: what each is the sum of, with the loads of all of them.

use std::collections::BTreeSet;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::headline::{Figures, figure};
use super::status::Status;
use super::words;
use crate::board::energy::EnergyJson;
use crate::board::group::{GroupSlot, GroupView};
use crate::clock::Period;
use crate::config::{GroupId, Part};
use crate::history::Rollup;

/// How deep rows are indented at most, by classes of the style sheet.
const DEEPEST: usize = 6;

/// Groups that may be shown, and how many clusters of each.
pub(super) struct Tree<'a> {
    pub(super) groups: &'a [GroupView],
    pub(super) most_clusters: usize,
    pub(super) now: Timestamp,
}

impl Tree<'_> {
    /// Returns the groups that are in no other group.
    pub(super) fn roots(&self) -> Vec<&GroupView> {
        let parts = self.groups.iter().flat_map(|view| &view.group.of);
        let inner: BTreeSet<&GroupId> = parts.filter_map(group_of).collect();
        self.groups.iter().filter(|view| !inner.contains(&view.id)).collect()
    }

    /// Shows a table of these groups and everything in them.
    pub(super) fn render(&self, roots: &[&GroupView]) -> Markup {
        html! {
            table.tree.stacks {
                thead {
                    tr {
                        th scope="col" { "Group or cluster" }
                        th.number scope="col" { "Load" }
                        th.number scope="col" { "Energy today" }
                        th scope="col" { "State" }
                    }
                }
                tbody { @for root in roots { (self.group(root, 0, "")) } }
            }
        }
    }

    fn group(&self, view: &GroupView, depth: usize, above: &str) -> Markup {
        let id = format!("{above}-{}", view.id);
        let slot = view.current(self.now);
        let clusters = || view.group.of.iter().filter_map(cluster_of);
        html! {
            tr.group {
                th scope="row" class=(indented(depth)) { a id={ "tree" (id) } href={ "/groups/" (view.id) } { (view.id) } }
                td.number data-name="Load" { (figure(slot.as_ref().and_then(Figures::of_group).map(|figures| figures.best()))) }
                @let today = view.energy(self.now).into_iter().find(|(period, _)| *period == Period::Day);
                td.number.minor data-name="Energy today" { (energy(today.map(|(_, today)| today.total))) }
                td { (in_sum(view, slot.as_ref())) }
            }
            @for group in view.group.of.iter().filter_map(group_of) {
                @if let Some(inner) = self.groups.iter().find(|view| view.id == *group) {
                    (self.group(inner, depth + 1, &id))
                }
            }
            @for cluster in clusters().take(self.most_clusters) { (self.cluster(view, cluster, depth + 1, &id)) }
            @if let more @ 1.. = clusters().count().saturating_sub(self.most_clusters) {
                tr { td.note class=(indented(depth + 1)) colspan="4" { "and " (words::count(more)) " more clusters" } }
            }
        }
    }

    fn cluster(&self, parent: &GroupView, cluster: &ClusterId, depth: usize, above: &str) -> Markup {
        let view = parent.served.iter().map(|shown| &shown.view).find(|view| view.cluster == *cluster);
        html! {
            tr {
                @if let Some(view) = view {
                    th scope="row" class=(indented(depth)) {
                        a id={ "tree" (above) "-" (cluster) } href={ "/clusters/" (cluster) } { (cluster) }
                    }
                    @let figures = view.recent(self.now).and_then(Figures::of);
                    td.number data-name="Load" { (figure(figures.map(|figures| figures.best()))) }
                    @let today = view.energy.as_ref().and_then(|energy| energy.running_period(Period::Day, self.now));
                    td.number.minor data-name="Energy today" { (energy(today)) }
                    td { (Status::of(view, self.now).badge()) }
                } @else {
                    th scope="row" class=(indented(depth)) { (cluster) }
                    td.number.absent { "–" }
                    td.number.absent { "–" }
                    td.note { "served by another replica" }
                }
            }
        }
    }
}

fn group_of(part: &Part) -> Option<&GroupId> {
    match part {
        Part::Group(group) => Some(group),
        Part::Cluster(_) => None,
    }
}

fn cluster_of(part: &Part) -> Option<&ClusterId> {
    match part {
        Part::Cluster(cluster) => Some(cluster),
        Part::Group(_) => None,
    }
}

fn energy(rollup: Option<Rollup>) -> Markup {
    let Some(rollup) = rollup else { return html! { "–" } };
    words::energy_within(&EnergyJson::of(&rollup))
}

fn indented(depth: usize) -> String {
    format!("depth-{}", depth.min(DEEPEST))
}

/// Says how many clusters are in a group's load. A part never looks like the whole.
pub(super) fn in_sum(view: &GroupView, slot: Option<&GroupSlot>) -> Markup {
    let (added, of) = (slot.map_or(0, GroupSlot::added), view.group.clusters.len());
    let class = match added {
        0 => "stalled",
        added if added < of => "failed",
        _ => "decoded",
    };
    html! {
        span class={ "badge " (class) } {
            @if added == of && of > 1 { "All " }
            @else if added < of { (words::count(added)) " of " }
            (words::count(of)) @if of == 1 { " cluster" } @else { " clusters" }
            @if let Some(filled @ 1..) = slot.map(|slot| slot.filled) { ", " (words::count(filled)) " filled in" }
        }
        @if view.served.len() < of { " " span.note { (served_here(view)) } }
    }
}

/// Says how many clusters of a group this replica serves.
pub(super) fn served_here(view: &GroupView) -> String {
    let (served, of) = (words::count(view.served.len()), words::count(view.group.clusters.len()));
    format!("{served} of {of} clusters are served here")
}
