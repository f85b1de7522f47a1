//! What a chart of a cluster is drawn from: its slots, or its hours or days where slots would be too many or are gone.

use dream_protocol::time::Timestamp;

use super::Shared;
use super::query::MAX_LIMIT;
use super::range::Range;
use super::series::{Series, fitted};
use crate::board::ClusterView;
use crate::history::{ClosedSlot, HistoryError, Rollup, Step};

/// About as many points as a chart can show.
pub(super) const CHART_POINTS: u64 = 300;

const DAY_MILLIS: u64 = 86_400_000;

/// Longer than this, and hours are drawn instead of slots.
const MOST_MILLIS_OF_SLOTS: u64 = 8 * DAY_MILLIS;

/// Longer than this, and days are drawn instead of hours.
const MOST_MILLIS_OF_HOURS: u64 = 62 * DAY_MILLIS;

/// Returns whether a chart over so long is drawn from hours or days and not from slots; `gone` says that some are not kept any
/// more.
pub(super) fn step_over(millis: u64, gone: bool) -> Option<Step> {
    match millis {
        millis if millis > MOST_MILLIS_OF_HOURS => Some(Step::Day),
        millis if millis > MOST_MILLIS_OF_SLOTS || gone => Some(Step::Hour),
        _ => None,
    }
}

/// The past of a cluster over a range.
pub(super) struct Past {
    pub(super) now: Timestamp,
    /// Where the range begins, and where the chart does.
    pub(super) from: Timestamp,
    fitted: Timestamp,
    /// The slots of the range that are kept.
    pub(super) slots: Vec<ClosedSlot>,
    /// The hours or days that the chart is drawn from, if it is not drawn from the slots.
    periods: Option<(Step, Vec<Rollup>)>,
}

impl Past {
    pub(super) fn read(
        shared: &Shared,
        view: &ClusterView,
        range: Range,
        now: Timestamp,
    ) -> Result<Self, HistoryError> {
        let (history, cluster) = (&shared.service.history, &view.cluster);
        let from = range.from(now);
        let slots = history.slots(cluster, from, now, MAX_LIMIT)?;
        let any_before = !history.slots(cluster, Timestamp::from_secs(0), from, 1)?.is_empty();
        let begun = history.extent(cluster)?.map(|extent| extent.begun);
        let kept_from = slots.first().map_or(now, |slot| slot.outcome.start);
        let shown_from = begun.unwrap_or(kept_from).min(kept_from).max(from);
        // A slot that began before the range ended in it.
        let gone = !any_before && shown_from < kept_from;
        if let Some(step) = step_over(now.millis_since(shown_from), gone) {
            let periods = history.rollups(cluster, step, shown_from, now, MAX_LIMIT)?;
            return Ok(Self { now, from, fitted: shown_from, slots, periods: Some((step, periods)) });
        }
        // An axis that began in 1970 would show nothing.
        let from = if slots.is_empty() { from.max(Range::Day.from(now)) } else { from };
        Ok(Self {
            now,
            from,
            fitted: fitted(slots.first().map(|slot| slot.outcome.start), from, any_before),
            slots,
            periods: None,
        })
    }

    /// Returns whether the chart is drawn from hours or days.
    pub(super) fn is_of_periods(&self) -> bool {
        self.periods.is_some()
    }

    /// Returns what the chart shows.
    pub(super) fn series(&self, view: &ClusterView) -> Series {
        let series = match &self.periods {
            Some((step, rows)) => Series::of_periods(*step, rows, self.fitted, self.now, CHART_POINTS),
            None => Series::new(&self.slots, self.fitted, self.now, CHART_POINTS),
        };
        series.of([view])
    }
}
