//! The search for a member that spoils sums, by leaving groups of members out of them (`protocol.md 4`).
//!
//! A failed sum clears everybody who was left out of it, whatever the liar does: it cannot spoil a sum that it is not in. A
//! sum that decodes suggests that the liar was left out; it may also have kept still. So the cleared are kept apart from
//! those who are likely.

use std::collections::BTreeSet;

use super::several::{Limits, Several};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::Slot;

/// How many failed sums make it worth leaving members out for longer, although the accused passed its trial.
const REPEATED_FAILURES: u64 = 3;

/// After how many slots a search that was given up starts over.
const PAUSE: u64 = 144;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Groups are left out of sums.
    Looking,
    /// One member explains the failures; it is in quarantine, and trials go on with the others who could.
    Accused(MeterId),
    /// The accused passed its trial: until a sum fails again nobody is left out.
    Resting,
    /// Sums fail only if nobody is left out: somebody is, another member in every slot.
    Watching,
    /// It was given up in this slot.
    GivenUp(Slot),
}

/// What a sum that decoded with the accused says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The accused did no harm.
    Cleared,
    /// Another member, of fewer than before, explains the failures as well.
    Narrowed,
    /// This member explains the failures as well as the accused.
    Pair(MeterId),
}

/// What is known of who spoils sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) state: State,
    /// The slot of the first failed sum, and of the last.
    pub(super) since: Slot,
    pub(super) last: Slot,
    /// How many sums failed.
    pub(super) failures: u64,
    /// Who was left out of a failed sum: if there is one liar, it is none of them.
    pub(super) cleared: BTreeSet<MeterId>,
    /// Of the others, those who were left out of sums that decoded; empty for all of them. Beside an accused: those who
    /// explain the failures as well.
    pub(super) likely: BTreeSet<MeterId>,
    /// The search for more than one liar, once nobody alone explains the failures.
    pub(super) several: Option<Several>,
}

