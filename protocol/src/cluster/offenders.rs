//! Members that spoil the cluster's slots, and whom sums and lists leave out (`protocol.md 4`, "Whom the gateway leaves out").
//!
//! Leaving a member out means naming it in S, or forming a list without it: nothing that a meter could not check before.

mod dice;
mod pairs;
mod posterior;
mod record;
mod search;
mod silence;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::open_slot::Attempt;
use super::{ClusterConfig, Notice};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::scheme::Scheme;
use crate::time::{Slot, Timestamp};
pub(super) use pairs::Answers;
use pairs::Pairs;
pub use search::{Limits, Outcome, Search};
use silence::{Silence, Silences};

/// How many retries tests and trials leave for members that do not reveal.
const KEPT_FOR_SILENCE: u64 = 2;

/// What a member did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offence {
    /// It sent readings and did not reveal.
    Silent,
    /// Sums fail with it and decode without it, as far as can be seen. Others may make it look so.
    Suspected,
    /// Bets on secret coins have shown that it spoils sums.
    SpoilsSums,
    /// It deals wrongly to more holders, or answers wrongly to more members, than can lie.
    AtOdds,
}

/// A member that spoiled slots, as far as the gateway can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offender {
    pub offence: Offence,
    /// The slot of the first offence, or since when it is left out.
    pub since: Slot,
    /// The slot of the last offence.
    pub last: Slot,
    /// How many slots it spoiled.
    pub failures: u32,
    /// Whether it is left out of sums. When it is on trial is not told before.
    pub left_out: bool,
    /// Until when it is left out of lists, if that leaves enough members.
    pub excluded_until: Option<Timestamp>,
}

/// What a cluster knows of members that spoil slots. It is kept by meter, so that it outlives lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offenders {
    silent: Silences,
    search: Search,
    pairs: Pairs,
    /// Whether it changed since it was last persisted.
    changed: bool,
}

impl Offenders {
    /// Returns who spoils slots, under a list of whose holders and members so many may lie.
    pub(super) fn iter(&self, colluding: usize, malicious: usize) -> impl Iterator<Item = (&MeterId, Offender)> {
        let silent = self.silent.0.iter().map(|(meter, known)| {
            let Silence { since, last, failures, next_trial, excluded_until, .. } = *known;
            let (offence, left_out) = (Offence::Silent, next_trial.is_some());
            (meter, Offender { offence, since, last, failures, left_out, excluded_until })
        });
        let at_odds = self.pairs.liars(colluding, malicious).filter_map(|(meter, slots)| {
            let (since, last) = (*slots.iter().min()?, *slots.iter().max()?);
            let (offence, failures) = (Offence::AtOdds, u32::try_from(slots.len()).unwrap_or(u32::MAX));
            Some((meter, Offender { offence, since, last, failures, left_out: false, excluded_until: None }))
        });
        silent.chain(self.search.offenders()).chain(at_odds)
    }

    pub(super) const fn search(&self) -> &Search {
        &self.search
    }

    /// Returns until when a meter is left out of lists, if that leaves enough members. Nothing else readmits it before.
    pub fn excluded_until(&self, meter: &MeterId) -> Option<Timestamp> {
        self.silent.0.get(meter.as_str()).and_then(|known| known.excluded_until)
    }

    /// Returns whom lists are formed without for their silence, if enough members remain; the worst first.
    pub(super) fn excluded(&self) -> Vec<&MeterId> {
        self.silent.excluded()
    }

    /// Returns whether something changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Chooses S: the absent, then those who were silent in an earlier attempt of the slot and those who are denied, then
    /// who is in quarantine for its silence, then whom the search keeps or leaves out to test; never more than M. `left` retries
    /// are left.
    pub(super) fn choose(
        &mut self,
        slot: Slot,
        list: &MembershipList,
        absent: MemberSet,
        silent: &MemberSet,
        denied: impl Fn(&MeterId) -> bool,
        left: u64,
        rng: &mut dyn CryptoRng,
    ) -> (MemberSet, Vec<Notice>) {
        let most = list.params().max_missing();
        let mut missing = absent;
        let mut leave_out = |members: &mut dyn Iterator<Item = u16>| {
            for member in members {
                if missing.len() < most {
                    missing.insert(member);
                }
            }
        };
        leave_out(&mut silent.iter());
        leave_out(&mut (0u16..).zip(list.members()).filter(|(_, member)| denied(member.id())).map(|(index, _)| index));
        leave_out(&mut self.silent.quarantined(slot, list, left).into_iter());
        let at_rest = self.search.is_at_rest();
        self.changed |= !at_rest;
        let members: Vec<&MeterId> = list.members().iter().map(|member| member.id()).collect();
        // In the pairwise scheme members know S before they reveal: what they do then proves nothing.
        let bets = matches!(list.params().terms().scheme, Scheme::Committee(_));
        let (mut missing, notices) = self.search.choose(slot, &members, most, missing, bets, rng);
        if at_rest && missing.len() < most {
            self.pairs.choose(slot, &members, &missing, rng).into_iter().for_each(|member| missing.insert(member));
        }
        (missing, notices)
    }

    /// Returns whether a sum that failed is worth another attempt, with others left out. Some retries are kept for silence.
    pub(super) fn may_repeat(&self, list: &MembershipList, left: u64) -> bool {
        left > KEPT_FOR_SILENCE && self.search.may_repeat(list.params().members(), list.params().max_missing())
    }

    /// Learns from an attempt that came to its end, when `left` retries are left; returns what an operator should know.
    pub(super) fn observe(
        &mut self,
        attempt: &Attempt,
        config: &ClusterConfig,
        left: u64,
        now: Timestamp,
        rng: &mut dyn CryptoRng,
    ) -> Vec<Notice> {
        let before = self.silent.clone();
        let mut notices = self.silent.learn(attempt, left, now);
        self.changed |= before != self.silent;
        let Some(decoded) = attempt.decoded else { return notices };
        if decoded && self.search.is_at_rest() {
            return notices;
        }
        self.changed = true;
        let list = attempt.list();
        let members: Vec<&MeterId> = list.members().iter().map(|member| member.id()).collect();
        let limits = config.search_limits(list, self.search.away().count());
        notices.extend(self.search.learn(attempt.slot, &members, &attempt.missing, decoded, limits, rng));
        notices
    }

    /// Settles the bets on the coins of a slot, once all had their time to answer.
    pub(super) fn settle(
        &mut self,
        slot: Slot,
        outcome: Outcome,
        members: u16,
        in_sum: &BTreeSet<&MeterId>,
        answers: Option<&Answers>,
    ) -> Vec<Notice> {
        let mut notices: Vec<Notice> = self.search.settle(slot, outcome, members.into()).into_iter().collect();
        self.changed |= !self.search.is_at_rest();
        let at_odds = self.pairs.learn(slot, in_sum, answers);
        self.changed |= !at_odds.is_empty();
        notices.extend(at_odds.into_iter().map(|(member, holder)| Notice::AtOdds { member, holder }));
        notices
    }

    /// Ends the time out of lists that is over; returns whether it ended for somebody.
    pub(super) fn end_exclusions(&mut self, slot: Slot, now: Timestamp) -> bool {
        let ended = self.silent.end_exclusions(slot, now);
        self.changed |= ended;
        ended
    }
}
