//! The page of a cluster's closed slots: how many ended how, and each of them, fifty at a time.

use std::sync::Arc;

use axum::http::{StatusCode, Uri};
use axum::response::Response;
use dream_protocol::aggregate::{Failure, SlotOutcome};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::cluster_page::{Tab, heading};
use super::headline::{Figures, figure};
use super::page::{self, choice, number, scroll, section, table};
use super::query::{Id, MAX_LIMIT, parse_instant};
use super::{Shared, blocking, words};
use crate::board::ClusterView;
use crate::history::ClosedSlot;

/// How many slots a page lists.
const PAGE: usize = 50;

/// Which slots are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Decoded,
    Failed(Failure),
}

impl Which {
    fn choices() -> impl Iterator<Item = Self> {
        [Self::All, Self::Decoded].into_iter().chain(Failure::ALL.map(Self::Failed))
    }

    /// As it stands in the address.
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Decoded => "decoded",
            Self::Failed(failure) => failure.as_str(),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Decoded => "Decoded",
            Self::Failed(failure) => words::failure(failure).0,
        }
    }

    fn has(self, outcome: &SlotOutcome) -> bool {
        match self {
            Self::All => true,
            Self::Decoded => outcome.result.is_ok(),
            Self::Failed(failure) => outcome.result == Err(failure),
        }
    }
}

/// What a page of slots was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    which: Which,
    /// Only slots that ended before this.
    before: Option<Timestamp>,
}

impl Asked {
    fn parse(uri: &Uri) -> Result<Self, Markup> {
        let given = page::parameters(uri, &["outcome", "before"])?;
        let which = given.get("outcome").map_or(Ok(Which::All), |name| {
            let names = || Which::choices().map(Which::name).collect::<Vec<_>>().join(", ");
            let known = Which::choices().find(|which| which.name() == name);
            known.ok_or_else(|| html! { code { "outcome" } " is one of " (names()) ", not " code { (name) } "." })
        })?;
        let before = given.get("before").map(|text| {
            let wrong =
                || html! { code { "before" } " is an instant such as 2026-01-31T12:00:00Z, not " code { (text) } "." };
            parse_instant(text).ok_or_else(wrong)
        });
        Ok(Self { which, before: before.transpose()? })
    }

    fn address(self, cluster: &ClusterId) -> String {
        let before = self.before.map_or_else(String::new, |before| format!("&before={}", before.as_secs()));
        format!("{}{before}", filtered(cluster, self.which.name()))
    }
}

/// Returns the address of the slots with an outcome.
fn filtered(cluster: &ClusterId, outcome: &str) -> String {
    format!("/clusters/{cluster}/slots?outcome={outcome}")
}

/// `GET /clusters/{id}/slots`.
pub(super) async fn slots(shared: Shared, Id(id): Id, uri: Uri) -> Response {
    let version = shared.version();
    let Some(view) = shared.cluster(&id) else { return page::unknown::<Arc<ClusterView>>(&shared, &id) };
    let asked = match Asked::parse(&uri) {
        Ok(asked) => asked,
        Err(wrong) => return page::error(&shared, StatusCode::BAD_REQUEST, "Not understood", &wrong),
    };
    blocking(move || render(&shared, &view, asked, version)).await
}

fn render(shared: &Shared, view: &ClusterView, asked: Asked, version: u64) -> Response {
    let now = shared.now();
    let kept = match shared.history().slots(&view.cluster, Timestamp::from_secs(0)..now, MAX_LIMIT) {
        Ok(kept) => kept,
        Err(error) => return page::no_past(shared, &error),
    };
    let before = |slot: &&ClosedSlot| asked.before.is_none_or(|before| slot.outcome.end < before);
    let mut matching = kept.iter().rev().filter(before).filter(|slot| asked.which.has(&slot.outcome));
    let shown: Vec<ClosedSlot> = matching.by_ref().take(PAGE).copied().collect();
    let older = matching.next().and_then(|_| shown.last()).map(|last| last.outcome.end);
    let total = kept.iter().filter(|slot| asked.which.has(&slot.outcome)).count();
    let choices: Vec<_> = Which::choices()
        .map(|which| {
            let href = filtered(&view.cluster, which.name());
            (format!("outcome-{}", which.name()), href, which.label(), which == asked.which)
        })
        .collect();
    let content = html! {
        (heading(view, now, Tab::Slots))
        (section("outcomes", "Outcomes of all slots that are kept", &html! {}, &scroll("outcomes", &outcomes(&view.cluster, &kept, true))))
        (section("slots", "Slots, newest first", &choice("Outcome", &choices), &html! {
            (scroll("slots", &slot_table(&shown, now)))
            nav.pages aria-label="Pages of slots" {
                (turn(&view.cluster, asked, older))
                span.note { (words::count(shown.len())) " of " (words::count(total)) }
            }
        }))
    };
    page::document(shared, StatusCode::OK, &format!("Slots of {}", view.cluster), version, &content)
}

