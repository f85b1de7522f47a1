//! The shipped meter and gateway code, audited from outside, in both directions: the claim holds, and the audit notices when
//! it does not.
//!
//! With `DREAM_AUDIT_FULL`, as `make long` sets it, every claim of the study is audited, with as many slots. Without it only
//! the largest one is: it takes the fewest to be told from a broken one.

use dream_study::audit::day::{DayFinding, DayTrial, Pair};
use dream_study::audit::{Finding, Trial};

/// How many thousand slots, and how many clusters of 18 days, are run with each input, unless the audit is a full one.
const FEW: u32 = 2;
const FEW_CLUSTERS: u32 = 200;

fn findings(left_out: bool) -> impl Iterator<Item = Finding> {
    trials().into_iter().filter(move |trial| trial.left_out == left_out).map(|trial| trial.run(2026))
}

fn trials() -> Vec<Trial> {
    if std::env::var_os("DREAM_AUDIT_FULL").is_some() {
        return Trial::all().collect();
    }
    let largest = Trial::all().filter(|trial| trial.epsilon == (1, 1));
    largest.map(|trial| Trial { thousands: FEW, ..trial }).collect()
}

#[test]
fn released_sums_tell_no_more_than_epsilon_allows_and_nearly_as_much() {
    for finding in findings(false) {
        let claim = finding.trial.claim();
        assert!(finding.epsilon_at_least <= claim, "{finding:?}");
        assert!(finding.epsilon_at_least > 0.6 * claim, "{finding:?}");
    }
}

#[test]
fn a_share_that_is_left_out_is_noticed() {
    for finding in findings(true) {
        assert!(finding.exceeds_claim(), "{finding:?}");
    }
}

fn day_findings(right: bool) -> impl Iterator<Item = DayFinding> {
    let full = std::env::var_os("DREAM_AUDIT_FULL").is_some();
    let asked = DayTrial::ALL.into_iter().filter(move |trial| trial.is_right() == right);
    // Many slots take many days.
    let trials = asked.filter(move |trial| full || trial.pair != Pair::SignsOfHours);
    trials.map(move |trial| DayTrial { clusters: if full { trial.clusters } else { FEW_CLUSTERS }, ..trial }.run(2026))
}

#[test]
fn the_sums_of_a_day_tell_no_more_than_rho_allows_and_more_than_half_of_it() {
    for finding in day_findings(true) {
        let claim = finding.trial.claim();
        assert!(finding.epsilon_at_least <= claim, "{finding:?}");
        assert!(finding.epsilon_at_least > 0.5 * claim, "{finding:?}, and {claim} is allowed");
    }
}

#[test]
fn a_day_without_its_account_or_at_half_its_price_is_noticed() {
    for finding in day_findings(false) {
        assert!(finding.exceeds_claim(), "{finding:?}");
    }
}
