//! A cluster's load with less noise: the present load, estimated using earlier sums.
//!
//! The filter sees only what was released, so it costs no privacy, and it knows how much noise each sum carries. It runs
//! several Kalman filters, one for each hypothesis about how the load moves (`hypothesis`). Each takes the noise as Laplace
//! noise of its variance (`laplace`), and their mixture is weighted by how well each predicted the sums (`weights`). The
//! daily profile is learned from the sums of earlier days, and how weekends differ from it (`daily`); until then the filter
//! smooths, or begins with what other clusters learned (`prior`). Its estimate is causal: no later sum changes it. An hour
//! later it gives a second one, which the sums since have sharpened (`late`), and for a slot without a sum it tells what it
//! expects.
//!
//! Its state follows from the released sums in their order, from what it began with, and from nothing else, so a restart may
//! replay them. It takes about 120 kB a cluster with slots of ten minutes, and 140 kB with shorter ones; a slot allocates nothing
//! once an hour has passed.
//!
//! Days are those of the clocks that the caller goes by, which may be put forward or back. Public holidays are days like
//! others of their day of the week: the filter follows what it sees, and the band is no promise for its first hours.
//!
//! A change that stays is the worst case. The band allows for one as soon as a sum hints at it (`change`). Where the load of
//! a simulated cluster of 100 fell to 0.55 of what it had been for two weeks, the band held it in 80 % of the slots of the
//! first hour, in 90 % of the next two, in 93 % until the twelfth, and in 95 % of the next twelve hours. Where it doubled,
//! in 79 %, 95 %, 93 % and 94 %. Those are slots of ten minutes; with slots of half an hour it is 83 %, 89 %, 93 % and 96 %,
//! and 75 %, 91 %, 96 % and 96 %. The estimate stays within three standard deviations of the noise from the sum, so that it
//! is never much worse than the sum is.
//!
//! Loads far beyond those of homes are followed as closely as their noise allows, if the range fits them. Where 50 members
//! used 5 kW each under the noise of a range of 1 MW, the band held the load in 82 to 87 % of the slots from the third to
//! the ninth day: their daily profile is larger than that of homes, and small beside the noise.

mod bins;
mod change;
mod daily;
mod hypothesis;
mod laplace;
mod late;
mod local_time;
mod normal;
mod prior;
mod weights;

use std::collections::VecDeque;

use change::Change;
use daily::{DAY, When};
use hypothesis::{Hypothesis, Model, Observation};
use normal::Normal;
use weights::ModelWeights;

pub use local_time::LocalTime;
pub use prior::Profile;

const MINUTE: f64 = 60.0;
const HOMES: Hypothesis = Hypothesis {
    ou_variance: 1200.0,
    common: 0.0,
    ou_tau: 20.0 * MINUTE,
    level_drift: 10.0,
    tod_sd: 0.0,
    noise_ratio: 0.0,
};
/// Weather, a holiday, a match on television: what all homes do at once, for an hour or so.
const TOGETHER: Hypothesis = Hypothesis { ou_tau: 60.0 * MINUTE, ..HOMES };
const HYPOTHESES: [Hypothesis; 13] = [
    // Few small things are switched on and off: the night.
    Hypothesis { ou_variance: 200.0, ..HOMES },
    // Cooking, heating water: the day.
    HOMES,
    // The same where something happens by the clock.
    Hypothesis { ou_variance: 200.0, tod_sd: 150.0, ..HOMES },
    Hypothesis { tod_sd: 150.0, ..HOMES },
    // The same where something changed for good, or wanders.
    Hypothesis { level_drift: 300.0, tod_sd: 150.0, ..HOMES },
    // Something else than homes on ordinary days: it may go far from its profile and stay there.
    Hypothesis { ou_variance: 20_000.0, ou_tau: 180.0 * MINUTE, level_drift: 100.0, noise_ratio: 4.0, ..HOMES },
    // The load goes anywhere within minutes, as in a demonstration whose days take minutes.
    Hypothesis { ou_variance: 20_000.0, ou_tau: 2.0 * MINUTE, noise_ratio: 4.0, ..HOMES },
    // Earlier sums tell nothing: the load is what the sum says, within its noise.
    Hypothesis { ou_variance: 20_000.0, ou_tau: 1.0, noise_ratio: 1000.0, ..HOMES },
    Hypothesis { common: 0.05, ..TOGETHER },
    Hypothesis { common: 0.08, ..TOGETHER },
    Hypothesis { common: 0.14, ..TOGETHER },
    Hypothesis { common: 0.24, ..TOGETHER },
    Hypothesis { common: 0.4, ..TOGETHER },
];

