//! The search for members that spoil sums (`protocol-gateway.md 4b`).
//!
//! A [posterior](super::posterior) over sets of liars says whom sums leave out. It steers only: whatever liars do, it costs
//! honest members sums, and proves nothing. What convicts is bets on one secret coin for each attempt.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::posterior::{self, Chance};
use super::{Notice, Offence, Offender, dice};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::time::Slot;

/// How many failed sums are remembered one by one.
const FAILED_KEPT: u32 = 80;

/// After how many sums in a row that decode, trials apart, the search is over.
const CALM: u8 = 24;

/// How many of the last attempts are counted to see whether there are several liars.
const RECENT: u32 = 48;

/// The highest odds that a member has, in thousandths of a bit, by the rate at which it would lie: few trials clear it.
const MOST_ODDS: [i32; 2] = [12_000, 4_000];

/// How far below those of an unknown member odds fall at most: who is honest today may lie tomorrow.
const LEAST_ODDS: i32 = -12_000;

/// How much lower odds become if a sum decodes with a member, by the rate at which it would lie.
const DECODED: [i32; 2] = [-8000, -415];

/// How far below that the odds of one that lies sometimes may fall, for each failed sum that is remembered: as far as the three that
/// decode for each that it spoils. Without them, failures would be remembered and sums that decoded forgotten, and many that lie
/// sometimes would explain everything better than the one that does.
const SOMETIMES_LEAST_ODDS: i32 = 3 * DECODED[1];

/// After how many failures in a row, or of the recent attempts, there seem to be several liars; and when lists leave some out.
const SEVERAL_IN_A_ROW: u32 = 3;
const SEVERAL: u32 = 12;
const MANY_IN_A_ROW: u32 = 10;

/// What a pair is worth that was left out of a failed sum before, next to one that was not: two of them may lie at times.
const TESTED: f64 = 0.1;

/// From which chance on that a member lies it is kept out of sums, and below which it is released. One threshold for both would let
/// a liar in and out again while others are looked for.
const KEPT_FROM: f64 = 0.5;
const RELEASED_BELOW: f64 = 0.25;

/// With one in so many a member that is kept out is let in, on trial.
const TRIAL_ONE_IN: usize = 16;

/// The same of one that was convicted, and of one that passed its last trial. There are no bets on these.
const CONVICTED_TRIAL_ONE_IN: usize = 144;
const PASSED_TRIAL_ONE_IN: usize = 2;

/// A member that spoils sums, as far as the gateway can tell, or could.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Suspect {
    /// The odds that it lies always, and sometimes: log2 in thousandths.
    pub(super) odds: [i32; 2],
    /// Which of the failed sums that are remembered cannot be its fault, by rate: the last one is the lowest bit. Those that it was
    /// left out of; and if it lied always, those before a sum that decoded with it.
    pub(super) cleared: [u128; 2],
    /// What bets on its coins came to since it was last kept out: log2 in thousandths.
    pub(super) wealth: i32,
    /// How often it was kept out.
    pub(super) spells: u32,
    /// Since when it is kept out of sums.
    pub(super) kept: Option<Slot>,
    pub(super) convicted: bool,
    /// Whether the sum of its last trial decoded.
    pub(super) passed: bool,
    /// How many failed sums it was in, as far as they count against it.
    pub(super) failures: u32,
    /// The last of them.
    pub(super) last: Slot,
}

/// A coin that decided whether a member took part in a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) slot: Slot,
    pub(super) meter: MeterId,
    pub(super) let_in: bool,
    /// Whether a bet is on it that is not settled.
    pub(super) open: bool,
}

/// How an attempt ended, for those who bet on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The sum decoded without any wrong answer, and is plausible.
    Good,
    /// It decoded like this, and cannot be one of readings and noise.
    Bad,
    /// Anything else: those who answer may have made it so.
    Contested,
}

/// What lists may do for a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// M of a list of everybody, unless the search asks for more.
    pub max_missing: u16,
    /// How many members a list may leave out: none where members know the list, and S, before they speak.
    pub away: usize,
}

