//! Whole clusters over a simulated network in virtual time: loss, delay, duplication, crashes at every step, clocks that
//! jump. Every run is checked against every rule by the referee; every test checks that its runs were not vacuous.
//!
//! A failure names its seed; `DREAM_SIM_SEED=<seed>` runs that one alone, `DREAM_SIM_RUNS=<number>` more or fewer. Run with
//! `--no-capture` to see their results.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dream_protocol::aggregate::Failure::{self, Interrupted, RevealMissing as Reveal, TooManyMissing as Missing};
use dream_protocol::scheme::Scheme;
use dream_testkit::simulation::referee::QUIET_SLOTS;
use dream_testkit::simulation::{Dice, Enrolments, Faults, Link, Node, Run, Scenario, Tally, Timer};

#[test]
fn without_faults_every_slot_decodes_with_every_member() {
    let runs = simulate("calm", 100, |dice| Scenario::calm(10 + dice.below(5), 8));
    runs.expect(|tally| tally.whole == tally.slots && tally.retried == 0 && tally.slots == 6 * tally.runs);
}

#[test]
fn a_lossy_network_costs_members_or_slots_but_never_a_sum() {
    let runs = simulate("lossy", 250, |dice| {
        let link = if dice.one_in(2) { Link::LIGHT } else { Link::HEAVY };
        Scenario { link, ..Scenario::calm(12, 8) }.recovering(dice)
    });
    runs.expect(|tally| tally.whole > 0 && tally.recovered > 0 && tally.retried > 0);
}

#[test]
fn meters_that_crash_at_any_step_never_say_two_things() {
    let runs = simulate("meter crashes", 300, meter_crashes);
    runs.expect(|tally| tally.whole > 0 && tally.recovered > 0 && tally.retried > 0 && any(tally, &[Missing, Reveal]));
}

#[test]
fn a_gateway_that_crashes_at_any_step_closes_every_slot_once() {
    let runs = simulate("gateway crashes", 300, gateway_crashes);
    runs.expect(|tally| tally.whole > 0 && tally.recovered > 0 && any(tally, &[Reveal, Interrupted]));
}

#[test]
fn a_gateway_that_is_away_for_longer_than_a_list_starts_the_next_one() {
    let runs = simulate("gateway away", 40, |dice| {
        let mut scenario = Scenario::calm(10, 16);
        scenario.roster.list_slots = 4;
        scenario.quiet_slots = QUIET_SLOTS;
        let crash = Timer::Crash { node: Node::Gateway, down: dice.between((300_000, 600_000)) };
        scenario.plan = vec![(dice.between((130_000, 400_000)), crash)];
        scenario
    });
    runs.expect(|tally| any(tally, &[Interrupted]) && tally.whole > 0 && tally.lists > 2 * tally.runs);
}

#[test]
fn a_gateway_that_stalls_or_loses_its_connection_says_so_or_decodes() {
    let runs = simulate("gateway stalls", 200, gateway_stalls);
    runs.expect(|tally| tally.whole > 0 && tally.recovered > 0 && tally.retried > 0);
}

#[test]
fn everything_at_once() {
    let runs = simulate("everything", 300, Scenario::everything);
    runs.expect(|tally| {
        tally.whole > 0 && tally.recovered > 0 && tally.retried > 0 && any(tally, &[Missing, Reveal, Interrupted])
    });
}

#[test]
fn forged_messages_and_damaged_records_harm_nobody() {
    let runs = simulate("hostile", 100, Scenario::hostile);
    runs.expect(|tally| {
        let refused = ["malformed", "bad_signature", "topic"].iter().all(|code| tally.refusals.contains_key(code));
        let rejected = ["malformed", "bad_mac", "topic"].iter().all(|code| tally.rejections.contains_key(code));
        tally.whole > 0 && tally.recovered > 0 && refused && rejected
    });
}

