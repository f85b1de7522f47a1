//! The number that says most about a cluster's load now, and those beside it.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::words;
use crate::board::ClusterView;
use crate::board::group::GroupSlot;
use crate::history::{Best, ClosedSlot, FilteredLoad, Load};

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
    which: Best,
    cut_off: Option<f64>,
}

impl Figures {
    /// Returns `None` for a slot without a sum.
    pub(super) fn of(closed: &ClosedSlot) -> Option<Self> {
        Some(Self::new(closed.sum()?, closed.estimate(), closed.filtered, closed.cut_off_share()))
    }

    /// Returns the same of a group; `None` if no cluster gave a sum.
    pub(super) fn of_group(slot: &GroupSlot) -> Option<Self> {
        Some(Self::new(slot.sum()?, slot.estimate(), slot.filtered(), slot.cut_off_share()))
    }

    fn new(sum: Load, estimate: Option<Load>, filtered: Option<FilteredLoad>, cut_off: Option<f64>) -> Self {
        let which = Best::of(estimate.unwrap_or(sum), filtered);
        Self {
            sum: sum.into(),
            estimate: estimate.map(Figure::from),
            filtered: filtered.map(Figure::from),
            which,
            cut_off,
        }
    }

    /// Returns the best number of all members: the filtered load, or else the sum, scaled to them.
    pub(super) fn best(&self) -> Figure {
        self.filtered.or(self.estimate).unwrap_or(self.sum)
    }

    /// Says how much of the best number is estimated, if it is worth a word.
    pub(super) fn of_which_estimated(&self) -> Markup {
        html! {
            @if let Some(share) = self.cut_off.filter(|share| share.abs() >= 0.0005) { ", of which " (words::share(share)) " estimated, because high readings are capped" }
        }
    }

    /// Says which number is the better one and why; the bands that it compares are of the same members.
    pub(super) fn why(&self) -> Markup {
        let sum = || figure(self.estimate);
        html! {
            @match self.which {
                Best::Filtered => {
                    "The better number: the band of the slot\u{2019}s own sum, scaled to all members, is wider: " (sum())
                }
                Best::FilteredInDoubt => {
                    "Still the better number, though its band is no narrower than that of the slot\u{2019}s own sum, " (sum())
                    ": the filter is learning, or the load has just changed"
                }
                Best::Estimated => "The slot\u{2019}s own sum, scaled to all members: there is no filtered load of it"
            }
        }
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
    let filtered = if figures.filtered.is_some() { ", filtered" } else { "" };
    html! {
        (large(figures.best()))
        p.what {
            "Load of all " (words::count(closed.outcome.members)) " members" (filtered) (when) (figures.of_which_estimated()) (figures.best().direction())
        }
        p.second { (figures.why()) }
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
    fn the_filtered_load_is_best_where_there_is_one_and_the_page_says_why() {
        let sum = ClosedSlot::from(Slotted::new(7).decoded(50_000, 80));
        let with = |band95| Figures::of(&ClosedSlot { filtered: Some(FilteredLoad { watts: 51_000, band95 }), ..sum });
        let (plain, of_all) = (Figure::from(sum.sum().unwrap()), Figure::from(sum.estimate().unwrap()));
        let alone = Figures::of(&sum).unwrap();
        assert_eq!((alone.best(), alone.which), (of_all, Best::Estimated));
        // Wider than the band of those who answered, narrower than that of all members.
        let between = plain.band95.midpoint(of_all.band95);
        for (band95, which) in
            [(9000, Best::Filtered), (between, Best::Filtered), (of_all.band95, Best::FilteredInDoubt)]
        {
            let figures = with(band95).unwrap();
            assert_eq!((figures.best(), figures.which), (Figure { watts: 51_000, band95 }, which));
        }
        assert!(Figures::of(&ClosedSlot::from(Slotted::new(8).failed("interrupted", 0))).is_none());
    }
}