/// What is known of members that spoil sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    pub(super) suspects: BTreeMap<MeterId, Suspect>,
    /// How many failed sums are remembered.
    pub(super) failed: u32,
    /// The last attempts, the last one lowest: whether each failed.
    pub(super) recent: u64,
    /// How many sums in a row decoded.
    pub(super) calm: u8,
    pub(super) trial: Option<Trial>,
    /// Whether the next list has M = N/5.
    pub(super) wide: bool,
    /// Who the next list is formed without, the likeliest first.
    pub(super) away: Vec<MeterId>,
}

/// A member of a list, and what is known of it.
#[derive(Clone, Copy)]
struct Listed<'a> {
    member: u16,
    meter: &'a MeterId,
    chance: Chance,
    out: u128,
}

impl Search {
    /// Returns whether sums are being tested for who spoils them.
    pub const fn is_searching(&self) -> bool {
        self.calm < CALM && self.recent != 0
    }

    /// Returns whether the last sums all failed: there are more liars than can be found in a cluster of this size, or nobody
    /// may be left out.
    pub const fn cannot_be_found(&self) -> bool {
        self.recent.count_ones() == RECENT
    }

    /// Returns whether nobody is suspected.
    pub(super) fn is_at_rest(&self) -> bool {
        self.failed == 0 && !self.wide && self.suspects.values().all(|suspect| suspect.kept.is_none())
    }

    /// Returns who is kept out of sums.
    pub fn offenders(&self) -> impl Iterator<Item = (&MeterId, Offender)> {
        self.suspects.iter().filter_map(|(meter, suspect)| {
            let Suspect { kept, convicted, failures, last, .. } = *suspect;
            let offence = if convicted { Offence::SpoilsSums } else { Offence::Suspected };
            Some((meter, Offender { offence, since: kept?, last, failures, left_out: true, excluded_until: None }))
        })
    }

    /// Returns whether a sum of so many members that failed is worth another attempt, of which `most` may be left out. Not if a
    /// bet is on it, since late answers to it count; nor while a list is awaited that lets more be left out.
    pub fn may_repeat(&self, members: u16, most: u16) -> bool {
        let is_wide = u32::from(most) * 6 > members.into();
        let bet_on = self.trial.as_ref().is_some_and(|trial| trial.let_in && trial.open);
        !bet_on && (is_wide || self.recent.trailing_ones() < SEVERAL_IN_A_ROW)
    }

    /// Returns whether lists are wanted of which more members may be missing.
    pub const fn wants_wide_lists(&self) -> bool {
        self.wide
    }

    /// Returns whom lists should leave out, the likeliest first.
    pub fn away(&self) -> impl Iterator<Item = &MeterId> {
        self.away.iter()
    }

    /// Chooses S, at most `most` of the members of a list. `missing` are in it already: they are absent, silent or denied.
    ///
    /// With `bets`, outcomes are fixed before members can know S, and the coin of a member on trial is bet on.
    pub fn choose(
        &mut self,
        slot: Slot,
        members: &[&MeterId],
        most: u16,
        missing: MemberSet,
        bets: bool,
        rng: &mut dyn CryptoRng,
    ) -> (MemberSet, Vec<Notice>) {
        let mut notices = Vec::new();
        if let Some(before) = self.trial.as_ref().map(|trial| trial.slot) {
            self.settle(before, Outcome::Contested, members.len());
        }
        self.trial = None;
        if self.is_at_rest() {
            return (missing, notices);
        }
        let chances = self.chances(rng);
        self.fold(&chances, members);
        let listed: Vec<Listed<'_>> = (0u16..)
            .zip(members)
            .filter_map(|(member, &meter)| {
                let [_, out] = self.suspects.get(meter)?.cleared;
                Some(Listed { member, meter, chance: *chances.get(meter)?, out })
            })
            .collect();
        let kept = self.keep(slot, &listed, most, &mut notices);
        let mut left_out = missing.clone();
        for known in &kept {
            if left_out.len() < most {
                left_out.insert(known.member);
            }
        }
        let (out, free): (Vec<Listed<'_>>, Vec<Listed<'_>>) =
            listed.iter().copied().partition(|known| left_out.contains(known.member));
        let mass: f64 = free.iter().map(|known| known.chance.mass()).sum();
        let may_try = self.recent & 1 == 0 && mass < 0.35 && !kept.is_empty();
        let on_trial = may_try.then(|| kept[dice::below(kept.len(), rng)]);
        let on_trial = on_trial.filter(|known| !missing.contains(known.member) && left_out.contains(known.member));
        if mass > 0.2 {
            let room = usize::from(most.saturating_sub(left_out.len()));
            test_group(&out, free, mass, room, bets, rng).into_iter().for_each(|member| left_out.insert(member));
        }
        // The coin comes last, and nothing else depends on it.
        if let Some(Listed { member, meter, .. }) = on_trial {
            let one_in = match self.suspects.get(meter) {
                Some(Suspect { convicted: true, .. }) => CONVICTED_TRIAL_ONE_IN,
                Some(Suspect { passed: true, .. }) => PASSED_TRIAL_ONE_IN,
                Some(_) | None => TRIAL_ONE_IN,
            };
            let let_in = dice::below(one_in, rng) == 0;
            if let_in {
                left_out.remove(member);
            }
            self.trial = Some(Trial { slot, meter: meter.clone(), let_in, open: bets && one_in == TRIAL_ONE_IN });
        }
        (left_out, notices)
    }

