//! What a sum with Laplace noise tells about a value that is known as a normal distribution.
//!
//! The noise has heavier tails than a normal one and a sharper peak. A filter that takes it for normal follows far sums
//! too much and near ones too little. Here the exact answer costs no more: below and above the observation the posterior
//! is a normal distribution, shifted by `s²/b` towards it and cut off there.

use std::f64::consts::TAU;

/// What is known after the observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Posterior {
    /// How far the mean moves.
    pub(crate) shift: f64,
    pub(crate) variance: f64,
    /// The logarithm of how probable the observation was.
    pub(crate) log_evidence: f64,
}

/// Of a normal prior of this variance and an observation, `innovation` above its mean, with Laplace noise of this
/// variance. Both variances are positive.
pub(crate) fn posterior(prior: f64, innovation: f64, noise: f64) -> Posterior {
    let (s, b) = (prior.sqrt(), (noise / 2.0).sqrt());
    let below = Cut::at(innovation / s - s / b);
    let above = Cut::at(-innovation / s - s / b);
    let most = below.log_mills.max(above.log_mills);
    let log_mills = most + ((below.log_mills - most).exp() + (above.log_mills - most).exp()).ln();
    let (weight_below, weight_above) = ((below.log_mills - log_mills).exp(), (above.log_mills - log_mills).exp());
    let within = weight_below * below.variance + weight_above * above.variance;
    let between = weight_below * weight_above * (below.distance + above.distance).powi(2);
    Posterior {
        shift: innovation - s * (weight_below * below.distance - weight_above * above.distance),
        variance: prior * (within + between).min(1.0),
        log_evidence: log_mills - (innovation / s).powi(2) / 2.0 - TAU.sqrt().ln() - (2.0 * b).ln(),
    }
}

/// A standard normal distribution of which only what is below a point is left.
struct Cut {
    /// The logarithm of what is left, over the density at the point.
    log_mills: f64,
    /// From the point down to the mean of what is left.
    distance: f64,
    variance: f64,
}

impl Cut {
    fn at(point: f64) -> Self {
        /// Below this the series loses digits and the continued fraction has them.
        const FAR: f64 = -3.0;
        /// Beyond this the fraction's first term is all that a double can hold.
        const REACH: f64 = -1e5;
        if point < REACH {
            return Self { log_mills: -(-point).ln(), distance: -point.recip(), variance: point.powi(-2) };
        }
        let (log_mills, distance) = if point < FAR {
            // The inverse of Mills' ratio is x + 1/(x + 2/(x + 3/(x + ...))).
            let x = -point;
            let tail = (2..=40).rev().fold(x, |tail, term| x + f64::from(term) / tail);
            (-(x + tail.recip()).ln(), tail.recip())
        } else {
            let log_density = -(point * point + TAU.ln()) / 2.0;
            let log_mills = cumulative(point).ln() - log_density;
            (log_mills, (-log_mills).exp() + point)
        };
        Self { log_mills, distance, variance: 1.0 - distance * (distance - point) }
    }
}

/// The standard normal distribution's probability of what is below a point, by Taylor's series.
fn cumulative(point: f64) -> f64 {
    if point > 9.0 {
        return 1.0;
    }
    let (mut term, mut sum, mut odd) = (point, point, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= point * point / odd;
        sum += term;
    }
    0.5 + sum * (-point * point / 2.0).exp() / TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by brute force: sums over a fine grid.
    fn summed(prior: f64, innovation: f64, noise: f64) -> Posterior {
        let (s, b) = (prior.sqrt(), (noise / 2.0).sqrt());
        let step = s.min(b) / 400.0;
        let reach = 12.0 * s + innovation.abs();
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        let mut at = -reach;
        while at < reach {
            let density = (-at * at / (2.0 * prior)).exp() / (TAU * prior).sqrt()
                * (-(innovation - at).abs() / b).exp()
                / (2.0 * b);
            mass += density * step;
            first += at * density * step;
            second += at * at * density * step;
            at += step;
        }
        let shift = first / mass;
        Posterior { shift, variance: second / mass - shift * shift, log_evidence: mass.ln() }
    }

    #[test]
    fn the_closed_form_is_what_summing_gives() {
        for (prior, noise) in [(1.0, 1.0), (100.0, 1.0), (1.0, 100.0), (2.5e3, 1.6e4)] {
            for deviations in [0.0, 0.3, -1.0, 2.5, -7.0] {
                let innovation = deviations * f64::sqrt(prior + noise);
                let (exact, sum) = (posterior(prior, innovation, noise), summed(prior, innovation, noise));
                let close = |a: f64, b: f64, unit: f64| (a - b).abs() < 1e-4 * unit;
                assert!(close(exact.shift, sum.shift, prior.sqrt()), "{exact:?} {sum:?}");
                assert!(close(exact.variance, sum.variance, sum.variance), "{exact:?} {sum:?}");
                assert!(close(exact.log_evidence, sum.log_evidence, 1.0), "{exact:?} {sum:?}");
            }
        }
    }

    #[test]
    fn hardly_any_noise_leaves_the_observation_and_much_leaves_the_prior() {
        let sharp = posterior(1e6, 700.0, 1e-8);
        assert!((sharp.shift - 700.0).abs() < 1e-3 && (sharp.variance / 1e-8 - 1.0).abs() < 1e-3, "{sharp:?}");
        let blunt = posterior(1.0, 700.0, 1e12);
        assert!(blunt.shift.abs() < 1e-3 && (blunt.variance - 1.0).abs() < 1e-3, "{blunt:?}");
    }

    #[test]
    fn a_sum_far_away_moves_the_mean_no_further_than_its_noise_allows() {
        let far = posterior(4.0, 1e6, 50.0);
        assert!((far.shift - 4.0 / 5.0).abs() < 1e-9, "s²/b with b = 5: {far:?}");
    }

    #[test]
    fn any_pair_of_variances_gives_finite_numbers() {
        for prior in [1e-12, 1e-3, 1.0, 1e6, 1e15] {
            for noise in [1e-12, 1e-3, 1.0, 1e6, 1e15] {
                for innovation in [0.0, 1e-9, -1.0, 1e4, -1e9] {
                    let Posterior { shift, variance, log_evidence } = posterior(prior, innovation, noise);
                    assert!(shift.is_finite() && log_evidence.is_finite(), "{prior} {noise} {innovation}");
                    assert!(variance > 0.0 && variance <= prior, "{prior} {noise} {innovation}: {variance}");
                }
            }
        }
    }
}
