//! How probable each hypothesis is: by how well it predicted the sums.
//!
//! What is right at night may be wrong in the evening, so every hour of the day has a record of its own, beside the recent one.

use crate::daily::{When, whole};
use crate::hypothesis::Estimate;

const HOURS: usize = 24;
const HOUR: f64 = 3600.0;
/// Factor by which the recent record decays in a slot.
const RECENT_DECAY: f64 = 0.95;
/// Factor by which an hour's record decays in so many seconds of that hour: most of it is left a week later, however long
/// slots are.
const HOUR_DECAY: f64 = 0.99;
const HOUR_DECAY_SECONDS: f64 = 600.0;
/// No hypothesis is given up: it is at least this probable beside the best, as a logarithm.
const LOWEST: f64 = -8.0;

/// Logarithms of probabilities, those of the best hypothesis being 0.
#[derive(Debug, Clone)]
pub(crate) struct ModelWeights<const MODELS: usize> {
    recent: [f64; MODELS],
    hours: [[f64; MODELS]; HOURS],
}

impl<const MODELS: usize> ModelWeights<MODELS> {
    /// Starts with logarithms of prior probabilities.
    pub(crate) fn starting(recent: [f64; MODELS]) -> Self {
        Self { recent, hours: [[0.0; MODELS]; HOURS] }
    }

    /// Updates with the estimates of a slot; returns the probability of each model.
    pub(crate) fn weigh(&mut self, when: &When, estimates: &[Estimate; MODELS]) -> [f64; MODELS] {
        let hour = &mut self.hours[hour(when.time)];
        let before = *hour;
        add(&mut self.recent, RECENT_DECAY, estimates);
        add(hour, HOUR_DECAY.powf(when.length / HOUR_DECAY_SECONDS), estimates);
        probabilities(&self.recent, &before)
    }

    /// Returns the logarithm of how much more probable a slot's sum was to one model than it was to all of them, by what they
    /// weighed before it.
    pub(crate) fn log_ratio(&self, when: &When, estimates: &[Estimate; MODELS], model: usize) -> f64 {
        let best = estimates.iter().map(|estimate| estimate.log_evidence).fold(f64::NEG_INFINITY, f64::max);
        let weighted = |(weight, estimate): (f64, &Estimate)| weight * (estimate.log_evidence - best).exp();
        let all: f64 = self.now(when.time).into_iter().zip(estimates).map(weighted).sum();
        estimates[model].log_evidence - best - all.ln()
    }

    /// Returns the probability of each model at a time of a day, in seconds, before there is a sum.
    pub(crate) fn now(&self, time: f64) -> [f64; MODELS] {
        probabilities(&self.recent, &self.hours[hour(time)])
    }
}

fn hour(time: f64) -> usize {
    whole(time / HOUR).min(HOURS - 1)
}

fn probabilities<const MODELS: usize>(recent: &[f64; MODELS], hour: &[f64; MODELS]) -> [f64; MODELS] {
    let both: [f64; MODELS] = std::array::from_fn(|model| recent[model] + hour[model]);
    let best = both.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let probabilities = both.map(|log| (log - best).exp());
    let sum: f64 = probabilities.iter().sum();
    probabilities.map(|probability| probability / sum)
}

fn add<const MODELS: usize>(logs: &mut [f64; MODELS], kept: f64, estimates: &[Estimate; MODELS]) {
    logs.iter_mut().zip(estimates).for_each(|(log, estimate)| *log = kept * *log + estimate.log_evidence);
    let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter_mut().for_each(|log| *log = (*log - best).max(LOWEST));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::Normal;

    fn at(time: f64, length: f64) -> When {
        When { time, weekend: false, length }
    }

    fn predicted(log_evidence: [f64; 2]) -> [Estimate; 2] {
        log_evidence.map(|log_evidence| Estimate { load: Normal::default(), log_evidence })
    }

    #[test]
    fn at_first_the_evidence_of_the_slot_decides() {
        let [one, other] =
            ModelWeights::starting([0.0; 2]).weigh(&at(0.0, 600.0), &predicted([-5.0, -5.0 - f64::ln(3.0)]));
        assert!((one - 0.75).abs() < 1e-12 && (other - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_model_is_compared_with_what_all_of_them_predict() {
        let weights = ModelWeights::starting([f64::ln(3.0), 0.0]);
        let ratio = weights.log_ratio(&at(0.0, 600.0), &predicted([-8.0, -5.0]), 1);
        assert!((ratio + (0.75 * f64::exp(-3.0) + 0.25).ln()).abs() < 1e-12, "{ratio}");
    }

    #[test]
    fn every_hour_has_a_record_of_its_own() {
        let (night, evening) = (3.0 * HOUR, 19.0 * HOUR);
        let mut weights = ModelWeights::starting([0.0; 2]);
        for _ in 0..10 {
            for _ in 0..6 {
                weights.weigh(&at(night, 600.0), &predicted([-1.0, -1.5]));
            }
            for _ in 0..6 {
                weights.weigh(&at(evening, 600.0), &predicted([-1.5, -1.0]));
            }
        }
        let even = predicted([-1.0, -1.0]);
        assert!(weights.clone().weigh(&at(night, 600.0), &even)[0] > 0.99);
        assert!(weights.weigh(&at(evening, 600.0), &even)[1] > 0.99);
    }

    #[test]
    fn an_hour_forgets_by_time_and_not_by_slots() {
        let after = |slots: usize, length: f64| {
            let mut weights = ModelWeights::starting([0.0; 2]);
            weights.weigh(&at(0.0, 600.0), &predicted([-1.0, -5.0]));
            for _ in 0..slots {
                weights.weigh(&at(0.0, length), &predicted([-1.0, -1.0]));
            }
            weights.hours[0][1]
        };
        let (long, short) = (after(10, 3600.0), after(600, 60.0));
        assert!((long - short).abs() < 1e-9 && (long + 4.0 * f64::powi(0.99, 60)).abs() < 1e-9, "{long} {short}");
    }

    #[test]
    fn a_hypothesis_that_was_wrong_for_long_comes_back_within_a_few_slots() {
        let mut weights = ModelWeights::starting([0.0; 2]);
        for _ in 0..10_000 {
            weights.weigh(&at(0.0, 600.0), &predicted([0.0, -1e20]));
        }
        let slots = (1..).find(|_| weights.weigh(&at(0.0, 600.0), &predicted([-3.0, 0.0]))[1] > 0.5);
        assert!(slots < Some(15), "{slots:?}");
    }
}
