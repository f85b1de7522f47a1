//! The number that says most about a cluster's load now, and those beside it.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::words;
use crate::board::ClusterView;
use crate::board::group::GroupSlot;
use crate::history::{ClosedSlot, FilteredLoad, Load};

/// A load in watts, and half the width of the band that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) watts: i64,
    pub(super) band95: u64,
}

impl Figure {
    /// Returns what a load that is surely below 0 means.
    fn direction(self) -> &'static str {
        let highest = self.watts.saturating_add_unsigned(self.band95);
        if highest < 0 { ". Its homes feed in more than they draw" } else { "" }
    }
}

impl From<Load> for Figure {
    fn from(Load { watts, band95, .. }: Load) -> Self {
        Self { watts, band95 }
    }
}

impl From<FilteredLoad> for Figure {
    fn from(FilteredLoad { watts, band95 }: FilteredLoad) -> Self {
        Self { watts, band95 }
    }
}

/// What is known about the load from a slot that gave a sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// The sum of those who answered.
    pub(super) sum: Figure,
    /// That sum, scaled to all members.
    pub(super) estimate: Option<Figure>,
    pub(super) filtered: Option<Figure>,
}

impl Figures {
    /// Returns `None` for a slot without a sum.
    pub(super) fn of(closed: &ClosedSlot) -> Option<Self> {
        Some(Self {
            sum: closed.sum()?.into(),
            estimate: closed.estimate().map(Figure::from),
            filtered: closed.filtered.map(Figure::from),
        })
    }

    /// Returns the same of a group; `None` if no cluster gave a sum.
    pub(super) fn of_group(slot: &GroupSlot) -> Option<Self> {
        Some(Self {
            sum: slot.sum()?.into(),
            estimate: slot.estimate().map(Figure::from),
            filtered: slot.filtered().map(Figure::from),
        })
    }

    /// Returns the filtered load, once the filter has seen enough that it knows more than the sum alone tells.
    pub(super) fn warm(&self) -> Option<Figure> {
        self.filtered.filter(|filtered| self.estimate.is_none_or(|estimate| filtered.band95 < estimate.band95))
    }

    /// Returns the best number: the filtered load, or else the sum.
    pub(super) fn best(&self) -> Figure {
        self.warm().unwrap_or(self.sum)
    }

    /// Returns the best number that is of all members: the filtered load, or else the estimate.
    pub(super) fn best_of_all(&self) -> Figure {
        self.warm().or(self.estimate).unwrap_or(self.sum)
    }
}

/// Shows a load in large type.
pub(super) fn large(figure: Figure) -> Markup {
    let (load, band, unit) = words::load(figure.watts, figure.band95);
    html! { p.figure { strong { (load) } " " span.within { "± " (band) } " " span.unit { (unit) } } }
}

/// Shows the best number in large type, and says what it is. A load that is too old to stand for the present is no headline: it is
/// shown as the last known one, with its age.
pub(super) fn headline(view: &ClusterView, now: Timestamp, when: &Markup) -> Markup {
    let Some((closed, figures)) = view.last_decoded.and_then(|closed| Some((closed, Figures::of(&closed)?))) else {
        return html! { p.figure.none { "No sum yet" } };
    };
    if view.recent_decoded(now).is_none() {
        let age = words::age(view.load_age(now).unwrap_or_default());
        return html! {
            p.figure.none { "No load now" }
            p.stale { "Last known " (figure(Some(figures.best()))) ", " span.age { (age) " old" } }
        };
    }
    let (members, answered) = (words::count(closed.outcome.members), words::count(closed.outcome.responders));
    html! {
        (large(figures.best()))
        @match figures.warm() {
            Some(_) => {
                p.what { "Load of all " (members) " members, filtered" (when) (figures.best().direction()) }
                p.second { "Plain sum " (figure(Some(figures.sum))) }
            }
            None => p.what { "Plain sum of " (answered) " of " (members) " meters" (when) (figures.best().direction()) }
        }
    }
}

/// Shows a load in its band, or a dash.
pub(super) fn figure(figure: Option<Figure>) -> Markup {
    let Some(Figure { watts, band95 }) = figure else { return html! { "–" } };
    let (load, band, unit) = words::load(watts, band95);
    html! { (load) " " span.within { "± " (band) } " " (unit) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use dream_testkit::outcomes::Slotted;

    use super::*;

    #[test]
    fn a_load_that_is_surely_below_0_is_fed_in() {
        let shown = |watts| Figure { watts, band95: 27_000 }.direction();
        assert_eq!(shown(-90_000), ". Its homes feed in more than they draw");
        assert_eq!(shown(-9000), "", "it may be noise");
        assert_eq!(shown(90_000), "");
    }

    #[test]
    fn the_filtered_load_is_best_once_its_band_is_narrower_than_that_of_the_scaled_sum() {
        let sum = ClosedSlot::from(Slotted::new(7).decoded(50_000, 95));
        let with = |band95| Figures::of(&ClosedSlot { filtered: Some(FilteredLoad { watts: 51_000, band95 }), ..sum });
        let plain = Figure::from(sum.sum().unwrap());
        assert_eq!(Figures::of(&sum).unwrap().best(), plain);
        assert_eq!(with(plain.band95 + 4000).unwrap().best(), plain, "it is still learning");
        assert_eq!(with(9000).unwrap().best(), Figure { watts: 51_000, band95: 9000 });
        assert!(Figures::of(&ClosedSlot::from(Slotted::new(8).failed("interrupted", 0))).is_none());
    }
}
