//! The shipped meter and gateway code, audited from outside, in both directions: the claim holds, and the audit notices when
//! it does not.

use dream_meter_sim::study::audit::{Finding, Trial};

fn findings(left_out: bool) -> impl Iterator<Item = Finding> {
    Trial::all().filter(move |trial| trial.left_out == left_out).map(|trial| trial.run(2026))
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
