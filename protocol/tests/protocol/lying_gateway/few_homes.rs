//! A list of a few homes and many meters of the gateway's own: every limit that is relative to N holds, and the homes are
//! bare. What stops it are floors in absolute numbers, and certificates that name the cluster.

use std::sync::Arc;

use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::noise::{Sampler, Scale};
use dream_protocol::policy::{Floors, Policy, PolicyError, Profile};

use crate::support::liar::{Liar, NO_NOISE};
use crate::support::pki::Pki;
use crate::support::{cluster_id, enrol, meter_name, policy, rng};

const HOMES: usize = 3;
const COLLUDERS: usize = 20;

/// The list of three homes and twenty colluders, each certified with the names that are given for the two kinds.
fn padded(names: [Option<&str>; 2]) -> Result<Arc<MembershipList>, ListError> {
    let pki = Pki::new();
    let member = |index: usize| {
        let id = meter_name(index);
        let named = names[usize::from(index >= HOMES)].map(|name| pki.meter_named(&id, name));
        enrol(&id, &named.unwrap_or_else(|| pki.meter(&id)), |_| {})
    };
    let mut draft = Liar::enrolled(0, |_| {}, NO_NOISE).draft();
    draft.enrolments = (0..HOMES + COLLUDERS).map(member).collect();
    draft.terms.max_malicious = 3;
    let packet = draft.sign(&pki.gateway("gw"));
    MembershipList::verify(&packet.payload, &cluster_id(), &pki.authorities())
}

fn verdict(list: &MembershipList, rules: impl FnOnce(Policy) -> Policy) -> Result<(), PolicyError> {
    rules(policy(&Pki::new())).check(list)
}

#[test]
fn three_homes_among_twenty_colluders_are_refused_although_every_share_is_right() {
    let list = padded([None, None]).unwrap();
    assert_eq!((list.params().members(), list.params().max_malicious(), list.params().honest()), (23, 3, 20));
    // A floor under n alone, which counts colluders as honest, lets it through.
    let relative = Floors { members: 1, malicious: 1, honest: 20 };
    assert_eq!(verdict(&list, |policy| Policy { floors: relative, ..policy }), Ok(()));
    let strict = verdict(&list, |policy| policy.with_profile(Profile::Strict));
    assert_eq!(strict, Err(PolicyError::TooFewMembers { least: 50, found: 23 }));
}

#[test]
fn a_community_knows_that_colluders_come_from_elsewhere() {
    let community = |list: &MembershipList| {
        verdict(list, |policy| Policy { day_micro_rho: u64::MAX, ..policy.with_profile(Profile::Community) })
    };
    let ours = Some("urn:dream:cluster:north:30");
    // Colluders that were certified for no cluster, or without its size.
    for theirs in [None, Some("urn:dream:cluster:north")] {
        let list = padded([ours, theirs]).unwrap();
        assert_eq!(community(&list), Err(PolicyError::NoCertifiedSize { entry: HOMES }));
    }
    // For another one: nobody takes such a list.
    assert!(matches!(padded([ours, Some("urn:dream:cluster:south:30")]), Err(ListError::Enrolment { entry: 3, .. })));
    // Of a cluster of which most is left out, nobody either.
    let few = padded([Some("urn:dream:cluster:north:33"), ours]);
    assert_eq!(few.unwrap_err(), ListError::CertifiedSize { entry: 0, size: 33, members: 23 });
    // Only an authority that certifies the gateway's own meters for this cluster can help it.
    assert_eq!(community(&padded([ours, ours]).unwrap()), Ok(()));
}

/// What three homes draw together, in watts, hour after hour of a night.
const LOAD: i64 = 1500;

/// How often, in a hundred nights, the median of 40 noisy sums is within 5 % of the load, when so many of 20 shares are
/// really added.
fn nights_shown(shares: u32) -> usize {
    let (sampler, mut rng) = (Sampler::new(20, Scale::new(9000, 1)), rng(40));
    let mut median = || {
        let mut sums: Vec<i64> =
            (0..40).map(|_| LOAD + (0..shares).map(|_| sampler.sample(&mut rng)).sum::<i64>()).collect();
        sums.sort_unstable();
        sums[20]
    };
    (0..100).filter(|_| (median() - LOAD).abs() * 20 <= LOAD).count()
}

#[test]
fn forty_slots_would_show_the_three_homes_and_show_nothing_of_twenty() {
    // Colluders of the gateway add no noise: of 20 shares that should be there, three are, and most draws of those
    // are close to nothing.
    let [bare, hidden] = [nights_shown(3), nights_shown(20)];
    assert!(bare >= 80 && hidden <= 20, "{bare} and {hidden} of 100");
}
