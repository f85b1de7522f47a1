//! What several sums together tell about one home, but for a small probability.
//!
//! The noise of the honest members is the discrete Laplace distribution; shares beyond it can only hide more. The reading
//! that gives most away goes from one end of the range `D` to the other. A sum in which the noise is `z` then has the
//! privacy loss `(|z - D| - |z|) / lambda`: it is `epsilon = D / lambda` for all `z <= 0`, `-epsilon` for all `z >= D`,
//! and falls in even steps between. Losses of independent sums add up, and what holds but for `delta` is read off the
//! distribution of their total `L`: `delta(epsilon) = E[max(0, 1 - exp(epsilon - L))]`.
//!
//! The moment generating function of a loss has a closed form, and that of `L` is a product of such. The expectation is
//! an integral over it, along a line through the saddle point, where few terms suffice (Zhu, Dong and Wang 2022). So the
//! effort depends neither on the number of sums nor on the range, and nothing is rounded to a grid. This module only
//! reports, so it may use floating point: a meter counts epsilon in integers and adds it up.

use alloc::vec::Vec;
use core::f64::consts::{PI, TAU};
use core::ops::{Add, Div, Mul, Sub};

use super::Scale;

/// Sums of noisy readings of the same homes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Composition {
    parts: Vec<Part>,
}

/// Sums with the same noise.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    lambda: f64,
    /// Of one sum.
    epsilon: f64,
    sums: u64,
}

impl Composition {
    /// Describes so many sums with noise of this scale, each of which costs `epsilon`: the width of the range of readings
    /// over the scale.
    pub fn of(sums: u64, scale: Scale, epsilon: f64) -> Self {
        let mut composition = Self::default();
        composition.add(sums, scale, epsilon);
        composition
    }

    /// Adds as many sums more.
    pub fn add(&mut self, sums: u64, scale: Scale, epsilon: f64) {
        let lambda = scale.as_f64();
        let same = |part: &&mut Part| (part.lambda, part.epsilon) == (lambda, epsilon);
        match self.parts.iter_mut().find(same) {
            Some(part) => part.sums += sums,
            None if sums > 0 && epsilon > 0.0 => self.parts.push(Part { lambda, epsilon, sums }),
            None => {}
        }
    }

    /// Returns the epsilon that always holds: those of all sums, added up.
    pub fn added_up(&self) -> f64 {
        self.parts.iter().map(|part| part.sums as f64 * part.epsilon).sum()
    }

