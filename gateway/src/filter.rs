//! A cluster's load with less noise: what the sums before tell about the sum of now.
//!
//! The filter sees only what was released, so it costs no privacy, and it knows how much noise each sum carries.

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::time::Timestamp;

/// A released sum as the filter takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    pub start: Timestamp,
    pub end: Timestamp,
    /// The noisy sum over the responders, in watts.
    pub watts: f64,
    /// The variance of its noise.
    pub variance: f64,
    pub responders: u16,
    pub members: u16,
}

impl Release {
    /// Of a slot that gave a sum.
    pub fn of(outcome: &SlotOutcome) -> Option<Self> {
        let SlotOutcome { start, end, members, responders, .. } = *outcome;
        let watts = outcome.result.ok()?.watts() as f64;
        Some(Self { start, end, watts, variance: outcome.spread().variance(), responders, members })
    }
}

/// What the filter makes of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filtered {
    /// The load of all members, silent ones included, in watts.
    pub watts: f64,
    /// Half the width of the band that holds it with 95 % confidence.
    pub band95: f64,
}

/// The filter of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    last: Option<Level>,
}

/// The load of one member, in watts, and how sure it is.
#[derive(Debug, Clone, Copy)]
struct Level {
    end: Timestamp,
    mean: f64,
    variance: f64,
}

impl Filter {
    /// Takes the sum of a slot. Nothing for one that ended no later than the one before.
    pub fn observe(&mut self, release: &Release) -> Option<Filtered> {
        const STEP: f64 = 30.0 * 30.0;
        let (members, responders) = (f64::from(release.members), f64::from(release.responders));
        let (seen, noise) = (release.watts / responders, release.variance / (responders * responders));
        let level = match self.last {
            Some(last) if release.end <= last.end => return None,
            Some(Level { mean, variance, .. }) => {
                let predicted = variance + STEP;
                let gain = predicted / (predicted + noise);
                Level { end: release.end, mean: mean + gain * (seen - mean), variance: (1.0 - gain) * predicted }
            }
            None => Level { end: release.end, mean: seen, variance: noise },
        };
        self.last = Some(level);
        Some(Filtered { watts: members * level.mean, band95: Z95 * members * level.variance.sqrt() })
    }
}

/// Of a normal distribution, 95 % lies within so many deviations.
const Z95: f64 = 1.959_964;
