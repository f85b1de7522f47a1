//! One hypothesis about how a cluster's load moves, as a Kalman filter.
//!
//! The state (`daily`) has a level, which drifts; the daily profile and that of weekends, which are slowly forgotten; and a
//! short-term deviation, an Ornstein-Uhlenbeck process, which decays within minutes or hours. The loads of independent
//! homes that use `p` watts each on average have a mean that differs from `p` by a variance in proportion to `p / members`:
//! the deviation is scaled by the root of that, so it is small at night and large in the evening. Weather and habits move all
//! homes together, and no number of them averages that out: a hypothesis may have a common deviation too, in proportion to
//! `p`. It may also have corrections by time of day (`bins`).

use std::collections::VecDeque;

use crate::bins::Bins;
use crate::daily::{DAY, DEVIATION, HARMONIC_SD, LEVEL, Parts, STATE, When, diagonal, dot, prior_variances};
use crate::laplace::posterior;
use crate::late::Past;
use crate::normal::Normal;

/// Time constant with which the profile is forgotten, in seconds. Seasons change it, so it is never known for good.
pub(crate) const PROFILE_TAU: f64 = 200.0 * DAY;
/// A longer gap counts as one of this length; little of the profile is left then.
const LONGEST_GAP: f64 = 400.0 * DAY;
/// The load of a cluster that uses hardly anything moves as if each home used this many watts.
const LEAST_LOAD: f64 = 50.0;
/// Variances below this, in square watts, are rounding.
const LEAST_VARIANCE: f64 = 1e-9;

/// What distinguishes one hypothesis from another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hypothesis {
    /// Stationary variance of the scaled short-term deviation, in watts: roughly the power of what homes switch on and off.
    pub(crate) ou_variance: f64,
    /// Standard deviation that all homes have in common, as a share of their load: however many they are.
    pub(crate) common: f64,
    /// Time constant of the short-term deviation, in seconds.
    pub(crate) ou_tau: f64,
    /// Standard deviation by which the level drifts in a day, in watts.
    pub(crate) level_drift: f64,
    /// Prior standard deviation of the time-of-day corrections, in watts; 0 if there are none.
    pub(crate) tod_sd: f64,
    /// The deviation and the first harmonic have at least this many times the variance of the noise. Without it, a load
    /// that is large only beside what homes use would be taken for noise for long.
    pub(crate) noise_ratio: f64,
}

impl Hypothesis {
    /// Returns whether it is about homes on ordinary days.
    pub(crate) fn is_of_homes(self) -> bool {
        self.noise_ratio == 0.0
    }
}

/// The sum of a slot, per member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation {
    /// Since the end of the slot before, in seconds; nothing if there was none.
    pub(crate) elapsed: Option<f64>,
    pub(crate) when: When,
    /// In watts per responder.
    pub(crate) load: f64,
    /// The variance that the noise gives it.
    pub(crate) noise: f64,
    pub(crate) responders: f64,
    pub(crate) members: f64,
    /// Share of members that came or went since the slot before, as far as their number tells.
    pub(crate) turnover: f64,
}

/// A member's load after a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) load: Normal,
    /// The logarithm of how probable the slot's sum was to this model.
    pub(crate) log_evidence: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) hypothesis: Hypothesis,
    /// Those of the state before anything is known.
    pub(crate) variances: Parts,
    pub(crate) mean: Parts,
    pub(crate) covariance: [Parts; STATE],
    pub(crate) bins: Bins,
    /// Whether it begins with what other clusters learned.
    pub(crate) primed: bool,
    /// The slots whose loads later sums may still change, oldest first.
    pub(crate) past: VecDeque<Past>,
}

impl Model {
    pub(crate) fn new(hypothesis: Hypothesis) -> Self {
        let variances = prior_variances(hypothesis.ou_variance);
        Self {
            hypothesis,
            variances,
            mean: [0.0; STATE],
            covariance: diagonal(&variances),
            bins: Bins::new(hypothesis.tod_sd * hypothesis.tod_sd),
            primed: false,
            past: VecDeque::new(),
        }
    }