    fn chances(&self, rng: &mut dyn CryptoRng) -> BTreeMap<MeterId, Chance> {
        let known: Vec<&Suspect> = self.suspects.values().collect();
        self.suspects.keys().cloned().zip(posterior::chances(&known, self.failed, rng)).collect()
    }

    /// Turns the oldest failures into odds; all of them once the search is over.
    fn fold(&mut self, chances: &BTreeMap<MeterId, Chance>, members: &[&MeterId]) {
        let over = self.calm >= CALM;
        while self.failed > if over { 0 } else { FAILED_KEPT } {
            self.failed -= 1;
            let oldest = 1 << self.failed;
            let known = self.suspects.values().zip(chances.values());
            let in_sum = known.filter(|(known, _)| known.cleared[1] & oldest == 0);
            let all: f64 = in_sum.map(|(_, chance)| chance.mass()).sum();
            for (suspect, chance) in self.suspects.values_mut().zip(chances.values()) {
                let ratios = posterior::ratios((chance.mass() - all).exp()).map(millibits);
                for rate in (0..2).filter(|rate| suspect.cleared[*rate] & oldest == 0) {
                    suspect.odds[rate] = (suspect.odds[rate] + ratios[rate]).min(MOST_ODDS[rate]);
                }
                suspect.cleared = suspect.cleared.map(|cleared| cleared & !oldest);
            }
        }
        if over {
            let rest = at_rest(members.len());
            let listed: BTreeSet<&MeterId> = members.iter().copied().collect();
            self.recent = 0;
            for (meter, known) in &mut self.suspects {
                known.odds = [0, 1].map(|rate| known.odds[rate].max(rest[rate]));
                // Who has left need not be kept out. Its odds tell on it if it comes back.
                known.kept = known.kept.filter(|_| listed.contains(meter));
            }
            self.suspects.retain(|_, known| known.kept.is_some() || known.spells > 0);
        }
    }