#[test]
fn a_meter_that_vanishes_before_its_reveal_costs_one_attempt() {
    let runs = simulate("vanish", 150, |dice| {
        let vanish = dice.between((10, 60));
        Scenario { vanish, vanish_down: (5_500, 40_000), vanish_pause: 60_000, ..Scenario::calm(12, 10) }
    });
    runs.expect(|tally| tally.retried > tally.runs && tally.recovered > tally.runs && tally.failed.is_empty());
}

#[test]
fn two_lost_attempts_end_a_slot() {
    let runs = simulate("two attempts", 40, |_| Scenario {
        vanish: 60,
        vanish_down: (6_000, 12_000),
        ..Scenario::calm(12, 8)
    });
    runs.expect(|tally| tally.failed(Reveal) > tally.runs);
}

#[test]
fn clocks_that_jump_cost_a_meter_its_reading_and_nobody_else_anything() {
    let runs = simulate("clocks", 200, |dice| {
        let mut scenario = Scenario::calm(12, 8);
        scenario.plan = scenario.clock_steps(dice);
        scenario.recovering(dice)
    });
    runs.expect(|tally| tally.recovered > 0 && tally.refusals.contains_key("clock_doubtful"));
}

#[test]
fn readings_that_are_all_early_wait_for_the_end_of_the_slot() {
    let runs = simulate("early", 20, |dice| {
        let mut scenario = Scenario { skew: 0, ..Scenario::calm(10, 6) };
        scenario.terms.reading_seconds = 2;
        let by = dice.between((3_000, 5_000)).cast_signed();
        scenario.plan = (0..10).map(|meter| (100_000, Timer::Step { meter, by })).collect();
        scenario
    });
    runs.expect(|tally| tally.decoded() == tally.slots);
}

#[test]
fn a_gateway_that_lost_its_store_takes_the_retained_list_over() {
    let runs = simulate("gateway store", 40, lost_store);
    runs.expect(|tally| tally.whole > 0 && tally.lists >= 2 * tally.runs);
}

#[test]
fn a_spent_budget_silences_meters_until_midnight() {
    let runs = simulate("ledger", 80, |dice| {
        let daily_micro_epsilon = dice.between((2, 5)) * 1_000_000;
        let vanish = dice.between((0, 30));
        Scenario { daily_micro_epsilon, vanish, ..Scenario::calm(12, 10) }
    });
    runs.expect(|tally| tally.whole > 0 && any(tally, &[Missing]) && tally.refusals.contains_key("ledger_exhausted"));
}

#[test]
fn a_day_reports_no_more_than_its_account_holds_whatever_goes_wrong() {
    let runs = simulate("account", 150, |dice| {
        let mut scenario = Scenario::everything(dice);
        scenario.terms.day_micro_rho = [2_000_000, 4_000_000][dice.below(2)];
        scenario.vanish = dice.between((10, 60));
        scenario.meter_faults.crash = dice.between((50, 300));
        scenario
    });
    runs.expect(|tally| tally.in_part > 10 * tally.runs && tally.retried > 0 && tally.whole > 0);
}

#[test]
fn meters_join_a_running_cluster() {
    let runs = simulate("joins", 60, |dice| {
        let mut scenario = Scenario { all_meters: 14, expected: 14, ..Scenario::calm(9, 10) };
        scenario.quiet_slots = QUIET_SLOTS;
        scenario.link = Link::LIGHT;
        scenario.plan =
            (9..14).map(|meter| (dice.between((1_000, 500_000)), Timer::Start(Node::Meter(meter)))).collect();
        scenario
    });
    runs.expect(|tally| tally.lists >= 2 * tally.runs);
}

#[test]
fn silent_members_are_dropped_and_come_back_when_heard() {
    let runs = simulate("leaves", 60, leaves);
    runs.expect(|tally| tally.lists >= 2 * tally.runs && any(tally, &[Missing]) && tally.whole > 8 * tally.runs);
}

#[test]
fn enrolments_and_lists_are_renewed_without_a_gap() {
    let runs = simulate("renewal", 10, |_| {
        let mut scenario = Scenario { enrolments: Enrolments::Aged, ..Scenario::calm(12, 14) };
        scenario.roster.list_slots = 4;
        scenario.quiet_slots = QUIET_SLOTS;
        scenario
    });
    runs.expect(|tally| tally.lists >= 6 * tally.runs && tally.decoded() == tally.slots);
}

