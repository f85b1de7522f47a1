//! A cluster's load with less noise: what the sums before tell about the sum of now.
//!
//! The filter sees only what was released, so it costs no privacy, and it knows how much noise each sum carries. It runs
//! several Kalman filters ([`model`]) with different ideas of how restless the load is, lets each take the sum with the
//! noise's true shape ([`laplace`]), and believes each as far as it foretold the sums ([`credit`]). It learns the daily
//! profile from the sums of earlier days; until then it smooths. Its estimate is causal: no later sum changes it.
//!
//! The state is a function of the released sums in their order, a few kilobytes an idea. A restart replays them.
//! Days are those of UTC and all alike: a clock that is put forward or a weekend is a change that the filter follows, and
//! the band is no promise for its first hours.

mod credit;
mod laplace;
mod model;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::time::Timestamp;

use self::credit::Credit;
use self::model::{DAY, Estimate, Idea, Model, Seen};

const MINUTE: f64 = 60.0;
const IDEAS: [Idea; 5] = [
    // Few small things are switched on and off: the night.
    Idea { appliance: 200.0, mood: 20.0 * MINUTE, habit: 0.0 },
    // Cooking, heating water: the day.
    Idea { appliance: 1200.0, mood: 20.0 * MINUTE, habit: 0.0 },
    // The same where something happens by the clock.
    Idea { appliance: 200.0, mood: 20.0 * MINUTE, habit: 150.0 },
    Idea { appliance: 1200.0, mood: 20.0 * MINUTE, habit: 150.0 },
    // No idea at all: the load goes anywhere, as in a trial whose days take minutes. Never worse than the sum by much.
    Idea { appliance: 20_000.0, mood: 2.0 * MINUTE, habit: 0.0 },
];

/// A released sum as the filter takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    pub start: Timestamp,
    pub end: Timestamp,
    /// The noisy sum over the responders, in watts.
    pub watts: f64,
    /// The variance of its noise.
    pub variance: f64,
    pub responders: u16,
    pub members: u16,
}

impl Release {
    /// Of a slot that gave a sum.
    pub fn of(outcome: &SlotOutcome) -> Option<Self> {
        let SlotOutcome { start, end, members, responders, .. } = *outcome;
        let watts = outcome.result.ok()?.watts() as f64;
        Some(Self { start, end, watts, variance: outcome.spread().variance(), responders, members })
    }

    /// What a model sees of it; nothing if nobody responded or the numbers are none that a cluster releases.
    fn seen(&self, last: Option<Timestamp>) -> Option<Seen> {
        const MOST_WATTS: f64 = 1e13; // far beyond what the protocol lets pass
        /// Readings are whole watts.
        const ROUNDING: f64 = 1.0 / 12.0;
        let possible = self.watts.abs() < MOST_WATTS && (0.0..MOST_WATTS * MOST_WATTS).contains(&self.variance);
        if self.responders == 0 || !possible {
            return None;
        }
        let responders = f64::from(self.responders);
        let length = self.end.millis_since(self.start);
        let middle = self.start.plus_millis(length / 2).as_millis();
        Some(Seen {
            elapsed: last.map_or(0.0, |last| seconds(self.end.millis_since(last))),
            time: seconds(middle) % DAY,
            length: seconds(length),
            load: self.watts / responders,
            noise: (self.variance / responders + ROUNDING) / responders,
            responders,
            members: f64::from(self.members.max(self.responders)),
        })
    }
}

/// What the filter makes of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filtered {
    /// The load of all members, silent ones included, in watts.
    pub watts: f64,
    /// Half the width of the band that holds it with 95 % confidence.
    pub band95: f64,
}

/// The filter of one cluster.
#[derive(Debug, Clone)]
pub struct Filter {
    last: Option<Timestamp>,
    models: Box<[Model; IDEAS.len()]>,
    credit: Credit<{ IDEAS.len() }>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { last: None, models: Box::new(IDEAS.map(Model::new)), credit: Credit::default() }
    }
}

impl Filter {
    /// Takes the sum of a slot. Nothing for one that ended no later than the one before, or that nobody responded in.
    pub fn observe(&mut self, release: &Release) -> Option<Filtered> {
        if self.last.is_some_and(|last| release.end <= last) {
            return None;
        }
        let seen = release.seen(self.last)?;
        self.last = Some(release.end);
        let estimates = self.models.each_mut().map(|model| model.observe(&seen));
        let weights = self.credit.weigh(seen.time, &estimates);
        let (mean, variance) = mixture(&weights, &estimates);
        let band95 = deviations95(variance / seen.noise) * variance.sqrt();
        Some(Filtered { watts: seen.members * mean, band95: seen.members * band95 })
    }
}

/// The mean and the variance of one of the estimates, each as probable as its weight.
fn mixture<const IDEAS: usize>(weights: &[f64; IDEAS], estimates: &[Estimate; IDEAS]) -> (f64, f64) {
    let weighted = |value: &dyn Fn(&Estimate) -> f64| -> f64 {
        weights.iter().zip(estimates).map(|(weight, estimate)| weight * value(estimate)).sum()
    };
    let mean = weighted(&|estimate| estimate.mean);
    (mean, weighted(&|estimate| estimate.variance + (estimate.mean - mean).powi(2)))
}

/// So many deviations hold 95 %: of the noise's distribution if the slot's sum is all that is known (the variance is all of
/// the noise's), of a normal one if it hardly counts.
fn deviations95(share_of_noise: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    const LAPLACE: f64 = 2.118_277; // ln(20) / sqrt(2)
    NORMAL + (LAPLACE - NORMAL) * share_of_noise.min(1.0)
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
