//! What the page of a cluster has of its own, and what its other pages begin with.

use std::sync::Arc;

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::cluster_json::ClusterState;
use super::headline::{Figures, figure, headline};
use super::load_page::LoadPage;
use super::page::{scroll, section, tile};
use super::past::Past;
use super::range::Range;
use super::reasons::reasons;
use super::series::Series;
use super::slots_page::{outcomes, slot_table};
use super::status::{Standing, Status};
use super::terms::privacy;
use super::{Shared, words};
use crate::board::ClusterView;
use crate::board::energy::EnergyJson;
use crate::clock::Period;
use crate::history::{ClosedSlot, Rollup, Step};

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

impl LoadPage for Arc<ClusterView> {
    const EXPLAINED: &'static str = "Loads contain noise: with 95 % confidence the true load is within the ± band. \
         The plain sum adds up the meters that answered. The estimate assumes that silent meters used as much as \
         those. The filtered load is estimated using earlier sums. It has less noise, its band comes from a model, \
         and it lags: after a lasting change, its band is too narrow for hours. A load below 0 is noise around a \
         small load, or homes that feed in more than the others draw.";

    fn heading(&self, _: &Shared, now: Timestamp) -> Markup {
        heading(self, now, Tab::Load)
    }

    fn state(&self, now: Timestamp) -> Markup {
        let when =
            html! { @if let Some(closed) = self.last_decoded { ", slot to " (words::time(closed.outcome.end, now)) } };
        let found = reasons(self, now);
        let status = Status::of(self, now);
        // A sum speaks for itself, and after a long time without one, the reason is the sentence.
        let state = ClusterState::of(self, now);
        let silent =
            status.standing == Standing::Decoded || matches!(state, ClusterState::Stalled | ClusterState::CannotForm);
        html! {
            (headline(self, now, &when))
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

    fn legend(series: &Series) -> Markup {
        html! {
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
    }

    fn energy(&self, now: Timestamp) -> Vec<(Period, EnergyJson, Markup)> {
        let Some(energy) = &self.energy else { return Vec::new() };
        let tile = |(period, rollup): (Period, Rollup)| {
            let since = rollup.start.max(energy.extent.begun);
            let when = words::period(since, rollup.end.min(energy.extent.until), now);
            (period, EnergyJson::new(&rollup, energy.extent), when)
        };
        energy.running(now).map(tile).collect()
    }

    /// Later figures have their place here.
    fn tiles(&self, now: Timestamp) -> Markup {
        let decoded = self.recent_decoded(now).and_then(|closed| Some((closed.outcome, Figures::of(closed)?)));
        let due = self.next_deadline.map_or_else(|| html! { "–" }, |due| words::time(due, now));
        html! {
            @if let Some((outcome, figures)) = decoded {
                (tile("Plain sum", &figure(Some(figures.sum)), &html! { "of " (words::count(outcome.responders)) " that answered" }))
                (tile("Estimate for all", &figure(figures.estimate), &html! {
                    "the sum scaled up to " (words::count(outcome.members)) " members"
                }))
            }
            @if let Some(ClosedSlot { outcome, .. }) = self.last {
                (tile("Answered", &html! {
                    (words::count(outcome.responders)) " " span.within { "of " (words::count(outcome.members)) }
                }, &html! {
                    @if outcome.responders == 0 { "none was heard in the last slot" }
                    @else { (words::count(outcome.missing())) " missing in the last slot" }
                }))
            } @else {
                (tile("Enrolled", &html! { (words::count(self.candidates)) }, &html! {
                    "at least " (words::count(self.min_members)) " needed"
                }))
            }
            @if let Some(holders) = self.recent_holders(now) {
                (tile("Holders", &html! {
                    (words::count(holders.answered)) " " span.within { "of " (words::count(holders.holders)) }
                }, &html! {
                    "answered; " (words::count(holders.needed)) " are needed, " (words::count(holders.spare())) " to spare"
                    @if holders.wrong > 0 { ", " (words::count(holders.wrong)) " wrong" }
                }))
            }
            @if let Some(list) = &self.list {
                (tile("ε today", &html! { (words::epsilon(self.spent.at(now))) }, &html! {
                    "spent by a meter that took part in all, " (words::epsilon(list.params.charge_micro_epsilon())) " an attempt"
                }))
            }
            (tile("Next deadline", &due, &html! { "a slot every " (words::duration(self.slot_seconds)) }))
        }
    }

    fn inner_sections(&self, _: &Shared, range: Range, past: &Past<Self>) -> Markup {
        let kept = if past.series.step.is_some() { ", of slots that are kept" } else { "" };
        let table = outcomes(&self.cluster, &past.slots, false);
        section("outcomes", &format!("Outcomes {}{kept}", range.words), &html! {}, &scroll("outcomes", &table))
    }

    fn slot_table(slots: &[ClosedSlot], now: Timestamp) -> Markup {
        slot_table(slots, now)
    }

    fn all_slots(&self) -> Markup {
        html! { a #all-slots href={ "/clusters/" (self.cluster) "/slots" } { "All slots" } }
    }

    fn before_downloads(&self, now: Timestamp) -> Option<Markup> {
        let content = html! {
            (privacy(self, now))
            p { a href={ "/clusters/" (self.cluster) "/lists" } { "All terms of the list" } }
        };
        Some(section("privacy", "Privacy", &html! {}, &content))
    }

    fn signed_list(&self, api: &str, now: Timestamp) -> Markup {
        html! {
            @if let Some(list) = &self.list {
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
        }
    }
}