    pub(crate) fn observe(&mut self, observed: &Observation) -> Estimate {
        match observed.elapsed {
            Some(elapsed) => self.predict(elapsed.min(LONGEST_GAP)),
            None => self.start(observed),
        }
        self.turn_over(observed.turnover);
        let When { time, length, .. } = observed.when;
        let bin = self.bins.at(time);
        let weights = observed.when.weights();
        let usual = self.usual(dot(&weights, &self.mean) + bin.mean, observed.members, observed.noise);
        let weights = self.with_deviation(weights, usual, observed.members);

        let predicted = dot(&weights, &self.mean) + bin.mean;
        let spread: Parts = std::array::from_fn(|row| dot(&self.covariance[row], &weights));
        let variance = (dot(&weights, &spread) + bin.variance).max(LEAST_VARIANCE);
        // Those who are silent may differ from those who are not.
        let silent = (1.0 - observed.responders / observed.members).max(0.0);
        let doubt = silent * self.hypothesis.ou_variance * usual / observed.responders;
        let responding = variance + doubt;
        let after = posterior(responding, observed.load - predicted, observed.noise);
        // What the responders' load tells about each part of the state is in proportion to their covariance.
        let shift = after.shift / responding;
        let sharpening = (responding - after.variance) / (responding * responding);
        self.past.iter_mut().for_each(|past| past.update(&weights, &spread, shift, sharpening));
        self.update(&spread, shift, sharpening);
        self.bins.update(time, length, shift, sharpening);
        let share = variance / responding;
        let load = Normal { mean: predicted + shift * variance, variance: share * (share * after.variance + doubt) };
        self.past.push_back(Past::new(load, &spread, 1.0 - sharpening * variance));
        Estimate { load, log_evidence: after.log_evidence }
    }

    /// Returns a member's load in another slot, so many seconds from the last, under a noise of this
    /// variance. Nothing changes.
    pub(crate) fn foresee(&self, elapsed: f64, when: &When, members: f64, noise: f64) -> Normal {
        let elapsed = elapsed.min(LONGEST_GAP);
        let kept = self.kept(elapsed);
        let bin = self.bins.later(when.time, elapsed);
        let mean: Parts = std::array::from_fn(|part| kept[part] * self.mean[part]);
        let weights = when.weights();
        let usual = self.usual(dot(&weights, &mean) + bin.mean, members, noise);
        let weights = self.with_deviation(weights, usual, members);
        let before: Parts = std::array::from_fn(|part| kept[part] * weights[part]);
        let known: f64 = (0..STATE).map(|row| before[row] * dot(&self.covariance[row], &before)).sum();
        let since = self.gathered(&kept, elapsed);
        let unknown: f64 = (0..STATE).map(|part| weights[part] * weights[part] * since[part]).sum();
        Normal { mean: dot(&weights, &mean) + bin.mean, variance: (known + unknown + bin.variance).max(LEAST_VARIANCE) }
    }

    /// Returns the load that deviations go with, of a mean load.
    fn usual(&self, load: f64, members: f64, noise: f64) -> f64 {
        let reached = self.hypothesis.noise_ratio * noise * members / self.hypothesis.ou_variance;
        load.abs().max(LEAST_LOAD).max(reached)
    }

    /// Adds the weight of the deviation: what homes do by themselves, and what they do together.
    fn with_deviation(&self, mut weights: Parts, usual: f64, members: f64) -> Parts {
        let Hypothesis { common, ou_variance, .. } = self.hypothesis;
        weights[DEVIATION] = (usual / members + (common * usual).powi(2) / ou_variance).sqrt();
        weights
    }