/// Shows links to the newest and to the next older slots.
fn turn(cluster: &ClusterId, asked: Asked, older: Option<Timestamp>) -> Markup {
    html! {
        @if asked.before.is_some() { a #newest href=(Asked { before: None, ..asked }.address(cluster)) { "Newest" } }
        @if let Some(end) = older { a #older href=(Asked { before: Some(end), ..asked }.address(cluster)) { "Older" } }
    }
}

/// Shows how slots ended, with links to those slots; `every` outcome, or those there were.
pub(super) fn outcomes(cluster: &ClusterId, slots: &[ClosedSlot], every: bool) -> Markup {
    let row = |which: Which, class: &str, meaning: &str| {
        let found = slots.iter().filter(|slot| which.has(&slot.outcome)).count();
        if found == 0 && !every {
            return Markup::default();
        }
        html! {
            tr class={ (class) @if found == 0 { " none" } } {
                th scope="row" {
                    @if found == 0 { (which.label()) } @else { a href=(filtered(cluster, which.name())) { (which.label()) } }
                    " " span.note { (meaning) }
                }
                td.number { (words::count(found)) }
                td.number { (words::percent(found, slots.len())) }
            }
        }
    };
    html! {
        table.outcomes {
            thead {
                tr {
                    th scope="col" { "Outcome" }
                    @for name in ["Slots", "Share"] { th.number scope="col" { (name) } }
                }
            }
            tbody {
                @if slots.is_empty() && !every { tr { td colspan="3" { "No slot has closed." } } }
                (row(Which::Decoded, "decoded", "The slot gave a sum."))
                @for failure in Failure::ALL { (row(Which::Failed(failure), "failed", words::failure(failure).1)) }
            }
        }
    }
}

/// Shows a row for each slot, in this order.
pub(super) fn slot_table(slots: &[ClosedSlot], now: Timestamp) -> Markup {
    const NUMBERS: [&str; 6] = ["Plain sum", "Estimate for all", "Filtered", "Answered", "Attempts", "List"];
    let row = |closed: &ClosedSlot| {
        let (outcome, figures) = (closed.outcome, Figures::of(closed));
        let absent = if figures.is_none() { " absent" } else { "" };
        html! {
            tr {
                th scope="row" { (words::period(outcome.start, outcome.end, now)) }
                td { (outcome_badge(&outcome)) }
                (number(NUMBERS[0], absent, &figure(figures.map(|figures| figures.sum))))
                (number(NUMBERS[1], &format!(" minor{absent}"), &figure(figures.and_then(|figures| figures.estimate))))
                (number(NUMBERS[2], absent, &figure(figures.and_then(|figures| figures.filtered))))
                (number(NUMBERS[3], "", &html! { (words::count(outcome.responders)) " of " (words::count(outcome.members)) }))
                (number(NUMBERS[4], " minor", &html! { (outcome.attempts) }))
                (number(NUMBERS[5], " minor", &words::epoch(outcome.epoch, now)))
            }
        }
    };
    table(&["Slot (UTC)", "Outcome"], &NUMBERS, slots.iter().map(row), "There is no such slot.")
}

fn outcome_badge(outcome: &SlotOutcome) -> Markup {
    let decoded = ("decoded", "Decoded");
    let (class, label) = outcome.result.map_or_else(|cause| ("failed", words::failure(cause).0), |_| decoded);
    html! { span class={ "badge " (class) } { (label) } }
}
