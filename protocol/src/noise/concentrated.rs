//! What a rho means in epsilon and delta.
//!
//! Two days that are rho-concentrated (Bun and Steinke 2016) have a Renyi divergence of at most `alpha rho` for every order
//! `alpha > 1`. What follows for epsilon and delta is proposition 12 of Canonne, Kamath and Steinke (2020); every order gives
//! a bound, and the least of them is taken. Rhos of several days add up. This module only reports, so it may use floating
//! point: a meter counts rho in integers.

/// How probable it may be that the epsilon of a day does not hold: one in a million.
pub const DAY_DELTA: f64 = 1e-6;

/// Returns the epsilon that holds but for `delta`, where rho is what it is.
pub fn epsilon_of_rho(rho: f64, delta: f64) -> f64 {
    /// A third of the range is left out in each.
    const STEPS: u32 = 120;
    if rho <= 0.0 {
        return 0.0;
    }
    // alpha is 1 + exp(log): the bound falls and then grows.
    let bound = |log: f64| {
        let above = log.exp();
        let alpha = 1.0 + above;
        let tail = delta.recip().ln() + above * (above / alpha).ln() - alpha.ln();
        alpha * rho + tail / above
    };
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..STEPS {
        let third = (high - low) / 3.0;
        if bound(low + third) < bound(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    bound(f64::midpoint(low, high)).max(0.0)
}

/// Returns the largest rho for which `epsilon` holds but for `delta`; never more than that.
pub fn rho_of_epsilon(epsilon: f64, delta: f64) -> f64 {
    /// Down to the digits of a double.
    const HALVINGS: u32 = 60;
    // The bound is above rho for every order, whatever delta is.
    let (mut low, mut high) = (0.0, epsilon.max(0.0));
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if epsilon_of_rho(middle, delta) <= epsilon {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the largest rho of a day whose epsilon is at most this but for [`DAY_DELTA`], both in millionths: 0 for 0, and
/// otherwise at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the epsilon")]
pub fn day_micro_rho(day_micro_epsilon: u64) -> u64 {
    let rho = (1e6 * rho_of_epsilon(day_micro_epsilon as f64 / 1e6, DAY_DELTA)) as u64;
    if day_micro_epsilon == 0 { 0 } else { rho.max(1) }
}

/// Returns the epsilon that holds without exception, where rho is spent on so many sums with Laplace noise.
pub fn pure_epsilon_of_rho(rho: f64, sums: u64) -> f64 {
    (2.0 * sums as f64 * rho).sqrt()
}

/// Returns how often, at most, the best guess between two histories of a home is right, where both are equally likely
/// beforehand: 1/2 is a coin, 1 is certainty. The histories are rho-concentrated, but for sums that cost `epsilon` without
/// exception.
///
/// A guess is a test, so it tells no more apart than what is seen: the divergence of a guess that is right with probability s
/// under both histories, `(2s - 1) ln(s / (1 - s))`, is at most that of the histories. That is at most rho, the limit of
/// `alpha rho` for alpha to 1, and `epsilon tanh(epsilon / 2)` for the rest.
pub fn right_guesses(rho: f64, epsilon: f64) -> f64 {
    /// Down to the digits of a double.
    const HALVINGS: u32 = 80;
    let most = rho.max(0.0) + epsilon.max(0.0) * (epsilon.max(0.0) / 2.0).tanh();
    // By the logarithm of the odds: u tanh(u / 2) grows, and is beyond `most` at most + 2.
    let (mut low, mut high) = (0.0, most + 2.0);
    for _ in 0..HALVINGS {
        let middle: f64 = f64::midpoint(low, high);
        if middle * (middle / 2.0).tanh() <= most {
            low = middle;
        } else {
            high = middle;
        }
    }
    (1.0 + (-high).exp()).recip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rho_and_epsilon_belong_together() {
        for (rho, epsilon) in [(0.0244, 1.0), (0.088, 2.0), (0.311, 4.0), (1.05, 8.0), (2.0, 11.7), (4.79, 20.0)] {
            let found = epsilon_of_rho(rho, DAY_DELTA);
            assert!((found / epsilon - 1.0).abs() < 0.01, "{rho}: {found}");
            let back = rho_of_epsilon(found, DAY_DELTA);
            assert!(back <= rho * (1.0 + 1e-9) && back > rho * (1.0 - 1e-9), "{rho}: {back}");
        }
        assert_eq!([0, 1, 4_000_000, 72_000_000].map(day_micro_rho), [0, 1, 311_064, 31_786_500]);
        assert_eq!([epsilon_of_rho(0.0, DAY_DELTA), rho_of_epsilon(0.0, DAY_DELTA)], [0.0, 0.0]);
    }

    #[test]
    fn an_epsilon_is_never_below_what_gaussian_noise_would_have() {
        // The Gaussian mechanism of sensitivity 1 and deviation s is 1/(2 s^2)-concentrated, and its epsilon is known exactly
        // (Balle and Wang 2018): delta = P(Z < m/2 - e/m) - exp(e) P(Z < -m/2 - e/m), m = 1/s. At e = 4, m = 0.9 it is 5.51e-6.
        let rho = 0.9f64.powi(2) / 2.0;
        let found = epsilon_of_rho(rho, 5.51e-6);
        assert!(found > 4.0 && found < 4.6, "{found}");
    }

    #[test]
    fn a_guess_is_right_no_more_often_than_the_divergence_allows() {
        assert!((right_guesses(0.0, 0.0) - 0.5).abs() < 1e-9, "a coin");
        // Randomised response with an epsilon of 1 is right with e / (1 + e), and nothing is right more often.
        for epsilon in [0.1f64, 0.5, 1.0, 4.0] {
            let found = right_guesses(0.0, epsilon);
            assert!((found - (1.0 + (-epsilon).exp()).recip()).abs() < 1e-9, "{epsilon}: {found}");
        }
        // Gaussian noise of rho is right with the normal distribution function of sqrt(rho / 2). Pinsker's inequality and
        // that of Bretagnolle and Huber bound the same and are no better.
        for (rho, gaussian) in [(0.02, 0.5398), (0.5, 0.6915), (2.0, 0.8413), (8.0, 0.9772), (18.0, 0.99865)] {
            let found = right_guesses(rho, 0.0);
            let pinsker = f64::midpoint(1.0, (rho / 2.0f64).sqrt());
            let huber = f64::midpoint(1.0, (-(-rho).exp_m1()).sqrt());
            assert!(gaussian < found && found <= pinsker.min(huber) && found < 1.0, "{rho}: {found}");
        }
        assert!((right_guesses(1.722_657, 0.0) - 0.897).abs() < 0.001);
    }

    #[test]
    fn days_add_up_in_rho_and_the_pure_epsilon_counts_sums() {
        let month = epsilon_of_rho(30.0 * 0.311, DAY_DELTA);
        assert!((month - 31.0).abs() < 0.6, "{month}");
        assert!((pure_epsilon_of_rho(0.311, 144) - 9.46).abs() < 0.01);
    }
}
