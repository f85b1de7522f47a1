//! How far each idea is believed: by how well it foretold the sums.
//!
//! What is right at night may be wrong in the evening, so every hour of the day remembers its own past. What was right
//! just now counts too.

use super::model::{Estimate, whole};

const HOURS: usize = 24;
const HOUR: f64 = 3600.0;
/// What is left, a slot later, of what a slot told about what is right just now.
const LATELY: f64 = 0.95;
/// What is left of what an hour remembers, after so many seconds in that hour: most of it a week later, however long slots
/// are.
const AT_THIS_HOUR: f64 = 0.99;
const SECONDS: f64 = 600.0;
/// No idea is given up: it is at least this probable beside the best, as a logarithm.
const LEAST: f64 = -20.0;

/// Logarithms of probabilities, those of the best idea being 0.
#[derive(Debug, Clone)]
pub(super) struct Credit<const IDEAS: usize> {
    lately: [f64; IDEAS],
    hours: [[f64; IDEAS]; HOURS],
}

impl<const IDEAS: usize> Credit<IDEAS> {
    /// Before anything was seen, with logarithms of how far each idea is believed.
    pub(super) fn starting(lately: [f64; IDEAS]) -> Self {
        Self { lately, hours: [[0.0; IDEAS]; HOURS] }
    }

    /// Takes what each idea makes of a slot, at a time in seconds since midnight and of a length in seconds, and says how
    /// probable each is. The sum is 1.
    pub(super) fn weigh(&mut self, time: f64, length: f64, estimates: &[Estimate; IDEAS]) -> [f64; IDEAS] {
        let hour = &mut self.hours[whole(time / HOUR).min(HOURS - 1)];
        let before = *hour;
        add(&mut self.lately, LATELY, estimates);
        add(hour, AT_THIS_HOUR.powf(length / SECONDS), estimates);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn foretold(log_evidence: [f64; 2]) -> [Estimate; 2] {
        log_evidence.map(|log_evidence| Estimate { mean: 0.0, variance: 1.0, log_evidence })
    }

    #[test]
    fn at_first_the_evidence_of_the_slot_decides() {
        let [one, other] = Credit::starting([0.0; 2]).weigh(0.0, 600.0, &foretold([-5.0, -5.0 - f64::ln(3.0)]));
        assert!((one - 0.75).abs() < 1e-12 && (other - 0.25).abs() < 1e-12);
    }

    #[test]
    fn every_hour_remembers_what_was_right_in_it() {
        let (night, evening) = (3.0 * HOUR, 19.0 * HOUR);
        let mut credit = Credit::starting([0.0; 2]);
        for _ in 0..10 {
            for _ in 0..6 {
                credit.weigh(night, 600.0, &foretold([-1.0, -1.5]));
            }
            for _ in 0..6 {
                credit.weigh(evening, 600.0, &foretold([-1.5, -1.0]));
            }
        }
        let even = foretold([-1.0, -1.0]);
        assert!(credit.clone().weigh(night, 600.0, &even)[0] > 0.99);
        assert!(credit.weigh(evening, 600.0, &even)[1] > 0.99);
    }

    #[test]
    fn an_hour_forgets_by_time_and_not_by_slots() {
        let after = |slots: usize, length: f64| {
            let mut credit = Credit::starting([0.0; 2]);
            credit.weigh(0.0, 600.0, &foretold([-1.0, -5.0]));
            for _ in 0..slots {
                credit.weigh(0.0, length, &foretold([-1.0, -1.0]));
            }
            credit.hours[0][1]
        };
        let (long, short) = (after(10, 3600.0), after(600, 60.0));
        assert!((long - short).abs() < 1e-9 && (long + 4.0 * f64::powi(0.99, 60)).abs() < 1e-9, "{long} {short}");
    }

    #[test]
    fn an_idea_that_was_wrong_for_long_comes_back_within_a_few_slots() {
        let mut credit = Credit::starting([0.0; 2]);
        for _ in 0..10_000 {
            credit.weigh(0.0, 600.0, &foretold([0.0, -1e20]));
        }
        let slots = (1..).find(|_| credit.weigh(0.0, 600.0, &foretold([-3.0, 0.0]))[1] > 0.5);
        assert!(slots < Some(15), "{slots:?}");
    }
}
