//! Closed slots as a bounded series of points with gaps: what a chart draws.

mod drawn;

use dream_protocol::time::Timestamp;

use self::drawn::{Drawn, failed, point};
use crate::board::ClusterView;
use crate::board::group::GroupPeriod;
use crate::history::{FilteredLoad, Span, Step};

/// How many clusters are in a load, of how many that should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clusters {
    pub(super) added: usize,
    pub(super) of: usize,
}

impl Clusters {
    /// Returns whether some are missing.
    pub(super) fn is_partial(self) -> bool {
        self.added < self.of
    }
}

/// One or several neighbouring slots that gave aggregates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// How many slots the means below are of.
    pub(super) slots: usize,
    /// The plain sum.
    pub(super) load: Within,
    /// The sum scaled to all members.
    pub(super) estimate: Within,
    /// Absent where no slot has one.
    pub(super) filtered: Option<Within>,
    pub(super) clusters: Clusters,
}

/// Watts, and half the width of the band that holds the truth with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Within {
    pub(super) watts: f64,
    pub(super) band95: f64,
}

impl From<FilteredLoad> for Within {
    fn from(FilteredLoad { watts, band95 }: FilteredLoad) -> Self {
        Self { watts: watts as f64, band95: band95 as f64 }
    }
}

impl From<(f64, f64)> for Within {
    fn from((watts, band95): (f64, f64)) -> Self {
        Self { watts, band95 }
    }
}

impl Point {
    /// Returns the number that says most about the load: filtered where there is that.
    pub(super) fn best(&self) -> Within {
        self.filtered.unwrap_or(self.load)
    }
}

/// Neighbouring slots without an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) slots: usize,
    /// Why the last of them gave none.
    pub(super) reason: &'static str,
}

/// A series over a range of time.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Runs of points without a gap.
    pub(super) segments: Vec<Vec<Point>>,
    /// Where slots gave no aggregate.
    pub(super) failures: Vec<Failed>,
    /// From when to when slots had only some of a group's clusters in them.
    pub(super) partial: Vec<(Timestamp, Timestamp)>,
    /// How many slots at most make up a point.
    pub(super) slots_per_point: u64,
    /// Whether points are of hours or of days, and not of slots.
    pub(super) step: Option<Step>,
    pub(super) slots: usize,
    pub(super) decoded: usize,
    /// Whether homes may feed in, so that bands mean something below 0 too.
    feeds_in: bool,
    /// Whether estimates are drawn and not plain sums.
    estimates: bool,
}

