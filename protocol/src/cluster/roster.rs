//! Who may be a member: enrolments, allow-list and deny-list, and who has been silent for too long.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Rejection;
use super::open_slot::OpenSlot;
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::membership::MembershipList;
use crate::policy::Profile;
use crate::time::Timestamp;

/// When lists are formed, and of whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterRules {
    /// No list with fewer members is formed.
    pub min_members: u16,
    /// How long no meter must have joined before a list is formed.
    pub settle_seconds: u64,
    /// How many slots a list covers.
    pub list_slots: u64,
    /// After how many silent slots in a row a member is dropped, 0 for never; it comes back when it is heard again.
    pub drop_after_slots: u32,
    /// The least time between two lists, unless one runs out.
    pub min_interval_seconds: u64,
    /// The only meters that may be members, if given; once all are there, a list is formed without waiting.
    pub allow: Option<BTreeSet<MeterId>>,
    /// Meters that may not be members.
    pub deny: BTreeSet<MeterId>,
}

impl Default for RosterRules {
    /// The gateway's defaults: a week of ten-minute slots per list, as many members as meters ask for by default, no more
    /// than one list an hour.
    fn default() -> Self {
        Self {
            min_members: Profile::Strict.floors().members,
            settle_seconds: 60,
            list_slots: 1008,
            drop_after_slots: 144,
            min_interval_seconds: 3600,
            allow: None,
            deny: BTreeSet::new(),
        }
    }
}

/// For how many settle times changes may postpone a list.
const MAX_SETTLES: u64 = 100;

/// A member that has renewed its enrolment waits for the next scheduled list as long as it is heard under the old one: after
/// so many silent slots it may have lost what it needs.
const PATIENT_SLOTS: u32 = 2;

/// Within this time a meter that enrols anew causes one list at most; after that it waits for the next.
const CALM_SECONDS: u64 = 86_400;

/// The enrolled meters.
#[derive(Debug)]
pub(super) struct Roster {
    rules: RosterRules,
    /// Boxed: half of a map's places are empty.
    meters: BTreeMap<MeterId, Box<Candidate>>,
    /// When meters last caused a list by enrolling anew, for as long as that counts.
    causes: BTreeMap<MeterId, Timestamp>,
    /// When the set of candidates first changed since the last list, and when it last did.
    since: Timestamp,
    changed: Timestamp,
    /// Whether it changed since the last list.
    dirty: bool,
}

#[derive(Debug)]
struct Candidate {
    enrolment: Enrolment,
    /// Silent slots in a row, without an enrolment in between.
    silent: u32,
    /// Silent slots in a row under an enrolment before this one.
    unheard: u32,
    /// Whether the newest list names it, with this enrolment or with one before it.
    listed: bool,
}

impl Roster {
    pub(super) fn new(mut rules: RosterRules, now: Timestamp) -> Self {
        if rules.drop_after_slots == 0 {
            rules.drop_after_slots = u32::MAX;
        }
        Self { rules, meters: BTreeMap::new(), causes: BTreeMap::new(), since: now, changed: now, dirty: false }
    }

    pub(super) fn get(&self, meter: &str) -> Option<&Enrolment> {
        self.meters.get(meter).map(|candidate| &candidate.enrolment)
    }

    /// Whether this very enrolment is known already; its meter is not silent.
    pub(super) fn heard_again(&mut self, meter: &str, bytes: &[u8]) -> bool {
        let known = self.meters.get_mut(meter).filter(|known| known.enrolment.bytes() == bytes);
        known.map(|candidate| candidate.silent = 0).is_some()
    }

    pub(super) fn admit(&mut self, enrolment: Enrolment, now: Timestamp) -> Result<(), Rejection> {
        self.check(&enrolment)?;
        let (id, identity) = (enrolment.id(), enrolment.identity());
        let shared = |known: &Candidate| known.enrolment.id() != id && known.enrolment.identity() == identity;
        if self.meters.values().any(|known| shared(known)) {
            return Err(Rejection::KeyInUse);
        }
        self.insert(enrolment, now);
        Ok(())
    }

    /// Admits one from the gateway's own records. Its keys were compared with those of all others when it first came;
    /// doing so again for each of ten thousand would take longer than everything else at a start.
    pub(super) fn admit_again(&mut self, enrolment: Enrolment, now: Timestamp) -> Result<(), Rejection> {
        self.check(&enrolment)?;
        self.insert(enrolment, now);
        Ok(())
    }

    fn check(&self, enrolment: &Enrolment) -> Result<(), Rejection> {
        let id = enrolment.id();
        if !self.allows(id) {
            return Err(Rejection::Denied);
        }
        match self.meters.get(id) {
            Some(known) if known.enrolment.seq() > enrolment.seq() => Err(Rejection::OldEnrolment),
            Some(known) if known.enrolment.seq() == enrolment.seq() => Err(Rejection::Contradiction),
            Some(_) | None => Ok(()),
        }
    }