    /// Decides who is kept out of sums: who probably lies, the likeliest first, but so few that others can be tested.
    fn keep<'a>(&mut self, slot: Slot, listed: &[Listed<'a>], most: u16, notices: &mut Vec<Notice>) -> Vec<Listed<'a>> {
        let is_out = |known: &Listed<'_>| self.suspects.get(known.meter).is_some_and(|suspect| suspect.kept.is_some());
        let stays = |known: &Listed<'_>| known.chance.liar >= if is_out(known) { RELEASED_BELOW } else { KEPT_FROM };
        let mut kept: Vec<Listed<'a>> = listed.iter().copied().filter(stays).collect();
        kept.sort_by(|one, other| other.chance.liar.total_cmp(&one.chance.liar));
        kept.truncate(usize::from(most) * 3 / 4);
        for &Listed { member, meter, .. } in listed {
            let is_kept = kept.iter().any(|other| other.member == member);
            let Some(suspect) = self.suspects.get_mut(meter).filter(|known| known.kept.is_some() != is_kept) else {
                continue;
            };
            (suspect.convicted, suspect.passed) = (false, false);
            if is_kept {
                (suspect.wealth, suspect.spells) = (0, suspect.spells.saturating_add(1));
                (suspect.kept, suspect.last) = (Some(slot), slot);
                suspect.failures = self.failed.saturating_sub(suspect.cleared[1].count_ones());
                notices.push(Notice::Quarantined { meter: meter.clone(), offence: Offence::Suspected });
            } else {
                suspect.kept = None;
                notices.push(Notice::Released { meter: meter.clone() });
            }
        }
        kept
    }

    /// Learns from an attempt whose S left these out, and whether its sum is one of readings and noise.
    pub fn learn(
        &mut self,
        slot: Slot,
        members: &[&MeterId],
        missing: &MemberSet,
        decoded: bool,
        limits: Limits,
        rng: &mut dyn CryptoRng,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        if decoded && self.is_at_rest() {
            return notices;
        }
        let on_trial =
            self.trial.as_ref().filter(|trial| trial.slot == slot && trial.let_in).map(|trial| trial.meter.clone());
        let (rest, everything) = (at_rest(members.len()), (1 << self.failed) - 1);
        if !decoded {
            if self.failed == 0 && on_trial.is_none() {
                notices.push(Notice::SearchStarted { slot });
            }
            for &meter in members {
                let unknown = || Suspect { odds: rest, cleared: [everything; 2], ..Suspect::default() };
                self.suspects.entry(meter.clone()).or_insert_with(unknown);
            }
        }
        let in_sum = (0u16..).zip(members).filter(|(member, _)| !missing.contains(*member));
        let in_sum: BTreeSet<&str> = in_sum.map(|(_, meter)| meter.as_str()).collect();
        // Once the search is over, members that were released are cleared by sums until all of them together are no reason to
        // test again, and no further: if sums fail once more, they are looked at first.
        let doubt = millibits(1.0 / (64.0 * self.suspects.len().max(1) as f64));
        let doubt = (self.failed == 0).then(|| rest.map(|rest| doubt.max(rest)));
        let least = [LEAST_ODDS, LEAST_ODDS + SOMETIMES_LEAST_ODDS * self.failed.cast_signed()];
        let least = [0, 1].map(|rate| rest[rate] + least[rate]);
        for (meter, suspect) in &mut self.suspects {
            let (is_in, is_tried) = (in_sum.contains(meter.as_str()), on_trial.as_ref() == Some(meter));
            suspect.passed = if is_tried { decoded } else { suspect.passed };
            if is_tried && !decoded {
                (suspect.failures, suspect.last) = (suspect.failures.saturating_add(1), slot);
            }
            if !decoded {
                suspect.cleared = suspect.cleared.map(|cleared| cleared << 1 | u128::from(!is_in));
            } else if is_in {
                let least = doubt.filter(|_| !is_tried).unwrap_or(least);
                let lower = |rate: usize| suspect.odds[rate].min((suspect.odds[rate] + DECODED[rate]).max(least[rate]));
                (suspect.cleared[0], suspect.odds) = (everything, [0, 1].map(lower));
            }
        }
        self.failed += u32::from(!decoded);
        let was_lost = self.cannot_be_found();
        self.calm = self.calm.saturating_add(u8::from(decoded));
        if on_trial.is_none() {
            self.calm *= u8::from(decoded);
            self.recent = (self.recent << 1 | u64::from(!decoded)) & ((1 << RECENT) - 1);
        }
        if self.cannot_be_found() && !was_lost {
            notices.push(Notice::CannotBeFound);
        }
        self.decide_lists(slot, members, limits, rng, &mut notices);
        notices
    }

    /// Settles the bet on the coin of a slot.
    pub fn settle(&mut self, slot: Slot, outcome: Outcome, members: usize) -> Option<Notice> {
        let members = members.max(self.suspects.len());
        let trial = self.trial.as_mut().filter(|trial| trial.slot == slot && trial.open)?;
        trial.open = false;
        let suspect = self.suspects.get_mut(&trial.meter)?;
        suspect.wealth = suspect.wealth.saturating_add(won(outcome, trial.let_in));
        suspect.convicted = suspect.wealth >= needed(members, suspect.spells);
        suspect.convicted.then(|| Notice::Convicted { meter: trial.meter.clone() })
    }

    /// Decides what the next list is like, while there seem to be several liars.
    fn decide_lists(
        &mut self,
        slot: Slot,
        members: &[&MeterId],
        limits: Limits,
        rng: &mut dyn CryptoRng,
        notices: &mut Vec<Notice>,
    ) {
        let (in_a_row, of_late) = (self.recent.trailing_ones(), self.recent.count_ones());
        let several = in_a_row >= SEVERAL_IN_A_ROW || of_late >= SEVERAL;
        if !self.wide && !several {
            return;
        }
        let before = (self.wide, self.away.clone());
        let due = if self.away.is_empty() { in_a_row >= MANY_IN_A_ROW } else { slot.0.is_multiple_of(5) };
        let due = due && limits.away > 0;
        self.wide = several;
        if due || !several {
            let chances = self.chances(rng);
            let known = self.suspects.iter().zip(chances.values());
            let (kept, free): (Vec<_>, Vec<_>) = known.partition(|((_, suspect), _)| suspect.kept.is_some());
            let free: Vec<(&MeterId, Chance)> = free.into_iter().map(|((meter, _), chance)| (meter, *chance)).collect();
            let mass: f64 = free.iter().map(|(_, chance)| chance.mass()).sum();
            let fits = kept.len() <= usize::from(limits.max_missing) * 3 / 4;
            self.wide |= !fits || mass >= 0.3 || of_late >= SEVERAL / 2;
            if due {
                let mut away = ranked(free, |(_, chance)| chance.spoils, 3.5, rng);
                let mut most = limits.away.min(self.suspects.len() / 2);
                // While every sum fails, as many as may be; then as few as it takes.
                if in_a_row < MANY_IN_A_ROW {
                    away.truncate(holding(mass - 0.7, away.iter().map(|(_, chance)| chance)));
                    let enough = away.len();
                    dice::shuffle(&mut away, enough, rng);
                    most = most.min(enough.saturating_sub((members.len() / 5).saturating_sub(kept.len())));
                }
                self.away = away.into_iter().take(most).map(|(meter, _)| meter.clone()).collect();
            }
        }
        if !self.wide || limits.away == 0 {
            self.away.clear();
        }
        if before != (self.wide, self.away.clone()) {
            let left_out = u16::try_from(self.away.len()).unwrap_or(u16::MAX);
            notices.push(Notice::SearchesByLists { left_out, wide: self.wide });
        }
    }
}

