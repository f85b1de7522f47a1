//! One hypothesis about how a cluster's load moves, as a Kalman filter.
//!
//! The state is in watts per member, so that it does not dip when members are missing: a level; the daily profile around
//! it, as cosines and sines of the time of day; and a short-term deviation, an Ornstein-Uhlenbeck process. The level
//! drifts, the profile is slowly forgotten, and the deviation decays within minutes or hours. The loads of independent homes
//! that use `p` watts each on average have a mean that differs from `p` by a variance in proportion to `p / members`: the
//! deviation is scaled by the root of that, so it is small at night and large in the evening.
//!
//! Sinusoids are smooth, and time switches are not. So a hypothesis may also have a correction for every ten minutes of
//! the day: what the sinusoids miss there. Corrections are kept apart from the state and from each other, each with its own
//! variance. That leaves their covariances out, and saves a matrix of the size of a day.

use std::f64::consts::TAU;

use crate::laplace::posterior;

pub(crate) const DAY: f64 = 86_400.0;
/// Harmonics of the daily profile: the shortest has a period of an eighth of a day.
const HARMONICS: usize = 8;
/// Level, cosine and sine of each harmonic, short-term deviation.
const STATE: usize = 2 * HARMONICS + 2;
const DEVIATION: usize = STATE - 1;
/// Prior standard deviation of the level, in watts. A first sum that is large beside it, or has much noise, widens it.
const LEVEL_SD: f64 = 1000.0;
/// The same for the first harmonic; the k-th has a k-th of it.
const HARMONIC_SD: f64 = 250.0;
/// Time constant with which the profile is forgotten, in seconds. Seasons and weekends change it, so it is never known for good.
const PROFILE_TAU: f64 = 200.0 * DAY;
/// A longer gap counts as one of this length; little of the profile is left then.
const LONGEST_GAP: f64 = 400.0 * DAY;
/// The load of a cluster that uses hardly anything moves as if each home used this many watts.
const LEAST_LOAD: f64 = 50.0;
/// Variances below this, in square watts, are rounding.
const LEAST_VARIANCE: f64 = 1e-9;
/// Length of a time-of-day bin, in seconds.
const BIN: f64 = 600.0;
const BINS: usize = 144;

/// What distinguishes one hypothesis from another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hypothesis {
    /// Stationary variance of the scaled short-term deviation, in watts: roughly the power of what homes switch on and off.
    pub(crate) ou_variance: f64,
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

/// The sum of a slot, per member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation {
    /// Since the end of the slot before, in seconds; nothing if there was none.
    pub(crate) elapsed: Option<f64>,
    /// The middle of the slot, in seconds since midnight, below [`DAY`].
    pub(crate) time: f64,
    /// In seconds.
    pub(crate) length: f64,
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
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    /// The logarithm of how probable the slot's sum was to this model.
    pub(crate) log_evidence: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    hypothesis: Hypothesis,
    /// Those of the state before anything is known.
    variances: [f64; STATE],
    mean: [f64; STATE],
    covariance: [[f64; STATE]; STATE],
    /// Corrections by time of day; empty if the hypothesis has none.
    bins: Vec<Bin>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    mean: f64,
    variance: f64,
}

impl Model {
    pub(crate) fn new(hypothesis: Hypothesis) -> Self {
        let variances = hypothesis.variances();
        let count = if hypothesis.tod_sd > 0.0 { BINS } else { 0 };
        Self {
            hypothesis,
            variances,
            mean: [0.0; STATE],
            covariance: diagonal(&variances),
            bins: vec![Bin { mean: 0.0, variance: hypothesis.tod_sd * hypothesis.tod_sd }; count],
        }
    }

