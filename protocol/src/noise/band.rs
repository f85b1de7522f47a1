//! How far an aggregate may lie from the truth, for any number of responders.
//!
//! `k` shares made for `n` have the characteristic function
//! `((1-p)^2 / (1 - 2p cos t + p^2))^a`, `a = k/n`, and everything here is read off it: the tails
//! are exponential, so a Gaussian band would be too narrow. This module only reports, so it may
//! use floating point.

mod quadrature;

use core::f64::consts::PI;

use self::quadrature::{alternating_sum, integrate};
use super::Scale;

/// How surely the truth lies within a band around the aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    P95,
    P99,
}

impl Confidence {
    pub fn probability(self) -> f64 {
        match self {
            Self::P95 => 0.95,
            Self::P99 => 0.99,
        }
    }
}

impl Scale {
    /// The scale as the nearest floating-point number, for reports.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// The distribution of the noise `Z` in a sum of `responders` shares made for `honest`.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    lambda: f64,
    /// `a = k/n`.
    shape: f64,
    /// `c = 4p / (1-p)^2`, so that the characteristic function is `(1 + c sin^2(t/2))^-a`.
    curvature: f64,
}

impl Spread {
    /// Describes the sum of `responders` shares of which `honest` make up the full noise.
    ///
    /// # Panics
    ///
    /// If `honest` is zero.
    pub fn new(scale: Scale, honest: u32, responders: u32) -> Self {
        assert!(honest >= 1, "noise takes at least one honest meter");
        let lambda = scale.as_f64();
        let complement = -(-lambda.recip()).exp_m1(); // 1 - p, without cancellation
        Self {
            lambda,
            shape: f64::from(responders) / f64::from(honest),
            curvature: 4.0 * (-lambda.recip()).exp() / complement.powi(2),
        }
    }

    /// The variance of `Z`, `2ap / (1-p)^2`.
    pub fn variance(&self) -> f64 {
        self.shape * self.curvature / 2.0
    }

    /// The standard deviation of `Z`.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// E|Z|, the mean absolute error of the aggregate.
    ///
    /// `E|Z| = (1/pi) * integral over 0..pi of (1 - phi(t)) / (1 - cos t) dt`. With
    /// `e^y = tan(t/2)` the integrand becomes `(1 - phi) e^-y`, which is analytic and falls off
    /// exponentially both ways: there the trapezoidal rule is exact to machine precision.
    pub fn mean_error(&self) -> f64 {
        const STEPS_PER_UNIT: f64 = 8.0;
        let left = 40.0 + (1.0 + self.curvature * self.shape.max(1.0)).ln() / 2.0;
        let steps = whole((left + 40.0) * STEPS_PER_UNIT);
        let sum: f64 = (0..=steps)
            .map(|step| {
                let w = (step as f64 / STEPS_PER_UNIT - left).exp();
                let log_phi = -self.shape * (self.curvature * w * w / (1.0 + w * w)).ln_1p();
                -log_phi.exp_m1() / w
            })
            .sum();
        sum / STEPS_PER_UNIT / PI
    }

    /// The smallest whole `h` for which `|Z| <= h` has at least this confidence.
    pub fn half_width(&self, confidence: Confidence) -> u64 {
        let allowed = 1.0 - confidence.probability();
        // Tails are nearly exponential, so their logarithm is nearly straight: regula falsi on it
        // takes few steps ("Illinois": an end that stays a second time has its weight halved).
        let excess = |h| ((1.0 - self.coverage(h)).max(1e-15) / allowed).ln();
        let mut low = (0, excess(0));
        if low.1 <= 0.0 {
            return 0;
        }
        let beyond = whole((self.variance() / allowed).sqrt()) + 1; // by Chebyshev's inequality
        let mut high = (beyond, excess(beyond));
        let mut previous = 0.0;
        while high.0 - low.0 > 1 {
            let gap = high.0 - low.0;
            let step = whole(gap as f64 * low.1 / (low.1 - high.1));
            let h = low.0 + step.clamp(1, gap - 1);
            let value = excess(h);
            let weight = if value * previous > 0.0 { 0.5 } else { 1.0 };
            if value > 0.0 {
                low = (h, value);
                high.1 *= weight;
            } else {
                high = (h, value);
                low.1 *= weight;
            }
            previous = value;
        }
        high.0
    }