/// The one of them that a change for good is measured by: the load may go anywhere and stay there.
const ANYWHERE: usize = 5;

/// Nothing is published further from the slot's sum than so many standard deviations of its noise: one sum in seventy is. Beside
/// Laplace noise a normal prior takes any far sum for noise, also the first after a change.
const FURTHEST: f64 = 3.0;

/// A released sum as the filter takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// Milliseconds of Unix time.
    pub start_millis: u64,
    pub end_millis: u64,
    /// The middle of the slot by the clocks where the homes are.
    pub local: LocalTime,
    /// The noisy sum over the responders, in watts.
    pub watts: f64,
    /// The variance of its noise.
    pub variance: f64,
    pub responders: u16,
    pub members: u16,
}

impl Release {
    /// Returns the sum per member; `None` if nobody responded, or the numbers are none that a cluster releases.
    fn observation(&self, last: Option<&Last>) -> Option<Observation> {
        const MOST_WATTS: f64 = 1e13; // far beyond what the protocol lets pass
        /// Readings are whole watts.
        const ROUNDING: f64 = 1.0 / 12.0;
        let possible = self.watts.abs() < MOST_WATTS && (0.0..MOST_WATTS * MOST_WATTS).contains(&self.variance);
        if self.responders == 0 || !possible {
            return None;
        }
        let (responders, members) = (f64::from(self.responders), f64::from(self.members.max(self.responders)));
        Some(Observation {
            elapsed: last.map(|last| seconds(self.end_millis.saturating_sub(last.end_millis))),
            when: when(self.start_millis, self.end_millis, self.local),
            load: self.watts / responders,
            noise: (self.variance / responders + ROUNDING) / responders,
            responders,
            members,
            turnover: last.map_or(0.0, |last| (members - last.members).abs() / members.max(last.members)),
        })
    }
}

/// A slot without a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Milliseconds of Unix time.
    pub start_millis: u64,
    pub end_millis: u64,
    /// The middle of the slot by the clocks where the homes are.
    pub local: LocalTime,
    pub members: u16,
}

fn when(start_millis: u64, end_millis: u64, local: LocalTime) -> When {
    let length = seconds(end_millis.saturating_sub(start_millis));
    When { time: local.time(), weekend: local.weekend, length }
}

/// What the filter makes of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filtered {
    /// The load of all members, silent ones included, in watts.
    pub watts: f64,
    /// Half the width of the band that holds it with 95 % confidence.
    pub band95: f64,
}

/// What the filter makes of a slot an hour later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smoothed {
    /// The end of the slot.
    pub end_millis: u64,
    pub load: Filtered,
}

/// How long the sums after a slot may change what the filter makes of it; a slot of an hour or more waits for the next.
const LAG_MILLIS: u64 = 3_600_000;
/// How many slots wait at most: where slots are shorter than five minutes, the wait is shorter than an hour.
const MOST_WAITING: usize = 12;

/// Sums of so many seconds tell what a cluster's days are like: those of a week.
const PROFILE_SECONDS: f64 = 7.0 * DAY;

type Weights = [f64; HYPOTHESES.len()];

/// The filter of one cluster.
#[derive(Debug, Clone)]
pub struct Filter {
    last: Option<Last>,
    models: Box<[Model; HYPOTHESES.len()]>,
    weights: ModelWeights<{ HYPOTHESES.len() }>,
    change: Change,
    /// How many seconds there were sums of.
    seen: f64,
    /// The slots that every model keeps as past, oldest first.
    waiting: VecDeque<Waiting>,
    smoothed: Vec<Smoothed>,
}

/// What it keeps of the slot before.
#[derive(Debug, Clone, Copy)]
struct Last {
    end_millis: u64,
    members: f64,
    /// The variance of the noise of a member's load.
    noise: f64,
}

/// A slot that later sums may still change.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    end_millis: u64,
    time: f64,
    members: f64,
    sum: Normal,
}

/// What a slot without a sum tells.
const NO_SUM: Normal = Normal { mean: 0.0, variance: f64::INFINITY };

impl Default for Filter {
    fn default() -> Self {
        // Whether these are homes has to show first.
        Self::weighing(HYPOTHESES.map(|hypothesis| if hypothesis.is_of_homes() { -3.0 } else { 0.0 }))
    }
}