    /// Widens the prior by what the first sum says about how large loads may be here: the level may be anywhere that the sum
    /// does not rule out. Otherwise a sum far beyond the prior would move the level by little, and leave it as certain as before.
    fn start(&mut self, observed: &Observation) {
        self.variances[LEVEL] = self.variances[LEVEL].max(100.0 * (observed.load * observed.load + observed.noise));
        // Where the range is large, a hypothesis of more than homes expects large harmonics too.
        let wider = (self.hypothesis.noise_ratio * observed.noise / (HARMONIC_SD * HARMONIC_SD)).max(1.0);
        self.variances[1..DEVIATION].iter_mut().for_each(|variance| *variance *= wider);
        if self.primed {
            // What the noise does not explain.
            let further = ((observed.load - self.mean[LEVEL]).abs() - 2.0 * observed.noise.sqrt()).max(0.0);
            self.covariance[LEVEL][LEVEL] = self.covariance[LEVEL][LEVEL].max(further * further);
        } else {
            self.covariance = diagonal(&self.variances);
        }
    }

    /// Predicts the state after `elapsed` seconds.
    pub(crate) fn predict(&mut self, elapsed: f64) {
        let kept = self.kept(elapsed);
        let gathered = self.gathered(&kept, elapsed);
        for row in 0..STATE {
            self.mean[row] *= kept[row];
            (0..STATE).for_each(|column| self.covariance[row][column] *= kept[row] * kept[column]);
            self.covariance[row][row] += gathered[row];
        }
        self.past.iter_mut().for_each(|past| past.predict(&kept));
        self.bins.predict(elapsed);
    }

    /// Returns how much of each part is left after `elapsed` seconds.
    fn kept(&self, elapsed: f64) -> Parts {
        let mut kept = [(-elapsed / PROFILE_TAU).exp(); STATE];
        kept[LEVEL] = 1.0;
        kept[DEVIATION] = (-elapsed / self.hypothesis.ou_tau).exp();
        kept
    }

    /// Returns the variance that came to each part in that time.
    fn gathered(&self, kept: &Parts, elapsed: f64) -> Parts {
        let mut gathered: Parts = std::array::from_fn(|part| self.variances[part] * (1.0 - kept[part] * kept[part]));
        gathered[LEVEL] += self.hypothesis.level_drift.powi(2) * elapsed / DAY;
        gathered
    }

    /// Widens the level when members come or go, who may use nothing, or twice as much as the others.
    fn turn_over(&mut self, share: f64) {
        self.covariance[LEVEL][LEVEL] += (share * self.mean[LEVEL].abs().max(LEAST_LOAD)).powi(2);
    }