    /// P(|Z| <= h).
    ///
    /// `(1/pi) * integral over 0..pi of phi(t) sin((h+1/2)t) / sin(t/2) dt`, summed over the half
    /// oscillations of the kernel. At pi the integrand is even and the last half oscillation is cut
    /// in two, which is exactly where an alternating sum may end without leaving a remainder: so
    /// the first terms tell the rest, as if the sum had no end.
    pub fn coverage(&self, h: u64) -> f64 {
        const ENOUGH: u64 = 24;
        // Chernoff's bound: a tail below 2 (4/3)^a exp(-(h+1) / 2 lambda), here less than 1e-16.
        if (h as f64 + 1.0) / self.lambda > 76.0 + 0.6 * self.shape {
            return 1.0;
        }
        let terms = Terms { spread: self, frequency: h as f64 + 0.5 };
        let sum = if h < ENOUGH {
            let whole_terms: f64 = (0..h).map(|m| sign(m) * terms.term(m, 1.0)).sum();
            whole_terms + sign(h) * terms.term(h, 0.5)
        } else {
            alternating_sum(ENOUGH, |m| terms.term(m, 1.0))
        };
        (sum / terms.frequency).clamp(0.0, 1.0)
    }

    fn characteristic(&self, sine_squared: f64) -> f64 {
        (1.0 + self.curvature * sine_squared).powf(-self.shape)
    }
}

/// The half oscillations of the inversion integral, in the variable `u = (h+1/2) t / pi`.
struct Terms<'a> {
    spread: &'a Spread,
    frequency: f64,
}

impl Terms<'_> {
    /// Integrates over the first `length` of the half oscillation `m`, without its sign.
    fn term(&self, m: u64, length: f64) -> f64 {
        if m > 0 {
            return self.panel(m, 0.0, length);
        }
        // Near 0 the characteristic function may be far narrower than the oscillation: close in.
        let smooth = self.frequency / (PI * self.spread.lambda * self.spread.shape.max(1.0).sqrt());
        let (mut sum, mut end) = (0.0, length);
        while end > smooth {
            sum += self.panel(0, end / 2.0, end);
            end /= 2.0;
        }
        sum + self.panel(0, 0.0, end)
    }

    /// Integrates from `m + from` to `m + to`.
    fn panel(&self, m: u64, from: f64, to: f64) -> f64 {
        integrate(from, to, |v| {
            let sine = (PI * (m as f64 + v) / (2.0 * self.frequency)).sin();
            self.spread.characteristic(sine * sine) * (PI * v).sin() / sine
        })
    }
}

