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
