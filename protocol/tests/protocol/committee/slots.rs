//! Whole clusters with a committee, in virtual time: what holders may do to a slot, and what it costs beside the pairwise scheme.

use std::collections::BTreeSet;

use dream_protocol::aggregate::{Failure, SlotOutcome};
use dream_protocol::cluster::{ClusterConfig, HoldersReport, Notice};
use dream_protocol::ids::MeterId;
use dream_protocol::params::{Share, Terms};
use dream_protocol::scheme::{Kind, Scheme, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_testkit::virtual_cluster::VirtualCluster;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::support::pki::Pki;
use crate::support::world::MeterNode;
use crate::support::{START, TERMS, at, cluster_config, cluster_id, meter_config, meter_name, rng};

/// A cluster of noiseless meters in one scheme; these meters add something to their readings.
fn cluster(members: usize, kind: Kind, liars: &[(usize, i64)]) -> VirtualCluster {
    let pki = Pki::new();
    let tenth = Share::new(1, 10).unwrap();
    let config = ClusterConfig {
        scheme: SchemeChoice::Only(kind),
        terms: Terms { day_micro_rho: 0, ..TERMS },
        missing_share: tenth,
        malicious_share: tenth,
        ..cluster_config(&pki, u16::try_from(members).unwrap())
    };
    let meter = |index: usize| {
        let lie = liars.iter().find(|(liar, _)| *liar == index).map(|(_, watts)| *watts);
        let simulation = Simulation { share: Some(lie.unwrap_or(0)), ..Simulation::NOISELESS };
        let mut config = meter_config(&pki, &meter_name(index));
        config.policy.day_micro_epsilon = u64::MAX;
        MeterNode::new(config, simulation, rng(1000 + index as u64))
    };
    VirtualCluster::new(config, (0..members).map(meter), at(START), rng(1))
}

fn watts(meter: usize, slot: Slot) -> Option<i64> {
    Some(i64::try_from((meter as u64 * 37 + slot.0 * 11) % 4000).unwrap())
}

fn next(cluster: &mut VirtualCluster) -> SlotOutcome {
    cluster.next_outcome(watts)
}

/// The sum over all members.
fn whole_sum(cluster: &VirtualCluster, slot: Slot) -> i64 {
    (0..cluster.meters.len()).filter_map(|meter| watts(meter, slot)).sum()
}

/// The first so many holders of the newest list, by number.
fn holders(cluster: &VirtualCluster, count: usize) -> Vec<usize> {
    let number = |id: &str| id.trim_start_matches("m-").parse().unwrap();
    cluster.list().unwrap().holders().take(count).map(|holder| number(holder.id().as_str())).collect()
}

/// Keeps the answers, or reveals, of these meters from the gateway.
fn cut_off(cluster: &mut VirtualCluster, meters: impl IntoIterator<Item = usize>) {
    let topic = |meter: usize| MeterChannel::Reveal.topic(&cluster_id(), &MeterId::new(&meter_name(meter)).unwrap());
    cluster.withheld = meters.into_iter().map(topic).collect();
}

fn reports(cluster: &mut VirtualCluster) -> Vec<HoldersReport> {
    let notices = std::mem::take(&mut cluster.gateway.notices).into_iter();
    let report = |notice| if let Notice::Holders(report) = notice { Some(*report) } else { None };
    notices.filter_map(report).collect()
}

#[test]
fn as_many_holders_may_vanish_as_are_to_spare_and_no_more() {
    let mut cluster = cluster(60, Kind::Committee, &[]);
    let first = next(&mut cluster);
    assert_eq!(first.result.map(|sum| sum.watts()), Ok(whole_sum(&cluster, first.slot)));
    let committee = cluster.list().unwrap().params().terms().scheme.committee().unwrap();
    assert_eq!((committee.drawn, committee.holders, committee.needed, committee.spare()), (0, 60, 45, 15));

    let spare = usize::try_from(committee.spare()).unwrap();
    let gone = holders(&cluster, spare);
    cut_off(&mut cluster, gone.clone());
    reports(&mut cluster);
    let survived = next(&mut cluster);
    assert_eq!(survived.result.map(|sum| sum.watts()), Ok(whole_sum(&cluster, survived.slot)));
    assert_eq!(
        (survived.attempts, survived.responders),
        (1, 60),
        "a member that drops out as a holder is still in the sum"
    );
    let report = reports(&mut cluster).pop().expect("told at the deadline");
    assert_eq!((report.answered, report.needed, report.spare()), (45, 45, 0));
    let vanished: BTreeSet<String> = gone.iter().map(|&meter| meter_name(meter)).collect();
    assert_eq!(report.vanished.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), vanished);

    let gone = holders(&cluster, spare + 1);
    cut_off(&mut cluster, gone);
    assert_eq!(next(&mut cluster).result, Err(Failure::RevealMissing));
    cut_off(&mut cluster, []);
    assert!(next(&mut cluster).result.is_ok());
}

