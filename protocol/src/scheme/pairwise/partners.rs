//! Which members mask with which, and how many are enough (`protocol.md 6`).
//!
//! With `w = 0` every other member is a partner. With `w > 0` each pair is drawn with probability `q = w/(N-1)` in each
//! slot and attempt, as in the paper; then the honest members must stay *connected*, or a small set of them closes and
//! its sum opens.

mod log2;

use alloc::vec::Vec;

use self::log2::{Log2, Sum};
use crate::params::Params;

/// The largest accepted probability per attempt, as a power of two, that fewer than n honest members close.
#[cfg(feature = "report")]
pub const MOST_LOG2: f64 = -64.0;

/// The threshold below which a pair is selected: `floor(w * 2^64 / (N-1))`, or `None` when all pairs are (w = 0 or w >= N-1).
pub fn threshold(params: &Params) -> Option<u64> {
    let others = u128::from(params.members() - 1);
    let wanted = u128::from(params.terms().scheme.partners());
    if wanted == 0 || wanted >= others {
        return None;
    }
    u64::try_from((wanted << 64) / others).ok()
}

/// Whether `w > 0` partners keep every set of fewer than n honest members open, but for a probability of 2^-64.
pub(crate) fn suffice(params: &Params) -> bool {
    threshold(params).is_none_or(|threshold| {
        let closing = closing(params.members(), params.max_missing(), params.max_malicious(), threshold);
        closing.is_none_or(|closing| closing <= Log2::power(-64))
    })
}

/// The base-2 logarithm of the union bound on the probability, per attempt, that some set of fewer than n honest
/// members closes, whatever lists of missing members the gateway shows to whom.
#[cfg(feature = "report")]
pub fn closing_log2(params: &Params) -> f64 {
    let closing = threshold(params)
        .and_then(|threshold| closing(params.members(), params.max_missing(), params.max_malicious(), threshold));
    closing.map_or(f64::NEG_INFINITY, Log2::to_f64)
}

/// [`closing_log2`] of N members with M and T when a pair is selected with the probability q: also of a cluster that no
/// meter would accept.
#[cfg(feature = "report")]
pub fn closing_log2_with(members: u16, missing: u16, malicious: u16, selected: f64) -> f64 {
    let closing = share(selected).and_then(|threshold| closing(members, missing, malicious, threshold));
    closing.map_or(f64::NEG_INFINITY, Log2::to_f64)
}

/// The threshold that selects with this probability; `None` if that is 1.
#[cfg(feature = "report")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability below 1, in units of 2^-64")]
fn share(selected: f64) -> Option<u64> {
    (selected < 1.0).then(|| (selected * 2f64.powi(64)) as u64)
}

/// The union bound for pairs that are selected below a threshold; `None` if it is zero.
///
/// A set of u members closes only if each of them has no partner among the honest members outside the set and outside
/// the list it was shown:
/// `sum_{u=1}^{n-1} (h/u) * sum_{j=n-u}^{min(n-1, n-u+M)} C(n-1, j) * C(M, j-n+u) * (1-q)^(u*j)`, h = N - T.
fn closing(members: u16, missing: u16, malicious: u16, threshold: u64) -> Option<Log2> {
    let survivors = Log2::of(u64::from(members - malicious));
    let [n, missing] = [members - malicious - missing, missing].map(usize::from);
    let unselected = match threshold {
        0 => Log2::ONE,
        // 2^64 - threshold, of 2^64.
        _ => Log2::of(threshold.wrapping_neg()).minus(Log2::power(64)),
    };
    let factorial = factorials(n.max(missing));
    let choose = |from: usize, k: usize| factorial[from].minus(factorial[k]).minus(factorial[from - k]);

    let mut total = Sum::default();
    for u in 1..n {
        let sets = survivors.minus(Log2::of(u as u64));
        for j in (n - u)..=(n - 1).min(n - u + missing) {
            let choices = choose(n - 1, j).plus(choose(missing, j + u - n));
            let pairs = i64::try_from(u * j).expect("at most 10,000 squared");
            total.add(sets.plus(choices).plus(unselected.times(pairs)));
        }
    }
    total.log2()
}

fn factorials(up_to: usize) -> Vec<Log2> {
    let steps = (1..=up_to as u64).scan(Log2::ONE, |sum, k| {
        *sum = sum.plus(Log2::of(k));
        Some(*sum)
    });
    core::iter::once(Log2::ONE).chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Terms;
    use crate::scheme::Scheme;

    fn tenth(members: usize, partners: u64) -> Result<Params, crate::params::ParamsError> {
        let tenth = u64::try_from(members / 10).unwrap();
        let terms = Terms {
            max_missing: tenth,
            max_malicious: tenth,
            scheme: Scheme::Pairwise { partners },
            attempts: 1,
            ..Terms::DEFAULT
        };
        Params::new(members, terms)
    }

    #[test]
    fn the_least_accepted_numbers_are_those_of_the_specification() {
        for (members, least) in [(100, 47), (300, 58)] {
            let accepted = (1..members).find(|&w| tenth(usize::try_from(members).unwrap(), w).is_ok());
            assert_eq!(accepted, Some(least));
        }
    }

    #[test]
    fn the_threshold_is_the_exact_fraction() {
        let with = |partners| {
            Params::unchecked(101, Terms { scheme: Scheme::Pairwise { partners }, ..*tenth(100, 0).unwrap().terms() })
        };
        assert_eq!(threshold(&with(50)), Some(1 << 63));
        assert_eq!(threshold(&with(33)), Some(6_087_425_544_324_152_033));
        assert_eq!((threshold(&with(0)), threshold(&with(100)), threshold(&with(u64::MAX))), (None, None, None));
    }

    #[test]
    fn the_bound_of_a_tiny_cluster_agrees_with_the_formula_by_hand() {
        // N = 3, M = 0, T = 1: n = 2, h = 2, so u = j = 1: 2/1 * C(1,1) * C(0,0) * (1-q) with q = 1/2.
        let terms = Terms {
            max_missing: 0,
            max_malicious: 1,
            scheme: Scheme::Pairwise { partners: 1 },
            ..*tenth(100, 0).unwrap().terms()
        };
        let unchecked = Params::unchecked(3, terms);
        assert!((closing_log2(&unchecked) - 0.0).abs() < 1e-12);
    }
}