    pub(crate) fn observe(&mut self, observed: &Observation) -> Estimate {
        match observed.elapsed {
            Some(elapsed) => self.predict(elapsed.min(LONGEST_GAP)),
            None => self.start(observed),
        }
        self.turn_over(observed.turnover);
        let at = whole(observed.time / BIN);
        let bin = self.bins.get(at).copied().unwrap_or_default();
        let mut design = profile(observed);
        let reached = self.hypothesis.noise_ratio * observed.noise * observed.members / self.hypothesis.ou_variance;
        let usual = (dot(&design, &self.mean) + bin.mean).abs().max(LEAST_LOAD).max(reached);
        design[DEVIATION] = (usual / observed.members).sqrt();

        let predicted = dot(&design, &self.mean) + bin.mean;
        let spread: [f64; STATE] = std::array::from_fn(|row| dot(&self.covariance[row], &design));
        let variance = (dot(&design, &spread) + bin.variance).max(LEAST_VARIANCE);
        // Those who are silent may differ from those who are not.
        let silent = (1.0 - observed.responders / observed.members).max(0.0);
        let doubt = silent * self.hypothesis.ou_variance * usual / observed.responders;
        let responding = variance + doubt;
        let after = posterior(responding, observed.load - predicted, observed.noise);
        // What the responders' load tells about each part of the state is in proportion to their covariance.
        let shift = after.shift / responding;
        let sharpening = (responding - after.variance) / (responding * responding);
        self.update(&spread, shift, sharpening);
        if let Some(bin) = self.bins.get_mut(at) {
            bin.update(self.hypothesis, observed.length, shift, sharpening);
        }
        let share = variance / responding;
        Estimate {
            mean: predicted + shift * variance,
            variance: share * (share * after.variance + doubt),
            log_evidence: after.log_evidence,
        }
    }

    /// Widens the prior by what the first sum says about how large loads may be here: the level may be anywhere that the sum
    /// does not rule out. Otherwise a sum far beyond the prior would move the level by little, and leave it as certain as before.
    fn start(&mut self, observed: &Observation) {
        self.variances[0] = self.variances[0].max(100.0 * (observed.load * observed.load + observed.noise));
        // Where the range is large, a hypothesis of more than homes expects large harmonics too.
        let wider = (self.hypothesis.noise_ratio * observed.noise / (HARMONIC_SD * HARMONIC_SD)).max(1.0);
        self.variances[1..DEVIATION].iter_mut().for_each(|variance| *variance *= wider);
        self.covariance = diagonal(&self.variances);
    }

    /// Predicts the state after `elapsed` seconds.
    fn predict(&mut self, elapsed: f64) {
        let variances = self.variances;
        let mut kept = [(-elapsed / PROFILE_TAU).exp(); STATE];
        kept[0] = 1.0;
        kept[DEVIATION] = (-elapsed / self.hypothesis.ou_tau).exp();
        for row in 0..STATE {
            self.mean[row] *= kept[row];
            (0..STATE).for_each(|column| self.covariance[row][column] *= kept[row] * kept[column]);
            self.covariance[row][row] += variances[row] * (1.0 - kept[row] * kept[row]);
        }
        self.covariance[0][0] += self.hypothesis.level_drift.powi(2) * elapsed / DAY;
        if elapsed > DAY {
            let hypothesis = self.hypothesis;
            self.bins.iter_mut().for_each(|bin| bin.predict(hypothesis, elapsed - DAY));
        }
    }

    /// Widens the level when members come or go, who may use nothing, or twice as much as the others.
    fn turn_over(&mut self, share: f64) {
        self.covariance[0][0] += (share * self.mean[0].abs().max(LEAST_LOAD)).powi(2);
    }

