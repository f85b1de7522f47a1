//! The parts of a cluster's state, and how much of each the load of a slot has.
//!
//! The state is in watts per member, so that it does not dip when members are missing: a level; the daily profile around
//! it, as cosines and sines of the time of day; how weekends differ from that, as a level and fewer harmonics; and a
//! short-term deviation.

use std::f64::consts::TAU;

pub(crate) const DAY: f64 = 86_400.0;
/// Harmonics of the daily profile: the shortest has a period of an eighth of a day.
const HARMONICS: usize = 8;
/// Harmonics of how weekends differ: people rise later and are at home at noon, which takes hours.
const WEEKEND_HARMONICS: usize = 4;
pub(crate) const LEVEL: usize = 0;
pub(crate) const WEEKEND: usize = 1 + 2 * HARMONICS;
pub(crate) const DEVIATION: usize = WEEKEND + 1 + 2 * WEEKEND_HARMONICS;
pub(crate) const STATE: usize = DEVIATION + 1;

/// Prior standard deviation of the level, in watts. A first sum that is large beside it, or has much noise, widens it.
const LEVEL_SD: f64 = 1000.0;
/// The same for the first harmonic; the k-th has a k-th of it.
pub(crate) const HARMONIC_SD: f64 = 250.0;
/// The same for how weekends differ: a quarter of how a day differs from its mean.
const WEEKEND_SD: f64 = HARMONIC_SD / 4.0;

/// A number for each part of the state.
pub(crate) type Parts = [f64; STATE];

/// The time and length of a slot, as far as its load depends on them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    /// The middle of the slot, in seconds since midnight, below [`DAY`].
    pub(crate) time: f64,
    /// Whether that is at a weekend.
    pub(crate) weekend: bool,
    /// In seconds.
    pub(crate) length: f64,
}

impl When {
    /// Returns the weights with which the parts of the state make the mean load of the slot; the deviation has none yet.
    pub(crate) fn weights(&self) -> Parts {
        let mut weights = [0.0; STATE];
        weights[LEVEL] = 1.0;
        self.sinusoids(&mut weights[1..WEEKEND]);
        if self.weekend {
            weights[WEEKEND] = 1.0;
            weights.copy_within(1..=2 * WEEKEND_HARMONICS, WEEKEND + 1);
        }
        weights
    }

    fn sinusoids(&self, weights: &mut [f64]) {
        for (order, pair) in orders().zip(weights.chunks_exact_mut(2)) {
            let frequency = TAU * order / DAY;
            let half = frequency * self.length / 2.0;
            let flattened = if half > 1e-6 { half.sin() / half } else { 1.0 };
            let (sine, cosine) = (frequency * self.time).sin_cos();
            pair.copy_from_slice(&[flattened * cosine, flattened * sine]);
        }
    }
}

/// Returns the variances of the state before anything is known, of a deviation with this one.
pub(crate) fn prior_variances(deviation: f64) -> Parts {
    let mut variances = [0.0; STATE];
    variances[LEVEL] = LEVEL_SD * LEVEL_SD;
    variances[WEEKEND] = WEEKEND_SD * WEEKEND_SD;
    variances[DEVIATION] = deviation;
    for (range, sd) in [(1..WEEKEND, HARMONIC_SD), (WEEKEND + 1..DEVIATION, WEEKEND_SD)] {
        for (order, pair) in orders().zip(variances[range].chunks_exact_mut(2)) {
            pair.fill((sd / order).powi(2));
        }
    }
    variances
}

fn orders() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), |order| Some(order + 1.0))
}

pub(crate) fn diagonal(numbers: &Parts) -> [Parts; STATE] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { numbers[row] } else { 0.0 }))
}

pub(crate) fn dot(a: &Parts, b: &Parts) -> f64 {
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

    #[test]
    fn a_slot_of_a_whole_day_averages_the_harmonics_out_and_a_short_one_has_them_whole() {
        let of = |length| When { time: 0.0, weekend: false, length }.weights();
        let day = of(DAY);
        assert!(day[0] == 1.0 && day[1..].iter().all(|share| share.abs() < 1e-12), "{day:?}");
        let moment = of(0.0);
        assert!(moment[1..WEEKEND].chunks_exact(2).all(|pair| pair == [1.0, 0.0]), "{moment:?}");
        // The mean of a cosine over half its period around its top.
        assert!((of(DAY / 2.0)[1] - 2.0 / std::f64::consts::PI).abs() < 1e-12);
    }

    #[test]
    fn weekends_add_their_difference_and_other_days_have_none_of_it() {
        let of = |weekend| When { time: 30_000.0, weekend, length: 600.0 }.weights();
        let (weekday, weekend) = (of(false), of(true));
        assert_eq!(weekday[..WEEKEND], weekend[..WEEKEND]);
        assert!(weekday[WEEKEND..].iter().all(|weight| *weight == 0.0));
        assert_eq!(weekend[WEEKEND], 1.0);
        assert_eq!(weekend[WEEKEND + 1..DEVIATION], weekend[1..DEVIATION - WEEKEND]);
    }
}