impl Series {
    /// Makes about `most` points or fewer of slots in the order of time.
    pub(super) fn new<'a, S>(slots: &'a [S], over: Span, most: u64) -> Self
    where
        Drawn: From<&'a S>,
    {
        let slots: Vec<Drawn> = slots.iter().map(Drawn::from).collect();
        let slot_length = slots.iter().map(|slot| slot.end.millis_since(slot.start)).max().unwrap_or(1).max(1);
        let slots_per_point = over.end.millis_since(over.start).div_ceil(most * slot_length).max(1);
        let width = slot_length * slots_per_point;
        let bucket = |slot: &Drawn| slot.start.as_millis() / width;
        let mut series = Self::empty(over, slots_per_point);
        series.slots = slots.len();
        series.decoded = slots.iter().filter(|slot| slot.loads.is_ok()).count();
        slots.chunk_by(|a, b| bucket(a) == bucket(b)).for_each(|bucket| series.add(bucket, width));
        series
    }

    /// Draws hours or days, of which so many [`together`] are one point already. Their plain sum is that of all members.
    pub(super) fn of_periods(step: Step, periods: &[GroupPeriod], over: Span, together: u64) -> Self {
        let count = |slots: u64| usize::try_from(slots).unwrap_or(usize::MAX);
        let mut series = Self { step: Some(step), ..Self::empty(over, together) };
        for period in periods {
            let GroupPeriod { total, clusters: of, in_sum: added, .. } = *period;
            series.slots += count(total.slots);
            series.decoded += count(total.decoded);
            let Some(load) = period.mean_load().map(Within::from) else { continue };
            let (start, end, clusters) = (total.first, total.last, Clusters { added, of });
            if clusters.is_partial() {
                series.partial.push((start, end));
            }
            // Noise averages out over a day, and what the filter errs by does not: sums are surer then.
            let filtered = period.mean_filtered().map(Within::from).filter(|_| step == Step::Hour);
            let point = Point { start, end, slots: count(total.decoded), load, estimate: load, filtered, clusters };
            series.push(point, step.millis() * together);
        }
        series
    }

    /// Returns a series without points.
    fn empty(over: Span, slots_per_point: u64) -> Self {
        Self {
            from: over.start,
            to: over.end,
            segments: Vec::new(),
            failures: Vec::new(),
            partial: Vec::new(),
            slots_per_point,
            step: None,
            slots: 0,
            decoded: 0,
            feeds_in: false,
            estimates: false,
        }
    }

    /// Draws estimates for all members, and not plain sums.
    #[must_use]
    pub(super) fn of_estimates(self) -> Self {
        Self { estimates: true, ..self }
    }

    /// Says whose loads these are: a list whose range begins below 0 is of homes that feed in.
    #[must_use]
    pub(super) fn of<'a>(self, views: impl IntoIterator<Item = &'a ClusterView>) -> Self {
        let feeds_in = |view: &ClusterView| view.list.as_ref().is_some_and(|list| list.params.terms().lo < 0);
        Self { feeds_in: views.into_iter().any(feeds_in), ..self }
    }

    fn add(&mut self, bucket: &[Drawn], width: u64) {
        self.failures.extend(failed(bucket));
        bucket.iter().for_each(|slot| self.mark(slot));
        if let Some(point) = point(bucket) {
            self.push(point, width);
        }
    }

    /// Adds a point to the last run, or begins another after a gap, or where other clusters are in it.
    fn push(&mut self, point: Point, width: u64) {
        let goes_on = |last: &Point| point.start.millis_since(last.end) <= width / 2 && point.clusters == last.clusters;
        match self.segments.last_mut() {
            Some(segment) if segment.last().is_some_and(goes_on) => segment.push(point),
            Some(_) | None => self.segments.push(vec![point]),
        }
    }

    /// Marks a slot that not all clusters are in.
    fn mark(&mut self, slot: &Drawn) {
        if !slot.loads.as_ref().is_ok_and(|loads| loads.clusters.is_partial()) {
            return;
        }
        match self.partial.last_mut() {
            Some((_, end)) if *end == slot.start => *end = slot.end,
            Some(_) | None => self.partial.push((slot.start, slot.end)),
        }
    }

    /// Returns what is drawn beside the filtered load: the plain sum, or the estimate.
    pub(super) fn unfiltered(&self, point: &Point) -> Within {
        if self.estimates { point.estimate } else { point.load }
    }

    /// Returns the name of that in the API.
    pub(super) fn unfiltered_name(&self) -> &'static str {
        if self.estimates { "_estimated" } else { "" }
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.segments.iter().flatten()
    }

    /// Returns how far these values go with their bands. Where no home feeds in, bands do not count downwards: noise may reach
    /// below 0 where no load is.
    pub(super) fn extent<I: IntoIterator<Item = Within>>(&self, values: impl Fn(&Point) -> I) -> (f64, f64) {
        let values = self.points().flat_map(values);
        values.fold((0.0, 0.0), |(low, high), value| {
            let below = if self.feeds_in { value.band95 } else { 0.0 };
            (f64::min(low, value.watts - below), f64::max(high, value.watts + value.band95))
        })
    }
}

