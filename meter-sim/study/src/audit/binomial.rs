//! What a count tells for sure about a probability: the exact bounds of Clopper and Pearson (Biometrika 26, 1934).

/// The largest probability that `hits` of `runs` rule out from above: if the true one were less, so many hits would have had
/// a chance below `risk`. 0 if nothing was hit.
///
/// # Panics
///
/// If there are no runs, more hits than runs, or a risk that is not between 0 and a quarter.
pub(super) fn at_least(hits: u64, runs: u64, risk: f64) -> f64 {
    assert!(hits <= runs && runs > 0, "hits are some of the runs");
    assert!(risk > 0.0 && risk <= 0.25, "a bound is worth something if it is seldom wrong");
    if hits == 0 {
        return 0.0;
    }
    let choices = ln_choices(hits, runs);
    // At the share that was seen, as many hits or more are about as probable as not.
    let (mut low, mut high) = (0.0, hits as f64 / runs as f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tail(hits, runs, middle, choices) < risk {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The smallest probability that `hits` of `runs` rule out from below.
pub(super) fn at_most(hits: u64, runs: u64, risk: f64) -> f64 {
    1.0 - at_least(runs - hits, runs, risk)
}

/// The chance of at least so many hits, for a probability up to the share of hits: from there on terms only fall.
fn tail(hits: u64, runs: u64, probability: f64, ln_choices: f64) -> f64 {
    let odds = probability / (1.0 - probability);
    let (mut term, mut sum) = (1.0, 1.0);
    for more in hits..runs {
        term *= (runs - more) as f64 / (more + 1) as f64 * odds;
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    let missed = (runs - hits) as f64;
    let none_missed = if missed == 0.0 { 0.0 } else { missed * (-probability).ln_1p() };
    sum * (ln_choices + hits as f64 * probability.ln() + none_missed).exp()
}

/// The logarithm of the number of ways to choose the hits among the runs.
fn ln_choices(hits: u64, runs: u64) -> f64 {
    let fewer = hits.min(runs - hits);
    (1..=fewer).map(|taken| ((runs - fewer + taken) as f64 / taken as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_published_tables() {
        // Two-sided intervals of 95 %.
        for (hits, runs, low, high) in [
            (1, 10, 0.002_529, 0.445_016),
            (5, 10, 0.187_086, 0.812_914),
            (10, 100, 0.049_005, 0.176_223),
            (50, 100, 0.398_321, 0.601_679),
        ] {
            assert!((at_least(hits, runs, 0.025) - low).abs() < 1e-6, "{hits} of {runs}");
            assert!((at_most(hits, runs, 0.025) - high).abs() < 1e-6, "{hits} of {runs}");
        }
    }

    #[test]
    fn nothing_and_everything_have_bounds_in_closed_form() {
        for runs in [1, 7, 1000] {
            for risk in [0.05_f64, 0.005] {
                let root = risk.powf(1.0 / runs as f64);
                assert_eq!((at_least(0, runs, risk), at_most(runs, runs, risk)), (0.0, 1.0));
                assert!((at_least(runs, runs, risk) - root).abs() < 1e-12);
                assert!((at_most(0, runs, risk) - (1.0 - root)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_bound_is_wrong_no_more_often_than_it_says_whatever_the_truth() {
        let (runs, risk) = (40, 0.05);
        let bounds: Vec<f64> = (0..=runs).map(|hits| at_least(hits, runs, risk)).collect();
        let mut most_often: f64 = 0.0;
        for thousandths in 1..1000 {
            let truth = f64::from(thousandths) / 1000.0;
            let chance = |hits: u64| {
                let ways = ln_choices(hits, runs).exp();
                ways * truth.powi(whole(hits)) * (1.0 - truth).powi(whole(runs - hits))
            };
            let wrong: f64 =
                (0..=runs).filter(|&hits| bounds[usize::try_from(hits).unwrap()] > truth).map(chance).sum();
            assert!(wrong <= risk + 1e-9, "{truth} {wrong}");
            most_often = most_often.max(wrong);
        }
        assert!(most_often > 0.9 * risk, "no larger than it has to be: {most_often}");
    }

    #[test]
    fn many_runs_come_near_the_normal_approximation() {
        let (hits, runs) = (30_000, 60_000);
        let error = 2.575_829 * (0.25 / runs as f64).sqrt();
        assert!((at_least(hits, runs, 0.005) - (0.5 - error)).abs() < 2e-5);
        assert!((at_most(hits, runs, 0.005) - (0.5 + error)).abs() < 2e-5);
    }

    fn whole(count: u64) -> i32 {
        i32::try_from(count).unwrap()
    }
}