/// Chooses whom a sum leaves out, beside those who are out already, to see whether it decodes then: about half of those who hold most
/// of what is suspected. Without room for that, those who were out of few failed sums together: all pairs are covered sooner than at
/// random. If S is secret until members have spoken, they are taken from a random half, so that nobody can be sure of any of them.
fn test_group(
    out: &[Listed<'_>],
    free: Vec<Listed<'_>>,
    mass: f64,
    room: usize,
    secret: bool,
    rng: &mut dyn CryptoRng,
) -> Vec<u16> {
    let share = (-1.0 / mass.max(1.0)).exp2();
    let mut likeliest = ranked(free, |known| known.chance.spoils, 0.25, rng);
    let most = holding(0.75 * mass, likeliest.iter().map(|known| &known.chance));
    // Rounded at random: one who is suspected alone is let in every other time.
    let count = whole(most as f64 * share + dice::fraction(rng));
    if count > room {
        let half = likeliest.len().div_ceil(2).max(room.min(likeliest.len()));
        let some = if secret { half } else { likeliest.len() };
        dice::shuffle(&mut likeliest, some, rng);
        return apart(out, &likeliest[..some], room);
    }
    likeliest.truncate(most);
    dice::shuffle(&mut likeliest, count, rng);
    likeliest.iter().take(count).map(|known| known.member).collect()
}

/// Chooses so many of whom as many pairs as possible were never out of a failed sum together, by how likely they lie.
fn apart(out: &[Listed<'_>], free: &[Listed<'_>], count: usize) -> Vec<u16> {
    let new = |one: &Listed<'_>, other: &Listed<'_>| {
        one.chance.spoils * other.chance.spoils * if one.out & other.out == 0 { 1.0 } else { TESTED }
    };
    let mut gains: Vec<f64> = free.iter().map(|one| out.iter().map(|other| new(one, other)).sum()).collect();
    let mut chosen = Vec::new();
    for _ in 0..count.min(free.len()) {
        let Some(best) = (0..free.len()).max_by(|one, other| gains[*one].total_cmp(&gains[*other])) else { break };
        chosen.push(free[best].member);
        gains.iter_mut().zip(free).for_each(|(gain, one)| *gain += new(one, &free[best]));
        gains[best] = f64::NEG_INFINITY;
    }
    chosen
}

/// Returns how many of them it takes to hold so much of what is suspected.
fn holding<'a>(enough: f64, chances: impl Iterator<Item = &'a Chance>) -> usize {
    let before = chances.scan(0.0, |held, chance| Some(core::mem::replace(held, *held + chance.mass())));
    before.take_while(|held| *held < enough).count()
}

