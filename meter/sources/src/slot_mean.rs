//! The mean power of a slot, from what a source yielded in it.
//!
//! Energy counters are best: they miss nothing between two samples. They are used where they are fine enough for the slot
//! and cover it, else the time-weighted mean of power is. Whether there is a reading at all depends on when samples came and not
//! on what they say: a meter that fell silent with its load would tell it. The one exception is a source that contradicts
//! itself: of a counter and a power that cannot be of one home, nobody knows which is wrong.

mod no_reading;

use std::collections::VecDeque;
use std::fmt;

use dream_protocol::time::Timestamp;

use crate::decimal::rounded;
use crate::outlet::MOST_DRIFT_MILLIS;
use crate::sample::{Event, Sample, finer};
pub use no_reading::NoReading;

/// Less of a slot than this, in percent, is no reading.
pub const LEAST_COVERAGE: u64 = 80;

/// A counter is fine enough if one step of it over the slot is at most so many watts: 1 Wh is 6 W over ten minutes.
const COARSEST_STEP_WATTS: i64 = 10;

/// A sample is good for so many intervals of its source: one may be late, and one may be lost.
pub(crate) const INTERVALS_HELD: u64 = 3;

/// The coarsest step that is detected from a counter's values: whole kWh, as German meters show until they are unlocked.
const COARSEST_STEP: i64 = 1_000_000;

/// No home takes more: a counter that moves faster has been set, or was read wrongly before.
const MOST_WATTS: i64 = 250_000;

/// What a home may take or feed in between two samples without either showing it, in milliwatts: an electric shower.
const HIDDEN_POWER: i128 = 6_000_000;

/// How far a counter may lag behind power, in thousandths of a watt-hour: some meters count every ten seconds, and a bridge
/// that speaks on change waits until a counter has moved enough.
const LAG: i128 = 30_000;
const LAG_ON_CHANGE: i128 = 250_000;

/// So many samples are kept at most; a day in seconds is 86,400.
const MOST_SAMPLES: usize = 100_000;

/// When a source speaks, which decides how long a sample is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It is asked, or speaks by itself, at least this often, whatever the home does.
    Every { interval_millis: u64 },
    /// It speaks when a value changes; the last one is good until the source is lost.
    OnChange,
}

/// What is known of a source before its first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    pub liveness: Liveness,
    /// The step of the counters in thousandths of a watt-hour, where it is known better than from how they are written.
    pub counter_step: Option<i64>,
}

impl Cadence {
    pub const fn every(interval_millis: u64) -> Self {
        Self { liveness: Liveness::Every { interval_millis }, counter_step: None }
    }
}

/// Gathers what a source yields, and says the mean power of a slot.
pub struct SlotMean {
    cadence: Cadence,
    points: VecDeque<Point>,
    /// The finest step of the counters that was written so far.
    written_step: Option<i64>,
    /// The finest step that their values show: whole kWh are often written with three places.
    shown_step: i64,
    /// Counts how often the counters started anew.
    run: u32,
    lost: Option<(u64, String)>,
    clock_stepped: Option<u64>,
}

struct Point {
    at: u64,
    /// Import less export in thousandths of a watt-hour, and the run of the counters that it belongs to.
    counter: Option<(i64, u32)>,
    power: Option<i64>,
    /// When the source was lost after this point.
    lost: Option<u64>,
    sample: Sample,
}

impl Point {
    /// Whether it says what the home does in one direction, and nothing of the other.
    const fn is_one_counter(&self) -> bool {
        self.counter.is_none() && self.power.is_none()
    }
}

impl SlotMean {
    pub const fn new(cadence: Cadence) -> Self {
        let points = VecDeque::new();
        let (written_step, shown_step) = (None, COARSEST_STEP);
        Self { cadence, points, written_step, shown_step, run: 0, lost: None, clock_stepped: None }
    }

