//! Two or three members that send nonsense at once: found by groups that sums leave out and parts that lists leave out.
//! `DREAM_SIM_RUNS=<number>` raises the seeds, to a fiftieth of it for each size; `--no-capture` shows what the runs came to.

use dream_protocol::cluster::{ClusterConfig, Notice, Record};
use dream_protocol::time::Slot;
use dream_testkit::plain_cluster::{Conduct, PlainCluster};
use dream_testkit::simulation::Dice;

use super::{Report, config, is_quarantined, run};

/// The fewest members that lists have here.
const LEAST: u16 = 50;

/// How many seeds are run unless more are asked for.
const FEW_RUNS: u64 = 3;

/// Members, the share that may be missing, and within how many slots half of all searches end.
type Size = (usize, (u32, u32), u64);

/// A configuration whose lists may be as short as meters accept.
fn wide(members: usize, missing: (u32, u32)) -> ClusterConfig {
    let mut config = config(members, missing);
    config.roster.min_members = LEAST;
    config
}

/// A cluster with so many members that always lie, anywhere.
fn liars(config: ClusterConfig, members: usize, count: usize, conduct: Conduct, seed: u64) -> PlainCluster {
    let mut dice = Dice::new(!seed);
    let mut conducts = vec![Conduct::Honest; members];
    while conducts.iter().filter(|&&known| known != Conduct::Honest).count() < count {
        conducts[dice.below(members)] = conduct;
    }
    PlainCluster::new(config, conducts, seed)
}

/// How many lists were published from the second on.
fn lists(cluster: &PlainCluster) -> usize {
    cluster.notices.iter().filter(|(_, notice)| matches!(notice, Notice::ListPublished { .. })).count()
}

fn are_given_up(cluster: &PlainCluster) -> usize {
    cluster.notices.iter().filter(|(_, notice)| matches!(notice, Notice::CannotBeFound { .. })).count()
}

#[test]
fn two_are_found_by_shorter_lists() {
    for (members, share, slots) in sizes(
        &[(60, (1, 10), 70), (100, (1, 10), 60)],
        &[(60, (1, 5), 50), (100, (1, 5), 50), (200, (1, 10), 60), (200, (1, 5), 60)],
    ) {
        check(members, share, 2, slots);
    }
}

#[test]
fn three_are_found_by_shorter_lists() {
    for (members, share, slots) in
        sizes(&[(100, (1, 10), 80)], &[(100, (1, 5), 70), (200, (1, 10), 80), (200, (1, 5), 80)])
    {
        check(members, share, 3, slots);
    }
}

#[test]
fn lists_of_the_search_allow_for_as_many_colluders_as_one_of_everybody() {
    let mut cluster = liars(wide(200, (1, 10)), 200, 2, Conduct::Nonsense, 1);
    let mut seen = Vec::new();
    for _ in 0..40 {
        cluster.next_slot();
        seen.extend(cluster.gateway.cluster.newest_list().map(|list| {
            let params = list.params();
            (params.members(), params.max_malicious())
        }));
    }
    assert_eq!(seen[0], (200, 20));
    assert!(seen.iter().any(|&(members, _)| members < 150), "lists are shorter: {seen:?}");
    assert!(seen.iter().all(|&(_, malicious)| malicious == 20), "{seen:?}");
}

/// The sizes to try, and more of them if more runs are asked for.
fn sizes(few: &[Size], more: &[Size]) -> Vec<Size> {
    let more = if runs() > FEW_RUNS { more } else { &[] };
    few.iter().chain(more).copied().collect()
}

/// Checks that the liars are found within so many slots in the median of a few runs, and that everybody is listed afterwards.
fn check(members: usize, share: (u32, u32), count: usize, slots: u64) {
    let mut found = Vec::new();
    for seed in 0..runs() {
        let mut cluster = liars(wide(members, share), members, count, Conduct::Nonsense, seed);
        let report = run(&mut cluster, 500, true);
        said(members, share, count, seed, &report, lists(&cluster));
        assert!(report.found.is_some(), "{members} {share:?} {count}, seed {seed}: {report:?}");
        found.extend(report.found);
        (0..4).for_each(|_| drop(cluster.next_slot()));
        let after = run(&mut cluster, 20, false);
        assert_eq!(after.decoded, 20, "{members} {share:?} {count}, seed {seed}: {after:?}");
        assert_eq!(cluster.next_slot().members.len(), members, "everybody is listed again");
    }
    found.sort_unstable();
    let median = found[found.len() / 2];
    assert!(median <= slots, "{members} {share:?} {count}: {found:?}");
}

