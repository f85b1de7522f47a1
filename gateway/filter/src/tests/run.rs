//! A cluster that lives, for tests of the filter.

use std::f64::consts::TAU;

use super::{LAMBDA, MEMBERS, MONDAY};
use crate::{Filter, Filtered, LocalTime, Release, Slot, Smoothed};

/// A cluster whose load has a daily profile and a short-term deviation, and a filter that sees its sums.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) filter: Filter,
    pub(super) chance: Chance,
    pub(super) deviation: f64,
    /// The end of the slot before, by the filter's clock and by the cluster's.
    pub(super) end: u64,
    pub(super) lived: u64,
    pub(super) slot: u64,
    /// How much time passes for the cluster in a slot.
    pub(super) lives: u64,
    pub(super) lambda: f64,
    /// Responders over those who were counted on: each adds a share of the noise.
    pub(super) shape: f64,
    pub(super) members: u16,
    pub(super) responders: u16,
    pub(super) scale: f64,
    /// The peak power of the panels of a member on average, in watts.
    pub(super) panels: f64,
    /// What the day's sky lets through.
    pub(super) sky: f64,
    /// How much less is used in the mornings of weekends, and more at noon, in watts.
    pub(super) weekend: f64,
    /// By how many seconds clocks are ahead of UTC, and whether the filter knows that, and weekends.
    pub(super) ahead: u64,
    pub(super) told: bool,
    /// What was added to the last sum.
    pub(super) noise: f64,
    /// What the filter said of slots an hour later, by their ends.
    pub(super) late: Vec<Smoothed>,
}

/// A day's mean relative errors, how often the band held the load, and its mean half width.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Score {
    pub(super) raw: f64,
    pub(super) filtered: f64,
    pub(super) covered: f64,
    pub(super) band: f64,
}

impl Run {
    pub(super) fn of(slot: u64, lives: u64) -> Self {
        let (filter, chance) = (Filter::default(), Chance(slot));
        let (lambda, shape, members, responders, scale) = (LAMBDA, 1.0, MEMBERS, MEMBERS, 1.0);
        Self {
            filter,
            chance,
            deviation: 0.0,
            end: MONDAY,
            lived: 0,
            slot,
            lives,
            lambda,
            shape,
            members,
            responders,
            scale,
            panels: 0.0,
            sky: 0.0,
            weekend: 0.0,
            ahead: 0,
            told: true,
            noise: 0.0,
            late: Vec::new(),
        }
    }

    /// The load of all members in the next slot, and what the filter makes of its sum.
    pub(super) fn slot(&mut self) -> (f64, Filtered) {
        let truth = self.live();
        let (start_millis, end_millis) = (self.end * 1000, (self.end + self.slot) * 1000);
        self.noise = self.lambda * (self.chance.gamma(self.shape) - self.chance.gamma(self.shape));
        let (members, responders) = (self.members, self.responders);
        let watts = (truth * f64::from(responders) / f64::from(members) + self.noise).round();
        let variance = 2.0 * self.shape * self.lambda * self.lambda;
        let local = self.local();
        let release = Release { start_millis, end_millis, local, watts, variance, responders, members };
        self.end += self.slot;
        let filtered = self.filter.observe(&release).unwrap();
        self.late.extend(self.filter.smoothed());
        (truth, filtered)
    }

    /// The load in the next slot, which gives no sum, and what the filter expects it to be.
    pub(super) fn failed_slot(&mut self) -> (f64, Filtered) {
        let (start_millis, end_millis) = (self.end * 1000, (self.end + self.slot) * 1000);
        let slot = Slot { start_millis, end_millis, local: self.local(), members: self.members };
        let truth = self.live();
        self.end += self.slot;
        (truth, self.filter.predict(&slot).unwrap())
    }

    /// What the filter knows of the clocks in the next slot.
    fn local(&self) -> LocalTime {
        let middle = self.end * 1000 + 500 * self.slot;
        if self.told {
            LocalTime::utc(middle + self.ahead * 1000)
        } else {
            LocalTime { weekend: false, ..LocalTime::utc(middle) }
        }
    }

    /// Lets the cluster live through the next slot; returns its load.
    fn live(&mut self) -> f64 {
        let clock = (self.lived + self.ahead) as f64 + self.lives as f64 / 2.0;
        let turn = TAU * clock / 86_400.0;
        let kept = (-(self.lives as f64) / 2400.0).exp();
        self.deviation = kept * self.deviation + (1.0 - kept * kept).sqrt() * self.chance.normal();
        let around = |hour: f64| (-((clock / 3600.0) % 24.0 - hour).powi(2) / 8.0).exp();
        let weekend = matches!((self.lived + self.ahead) / 86_400 % 7, 5 | 6);
        let later = if weekend { self.weekend * (around(12.5) - around(7.5)) } else { 0.0 };
        let profile = 45_000.0 - 16_000.0 * turn.cos() + 9_000.0 * (2.0 * turn).sin() + later;
        let drawn = self.scale * (profile + 25.0 * profile.sqrt() * self.deviation);
        if self.panels > 0.0 && self.lived.is_multiple_of(86_400) {
            self.sky = 0.25 + 0.75 * self.chance.unit();
        }
        let sun = (-turn.cos()).max(0.0);
        self.lived += self.lives;
        drawn - 0.7 * self.sky * self.panels * sun * f64::from(self.members)
    }

    /// Lets so many slots pass.
    pub(super) fn pass(&mut self, slots: usize) {
        for _ in 0..slots {
            self.slot();
        }
    }

    pub(super) fn days(&mut self, count: usize) -> Vec<Score> {
        (0..count).map(|_| self.day()).collect()
    }

    pub(super) fn day(&mut self) -> Score {
        let slots: Vec<_> = (0..86_400 / self.lives).map(|_| self.slot()).collect();
        Score::of(self.lambda, &slots)
    }
}

impl Score {
    pub(super) fn of(lambda: f64, slots: &[(f64, Filtered)]) -> Self {
        let (count, mut score) = (slots.len() as f64, Self::default());
        for &(truth, Filtered { watts, band95 }) in slots {
            let (size, error) = (truth.abs() + 1.0, (watts - truth).abs());
            score.raw += lambda / size / count;
            score.filtered += error / size / count;
            score.covered += f64::from(u8::from(error <= band95)) / count;
            score.band += band95 / count;
        }
        score
    }
}

/// Numbers that look random: Marsaglia's xorshift.
#[derive(Clone)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Of a shape from 1 to below 2: Jöhnk's method for what is above 1.
    pub(super) fn gamma(&mut self, shape: f64) -> f64 {
        let first = self.exponential();
        let rest = shape - 1.0;
        if rest == 0.0 {
            return first;
        }
        loop {
            let (x, y) = (self.unit().powf(rest.recip()), self.unit().powf((1.0 - rest).recip()));
            if x + y <= 1.0 {
                return first + self.exponential() * x / (x + y);
            }
        }
    }

    pub(super) fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (TAU * self.unit()).cos()
    }
}