    /// Updates the state. Both halves of the covariance get the same numbers, so that it stays symmetric however long this runs.
    fn update(&mut self, spread: &Parts, shift: f64, sharpening: f64) {
        for row in 0..STATE {
            self.mean[row] += shift * spread[row];
            for column in 0..=row {
                let value = self.covariance[row][column] - sharpening * spread[row] * spread[column];
                self.covariance[row][column] = value;
                self.covariance[column][row] = value;
            }
            self.covariance[row][row] = self.covariance[row][row].max(LEAST_VARIANCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPOTHESIS: Hypothesis = Hypothesis {
        ou_variance: 1000.0,
        common: 0.0,
        ou_tau: 1200.0,
        level_drift: 10.0,
        tod_sd: 0.0,
        noise_ratio: 0.0,
    };

    fn slot(number: u32, load: f64) -> Observation {
        let time = f64::from(number % 144) * 600.0 + 300.0;
        Observation {
            elapsed: Some(600.0),
            when: When { time, weekend: false, length: 600.0 },
            load,
            noise: 100.0,
            responders: 100.0,
            members: 100.0,
            turnover: 0.0,
        }
    }

    #[test]
    fn a_first_sum_without_noise_is_the_estimate() {
        let found = Model::new(HYPOTHESIS).observe(&Observation { noise: 1e-6, ..slot(0, 720.0) }).load;
        assert!((found.mean - 720.0).abs() < 1e-2 && found.variance < 2e-6, "{found:?}");
    }

    #[test]
    fn homes_that_move_together_are_as_uncertain_however_many_they_are() {
        let deviation = |common: f64, members: f64| {
            let mut model = Model::new(Hypothesis { common, ..HYPOTHESIS });
            let all = Observation { responders: members, members, noise: 0.1, ..slot(0, 500.0) };
            for number in 0..1000 {
                model.observe(&Observation { when: slot(number, 0.0).when, ..all });
            }
            model.foresee(4.0 * 3600.0, &slot(1000, 0.0).when, members, 0.1).variance.sqrt()
        };
        let alone = [100.0, 10_000.0].map(|members| deviation(0.0, members));
        let together = [100.0, 10_000.0].map(|members| deviation(0.1, members));
        assert!(alone[1] < 0.3 * alone[0], "{alone:?}");
        assert!(together[1] > 0.1 * 500.0 && together[1] > 0.6 * together[0], "{together:?}");
    }

    #[test]
    fn silent_members_widen_the_estimate() {
        let variance =
            |responders| Model::new(HYPOTHESIS).observe(&Observation { responders, ..slot(0, 500.0) }).load.variance;
        let (all, most, few) = (variance(100.0), variance(80.0), variance(10.0));
        assert!(all < most && most < few, "{all} {most} {few}");
    }

    #[test]
    fn a_time_switch_is_learned_by_time_of_day_where_harmonics_miss_it() {
        let load = |number: u32| if (12..15).contains(&(number % 144)) { 800.0 } else { 400.0 };
        let miss = |tod_sd: f64| {
            let mut model = Model::new(Hypothesis { tod_sd, ..HYPOTHESIS });
            for number in 0..144 * 10 {
                model.observe(&slot(number, load(number)));
            }
            // So much noise that what is learned decides.
            (model.observe(&Observation { noise: 1e9, ..slot(12, 0.0) }).load.mean - 800.0).abs()
        };
        let (smooth, sharp) = (miss(0.0), miss(150.0));
        assert!(sharp < 60.0 && smooth > 2.0 * sharp, "{smooth} {sharp}");
    }

    #[test]
    fn corrections_fade_over_a_gap_of_months_and_hardly_over_one_of_days() {
        let load = |number: u32| if (12..15).contains(&(number % 144)) { 800.0 } else { 400.0 };
        let mut model = Model::new(Hypothesis { tod_sd: 150.0, ..HYPOTHESIS });
        for number in 0..144 * 10 {
            model.observe(&slot(number, load(number)));
        }
        let after = |days: f64| {
            let mut model = model.clone();
            model.predict(days * DAY);
            model.bins.all[13]
        };
        let (now, week, year) = (model.bins.all[13], after(7.0), after(400.0));
        assert!(week.mean / now.mean > 0.95 && week.variance > now.variance, "{now:?} {week:?}");
        assert!(year.mean / now.mean < 0.2 && year.variance > 0.9 * 150.0 * 150.0, "{now:?} {year:?}");
        assert_eq!(after(1.0).mean, now.mean, "a day's forgetting is counted when the bin is observed");
    }

    #[test]
    fn members_who_come_and_go_widen_the_level_in_proportion() {
        let mut model = Model::new(HYPOTHESIS);
        for number in 0..1000 {
            model.observe(&slot(number, 400.0));
        }
        let deviation = |turnover| {
            let mut model = model.clone();
            let before = model.covariance[0][0];
            model.turn_over(turnover);
            (model.covariance[0][0] - before).sqrt()
        };
        assert!((deviation(0.5) - 200.0).abs() < 10.0 && (deviation(0.1) - 40.0).abs() < 2.0, "{}", deviation(0.5));
        assert_eq!(deviation(0.0), 0.0);
    }

    #[test]
    fn a_deviation_decays_and_the_level_stays() {
        let mut model = Model::new(HYPOTHESIS);
        for number in 0..1003 {
            model.observe(&slot(number, if number < 1000 { 400.0 } else { 600.0 }));
        }
        let blind = |hours: f64| {
            let mut model = model.clone();
            model.observe(&Observation { noise: 1e12, elapsed: Some(hours * 3600.0), ..slot(1003, 0.0) }).load
        };
        let (soon, late) = (blind(0.1), blind(4.0));
        assert!(soon.mean > 500.0 && (late.mean - 400.0).abs() < 60.0, "{soon:?} {late:?}");
        assert!(late.variance > soon.variance);
    }
}
