//! The search for members that spoil sums (`protocol.md 4`, "Whom the gateway leaves out").
//!
//! A [posterior](super::posterior) over sets of liars says whom sums leave out. It steers only: whatever liars do, it costs
//! honest members sums, and proves nothing. What convicts is bets on one secret coin for each attempt.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand_core::CryptoRng;

use super::posterior::{self, Chance};
use super::{Offence, Offender, dice};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::time::Slot;

/// How many failed sums are remembered one by one.
const FAILED_KEPT: usize = 80;

/// After how many sums in a row that decode, trials apart, the search is over.
const CALM: u8 = 24;

/// How many of the last attempts are counted to see whether there are several liars.
const RECENT: u32 = 48;

/// The highest odds that a member has, in thousandths of a bit, by the rate at which it would lie: few trials clear it.
const MOST_ODDS: [i32; 2] = [12_000, 4_000];

/// How much lower odds become if a sum decodes with a member, by the rate at which it would lie.
const DECODED: [i32; 2] = [-8000, -415];

/// With one in so many a member that is kept out is let in, on trial.
const TRIAL_ONE_IN: usize = 16;

/// The same of one that was convicted, and of one that passed its last trial. There are no bets on these.
const CONVICTED_TRIAL_ONE_IN: usize = 144;
const PASSED_TRIAL_ONE_IN: usize = 2;

/// A member that spoils sums, as far as the gateway can tell, or could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    /// The odds that it lies always, and sometimes: log2 in thousandths.
    pub(super) odds: [i32; 2],
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) slot: Slot,
    /// Its place.
    pub(super) suspect: u16,
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

/// What the search has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A sum failed that nobody known was in.
    Started(Slot),
    /// A member is kept out of sums from now on.
    Kept(MeterId),
    Released(MeterId),
    Convicted(MeterId),
    /// Another list is wanted.
    Lists,
    /// The last sums all failed: as many liars cannot be found in a cluster of this size, or only by chance.
    CannotBeFound,
}

/// What is known of members that spoil sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The places of meters in `suspects`.
    pub(super) places: BTreeMap<MeterId, u16>,
    pub(super) suspects: Vec<Suspect>,
    /// Who was left out of failed sums, ascending; the oldest first.
    pub(super) failed: VecDeque<Vec<u16>>,
    /// The last attempts, the last one lowest: whether each failed.
    pub(super) recent: u64,
    /// How many sums in a row decoded.
    pub(super) calm: u8,
    pub(super) trial: Option<Trial>,
    /// Whether the next list has M = N/5.
    pub(super) wide: bool,
    /// Who the next list is formed without, the likeliest first.
    pub(super) away: Vec<u16>,
    /// When that was last decided.
    pub(super) decided: Slot,
}

impl Search {
    pub(super) fn suspect(&self, meter: &str) -> Option<&Suspect> {
        self.suspects.get(usize::from(*self.places.get(meter)?))
    }

    /// Returns whether a meter is kept out of sums.
    pub fn is_kept(&self, meter: &str) -> bool {
        self.suspect(meter).is_some_and(|suspect| suspect.kept.is_some())
    }

    /// Returns whether bets have shown that a meter spoils sums.
    pub fn is_convicted(&self, meter: &str) -> bool {
        self.suspect(meter).is_some_and(|suspect| suspect.convicted)
    }

    /// Returns whether sums are being tested for who spoils them.
    pub fn is_searching(&self) -> bool {
        self.calm < CALM && !self.failed.is_empty() && self.recent != 0
    }

    /// Returns whether the last sums all failed: there are more liars than can be found in a cluster of this size, or nobody
    /// may be left out.
    pub const fn cannot_be_found(&self) -> bool {
        self.recent.count_ones() == RECENT
    }

    /// Returns whether nothing is known of anybody.
    pub(super) fn is_at_rest(&self) -> bool {
        self.failed.is_empty() && !self.wide && self.suspects.iter().all(|suspect| suspect.kept.is_none())
    }

