//! The two numerical rules behind the bands.

/// Integrates a smooth function by Gauss and Legendre's rule with sixteen nodes.
pub(super) fn integrate(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (middle, radius) = (f64::midpoint(from, to), (to - from) / 2.0);
    let pair = |&(x, weight): &(f64, f64)| weight * (f(middle - radius * x) + f(middle + radius * x));
    radius * NODES.iter().map(pair).sum::<f64>()
}

/// Sums `(-1)^m term(m)` over all `m` from the first `count` terms, to about `5.8^-count`
/// (Cohen, Rodriguez Villegas and Zagier 2000, algorithm 1).
pub(super) fn alternating_sum(count: u64, term: impl Fn(u64) -> f64) -> f64 {
    let n = count as f64;
    let power = (3.0 + 8_f64.sqrt()).powf(n);
    let norm = f64::midpoint(power, power.recip());
    let (mut b, mut c, mut sum) = (-1.0, -norm, 0.0);
    for m in 0..count {
        c = b - c;
        sum += c * term(m);
        let k = m as f64;
        b *= (k + n) * (k - n) / ((k + 0.5) * (k + 1.0));
    }
    sum / norm
}

/// The positive nodes on [-1, 1], each with its weight.
const NODES: [(f64, f64); 8] = [
    (0.09501250983763744, 0.1894506104550685),
    (0.2816035507792589, 0.18260341504492358),
    (0.45801677765722737, 0.16915651939500254),
    (0.6178762444026438, 0.14959598881657674),
    (0.755404408355003, 0.12462897125553388),
    (0.8656312023878318, 0.09515851168249279),
    (0.9445750230732326, 0.062253523938647894),
    (0.9894009349916499, 0.027152459411754096),
];

#[cfg(test)]
mod tests {
    use std::f64::consts::{LN_2, PI};

    use super::*;

    #[test]
    fn half_an_oscillation_and_a_high_power_integrate_exactly() {
        assert!((integrate(0.0, PI, f64::sin) - 2.0).abs() < 1e-14);
        assert!((integrate(0.0, 1.0, |x| x.powi(31)) - 1.0 / 32.0).abs() < 1e-15);
    }

    #[test]
    fn slow_and_even_divergent_alternating_series_are_summed() {
        assert!((alternating_sum(24, |m| 1.0 / (m as f64 + 1.0)) - LN_2).abs() < 1e-15);
        assert!((alternating_sum(24, |_| 1.0) - 0.5).abs() < 1e-15);
    }
}
