//! What sinusoids miss, for every ten minutes of the day.
//!
//! Sinusoids are smooth, and time switches are not. So a hypothesis may also have a correction for every ten minutes of
//! the day. Corrections are kept apart from the state and from each other, each with its own variance. That leaves their
//! covariances out, and saves a matrix of the size of a day.

use crate::daily::{DAY, whole};
use crate::hypothesis::PROFILE_TAU;
use crate::normal::Normal;

/// Length of a time-of-day bin, in seconds.
const BIN: f64 = 600.0;
const BINS: usize = 144;

/// Corrections by time of day; none if there is no uncertainty to begin with.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    /// The variance of a correction before anything is known.
    most: f64,
    pub(crate) all: Vec<Normal>,
}

impl Bins {
    pub(crate) fn new(variance: f64) -> Self {
        let count = if variance > 0.0 { BINS } else { 0 };
        Self { most: variance, all: vec![Normal { mean: 0.0, variance }; count] }
    }

    /// Returns the correction at a time in seconds since midnight.
    pub(crate) fn at(&self, time: f64) -> Normal {
        self.all.get(whole(time / BIN)).copied().unwrap_or_default()
    }

    /// Returns the same when it was not observed for `elapsed` seconds.
    pub(crate) fn later(&self, time: f64, elapsed: f64) -> Normal {
        let bin = self.at(time);
        if elapsed > DAY { faded(bin, self.most, elapsed - DAY) } else { bin }
    }

    /// Predicts the corrections after `elapsed` seconds without a sum.
    pub(crate) fn predict(&mut self, elapsed: f64) {
        if elapsed > DAY {
            self.all.iter_mut().for_each(|bin| *bin = faded(*bin, self.most, elapsed - DAY));
        }
    }

    pub(crate) fn update(&mut self, time: f64, length: f64, shift: f64, sharpening: f64) {
        let Some(bin) = self.all.get_mut(whole(time / BIN)) else { return };
        bin.mean += shift * bin.variance;
        // It is observed once a day, or by several slots that are shorter: it forgets a day in all.
        let forgotten = 2.0 * DAY / PROFILE_TAU * (length / BIN).min(1.0);
        let sharper = bin.variance - sharpening * bin.variance * bin.variance;
        bin.variance = (sharper + forgotten * self.most).min(self.most);
    }
}

fn faded(bin: Normal, most: f64, elapsed: f64) -> Normal {
    let kept = (-elapsed / PROFILE_TAU).exp();
    Normal { mean: kept * bin.mean, variance: kept * kept * bin.variance + (1.0 - kept * kept) * most }
}