#[test]
fn members_of_drawn_committees_get_short_lists_and_hear_no_requests() {
    let mut cluster = cluster(210, Kind::Committee, &[]);
    let outcome = next(&mut cluster);
    assert_eq!(outcome.result.map(|sum| sum.watts()), Ok(whole_sum(&cluster, outcome.slot)));
    let list = cluster.list().unwrap().clone();
    let committee = list.params().terms().scheme.committee().unwrap();
    assert!(committee.drawn > 0 && committee.holders < 210 && committee.spare() >= 15, "{committee:?}");
    let holders: BTreeSet<usize> = holders(&cluster, usize::MAX).into_iter().collect();
    for (index, meter) in cluster.meters.iter().enumerate() {
        let subscribed = meter.as_ref().unwrap().meter.subscriptions();
        let hears = |channel: GatewayChannel| subscribed.contains(&channel.topic(&cluster_id()));
        assert!(hears(GatewayChannel::Membership) && hears(GatewayChannel::Retry));
        assert_eq!(hears(GatewayChannel::Recovery), holders.contains(&index), "{index}");
        assert_eq!(hears(GatewayChannel::FullMembership), holders.contains(&index), "{index}");
    }
    assert!(list.shortened().len() * 10 < list.bytes().len() * 9, "short lists are shorter");
}

#[test]
fn a_gateway_that_is_told_so_forms_committees_from_fifty_members_on() {
    let scheme = |members: usize, choice| {
        let pki = Pki::new();
        let config = ClusterConfig { scheme: choice, ..cluster_config(&pki, u16::try_from(members).unwrap()) };
        let meter = |index: usize| {
            MeterNode::new(meter_config(&pki, &meter_name(index)), Simulation::NOISELESS, rng(index as u64))
        };
        let mut cluster = VirtualCluster::new(config, (0..members).map(meter), at(START), rng(1));
        assert!(next(&mut cluster).result.is_ok());
        cluster.list().unwrap().params().terms().scheme
    };
    assert_eq!(scheme(49, SchemeChoice::Auto), Scheme::PAIRWISE);
    assert_eq!(scheme(50, SchemeChoice::Auto).kind(), Kind::Committee);
    assert_eq!(scheme(50, SchemeChoice::Only(Kind::Pairwise)), Scheme::PAIRWISE);
    assert_eq!(scheme(20, SchemeChoice::Only(Kind::Committee)).kind(), Kind::Committee);
}

#[test]
fn a_member_that_sends_nonsense_is_found_as_in_the_pairwise_scheme() {
    let mut cluster = cluster(60, Kind::Committee, &[(23, 1 << 50)]);
    let failed = next(&mut cluster);
    assert_eq!(failed.result, Err(Failure::UnmaskFailed));
    let bound = 60 / 6 + 6u64.ilog2() + 2;
    let found = (1..=bound).find(|_| {
        next(&mut cluster);
        let mut known = cluster.gateway.cluster.offenders();
        known.any(|(meter, offender)| meter.as_str() == meter_name(23) && offender.left_out)
    });
    assert!(found.is_some(), "not within {bound} slots");
    // Others are left out beside it, until nothing else explains the failures.
    let without = next(&mut cluster);
    assert!(without.result.is_ok() && without.responders < without.members, "{without:?}");
}

#[test]
fn losses_between_the_rounds_cost_a_committee_next_to_nothing_and_pairs_most_slots() {
    let slots = crate::simulation::variable("DREAM_SIM_RUNS").unwrap_or(150).clamp(40, 3000);
    let pairwise = survivors(100, Kind::Pairwise, 10, slots.min(300));
    let committee = survivors(100, Kind::Committee, 10, slots);
    report("N = 100, 1 % lost", pairwise, committee);
    // Of so many slots in which 0.99^100 survive, five standard deviations.
    let expected = 0.99f64.powi(100);
    let deviation = (expected * (1.0 - expected) / slots.min(300) as f64).sqrt();
    assert!((pairwise - expected).abs() < 5.0 * deviation, "{pairwise} of slots in pairs, {expected} expected");
    assert!(committee >= 0.999, "{committee} of slots with a committee");
}

#[test]
fn a_thousand_members_survive_a_loss_of_one_in_twenty() {
    // Setting up a thousand meters takes longer than all other tests here: `make long` does.
    let long = crate::simulation::variable("DREAM_SIM_RUNS").is_some_and(|runs| runs >= 1000);
    let (members, slots) = if long { (1000, 400) } else { (210, 20) };
    let committee = survivors(members, Kind::Committee, 50, slots);
    report(&format!("N = {members}, 5 % lost"), 0.95f64.powi(i32::try_from(members).unwrap()), committee);
    assert!(committee >= 0.999, "{committee} of slots with a committee");
}

/// Which share of slots decodes in the first attempt if each answer is lost with so many in a thousand.
fn survivors(members: usize, kind: Kind, lost: u64, slots: u64) -> f64 {
    let mut cluster = cluster(members, kind, &[]);
    let mut random: ChaCha20Rng = rng(77);
    let mut survived = 0u64;
    for _ in 0..slots {
        let gone: Vec<usize> = (0..members).filter(|_| random.next_u64() % 1000 < lost).collect();
        cut_off(&mut cluster, gone);
        let outcome = next(&mut cluster);
        if let Ok(sum) = outcome.result
            && outcome.attempts == 1
        {
            // In pairs, members that did not reveal are left out for a while.
            let whole = outcome.responders == outcome.members;
            assert!(!whole || sum.watts() == whole_sum(&cluster, outcome.slot), "never decoded and wrong");
            assert!(whole || kind == Kind::Pairwise);
            survived += 1;
        }
        cut_off(&mut cluster, []);
    }
    survived as f64 / slots as f64
}

#[expect(clippy::print_stdout, reason = "measurements, shown with --no-capture")]
fn report(what: &str, pairwise: f64, committee: f64) {
    println!("{what}: first attempts that decode: pairwise {pairwise:.4}, committee {committee:.5}");
}
