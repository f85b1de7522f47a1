//! Chance, in the forms in which the model needs it.
//!
//! These few lines decide every trace together with ChaCha8, whose output is fixed for ever. Distributions of a library
//! might change with its version, and seeds would lose their meaning.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers of its own.
#[derive(Debug)]
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// What decides about the home itself.
    pub(super) fn of_home(seed: u64, home: u32) -> Self {
        Self::stream(seed, u64::from(home) << 32)
    }

    /// What decides about one day of the home.
    pub(super) fn of_day(seed: u64, home: u32, day: u32) -> Self {
        // Stream 0 of the home is the home itself. Days end long before they reach the streams of the next home.
        Self::stream(seed, (u64::from(home) << 32).wrapping_add(u64::from(day) + 1))
    }

    /// What decides about the home's roof: the stream after all of its days, so that nothing else of the home depends on it.
    pub(super) fn of_roof(seed: u64, home: u32) -> Self {
        Self::stream(seed, (u64::from(home) << 32) | u64::from(u32::MAX))
    }

    /// What decides about the sky of a day, for all homes: the streams of a home that no street has.
    pub(super) fn of_sky(seed: u64, day: u32) -> Self {
        Self::stream(seed, (u64::from(u32::MAX) << 32) | u64::from(day))
    }

    fn stream(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Whether something of this probability happens.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        const SCALE: f64 = 4_294_967_296.0; // 2^32
        probability > 0.0 && f64::from(self.0.next_u32()) < probability * SCALE
    }

    /// Uniform on [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        const SCALE: f64 = 9_007_199_254_740_992.0; // 2^53, the bits of a double's mantissa
        (self.0.next_u64() >> 11) as f64 / SCALE
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal, by Box and Muller.
    pub(super) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A whole number, uniform on `0..below`; 0 if there is none.
    pub(super) fn below(&mut self, below: u32) -> u32 {
        floor(self.unit() * f64::from(below))
    }

    /// The place of one of the weights, each as probable as it is heavy.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(weights.len() - 1)
    }
}

/// The whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is outside of u32 ends at its bounds"
)]
pub(super) fn floor(value: f64) -> u32 {
    value as u32
}

/// The nearest number of watts.
#[expect(clippy::cast_possible_truncation, reason = "no appliance comes near the bounds of i32")]
pub(super) fn watts(value: f64) -> i32 {
    value.round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 100_000;

    fn mean(mut draw: impl FnMut(&mut Draw) -> f64) -> f64 {
        let mut stream = Draw::of_home(7, 1);
        (0..DRAWS).map(|_| draw(&mut stream)).sum::<f64>() / f64::from(DRAWS)
    }

    // Bounds are five standard errors of a mean of 100,000.

    #[test]
    fn what_has_a_chance_happens_as_often() {
        let happened = mean(|draw| f64::from(u8::from(draw.chance(0.01))));
        assert!((happened - 0.01).abs() < 0.0016, "{happened}");
        assert!((0..1000).all(|_| !Draw::of_home(7, 1).chance(0.0)));
    }

    #[test]
    fn normals_have_their_mean_and_deviation() {
        assert!((mean(|draw| draw.normal(60.0, 10.0)) - 60.0).abs() < 0.16);
        let variance = mean(|draw| (draw.normal(60.0, 10.0) - 60.0).powi(2));
        assert!((variance - 100.0).abs() < 2.3, "{variance}");
    }

    #[test]
    fn exponentials_have_mean_one() {
        assert!((mean(Draw::exponential) - 1.0).abs() < 0.016);
    }

    #[test]
    fn whole_numbers_stay_below_their_bound() {
        let numbers = mean(|draw| {
            let number = draw.below(10);
            assert!(number < 10);
            f64::from(number)
        });
        assert!((numbers - 4.5).abs() < 0.046, "{numbers}");
        assert_eq!(Draw::of_home(7, 1).below(0), 0);
    }

    #[test]
    fn heavy_weights_are_drawn_more_often() {
        let last = mean(|draw| f64::from(u8::from(draw.weighted(&[1.0, 0.0, 3.0]) == 2)));
        assert!((last - 0.75).abs() < 0.007, "{last}");
    }

    #[test]
    fn a_day_is_a_stream_of_its_own() {
        let first = |mut draw: Draw| draw.unit().to_bits();
        let homes = [Draw::of_home(7, 1), Draw::of_day(7, 1, 0), Draw::of_day(7, 1, 1), Draw::of_day(7, 2, 0)];
        let streams = homes.into_iter().chain([Draw::of_roof(7, 1), Draw::of_roof(7, 2), Draw::of_sky(7, 0)]);
        let mut numbers: Vec<u64> = streams.map(first).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 7);
    }
}
