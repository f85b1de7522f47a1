//! Lists whose parameters are unsound, or sound but beyond what the meter's policy accepts.

use dream_protocol::membership::ListError;
use dream_protocol::meter::{Input, Refusal};
use dream_protocol::params::{ParamsError, Terms};
use dream_protocol::policy::PolicyError;
use dream_protocol::topic::MeterChannel;

use crate::support::at;
use crate::support::liar::{FIRST, LISTED, Liar, NO_NOISE, on};

/// Offers a list of ten members with changed terms, and expects silence but for a status.
fn refused_with(change: impl FnOnce(&mut Terms), rule: impl Into<Refusal>) {
    let mut meters = Liar::enrolled(10, |policy| policy.min_honest = 7, NO_NOISE);
    let mut draft = meters.draft();
    (draft.terms.max_missing, draft.terms.max_malicious) = (2, 1);
    change(&mut draft.terms);
    let packet = draft.sign(&meters.identity);
    meters.refused(0, &packet, at(LISTED), &rule.into());
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 100 }, at((FIRST.0 + 1) * 600));
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
    assert_eq!(on(MeterChannel::Reading, &sent), []);
}

fn unsound(reason: ParamsError) -> Refusal {
    ListError::Params(reason).into()
}

#[test]
fn another_range_than_the_policys_is_refused() {
    let expected = (0, 9000);
    for found in [(0, 9001), (0, 8999), (-1, 9000), (0, 1)] {
        refused_with(|terms| (terms.lo, terms.hi) = found, PolicyError::Range { expected, found });
    }
}

#[test]
fn a_range_that_is_none_is_refused() {
    for (lo, hi) in [(0, 0), (1, 9000), (-9000, -1), (9000, 0)] {
        refused_with(|terms| (terms.lo, terms.hi) = (lo, hi), unsound(ParamsError::Range { lo, hi }));
    }
}

#[test]
fn a_larger_epsilon_than_the_policys_is_refused() {
    let most = (1, 1);
    for found in [(2, 1), (1_000_000, 999_999), (1_000_000, 1)] {
        let change = |terms: &mut Terms| (terms.epsilon_numerator, terms.epsilon_denominator) = found;
        refused_with(change, PolicyError::Epsilon { most, found });
    }
}

#[test]
fn an_epsilon_that_is_none_is_refused() {
    for (numerator, denominator) in [(0, 1), (1, 0), (1_000_001, 1_000_001), (u64::MAX, u64::MAX)] {
        let change =
            |terms: &mut Terms| (terms.epsilon_numerator, terms.epsilon_denominator) = (numerator, denominator);
        refused_with(change, unsound(ParamsError::Epsilon { numerator, denominator }));
    }
}

#[test]
fn more_attempts_than_the_policys_are_refused() {
    refused_with(|terms| terms.attempts = 3, PolicyError::Attempts { most: 2, found: 3 });
}

#[test]
fn fewer_honest_shares_than_the_policys_are_refused() {
    refused_with(|terms| terms.max_malicious = 2, PolicyError::TooFewHonest { least: 7, found: 6 });
}

#[test]
fn shorter_slots_than_the_policys_are_refused() {
    let mut meters = Liar::enrolled(10, |policy| policy.min_slot_seconds = 601, NO_NOISE);
    let list = meters.draft().sign(&meters.identity);
    let rule = PolicyError::SlotTooShort { least: 601, found: 600 }.into();
    meters.refused(0, &list, at(LISTED), &rule);
}

#[test]
fn more_than_a_fifth_missing_is_refused() {
    let error = ParamsError::TooManyMissing { missing: 3, members: 10, most: 2 };
    refused_with(|terms| terms.max_missing = 3, unsound(error));
}

#[test]
fn less_than_a_tenth_malicious_is_refused() {
    let error = ParamsError::TooFewMalicious { malicious: 0, members: 10, least: 1 };
    refused_with(|terms| terms.max_malicious = 0, unsound(error));
}

#[test]
fn tolerances_that_leave_nobody_honest_are_refused() {
    for malicious in [8, 9, u64::MAX] {
        let error = ParamsError::NoneHonest { missing: 2, malicious, members: 10 };
        refused_with(|terms| terms.max_malicious = malicious, unsound(error));
    }
}

#[test]
fn windows_that_do_not_fit_the_slot_are_refused() {
    for change in [
        |terms: &mut Terms| terms.reading_seconds = 271,
        |terms: &mut Terms| terms.reading_seconds = 0,
        |terms: &mut Terms| terms.reveal_seconds = 0,
        |terms: &mut Terms| terms.reveal_seconds = u64::MAX,
        |terms: &mut Terms| terms.attempts = 0,
        |terms: &mut Terms| terms.attempts = 256,
        |terms: &mut Terms| terms.slot_seconds = 0,
        |terms: &mut Terms| terms.slot_seconds = 86_401,
    ] {
        let mut terms = Terms { max_missing: 2, max_malicious: 1, ..crate::support::TERMS };
        change(&mut terms);
        let Terms { attempts, reading_seconds: reading, reveal_seconds: reveal, slot_seconds: slot, .. } = terms;
        refused_with(change, unsound(ParamsError::Windows { attempts, reading, reveal, slot }));
    }
}

#[test]
fn too_few_mask_partners_are_refused() {
    for partners in [1, 5, 8] {
        let error = ParamsError::TooFewPartners { partners, members: 10 };
        refused_with(|terms| terms.partners = partners, unsound(error));
    }
}

#[test]
fn noise_that_could_hide_an_uncancelled_mask_is_refused() {
    let change = |terms: &mut Terms| (terms.epsilon_numerator, terms.epsilon_denominator) = (1, 1_000_000);
    refused_with(change, unsound(ParamsError::TooLarge { members: 10 }));
}
