//! Different requests to different meters: whatever they are shown, only sums over at least n honest meters open.

use std::collections::BTreeSet;

use dream_protocol::member_set::MemberSet;
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::support::algebra::{Opening, View, cancels, leak, openings};
use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE, on, reading_in};
use crate::support::rng;
use crate::support::world::Packet;

/// N = 10, M = 2, T = 1, so n = 7; the last member works for the gateway.
const MEMBERS: u16 = 10;
const MISSING: u16 = 2;
const HONEST_SHARES: usize = 7;
const COLLUDER: u16 = 9;

#[test]
fn thousands_of_random_equivocations_open_only_sums_over_n_honest_meters() {
    let mut meters = cluster(NO_NOISE);
    let mut random = rng(7);
    let mut opened = 0;
    for round in 0..2000 {
        let slot = FIRST.plus(round);
        let shown = equivocation(round, &mut random);
        let seen = play(&mut meters, slot, &shown, &mut random);
        let open = openings(&seen.views, &honest());
        assert_eq!(leak(&open, HONEST_SHARES), None, "round {round}: {shown:?}");
        for opening in &open {
            assert_eq!(seen.sum(opening), seen.truth(opening), "round {round}: the model is the machine's");
        }
        opened += open.len();
        seen.check_a_sum_that_does_not_open(round, &mut random);
    }
    assert!(opened > 300, "the check is not vacuous: {opened} sums opened");
}

#[test]
fn every_small_equivocation_opens_only_sums_over_n_honest_meters() {
    // Only honest members matter in S: naming a colluder gives up a mask that the gateway knows. With N = 10, M = 2 and
    // T = 6 a cluster has room for two sums at once, which is where disjointness is put to the test.
    let mut most_at_once = 0;
    for (members, missing, malicious) in [(5, 1, 1), (6, 1, 1), (10, 2, 6), (10, 2, 5)] {
        let honest: BTreeSet<u16> = (0..members - malicious).collect();
        let shares = usize::from(members - missing - malicious);
        for_all(&honest, missing.into(), &mut |views| {
            let open = openings(views, &honest);
            assert_eq!(leak(&open, shares), None, "N = {members}, M = {missing}, T = {malicious}: {views:?}");
            most_at_once = most_at_once.max(open.len());
        });
    }
    assert_eq!(most_at_once, 2);
}

#[test]
fn without_the_one_answer_rule_the_same_check_finds_a_leak_and_the_reading() {
    let mut meters = cluster(Simulation { one_answer: false, ..NO_NOISE });
    let victim = 3u16;
    // Five honest requests of at most M members, to one meter, uncover all of its masks one after the other.
    let asked: Vec<Vec<u16>> = vec![vec![], vec![0, 1], vec![2, 4], vec![5, 6], vec![7, 8]];
    let seen = interrogate(&mut meters, victim, &asked);
    seen.assert_opens_the_victim(victim);
}

#[test]
fn with_the_one_answer_rule_the_same_questions_open_nothing() {
    let mut meters = cluster(NO_NOISE);
    let asked: Vec<Vec<u16>> = vec![vec![], vec![0, 1], vec![2, 4], vec![5, 6], vec![7, 8]];
    let seen = interrogate(&mut meters, 3, &asked);
    assert_eq!(seen.views.len(), 1, "only the first question is answered");
    assert_eq!(openings(&seen.views, &honest()), []);
}

#[test]
fn without_the_missing_bound_the_same_check_finds_a_leak_and_the_reading() {
    let mut meters = cluster(Simulation { missing_bound: false, ..NO_NOISE });
    let seen = interrogate(&mut meters, 3, &[vec![0, 1, 2, 4, 5, 6, 7, 8]]);
    seen.assert_opens_the_victim(3);
}

/// What a lying gateway holds of one slot, and what it should not know.
struct Seen {
    views: Vec<View>,
    /// The value of each view, less the colluder's masks.
    values: Vec<u64>,
    watts: Vec<i64>,
}

impl Seen {
    fn sum(&self, opening: &Opening) -> i64 {
        let terms = opening.views.iter().zip(&self.values);
        terms
            .fold(0u64, |sum, (times, value)| sum.wrapping_add(times.cast_unsigned().wrapping_mul(*value)))
            .cast_signed()
    }

    fn truth(&self, opening: &Opening) -> i64 {
        opening.readings.iter().map(|(&meter, times)| times * self.watts[usize::from(meter)]).sum()
    }

    fn check_a_sum_that_does_not_open(&self, round: u64, random: &mut ChaCha20Rng) {
        let chosen: Vec<usize> = (0..self.views.len()).filter(|_| random.next_u32() & 1 == 0).collect();
        if chosen.is_empty() || cancels(&self.views, &chosen, &honest()) {
            return;
        }
        let sum = chosen.iter().fold(0u64, |sum, &index| sum.wrapping_add(self.values[index])).cast_signed();
        let truth: i64 = chosen.iter().map(|&index| self.watts[usize::from(self.views[index].meter)]).sum();
        assert_ne!(sum, truth, "round {round}: {chosen:?}");
        assert!(sum.unsigned_abs() > 1 << 32, "round {round}: a mask is left in {sum}");
    }

    fn assert_opens_the_victim(&self, victim: u16) {
        let open = openings(&self.views, &honest());
        let found = leak(&open, HONEST_SHARES).expect("a leak");
        assert!(found.starts_with("1 of 7 readings open"), "{found}");
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].readings.keys().collect::<Vec<_>>(), [&victim]);
        assert_eq!(self.sum(&open[0]), self.watts[usize::from(victim)], "the reading itself, in clear");
    }
}