    /// Returns who is kept out of sums.
    pub(super) fn offenders(&self) -> impl Iterator<Item = (&MeterId, Offender)> {
        self.places.iter().filter_map(|(meter, place)| {
            let suspect = &self.suspects[usize::from(*place)];
            let offence = if suspect.convicted { Offence::SpoilsSums } else { Offence::Suspected };
            let Suspect { failures, last, .. } = *suspect;
            let since = suspect.kept?;
            Some((meter, Offender { offence, since, last, failures, left_out: true, excluded_until: None }))
        })
    }

    /// Returns whether a sum that failed is worth another attempt: not if a bet is on it, since late answers to it count.
    pub(super) fn may_repeat(&self) -> bool {
        !self.trial.is_some_and(|trial| trial.let_in && trial.open)
    }

    /// Returns whether lists are wanted of which more members may be missing.
    pub const fn wants_wide_lists(&self) -> bool {
        self.wide
    }

    /// Returns whom lists should leave out, the likeliest first.
    pub fn away(&self) -> impl Iterator<Item = &MeterId> {
        self.away.iter().map(|place| self.meter(usize::from(*place)))
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
    ) -> (MemberSet, Vec<Event>) {
        let mut events = match self.trial.take() {
            Some(trial) => self.settle_trial(trial, Outcome::Contested, members.len()),
            None => Vec::new(),
        };
        self.forget();
        if self.is_at_rest() {
            return (missing, events);
        }
        let chances = self.chances(rng);
        self.fold(&chances, members.len());
        let placed: Vec<(u16, usize)> = (0u16..)
            .zip(members)
            .filter_map(|(member, meter)| Some((member, usize::from(*self.places.get(meter.as_str())?))))
            .collect();
        let kept = self.keep(slot, &placed, most, &chances, &mut events);
        let mut left_out = missing.clone();
        for &(member, _) in kept.iter().filter(|_| most > 0) {
            if left_out.len() < most {
                left_out.insert(member);
            }
        }
        let free: Vec<(u16, usize)> =
            placed.iter().copied().filter(|(member, _)| !left_out.contains(*member)).collect();
        let mass: f64 = free.iter().map(|(_, place)| chances[*place].mass()).sum();
        let on_trial = if self.recent & 1 == 0 && mass < 0.35 && !kept.is_empty() {
            let (member, place) = kept[dice::below(kept.len(), rng)];
            (!missing.contains(member) && left_out.contains(member)).then_some((member, place))
        } else {
            None
        };
        if mass > 0.2 {
            let room = usize::from(most - left_out.len().min(most));
            for member in test_group(&free, mass, room, &chances, rng) {
                left_out.insert(member);
            }
        }
        // The coin comes last, and nothing else depends on it.
        if let Some((member, place)) = on_trial {
            let Suspect { convicted, passed, .. } = self.suspects[place];
            let one_in = match (convicted, passed) {
                (true, _) => CONVICTED_TRIAL_ONE_IN,
                (false, true) => PASSED_TRIAL_ONE_IN,
                (false, false) => TRIAL_ONE_IN,
            };
            let let_in = dice::below(one_in, rng) == 0;
            let suspect = u16::try_from(place).unwrap_or(u16::MAX);
            self.trial = Some(Trial { slot, suspect, let_in, open: bets && one_in == TRIAL_ONE_IN });
            if let_in {
                left_out = MemberSet::from_members(
                    u16::try_from(members.len()).unwrap_or(u16::MAX),
                    left_out.iter().filter(|other| *other != member),
                );
            }
        }
        (left_out, events)
    }

