//! What later sums tell about the load of a slot that is past.
//!
//! For each of the last slots a model keeps its mean, its variance, and how it varies with the state of now. What a sum
//! tells about the state it then tells about that slot as well, by their covariance: a Kalman smoother with a fixed lag,
//! which never looks at a sum again.

use crate::daily::{Parts, STATE, dot};
use crate::normal::Normal;

/// The load of a slot that is past, per member.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Past {
    pub(crate) load: Normal,
    /// With the state of now.
    covariance: Parts,
}

impl Past {
    /// A slot that just was, after its own sum. Before it, the load had this covariance with the state, of which the sum left
    /// this share.
    pub(crate) fn new(load: Normal, before: &Parts, left: f64) -> Self {
        Self { load, covariance: std::array::from_fn(|part| left * before[part]) }
    }

    /// Time passes, of which each part of the state keeps this much.
    pub(crate) fn predict(&mut self, kept: &Parts) {
        (0..STATE).for_each(|part| self.covariance[part] *= kept[part]);
    }

    /// A sum of another slot came in, whose load has these weights of the state's parts and had this covariance with it.
    pub(crate) fn update(&mut self, weights: &Parts, spread: &Parts, shift: f64, sharpening: f64) {
        let shared = dot(weights, &self.covariance);
        self.load.mean += shift * shared;
        self.load.variance = (self.load.variance - sharpening * shared * shared).max(0.0);
        (0..STATE).for_each(|part| self.covariance[part] -= sharpening * spread[part] * shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_load_moves_as_if_it_were_a_part_of_the_state() {
        // A state of two parts that vary together, and the load of a past slot as a third.
        let mut covariance = [[9.0, 2.0, 4.0], [2.0, 5.0, 1.0], [4.0, 1.0, 6.0]];
        let parts = |of: [f64; 2]| -> Parts { std::array::from_fn(|part| of.get(part).copied().unwrap_or(0.0)) };
        let mut past = Past { load: Normal { mean: 10.0, variance: 6.0 }, covariance: parts([4.0, 1.0]) };
        let (mut mean, weights) = ([0.0, 0.0, 10.0], [1.0, 0.5, 0.0]);
        for (shift, sharpening) in [(0.3, 0.05), (-0.1, 0.08)] {
            let spread: [f64; 3] =
                std::array::from_fn(|row| covariance[row].iter().zip(&weights).map(|(a, b)| a * b).sum());
            past.update(&parts([1.0, 0.5]), &parts([spread[0], spread[1]]), shift, sharpening);
            for row in 0..3 {
                mean[row] += shift * spread[row];
                (0..3).for_each(|column| covariance[row][column] -= sharpening * spread[row] * spread[column]);
            }
            // Then a tenth of the second part is forgotten.
            past.predict(&parts([1.0, 0.9]));
            (0..3).for_each(|at| covariance[1][at] *= 0.9);
            (0..3).for_each(|at| covariance[at][1] *= 0.9);
        }
        assert!((past.load.mean - mean[2]).abs() < 1e-12 && (past.load.variance - covariance[2][2]).abs() < 1e-12);
        assert!((past.covariance[0] - covariance[2][0]).abs() < 1e-12, "{past:?}");
        assert!((past.covariance[1] - covariance[2][1]).abs() < 1e-12, "{past:?}");
        assert!(past.load.variance < 6.0);
    }
}
