//! How a cluster is doing, in a word, a sentence and a tone.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::cluster_json::ClusterState;
use super::words;
use crate::board::ClusterView;

/// Where a cluster counts in the overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its last slot gave a sum.
    Decoded,
    /// Its last slot gave none.
    Failed,
    Stalled,
    Waiting,
}

impl Standing {
    pub(super) const ALL: [Self; 4] = [Self::Decoded, Self::Failed, Self::Stalled, Self::Waiting];

    /// Returns the class that gives it its tone, a word, and what that means.
    pub(super) const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Decoded => ("decoded", "Decoded", "last slot gave a sum"),
            Self::Failed => ("failed", "No sum", "last slot gave none"),
            Self::Stalled => ("stalled", "Stalled", "no slot closes"),
            Self::Waiting => ("waiting", "Waiting", "not started yet"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Status {
    pub(super) standing: Standing,
    /// A few words.
    pub(super) label: &'static str,
    pub(super) sentence: Markup,
}

impl Status {
    pub(super) fn of(view: &ClusterView, now: Timestamp) -> Self {
        let (standing, label, sentence) = match ClusterState::of(view, now) {
            ClusterState::WaitingForMembers => (Standing::Waiting, "Waiting for members", enrolled(view)),
            ClusterState::CannotForm => (Standing::Waiting, "Cannot form a list", cannot_form(view)),
            ClusterState::WaitingForFirstSlot => (Standing::Waiting, "Waiting for first slot", first_slot(view, now)),
            ClusterState::Stalled => (Standing::Stalled, "Stalled", stalled(view, now)),
            ClusterState::Running => last_slot(view, now),
        };
        Self { standing, label, sentence }
    }

    pub(super) fn badge(&self) -> Markup {
        html! { span class={ "badge " (self.standing.words().0) } { (self.label) } }
    }
}

fn enrolled(view: &ClusterView) -> Markup {
    let (found, needed) = (words::count(view.candidates), words::count(view.min_members));
    html! { (found) " meters are enrolled; a membership list needs at least " (needed) "." }
}

fn cannot_form(view: &ClusterView) -> Markup {
    let reason = view.cannot_form.as_deref().unwrap_or("the reason is unknown");
    html! { "No membership list can be formed: " (reason) "." }
}

fn first_slot(view: &ClusterView, now: Timestamp) -> Markup {
    let Some(list) = &view.list else { return Markup::default() };
    let end = words::time(list.params.slot_end(list.from_slot), now);
    html! { "The membership " (words::list(list.epoch, now)) " is published; its first slot ends at " (end) "." }
}

fn stalled(view: &ClusterView, now: Timestamp) -> Markup {
    let since = view.last.map_or(view.since, |closed| closed.outcome.end.max(view.since));
    let every = words::duration(view.slot_seconds);
    html! { "No slot has closed since " (words::time(since, now)) ", although one should every " (every) "." }
}

fn last_slot(view: &ClusterView, now: Timestamp) -> (Standing, &'static str, Markup) {
    let Some(outcome) = view.last.map(|closed| closed.outcome) else {
        return (Standing::Waiting, "Waiting for first slot", Markup::default());
    };
    let (start, end) = (words::time(outcome.start, now), words::time(outcome.end, now));
    match outcome.result {
        Ok(_) => (Standing::Decoded, "Decoded", html! { "The slot from " (start) " to " (end) " gave a sum." }),
        Err(failure) => {
            let label = words::failure(failure).0;
            (Standing::Failed, label, html! { "The slot from " (start) " to " (end) " gave no sum." })
        }
    }
}
