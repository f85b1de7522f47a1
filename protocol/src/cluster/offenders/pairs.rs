//! Holders whose answers are wrong, and whose dealing that follows (`protocol-gateway.md 4a`, "Wrong points").
//!
//! A wrong answer and a wrong dealing look alike. So a member is taken out of sums by a secret coin, while it alone explains a
//! holder's wrong answers, and bets on the coin show whether they follow it. Then the two are *at odds*: one of them lies. That
//! says which only for a member at odds with more holders than can lie, or a holder with more members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::dice;
use super::search::millibits;
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::time::Slot;

/// How long a test goes on at most, and how long the next one waits that follows one without a result, in slots.
const TEST_SLOTS: u64 = 288;

/// What a bet on a fair coin wins if the answer follows it, and loses otherwise: log2 in thousandths of 1.9 and of 0.1.
const FOLLOWS: i32 = 925;
const DOES_NOT: i32 = -3322;

/// How many pairs are remembered.
const MOST_PAIRS: usize = 10_000;

/// The test of whom a holder's wrong answers follow. It is not stored: one that is lost begins anew, as another test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    holder: MeterId,
    began: Slot,
    /// Who was in every sum whose answer was wrong.
    explains: BTreeSet<MeterId>,
    /// Whose coin is thrown, and what the bets on it came to, by holder.
    member: Option<MeterId>,
    wealth: BTreeMap<MeterId, i32>,
    /// The slot of the last coin, and whether it left the member out.
    coin: Option<(Slot, bool)>,
}

/// How the holders of a sum answered that was opened.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Answers {
    pub(in crate::cluster) right: BTreeSet<MeterId>,
    pub(in crate::cluster) wrong: BTreeSet<MeterId>,
}

/// Members and holders that are at odds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    /// A member and a holder each, and since when.
    pub(super) at_odds: BTreeMap<(MeterId, MeterId), Slot>,
    /// How many members were tested.
    pub(super) tests: u32,
    pub(super) test: Option<Test>,
    /// When a test was last given up.
    pub(super) given_up: Option<Slot>,
}

impl Pairs {
    /// Returns who is at odds with more holders than `colluding`, or as a holder with more members than `malicious`, and since
    /// when with each.
    pub(super) fn liars(&self, colluding: usize, malicious: usize) -> impl Iterator<Item = (&MeterId, Vec<Slot>)> {
        let mut found: BTreeMap<(&MeterId, bool), Vec<Slot>> = BTreeMap::new();
        for ((member, holder), slot) in &self.at_odds {
            found.entry((member, false)).or_default().push(*slot);
            found.entry((holder, true)).or_default().push(*slot);
        }
        let most = move |holds| if holds { malicious } else { colluding };
        found.into_iter().filter_map(move |((id, holds), slots)| (slots.len() > most(holds)).then_some((id, slots)))
    }

    /// Returns who is left out of a sum by a coin, if somebody is tested: one of those who are not missing.
    pub(super) fn choose(
        &mut self,
        slot: Slot,
        members: &[&MeterId],
        missing: &MemberSet,
        rng: &mut dyn CryptoRng,
    ) -> Option<u16> {
        let test = self.test.as_mut()?;
        test.coin = None;
        if !test.member.as_ref().is_some_and(|member| test.explains.contains(member)) {
            test.member = test.explains.iter().nth(dice::below(test.explains.len(), rng)).cloned();
            test.wealth.clear();
            self.tests = self.tests.saturating_add(1);
        }
        let at = members.iter().position(|meter| Some(*meter) == test.member.as_ref());
        let at = u16::try_from(at?).ok().filter(|at| !missing.contains(*at))?;
        // The coin comes last, and nothing else depends on it.
        let left_out = dice::below(2, rng) == 0;
        test.coin = Some((slot, left_out));
        left_out.then_some(at)
    }

    /// Learns how holders answered, if the sum of these could be opened; returns who turned out to be at odds.
    pub(super) fn learn(
        &mut self,
        slot: Slot,
        in_sum: &BTreeSet<&MeterId>,
        answers: Option<&Answers>,
    ) -> Vec<(MeterId, MeterId)> {
        let found = self.settle(slot, answers);
        let Some(Answers { wrong, .. }) = answers else { return found };
        let explained: BTreeSet<&MeterId> = self.at_odds.keys().map(|(_, holder)| holder).collect();
        if let Some(test) = &mut self.test {
            if wrong.contains(&test.holder) {
                test.explains.retain(|member| in_sum.contains(member));
            }
            let is_shown = explained.contains(&test.holder) && test.wealth.is_empty();
            if test.explains.is_empty() || is_shown || slot.0 >= test.began.0 + TEST_SLOTS || slot < test.began {
                self.given_up = (!is_shown).then_some(slot);
                self.test = None;
            }
        }
        let waits = self.given_up.is_some_and(|last| last <= slot && slot.0 < last.0 + TEST_SLOTS);
        let unexplained = wrong.iter().find(|holder| !explained.contains(holder));
        if let (None, false, Some(holder), ..MOST_PAIRS) = (&self.test, waits, unexplained, self.at_odds.len()) {
            let explains = in_sum.iter().map(|member| (*member).clone()).collect();
            let (member, wealth, coin) = (None, BTreeMap::new(), None);
            self.test = Some(Test { holder: holder.clone(), began: slot, explains, member, wealth, coin });
        }
        found
    }