#[test]
fn members_leave_when_their_certificates_end() {
    let runs = simulate("expiry", 20, |dice| {
        let mut scenario = Scenario { enrolments: Enrolments::ShortLived, ..Scenario::calm(12, 38) };
        scenario.roster.list_slots = 4;
        scenario.link = if dice.one_in(2) { Link::LIGHT } else { Link::GOOD };
        scenario
    });
    runs.expect(|tally| tally.lists >= 3 * tally.runs && tally.whole > 10 * tally.runs);
}

#[test]
fn masks_with_some_partners_only_cancel_as_well() {
    let runs = simulate("partners", 8, |dice| {
        let mut scenario = Scenario { link: Link::LIGHT, vanish: 1, ..Scenario::calm(60, 6) };
        scenario.roster.min_members = 60;
        scenario.terms.scheme = Scheme::Pairwise { partners: 50 };
        for meter in 0..dice.below(12) {
            let silent = Timer::Crash { node: Node::Meter(5 * meter), down: 100_000 };
            scenario.plan.push((dice.between((60_000, 300_000)), silent));
        }
        scenario
    });
    runs.expect(|tally| tally.whole > 0 && tally.recovered > 0 && tally.retried > 0);
}

fn meter_crashes(dice: &mut Dice) -> Scenario {
    let crash = dice.between((20, 400));
    let loses_store = if dice.one_in(4) { 200 } else { 0 };
    let meter_faults = Faults { crash, loses_store, down: (100, 40_000), ..Faults::default() };
    Scenario { meter_faults, ..Scenario::calm(12, 8) }.recovering(dice)
}

fn gateway_crashes(dice: &mut Dice) -> Scenario {
    // Shorter than a window, longer than one, longer than a slot.
    let down = [(100, 3_000), (3_000, 30_000), (60_000, 200_000)][dice.below(3)];
    let gateway_faults = Faults { crash: dice.between((10, 200)), down, ..Faults::default() };
    let mut scenario = Scenario { gateway_faults, ..Scenario::calm(12, 8) };
    scenario.roster.list_slots = [4, 30][dice.below(2)];
    for meter in 0..dice.below(4) {
        let (silent, down) = (dice.between((60_000, 300_000)), dice.between((60_000, 120_000)));
        scenario.plan.push((silent, Timer::Crash { node: Node::Meter(meter), down }));
    }
    scenario.recovering(dice)
}

fn gateway_stalls(dice: &mut Dice) -> Scenario {
    let down = [(1_000, 10_000), (10_000, 100_000)][dice.below(2)];
    let (stall, offline) = if dice.one_in(2) { (100, 0) } else { (0, 100) };
    let gateway_faults = Faults { stall, offline, down, ..Faults::default() };
    Scenario { gateway_faults, ..Scenario::calm(12, 8) }.recovering(dice)
}

fn lost_store(dice: &mut Dice) -> Scenario {
    let mut scenario = Scenario { quiet_slots: QUIET_SLOTS, ..Scenario::calm(12, 8) };
    scenario.roster.list_slots = [4, 30][dice.below(2)];
    scenario.link = Link::LIGHT;
    let lost = Timer::LoseStore { down: dice.between((100, 200_000)) };
    scenario.plan = vec![(dice.between((10_000, 400_000)), lost)];
    scenario
}

fn leaves(dice: &mut Dice) -> Scenario {
    let mut scenario = Scenario { quiet_slots: QUIET_SLOTS, ..Scenario::calm(13, 14) };
    scenario.roster.drop_after_slots = 3;
    // More than the two that the list tolerates: until they are dropped, nothing decodes.
    let (leavers, leave) = (3 + dice.below(3), dice.between((130_000, 240_000)));
    let for_good = dice.one_in(2);
    let down = if for_good { 1 << 40 } else { dice.between((250_000, 500_000)) };
    scenario.plan = (0..leavers).map(|meter| (leave, Timer::Crash { node: Node::Meter(meter), down })).collect();
    scenario.expected = if for_good { 13 - leavers } else { 13 };
    scenario
}

