//! Members that lie together to have an honest one taken for a liar, in a committee of whose holders they are some.

use dream_protocol::cluster::{Offence, Outcome, Search};
use dream_protocol::ids::MeterId;
use dream_protocol::member_set::MemberSet;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;

use super::long_runs;
use super::model::{Lists, below, dice, ids};

const MEMBERS: usize = 60;
const SLOTS: u64 = 288;

/// The honest member that is to be taken for a liar.
const VICTIM: usize = 0;

/// What framers do: whether they lie is decided before S is known, and whether they answer wrongly after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Answer wrongly whenever the victim is in the sum.
    ContestWithVictim,
    /// Lie half of the time, and contest sums that the victim is not in, so that these do not count as its acquittal.
    LieAndContestWithout,
    /// Lie always.
    LieAlways,
    /// Lie in one of sixteen sums, as often as the coin lets a member in.
    LieRarely,
    /// Lie after sums without the victim, and contest any sum that would speak for it.
    Follow,
}

const PLANS: [Plan; 5] =
    [Plan::ContestWithVictim, Plan::LieAndContestWithout, Plan::LieAlways, Plan::LieRarely, Plan::Follow];

#[test]
fn no_framers_convict_an_honest_member() {
    let runs = long_runs().map_or(3, |runs| runs / 2);
    // Eight wrong answers of sixty are too many to correct; two are only noticed.
    for (plan, framers) in PLANS.into_iter().flat_map(|plan| [(plan, 2), (plan, 8)]) {
        let mut out = Vec::new();
        for seed in 0..runs {
            let report = play(plan, framers, 5000 + seed);
            assert!(!report.convicted, "{plan:?}, {framers} framers, seed {seed}");
            out.push(report.out);
        }
        out.sort_unstable();
        super::said(&format!(
            "{plan:?}, {framers} framers: {runs} runs, nobody honest convicted, the victim out of {}/{} of {SLOTS} sums",
            out[out.len() / 2],
            out[out.len() * 95 / 100]
        ));
    }
}

#[derive(Debug, Default)]
struct Report {
    convicted: bool,
    /// In how many slots the victim was kept out.
    out: u64,
}

fn play(plan: Plan, framers: usize, seed: u64) -> Report {
    let (mut world, mut secret) = (dice(seed), dice(!seed));
    let ids = ids(MEMBERS);
    let (mut search, mut lists) = (Search::default(), Lists::new(MEMBERS, false));
    let mut report = Report::default();
    let mut last_without = false;
    for slot in 1..=SLOTS {
        lists.begin(slot);
        let (list, most) = lists.current.clone();
        let count = u16::try_from(list.len()).unwrap();
        let members: Vec<&MeterId> = list.iter().map(|&number| &ids[number]).collect();
        let lies = lies(plan, last_without, &mut world);
        let liar = 1 + usize::try_from(below(&mut world, framers as u64)).unwrap();
        let absent = (0..count).filter(|_| below(&mut world, 100) < 2).take(most.into());
        let absent = MemberSet::from_members(count, absent);
        let (missing, _) = search.choose(Slot(slot), &members, most, absent, true, &mut secret);
        let in_sum = |number: usize| {
            list.iter()
                .position(|&other| other == number)
                .is_some_and(|at| !missing.contains(u16::try_from(at).unwrap()))
        };
        let spoiled = lies && in_sum(liar);
        let contests = match plan {
            Plan::ContestWithVictim => in_sum(VICTIM),
            Plan::LieAndContestWithout => !in_sum(VICTIM),
            Plan::LieAlways | Plan::LieRarely => false,
            Plan::Follow => in_sum(VICTIM) != spoiled,
        };
        last_without = !in_sum(VICTIM);
        let outcome = match (contests, spoiled) {
            (true, _) => Outcome::Contested,
            (false, true) => Outcome::Bad,
            (false, false) => Outcome::Good,
        };
        let decoded = !(spoiled || contests && framers >= 8);
        lists.learn(&mut search, (slot, &ids), &missing, decoded, &mut secret);
        search.settle(Slot(slot), outcome, list.len());
        let (mut victim_out, mut convicted) = (false, false);
        for (meter, known) in search.offenders() {
            victim_out |= *meter == ids[VICTIM];
            let is_framer = ids[1..=framers].contains(meter);
            convicted |= known.offence == Offence::SpoilsSums && !is_framer;
        }
        report.out += u64::from(victim_out);
        report.convicted |= convicted;
    }
    report
}

fn lies(plan: Plan, last_without: bool, world: &mut ChaCha8Rng) -> bool {
    match plan {
        Plan::ContestWithVictim => false,
        Plan::LieAndContestWithout => below(world, 2) == 0,
        Plan::LieAlways => true,
        Plan::LieRarely => below(world, 16) == 0,
        Plan::Follow => last_without,
    }
}
