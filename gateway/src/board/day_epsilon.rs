//! What a day of a list's slots costs a meter that takes part in all of them, but for a small probability.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use dream_protocol::noise::Composition;
use dream_protocol::params::Params;

/// How probable it may be that the epsilon does not hold: one in a million.
pub const DELTA: f64 = 1e-6;

/// Returns how many slots a day has.
pub fn slots(params: &Params) -> u64 {
    86_400u64.div_ceil(params.terms().slot_seconds)
}

/// Returns the epsilon of a day's slots, each tried so many times, that holds but for [`DELTA`]. It takes some milliseconds,
/// once for the same noise: pages and scrapes ask again and again.
pub fn at_delta(params: &Params, attempts: u8) -> f64 {
    /// Far more than clusters have different terms.
    const MOST_KEPT: usize = 1000;
    static KNOWN: Mutex<BTreeMap<[u64; 4], f64>> = Mutex::new(BTreeMap::new());
    let (terms, scale) = (params.terms(), params.noise_scale());
    let sums = slots(params) * u64::from(attempts);
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

    #[test]
    fn a_day_of_the_default_terms_costs_95_5_but_for_one_in_a_million() {
        let params = Params::new(100, Terms { max_missing: 10, max_malicious: 10, ..Terms::DEFAULT }).unwrap();
        assert_eq!(slots(&params), 144);
        let [once, again, twice] = [1, 1, 2].map(|attempts| at_delta(&params, attempts));
        assert!((once - 95.53).abs() < 0.01 && once.to_bits() == again.to_bits(), "{once} {again}");
        assert!(once < twice && twice < 2.0 * once, "{twice}");
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!([144.2, 95.53, 5.814, 0.0522].map(shown), ["144", "95.5", "5.81", "0.052"]);
    }
}