    fn insert(&mut self, enrolment: Enrolment, now: Timestamp) {
        let id = enrolment.id().clone();
        let before = self.meters.get(&id).map(|before| (before.listed, before.silent));
        let listed = before.is_some_and(|(listed, _)| listed);
        self.meters.insert(id.clone(), Box::new(Candidate { enrolment, silent: 0, unheard: 0, listed }));
        match before {
            None => self.change(now),
            // It is heard under its old enrolment: the next scheduled list has the new one.
            Some((true, 0)) => {}
            Some(_) => self.change_for(&id, now),
        }
    }

    /// Notes that a meter needs a list with its new enrolment, unless it has caused one already today: then it is in the next
    /// list all the same.
    fn change_for(&mut self, id: &MeterId, now: Timestamp) {
        self.causes.retain(|_, caused| now.millis_since(*caused) < CALM_SECONDS * 1000);
        if !self.causes.contains_key(id) {
            self.causes.insert(id.clone(), now);
            self.change(now);
        }
    }

    /// Whether a meter is not enrolled and may be.
    pub(super) fn may_return(&self, id: &MeterId) -> bool {
        !self.meters.contains_key(id) && self.allows(id)
    }

    /// Keeps the enrolments that are in a list as parts of it, because a gateway keeps its lists whole anyway, and no
    /// longer as parts of an earlier one.
    pub(super) fn keep_in(&mut self, list: &MembershipList) {
        self.meters.values_mut().for_each(|known| known.listed = false);
        for member in list.members() {
            let Some(known) = self.meters.get_mut(member.id()) else { continue };
            known.listed = true;
            if known.enrolment.hash() == member.hash() {
                known.enrolment = member.clone();
            }
        }
        self.meters.values_mut().for_each(|known| known.enrolment.keep_no_list_but(list.bytes()));
    }

    /// Counts who was silent in a closed slot; forgets those who were for too long, and says whom.
    ///
    /// A slot in which nobody was heard says nothing of the members: the broker or the gateway was away.
    pub(super) fn count_silence(&mut self, slot: &OpenSlot, now: Timestamp) -> Vec<MeterId> {
        let (mut dropped, mut stranded) = (Vec::new(), Vec::new());
        if slot.heard_from() == 0 {
            return dropped;
        }
        for (member, heard) in slot.heard() {
            let Some(candidate) = self.meters.get_mut(member.id()) else { continue };
            // One that has enrolled anew may have lost what it needs to speak under this list. It is not dropped.
            if candidate.enrolment.seq() != member.seq() {
                candidate.unheard = if heard { 0 } else { candidate.unheard.saturating_add(1) };
                if candidate.unheard == PATIENT_SLOTS {
                    stranded.push(member.id().clone());
                }
                continue;
            }
            candidate.silent = if heard { 0 } else { candidate.silent.saturating_add(1) };
            if candidate.silent == self.rules.drop_after_slots {
                self.meters.remove(member.id());
                dropped.push(member.id().clone());
            }
        }
        if !dropped.is_empty() {
            self.change(now);
        }
        stranded.iter().for_each(|id| self.change_for(id, now));
        dropped
    }

    pub(super) fn candidates(&self) -> usize {
        self.meters.len()
    }

    pub(super) fn ending_before(&self, at: Timestamp) -> usize {
        self.eligible().filter(|enrolment| enrolment.not_after() < at.as_secs()).count()
    }

    /// Who may be in the next list, sorted.
    pub(super) fn eligible(&self) -> impl Iterator<Item = &Enrolment> {
        self.meters.values().map(|known| &known.enrolment)
    }

    /// When the changes since the last list should become a new one; `None` if nothing changed.
    pub(super) fn list_wanted(&self) -> Option<Timestamp> {
        if !self.dirty {
            return None;
        }
        // Only allowed meters are admitted, so counting them is enough.
        let complete = self.rules.allow.as_ref().is_some_and(|allow| allow.len() == self.candidates());
        let settle = if complete { 0 } else { self.rules.settle_seconds };
        // A meter that enrols again and again postpones a list, but not for ever.
        let patience = self.since.plus_secs(settle.saturating_mul(MAX_SETTLES));
        Some(self.changed.plus_secs(settle).min(patience))
    }

    pub(super) fn change(&mut self, now: Timestamp) {
        if !self.dirty {
            self.since = now;
        }
        self.changed = now;
        self.dirty = true;
    }

    /// A list was formed of the eligible, or cannot be formed until something changes.
    pub(super) fn settled(&mut self) {
        self.dirty = false;
    }

    /// Removes enrolments that have ended, and says whose.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<MeterId> {
        let over = |known: &Candidate| known.enrolment.not_after() <= now.as_secs();
        let ended: Vec<MeterId> =
            self.meters.iter().filter(|(_, known)| over(known)).map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| drop(self.meters.remove(id)));
        ended
    }

    pub(super) fn allows(&self, id: &MeterId) -> bool {
        !self.rules.deny.contains(id) && self.rules.allow.as_ref().is_none_or(|allow| allow.contains(id))
    }
}
