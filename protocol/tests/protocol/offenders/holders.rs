//! Holders that answer wrongly, and members that deal wrongly: sums go on, and the two are told apart by pairs.

use std::collections::BTreeSet;

use dream_protocol::cluster::Notice;
use dream_testkit::plain_cluster::{Conduct, PlainCluster};

use super::{committee, run};
use crate::support::meter_name;

const MEMBERS: usize = 60;

/// The pairs of a member and a holder that turned out to be at odds.
fn at_odds(cluster: &PlainCluster) -> BTreeSet<(String, String)> {
    let pair = |notice: &Notice| {
        let Notice::AtOdds { member, holder } = notice else { return None };
        Some((member.to_string(), holder.to_string()))
    };
    cluster.notices.iter().filter_map(|(_, notice)| pair(notice)).collect()
}

fn pairs(pairs: &[(usize, usize)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|&(member, holder)| (meter_name(member), meter_name(holder))).collect()
}

#[test]
fn holders_that_lie_cost_no_sum_and_are_named_in_every_report() {
    // Of sixty answers forty-five are needed, so that seven wrong ones are corrected.
    let liars = [2, 17, 33, 41, 58].map(|liar| (liar, Conduct::WrongAnswers));
    let mut cluster = committee(MEMBERS, &liars, 1);
    cluster.faults = 2;
    let report = run(&mut cluster, 100, false);
    assert_eq!(report.decoded, 100);
    let reports = cluster.notices.iter().filter_map(|(_, notice)| {
        let Notice::Holders(report) = notice else { return None };
        Some(report)
    });
    let wrong: Vec<BTreeSet<String>> =
        reports.map(|report| report.wrong.iter().map(ToString::to_string).collect()).collect();
    let liars: BTreeSet<String> = liars.iter().map(|(liar, _)| meter_name(*liar)).collect();
    assert!(
        wrong.len() >= 99 && wrong.iter().all(|wrong| *wrong == liars),
        "late answers are looked at too: {wrong:?}"
    );
    assert_eq!((at_odds(&cluster).len(), cluster.gateway.cluster.offenders().count()), (0, 0), "nobody is blamed");
}

#[test]
fn a_member_that_deals_wrongly_is_at_odds_with_those_holders_and_convicted_by_none() {
    let mut cluster = committee(MEMBERS, &[(20, Conduct::WrongDealing(3))], 2);
    cluster.faults = 2;
    let report = run(&mut cluster, 260, false);
    assert_eq!(report.decoded, 260);
    assert_eq!(at_odds(&cluster), pairs(&[(20, 57), (20, 58), (20, 59)]));
    assert_eq!(cluster.gateway.cluster.offenders().count(), 0, "twelve holders could lie");
}

#[test]
fn a_holder_that_lies_when_a_victim_is_in_the_sum_is_at_odds_with_it_and_neither_is_blamed() {
    let mut cluster = committee(MEMBERS, &[(20, Conduct::Frames(7))], 3);
    cluster.faults = 2;
    let report = run(&mut cluster, 260, false);
    assert_eq!((report.decoded, at_odds(&cluster)), (260, pairs(&[(7, 20)])));
    assert_eq!(cluster.gateway.cluster.offenders().count(), 0);
}