    /// Takes in what happened at the source.
    pub fn push(&mut self, event: &Event) {
        let mut at = event.at().as_millis();
        if let Some(last) = self.points.back().map(|last| last.at) {
            if at.saturating_add(MOST_DRIFT_MILLIS) < last {
                self.clock_stepped = Some(at);
                self.points.clear();
            } else {
                at = at.max(last);
            }
        }
        match event {
            Event::Connected { .. } => {}
            Event::Sample(sample) => self.add(Sample { at: Timestamp::from_millis(at), ..*sample }),
            Event::Lost { why, .. } => {
                if let Some(last) = self.points.back_mut() {
                    last.lost.get_or_insert(at);
                }
                self.lost = Some((at, why.clone()));
            }
            // A telegram that cannot be read is one that did not come.
            Event::Garbled { why, .. } => self.lost = Some((at, why.clone())),
            Event::Refused { why, .. } => {
                self.lost = Some((at, why.clone()));
                self.points.clear();
            }
            Event::ClockStepped { .. } => {
                self.clock_stepped = Some(at);
                self.points.clear();
            }
        }
    }

    /// Forgets what no slot from `before` on needs.
    pub fn forget_before(&mut self, before: Timestamp) {
        let last = |wanted: fn(&Point) -> bool| {
            self.points.iter().rposition(|point| point.at <= before.as_millis() && wanted(point))
        };
        let needed = last(|point| point.counter.is_some()).into_iter().chain(last(|point| point.power.is_some())).min();
        self.points.drain(..needed.unwrap_or(0));
    }

    /// Returns the mean power between two instants in whole watts, positive when the home took from the grid.
    ///
    /// From counters, the mean is that between the last samples before each end, so that the energy of no interval is counted
    /// twice or not at all. Of a source that speaks on change, power is exact at every instant, and comes first.
    pub fn mean(&self, from: Timestamp, to: Timestamp) -> Result<i64, NoReading> {
        let slot = Window { from: from.as_millis(), to: to.as_millis() };
        let fine = self.is_fine_enough(slot);
        let enough = |covered: u64| covered.saturating_mul(100) >= slot.millis().saturating_mul(LEAST_COVERAGE);
        let by_counter = self.covered_by_counter(slot);
        let by_power = self.covered_by_power(slot);
        let start = self.counter_at(slot.from);
        let ends = start.or_else(|| self.first_counter_in(slot)).zip(self.counter_at(slot.to));
        let ends = ends.filter(|(start, end)| enough(by_counter) && has_same_run(start, end));
        if let Some((start, end)) = ends.filter(|_| enough(by_power))
            && !self.agrees(start, end)
        {
            return Err(NoReading::Disagreement);
        }
        let by_counters = || {
            let (start, end) = ends.filter(|_| fine)?;
            self.counter_mean(start, end, slot)
        };
        if start.is_some()
            && self.cadence.liveness != Liveness::OnChange
            && let Some(mean) = by_counters()
        {
            return Ok(mean);
        }
        if enough(by_power) && slot.millis() > 0 {
            return Ok(self.power_mean(slot));
        }
        if let Some(mean) = by_counters() {
            return Ok(mean);
        }
        Err(self.why_none(slot, by_counter.max(by_power), by_power == 0 && enough(by_counter), fine))
    }

    fn add(&mut self, sample: Sample) {
        let at = sample.at.as_millis();
        // One counter alone says nothing of what the home does in the other direction.
        let counter = sample.import.zip(sample.export);
        if let Some((import, export)) = counter {
            self.written_step = finer(self.written_step, sample.step.map(|step| step.max(1)));
            for value in [import, export] {
                while self.shown_step > 1 && value % self.shown_step != 0 {
                    self.shown_step /= 10;
                }
            }
            let before = self.points.iter().rev().find(|point| point.counter.is_some());
            if before.is_some_and(|before| !goes_on(&before.sample, &sample)) {
                self.run += 1;
            }
        }
        let counter = counter.map(|(import, export)| (import - export, self.run));
        self.points.push_back(Point { at, counter, power: sample.power, lost: None, sample });
        if self.points.len() > MOST_SAMPLES {
            self.points.pop_front();
        }
    }