impl Search {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            state: State::Looking,
            since: slot,
            last: slot,
            failures: 0,
            cleared: BTreeSet::new(),
            likely: BTreeSet::new(),
            several: None,
        }
    }

    /// A search after whose end sums fail only if nobody is left out.
    pub(super) fn watching(slot: Slot) -> Self {
        Self { state: State::Watching, ..Self::new(slot) }
    }

    pub(super) fn is_watching(&self) -> bool {
        self.state == State::Watching
    }

    pub(super) fn is_looking(&self) -> bool {
        self.state == State::Looking
    }

    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp(_))
    }

    pub(super) fn accused(&self) -> Option<&MeterId> {
        match &self.state {
            State::Accused(meter) => Some(meter),
            State::Looking | State::Resting | State::Watching | State::GivenUp(_) => None,
        }
    }

    /// Whether a failed sum begins the search, or begins it again.
    pub(super) fn may_begin(&self, slot: Slot) -> bool {
        match self.state {
            State::Looking => false,
            State::Accused(_) | State::Resting | State::Watching => true,
            State::GivenUp(since) => self.is_pause_over(since, slot),
        }
    }

    /// Whether it starts from nothing: it was given up long ago, or what was known no longer holds.
    pub(super) fn starts_over(&self, slot: Slot) -> bool {
        match self.state {
            State::GivenUp(since) => self.is_pause_over(since, slot),
            State::Watching => true,
            State::Looking | State::Accused(_) | State::Resting => false,
        }
    }

    fn is_pause_over(&self, since: Slot, slot: Slot) -> bool {
        slot < since || since.0 + PAUSE <= slot.0
    }

    /// Chooses whom to leave out beside the `missing`, at most `room` members; `known` are those it does not look for.
    pub(super) fn choose(
        &self,
        slot: Slot,
        list: &MembershipList,
        missing: &MemberSet,
        room: u16,
        known: impl Fn(&MeterId) -> bool,
    ) -> Vec<u16> {
        let present = |(index, meter): &(u16, &MeterId)| !missing.contains(*index) && !known(meter);
        let mut candidates: Vec<(u16, &MeterId)> = indexed(list).filter(present).collect();
        match (&self.several, &self.state) {
            (Some(several), State::Looking) => several.choose(slot, &candidates, room.into()),
            (_, State::Looking | State::Accused(_)) => {
                // In an order that nobody can foresee long before: names give no place in it.
                candidates.sort_by_key(|&(index, _)| mix(self.since, index));
                self.choose_one(&candidates, room.into())
            }
            (_, State::Watching) => shuffled(slot, &candidates, room.min(1).into()),
            (_, State::Resting | State::GivenUp(_)) => Vec::new(),
        }
    }

    /// Leaves out half of the likely ones. While that is more than there is room for, it is as many as possible; otherwise
    /// others who are not cleared fill the room, so that a failure clears as many as it can.
    fn choose_one(&self, candidates: &[(u16, &MeterId)], room: usize) -> Vec<u16> {
        let possible = candidates.iter().filter(|(_, meter)| !self.cleared.contains(meter.as_str()));
        let (likely, others): (Vec<_>, Vec<_>) = possible.partition(|(_, meter)| self.likely.contains(meter.as_str()));
        let halved = match (&self.state, likely.is_empty()) {
            (State::Looking, true) => others.len().div_ceil(2),
            (_, true) => others.len(),
            (_, false) => likely.len().div_ceil(2),
        };
        let (first, fill) = if likely.is_empty() { (others, Vec::new()) } else { (likely, others) };
        let fill = if self.is_looking() { fill } else { Vec::new() };
        first.into_iter().take(halved).chain(fill).take(room).map(|&(index, _)| index).collect()
    }

    /// Takes note of a sum that decoded while groups are left out; returns whom it shows to spoil sums.
    pub(super) fn decoded(
        &mut self,
        list: &MembershipList,
        missing: &MemberSet,
        known: impl Fn(&MeterId) -> bool,
    ) -> Vec<MeterId> {
        if let Some(several) = &mut self.several {
            let found = several.decoded(list, missing, known);
            if !found.is_empty() {
                several.away.clear();
                self.state = State::Resting;
            }
            return found;
        }
        self.likely = self.left_out(list, missing, known);
        let (Some(meter), 1) = (self.likely.first().cloned(), self.likely.len()) else { return Vec::new() };
        self.likely.clear();
        self.state = State::Accused(meter.clone());
        vec![meter]
    }

    /// Takes note of a sum that decoded with the accused in it.
    pub(super) fn decoded_with_accused(
        &mut self,
        list: &MembershipList,
        missing: &MemberSet,
        known: impl Fn(&MeterId) -> bool,
    ) -> Verdict {
        self.likely = self.left_out(list, missing, known);
        match (self.likely.first().cloned(), self.likely.len()) {
            (None, _) => {
                let again = self.failures >= REPEATED_FAILURES;
                self.state = if again { State::Looking } else { State::Resting };
                Verdict::Cleared
            }
            (Some(other), 1) => Verdict::Pair(other),
            (Some(_), _) => Verdict::Narrowed,
        }
    }

    /// Takes note of a failed sum that somebody known is in; `meter` is accused, unless another is or sums are tested.
    pub(super) fn failed_with(&mut self, meter: &MeterId, list: &MembershipList, missing: &MemberSet) {
        self.failures += 1;
        self.clear(list, missing);
        if self.state == State::Resting && self.several.is_none() && !self.cleared.contains(meter.as_str()) {
            self.state = State::Accused(meter.clone());
            self.likely.clear();
        }
    }

    /// Takes note of a failed sum that nobody known is in; returns whether the search is given up.
    pub(super) fn failed(
        &mut self,
        slot: Slot,
        list: &MembershipList,
        missing: &MemberSet,
        limits: &Limits,
        known: impl Fn(&MeterId) -> bool,
    ) -> bool {
        self.last = slot;
        self.failures += 1;
        if matches!(self.state, State::GivenUp(_)) {
            return false;
        }
        self.state = State::Looking;
        let hopeless = if let Some(several) = &mut self.several {
            several.failed(list, missing);
            several.takes_too_long(limits)
        } else {
            self.clear(list, missing);
            if self.possible(list, known).next().is_none() {
                self.several = Some(Several::new(slot, list));
            }
            limits.room == 0 || (self.several.is_some() && limits.are_too_tight())
        };
        if hopeless {
            self.state = State::GivenUp(slot);
        }
        hopeless
    }

    /// Whether nobody but the accused, who is known, explains the failures.
    pub(super) fn leaves_only(&self, meter: &MeterId, list: &MembershipList, known: impl Fn(&MeterId) -> bool) -> bool {
        self.accused() == Some(meter) && self.possible(list, known).next().is_none()
    }

    fn clear(&mut self, list: &MembershipList, missing: &MemberSet) {
        self.cleared.retain(|meter| list.index_of(meter.as_str()).is_some());
        for (_, meter) in indexed(list).filter(|(index, _)| missing.contains(*index)) {
            self.cleared.insert(meter.clone());
            self.likely.remove(meter.as_str());
        }
    }

    /// Who may be the one that spoils sums.
    fn possible<'a>(
        &'a self,
        list: &'a MembershipList,
        known: impl Fn(&MeterId) -> bool + 'a,
    ) -> impl Iterator<Item = (u16, &'a MeterId)> {
        indexed(list).filter(move |(_, meter)| !self.cleared.contains(meter.as_str()) && !known(meter))
    }

    /// The likely ones, or else the possible ones, that were left out of a sum.
    fn left_out(
        &self,
        list: &MembershipList,
        missing: &MemberSet,
        known: impl Fn(&MeterId) -> bool,
    ) -> BTreeSet<MeterId> {
        let suspected = |meter: &MeterId| self.likely.is_empty() || self.likely.contains(meter.as_str());
        let possible = self.possible(list, known).filter(|(index, meter)| missing.contains(*index) && suspected(meter));
        possible.map(|(_, meter)| meter.clone()).collect()
    }
}

pub(super) fn indexed(list: &MembershipList) -> impl Iterator<Item = (u16, &MeterId)> {
    (0u16..).zip(list.members()).map(|(index, member)| (index, member.id()))
}

/// Chooses any members to leave out beside the `missing`, others in every slot.
pub(super) fn any(
    slot: Slot,
    list: &MembershipList,
    missing: &MemberSet,
    room: u16,
    known: impl Fn(&MeterId) -> bool,
) -> Vec<u16> {
    let present = |(index, meter): &(u16, &MeterId)| !missing.contains(*index) && !known(meter);
    let candidates: Vec<_> = indexed(list).filter(present).collect();
    shuffled(slot, &candidates, room.into())
}

/// So many of the candidates, others in every slot.
pub(super) fn shuffled(slot: Slot, candidates: &[(u16, &MeterId)], room: usize) -> Vec<u16> {
    let mut shuffled: Vec<u16> = candidates.iter().map(|(index, _)| *index).collect();
    shuffled.sort_by_key(|&index| mix(slot, index));
    shuffled.truncate(room);
    shuffled
}

/// A number that looks random (the finaliser of SplitMix64).
pub(super) const fn mix(slot: Slot, index: u16) -> u64 {
    let number = slot.0 << 16 | index as u64;
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
