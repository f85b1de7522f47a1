//! What days of a list's slots tell of a home that takes part in all of them: for certain, or but for a small probability.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub use dream_protocol::noise::DAY_DELTA as DELTA;
use dream_protocol::noise::{Composition, epsilon_of_rho, pure_epsilon_of_rho};
use dream_protocol::params::Params;

/// How many days are shown together: one, a month and a year.
pub const PERIODS: [u64; 3] = [1, 30, 365];

/// Returns the epsilon of so many UTC days that holds but for [`DELTA`], whatever was tried again. Days add up in rho; where a
/// list states none, every attempt counts for itself.
pub fn at_delta(params: &Params, days: u64) -> f64 {
    match rho(params) {
        Some(rho) => epsilon_of_rho(days as f64 * rho, DELTA),
        None => of_attempts(params, days * attempts(params)),
    }
}

/// Returns the epsilon of so many UTC days that always holds.
pub fn pure(params: &Params, days: u64) -> f64 {
    let attempts = attempts(params);
    let added_up = attempts as f64 * params.charge_micro_epsilon() as f64 / 1e6;
    days as f64 * rho(params).map_or(added_up, |rho| pure_epsilon_of_rho(rho, attempts).min(added_up))
}

/// Returns the rho of a day, if the list states one.
pub fn rho(params: &Params) -> Option<f64> {
    let micro = params.terms().day_micro_rho;
    (micro > 0).then_some(micro as f64 / 1e6)
}

/// Returns the epsilon of a rho in millionths, but for [`DELTA`].
pub fn of_micro_rho(micro_rho: u64) -> f64 {
    epsilon_of_rho(micro_rho as f64 / 1e6, DELTA)
}

/// Leaves out the digits that nobody can rely on.
pub fn thousandths(epsilon: f64) -> f64 {
    (1000.0 * epsilon).round() / 1000.0
}

/// Returns how many attempts a day may have.
fn attempts(params: &Params) -> u64 {
    params.slots_of_a_day() * u64::from(params.attempts())
}

/// Returns the epsilon of so many attempts without an account. It takes some milliseconds, once for the same noise: pages and
/// scrapes ask again and again.
fn of_attempts(params: &Params, sums: u64) -> f64 {
    /// Far more than clusters have different terms.
    const MOST_KEPT: usize = 1000;
    static KNOWN: Mutex<BTreeMap<[u64; 4], f64>> = Mutex::new(BTreeMap::new());
    let (terms, scale) = (params.terms(), params.noise_scale());
    let key = [scale.numerator(), scale.denominator(), terms.hi.abs_diff(terms.lo), sums];
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(epsilon) = known().get(&key) {
        return *epsilon;
    }
    let range = key[2] as f64;
    let epsilon = Composition::of(sums, scale, range / scale.as_f64()).epsilon(DELTA);
    let mut known = known();
    if known.len() >= MOST_KEPT {
        known.clear();
    }
    known.insert(key, epsilon);
    epsilon
}

/// Writes an epsilon with three digits: `95.5`, `5.81`, `0.522`.
pub fn shown(epsilon: f64) -> String {
    let places = match epsilon {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{epsilon:.places$}")
}

#[cfg(test)]
mod tests {
    use dream_protocol::params::Terms;

    use super::*;

    fn params(terms: Terms) -> Params {
        Params::new(100, Terms { max_missing: 10, max_malicious: 10, ..terms }).unwrap()
    }

    #[test]
    fn days_of_the_default_terms_add_up_in_rho() {
        let house = params(Terms::DEFAULT);
        let found = PERIODS.map(|days| shown(at_delta(&house, days)));
        assert_eq!(found, ["10.7", "103", "812"]);
        let found = PERIODS.map(|days| shown(pure(&house, days)));
        assert_eq!(found, ["31.5", "945", "11498"], "288 attempts");
    }

    #[test]
    fn attempts_without_an_account_add_up_one_by_one() {
        let plain = params(Terms { day_micro_rho: 0, hi: 5000, epsilon_denominator: 1, attempts: 1, ..Terms::DEFAULT });
        let [once, again] = [1, 1].map(|days| at_delta(&plain, days));
        assert!((once - 95.53).abs() < 0.01 && once.to_bits() == again.to_bits(), "{once} {again}");
        assert_eq!(shown(pure(&plain, 1)), "144");
        let twice = at_delta(&params(Terms { attempts: 2, ..*plain.terms() }), 1);
        assert!(once < twice && twice < 2.0 * once, "{twice}");
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!([144.2, 95.53, 5.814, 0.0522].map(shown), ["144", "95.5", "5.81", "0.052"]);
    }
}
