//! Members that send nonsense: kept out of sums, tried again, and convicted in a committee.

use std::collections::BTreeSet;

use dream_protocol::cluster::{Notice, Offence, Record};
use dream_protocol::ids::MeterId;
use dream_protocol::scheme::Kind;
use dream_testkit::plain_cluster::{Conduct, PlainCluster};

use super::{cluster, committee, is_quarantined, known, run};
use crate::support::{at, meter_name};

#[test]
fn one_that_always_lies_is_kept_out_of_sums_soon_in_either_scheme() {
    for (kind, members) in [(Kind::Pairwise, 40), (Kind::Committee, 60)] {
        let mut found = Vec::new();
        for seed in 0..5 {
            let liar = [(members / 3 + usize::try_from(seed).unwrap(), Conduct::Nonsense)];
            let mut cluster = match kind {
                Kind::Pairwise => cluster(members, (1, 10), &liar, seed),
                Kind::Committee => committee(members, &liar, seed),
            };
            let report = run(&mut cluster, 60, true);
            assert_eq!(known(&cluster, liar[0].0).map(|known| known.offence), Some(Offence::Suspected));
            found.push(report.found.expect("found within sixty slots"));
        }
        found.sort_unstable();
        assert!(found[2] <= 20, "{kind:?}, {members}: {found:?}");
    }
}

#[test]
fn what_is_known_outlasts_a_restart() {
    let mut cluster = committee(50, &[(20, Conduct::Nonsense)], 3);
    for slot in 0..40 {
        cluster.next_slot();
        if slot % 5 != 3 {
            continue;
        }
        let before = cluster.gateway.cluster.offenders().map(|(meter, known)| (meter.clone(), known));
        let before: Vec<_> = before.collect();
        let searching = cluster.gateway.cluster.is_searching();
        let config = cluster.gateway.config.clone();
        cluster.restart(config);
        let after: Vec<_> = cluster.gateway.cluster.offenders().map(|(meter, known)| (meter.clone(), known)).collect();
        assert_eq!((after, cluster.gateway.cluster.is_searching()), (before, searching));
    }
    assert!(is_quarantined(&cluster, 20));
}

#[test]
fn who_was_found_stays_out_while_a_second_one_is_looked_for() {
    // The second one begins at once, while little is known of the first; or after the search for the first has ended.
    for pause in [0, 30] {
        let (mut found, mut released, mut let_in) = (Vec::new(), Vec::new(), 0);
        for seed in 0..7 {
            let mut cluster = committee(100, &[(20, Conduct::Nonsense)], seed);
            run(&mut cluster, 60, true);
            run(&mut cluster, pause, false);
            cluster.conducts[70] = Conduct::Nonsense;
            let (mut slots, mut not_kept) = (0u64, 0u64);
            while !(is_quarantined(&cluster, 20) && is_quarantined(&cluster, 70)) && slots < 144 {
                let closed = cluster.next_slot();
                slots += 1;
                not_kept += u64::from(!is_quarantined(&cluster, 20));
                let_in += u64::from(!closed.missing.contains(&20) && closed.members.contains(&20));
            }
            found.push(slots);
            released.push(not_kept);
        }
        let slots: u64 = found.iter().sum();
        found.sort_unstable();
        assert!(found[3] <= 20, "{pause}: {found:?}");
        assert!(released.iter().all(|&slots| slots <= 10), "{pause}: the first one was not kept out: {released:?}");
        assert!(
            let_in * 8 <= slots,
            "{pause}: the first one was in {let_in} of {slots} sums; a trial is one of sixteen"
        );
    }
}

#[test]
fn one_that_lies_always_is_convicted_in_a_committee_and_never_by_those_who_know_s() {
    let convicted = |notice: &Notice| matches!(notice, Notice::Convicted { .. });
    let mut slots = Vec::new();
    for seed in 0..5 {
        let mut members = committee(60, &[(20, Conduct::Nonsense)], seed);
        let until = (1..=432).find(|_| {
            members.next_slot();
            members.notices.iter().any(|(_, notice)| convicted(notice))
        });
        assert_eq!(known(&members, 20).map(|known| known.offence), Some(Offence::SpoilsSums), "seed {seed}");
        assert!(nobody_is_left_out_of_lists(&members));
        slots.push(until.expect("convicted within three days"));
    }
    slots.sort_unstable();
    assert!(slots[2] <= 230, "{slots:?}");
    let mut pairs = cluster(40, (1, 10), &[(20, Conduct::Nonsense)], 5);
    run(&mut pairs, 320, false);
    assert!(!pairs.notices.iter().any(|(_, notice)| convicted(notice)));
    assert_eq!(known(&pairs, 20).map(|known| known.offence), Some(Offence::Suspected));
    assert!(nobody_is_left_out_of_lists(&pairs));
}