    fn is_fine_enough(&self, slot: Window) -> bool {
        let watts = i128::from(self.counter_step()) * 3600;
        watts <= i128::from(COARSEST_STEP_WATTS) * i128::from(slot.millis())
    }

    fn counter_step(&self) -> i64 {
        self.cadence.counter_step.unwrap_or_else(|| self.shown_step.max(self.written_step.unwrap_or(1)))
    }

    /// Until when this point is good, if no other follows.
    fn held_until(&self, point: &Point) -> u64 {
        let held = match self.cadence.liveness {
            Liveness::Every { interval_millis } => {
                point.at.saturating_add(interval_millis.saturating_mul(INTERVALS_HELD))
            }
            Liveness::OnChange => u64::MAX,
        };
        point.lost.map_or(held, |lost| held.min(lost))
    }

    /// Calls `each` with every power, and the part of the slot that it is good for.
    fn for_each_power(&self, slot: Window, mut each: impl FnMut(i64, u64)) {
        let mut points = self.points.iter().filter_map(|point| Some((point, point.power?))).peekable();
        while let Some((point, power)) = points.next() {
            let next = points.peek().map_or(u64::MAX, |(next, _)| next.at);
            let until = self.held_until(point).min(next).min(slot.to);
            each(power, until.saturating_sub(point.at.max(slot.from)));
        }
    }

    /// For how many milliseconds of the slot power is known.
    fn covered_by_power(&self, slot: Window) -> u64 {
        let mut covered = 0;
        self.for_each_power(slot, |_, millis| covered += millis);
        covered
    }

    /// For how many milliseconds of the slot its counters say what was used. What passed between two samples within the slot
    /// is counted exactly, however long that took.
    fn covered_by_counter(&self, slot: Window) -> u64 {
        let mut covered = 0;
        let mut points = self.points.iter().filter(|point| point.counter.is_some()).peekable();
        while let Some(point) = points.next() {
            let held = self.held_until(point);
            let next = points.peek().filter(|next| has_same_run(point, next));
            let is_bridged = next.is_some_and(|next| held >= slot.from && next.at <= slot.to);
            let next = points.peek().map_or(u64::MAX, |next| next.at);
            let until = if is_bridged { next } else { held.min(next) }.min(slot.to);
            covered += until.saturating_sub(point.at.max(slot.from));
        }
        covered
    }

    fn power_mean(&self, slot: Window) -> i64 {
        let (mut covered, mut sum) = (0i128, 0i128);
        self.for_each_power(slot, |power, millis| {
            covered += i128::from(millis);
            sum += i128::from(millis) * i128::from(power);
        });
        watts(sum, covered * 1000)
    }

    /// Whether the counters between two samples are explained by the power between them: by steps of the counters, by
    /// power that swings between two samples unseen, and by a tenth for how a meter averages.
    fn agrees(&self, start: &Point, end: &Point) -> bool {
        let Some(((first, _), (last, _))) = start.counter.zip(end.counter) else { return true };
        let powers: Vec<_> =
            self.points.iter().filter_map(|point| Some((point.at, i128::from(point.power?)))).collect();
        // In milliwatts times milliseconds, and the squares of intervals, whose swings are independent.
        let (mut least, mut most, mut squares) = (0i128, 0i128, 0u128);
        for (number, (at, power)) in powers.iter().enumerate() {
            let (until, next) = powers.get(number + 1).copied().unwrap_or((u64::MAX, *power));
            let millis = until.min(end.at).saturating_sub((*at).max(start.at));
            least += i128::from(millis) * power.min(&next);
            most += i128::from(millis) * power.max(&next);
            squares += u128::from(millis).pow(2);
        }
        let energy = |thousandths: i128| thousandths * 3_600_000;
        let counted = energy(i128::from(last - first));
        let lag = if self.cadence.liveness == Liveness::OnChange { LAG_ON_CHANGE } else { LAG };
        let hidden = HIDDEN_POWER * i128::try_from(squares.isqrt()).unwrap_or(i128::MAX >> 32);
        let tenth = counted.abs().max(least.abs()).max(most.abs()) / 10;
        let allowed = energy(2 * i128::from(self.counter_step()) + lag) + hidden + tenth;
        (least - allowed..=most + allowed).contains(&counted)
    }

