//! The search for several members that spoil sums, by groups that are left out of sums and parts that are left out of lists
//! (`protocol.md 4`).
//!
//! A sum decodes only if all of them are left out. S has room for few members, so for some slots lists are formed without a
//! part of the members as well, always another one. Once a sum decodes, everybody who spoils sums is in the group that was
//! left out of it, and parts of the group are let in again.

use std::collections::BTreeSet;

use super::search::{indexed, mix, shuffled};
use super::took_part;
use crate::cluster::ClusterConfig;
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::Slot;

/// For how many slots several liars are looked for before the search is given up.
const MOST_SLOTS: u64 = 288;

/// How many lists are formed for one search. Each is in force for three slots, so that it is no more than this in a day.
const MOST_LISTS: u64 = 48;

/// After how many slots a list that should leave others out is no longer waited for; it takes three.
const MOST_SLOTS_FOR_A_LIST: u64 = 6;

/// What the search may do in a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) members: u64,
    /// How many members a list may be formed without, and how many more S leaves out of a sum under the shortest.
    away: u64,
    room_in_shortest: u64,
    /// How many members S leaves out of a sum under a list of everybody, beside those in quarantine.
    pub(super) room: u64,
}

impl Limits {
    /// The limits in a cluster of so many members, of whom some are `held` in quarantine. `size` is the largest number of meters
    /// that a member's certificate says the cluster has.
    pub(super) fn new(config: &ClusterConfig, members: u16, size: Option<u16>, held: usize) -> Self {
        let room = |members: u16| {
            let most = config.params_for(members).map_or(0, |params| u64::from(params.max_missing()));
            most.saturating_sub(held as u64)
        };
        let half = members.div_ceil(2);
        // A list without some of them allows for as many colluders as one of all.
        let malicious = config.params_for(members).map_or(0, |params| params.max_malicious());
        let shortest = (half..members).find(|&fewer| config.allows(fewer, malicious, size)).unwrap_or(members);
        Self {
            members: members.into(),
            away: u64::from(members - shortest),
            room_in_shortest: room(shortest),
            room: room(members),
        }
    }

    /// Whether two liars could not be left out of sums once they are found, or would be found too rarely: a sum must leave both
    /// out by chance.
    pub(super) fn are_too_tight(&self) -> bool {
        let left_out = self.away + self.room_in_shortest;
        let pairs = |members: u64| members * members.saturating_sub(1);
        self.room < 2 || pairs(self.members) > MOST_SLOTS * pairs(left_out)
    }
}

/// What is known of several members that spoil sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Several {
    /// How many sums were tested.
    pub(super) slots: u64,
    /// Among whom is searched.
    pub(super) everybody: BTreeSet<MeterId>,
    /// Members of the group that spoil sums.
    pub(super) guilty: BTreeSet<MeterId>,
    /// A part of the group with at least one that does.
    pub(super) part: BTreeSet<MeterId>,
    /// Members of the group of whom nothing is known.
    pub(super) rest: BTreeSet<MeterId>,
    /// Whom lists are formed without.
    pub(super) away: BTreeSet<MeterId>,
    /// When the search began, when it was last decided whom lists are formed without, and how many times.
    pub(super) since: Slot,
    pub(super) decided: Slot,
    pub(super) lists: u64,
}

impl Several {
    pub(super) fn new(slot: Slot, list: &MembershipList) -> Self {
        let everybody = indexed(list).map(|(_, meter)| meter.clone()).collect();
        Self { everybody, since: slot, decided: slot, ..Self::default() }
    }

    /// How many members are in the group that everybody who spoils sums is in; 0 while there is none.
    pub(super) fn suspects(&self) -> usize {
        self.guilty.len() + self.part.len() + self.rest.len()
    }

    pub(super) fn takes_too_long(&self, limits: &Limits) -> bool {
        self.slots > MOST_SLOTS || limits.room < 2
    }

    /// Chooses whom of the candidates a sum leaves out.
    pub(super) fn choose(&self, slot: Slot, candidates: &[(u16, &MeterId)], room: usize) -> Vec<u16> {
        let of = |set: &BTreeSet<MeterId>| -> Vec<u16> {
            let inside = candidates.iter().filter(|(_, meter)| set.contains(meter.as_str()));
            // Those first who stay in the next list: it goes on with them.
            let (go, stay): (Vec<_>, Vec<_>) = inside.partition(|(_, meter)| self.away.contains(meter.as_str()));
            stay.into_iter().chain(go).map(|&(index, _)| index).collect()
        };
        if self.suspects() == 0 {
            // Any group will do, another one in every slot.
            return shuffled(slot, candidates, room);
        }
        let (guilty, part, rest) = (of(&self.guilty), of(&self.part), of(&self.rest));
        let (part_let_in, rest_let_in) = let_in(part.len(), rest.len());
        let left_out =
            guilty.into_iter().chain(part.into_iter().skip(part_let_in)).chain(rest.into_iter().skip(rest_let_in));
        left_out.take(room).collect()
    }