/// Whether some slots failed for each of these reasons.
fn any(tally: &Tally, reasons: &[Failure]) -> bool {
    reasons.iter().all(|reason| tally.failed(*reason) > 0)
}

/// What a family is called, how many runs it has, and what each is made of.
type Family = (&'static str, u64, fn(&mut Dice) -> Scenario);

/// Every family again, in the committee scheme: holders drop out, members and gateway crash at every output, and what decodes is
/// right. Nothing but too few readings is tried again.
#[test]
fn committees_survive_what_clusters_of_pairs_survive() {
    let families: [Family; 10] = [
        ("calm", 60, |dice| Scenario::calm(10 + dice.below(5), 8)),
        ("lossy", 150, |dice| {
            let link = if dice.one_in(2) { Link::LIGHT } else { Link::HEAVY };
            Scenario { link, ..Scenario::calm(12, 8) }.recovering(dice)
        }),
        ("meter crashes", 150, meter_crashes),
        ("gateway crashes", 150, gateway_crashes),
        ("gateway stalls", 100, gateway_stalls),
        ("everything", 200, Scenario::everything),
        ("hostile", 60, Scenario::hostile),
        ("clocks", 100, |dice| {
            let mut scenario = Scenario::calm(12, 8);
            scenario.plan = scenario.clock_steps(dice);
            scenario.recovering(dice)
        }),
        ("gateway store", 40, lost_store),
        ("leaves", 40, leaves),
    ];
    let mut all = Tally::default();
    let mut complete = true;
    for (family, runs, scenario) in families {
        let runs = simulate(&format!("committee, {family}"), runs, |dice| {
            let scenario = scenario(dice);
            scenario.in_committee(dice)
        });
        runs.expect(|tally| tally.whole > 0);
        complete &= runs.complete;
        all.add(&runs.tally);
    }
    let runs = Runs { tally: all, complete };
    runs.expect(|tally| {
        tally.recovered > 0
            && tally.retried > 0
            && any(tally, &[Missing, Reveal, Interrupted])
            && tally.lists > tally.runs
    });
}

struct Runs {
    tally: Tally,
    complete: bool,
}

impl Runs {
    /// Checks that the runs tried what they were meant to try; one seed alone need not.
    fn expect(&self, not_vacuous: impl FnOnce(&Tally) -> bool) {
        assert!(!self.complete || not_vacuous(&self.tally), "the runs do not show what they should: {:#?}", self.tally);
    }
}

/// Runs one seed after the other.
fn simulate(family: &str, runs: u64, scenario: impl Fn(&mut Dice) -> Scenario) -> Runs {
    let (seeds, complete) = match (variable("DREAM_SIM_SEED"), variable("DREAM_SIM_RUNS")) {
        (Some(seed), _) => (seed..seed + 1, false),
        (None, runs_wanted) => (0..runs_wanted.unwrap_or(runs), runs_wanted.is_none_or(|wanted| wanted >= runs)),
    };
    let mut tally = Tally::default();
    for seed in seeds {
        let run = || Run::new(scenario(&mut Dice::new(!seed)), seed).finish();
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(one) => tally.add(&one),
            Err(reason) => {
                let said = reason.downcast_ref::<&str>().map(|said| (*said).to_owned());
                let said = said.or_else(|| reason.downcast_ref::<String>().cloned()).unwrap_or_default();
                panic!("family `{family}`, DREAM_SIM_SEED={seed}: {said}");
            }
        }
    }
    report(family, &tally);
    Runs { tally, complete }
}

#[expect(clippy::print_stdout, reason = "results of the runs, shown with --no-capture")]
fn report(family: &str, tally: &Tally) {
    println!("{family}: {tally:?}");
}

#[expect(clippy::disallowed_methods, reason = "the environment chooses which seeds to run")]
pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}