impl Filter {
    /// Returns the filter of a new cluster that begins with what others of its gateway learned, if there are any.
    pub fn starting_from(others: &[Profile]) -> Self {
        if others.is_empty() {
            return Self::default();
        }
        let mut filter = Self::weighing([0.0; HYPOTHESES.len()]);
        prior::begin(&mut *filter.models, others);
        filter
    }

    fn weighing(prior: Weights) -> Self {
        Self {
            last: None,
            models: Box::new(HYPOTHESES.map(Model::new)),
            weights: ModelWeights::starting(prior),
            change: Change::default(),
            seen: 0.0,
            waiting: VecDeque::new(),
            smoothed: Vec::new(),
        }
    }

    /// Updates with the sum of a slot; returns the estimate after it. `None` for a slot that ended no later than the one
    /// before, or that nobody responded in: it changes nothing.
    pub fn observe(&mut self, release: &Release) -> Option<Filtered> {
        self.smoothed.clear();
        if self.last.is_some_and(|last| release.end_millis <= last.end_millis) {
            return None;
        }
        let observed = release.observation(self.last.as_ref())?;
        let (end_millis, Observation { when, members, .. }) = (release.end_millis, observed);
        let sum = Normal { mean: observed.load, variance: observed.noise };
        self.last = Some(Last { end_millis, members, noise: sum.variance });
        self.seen += when.length;
        let estimates = self.models.each_mut().map(|model| model.observe(&observed));
        self.change.observe(self.weights.log_ratio(&when, &estimates, ANYWHERE));
        let weights = self.weights.weigh(&when, &estimates);
        self.waiting.push_back(Waiting { end_millis, time: when.time, members, sum });
        self.smooth(end_millis);
        Some(self.load(&weights, &estimates.map(|estimate| estimate.load), members, sum))
    }

    /// Returns what became final with the last sum, oldest first: the loads of slots that ended an hour or more before its
    /// slot did. Where slots are shorter than five minutes, it is those that ended twelve slots before. What came after a
    /// slot tells about it too, so these are nearer to the truth than what [`Filter::observe`] returned for them.
    pub fn smoothed(&self) -> &[Smoothed] {
        &self.smoothed
    }

    /// Returns the load of a slot that gave no sum, from those before it that did, without changing anything. `None` if
    /// there was no sum yet.
    pub fn predict(&self, slot: &Slot) -> Option<Filtered> {
        let last = self.last?;
        let elapsed = seconds(slot.end_millis.abs_diff(last.end_millis));
        let when = when(slot.start_millis, slot.end_millis, slot.local);
        let members = f64::from(slot.members.max(1));
        let loads = self.models.each_ref().map(|model| model.foresee(elapsed, &when, members, last.noise));
        Some(self.load(&self.weights.now(when.time), &loads, members, NO_SUM))
    }

    /// Returns what a new cluster may begin with; `None` before there was a week of sums.
    pub fn profile(&self) -> Option<Profile> {
        (self.seen >= PROFILE_SECONDS).then(|| Profile::of(&*self.models))
    }

    /// Returns whether there were sums of less than three days: too few to know the cluster's own days well.
    pub fn is_new(&self) -> bool {
        self.seen < 3.0 * DAY
    }

    /// Returns whether there was a sum yet.
    pub fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    fn smooth(&mut self, now_millis: u64) {
        let is_final = |slot: &Waiting| slot.end_millis.saturating_add(LAG_MILLIS) <= now_millis;
        while self.waiting.len() > MOST_WAITING || self.waiting.front().is_some_and(is_final) {
            let Some(slot) = self.waiting.pop_front() else { return };
            let loads = self.models.each_mut().map(|model| model.past.pop_front().unwrap_or_default().load);
            let load = self.load(&self.weights.now(slot.time), &loads, slot.members, slot.sum);
            self.smoothed.push(Smoothed { end_millis: slot.end_millis, load });
        }
    }

    /// Returns the load of so many members from what each model makes of one, where the slot's sum is this for each.
    fn load(&self, weights: &Weights, loads: &[Normal; HYPOTHESES.len()], members: f64, sum: Normal) -> Filtered {
        let load = Normal::mixture(weights, loads).allowing_for(loads[ANYWHERE], self.change.probability());
        let load = load.within(FURTHEST * sum.variance.sqrt(), sum.mean);
        Filtered { watts: members * load.mean, band95: members * load.band95(sum.variance) }
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests;
