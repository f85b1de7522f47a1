//! How far each idea is believed: by how well it foretold the sums.
//!
//! What is right at night may be wrong in the evening, so every hour of the day remembers its own past. What was right
//! just now counts too.

use super::model::{Estimate, whole};

const HOURS: usize = 24;
const HOUR: f64 = 3600.0;
/// What is left, a slot later, of what a slot told.
const LATELY: f64 = 0.95;
const AT_THIS_HOUR: f64 = 0.99;
/// No idea is given up: it is at least this probable beside the best, as a logarithm.
const LEAST: f64 = -20.0;

/// Logarithms of probabilities, those of the best idea being 0.
#[derive(Debug, Clone)]
pub(super) struct Credit<const IDEAS: usize> {
    lately: [f64; IDEAS],
    hours: [[f64; IDEAS]; HOURS],
}

impl<const IDEAS: usize> Default for Credit<IDEAS> {
    fn default() -> Self {
        Self { lately: [0.0; IDEAS], hours: [[0.0; IDEAS]; HOURS] }
    }
}

impl<const IDEAS: usize> Credit<IDEAS> {
    /// Takes what each idea makes of a slot, at a time in seconds since midnight, and says how probable each is. The sum
    /// is 1.
    pub(super) fn weigh(&mut self, time: f64, estimates: &[Estimate; IDEAS]) -> [f64; IDEAS] {
        let hour = &mut self.hours[whole(time / HOUR).min(HOURS - 1)];
        let before = *hour;
        add(&mut self.lately, LATELY, estimates);
        add(hour, AT_THIS_HOUR, estimates);
        let both: [f64; IDEAS] = std::array::from_fn(|idea| self.lately[idea] + before[idea]);
        let best = both.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let weights = both.map(|log| (log - best).exp());
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }
}

fn add<const IDEAS: usize>(logs: &mut [f64; IDEAS], kept: f64, estimates: &[Estimate; IDEAS]) {
    logs.iter_mut().zip(estimates).for_each(|(log, estimate)| *log = kept * *log + estimate.log_evidence);
    let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter_mut().for_each(|log| *log = (*log - best).max(LEAST));
}