    /// The counter as it was known at an instant: the last sample before it, if that was still good then.
    fn counter_at(&self, instant: u64) -> Option<&Point> {
        let last = self.points.iter().rev().find(|point| point.at <= instant && point.counter.is_some())?;
        (self.held_until(last) >= instant).then_some(last)
    }

    fn first_counter_in(&self, slot: Window) -> Option<&Point> {
        self.points.iter().find(|point| point.at >= slot.from && point.at < slot.to && point.counter.is_some())
    }

    fn counter_mean(&self, start: &Point, end: &Point, slot: Window) -> Option<i64> {
        let ((first, _), (last, _)) = (start.counter?, end.counter?);
        let millis = match self.cadence.liveness {
            Liveness::Every { .. } => end.at - start.at,
            // The counter is known at every instant: it stood still since the last sample.
            Liveness::OnChange => slot.to - start.at.max(slot.from),
        };
        (millis > 0).then(|| watts(i128::from(last - first) * 3600, i128::from(millis)))
    }

    fn why_none(&self, slot: Window, covered: u64, only_counters: bool, fine: bool) -> NoReading {
        let within = |at: u64| at >= slot.from && at <= slot.to;
        // Why the source was lost in this slot, or before it and is not back.
        let is_back = |at: u64| self.points.back().is_some_and(|last| last.at > at);
        let lost = self.lost.as_ref().filter(|(at, _)| *at <= slot.to && (*at >= slot.from || !is_back(*at)));
        let lost = lost.map(|(_, why)| why.clone());
        if self.clock_stepped.is_some_and(within) {
            NoReading::ClockStepped
        } else if only_counters && !fine {
            NoReading::CoarseCounter { step_watt_hours: self.counter_step() / 1000 }
        } else if only_counters {
            NoReading::CounterSet
        } else if covered == 0 && self.points.iter().any(|point| within(point.at) && point.is_one_counter()) {
            NoReading::OneCounter
        } else if covered == 0 {
            NoReading::Silent { lost }
        } else {
            NoReading::Patchy { percent: covered * 100 / slot.millis().max(1), lost }
        }
    }
}

#[derive(Clone, Copy)]
struct Window {
    from: u64,
    to: u64,
}

impl Window {
    const fn millis(self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Whether the counters of two samples are of one run, between which nobody set them.
fn has_same_run(one: &Point, other: &Point) -> bool {
    one.counter.zip(other.counter).is_some_and(|((_, one), (_, other))| one == other)
}

/// Whether both counters went on from one sample to the next, at a pace that a home can have.
fn goes_on(before: &Sample, after: &Sample) -> bool {
    let millis = i128::from(after.at.millis_since(before.at));
    // A kWh more, for counters that are sent later than they are read.
    let most = i128::from(MOST_WATTS) * millis / 3600 + i128::from(COARSEST_STEP);
    let one = |before: Option<i64>, after: Option<i64>| match (before, after) {
        (Some(before), Some(after)) => (0..=most).contains(&i128::from(after - before)),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    one(before.import, after.import) && one(before.export, after.export)
}

/// Divides, in whole watts.
fn watts(dividend: i128, divisor: i128) -> i64 {
    i64::try_from(rounded(dividend, divisor)).unwrap_or(if dividend < 0 { i64::MIN } else { i64::MAX })
}

impl fmt::Debug for SlotMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMean").field("cadence", &self.cadence).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