fn nobody_is_left_out_of_lists(cluster: &PlainCluster) -> bool {
    !cluster.notices.iter().any(|(_, notice)| matches!(notice, Notice::LeftOutOfLists { .. }))
}

#[test]
fn who_has_left_is_no_longer_looked_after_and_is_known_when_it_comes_back() {
    let mut cluster = committee(60, &[(20, Conduct::Nonsense)], 1);
    run(&mut cluster, 60, true);
    let config = cluster.gateway.config.clone();
    let mut denying = config.clone();
    denying.roster.deny = [MeterId::new(&meter_name(20)).unwrap()].into();
    cluster.restart(denying);
    (0..40).for_each(|_| drop(cluster.next_slot()));
    let last = cluster.next_slot();
    assert!(!last.members.contains(&20));
    assert_eq!(cluster.gateway.cluster.offenders().count(), 0, "the operator has dealt with it");
    cluster.restart(config);
    cluster.enrol(20, at((last.outcome.slot.0 + 1) * 600 + 300));
    let lost = (0..20).filter(|_| !cluster.next_slot().check()).count();
    assert!(cluster.next_slot().members.contains(&20) && is_quarantined(&cluster, 20));
    assert!(lost <= 2, "{lost} slots: it is not looked for again");
}

#[test]
fn a_meter_that_spoiled_one_sum_takes_part_again_soon() {
    let mut soon = 0;
    for seed in 0..8 {
        let mut cluster = cluster(40, (1, 5), &[(9, Conduct::Nonsense)], seed);
        cluster.next_slot();
        cluster.conducts[9] = Conduct::Honest;
        let report = run(&mut cluster, 40, false);
        soon += usize::from(cluster.gateway.cluster.offenders().count() == 0);
        let rest = run(&mut cluster, 104, false);
        assert_eq!((report.decoded, rest.decoded), (40, 104), "{report:?} {rest:?}");
        assert_eq!(cluster.next_slot().missing, [0; 0], "everybody within a day");
        assert_eq!(cluster.gateway.cluster.offenders().count(), 0);
    }
    assert!(soon >= 6, "{soon} of 8 within 40 slots");
}

#[test]
fn whom_a_sum_leaves_out_comes_from_the_gateways_dice() {
    // Gateways that know the same, and draw otherwise.
    let left_out = |seed: u64| {
        let mut cluster = committee(60, &[(9, Conduct::Nonsense)], 1);
        cluster.next_slot();
        cluster.gateway.rng = crate::support::rng(seed);
        cluster.next_slot().missing
    };
    let drawn: BTreeSet<Vec<usize>> = (0..8).map(left_out).collect();
    assert_eq!(drawn.len(), 8, "{drawn:?}");
    assert_eq!(left_out(3), left_out(3));
}

#[test]
fn where_nobody_may_be_left_out_the_operator_is_told() {
    let mut cluster = cluster(25, (0, 1), &[(9, Conduct::Nonsense)], 1);
    (0..60).for_each(|_| drop(cluster.next_slot()));
    let told = cluster.notices.iter().filter(|(_, notice)| matches!(notice, Notice::CannotBeFound)).count();
    assert_eq!((told, cluster.gateway.cluster.cannot_be_found()), (1, true), "once");
}

#[test]
fn a_damaged_record_is_refused() {
    let mut cluster = committee(60, &[(5, Conduct::Nonsense), (31, Conduct::Nonsense)], 1);
    (0..20).for_each(|_| drop(cluster.next_slot()));
    let records = cluster.gateway.records();
    let record = records.iter().find(|record| matches!(record, Record::Offenders(_))).unwrap();
    let bytes = record.encode();
    assert_eq!(*Record::decode(&bytes).unwrap().encode(), *bytes);
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut after {cut} bytes");
    }
}
