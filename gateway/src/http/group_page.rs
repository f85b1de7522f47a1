//! What the page of a group has of its own: the load of its clusters together, and what it is the sum of.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::group_json::GroupEnergyJson;
use super::group_tree::{Tree, in_sum, served_here};
use super::headline::{Figure, Figures, figure, large};
use super::load_page::LoadPage;
use super::page::{number, scroll, section, table, tile};
use super::past::Past;
use super::range::Range;
use super::series::Series;
use super::{Shared, words};
use crate::board::energy::EnergyJson;
use crate::board::group::{GroupPeriod, GroupSlot, GroupView};
use crate::clock::Period;
use crate::config::Part;
use crate::history::Step;

/// How many clusters that are not in the sum are named.
const MOST_NAMED: usize = 6;

impl LoadPage for GroupView {
    const EXPLAINED: &'static str = "A group adds up what its clusters released, so it costs no home any further \
         privacy. The noise of different clusters is independent: the band of a sum is narrower than the sum of the \
         bands, and holds the true load with 95 % confidence. The estimate assumes that silent meters used as much \
         as those that answered. The filtered load is the sum of the clusters\u{2019} own, and its band assumes \
         independent errors: it leaves out what the weather or a holiday does to all at once. A sum that lacks \
         clusters says so. Where a cluster gave no sum, its own filter\u{2019}s expectation fills the gap, and is \
         counted as such.";
    const CHART_NOTE: &'static str = "A line ends where other clusters are in the sum than before. ";

    /// The way up is to the groups that this one is in, and to all clusters.
    fn heading(&self, shared: &Shared, now: Timestamp) -> Markup {
        let (part, (_, groups)) = (Part::Group(self.id.clone()), shared.groups());
        html! {
            nav.crumbs aria-label="Breadcrumb" {
                a #up href="/" { "All clusters" }
                @for above in groups.iter().filter(|above| above.group.of.contains(&part)) {
                    " " a id={ "up-" (above.id) } href={ "/groups/" (above.id) } { (above.id) }
                }
            }
            div #cluster-head.head data-live { h1 #cluster-name { (self.id) } (in_sum(self, self.current(now).as_ref())) }
        }
    }

    fn state(&self, now: Timestamp) -> Markup {
        let slot = self.current(now);
        html! {
            @match slot.and_then(|slot| Some((slot, Figures::of_group(&slot)?))) {
                None => p.figure.none { "No sum now" },
                Some((slot, figures)) => (headline(&slot, &figures, now)),
            }
            @if self.served.len() < self.group.clusters.len() {
                p.sentence { "This gateway is one of several replicas: " (served_here(self)) ", and only they are in its sums." }
            }
            @if let Some(slot) = slot { (absent(self, &slot)) }
        }
    }

    fn legend(series: &Series) -> Markup {
        html! {
            li.key-filtered { "Filtered load" }
            li.key-load { "Estimate of each " (series.step.map_or("slot", Step::as_str)) " alone" }
            li.key-failure { "Not all clusters are in the sum" }
        }
    }

    fn energy(&self, now: Timestamp) -> Vec<(Period, EnergyJson, Markup)> {
        let tile = |(period, energy): (Period, GroupPeriod)| {
            let GroupPeriod { total, clusters, in_sum, .. } = energy;
            let when = html! {
                (words::period(total.first, total.last, now))
                @if in_sum < clusters { ", " (in_sum) " of " (clusters) " clusters" }
            };
            (period, GroupEnergyJson::from(&energy).energy, when)
        };
        self.energy(now).into_iter().map(tile).collect()
    }

    fn tiles(&self, now: Timestamp) -> Markup {
        html! {
            @if let Some(slot) = self.current(now) {
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
            (tile("Slot", &html! { (words::duration(self.group.slot_seconds)) }, &html! { "in all of its clusters" }))
        }
    }

    fn inner_sections(&self, shared: &Shared, _: Range, past: &Past<Self>) -> Markup {
        let (_, groups) = shared.groups();
        let tree = Tree { groups: &groups, most_clusters: usize::MAX, now: past.now };
        section("parts", "What it is the sum of", &html! {}, &scroll("parts", &tree.render(&[self])))
    }

    fn slot_table(slots: &[GroupSlot], now: Timestamp) -> Markup {
        const NUMBERS: [&str; 4] = ["Estimate for all", "Plain sum", "Filtered", "Clusters in the sum"];
        let row = |slot: &GroupSlot| {
            html! {
                tr {
                    th scope="row" { (words::period(slot.start, slot.end, now)) }
                    (number(NUMBERS[0], "", &figure(slot.estimate().map(Figure::from))))
                    (number(NUMBERS[1], " minor", &figure(slot.sum().map(Figure::from))))
                    (number(NUMBERS[2], "", &figure(slot.filtered().map(Figure::from))))
                    (number(NUMBERS[3], "", &html! {
                        (words::count(slot.in_sum)) " of " (words::count(slot.clusters))
                        @if slot.filled > 0 { ", " (words::count(slot.filled)) " filled in" }
                    }))
                }
            }
        };
        table(&["Slot (UTC)"], &NUMBERS, slots.iter().map(row), "There is no such slot.")
    }
}

fn headline(slot: &GroupSlot, figures: &Figures, now: Timestamp) -> Markup {
    let clusters = words::count(slot.clusters);
    let filtered = figures.filtered.is_some();
    html! {
        (large(figures.best()))
        p.what {
            "Load of all members of "
            @if slot.is_whole() { "all " (clusters) } @else { (words::count(slot.added())) " of " (clusters) }
            " clusters" @if filtered { ", filtered" } ", slot to " (words::time(slot.end, now)) (figures.of_which_estimated())
        }
        p.second { (figures.why()) }
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