    /// Whoever is in the sum does no harm. Once nothing of the group is left to be tested, those who do are returned.
    pub(super) fn decoded(
        &mut self,
        list: &MembershipList,
        missing: &MemberSet,
        known: impl Fn(&MeterId) -> bool,
    ) -> Vec<MeterId> {
        let left_out = |meter: &MeterId| !took_part(meter, list, missing);
        self.slots += 1;
        if self.suspects() == 0 {
            self.rest = self.everybody.iter().filter(|meter| left_out(meter) && !known(meter)).cloned().collect();
            return Vec::new();
        }
        for group in [&mut self.guilty, &mut self.part, &mut self.rest] {
            group.retain(left_out);
        }
        self.keep_parts_large();
        if self.part.is_empty() && self.rest.is_empty() {
            return std::mem::take(&mut self.guilty).into_iter().collect();
        }
        Vec::new()
    }

    /// Whoever of the group is in the sum spoils it, or some of them do.
    pub(super) fn failed(&mut self, list: &MembershipList, missing: &MemberSet) {
        let in_it = |meter: &MeterId| took_part(meter, list, missing);
        self.slots += 1;
        if self.suspects() == 0 || self.guilty.iter().any(in_it) {
            return;
        }
        let group: BTreeSet<MeterId> = self.part.union(&self.rest).cloned().collect();
        let (let_in, left_out): (BTreeSet<_>, BTreeSet<_>) = group.into_iter().partition(in_it);
        if let_in.is_empty() {
            // Nobody of the group is in the sum: it was not this group.
            (self.guilty, self.part, self.rest) = Default::default();
        } else if self.part.is_empty() || let_in.len() < self.part.len() {
            (self.part, self.rest) = (let_in, left_out);
        }
        self.keep_parts_large();
    }

    /// A part of one member is that member.
    fn keep_parts_large(&mut self) {
        if self.part.len() == 1 {
            self.guilty.append(&mut self.part);
        }
    }

    /// Decides whom the next list is formed without, once a sum under the last one is known.
    pub(super) fn decide(
        &mut self,
        slot: Slot,
        list: &MembershipList,
        limits: &Limits,
        known: impl Fn(&MeterId) -> bool,
    ) {
        let listed = |meter: &MeterId| list.index_of(meter.as_str()).is_some();
        self.everybody.extend(indexed(list).map(|(_, meter)| meter.clone()));
        let waiting = self.decided <= slot && slot.0 < self.decided.0 + MOST_SLOTS_FOR_A_LIST;
        if waiting && !self.everybody.iter().all(|meter| listed(meter) != self.away.contains(meter.as_str())) {
            return;
        }
        // Who is neither listed nor left out on purpose is no longer a member.
        for members in [&mut self.everybody, &mut self.guilty, &mut self.part, &mut self.rest] {
            members.retain(|meter| listed(meter) || self.away.contains(meter.as_str()));
        }
        let away = match self.suspects() {
            _ if self.lists >= MOST_LISTS => BTreeSet::new(),
            0 => self.next_part(limits, known),
            _ => self.without_who_is_let_in(limits),
        };
        if away != self.away {
            (self.away, self.decided) = (away, slot);
            self.lists += 1;
        }
    }

    /// The next of as many parts as it takes that each is short enough; in another order every time all were left out.
    fn next_part(&self, limits: &Limits, known: impl Fn(&MeterId) -> bool) -> BTreeSet<MeterId> {
        let mut members: Vec<(u16, &MeterId)> =
            (0u16..).zip(&self.everybody).filter(|(_, meter)| !known(meter)).collect();
        let size = members.len().div_ceil(2).min(usize::try_from(limits.away).unwrap_or(usize::MAX));
        if size == 0 {
            return BTreeSet::new();
        }
        let parts = members.len().div_ceil(size);
        let round = self.lists / parts as u64;
        let number = usize::try_from(self.lists % parts as u64).unwrap_or(0);
        members.sort_by_key(|&(index, _)| mix(self.since.plus(round), index));
        let size = members.len().div_ceil(parts);
        members.into_iter().skip(number * size).take(size).map(|(_, meter)| meter.clone()).collect()
    }

    /// The group but the part of it that is let in next; nobody once a sum of everybody can do without these.
    fn without_who_is_let_in(&self, limits: &Limits) -> BTreeSet<MeterId> {
        let (part_let_in, rest_let_in) = let_in(self.part.len(), self.rest.len());
        let rest = self.rest.iter().skip(rest_let_in);
        let left_out: Vec<_> = self.guilty.iter().chain(self.part.iter().skip(part_let_in)).chain(rest).collect();
        if left_out.len() as u64 <= limits.room {
            return BTreeSet::new();
        }
        left_out.into_iter().take(usize::try_from(limits.away).unwrap_or(usize::MAX)).cloned().collect()
    }
}

/// How many members of the part and of the rest are let in: half of the part, or of the rest if there is no part.
const fn let_in(part: usize, rest: usize) -> (usize, usize) {
    if part == 0 { (0, rest.div_ceil(2)) } else { (part.div_ceil(2), 0) }
}