#[test]
fn lists_are_never_shorter_than_allowed_and_nobody_is_left_out_for_long() {
    for (members, least, count) in [(60, 50, 2), (100, 50, 3), (100, 70, 2)] {
        let mut config = wide(members, (1, 10));
        config.roster.min_members = least;
        let mut cluster = liars(config, members, count, Conduct::Nonsense, 7);
        let mut shortest = members;
        for _ in 0..60 {
            shortest = shortest.min(cluster.next_slot().members.len());
        }
        assert!(shortest < members && shortest >= least.into(), "{shortest} of {members}, {least} allowed");
        let report = run(&mut cluster, 300, true);
        assert!(report.longest_left_out <= 30, "{report:?}");
    }
}

#[test]
fn the_search_by_lists_goes_on_after_a_restart() {
    let mut cluster = liars(wide(100, (1, 10)), 100, 2, Conduct::Nonsense, 3);
    while cluster.gateway.cluster.left_out_to_search() == 0 {
        cluster.next_slot();
    }
    let config = cluster.gateway.config.clone();
    for _ in 0..30 {
        let before = (cluster.gateway.cluster.left_out_to_search(), cluster.gateway.cluster.suspects());
        cluster.restart(config.clone());
        let after = (cluster.gateway.cluster.left_out_to_search(), cluster.gateway.cluster.suspects());
        assert_eq!(after, before);
        cluster.next_slot();
    }
    let report = run(&mut cluster, 200, false);
    assert!(report.decoded > 150, "{report:?}");
    let liars = (0..100).filter(|&number| cluster.conducts[number] != Conduct::Honest);
    assert!(liars.into_iter().all(|liar| is_quarantined(&cluster, liar)));
}

#[test]
fn too_many_liars_cost_few_lists_and_the_search_is_given_up() {
    let mut cluster = liars(wide(100, (1, 10)), 100, 40, Conduct::Nonsense, 1);
    let report = run(&mut cluster, 320, false);
    assert_eq!(report.decoded, 0);
    assert_eq!(are_given_up(&cluster), 1);
    assert!(cluster.gateway.cluster.is_search_given_up());
    let decided = |(_, notice): &&(Slot, Notice)| matches!(notice, Notice::SearchesByLists { .. });
    let decided: Vec<Slot> = cluster.notices.iter().filter(decided).map(|(slot, _)| *slot).collect();
    assert_eq!(decided.len(), 49, "48 lists, and then one of everybody");
    assert!(decided.windows(2).all(|pair| pair[0].0 + 3 <= pair[1].0), "each is in force for three slots: {decided:?}");
    assert_eq!((cluster.gateway.cluster.left_out_to_search(), cluster.next_slot().members.len()), (0, 100));
}

#[test]
fn where_neither_lists_nor_sums_can_leave_enough_out_it_is_told_at_once() {
    let mut config = config(40, (1, 20));
    config.roster.min_members = 40;
    let mut cluster = liars(config, 40, 2, Conduct::Nonsense, 1);
    let report = run(&mut cluster, 25, false);
    assert_eq!(are_given_up(&cluster), 1, "{report:?}");
    assert_eq!(lists(&cluster), 1, "no list but the first");
    assert_eq!(cluster.gateway.cluster.left_out_to_search(), 0);
}

#[test]
fn liars_that_keep_still_at_times_leave_no_honest_member_out_for_good() {
    for seed in 0..3 {
        let mut cluster = liars(wide(100, (1, 10)), 100, 2, Conduct::NowAndThen(70), seed);
        let report = run(&mut cluster, 432, false);
        assert!(report.longest_left_out <= 144, "{report:?}");
    }
}

#[test]
fn a_damaged_record_of_the_search_is_refused() {
    let mut cluster = liars(wide(60, (1, 10)), 60, 2, Conduct::Nonsense, 1);
    while cluster.gateway.cluster.left_out_to_search() == 0 {
        cluster.next_slot();
    }
    let records = cluster.gateway.records();
    let record = records.iter().find(|record| matches!(record, Record::Offenders(_))).unwrap();
    let bytes = record.encode();
    assert_eq!(*Record::decode(&bytes).unwrap().encode(), *bytes);
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut after {cut} bytes");
    }
}

#[expect(clippy::print_stdout, reason = "what the runs came to, for whoever runs the test with --no-capture")]
fn said(members: usize, share: (u32, u32), count: usize, seed: u64, report: &Report, lists: usize) {
    let (found, out) = (report.found, report.longest_left_out);
    println!(
        "{count} liars, {members} members, {}/{} missing, seed {seed}: found {found:?}, {lists} lists, out {out}",
        share.0, share.1
    );
}

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is up to whoever runs the test")]
fn runs() -> u64 {
    let wanted = std::env::var("DREAM_SIM_RUNS").ok().map(|value| value.parse::<u64>().expect("a number"));
    wanted.map_or(FEW_RUNS, |wanted| (wanted / 50).max(1))
}
