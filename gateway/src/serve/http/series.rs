//! Closed slots as a bounded series of points with gaps: what a chart draws.

use dream_protocol::time::Timestamp;

use crate::store::ClosedSlot;

/// One or several neighbouring slots that gave aggregates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Watts; means, if there are several slots.
    pub(super) load: f64,
    pub(super) band: f64,
    pub(super) estimate: f64,
    /// Absent where no slot has one.
    pub(super) filtered: Option<f64>,
}

/// A series over a range of time.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Runs of points without a gap.
    pub(super) segments: Vec<Vec<Point>>,
    /// Where slots gave no aggregate.
    pub(super) failures: Vec<(Timestamp, Timestamp)>,
    /// How many slots at most make up a point.
    pub(super) slots_per_point: u64,
    pub(super) slots: usize,
    pub(super) decoded: usize,
}

impl Series {
    /// Makes about `most` points or fewer of slots in the order of time.
    pub(super) fn new(slots: &[ClosedSlot], from: Timestamp, to: Timestamp, most: u64) -> Self {
        let length = |slot: &ClosedSlot| slot.outcome.end.millis_since(slot.outcome.start);
        let slot_length = slots.iter().map(length).max().unwrap_or(1).max(1);
        let slots_per_point = to.millis_since(from).div_ceil(most * slot_length).max(1);
        let width = slot_length * slots_per_point;
        let buckets = slots.chunk_by(|a, b| bucket(a, width) == bucket(b, width));
        let mut series = Self {
            from,
            to,
            segments: Vec::new(),
            failures: Vec::new(),
            slots_per_point,
            slots: slots.len(),
            decoded: slots.iter().filter(|slot| slot.is_decoded()).count(),
        };
        buckets.for_each(|bucket| series.add(bucket, width));
        series
    }

    fn add(&mut self, bucket: &[ClosedSlot], width: u64) {
        let failed = bucket.iter().filter(|slot| !slot.is_decoded()).map(|slot| slot.outcome);
        self.failures.extend(failed.map(|outcome| (outcome.start, outcome.end)).reduce(|a, b| (a.0, b.1)));
        let Some(point) = point(bucket) else { return };
        match self.segments.last_mut() {
            Some(segment) if segment.last().is_some_and(|last| point.start.millis_since(last.end) <= width / 2) => {
                segment.push(point);
            }
            Some(_) | None => self.segments.push(vec![point]),
        }
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.segments.iter().flatten()
    }

    /// Returns the least and the greatest value of lines and band; 0 is always within.
    pub(super) fn extent(&self) -> (f64, f64) {
        self.points().fold((0.0, 0.0), |(low, high), point| {
            let values = [point.load - point.band, point.load + point.band, point.estimate];
            let values = values.into_iter().chain(point.filtered);
            values.fold((low, high), |(low, high), value| (low.min(value), high.max(value)))
        })
    }
}

fn bucket(slot: &ClosedSlot, width: u64) -> u64 {
    slot.outcome.start.as_millis() / width
}

/// Returns the means over the slots that gave an aggregate. The noise of means is less than the band then says, never more.
fn point(bucket: &[ClosedSlot]) -> Option<Point> {
    let decoded: Vec<_> = bucket.iter().filter_map(|slot| Some((slot, slot.sum()?))).collect();
    let ((first, _), (last, _)) = (decoded.first()?, decoded.last()?);
    Some(Point {
        start: first.outcome.start,
        end: last.outcome.end,
        load: mean(decoded.iter().map(|(_, sum)| sum.watts as f64))?,
        band: mean(decoded.iter().map(|(_, sum)| sum.band95 as f64))?,
        estimate: mean(decoded.iter().map(|(slot, sum)| slot.estimate().unwrap_or(*sum).watts as f64))?,
        filtered: mean(decoded.iter().filter_map(|(slot, _)| Some(slot.filtered?.watts as f64))),
    })
}

/// Returns the mean of numbers; `None` if there are none.
fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = numbers.fold((0.0, 0.0), |(count, sum), number| (count + 1.0, sum + number));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::store::FilteredLoad;
    use dream_testkit::outcomes::Slotted;

    fn series(words: &[&str], most: u64) -> Series {
        let slots: Vec<_> = (0..).zip(words).map(|(slot, word)| closed(slot, word)).collect();
        let end = Timestamp::from_secs(600 * u64::try_from(words.len()).unwrap());
        Series::new(&slots, Timestamp::from_secs(0), end, most)
    }

    fn closed(slot: u64, word: &str) -> ClosedSlot {
        let slot = Slotted::new(slot);
        let outcome = word.parse().map_or_else(|_| slot.failed(word, 50), |load| slot.decoded(load, 50));
        let filtered = outcome.result.ok().map(|sum| FilteredLoad { watts: 2 * sum.watts() + 1, band95: 3 });
        ClosedSlot { outcome, filtered }
    }

    #[test]
    fn a_failed_slot_leaves_a_gap() {
        let series = series(&["1", "2", "interrupted", "4"], 100);
        let loads: Vec<Vec<_>> = series.segments.iter().map(|s| s.iter().map(|point| point.load).collect()).collect();
        assert_eq!(loads, [vec![1.0, 2.0], vec![4.0]]);
        assert_eq!(series.failures, [(Timestamp::from_secs(1200), Timestamp::from_secs(1800))]);
        assert_eq!((series.slots, series.decoded, series.slots_per_point), (4, 3, 1));
    }

    #[test]
    fn many_slots_become_few_points_of_means() {
        let series = series(&["1", "3", "5", "interrupted", "7", "9"], 3);
        let loads: Vec<_> = series.points().map(|point| (point.load, point.estimate, point.filtered)).collect();
        assert_eq!(loads, [(2.0, 4.0, Some(5.0)), (5.0, 10.0, Some(11.0)), (8.0, 16.0, Some(17.0))]);
        assert_eq!((series.slots_per_point, series.segments.len()), (2, 1));
    }

    #[test]
    fn the_extent_holds_the_band_the_estimate_the_filtered_load_and_zero() {
        let band = closed(0, "5").sum().unwrap().band95 as f64;
        assert!(band < 90_000.0);
        assert_eq!(series(&["100000", "20"], 9).extent(), (20.0 - band, 200_001.0));
        assert_eq!(series(&["100000", "99000"], 9).extent(), (0.0, 200_001.0));
        assert_eq!(series(&["-1", "5"], 9).extent(), (-1.0 - band, 5.0 + band));
        assert_eq!(series(&["interrupted"], 9).extent(), (0.0, 0.0));
    }
}
