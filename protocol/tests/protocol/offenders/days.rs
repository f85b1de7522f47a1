//! Two days with one liar of each kind, in clusters of 25 to 200 members. `DREAM_SIM_RUNS=<number>` raises the seeds, to a
//! twentieth of it for each kind and at least seven; `--no-capture` shows what the runs came to.

use dream_testkit::plain_cluster::Conduct;
use dream_testkit::simulation::Dice;

use super::{Report, cluster, run};

/// Two days.
const SLOTS: u64 = 288;

#[test]
fn one_that_never_reveals() {
    let all = days("never reveals", |_| Conduct::NeverReveals);
    assert!(all.iter().all(|report| report.found == Some(1) && report.decoded == SLOTS), "{all:?}");
}

#[test]
fn one_that_reveals_late() {
    let all = days("reveals late", |_| Conduct::RevealsLate);
    assert!(all.iter().all(|report| report.found == Some(1) && report.decoded == SLOTS), "{all:?}");
}

#[test]
fn one_that_sends_nonsense() {
    let all = days("nonsense", |_| Conduct::Nonsense);
    assert!(all.iter().all(|report| report.found.is_some()), "{all:?}");
    let after = median(&all, |report| 1000 * report.decoded_after / report.slots_after);
    assert!(after >= 990, "{after} of 1,000 after the search: {all:?}");
    check(&all);
}

#[test]
fn one_that_lies_now_and_then() {
    // It is found later, and passes trials: what counts is all that it spoils in two days, the search included.
    let all = days("now and then", |dice| Conduct::NowAndThen(dice.between((20, 60))));
    assert!(all.iter().filter(|report| report.found.is_some()).count() * 2 > all.len(), "{all:?}");
    assert!(median(&all, |report| report.decoded) * 100 >= SLOTS * 96, "{all:?}");
    check(&all);
}

#[test]
fn who_was_released_keeps_nobody_else_from_a_trial() {
    // Four of 25 members were suspected and released here, and three are kept out, two of them honest, when the search is over.
    let report = day("now and then", 31, |dice| Conduct::NowAndThen(dice.between((20, 60))));
    assert!(report.longest_left_out <= 144, "{report:?}");
}

#[test]
fn one_that_frames_another() {
    // It knows S before it reveals, so either of the two is kept out, and fails every trial. Each costs a retry, and hardly a slot.
    let all = days("adaptive", |_| Conduct::Frames(3));
    assert!(median(&all, |report| report.decoded) * 100 >= SLOTS * 97, "{all:?}");
    assert!(all.iter().all(|report| (SLOTS + 5..=SLOTS + 32).contains(&report.attempts)), "{all:?}");
}

/// Nobody spends more than its budget of 160 a day, and every honest member takes part at least once a day.
fn check(all: &[Report]) {
    assert!(all.iter().all(|report| report.attempts <= SLOTS + 32), "{all:?}");
    assert!(all.iter().all(|report| report.longest_left_out <= 144), "an honest member is left out for good: {all:?}");
}

fn median(all: &[Report], of: impl Fn(&Report) -> u64) -> u64 {
    let mut values: Vec<u64> = all.iter().map(of).collect();
    values.sort_unstable();
    values[(values.len() - 1) / 2]
}

fn days(kind: &str, conduct: impl Fn(&mut Dice) -> Conduct) -> Vec<Report> {
    (0..runs()).map(|seed| day(kind, seed, &conduct)).collect()
}

fn day(kind: &str, seed: u64, conduct: impl Fn(&mut Dice) -> Conduct) -> Report {
    let mut dice = Dice::new(!seed);
    let members = [25, 25, 40, 60, 100, 200][dice.below(6)];
    let share = [(1, 10), (1, 5)][dice.below(2)];
    let liar = 4 + dice.below(members - 4);
    let mut cluster = cluster(members, share, &[(liar, conduct(&mut dice))], seed);
    let report = run(&mut cluster, SLOTS, false);
    said(kind, seed, members, share, &report);
    report
}

#[expect(clippy::print_stdout, reason = "what the runs came to, for whoever runs the test with --no-capture")]
fn said(kind: &str, seed: u64, members: usize, share: (u32, u32), report: &Report) {
    println!("{kind}, seed {seed}, {members} members, {}/{} missing: {report:?}", share.0, share.1);
}

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is up to whoever runs the test")]
fn runs() -> u64 {
    let wanted = std::env::var("DREAM_SIM_RUNS").ok().map(|value| value.parse::<u64>().expect("a number"));
    wanted.map_or(7, |wanted| (wanted / 20).max(7))
}