/// Sorts by a weight, the highest first, after each was changed by a random factor, of up to so many bits in all.
fn ranked<T>(items: Vec<T>, weight: impl Fn(&T) -> f64, spread: f64, rng: &mut dyn CryptoRng) -> Vec<T> {
    let mut weighed: Vec<(f64, T)> =
        items.into_iter().map(|item| (weight(&item) * (spread * (dice::fraction(rng) - 0.5)).exp2(), item)).collect();
    weighed.sort_by(|one, other| other.0.total_cmp(&one.0));
    weighed.into_iter().map(|(_, item)| item).collect()
}

/// What a bet on a coin wins: log2 in thousandths. The mean of the factors is below 1 whichever column it is, if the outcome
/// does not follow the coin.
const fn won(outcome: Outcome, let_in: bool) -> i32 {
    match (outcome, let_in) {
        (Outcome::Good, false) => 22,
        (Outcome::Bad, true) => 3087,
        (Outcome::Bad | Outcome::Contested, false) => -1000,
        (Outcome::Good | Outcome::Contested, true) => -386,
    }
}

/// What bets must have won to convict: a million times the number of members, and more the more often it was tried.
fn needed(members: usize, spells: u32) -> i32 {
    let spells = f64::from(spells.max(1));
    millibits(1e6 * members as f64 * spells * (spells + 1.0)).saturating_add(1)
}

/// The odds of members of whom nothing is known, in a cluster of so many.
fn at_rest(members: usize) -> [i32; 2] {
    [64.0, 512.0].map(|times: f64| millibits(1.0 / (times * members.max(1) as f64)))
}

/// The logarithm of a number, to the base 2, in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the logarithm of any number is far below 2^31, and a cast of it saturates"
)]
pub(super) fn millibits(number: f64) -> i32 {
    (1000.0 * number.log2()).floor() as i32
}

pub(super) fn from_millibits(millibits: i32) -> f64 {
    (f64::from(millibits) / 1000.0).exp2()
}

/// The whole part of a number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a list's members, and positive")]
const fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a bet multiplies wealth with on average, if these are the outcomes with the coin showing either side.
    fn mean(let_in: Outcome, left_out: Outcome) -> f64 {
        let factor = |outcome, let_in| from_millibits(won(outcome, let_in));
        let chance = 1.0 / TRIAL_ONE_IN as f64;
        chance * factor(let_in, true) + (1.0 - chance) * factor(left_out, false)
    }

    #[test]
    fn no_outcome_that_precedes_the_coin_wins_on_average_not_even_if_holders_contest_it_after() {
        for fixed in [Outcome::Good, Outcome::Bad, Outcome::Contested] {
            for let_in in [fixed, Outcome::Contested] {
                for left_out in [fixed, Outcome::Contested] {
                    assert!(mean(let_in, left_out) < 1.0, "{let_in:?}, {left_out:?}");
                }
            }
        }
        assert!(mean(Outcome::Bad, Outcome::Good) > 1.4, "that of a liar wins");
    }

    #[test]
    fn a_conviction_takes_a_million_times_the_members_and_more_after_every_spell() {
        assert_eq!((needed(60, 1), needed(1000, 1)), (26_839, 30_898));
        assert!(needed(60, 2) >= needed(60, 1) + 1584);
    }
}
