//! What pages say in a demonstration: that its time is simulated, and which slots were filled in.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::{Shared, words};
use crate::clock::rfc3339;
use crate::history::ClosedSlot;

/// Returns the clock of a demonstration; nothing where time is real.
pub(super) fn clock(shared: &Shared) -> Markup {
    // It passes too fast for seconds.
    let now = Timestamp::from_secs(shared.now().as_secs() / 60 * 60);
    html! {
        @if shared.service.clock.is_simulated() {
            p #simulated.simulated data-live {
                strong { "Simulated time" } " "
                time datetime=(rfc3339(now)) { (words::day(now)) ", " (words::clock(now)) }
                " UTC. Homes and meters are simulated, and their time passes faster than yours."
            }
        }
    }
}

/// Returns a line about the slots that were filled in, if there are any.
pub(super) fn filled_in(slots: &[ClosedSlot], now: Timestamp) -> Markup {
    let last = slots.iter().rfind(|closed| closed.is_backfilled()).map(|closed| closed.outcome.end);
    html! {
        @if let Some(end) = last {
            p.note {
                "The slots until " (words::time(end, now)) " were filled in by the demo: no meter reported them. They are \
                 made of the same homes with the exact same noise, without the masks, and no metric and no energy counts them."
            }
        }
    }
}

/// Returns a mark for a slot that was filled in.
pub(super) fn mark(closed: &ClosedSlot) -> Markup {
    html! { @if closed.is_backfilled() { " " span.note { "filled in by the demo" } } }
}
