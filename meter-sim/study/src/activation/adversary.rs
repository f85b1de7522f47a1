//! Four ways to guess the slot in which an appliance was first switched on.

use super::super::usage::Usage;
use dream_homes::home::Device;

/// How often each slot is the first in which a device is on, device by device.
#[derive(Debug)]
pub(super) struct Priors(Vec<Vec<f64>>);

impl Priors {
    pub(super) fn of(usage: &Usage) -> Self {
        let of_device = |device| {
            let firsts: Vec<usize> = usage.users(device).filter_map(|(_, watts)| first(watts)).collect();
            let slots = usage.peaks.around(0).len();
            let mut shares = vec![0.0; slots];
            firsts.iter().for_each(|&slot| shares[slot] += 1.0 / firsts.len() as f64);
            shares
        };
        Self(Device::all().map(of_device).collect())
    }

    /// The share of homes for which each slot was the first.
    pub(super) fn of_device(&self, device: Device) -> &[f64] {
        &self.0[device.index()]
    }
}

/// An appliance of which the adversary knows everything but the beginning.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// What it drew, from its first slot to its last.
    signature: &'a [f64],
    start: usize,
    noisy: &'a [f64],
    scales: &'a [f64],
}

/// How far a guess is off, in slots: the mean and the mean square over what the adversary might guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Error {
    pub(super) mean: f64,
    pub(super) square: f64,
}

impl<'a> Target<'a> {
    /// None if it never drew anything.
    pub(super) fn new(watts: &'a [f64], noisy: &'a [f64], scales: &'a [f64]) -> Option<Self> {
        let start = first(watts)?;
        let last = watts.iter().rposition(|watts| *watts > 0.0)?;
        Some(Self { signature: &watts[start..=last], start, noisy, scales })
    }

    /// Random, statistical, Bayesian, Bayesian-statistical.
    pub(super) fn errors(&self, prior: &[f64]) -> [Error; 4] {
        let prior = &prior[..self.starts()];
        let evidence = self.log_likelihoods();
        [
            self.random(),
            self.off(most_frequent(prior)),
            self.off(median(&posterior(&evidence, None))),
            self.off(median(&posterior(&evidence, Some(prior)))),
        ]
    }

    /// In how many slots it could have begun and still end on that day.
    fn starts(&self) -> usize {
        self.noisy.len() - self.signature.len() + 1
    }

    /// Any of the slots in which it could have begun, all equally often.
    fn random(&self) -> Error {
        let starts = self.starts();
        let mean_of =
            |part: fn(Error) -> f64| (0..starts).map(|guess| part(self.off(guess))).sum::<f64>() / starts as f64;
        Error { mean: mean_of(|error| error.mean), square: mean_of(|error| error.square) }
    }

    fn off(&self, guess: usize) -> Error {
        let slots = guess.abs_diff(self.start) as f64;
        Error { mean: slots, square: slots * slots }
    }

    /// How likely the noisy slots are, for each beginning: the logarithm of the ratio to what they would be had the
    /// appliance never been on. The density of Laplace noise x is exp(-|x| / scale) / (2 scale).
    fn log_likelihoods(&self) -> Vec<f64> {
        let at = |start: usize| {
            let slots = self.noisy[start..].iter().zip(&self.scales[start..]).zip(self.signature);
            let on = slots.filter(|(_, watts)| **watts > 0.0);
            on.map(|((noisy, scale), watts)| (noisy.abs() - (noisy - watts).abs()) / scale).sum()
        };
        (0..self.starts()).map(at).collect()
    }
}

/// The first slot in which something is drawn.
fn first(watts: &[f64]) -> Option<usize> {
    watts.iter().position(|watts| *watts > 0.0)
}

/// The slot of the largest share; the first of several.
fn most_frequent(shares: &[f64]) -> usize {
    (1..shares.len()).fold(0, |best, slot| if shares[slot] > shares[best] { slot } else { best })
}

/// Weights in proportion to what is to be believed: the evidence, times what was known before.
fn posterior(log_likelihoods: &[f64], prior: Option<&[f64]>) -> Vec<f64> {
    let largest = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let evidence = log_likelihoods.iter().map(|log| (log - largest).exp());
    match prior {
        None => evidence.collect(),
        Some(prior) => evidence.zip(prior).map(|(evidence, prior)| evidence * prior).collect(),
    }
}

/// The first slot up to which half of the weight is: no other guess is off by less on average.
fn median(weights: &[f64]) -> usize {
    let half = weights.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= half
    });
    reached.unwrap_or(weights.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATTS: [f64; 6] = [0.0, 0.0, 30.0, 10.0, 0.0, 0.0];

    #[test]
    fn without_noise_the_beginning_is_seen() {
        let errors = Target::new(&WATTS, &WATTS, &[1.0; 6]).unwrap().errors(&[0.2; 6]);
        assert_eq!([errors[2].mean, errors[3].mean], [0.0, 0.0]);
    }

    #[test]
    fn likelihoods_are_those_of_laplace_noise() {
        let noisy = [12.0, -7.0, 20.0, 40.0, 3.0, 25.0];
        let scales = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let target = Target::new(&WATTS, &noisy, &scales).unwrap();
        let density = |start: usize| -> f64 {
            let mut shifted = [0.0; 6];
            shifted[start..start + 2].copy_from_slice(&[30.0, 10.0]);
            (0..6)
                .map(|slot| (-f64::abs(noisy[slot] - shifted[slot]) / scales[slot]).exp() / (2.0 * scales[slot]))
                .product()
        };
        let logs = target.log_likelihoods();
        assert_eq!(logs.len(), 5);
        for start in 1..5 {
            let expected = (density(start) / density(0)).ln();
            assert!((logs[start] - logs[0] - expected).abs() < 1e-12, "{start}");
        }
    }

    #[test]
    fn a_random_guess_is_any_slot_that_is_possible() {
        let watts = [0.0, 5.0, 0.0, 0.0];
        let error = Target::new(&watts, &watts, &[1.0; 4]).unwrap().errors(&[0.25; 4])[0];
        assert_eq!(error, Error { mean: 1.0, square: 1.5 }, "1, 0, 1 and 2 slots");
        assert!(Target::new(&[0.0; 4], &watts, &[1.0; 4]).is_none());
    }

    #[test]
    fn the_statistical_guess_is_the_most_frequent_slot_that_is_possible() {
        assert_eq!(most_frequent(&[0.1, 0.5, 0.3, 0.1]), 1);
        assert_eq!(most_frequent(&[0.1, 0.4, 0.4, 0.1]), 1);
        // It is on for two slots and cannot begin in the last: 4 is the most frequent of the rest.
        let errors = Target::new(&WATTS, &WATTS, &[1.0; 6]).unwrap().errors(&[0.1, 0.0, 0.1, 0.1, 0.2, 0.5]);
        assert_eq!(errors[1], Error { mean: 2.0, square: 4.0 });
    }

    #[test]
    fn what_was_known_before_counts_once() {
        let weights = posterior(&[0.0, -(4.0_f64.ln())], Some(&[0.25, 0.75]));
        assert!((weights[0] / weights[1] - 4.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_guess_is_the_median_not_the_most_likely() {
        assert_eq!(median(&[4.0, 1.0, 1.0, 2.0, 3.0]), 2);
        assert_eq!(median(&[1.0, 1.0, 1.0]), 1);
        assert_eq!(median(&[0.0, 0.0, 7.0]), 2);
    }
}