    /// Settles the bets on a coin: one for each holder that was wrong before. Without a sum all are lost.
    fn settle(&mut self, slot: Slot, answers: Option<&Answers>) -> Vec<(MeterId, MeterId)> {
        let Some(Test { member: Some(member), wealth, coin, .. }) = &mut self.test else { return Vec::new() };
        let Some((_, left_out)) = coin.take().filter(|(of, _)| *of == slot) else { return Vec::new() };
        for (holder, wealth) in wealth.iter_mut() {
            let expected = answers.map(|answers| if left_out { &answers.right } else { &answers.wrong });
            let follows = expected.is_some_and(|expected| expected.contains(holder));
            *wealth = wealth.saturating_add(if follows { FOLLOWS } else { DOES_NOT });
        }
        let tests = f64::from(self.tests.max(1));
        let holders = answers.map_or(0, |answers| answers.right.len() + answers.wrong.len());
        let needed = millibits(1e6 * holders.max(1) as f64 * tests * (tests + 1.0)).saturating_add(1);
        let shown = wealth.iter().filter(|(_, wealth)| **wealth >= needed);
        let found: Vec<(MeterId, MeterId)> = shown.map(|(holder, _)| (member.clone(), holder.clone())).collect();
        wealth.retain(|_, wealth| *wealth < needed);
        self.at_odds.extend(found.iter().map(|pair| (pair.clone(), slot)));
        for holder in answers.iter().flat_map(|answers| &answers.wrong) {
            if !self.at_odds.contains_key(&(member.clone(), holder.clone())) {
                wealth.entry(holder.clone()).or_insert(0);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng as _;

    use super::*;

    const MEMBERS: u16 = 60;

    fn meter(number: u16) -> MeterId {
        MeterId::new(&format!("m-{number:02}")).unwrap()
    }

    /// Runs slots in which each holder is wrong if `wrong` says so, of the members that are in the sum.
    fn run(slots: u64, seed: u64, wrong: impl Fn(u64, u16, &MemberSet) -> bool) -> Pairs {
        let meters: Vec<MeterId> = (0..MEMBERS).map(meter).collect();
        let members: Vec<&MeterId> = meters.iter().collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pairs = Pairs::default();
        for slot in 1..=slots {
            let absent = (0..MEMBERS).filter(|_| dice::below(50, &mut rng) == 0);
            let mut missing = MemberSet::from_members(MEMBERS, absent);
            if let Some(member) = pairs.choose(Slot(slot), &members, &missing, &mut rng) {
                missing.insert(member);
            }
            let (off, on): (Vec<u16>, Vec<u16>) = (0..MEMBERS).partition(|&holder| wrong(slot, holder, &missing));
            let named = |numbers: Vec<u16>| numbers.into_iter().map(meter).collect();
            let answers = Answers { right: named(on), wrong: named(off) };
            let in_sum = (0..MEMBERS).filter(|&number| !missing.contains(number));
            let in_sum = in_sum.map(|number| members[usize::from(number)]).collect();
            pairs.learn(Slot(slot), &in_sum, Some(&answers));
        }
        pairs
    }

    #[test]
    fn one_that_deals_wrongly_to_more_holders_than_can_lie_is_found() {
        for (holders, liars) in [(13, vec![(meter(40), 13)]), (12, vec![])] {
            let pairs = run(400, 1, |_, holder, missing| holder < holders && !missing.contains(40));
            assert_eq!(pairs.at_odds.len(), usize::from(holders));
            let found: Vec<(MeterId, usize)> = pairs.liars(12, 6).map(|(id, with)| (id.clone(), with.len())).collect();
            assert_eq!(found, liars, "twelve holders could all lie");
        }
    }

    #[test]
    fn a_holder_at_odds_with_more_members_than_can_lie_is_found() {
        let mut pairs = Pairs::default();
        for member in 10..17 {
            pairs.at_odds.insert((meter(member), meter(3)), Slot(7));
            assert_eq!(pairs.liars(12, 6).any(|(liar, _)| *liar == meter(3)), member == 16);
        }
    }

    #[test]
    fn a_holder_that_lies_whoever_is_in_the_sum_is_at_odds_with_nobody() {
        for seed in 0..20 {
            let lies = |slot: u64| seed % 2 == 0 || slot * 7919 % 5 < 3;
            let pairs = run(600, seed, |slot, holder, _| holder == 3 && lies(slot));
            assert_eq!(pairs.at_odds.len(), 0);
        }
    }

    #[test]
    fn a_bet_on_a_coin_that_says_nothing_has_a_mean_of_less_than_one() {
        let factor = |millibits: i32| (f64::from(millibits) / 1000.0).exp2();
        assert!((factor(FOLLOWS) + factor(DOES_NOT)) / 2.0 < 1.0);
    }
}
