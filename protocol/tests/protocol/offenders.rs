//! Members that spoil slots, over days: whom the gateway leaves out, for how long, and what that costs the others.

mod days;
mod holders;
mod matrix;
mod quarantine;
mod retries;
mod search;
mod several;

use dream_protocol::cluster::{ClusterConfig, Notice, Offender};
use dream_protocol::params::Share;
use dream_protocol::policy::Floors;
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::time::Slot;
use dream_testkit::plain_cluster::{Closed, Conduct, PlainCluster};

use crate::support::pki::Pki;
use crate::support::{SMALL, cluster_config, meter_name};

/// A configuration for lists of so many members or somewhat fewer, of whom a share may be missing. Its meters ask for 20
/// honest shares, and take small clusters otherwise.
fn config(members: usize, missing: (u32, u32)) -> ClusterConfig {
    let mut config = cluster_config(&Pki::new(), u16::try_from(members * 4 / 5).unwrap());
    config.missing_share = Share::new(missing.0, missing.1).unwrap();
    config.floors = Floors { honest: 20, ..SMALL };
    config
}

/// A cluster in which all are honest but these.
fn cluster(members: usize, missing: (u32, u32), liars: &[(usize, Conduct)], seed: u64) -> PlainCluster {
    let mut conducts = vec![Conduct::Honest; members];
    liars.iter().for_each(|&(liar, conduct)| conducts[liar] = conduct);
    PlainCluster::new(config(members, missing), conducts, seed)
}

/// The same with a committee, whose lists may be as short as its members accept.
fn committee(members: usize, liars: &[(usize, Conduct)], seed: u64) -> PlainCluster {
    let mut conducts = vec![Conduct::Honest; members];
    liars.iter().for_each(|&(liar, conduct)| conducts[liar] = conduct);
    let mut config = config(members, (1, 10));
    config.scheme = SchemeChoice::Only(Kind::Committee);
    config.roster.min_members = 50;
    PlainCluster::new(config, conducts, seed)
}

/// What is known of a member.
fn known(cluster: &PlainCluster, number: usize) -> Option<Offender> {
    let name = meter_name(number);
    cluster.gateway.cluster.offenders().find(|(meter, _)| meter.as_str() == name).map(|(_, offender)| offender)
}

fn is_quarantined(cluster: &PlainCluster, number: usize) -> bool {
    known(cluster, number).is_some_and(|offender| offender.left_out)
}

/// Whether a notice says that lists are formed without a member.
fn is_left_out_of_lists(notice: &Notice, number: usize) -> bool {
    matches!(notice, Notice::LeftOutOfLists { meter, .. } if meter.as_str() == meter_name(number))
}

/// What became of a cluster with liars; everything that was released is right.
#[derive(Debug, Default, Clone, Copy)]
struct Report {
    /// How many slots after the first one that failed or took two attempts all liars were known.
    found: Option<u64>,
    slots: u64,
    decoded: u64,
    /// The same, of the slots after that.
    slots_after: u64,
    decoded_after: u64,
    /// What each honest member spent, in attempts.
    attempts: u64,
    /// In how many slots an honest member was left out of the sum or of the list at most, and in how many in a row.
    most_left_out: u64,
    longest_left_out: u64,
}

/// Lets slots pass, at most until all liars are found if asked so.
fn run(cluster: &mut PlainCluster, slots: u64, until_found: bool) -> Report {
    let liars: Vec<usize> =
        (0..cluster.conducts.len()).filter(|&number| cluster.conducts[number] != Conduct::Honest).collect();
    // In all, and in a row.
    let mut left_out = vec![(0u64, 0u64); cluster.conducts.len()];
    let mut report = Report::default();
    let mut spoiled: Option<Slot> = None;
    while report.slots < slots && !(until_found && report.found.is_some()) {
        let closed: Closed = cluster.next_slot();
        let decoded = closed.check();
        for (member, (all, in_a_row)) in left_out.iter_mut().enumerate() {
            let out = closed.missing.contains(&member) || !closed.members.contains(&member);
            *all += u64::from(out);
            *in_a_row = if out { *in_a_row + 1 } else { 0 };
            if !liars.contains(&member) {
                report.most_left_out = report.most_left_out.max(*all);
                report.longest_left_out = report.longest_left_out.max(*in_a_row);
            }
        }
        report.slots += 1;
        report.decoded += u64::from(decoded);
        report.attempts += u64::from(closed.outcome.attempts);
        if report.found.is_some() {
            report.slots_after += 1;
            report.decoded_after += u64::from(decoded);
        }
        if !decoded || closed.outcome.attempts > 1 {
            spoiled.get_or_insert(closed.outcome.slot);
        }
        if report.found.is_none() && liars.iter().all(|&liar| is_quarantined(cluster, liar)) {
            report.found = spoiled.map(|first| closed.outcome.slot.0 - first.0);
        }
    }
    for honest in (0..left_out.len()).filter(|number| !liars.contains(number)) {
        let dropped = cluster.notices.iter().any(|(_, notice)| is_left_out_of_lists(notice, honest));
        assert!(!dropped, "an honest member is left out of lists: {honest}, {report:?}");
    }
    report
}
