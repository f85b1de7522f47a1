//! The page of a cluster's membership lists: the terms in words, who refuses them, and what came of earlier lists.

use std::sync::Arc;

use axum::http::{StatusCode, Uri};
use axum::response::Response;
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::cluster_page::{Tab, heading};
use super::page::{self, number, scroll, section, table};
use super::query::{Id, MAX_LIMIT};
use super::reasons::reasons;
use super::terms::terms;
use super::{Shared, blocking, words};
use crate::board::{ClusterView, ListView};
use crate::history::ClosedSlot;

/// How many earlier lists are shown.
const MOST_LISTS: usize = 100;

const IN_FORCE: &str = "in force";

/// `GET /clusters/{id}/lists`.
pub(super) async fn lists(shared: Shared, Id(id): Id, uri: Uri) -> Response {
    let version = shared.version();
    let Some(view) = shared.cluster(&id) else { return page::unknown::<Arc<ClusterView>>(&shared, &id) };
    if let Err(wrong) = page::parameters(&uri, &[]) {
        return page::error(&shared, StatusCode::BAD_REQUEST, "Not understood", &wrong);
    }
    blocking(move || render(&shared, &view, version)).await
}

fn render(shared: &Shared, view: &ClusterView, version: u64) -> Response {
    let now = shared.now();
    let kept = match shared.history().slots(&view.cluster, Timestamp::from_secs(0)..now, MAX_LIMIT) {
        Ok(mut kept) => {
            kept.retain(ClosedSlot::is_of_a_list);
            kept
        }
        Err(error) => return page::no_past(shared, &error),
    };
    let content = html! {
        (heading(view, now, Tab::Lists))
        (section("lists", "Lists and their terms", &html! {}, &in_words(view, now)))
        (section("earlier", "Slots closed under each list", &html! {}, &scroll("earlier", &earlier(&kept, now))))
    };
    page::document(shared, StatusCode::OK, &format!("Lists of {}", view.cluster), version, &content)
}

/// Shows the lists that are in force or come next.
fn in_words(view: &ClusterView, now: Timestamp) -> Markup {
    html! {
        p.explain {
            "A list names the members of a cluster and the terms that they take part on. The gateway signs it, and every \
             meter checks it by its own policy before it sends anything."
        }
        @for reason in reasons(view, now) { p.why { (reason.text) "." } }
        @match &view.list {
            None => p.note {
                "There is no list yet: " (words::count(view.candidates)) " meters are enrolled, and at least "
                (words::count(view.min_members)) " are needed."
            },
            Some(list) => {
                @let begun = list.params.slot_start(list.from_slot) <= now;
                (one(list, view.profile, if begun { IN_FORCE } else { "begins soon" }, now))
                @if let Some(next) = &view.next_list { (one(next, view.profile, "next", now)) }
            }
        }
    }
}

fn one(list: &ListView, profile: Profile, state: &str, now: Timestamp) -> Markup {
    html! {
        article.panel aria-label={ "L" (&words::list(list.epoch, now)[1..]) } {
            div.head { h3 { "List of " (words::epoch(list.epoch, now)) } span class={ "badge" @if state == IN_FORCE { " decoded" } } { (state) } }
            (terms(list, profile, now))
        }
    }
}

/// Shows the lists that slots were closed under, newest first.
fn earlier(kept: &[ClosedSlot], now: Timestamp) -> Markup {
    const NUMBERS: [&str; 5] = ["Members", "ε per attempt", "Noise λ", "Slots", "With a sum"];
    let row = |slots: &[ClosedSlot]| {
        let (first, last) = (slots[0].outcome, slots[slots.len() - 1].outcome);
        let decoded = slots.iter().filter(|slot| slot.outcome.result.is_ok()).count();
        html! {
            tr {
                th scope="row" { (words::epoch(first.epoch, now)) }
                td { (words::period(first.start, last.end, now)) }
                (number(NUMBERS[0], "", &html! { (words::count(last.members)) }))
                (number(NUMBERS[1], "", &html! { (words::epsilon(last.micro_epsilon)) }))
                (number(NUMBERS[2], "", &html! { (words::watts(last.noise_scale.as_f64())) }))
                (number(NUMBERS[3], "", &html! { (words::count(slots.len())) }))
                (number(NUMBERS[4], "", &html! { (words::percent(decoded, slots.len())) }))
            }
        }
    };
    let lists = kept.chunk_by(|a, b| a.outcome.epoch == b.outcome.epoch).rev().take(MOST_LISTS);
    table(&["List", "Time (UTC)"], &NUMBERS, lists.map(row), "No slot has closed yet.")
}