fn sign(m: u64) -> f64 {
    if m.is_multiple_of(2) { 1.0 } else { -1.0 }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count far below 2^53, and never negative"
)]
fn whole(count: f64) -> u64 {
    count.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = (1 << 33) - 1;

    #[test]
    fn half_widths_match_the_protocols_table() {
        for (k, n, p95, p99) in [(1, 1, 2.996, 4.605), (5, 4, 3.316, 5.000), (2, 1, 4.113, 5.990)] {
            for lambda in [100_000, 1_000_000, HUGE] {
                let spread = Spread::new(Scale::new(lambda, 1), n, k);
                let factor = |confidence| spread.half_width(confidence) as f64 / lambda as f64;
                assert_close(factor(Confidence::P95), p95, 6e-4);
                assert_close(factor(Confidence::P99), p99, 6e-4);
            }
        }
    }

    #[test]
    fn mean_errors_match_the_papers_utility_theorem() {
        // n = (1 - alpha) N: alpha is the share of members that need not add noise.
        for (k, n, factor) in [(1, 1, 1.0), (10, 9, 1.0662), (10, 7, 1.2376), (2, 1, 1.5)] {
            for lambda in [9_000, HUGE] {
                let spread = Spread::new(Scale::new(lambda, 1), n, k);
                assert_close(spread.mean_error() / lambda as f64, factor, 6e-5);
            }
        }
    }

    #[test]
    fn a_full_sum_is_the_discrete_laplace() {
        for (numerator, denominator) in [(1, 1_000), (1, 5), (1, 1), (5, 1), (37, 2), (100, 1), (9_000, 1), (HUGE, 1)] {
            let spread = Spread::new(Scale::new(numerator, denominator), 7, 7);
            let lambda = numerator as f64 / denominator as f64;
            let p = (-1.0 / lambda).exp();
            let complement = -(-1.0 / lambda).exp_m1();
            assert_close(spread.mean_error(), 2.0 * p / (complement * (1.0 + p)), 1e-12);
            assert_close(spread.variance(), 2.0 * p / complement.powi(2), 1e-12);
            for scales in [0.0, 0.001, 0.01, 0.03, 0.1, 0.5, 1.0, 2.996, 4.605, 10.0, 30.0, 200.0] {
                let h = whole(scales * lambda);
                let tail = 2.0 * (-(h as f64 + 1.0) / lambda).exp() / (1.0 + p);
                assert!((spread.coverage(h) - (1.0 - tail)).abs() < 1e-12, "{lambda} {h}");
            }
            for confidence in [Confidence::P95, Confidence::P99] {
                let allowed = 1.0 - confidence.probability();
                let exact = (-lambda * (allowed * (1.0 + p) / 2.0).ln() - 1.0).max(0.0);
                assert_eq!(spread.half_width(confidence), whole(exact));
            }
        }
    }

    #[test]
    fn any_shape_matches_the_convolution_of_its_halves() {
        for (k, n) in [(1, 100), (3, 10), (1, 1), (5, 2), (20, 1), (60, 1)] {
            for (numerator, denominator) in [(1, 2), (3, 1), (25, 1)] {
                let spread = Spread::new(Scale::new(numerator, denominator), n, k);
                let (mut covered, mut mean, mut p95) = (0.0, 0.0, u64::MAX);
                for (h, probability) in (0..).zip(convolved(spread.shape, spread.lambda)) {
                    let either_sign = if h == 0 { probability } else { 2.0 * probability };
                    covered += either_sign;
                    mean += either_sign * h as f64;
                    assert!((spread.coverage(h) - covered).abs() < 1e-11, "{spread:?} {h}");
                    if covered >= 0.95 {
                        p95 = p95.min(h);
                    }
                }
                assert_close(spread.mean_error(), mean, 1e-10);
                assert_eq!(spread.half_width(Confidence::P95), p95);
            }
        }
    }

    #[test]
    fn every_shape_and_scale_has_a_half_width_just_reaching_the_confidence() {
        for (k, n) in [(1, 10_000), (1, 20), (1, 7), (1, 2), (9, 10), (10, 8), (40, 1), (10_000, 1)] {
            for (numerator, denominator) in [(1, 10), (1, 1), (40, 1), (9_000, 1), (HUGE, 1)] {
                let spread = Spread::new(Scale::new(numerator, denominator), n, k);
                for confidence in [Confidence::P95, Confidence::P99] {
                    let h = spread.half_width(confidence);
                    assert!(spread.coverage(h) >= confidence.probability(), "{spread:?}");
                    assert!(h == 0 || spread.coverage(h - 1) < confidence.probability());
                    assert!(h as f64 <= 1.0 + spread.deviation() * 10.0);
                }
            }
        }
    }

    #[test]
    fn no_responders_make_no_noise() {
        let spread = Spread::new(Scale::new(9_000, 1), 10, 0);
        assert_eq!((spread.variance(), spread.mean_error()), (0.0, 0.0));
        assert_eq!(spread.half_width(Confidence::P99), 0);
    }

    /// P(Z = 0), P(Z = 1), ... of the difference of two negative binomials, by brute force.
    fn convolved(shape: f64, lambda: f64) -> Vec<f64> {
        let p = (-1.0 / lambda).exp();
        let reach = usize::try_from(whole((60.0 + 3.0 * shape) * lambda)).unwrap() + 40;
        let mut half = vec![(1.0 - p).powf(shape)];
        for k in 0..reach {
            half.push(half[k] * p * (k as f64 + shape) / (k as f64 + 1.0));
        }
        (0..reach / 2).map(|d| half[d..].iter().zip(&half).map(|(x, y)| x * y).sum()).collect()
    }

    fn assert_close(found: f64, expected: f64, relative: f64) {
        assert!((found - expected).abs() <= relative * expected, "{found}, not {expected}");
    }
}