    /// Returns the least epsilon that holds but for a probability of `delta`.
    pub fn epsilon(&self, delta: f64) -> f64 {
        // Down to the digits of a double, nearly, and never below what holds.
        const HALVINGS: u32 = 40;
        let (mut low, mut high) = (0.0, self.added_up());
        if high == 0.0 || self.delta(0.0) <= delta {
            return 0.0;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.delta(middle) > delta {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Returns the least delta with which these sums are (`epsilon`, delta)-differentially private, to about a thousandth of
    /// itself.
    pub fn delta(&self, epsilon: f64) -> f64 {
        /// The values that are added up repeat after so many units of 1/c: what that lets in is below e^-40 of the whole,
        /// or eight deviations out.
        const PERIOD: f64 = 40.0;
        /// Terms fall off as those of a normal distribution where many sums are, and with the square where few are.
        const TERMS: u32 = 2000;
        let room = self.added_up() - epsilon;
        if room <= 0.0 {
            return 0.0;
        }
        // delta is the inverse Laplace transform of E[exp(-s X)] / (s (s + 1)) at `room`, where X = added_up - L. On a line
        // Re s = c the trapezoidal rule is exact but for what repeats.
        let c = self.saddle(room);
        let step = TAU * c / PERIOD;
        let height = self.exponent(c, room);
        let term = |index: u32| {
            let t = f64::from(index) * step;
            let value = self.transform(c, t, room, height);
            if index == 0 { value / 2.0 } else { value }
        };
        let sum: f64 = (0..TERMS).map(term).sum();
        (sum * step / PI * height.exp()).clamp(0.0, 1.0)
    }

    /// Returns the point of the positive axis where the transform is least: through it, the line oscillates least.
    fn saddle(&self, room: f64) -> f64 {
        const STEPS: u32 = 60;
        let value = |log: f64| self.exponent(log.exp(), room) - log - log.exp().ln_1p();
        // Far to the left -ln c decides, and far to the right c times `room`: beyond 1/room it only grows.
        let (mut low, mut high) = (-40.0, (2.0 / room).ln().max(0.0) + 40.0);
        for _ in 0..STEPS {
            let third = (high - low) / 3.0;
            if value(low + third) < value(high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        f64::midpoint(low, high).exp()
    }

    /// Returns the logarithm of `E[exp(-c X)] exp(c room)`.
    fn exponent(&self, c: f64, room: f64) -> f64 {
        let logs = self.parts.iter().map(|part| part.sums as f64 * part.transform(c, 0.0).modulus().ln());
        logs.sum::<f64>() + c * room
    }

    /// Returns the real part of the transform at `c + it` over `exp(height)`.
    fn transform(&self, c: f64, t: f64, room: f64, height: f64) -> f64 {
        let (mut log, mut angle) = (c * room - height, t * room);
        for part in &self.parts {
            let one = part.transform(c, t);
            log += part.sums as f64 * one.modulus().ln();
            angle += part.sums as f64 * one.angle();
        }
        let kernel = Complex { re: c, im: t } * Complex { re: c + 1.0, im: t };
        (log - kernel.modulus().ln()).exp() * (angle - kernel.angle()).cos()
    }
}

impl Part {
    /// Returns `E[exp(-s x)]` for one sum at `s = c + it`, where `x` is by how much the loss is below epsilon: 0 for
    /// `z <= 0`, `2z / lambda` up to 2 epsilon, and 2 epsilon for `z >= D`.
    fn transform(&self, c: f64, t: f64) -> Complex {
        let step = self.lambda.recip();
        let share = -(-step).exp_m1(); // 1 - p, without cancellation
        // The chance of z is in proportion to p^z, so that what lies between is a sum of powers of r = p exp(-2s / lambda),
        // from the first to that before the D-th.
        let exponent = |times: f64| Complex { re: -times * (1.0 + 2.0 * c), im: -times * 2.0 * t };
        let (first, last) = (Complex::exp(exponent(step)), Complex::exp(exponent(self.epsilon)));
        let between = (first - last) / Complex::one_minus_exp(exponent(step));
        (Complex { re: 1.0, im: 0.0 } + between.times(share) + last).times((2.0 - share).recip())
    }
}

/// As many operations on complex numbers as are needed here.
#[derive(Clone, Copy, Debug)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn exp(self) -> Self {
        let size = self.re.exp();
        Self { re: size * self.im.cos(), im: size * self.im.sin() }
    }

    /// `1 - exp(z)`, which keeps its digits near 0.
    fn one_minus_exp(self) -> Self {
        let half = (self.im / 2.0).sin();
        Self { re: 2.0 * half * half - self.re.exp_m1() * self.im.cos(), im: -self.re.exp() * self.im.sin() }
    }

    fn times(self, factor: f64) -> Self {
        Self { re: factor * self.re, im: factor * self.im }
    }

    fn modulus(self) -> f64 {
        self.re.hypot(self.im)
    }

    fn angle(self) -> f64 {
        self.im.atan2(self.re)
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other.times(-1.0)
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Div for Complex {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let size = other.re * other.re + other.im * other.im;
        self * Self { re: other.re / size, im: -other.im / size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_144_slots_costs_what_others_have_computed() {
        for (denominator, epsilon, expected) in [(1, 1.0, 95.5), (2, 0.5, 39.5), (10, 0.1, 5.8)] {
            let scale = Scale::new(9000 * denominator, 1);
            let found = Composition::of(144, scale, epsilon).epsilon(1e-6);
            assert!((found / expected - 1.0).abs() < 0.01, "{epsilon}: {found}");
        }
    }

    #[test]
    fn any_composition_matches_the_convolution_of_its_losses() {
        for (range, scale) in [(1, (1, 1)), (3, (3, 1)), (20, (40, 1)), (20, (4, 1)), (100, (50, 1)), (7, (70, 1))] {
            for sums in [1, 2, 5, 24, 144] {
                let scale = Scale::new(scale.0, scale.1);
                let composition = Composition::of(sums, scale, range as f64 / scale.as_f64());
                let losses = convolved(&[(range, sums)], scale.as_f64());
                for share in [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999] {
                    assert_same(&composition, &losses, share);
                }
            }
        }
    }

    #[test]
    fn sums_of_different_noise_add_up() {
        // Ranges of 4 and 12 with one scale: epsilons of 0.25 and 0.75.
        let scale = Scale::new(16, 1);
        let mut composition = Composition::of(30, scale, 0.25);
        composition.add(10, scale, 0.75);
        composition.add(5, scale, 0.25);
        assert_eq!((composition.parts.len(), composition.added_up()), (2, 16.25));
        let losses = convolved(&[(4, 35), (12, 10)], 16.0);
        for share in [0.1, 0.4, 0.8] {
            assert_same(&composition, &losses, share);
        }
    }

    #[test]
    fn it_is_never_more_than_added_up_and_no_more_than_concentrated_privacy_allows() {
        for sums in [1, 3, 24, 96, 288, 1440, 86_400] {
            for micro in [1_000u32, 10_000, 100_000, 500_000, 1_000_000, 3_000_000] {
                let epsilon = f64::from(micro) / 1e6;
                let composition = Composition::of(sums, Scale::new(9_000_000_000, micro.into()), epsilon);
                let [loose, strict] = [1e-6, 1e-9].map(|delta| composition.epsilon(delta));
                let rho = sums as f64 * epsilon * epsilon / 2.0;
                let concentrated = rho + 2.0 * (rho * 1e6f64.ln()).sqrt();
                assert!(0.0 < loose && loose <= strict && strict <= composition.added_up(), "{sums} {epsilon}");
                assert!(loose < concentrated, "{sums} {epsilon}: {loose}");
                // What it says is what it means.
                if loose > 1e-3 {
                    let delta = composition.delta(loose);
                    assert!((delta / 1e-6 - 1.0).abs() < 1e-2, "{sums} {epsilon}: {loose} has {delta}");
                }
            }
        }
    }

    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(Composition::default().epsilon(1e-6), 0.0);
        assert_eq!(Composition::of(0, Scale::new(9000, 1), 1.0), Composition::default());
        // A sum may tell everything with so small a probability.
        assert_eq!(Composition::of(1, Scale::new(1 << 32, 1), 1e-7).epsilon(1e-6), 0.0);
    }

    /// Compares delta at a share of the greatest loss, and the epsilon that comes back from it.
    fn assert_same(composition: &Composition, losses: &[(f64, f64)], share: f64) {
        let epsilon = share * composition.added_up();
        let exact: f64 = losses.iter().map(|(loss, chance)| chance * (1.0 - (epsilon - loss).exp()).max(0.0)).sum();
        if exact < 1e-60 {
            return;
        }
        let found = composition.delta(epsilon);
        assert!((found / exact - 1.0).abs() < 2e-3, "{composition:?} at {epsilon}: {found}, not {exact}");
        // Where delta is nearly 1 it hardly changes with epsilon.
        let back = if exact < 0.01 { composition.epsilon(exact) } else { epsilon };
        assert!((back - epsilon).abs() < 1e-3 * composition.added_up(), "{composition:?}: {back}, not {epsilon}");
    }

    /// The total loss and its chance, slot by slot, for ranges and how many sums have them.
    fn convolved(parts: &[(usize, u64)], lambda: f64) -> Vec<(f64, f64)> {
        let p = (-1.0 / lambda).exp();
        let mut chances = vec![1.0];
        let mut greatest = 0.0;
        for &(range, sums) in parts {
            let mut one: Vec<f64> = (0..=range).map(|z| (1.0 - p) / (1.0 + p) * p.powf(z as f64)).collect();
            one[0] = 1.0 / (1.0 + p);
            one[range] = p.powf(range as f64) / (1.0 + p);
            for _ in 0..sums {
                let mut next = vec![0.0; chances.len() + range];
                for (at, chance) in chances.iter().enumerate() {
                    one.iter().zip(&mut next[at..]).for_each(|(other, sum)| *sum += chance * other);
                }
                chances = next;
            }
            greatest += sums as f64 * range as f64 / lambda;
        }
        chances.iter().enumerate().map(|(below, chance)| (greatest - 2.0 * below as f64 / lambda, *chance)).collect()
    }
}
