//! The search for a member that spoils sums, by leaving groups of members out of them (`protocol.md 4`).
//!
//! A failed sum clears everybody who was left out of it, whatever the liar does: it cannot spoil a sum that it is not in. A
//! sum that decodes suggests that the liar was left out; it may also have kept still. So the cleared are kept apart from
//! those who are likely.

use std::collections::BTreeSet;

use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::Slot;

/// For how many slots several liars are looked for before the search is given up.
const MOST_SLOTS: u64 = 288;

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

/// The search for several liars: once a group is found without which sums decode, parts of it are let in again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Several {
    pub(super) slots: u64,
    /// Members of the group that spoil sums.
    pub(super) guilty: BTreeSet<MeterId>,
    /// A part of the group with at least one that does.
    pub(super) part: BTreeSet<MeterId>,
    /// Members of the group of whom nothing is known.
    pub(super) rest: BTreeSet<MeterId>,
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

    /// Takes note of a failed sum that nobody known is in, with room for so many to leave out; returns whether the search is
    /// given up.
    pub(super) fn failed(
        &mut self,
        slot: Slot,
        list: &MembershipList,
        missing: &MemberSet,
        room: u16,
        known: impl Fn(&MeterId) -> bool,
    ) -> bool {
        self.last = slot;
        self.failures += 1;
        if matches!(self.state, State::GivenUp(_)) {
            return false;
        }
        self.state = State::Looking;
        let hopeless = match &mut self.several {
            Some(several) => {
                several.failed(list, missing);
                several.slots > MOST_SLOTS
            }
            None => {
                self.clear(list, missing);
                if self.possible(list, known).next().is_none() {
                    self.several = Some(Several::default());
                }
                room == 0
            }
        };
        // One place is not enough for two liars.
        let hopeless = hopeless || (self.several.is_some() && room < 2);
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

impl Several {
    fn choose(&self, slot: Slot, candidates: &[(u16, &MeterId)], room: usize) -> Vec<u16> {
        let of = |set: &BTreeSet<MeterId>| -> Vec<u16> {
            let inside = candidates.iter().filter(|(_, meter)| set.contains(meter.as_str()));
            inside.map(|(index, _)| *index).collect()
        };
        let (guilty, part, rest) = (of(&self.guilty), of(&self.part), of(&self.rest));
        if guilty.is_empty() && part.is_empty() && rest.is_empty() {
            // Any group will do, another one in every slot.
            return shuffled(slot, candidates, room);
        }
        let (part_let_in, rest_let_in) =
            if part.is_empty() { (0, rest.len().div_ceil(2)) } else { (part.len().div_ceil(2), 0) };
        guilty.into_iter().chain(part.into_iter().skip(part_let_in)).chain(rest.into_iter().skip(rest_let_in)).collect()
    }

    /// Whoever was let in does no harm. Once nothing of the group is left to be tested, those who do are returned.
    fn decoded(
        &mut self,
        list: &MembershipList,
        missing: &MemberSet,
        known: impl Fn(&MeterId) -> bool,
    ) -> Vec<MeterId> {
        let left_out = |meter: &MeterId| list.index_of(meter.as_str()).is_some_and(|index| missing.contains(index));
        self.slots += 1;
        if self.guilty.is_empty() && self.part.is_empty() && self.rest.is_empty() {
            let group = indexed(list).filter(|(_, meter)| left_out(meter) && !known(meter));
            self.rest = group.map(|(_, meter)| meter.clone()).collect();
            return Vec::new();
        }
        self.part.retain(left_out);
        self.rest.retain(left_out);
        self.keep_parts_large();
        if self.part.is_empty() && self.rest.is_empty() {
            return std::mem::take(&mut self.guilty).into_iter().collect();
        }
        Vec::new()
    }

    /// Whoever was let in spoils sums, or some of them do.
    fn failed(&mut self, list: &MembershipList, missing: &MemberSet) {
        let let_in = |meter: &MeterId| list.index_of(meter.as_str()).is_some_and(|index| !missing.contains(index));
        self.slots += 1;
        let all = std::mem::take(&mut self.part).into_iter().chain(std::mem::take(&mut self.rest));
        (self.part, self.rest) = all.partition(|meter| let_in(meter));
        if self.part.is_empty() {
            // Nobody of the group was in the sum: it was not this group.
            (self.guilty, self.rest) = (BTreeSet::new(), BTreeSet::new());
        }
        self.keep_parts_large();
    }

    /// A part of one member is that member.
    fn keep_parts_large(&mut self) {
        if self.part.len() == 1 {
            self.guilty.append(&mut self.part);
        }
    }
}

fn indexed(list: &MembershipList) -> impl Iterator<Item = (u16, &MeterId)> {
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
fn shuffled(slot: Slot, candidates: &[(u16, &MeterId)], room: usize) -> Vec<u16> {
    let mut shuffled: Vec<u16> = candidates.iter().map(|(index, _)| *index).collect();
    shuffled.sort_by_key(|&index| mix(slot, index));
    shuffled.truncate(room);
    shuffled
}

/// A number that looks random (the finaliser of SplitMix64).
const fn mix(slot: Slot, index: u16) -> u64 {
    let number = slot.0 << 16 | index as u64;
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
