//! Random decisions and counts with exactly the stated probabilities, from integers alone.
//!
//! None of them runs in constant time.

use rand_core::Rng;

/// Draws uniformly from `0..n`, for `n >= 1` (Lemire 2019, "Fast random integer generation").
pub(super) fn below<R: Rng + ?Sized>(rng: &mut R, n: u64) -> u64 {
    // Most bounds are small, and random bits are not free: half the width does for them.
    if n <= 1 << 32 {
        loop {
            let product = u64::from(rng.next_u32()) * n;
            let low = product % (1 << 32);
            // The 2^32 mod n lowest are one too many; the first test spares most divisions.
            if low >= n || low >= (1 << 32) % n {
                return product >> 32;
            }
        }
    }
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(n);
        let (high, low) = halves(product);
        if low >= n || low >= n.wrapping_neg() % n {
            return high;
        }
    }
}

/// Succeeds with probability `a/b`; surely, and at no cost, if `a >= b`.
pub(super) fn bernoulli<R: Rng + ?Sized>(rng: &mut R, a: u64, b: u64) -> bool {
    a >= b || below(rng, b) < a
}

/// Succeeds with probability `exp(-a/b)` (Canonne, Kamath and Steinke 2020, algorithm 1).
pub(super) fn bernoulli_exp<R: Rng + ?Sized>(rng: &mut R, mut a: u128, b: u64) -> bool {
    while a > u128::from(b) {
        if !bernoulli_exp_fraction(rng, 1, 1) {
            return false;
        }
        a -= u128::from(b);
    }
    let a = u64::try_from(a).expect("at most b by now");
    bernoulli_exp_fraction(rng, a, b)
}

/// Draws from Poisson(`a/b`), half a unit of rate at a time.
pub(super) fn poisson<R: Rng + ?Sized>(rng: &mut R, a: u32, b: u32) -> u64 {
    let (mut halves, unit) = (2 * u64::from(a), u64::from(b));
    let mut count = 0;
    while halves >= unit {
        count += poisson_fraction(rng, 1, 2);
        halves -= unit;
    }
    count + poisson_fraction(rng, halves, 2 * unit)
}

/// The case `a <= b`: P(the run of successes is even) is the alternating series of `exp(-a/b)`.
fn bernoulli_exp_fraction<R: Rng + ?Sized>(rng: &mut R, a: u64, b: u64) -> bool {
    let mut run = 0;
    // Bernoulli(a / (b k)) in two steps, since the product b k may overflow.
    while bernoulli(rng, 1, run + 1) && bernoulli(rng, a, b) {
        run += 1;
    }
    run % 2 == 0
}

/// The case `a/b <= 1/2`, by rejection (von Neumann 1951): `k` is proposed with probability
/// proportional to `(a/b)^k` and accepted with `1/k!`. A rate near 0 costs one small draw.
fn poisson_fraction<R: Rng + ?Sized>(rng: &mut R, a: u64, b: u64) -> u64 {
    'propose: loop {
        let mut count = 0;
        while bernoulli(rng, a, b) {
            count += 1;
            if !bernoulli(rng, 1, count) {
                continue 'propose;
            }
        }
        return count;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn halves(product: u128) -> (u64, u64) {
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    const DRAWS: u32 = 200_000;

    #[test]
    fn below_is_uniform_for_small_and_large_bounds() {
        for n in [1, 2, 3, 7, u32::MAX.into(), 1 << 32, 3 << 62] {
            for third in 0..3 {
                // The cell holds floor((third+1) n/3) - floor(third n/3) of the n values.
                let cell = |i| u64::try_from(u128::from(n) * i / 3).unwrap();
                let (from, to) = (cell(third), cell(third + 1));
                let share = (to - from) as f64 / n as f64;
                assert_frequency(share, |rng| (from..to).contains(&below(rng, n)));
            }
        }
    }

    #[test]
    fn below_favours_no_residue() {
        // Without the rejection, every third value of three quarters of a word comes up twice.
        for n in [3 << 30, 3 << 62] {
            for residue in 0..3 {
                assert_frequency(1.0 / 3.0, |rng| below(rng, n) % 3 == residue);
            }
        }
    }

    #[test]
    fn bernoulli_matches_its_fraction() {
        for (a, b) in [(0, 1), (0, 9), (1, 3), (2, 7), (99, 100), (5, 5), (6, 5), (1 << 62, 3 << 62)] {
            let expected = (a as f64 / b as f64).min(1.0);
            assert_frequency(expected, |rng| bernoulli(rng, a, b));
        }
    }

    #[test]
    fn bernoulli_exp_matches_the_exponential() {
        let wide = u128::from(u64::MAX);
        for (a, b) in [(0, 1), (1, 1_000), (1, 3), (1, 1), (3, 2), (5, 1), (wide * 2, u64::MAX)] {
            let expected = (-(a as f64) / b as f64).exp();
            assert_frequency(expected, |rng| bernoulli_exp(rng, a, b));
        }
    }

    #[test]
    fn a_hopeless_exponential_ends_at_once() {
        assert_frequency(0.0, |rng| bernoulli_exp(rng, u128::MAX, 1));
    }

    #[test]
    fn poisson_matches_its_probabilities() {
        for (a, b) in [(0, 3), (1, 1), (1, 2), (2, 3), (1, 50), (40, 9), (3, u32::MAX)] {
            let rate = f64::from(a) / f64::from(b);
            let mut expected = (-rate).exp();
            for k in 0..8 {
                assert_frequency(expected, |rng| poisson(rng, a, b) == k);
                expected *= rate / (k + 1) as f64;
            }
        }
    }

    /// Five standard deviations: about one false alarm in a million, were the seed not fixed.
    fn assert_frequency(expected: f64, mut event: impl FnMut(&mut ChaCha8Rng) -> bool) {
        let mut rng = ChaCha8Rng::seed_from_u64(20_260_101);
        let hits = (0..DRAWS).filter(|_| event(&mut rng)).count() as f64;
        let mean = expected * f64::from(DRAWS);
        let tolerance = 5.0 * (mean * (1.0 - expected)).sqrt();
        assert!((hits - mean).abs() <= tolerance, "{hits} hits, {mean} +- {tolerance} expected");
    }
}