    /// Decides who is kept out of sums: who probably lies, the likeliest first, but so few that others can be tested.
    fn keep(
        &mut self,
        slot: Slot,
        placed: &[(u16, usize)],
        most: u16,
        chances: &[Chance],
        events: &mut Vec<Event>,
    ) -> Vec<(u16, usize)> {
        let mut kept: Vec<(u16, usize)> =
            placed.iter().copied().filter(|(_, place)| chances[*place].liar >= 0.5).collect();
        kept.sort_by(|one, other| chances[other.1].liar.total_cmp(&chances[one.1].liar));
        kept.truncate(usize::from(most) * 3 / 4);
        for &(_, place) in placed {
            let is_kept = kept.iter().any(|(_, other)| *other == place);
            let was_kept = self.suspects[place].kept.is_some();
            if is_kept == was_kept {
                continue;
            }
            let failures = self.failed.iter().filter(|absent| !posterior::contains(absent, place)).count();
            let suspect = &mut self.suspects[place];
            suspect.kept = is_kept.then_some(slot);
            (suspect.convicted, suspect.passed) = (false, false);
            if is_kept {
                (suspect.wealth, suspect.spells) = (0, suspect.spells.saturating_add(1));
                suspect.failures = u32::try_from(failures).unwrap_or(u32::MAX);
                suspect.last = slot;
            }
            let meter = self.meter(place).clone();
            events.push(if is_kept { Event::Kept(meter) } else { Event::Released(meter) });
        }
        kept
    }

    fn meter(&self, place: usize) -> &MeterId {
        let found = self.places.iter().find(|(_, other)| usize::from(**other) == place);
        found.map(|(meter, _)| meter).expect("every place has its meter")
    }

    fn chances(&self, rng: &mut dyn CryptoRng) -> Vec<Chance> {
        let odds: Vec<[f64; 2]> =
            self.suspects.iter().map(|suspect| suspect.odds.map(|odds| (f64::from(odds) / 1000.0).exp2())).collect();
        let failed: Vec<&[u16]> = self.failed.iter().map(Vec::as_slice).collect();
        posterior::chances(&odds, &failed, rng)
    }

    /// Turns the oldest failures into odds; all of them once the search is over, and then forgets who is not kept.
    fn fold(&mut self, chances: &[Chance], members: usize) {
        let over = self.calm >= CALM;
        while self.failed.len() > if over { 0 } else { FAILED_KEPT } {
            let Some(absent) = self.failed.pop_front() else { break };
            let in_sum = |place: usize| !posterior::contains(&absent, place);
            let all: f64 = (0..chances.len()).filter(|&place| in_sum(place)).map(|place| chances[place].mass()).sum();
            for (place, suspect) in self.suspects.iter_mut().enumerate().filter(|(place, _)| in_sum(*place)) {
                let ratios = posterior::ratios((chances[place].mass() - all).exp());
                for rate in 0..2 {
                    let odds = suspect.odds[rate].saturating_add(millibits(ratios[rate]));
                    suspect.odds[rate] = odds.min(MOST_ODDS[rate]);
                }
            }
        }
        if over {
            let rest = at_rest(members);
            for suspect in &mut self.suspects {
                for (odds, rest) in suspect.odds.iter_mut().zip(rest) {
                    *odds = (*odds).max(rest);
                }
            }
        }
    }