/// Returns how many hours or days make up a point, so that there are about `most` of them or fewer.
pub(super) fn together(step: Step, over: &Span, most: u64) -> u64 {
    over.end.millis_since(over.start).div_ceil(most * step.millis()).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::history::{ClosedSlot, Rollup};
    use dream_testkit::outcomes::Slotted;

    fn slots(words: &[&str]) -> Vec<ClosedSlot> {
        (0..).zip(words).map(|(slot, word)| closed(slot, word)).collect()
    }

    fn series(words: &[&str], most: u64) -> Series {
        let end = Timestamp::from_secs(600 * u64::try_from(words.len()).unwrap());
        Series::new(&slots(words), Timestamp::from_secs(0)..end, most)
    }

    fn closed(slot: u64, word: &str) -> ClosedSlot {
        let slot = Slotted::new(slot);
        let outcome = word.parse().map_or_else(|_| slot.failed(word, 50), |load| slot.decoded(load, 50));
        let filtered = outcome.result.ok().map(|sum| FilteredLoad { watts: 2 * sum.watts() + 1, band95: 3 });
        ClosedSlot { filtered, ..outcome.into() }
    }

    /// Half the width of the band of each sum; the estimate's is twice that.
    fn band() -> f64 {
        closed(0, "1").sum().unwrap().band95 as f64
    }

    #[test]
    fn a_failed_slot_leaves_a_gap_and_tells_why() {
        let series = series(&["1", "2", "interrupted", "4"], 100);
        let loads: Vec<Vec<_>> =
            series.segments.iter().map(|s| s.iter().map(|point| point.load.watts).collect()).collect();
        assert_eq!(loads, [vec![1.0, 2.0], vec![4.0]]);
        let (start, end) = (Timestamp::from_secs(1200), Timestamp::from_secs(1800));
        assert_eq!(series.failures, [Failed { start, end, slots: 1, reason: "Interrupted" }]);
        assert_eq!((series.slots, series.decoded, series.slots_per_point), (4, 3, 1));
    }

    #[test]
    fn many_slots_become_few_points_of_means() {
        let series = series(&["1", "3", "5", "interrupted", "7", "9"], 3);
        let loads: Vec<_> = series
            .points()
            .map(|point| (point.slots, point.load.watts, point.estimate.watts, point.best().watts))
            .collect();
        assert_eq!(loads, [(2, 2.0, 4.0, 5.0), (1, 5.0, 10.0, 11.0), (2, 8.0, 16.0, 17.0)]);
        assert_eq!((series.slots_per_point, series.segments.len()), (2, 1));
    }

    #[test]
    fn hours_become_points_of_their_mean_load_with_gaps_where_none_were() {
        let hours: Vec<Rollup> = [0, 1, 2, 6, 7]
            .map(|hour| {
                let [start, end] = [hour, hour + 1].map(|hour| Timestamp::from_secs(3600 * hour));
                let mut row = Rollup::new(start..end);
                let load = i64::try_from(1000 * hour).unwrap();
                (6 * hour..6 * hour + 6).for_each(|slot| row.add(&Slotted::new(slot).decoded(load, 50).into()));
                row
            })
            .into();
        let drawn = |most: u64| {
            let over = Timestamp::from_secs(0)..Timestamp::from_secs(8 * 3600);
            let together = together(Step::Hour, &over, most);
            Series::of_periods(Step::Hour, &GroupPeriod::of_one(&hours, Step::Hour, together), over, together)
        };
        let series = drawn(100);
        let loads: Vec<Vec<_>> =
            series.segments.iter().map(|s| s.iter().map(|point| point.load.watts).collect()).collect();
        assert_eq!(loads, [vec![0.0, 2000.0, 4000.0], vec![12_000.0, 14_000.0]]);
        assert_eq!((series.slots, series.decoded, series.slots_per_point), (30, 30, 1));
        // The mean of six sums has a band narrower by about the root of six; that of all members is twice as wide.
        let point = series.points().next().unwrap();
        let exact = 2.0 * 1.99 * closed(0, "1").outcome.spread().deviation() / 6f64.sqrt();
        assert!((point.load.band95 / exact - 1.0).abs() < 0.02, "{point:?} {exact}");
        let few = drawn(4);
        assert_eq!(
            few.points().map(|point| (point.slots, point.load.watts)).collect::<Vec<_>>(),
            [(12, 1000.0), (6, 4000.0), (12, 13_000.0)]
        );
    }

    #[test]
    fn the_band_of_a_mean_is_narrower_but_not_that_of_filtered_loads() {
        let points = series(&["1", "3", "5"], 2);
        let points: Vec<_> = points.points().collect();
        let single = points[1].load.band95;
        assert_eq!((points[0].slots, points[1].slots, single), (2, 1, band()));
        // Two slots of 50 shares, of which 80 are a whole noise: 2.097 deviations hold 95 % of their sum.
        let alone = closed(0, "1").outcome.spread().deviation();
        assert!((points[0].load.band95 / alone - 1.483).abs() < 0.002, "{} {alone}", points[0].load.band95);
        assert_eq!(points.iter().map(|point| point.best().band95).collect::<Vec<_>>(), [3.0, 3.0]);
        assert_eq!(points[1].estimate.band95, 2.0 * single);
    }

    #[test]
    fn the_extent_holds_what_is_drawn_its_band_upwards_and_zero() {
        let extent = |words: &[&str]| series(words, 9).extent(|point| [point.load, point.estimate]);
        assert_eq!(extent(&["100", "20"]), (0.0, 200.0 + 2.0 * band()));
        assert_eq!(extent(&["-1", "5"]), (-2.0, 10.0 + 2.0 * band()));
        assert_eq!(extent(&["interrupted"]), (0.0, 0.0));
    }

    #[test]
    fn where_homes_feed_in_the_extent_holds_bands_on_both_sides() {
        let extent = |words: &[&str]| Series { feeds_in: true, ..series(words, 9) }.extent(|point| [point.load]);
        assert_eq!(extent(&["-100000", "-20000"]), (-100_000.0 - band(), band() - 20_000.0));
        assert_eq!(extent(&["100000"]), (0.0, 100_000.0 + band()), "0 is always there");
    }
}
