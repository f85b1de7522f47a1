//! What a chart is drawn from: slots, or hours or days where slots would be too many or are gone.

use dream_protocol::time::Timestamp;

use super::range::Range;
use super::series::Series;
use super::subject::Subject;
use crate::history::{History, HistoryError, Step};

/// About as many points as a chart can show.
pub(super) const CHART_POINTS: u64 = 300;

const DAY_MILLIS: u64 = 86_400_000;

/// Longer than this, and hours are drawn instead of slots.
const MOST_MILLIS_OF_SLOTS: u64 = 8 * DAY_MILLIS;

/// Longer than this, and days are drawn instead of hours.
const MOST_MILLIS_OF_HOURS: u64 = 62 * DAY_MILLIS;

/// Returns whether a chart over so long is drawn from hours or days and not from slots; `gone` says that some are not kept any
/// more.
fn step_over(millis: u64, gone: bool) -> Option<Step> {
    match millis {
        millis if millis > MOST_MILLIS_OF_HOURS => Some(Step::Day),
        millis if millis > MOST_MILLIS_OF_SLOTS || gone => Some(Step::Hour),
        _ => None,
    }
}

/// The past of a cluster or a group over a range.
pub(super) struct Past<T: Subject> {
    pub(super) now: Timestamp,
    /// Where the range begins.
    pub(super) from: Timestamp,
    /// The slots of the range that are kept, oldest first, or some of the newest.
    pub(super) slots: Vec<T::Slot>,
    /// What the chart shows.
    pub(super) series: Series,
    /// How many slots, hours or days it has, if there may be older ones.
    pub(super) cut: Option<usize>,
}

impl<T: Subject> Past<T> {
    pub(super) fn read(
        history: &dyn History,
        subject: &T,
        range: Range,
        now: Timestamp,
        points: u64,
    ) -> Result<Self, HistoryError> {
        let (from, most) = (range.from(now), subject.most_rows());
        let begun = subject.begun(history)?;
        let of_periods = |step: Step, shown_from: Timestamp| {
            let series = subject.series_of_periods(history, step, shown_from..now, points)?;
            let slots = subject.slots(history, from..now, T::SLOTS_BESIDE_PERIODS)?;
            let cut = Some(most).filter(|&most| now.millis_since(shown_from) / step.millis() >= most as u64);
            Ok(Self { now, from, slots: subject.settle(slots, now), series, cut })
        };
        let begun_in_range = begun.map_or(now, |begun| begun.max(from));
        if let Some(step) = step_over(now.millis_since(begun_in_range), false) {
            return of_periods(step, begun_in_range);
        }
        let slots = subject.settle(subject.slots(history, from..now, most)?, now);
        let cut = Some(slots.len()).filter(|&found| found >= most);
        let any_before = cut.is_some() || !subject.slots(history, Timestamp::from_secs(0)..from, 1)?.is_empty();
        let first = slots.first().map(T::start);
        let kept_from = first.unwrap_or(now);
        let shown_from = begun.unwrap_or(kept_from).min(kept_from).max(from);
        // A slot that began before the range ended in it.
        let gone = !any_before && shown_from < kept_from;
        if let Some(step) = step_over(now.millis_since(shown_from), gone) {
            return of_periods(step, shown_from);
        }
        // An axis that began in 1970 would show nothing.
        let from = if slots.is_empty() { from.max(Range::DAY.from(now)) } else { from };
        let fitted = fitted(first, from, any_before && cut.is_none());
        Ok(Self { now, from, series: subject.series(&slots, fitted..now, points), slots, cut })
    }
}

/// Returns where a chart begins that is to show `from` on: at the start of the first slot, if there is nothing before.
fn fitted(first: Option<Timestamp>, from: Timestamp, any_before: bool) -> Timestamp {
    match first {
        Some(first) if !any_before => first.max(from),
        Some(_) | None => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_begins_with_the_first_slot_unless_there_were_others_before() {
        let (early, late) = (Timestamp::from_secs(7), Timestamp::from_secs(1500));
        let first = Some(Timestamp::from_secs(1200));
        assert_eq!(fitted(first, early, false), Timestamp::from_secs(1200));
        assert_eq!(fitted(first, early, true), early, "the gap shows");
        assert_eq!(fitted(first, late, false), late);
        assert_eq!(fitted(None, early, false), early);
    }
}