    /// Forgets members of whom nothing is known, once the search is over. Places change, so no trial may be open.
    fn forget(&mut self) {
        if !self.failed.is_empty() || self.calm < CALM || !self.away.is_empty() {
            return;
        }
        self.recent = 0;
        let known = |suspect: &Suspect| suspect.kept.is_some() || suspect.spells > 0;
        if self.suspects.iter().all(known) {
            return;
        }
        let places = std::mem::take(&mut self.places);
        let suspects = std::mem::take(&mut self.suspects);
        for (meter, place) in places {
            let suspect = &suspects[usize::from(place)];
            if known(suspect) {
                self.places.insert(meter, u16::try_from(self.suspects.len()).unwrap_or(u16::MAX));
                self.suspects.push(suspect.clone());
            }
        }
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
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let on_trial = self.trial.filter(|trial| trial.let_in).map(|trial| usize::from(trial.suspect));
        if decoded && self.is_at_rest() {
            return events;
        }
        if !decoded {
            if self.failed.is_empty() && on_trial.is_none() {
                events.push(Event::Started(slot));
            }
            self.admit(members, slot);
        }
        let was_lost = self.cannot_be_found();
        if on_trial.is_none() {
            self.recent = (self.recent << 1 | u64::from(!decoded)) & ((1 << RECENT) - 1);
        }
        let in_sum = (0u16..).zip(members).filter(|(member, _)| !missing.contains(*member));
        let in_sum: BTreeSet<u16> = in_sum.filter_map(|(_, meter)| self.places.get(meter.as_str()).copied()).collect();
        if let Some(place) = on_trial {
            self.suspects[place].passed = decoded;
        }
        if decoded {
            self.calm = self.calm.saturating_add(1).min(CALM);
            // Once it is over, what is learned is of who is on trial alone.
            let resting = self.failed.is_empty();
            for &place in in_sum.iter().filter(|place| !resting || on_trial == Some(usize::from(**place))) {
                let odds = &mut self.suspects[usize::from(place)].odds;
                *odds = [0, 1].map(|rate| odds[rate].saturating_add(DECODED[rate]));
            }
        } else {
            if let Some(place) = on_trial {
                let suspect = &mut self.suspects[place];
                (suspect.failures, suspect.last) = (suspect.failures.saturating_add(1), slot);
            } else {
                self.calm = 0;
            }
            let everybody = 0..u16::try_from(self.suspects.len()).unwrap_or(u16::MAX);
            self.failed.push_back(everybody.filter(|place| !in_sum.contains(place)).collect());
        }
        self.recover(members.len());
        if !decoded && on_trial.is_none() && self.cannot_be_found() && !was_lost {
            events.push(Event::CannotBeFound);
        }
        self.decide_lists(slot, members, limits, rng, &mut events);
        events
    }

    /// Takes note of members of whom nothing was known. They were in no sum that failed before.
    fn admit(&mut self, members: &[&MeterId], slot: Slot) {
        let rest = at_rest(members.len());
        for meter in members {
            if self.places.contains_key(meter.as_str()) {
                continue;
            }
            let Ok(place) = u16::try_from(self.suspects.len()) else { return };
            self.failed.iter_mut().for_each(|absent| absent.push(place));
            self.places.insert((*meter).clone(), place);
            self.suspects.push(Suspect {
                odds: rest,
                wealth: 0,
                spells: 0,
                kept: None,
                convicted: false,
                passed: false,
                failures: 0,
                last: slot,
            });
        }
    }

    /// Raises everybody's odds a little: who is honest today may lie tomorrow.
    fn recover(&mut self, members: usize) {
        let rest = at_rest(members).map(|odds| (f64::from(odds - 14_000) / 1000.0).exp2());
        for suspect in &mut self.suspects {
            for (odds, rest) in suspect.odds.iter_mut().zip(rest) {
                *odds = millibits((f64::from(*odds) / 1000.0).exp2() + rest);
            }
        }
    }

    /// Settles the bet on the coin of a slot.
    pub fn settle(&mut self, slot: Slot, outcome: Outcome, members: usize) -> Vec<Event> {
        match self.trial.filter(|trial| trial.slot == slot) {
            Some(trial) => self.settle_trial(trial, outcome, members),
            None => Vec::new(),
        }
    }

    fn settle_trial(&mut self, trial: Trial, outcome: Outcome, members: usize) -> Vec<Event> {
        if !trial.open {
            return Vec::new();
        }
        self.trial = self.trial.map(|trial| Trial { open: false, ..trial });
        let place = usize::from(trial.suspect);
        let suspect = &mut self.suspects[place];
        suspect.wealth = suspect.wealth.saturating_add(won(outcome, trial.let_in));
        suspect.convicted = suspect.wealth >= needed(members, suspect.spells);
        if suspect.convicted { vec![Event::Convicted(self.meter(place).clone())] } else { Vec::new() }
    }

