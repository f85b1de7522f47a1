//! The noise each meter adds, and what the sum of it looks like (`protocol.md 5`, `protocol-gateway.md 5`).
//!
//! A share is `z = NB(1/n, p) - NB(1/n, p)` with `p = exp(-1/lambda)`; `n` of them add up to the
//! discrete Laplace distribution `P(d) ~ p^|d|`. [`Sampler`] draws shares from integers alone,
//! because floating-point noise leaks (Mironov 2012); only [`Spread`], which reports how wide the
//! sum is, and [`Composition`] and [`epsilon_of_rho`], which report what several sums tell, use floating point. Sampling time
//! varies with the share, so draw it before the slot ends, not while someone may be timing the answer.

#[cfg(feature = "report")]
mod band;
#[cfg(feature = "report")]
mod composition;
#[cfg(feature = "report")]
mod concentrated;
mod exact;

use rand_core::CryptoRng;

#[cfg(feature = "report")]
pub use band::{Confidence, Spread};
#[cfg(feature = "report")]
pub use composition::Composition;
#[cfg(feature = "report")]
pub use concentrated::{DAY_DELTA, day_micro_rho, epsilon_of_rho, pure_epsilon_of_rho, rho_of_epsilon, right_guesses};

/// The noise scale lambda = sensitivity / epsilon, an exact fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    numerator: u64,
    denominator: u64,
}

impl Scale {
    /// Makes the scale `numerator / denominator`.
    ///
    /// # Panics
    ///
    /// If either is zero, the numerator is 2^60 or more, or the scale is 2^33 or more: `Params`
    /// refuses such a configuration, and the sampler's arithmetic relies on it.
    pub fn new(numerator: u64, denominator: u64) -> Self {
        Self::checked(numerator, denominator).expect("a scale is positive and below 2^33")
    }

    /// Makes the scale, or `None` where [`Scale::new`] would panic.
    pub(crate) fn checked(numerator: u64, denominator: u64) -> Option<Self> {
        let possible = numerator >= 1 && denominator >= 1 && numerator < 1 << 60 && numerator >> 33 < denominator;
        possible.then(|| {
            let divisor = gcd(numerator, denominator);
            Self { numerator: numerator / divisor, denominator: denominator / divisor }
        })
    }

    pub fn numerator(self) -> u64 {
        self.numerator
    }

    pub fn denominator(self) -> u64 {
        self.denominator
    }
}

/// Draws one meter's noise shares.
///
/// A share is compound Poisson: jumps of size `x` and either sign arrive at rate `p^x / (n x)`.
/// They are thinned from points of rate `2/n` in each block `[2^j, 2^(j+1))`, uniform within it.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    honest: u32,
    scale: Scale,
    /// Jumps of `2^blocks >= 72 lambda` and more are left out: fewer than 2^-100 an aggregate.
    blocks: u32,
}

impl Sampler {
    /// Prepares shares of which `honest` sum to the full noise of `scale`.
    ///
    /// # Panics
    ///
    /// If `honest` is zero.
    pub fn new(honest: u32, scale: Scale) -> Self {
        assert!(honest >= 1, "noise takes at least one honest meter");
        let reach = (72 * u128::from(scale.numerator)).div_ceil(u128::from(scale.denominator));
        Self { honest, scale, blocks: reach.next_power_of_two().trailing_zeros() }
    }

    /// Draws a fresh share.
    pub fn sample(&self, rng: &mut (impl CryptoRng + ?Sized)) -> i64 {
        let points = exact::poisson(rng, 2 * self.blocks, self.honest);
        // Wrapping cannot happen short of 2^23 points; if it did, the masked sum wraps alike.
        (0..points).fold(0, |share: i64, _| share.wrapping_add(self.jump(rng)))
    }

    /// Draws one point, and returns it if it is kept or 0 if it is not.
    fn jump(&self, rng: &mut (impl CryptoRng + ?Sized)) -> i64 {
        let start = 1 << exact::below(rng, self.blocks.into());
        // At most 39 low bits place the point; the top bit is its sign.
        let bits = rng.next_u64();
        let size: u64 = start | (bits & (start - 1));
        let exponent = u128::from(size) * u128::from(self.scale.denominator);
        if !exact::bernoulli(rng, start, size) || !exact::bernoulli_exp(rng, exponent, self.scale.numerator) {
            return 0;
        }
        let jump = size.cast_signed();
        if bits >> 63 == 0 { jump } else { -jump }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn a_scale_is_kept_in_lowest_terms() {
        let scale = Scale::new(9_000 * 4, 6);
        assert_eq!((scale.numerator(), scale.denominator()), (6_000, 1));
        assert_eq!(Scale::new(3, 7), Scale::new(21, 49));
    }

    #[test]
    #[should_panic(expected = "below 2^33")]
    fn a_scale_beyond_the_samplers_arithmetic_is_refused() {
        Scale::new(1 << 34, 2);
    }

    #[test]
    fn blocks_reach_seventy_two_scales_and_no_block_further() {
        let blocks = |numerator, denominator| Sampler::new(1, Scale::new(numerator, denominator)).blocks;
        assert_eq!(blocks(9_000, 1), 20); // 648,000 <= 2^20
        assert_eq!(blocks(64, 72), 6);
        assert_eq!(blocks(65, 72), 7);
        assert_eq!(blocks(1, 72), 0);
        assert_eq!(blocks(1, 1_000_000), 0);
        assert_eq!(blocks((1 << 33) - 1, 1), 40);
    }

    #[test]
    fn the_largest_and_the_finest_scales_do_not_overflow() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (numerator, denominator) in
            [((1 << 33) - 1, 1), ((1 << 60) - 1, (1 << 27) + 1), (1, u64::MAX), ((1 << 60) - 1, u64::MAX)]
        {
            let sampler = Sampler::new(1, Scale::new(numerator, denominator));
            assert!((0..1_000).all(|_| sampler.sample(&mut rng).unsigned_abs() < 1 << 41));
        }
    }

    #[test]
    fn noise_far_below_one_unit_is_none() {
        let sampler = Sampler::new(1, Scale::new(1, 1_000_000));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!((0..1_000).all(|_| sampler.sample(&mut rng) == 0));
    }

    #[test]
    fn equal_seeds_draw_equal_shares() {
        let sampler = Sampler::new(2, Scale::new(9_000, 1));
        let draw = |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            (0..50).map(|_| sampler.sample(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