    /// Updates the state. Both halves of the covariance get the same numbers, so that it stays symmetric however long this runs.
    fn update(&mut self, spread: &[f64; STATE], shift: f64, sharpening: f64) {
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

impl Hypothesis {
    /// The variances of the state before anything is known.
    fn variances(self) -> [f64; STATE] {
        let mut variances = [0.0; STATE];
        variances[0] = LEVEL_SD * LEVEL_SD;
        for (order, pair) in harmonics().zip(variances[1..DEVIATION].chunks_exact_mut(2)) {
            pair.fill((HARMONIC_SD / order).powi(2));
        }
        variances[DEVIATION] = self.ou_variance;
        variances
    }
}

impl Bin {
    /// Predicts the correction when it was not observed for `elapsed` seconds beyond a day.
    fn predict(&mut self, hypothesis: Hypothesis, elapsed: f64) {
        let kept = (-elapsed / PROFILE_TAU).exp();
        self.mean *= kept;
        self.variance = kept * kept * self.variance + (1.0 - kept * kept) * hypothesis.tod_sd * hypothesis.tod_sd;
    }

    fn update(&mut self, hypothesis: Hypothesis, length: f64, shift: f64, sharpening: f64) {
        self.mean += shift * self.variance;
        // It is observed once a day, or by several slots that are shorter: it forgets a day in all.
        let forgotten = 2.0 * DAY / PROFILE_TAU * (length / BIN).min(1.0);
        let most = hypothesis.tod_sd * hypothesis.tod_sd;
        self.variance = (self.variance - sharpening * self.variance * self.variance + forgotten * most).min(most);
    }
}

/// Returns the weights with which level and harmonics make the mean load of a slot; the deviation has none yet.
fn profile(observed: &Observation) -> [f64; STATE] {
    let mut profile = [0.0; STATE];
    profile[0] = 1.0;
    for (order, pair) in harmonics().zip(profile[1..DEVIATION].chunks_exact_mut(2)) {
        let frequency = TAU * order / DAY;
        let half = frequency * observed.length / 2.0;
        let flattened = if half > 1e-6 { half.sin() / half } else { 1.0 };
        let (sine, cosine) = (frequency * observed.time).sin_cos();
        pair.copy_from_slice(&[flattened * cosine, flattened * sine]);
    }
    profile
}

fn diagonal(numbers: &[f64; STATE]) -> [[f64; STATE]; STATE] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { numbers[row] } else { 0.0 }))
}

fn harmonics() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), |order| Some(order + 1.0)).take(HARMONICS)
}

fn dot(a: &[f64; STATE], b: &[f64; STATE]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The whole part of a number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a day, counted in tens of minutes")]
pub(crate) fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPOTHESIS: Hypothesis =
        Hypothesis { ou_variance: 1000.0, ou_tau: 1200.0, level_drift: 10.0, tod_sd: 0.0, noise_ratio: 0.0 };

    fn slot(number: u32, load: f64) -> Observation {
        let time = f64::from(number % 144) * 600.0 + 300.0;
        Observation {
            elapsed: Some(600.0),
            time,
            length: 600.0,
            load,
            noise: 100.0,
            responders: 100.0,
            members: 100.0,
            turnover: 0.0,
        }
    }

    #[test]
    fn a_slot_of_a_whole_day_averages_the_harmonics_out_and_a_short_one_has_them_whole() {
        let of = |length| profile(&Observation { length, time: 0.0, ..slot(0, 0.0) });
        let day = of(DAY);
        assert!(day[0] == 1.0 && day[1..].iter().all(|share| share.abs() < 1e-12), "{day:?}");
        let moment = of(0.0);
        assert!(moment[1..DEVIATION].chunks_exact(2).all(|pair| pair == [1.0, 0.0]), "{moment:?}");
        // The mean of a cosine over half its period around its top.
        assert!((of(DAY / 2.0)[1] - 2.0 / std::f64::consts::PI).abs() < 1e-12);
    }

    #[test]
    fn a_first_sum_without_noise_is_the_estimate() {
        let found = Model::new(HYPOTHESIS).observe(&Observation { noise: 1e-6, ..slot(0, 720.0) });
        assert!((found.mean - 720.0).abs() < 1e-2 && found.variance < 2e-6, "{found:?}");
    }

    #[test]
    fn silent_members_widen_the_estimate() {
        let variance =
            |responders| Model::new(HYPOTHESIS).observe(&Observation { responders, ..slot(0, 500.0) }).variance;
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
            (model.observe(&Observation { noise: 1e9, ..slot(12, 0.0) }).mean - 800.0).abs()
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
            model.bins[13]
        };
        let (now, week, year) = (model.bins[13], after(7.0), after(400.0));
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
            model.observe(&Observation { noise: 1e12, elapsed: Some(hours * 3600.0), ..slot(1003, 0.0) })
        };
        let (soon, late) = (blind(0.1), blind(4.0));
        assert!(soon.mean > 500.0 && (late.mean - 400.0).abs() < 60.0, "{soon:?} {late:?}");
        assert!(late.variance > soon.variance);
    }
}