    /// Decides what the next list is like, while there seem to be several liars.
    fn decide_lists(
        &mut self,
        slot: Slot,
        members: &[&MeterId],
        limits: Limits,
        rng: &mut dyn CryptoRng,
        events: &mut Vec<Event>,
    ) {
        let (in_a_row, of_late) = (self.recent.trailing_ones(), self.recent.count_ones());
        let several = in_a_row >= 6 || of_late >= 12;
        if !self.wide && !several {
            return;
        }
        let chances = self.chances(rng);
        let kept = self.suspects.iter().filter(|suspect| suspect.kept.is_some()).count();
        let unsettled: f64 = (self.suspects.iter().zip(&chances))
            .filter(|(suspect, _)| suspect.kept.is_none())
            .map(|(_, chance)| chance.mass())
            .sum();
        let before = (self.wide, self.away.clone());
        let fits = kept <= usize::from(limits.max_missing) * 3 / 4;
        self.wide = several || !fits || unsettled >= 0.3 || of_late >= 6;
        let due = slot.0 >= self.decided.0 + 5 || slot < self.decided;
        if due && (in_a_row >= 10 || !self.away.is_empty()) && limits.away > 0 {
            self.decided = slot;
            let most = limits.away.min(self.suspects.len() / 2);
            self.away = self.choose_away(members.len(), most, in_a_row, unsettled, &chances, rng);
        }
        if !self.wide || limits.away == 0 {
            self.away.clear();
        }
        if before != (self.wide, self.away.clone()) {
            events.push(Event::Lists);
        }
    }

    /// Chooses who is left out of the next list: while every sum fails as many as may be; then as few as it takes.
    fn choose_away(
        &self,
        members: usize,
        most: usize,
        in_a_row: u32,
        mass: f64,
        chances: &[Chance],
        rng: &mut dyn CryptoRng,
    ) -> Vec<u16> {
        let kept = self.suspects.iter().filter(|suspect| suspect.kept.is_some()).count();
        let free = (0u16..).zip(&self.suspects).filter(|(_, suspect)| suspect.kept.is_none());
        let free: Vec<u16> = free.map(|(place, _)| place).collect();
        let mut likeliest = ranked(&free, |place| chances[usize::from(*place)].spoils, 0.7, rng);
        if in_a_row >= 10 {
            likeliest.truncate(most);
            return likeliest;
        }
        let mut outside = mass;
        let enough = likeliest.iter().position(|place| {
            let is_enough = outside <= 0.7;
            outside -= chances[usize::from(*place)].mass();
            is_enough
        });
        likeliest.truncate(enough.unwrap_or(likeliest.len()));
        let room = (members / 5).saturating_sub(kept);
        let count = likeliest.len().saturating_sub(room).min(most);
        dice::shuffle(&mut likeliest, count, rng);
        likeliest.truncate(count);
        likeliest
    }
}

/// Chooses who is left out to see whether one of them spoils sums: about half of those who hold most of what is suspected.
fn test_group(free: &[(u16, usize)], mass: f64, room: usize, chances: &[Chance], rng: &mut dyn CryptoRng) -> Vec<u16> {
    let share = (-1.0 / mass.max(1.0)).exp2();
    let mut likeliest = ranked(free, |(_, place)| chances[*place].spoils, 0.05, rng);
    let mut held = 0.0;
    let enough = likeliest.iter().position(|(_, place)| {
        held += chances[*place].mass();
        held >= 0.75 * mass
    });
    let count = enough.map_or(likeliest.len(), |last| last + 1).min(whole(room as f64 / share + 0.5));
    likeliest.truncate(count);
    // Rounded at random: one who is suspected alone is let in every other time.
    let group = whole(count as f64 * share + dice::fraction(rng)).min(room);
    dice::shuffle(&mut likeliest, group, rng);
    likeliest.truncate(group);
    likeliest.into_iter().map(|(member, _)| member).collect()
}

/// Sorts by a weight, the highest first, after each was changed by a random factor.
fn ranked<T: Copy>(items: &[T], weight: impl Fn(&T) -> f64, spread: f64, rng: &mut dyn CryptoRng) -> Vec<T> {
    let mut weighed: Vec<(f64, T)> =
        items.iter().map(|item| (weight(item) * (spread * dice::normal(rng)).exp(), *item)).collect();
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

/// The whole part of a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is positive, and no more than twice a list's members"
)]
const fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a bet multiplies wealth with on average, if these are the outcomes with the coin showing either side.
    fn mean(let_in: Outcome, left_out: Outcome) -> f64 {
        let factor = |outcome, let_in| (f64::from(won(outcome, let_in)) / 1000.0).exp2();
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
