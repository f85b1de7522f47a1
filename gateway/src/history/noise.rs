//! The noise of several sums together: that of slots of a cluster, or of clusters in a slot. Each sum adds its own independently,
//! so that the band around a total is narrower than the total of the bands.

use std::ops::AddAssign;

use super::ClosedSlot;

/// Independent noise that was added up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AddedNoise {
    variance: f64,
    /// The fourth cumulants, as multiples of that of Laplace noise with a variance of 1.
    tails: f64,
}

impl AddedNoise {
    /// Returns the noise of a sum that was multiplied with `scale`; none if the slot gave none.
    pub fn of(slot: &ClosedSlot, scale: f64) -> Self {
        let outcome = &slot.outcome;
        if outcome.result.is_err() || outcome.responders == 0 {
            return Self::default();
        }
        let variance = outcome.spread().variance() * scale.powi(2);
        // The fourth cumulant of a sum of noise is in proportion to its variance squared over its shape, the number of shares
        // over those that make up the whole noise.
        let tails = variance * variance * f64::from(outcome.honest) / f64::from(outcome.responders);
        Self { variance, tails }
    }

    /// Returns what is not known of a slot's estimate for all members: its noise, scaled to them, and what meters cut off.
    pub fn of_estimate(slot: &ClosedSlot) -> Self {
        let Some(cut_off) = slot.cut_off else { return Self::of(slot, slot.to_members()) };
        let [share, lasting, daily, passing] = cut_off.shares();
        let mut all = Self::of(slot, slot.to_members() * (1.0 + share));
        let watts = slot.sum().map_or(0.0, |sum| slot.to_members() * sum.watts as f64);
        all.variance += watts * watts * (lasting * lasting + daily * daily + passing * passing);
        all
    }

    /// Returns normal noise, half the width of whose 95 % band is given.
    pub fn normal(band95: f64) -> Self {
        Self { variance: (band95 / NORMAL95).powi(2), tails: 0.0 }
    }

    /// Returns half the width of the band that holds the total without noise with 95 % confidence.
    pub fn band95(&self) -> f64 {
        self.band(&Quantiles::P95)
    }

    /// Returns the same for 99 %.
    pub fn band99(&self) -> f64 {
        self.band(&Quantiles::P99)
    }

    fn band(&self, quantiles: &Quantiles) -> f64 {
        if self.variance == 0.0 {
            return 0.0;
        }
        quantiles.deviations(self.tails / (self.variance * self.variance)) * self.variance.sqrt()
    }
}

impl AddAssign for AddedNoise {
    /// Variances add up, and so do fourth cumulants.
    fn add_assign(&mut self, other: Self) {
        self.variance += other.variance;
        self.tails += other.tails;
    }
}

/// How many standard deviations hold 95 % of a normal distribution.
pub const NORMAL95: f64 = 1.959_964;
/// The same for 99 %.
pub(super) const NORMAL99: f64 = 2.575_829;

/// Returns how many standard deviations hold 95 % of noise whose shape is `1 / heaviness`: 1 is Laplace noise, 0 normal.
pub(super) fn deviations95(heaviness: f64) -> f64 {
    Quantiles::P95.deviations(heaviness)
}

/// How many standard deviations hold most of a noise, for three shapes of it, exactly.
struct Quantiles {
    normal: f64,
    two: f64,
    laplace: f64,
}

impl Quantiles {
    const P95: Self = Self { normal: NORMAL95, two: 2.056_5, laplace: 2.118_277 };
    const P99: Self = Self { normal: NORMAL99, two: 2.995_2, laplace: 3.256_347 };

    /// Returns the number for noise whose shape is `1 / heaviness`: 1 is Laplace noise, 0 normal. It lies on the parabola through
    /// the exact ones.
    fn deviations(&self, heaviness: f64) -> f64 {
        let heaviness = heaviness.clamp(0.0, 1.0);
        let bend = 2.0 * (self.laplace + self.normal - 2.0 * self.two);
        let slope = self.laplace - self.normal - bend;
        self.normal + heaviness * (slope + heaviness * bend)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use dream_protocol::noise::{Confidence, Scale, Spread};
    use dream_testkit::outcomes::Slotted;

    use super::*;

    fn added(slots: impl IntoIterator<Item = ClosedSlot>, scale: f64) -> AddedNoise {
        let mut all = AddedNoise::default();
        slots.into_iter().for_each(|slot| all += AddedNoise::of(&slot, scale));
        all
    }

    fn decoded(noise_scale: u64, responders: u16) -> ClosedSlot {
        ClosedSlot::from(Slotted { noise_scale, ..Slotted::new(0) }.decoded(1000, responders))
    }

    #[test]
    fn the_band_of_equal_sums_is_that_of_as_many_times_the_shares() {
        for responders in [80, 90, 100] {
            for sums in [1, 2, 3, 6, 19, 144] {
                // The noise of k sums is that of k times the shares.
                let shares = u32::from(responders) * u32::try_from(sums).unwrap();
                let exact = Spread::new(Scale::new(9000, 1), 80, shares);
                let found = added(std::iter::repeat_n(decoded(9000, responders), sums), 1.0);
                for (found, confidence, tolerance) in
                    [(found.band95(), Confidence::P95, 0.002), (found.band99(), Confidence::P99, 0.006)]
                {
                    let exact = exact.half_width(confidence) as f64;
                    assert!((found / exact - 1.0).abs() < tolerance, "{sums} of {responders}: {found}, not {exact}");
                }
            }
        }
    }

    #[test]
    fn sums_of_different_noise_count_by_their_variance() {
        let (quiet, loud) = (decoded(900, 80), decoded(9000, 80));
        // The loud one is nearly all of it.
        let (found, alone) = (added([quiet, loud], 1.0).band95(), loud.sum().unwrap().band95 as f64);
        assert!((alone..1.01 * alone).contains(&found), "{found}, {alone}");
    }

    #[test]
    fn what_is_scaled_has_its_noise_scaled_alike() {
        let slots = [decoded(9000, 90), decoded(900, 80), decoded(7000, 100)];
        let (once, twice) = (added(slots, 1.0), added(slots, 2.0));
        assert!((twice.band95() / once.band95() - 2.0).abs() < 1e-12);
        assert!((twice.band99() / once.band99() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_normal_band_is_told_as_it_was_and_adds_in_quadrature() {
        let mut two = AddedNoise::normal(3000.0);
        assert!((two.band95() - 3000.0).abs() < 1e-9);
        two += AddedNoise::normal(4000.0);
        assert!((two.band95() - 5000.0).abs() < 1e-9);
    }

    #[test]
    fn a_slot_without_a_sum_adds_no_noise() {
        let failed = ClosedSlot::from(Slotted::new(0).failed("interrupted", 0));
        assert_eq!(added([failed], 1.0), AddedNoise::default());
        assert_eq!(AddedNoise::default().band95(), 0.0);
    }
}
