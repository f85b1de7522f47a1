//! Members that send nonsense: found by leaving groups out, as long as enough may be left out.

use dream_protocol::cluster::{Notice, Offence};
use dream_testkit::plain_cluster::Conduct;

use super::{cluster, is_left_out_of_lists, is_quarantined, known, run};

#[test]
fn one_that_always_lies_is_found_within_the_slots_that_groups_and_halving_take() {
    for (members, share, most) in
        [(25, (1, 10), 2), (25, (1, 5), 5), (60, (1, 10), 6), (100, (1, 10), 10), (200, (1, 10), 20)]
    {
        let groups = members / most + usize::from(members % most > 0);
        let bound = groups as u64 + u64::from(most.ilog2()) + 2;
        for liar in [0, members / 3, members - 1] {
            let mut cluster = cluster(members, share, &[(liar, Conduct::Nonsense)], liar as u64);
            let report = run(&mut cluster, bound + 5, true);
            assert!(report.found.is_some_and(|slots| slots <= bound), "{members} {share:?}: {report:?}, bound {bound}");
        }
    }
}

#[test]
fn the_search_goes_on_after_a_restart() {
    let mut cluster = cluster(25, (1, 10), &[(20, Conduct::Nonsense)], 3);
    (0..3).for_each(|_| drop(cluster.next_slot()));
    assert!(cluster.gateway.cluster.is_searching());
    let config = cluster.gateway.config.clone();
    cluster.restart(config);
    assert!(cluster.gateway.cluster.is_searching());
    let report = run(&mut cluster, 20, true);
    assert!(report.found.is_some_and(|slots| slots < 14), "{report:?}");
    assert!(cluster.notices.iter().any(|(_, notice)| matches!(notice, Notice::SpoilerFound { .. })));
}

#[test]
fn a_meter_that_spoiled_one_sum_takes_part_again_soon() {
    let mut cluster = cluster(25, (1, 5), &[(9, Conduct::Nonsense)], 1);
    assert!(!cluster.next_slot().check());
    cluster.conducts[9] = Conduct::Honest;
    let report = run(&mut cluster, 20, false);
    assert_eq!(report.decoded, 20);
    assert_eq!(cluster.next_slot().missing, [0; 0]);
}

#[test]
fn of_two_who_explain_the_failures_equally_well_neither_is_dropped() {
    for (members, share) in [(25, (1, 5)), (60, (1, 10))] {
        let (liar, victim) = (17, 3);
        let mut cluster = cluster(members, share, &[(liar, Conduct::Frames(victim))], 5);
        let report = run(&mut cluster, 400, false);
        let pair = |one, other: usize| {
            known(&cluster, one).is_some_and(|known| {
                matches!(&known.offence, Offence::SuspectedWith(with) if with.as_str() == crate::support::meter_name(other))
            })
        };
        assert!(pair(liar, victim) && pair(victim, liar), "{report:?}");
        let dropped = |number| cluster.notices.iter().any(|(_, notice)| is_left_out_of_lists(notice, number));
        assert!(!dropped(liar) && !dropped(victim));
    }
}

#[test]
fn where_nobody_may_be_left_out_the_operator_is_told() {
    let mut cluster = cluster(25, (0, 1), &[(9, Conduct::Nonsense)], 1);
    (0..3).for_each(|_| drop(cluster.next_slot()));
    let told: Vec<_> =
        cluster.notices.iter().filter(|(_, notice)| matches!(notice, Notice::CannotBeFound { .. })).collect();
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert!(matches!(told[0].1, Notice::CannotBeFound { members: 25, max_missing: 0 }));
}

#[test]
fn two_who_lie_at_once_are_found_by_groups_if_many_may_be_left_out() {
    let mut found = Vec::new();
    for seed in 0..3 {
        let liars = [(5, Conduct::Nonsense), (31, Conduct::Nonsense)];
        let mut cluster = cluster(50, (1, 5), &liars, seed);
        let report = run(&mut cluster, 300, true);
        assert!(is_quarantined(&cluster, 5) && is_quarantined(&cluster, 31), "{report:?}");
        found.extend(report.found);
    }
    assert_eq!(found.len(), 3, "{found:?}");
}