fn cluster(simulation: Simulation) -> Liar {
    let generous = |policy: &mut Policy| {
        (policy.daily_micro_epsilon, policy.day_micro_epsilon) = (u64::MAX, u64::MAX);
    };
    let change = |draft: &mut Draft| (draft.to_slot, draft.terms.day_micro_rho) = (FIRST.plus(2999), 0);
    Liar::with(MEMBERS.into(), MISSING.into(), 1, generous, change, simulation)
}

fn honest() -> BTreeSet<u16> {
    (0..COLLUDER).collect()
}

/// What each honest meter is shown. Some rounds are pure chance; the others start from a set that would open if everyone
/// heard the truth, and lie to a few.
fn equivocation(round: u64, random: &mut ChaCha20Rng) -> Vec<Option<BTreeSet<u16>>> {
    let truth = subset(random);
    let liars = [u16::MAX, 0, 1, 3][usize::try_from(round % 4).unwrap()];
    (0..COLLUDER)
        .map(|meter| {
            let lied_to = random.next_u32() % u32::from(COLLUDER) < u32::from(liars);
            let mut told = if lied_to { subset(random) } else { truth.clone() };
            let asked = if lied_to { !random.next_u32().is_multiple_of(4) } else { !told.contains(&meter) };
            told.remove(&meter);
            asked.then_some(told)
        })
        .collect()
}

/// At most M members, of which any may be chosen.
fn subset(random: &mut ChaCha20Rng) -> BTreeSet<u16> {
    let size = random.next_u32() % (u32::from(MISSING) + 1);
    (0..size).map(|_| u16::try_from(random.next_u32() % u32::from(MEMBERS)).unwrap()).collect()
}

/// Drives the real meters through one slot of lies.
fn play(meters: &mut Liar, slot: Slot, shown: &[Option<BTreeSet<u16>>], random: &mut ChaCha20Rng) -> Seen {
    let asked_at = meters.slot_end(slot).plus_secs(61);
    let mut seen = Seen { views: Vec::new(), values: Vec::new(), watts: Vec::new() };
    for (index, told) in shown.iter().enumerate() {
        let watts = i64::from(random.next_u32() % 5001);
        seen.watts.push(watts);
        let reading = meters.measure(index, slot, watts);
        let reveal = told.as_ref().map(|told| {
            let request = meters.request(slot, 0, &told.iter().copied().collect::<Vec<_>>());
            let (sent, refusals) = meters.tell(index, &request, asked_at);
            let reveals = on(MeterChannel::Reveal, &sent);
            assert_eq!((reveals.len(), refusals), (1, vec![]), "a first request of at most M others is answered");
            reveals[0].clone()
        });
        seen.values.push(value(meters, index, &reading, reveal.as_ref(), told.as_ref()));
        seen.views.push(View { meter: u16::try_from(index).unwrap(), told: told.clone() });
    }
    seen
}

/// Asks one meter several questions about one reading.
fn interrogate(meters: &mut Liar, victim: u16, asked: &[Vec<u16>]) -> Seen {
    let (index, slot) = (usize::from(victim), FIRST);
    let reading = meters.measure(index, slot, 4321);
    let asked_at = meters.slot_end(slot).plus_secs(61);
    let watts = (0..COLLUDER).map(|meter| if meter == victim { 4321 } else { 0 }).collect();
    let mut seen = Seen { views: Vec::new(), values: Vec::new(), watts };
    for missing in asked {
        let (sent, _) = meters.tell(index, &meters.request(slot, 0, missing), asked_at);
        for reveal in on(MeterChannel::Reveal, &sent) {
            let told: BTreeSet<u16> = missing.iter().copied().collect();
            seen.values.push(value(meters, index, &reading, Some(&reveal), Some(&told)));
            seen.views.push(View { meter: victim, told: Some(told) });
        }
    }
    seen
}

/// A view's value, less the masks that the colluder knows.
fn value(meters: &Liar, index: usize, reading: &Packet, reveal: Option<&Packet>, told: Option<&BTreeSet<u16>>) -> u64 {
    let value = meters.open(index, reading, reveal);
    if told.is_some_and(|told| told.contains(&COLLUDER)) {
        return value;
    }
    let of = reading_in(reading);
    let only = MemberSet::from_members(MEMBERS, [u16::try_from(index).unwrap()]);
    // The colluder's mask has the opposite sign.
    value.wrapping_add(meters.masks_of(COLLUDER.into()).sum_over(&only, of.slot, of.attempt))
}

/// Calls `check` with every way to show each honest meter nothing, or a set of at most `missing` other honest members.
fn for_all(honest: &BTreeSet<u16>, missing: usize, check: &mut impl FnMut(&[View])) {
    let choices: Vec<Vec<Option<BTreeSet<u16>>>> = honest
        .iter()
        .map(|me| {
            let others: Vec<u16> = honest.iter().copied().filter(|other| other != me).collect();
            let subsets = (0..1u32 << others.len()).filter(|bits| bits.count_ones() as usize <= missing);
            let chosen = subsets.map(|bits| {
                others.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, &other)| other).collect()
            });
            std::iter::once(None).chain(chosen.map(Some)).collect()
        })
        .collect();
    let mut at = vec![0; choices.len()];
    loop {
        let views = honest.iter().zip(choices.iter().zip(&at));
        let views: Vec<View> =
            views.map(|(&meter, (choices, &at))| View { meter, told: choices[at].clone() }).collect();
        check(&views);
        let Some(next) = (0..at.len()).find(|&digit| at[digit] + 1 < choices[digit].len()) else { return };
        at[next] += 1;
        at[..next].fill(0);
    }
}
