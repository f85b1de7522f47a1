//! Members that spoil the cluster's slots, and for how long each is left out (`protocol.md 4`, "Whom the gateway leaves
//! out").
//!
//! Leaving a member out means naming it in S, or forming a list without it: nothing that a meter could not check before.

mod record;
mod search;

use std::collections::BTreeMap;

use super::Notice;
use super::open_slot::Attempt;
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::{Slot, Timestamp};
use search::{Search, Verdict};

/// The longest quarantine before a trial, in slots.
const LONGEST_WAIT: u64 = 144;

/// The longest quarantine of an accused member while others could still explain the failures.
const LONGEST_UNSETTLED_WAIT: u64 = 32;

/// How long a quarantine has become when its member is left out of lists instead: three trials in a row have failed.
const EXCLUDED_FROM_WAIT: u64 = 16;

/// The longest time that a member is left out of lists, in days.
const MOST_DAYS: u64 = 32;

/// After how many slots without an offence, or without a failed sum, it is forgotten.
const FORGOTTEN_AFTER: u64 = 2 * LONGEST_WAIT;

/// How many sums may be asked for again in [`LONGEST_WAIT`] slots, because a known offender is among those who spoiled them.
const MOST_REPEATED_SUMS: u64 = 12;

/// How many of these are kept for offenders that were released; without one to spare nobody who spoils sums is on trial.
const KEPT_FROM_TRIALS: u64 = 2;

/// How many members are remembered, so that the entry in the store stays small.
const MOST_OFFENDERS: usize = 10_000;

/// How many times in a row a member was shown to spoil sums before a failed sum without it means that there is another one.
const PROOFS: u64 = 3;

/// The last stage of the trial of a pair.
const BOTH: u8 = 2;

/// What a member did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offence {
    /// It sent readings and did not reveal.
    Silent,
    /// Sums with it are not those of readings and noise.
    SpoilsSums,
    /// Sums are spoiled when both it and this member are in them: one of the two does it.
    SuspectedWith(MeterId),
}

/// A member that spoiled slots, as far as the gateway can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offender {
    pub offence: Offence,
    /// The slot of the first offence.
    pub since: Slot,
    /// The slot of the last offence.
    pub last: Slot,
    /// How many slots it spoiled.
    pub failures: u32,
    /// While it is in quarantine, the slot in which it may take part again, on trial.
    pub next_trial: Option<Slot>,
    /// Until when it is left out of lists, if that leaves enough members.
    pub excluded_until: Option<Timestamp>,
    /// The length of its last quarantine, in slots.
    wait: u64,
    /// For how many days it was last left out of lists.
    days: u64,
    /// In how many trials in a row a sum failed with it and decoded without it, in one slot.
    proofs: u64,
    /// Whether nobody else can explain the failures.
    alone: bool,
    /// How far the trial of a pair has come: one of them takes part, then the other, then both.
    stage: u8,
}

impl Offender {
    fn new(offence: Offence, slot: Slot) -> Self {
        Self {
            offence,
            since: slot,
            last: slot,
            failures: 1,
            next_trial: None,
            excluded_until: None,
            wait: 0,
            days: 0,
            proofs: 0,
            alone: false,
            stage: 0,
        }
    }

    fn spoils_sums(&self) -> bool {
        self.offence != Offence::Silent
    }

    /// Whether it is in quarantine and its trial has not come.
    fn is_waiting(&self, slot: Slot) -> bool {
        // With another length of slots the numbers start elsewhere: nobody waits for one that is far away.
        self.next_trial.is_some_and(|trial| slot < trial && trial.0 <= slot.0 + LONGEST_WAIT + 1)
    }

    fn is_on_trial(&self, slot: Slot) -> bool {
        self.next_trial.is_some() && !self.is_waiting(slot)
    }

    /// Puts it into quarantine for twice as long as the last time.
    fn quarantine(&mut self, slot: Slot, longest: u64) {
        self.wait = (self.wait * 2).clamp(2, longest.max(self.wait));
        self.next_trial = Some(slot.plus(self.wait + 1));
        self.stage = 0;
    }

    /// Leaves it out of lists once trials do not help; never where another member may be the one.
    fn exclude(&mut self, now: Timestamp) -> Option<Timestamp> {
        let certain = match self.offence {
            Offence::Silent => true,
            Offence::SpoilsSums => self.alone,
            Offence::SuspectedWith(_) => false,
        };
        let again = self.days > 0 || self.wait >= EXCLUDED_FROM_WAIT;
        if !certain || !again || self.excluded_until.is_some() {
            return None;
        }
        self.days = (self.days * 2).clamp(1, MOST_DAYS);
        self.excluded_until = Some(Timestamp::from_secs(now.as_secs() + self.days * 86_400));
        self.excluded_until
    }
}

/// What a cluster knows of members that spoil slots. It is kept by meter, so that it outlives lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offenders {
    meters: BTreeMap<MeterId, Offender>,
    search: Option<Search>,
    /// Since when sums asked for again are counted, and how many there were.
    repeated: (Slot, u64),
    /// Whether it changed since it was last persisted.
    changed: bool,
}

impl Offenders {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&MeterId, &Offender)> {
        self.meters.iter()
    }

    /// Returns until when a meter is left out of lists, if that leaves enough members. Nothing else readmits it before.
    pub fn excluded_until(&self, meter: &MeterId) -> Option<Timestamp> {
        self.meters.get(meter.as_str()).and_then(|offender| offender.excluded_until)
    }

    /// Returns whether sums are being tested for who spoils them.
    pub(super) fn is_searching(&self) -> bool {
        self.search.as_ref().is_some_and(Search::is_looking)
    }

    /// Whether a meter is known to spoil sums, or suspected of it.
    fn spoils_sums(&self, meter: &MeterId) -> bool {
        self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums)
    }

    /// Returns whether something changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Chooses S: the absent, then those who were silent in an earlier attempt of the slot and those who are denied, then
    /// who is in quarantine, then who is left out to search; never more than M.
    pub(super) fn choose(
        &self,
        slot: Slot,
        list: &MembershipList,
        absent: MemberSet,
        silent: &MemberSet,
        denied: impl Fn(&MeterId) -> bool,
    ) -> MemberSet {
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
        leave_out(&mut self.quarantined(slot, list).into_iter());
        let room = most.saturating_sub(missing.len());
        let group = self.search.as_ref().filter(|search| self.wants_group(search, slot));
        let group = group.map(|search| search.choose(slot, list, &missing, room, |meter| self.spoils_sums(meter)));
        let both_on_trial = matches!(self.spoiler_on_trial(slot, list), Some((_, BOTH)));
        let others = both_on_trial.then(|| search::any(slot, list, &missing, room, |meter| self.spoils_sums(meter)));
        group.into_iter().flatten().chain(others.into_iter().flatten()).for_each(|member| missing.insert(member));
        missing
    }

    /// Whether a slot leaves others out beside those in quarantine: to find who spoils sums; to see whether another member
    /// than the accused could be the one, as long as nothing proves it.
    fn wants_group(&self, search: &Search, slot: Slot) -> bool {
        let accused = search.accused().and_then(|meter| self.meters.get(meter.as_str()));
        let unsure = |accused: &Offender| {
            if accused.is_waiting(slot) { accused.proofs == 0 } else { accused.failures > 1 }
        };
        search.is_looking() || search.is_watching() || accused.is_some_and(unsure)
    }

    /// The members in quarantine, the worst first: at most half of those who may be missing, but at least one.
    fn quarantined(&self, slot: Slot, list: &MembershipList) -> Vec<u16> {
        let trial = self.spoiler_on_trial(slot, list);
        let excused = |meter: &MeterId, offender: &Offender| match (&offender.offence, trial) {
            (Offence::Silent, _) => true,
            (Offence::SpoilsSums, Some((trial, _))) => meter == trial,
            (Offence::SuspectedWith(other), Some((trial, stage))) => {
                (meter == trial && stage != 1) || (other == trial && stage != 0)
            }
            (Offence::SpoilsSums | Offence::SuspectedWith(_), None) => false,
        };
        let mut waiting: Vec<(u16, u32)> = self
            .meters
            .iter()
            .filter(|(meter, offender)| {
                offender.is_waiting(slot) || (offender.is_on_trial(slot) && !excused(meter, offender))
            })
            .filter_map(|(meter, offender)| Some((list.index_of(meter.as_str())?, offender.failures)))
            .collect();
        waiting.sort_by_key(|&(_, failures)| std::cmp::Reverse(failures));
        let most = (list.params().max_missing() / 2).max(1);
        waiting.into_iter().take(most.into()).map(|(member, _)| member).collect()
    }

    /// Whose trial a slot is, of those who spoil sums: one at a time, and none while sums are tested.
    fn spoiler_on_trial(&self, slot: Slot, list: &MembershipList) -> Option<(&MeterId, u8)> {
        if self.is_searching() || self.repeated_until(slot) + KEPT_FROM_TRIALS >= MOST_REPEATED_SUMS {
            return None;
        }
        let due = |(meter, offender): &(&MeterId, &Offender)| {
            offender.spoils_sums() && offender.is_on_trial(slot) && list.index_of(meter.as_str()).is_some()
        };
        self.meters.iter().find(due).map(|(meter, offender)| (meter, offender.stage))
    }

    /// Returns whether a sum that failed is worth another attempt: who probably spoiled it is known, and will be left out.
    pub(super) fn may_repeat(&self, slot: Slot, list: &MembershipList, missing: &MemberSet) -> bool {
        let explains =
            |(meter, offender): (&MeterId, &Offender)| offender.spoils_sums() && took_part(meter, list, missing);
        self.repeated_until(slot) < MOST_REPEATED_SUMS && self.meters.iter().any(explains)
    }

    /// How many sums were asked for again of late.
    fn repeated_until(&self, slot: Slot) -> u64 {
        let (since, count) = self.repeated;
        if since <= slot && slot.0 < since.0 + LONGEST_WAIT { count } else { 0 }
    }

    /// Learns from an attempt that came to its end; returns what an operator should know.
    pub(super) fn observe(&mut self, attempt: &Attempt, now: Timestamp) -> Vec<Notice> {
        let list = attempt.list();
        let mut notices = Vec::new();
        // When most did not reveal it was nobody's fault: the broker or the network was away.
        if !attempt.most_silent {
            for member in attempt.silent.iter() {
                if let Some(member) = list.member(member) {
                    self.was_silent(member.id(), attempt.slot, now, &mut notices);
                }
            }
            self.release_who_revealed(attempt, &mut notices);
        }
        match attempt.decoded {
            Some(true) => self.decoded(attempt, &mut notices),
            Some(false) => self.spoiled(attempt, now, &mut notices),
            None => {}
        }
        self.forget(attempt.slot);
        notices
    }

    /// Ends the time out of lists that is over; returns whether it ended for somebody.
    pub(super) fn end_exclusions(&mut self, slot: Slot, now: Timestamp) -> bool {
        let mut ended = false;
        for offender in self.meters.values_mut().filter(|known| known.excluded_until.is_some_and(|until| until <= now))
        {
            (offender.excluded_until, offender.last, ended) = (None, slot, true);
        }
        self.changed |= ended;
        ended
    }

    fn was_silent(&mut self, meter: &MeterId, slot: Slot, now: Timestamp, notices: &mut Vec<Notice>) {
        self.changed = true;
        let Some(offender) = self.meters.get_mut(meter.as_str()) else {
            if self.meters.len() < MOST_OFFENDERS {
                self.meters.insert(meter.clone(), Offender::new(Offence::Silent, slot));
            }
            return;
        };
        offender.failures = offender.failures.saturating_add(1);
        offender.last = slot;
        offender.quarantine(slot, LONGEST_WAIT);
        self.announce(meter, now, notices);
    }

    fn announce(&mut self, meter: &MeterId, now: Timestamp, notices: &mut Vec<Notice>) {
        let Some(offender) = self.meters.get_mut(meter.as_str()) else { return };
        let (offence, next_trial) = (offender.offence.clone(), offender.next_trial.unwrap_or(offender.last));
        notices.push(Notice::Quarantined { meter: meter.clone(), offence, next_trial });
        notices.extend(offender.exclude(now).map(|until| Notice::LeftOutOfLists { meter: meter.clone(), until }));
    }

    fn release(&mut self, meter: &MeterId, notices: &mut Vec<Notice>) {
        if let Some(offender) = self.meters.get_mut(meter.as_str()) {
            (offender.next_trial, offender.proofs) = (None, 0);
            self.changed = true;
            notices.push(Notice::Released { meter: meter.clone() });
        }
    }

    /// Releases those on trial for their silence who did reveal.
    fn release_who_revealed(&mut self, attempt: &Attempt, notices: &mut Vec<Notice>) {
        let revealed = |meter: &MeterId| {
            let index = attempt.list().index_of(meter.as_str());
            index.is_some_and(|index| !attempt.missing.contains(index) && !attempt.silent.contains(index))
        };
        let passed = |(meter, offender): (&MeterId, &Offender)| {
            let due = !offender.spoils_sums() && offender.is_on_trial(attempt.slot);
            (due && revealed(meter)).then(|| meter.clone())
        };
        let passed: Vec<MeterId> = self.meters.iter().filter_map(passed).collect();
        passed.iter().for_each(|meter| self.release(meter, notices));
    }

    /// A sum decoded: whoever is in it did not spoil it.
    fn decoded(&mut self, attempt: &Attempt, notices: &mut Vec<Notice>) {
        let (slot, list, missing) = (attempt.slot, attempt.list(), &attempt.missing);
        let on_trial: Vec<MeterId> = self
            .meters
            .iter()
            .filter(|(meter, known)| known.spoils_sums() && known.is_on_trial(slot) && took_part(meter, list, missing))
            .map(|(meter, _)| meter.clone())
            .collect();
        for meter in on_trial {
            self.passed(&meter, attempt, notices);
        }
        // It failed with these in an earlier attempt of this slot, and decodes without them.
        for (meter, offender) in &mut self.meters {
            if offender.spoils_sums()
                && offender.last == slot
                && offender.failures > 1
                && !took_part(meter, list, missing)
            {
                offender.proofs += 1;
                self.changed = true;
            }
        }
        if let Some(search) = self.search.as_mut().filter(|search| search.is_looking()) {
            self.changed = true;
            let known = |meter: &MeterId| self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums);
            for meter in search.decoded(list, missing, known) {
                let slots = slot.0.saturating_sub(search.since.0);
                notices.push(Notice::SpoilerFound { meter: meter.clone(), slots });
                let known =
                    self.meters.entry(meter.clone()).or_insert_with(|| Offender::new(Offence::SpoilsSums, slot));
                (known.offence, known.last) = (Offence::SpoilsSums, slot);
                known.quarantine(slot, LONGEST_WAIT);
                let (offence, next_trial) = (Offence::SpoilsSums, slot.plus(known.wait + 1));
                notices.push(Notice::Quarantined { meter, offence, next_trial });
            }
        }
    }

    /// A sum decoded with a member on trial in it.
    fn passed(&mut self, meter: &MeterId, attempt: &Attempt, notices: &mut Vec<Notice>) {
        if let Some((other, stage)) = self.pair_of(meter) {
            self.pair_passed(meter, &other, stage, attempt.slot, notices);
            return;
        }
        let known = |meter: &MeterId| self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums);
        let verdict = match &mut self.search {
            Some(search) if search.accused() == Some(meter) => {
                search.decoded_with_accused(attempt.list(), &attempt.missing, known)
            }
            Some(_) | None => Verdict::Cleared,
        };
        self.changed = true;
        match verdict {
            Verdict::Cleared => self.release(meter, notices),
            Verdict::Narrowed => {
                if let Some(offender) = self.meters.get_mut(meter.as_str()) {
                    offender.next_trial = Some(attempt.slot.plus(2));
                }
            }
            Verdict::Pair(other) => {
                self.search = None;
                for (one, with) in [(meter, &other), (&other, meter)] {
                    let known = self.meters.entry(one.clone());
                    let known = known.or_insert_with(|| Offender::new(Offence::SpoilsSums, attempt.slot));
                    known.offence = Offence::SuspectedWith(with.clone());
                    known.last = attempt.slot;
                    known.quarantine(attempt.slot, LONGEST_UNSETTLED_WAIT);
                }
                self.align_pair(meter, &other);
                for one in [meter, &other] {
                    self.announce(one, Timestamp::from_millis(0), notices);
                }
            }
        }
    }

    /// Whom a meter is suspected with, and how far their trial has come.
    fn pair_of(&self, meter: &MeterId) -> Option<(MeterId, u8)> {
        let offender = self.meters.get(meter.as_str())?;
        match &offender.offence {
            Offence::SuspectedWith(other) => Some((other.clone(), offender.stage)),
            Offence::Silent | Offence::SpoilsSums => None,
        }
    }

    /// A sum decoded in the trial of a pair: with one of them, with the other, and at last with both. Then they do no harm, or
    /// only when nobody is left out.
    fn pair_passed(&mut self, meter: &MeterId, other: &MeterId, stage: u8, slot: Slot, notices: &mut Vec<Notice>) {
        self.changed = true;
        for one in [meter, other] {
            let Some(offender) = self.meters.get_mut(one.as_str()) else { continue };
            if stage < BOTH {
                (offender.stage, offender.next_trial) = (stage + 1, Some(slot.plus(1)));
            } else {
                self.meters.remove(one.as_str());
                notices.push(Notice::Released { meter: one.clone() });
                self.search.get_or_insert_with(|| Search::watching(slot));
            }
        }
    }

    /// Gives a pair one trial.
    fn align_pair(&mut self, one: &MeterId, other: &MeterId) {
        let of = |meter: &MeterId| {
            self.meters.get(meter.as_str()).map(|known| (known.wait, known.next_trial, known.failures))
        };
        let longest = of(one).max(of(other));
        for meter in [one, other] {
            if let (Some(known), Some(longest)) = (self.meters.get_mut(meter.as_str()), longest) {
                (known.wait, known.next_trial, known.failures) = longest;
            }
        }
    }

    /// A sum failed although everybody revealed: somebody who is in it spoiled it.
    fn spoiled(&mut self, attempt: &Attempt, now: Timestamp, notices: &mut Vec<Notice>) {
        let (slot, list, missing) = (attempt.slot, attempt.list(), &attempt.missing);
        self.changed = true;
        if !attempt.last {
            let count = self.repeated_until(slot);
            self.repeated = (if count > 0 { self.repeated.0 } else { slot }, count + 1);
        }
        let known = self.meters.iter().filter(|(_, known)| known.spoils_sums());
        let (in_it, left_out): (Vec<_>, Vec<_>) =
            known.map(|(meter, _)| meter.clone()).partition(|meter| took_part(meter, list, missing));
        self.clear(&left_out, notices);
        if in_it.is_empty() {
            self.search_on(&left_out, attempt, notices);
            return;
        }
        if let (Some(search), Some(meter)) = (&mut self.search, in_it.first()) {
            search.failed_with(meter, list, missing);
        }
        for meter in self.most_suspicious(in_it, slot) {
            let known = |meter: &MeterId| self.spoils_sums(meter);
            let alone = self.search.as_ref().is_some_and(|search| search.leaves_only(&meter, list, known));
            let Some(offender) = self.meters.get_mut(meter.as_str()) else { continue };
            let accused = self.search.as_ref().and_then(Search::accused) == Some(&meter);
            offender.alone |= alone;
            offender.failures = offender.failures.saturating_add(1);
            offender.last = slot;
            let settled = offender.offence == Offence::SpoilsSums && (offender.alone || !accused);
            offender.quarantine(slot, if settled { LONGEST_WAIT } else { LONGEST_UNSETTLED_WAIT });
            self.announce(&meter, now, notices);
        }
    }

    /// Of the known who were in a failed sum: those on trial, or else the one with the most failures and whom it is suspected
    /// with.
    fn most_suspicious(&self, in_it: Vec<MeterId>, slot: Slot) -> Vec<MeterId> {
        let of = |meter: &MeterId| self.meters.get(meter.as_str());
        let on_trial = |meter: &MeterId| of(meter).is_some_and(|offender| offender.is_on_trial(slot));
        let some_on_trial = in_it.iter().any(on_trial);
        let rank = |meter: &MeterId| of(meter).map(|offender| (on_trial(meter), offender.failures));
        let Some(worst) = in_it.iter().max_by_key(|meter| rank(meter)).cloned() else { return in_it };
        let with = Offence::SuspectedWith(worst.clone());
        let blamed = |meter: &MeterId| {
            *meter == worst
                || (some_on_trial && on_trial(meter))
                || of(meter).is_some_and(|known| known.offence == with)
        };
        in_it.into_iter().filter(|meter| blamed(meter)).collect()
    }

    /// Starts a search, or goes on with it, after a failed sum that nobody known was in.
    fn search_on(&mut self, left_out: &[MeterId], attempt: &Attempt, notices: &mut Vec<Notice>) {
        let slot = attempt.slot;
        if self.search.as_ref().is_none_or(|search| search.may_begin(slot)) {
            let found = self.search.as_ref().and_then(Search::accused).is_some_and(|meter| self.spoils_sums(meter));
            self.search.take_if(|search| found || search.starts_over(slot));
            notices.push(Notice::SearchStarted { slot });
        }
        let known = |meter: &MeterId| self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums);
        let (list, missing) = (attempt.list(), &attempt.missing);
        let most = list.params().max_missing();
        let held = left_out.iter().filter(|meter| known(meter)).count();
        let room = most.saturating_sub(u16::try_from(held).unwrap_or(u16::MAX));
        let search = self.search.get_or_insert_with(|| Search::new(slot));
        if search.failed(slot, list, missing, room, known) {
            notices.push(Notice::CannotBeFound { members: list.params().members(), max_missing: most });
        }
    }

    /// If only one member spoils sums, it is none of those who were left out of a failed one: they are released, unless it is
    /// proved that they do. Of a pair it was the other.
    fn clear(&mut self, left_out: &[MeterId], notices: &mut Vec<Notice>) {
        for meter in left_out {
            let Some(cleared) = self.meters.get(meter.as_str()).filter(|offender| offender.proofs < PROOFS) else {
                continue;
            };
            if let Offence::SuspectedWith(other) = cleared.offence.clone()
                && let Some(other) = self.meters.get_mut(other.as_str())
            {
                other.offence = Offence::SpoilsSums;
            }
            self.meters.remove(meter.as_str());
            notices.push(Notice::Released { meter: meter.clone() });
        }
    }

    /// Forgets what is long past.
    fn forget(&mut self, slot: Slot) {
        let old = |last: Slot| slot.0 >= last.0 + FORGOTTEN_AFTER || last > slot;
        let before = self.meters.len();
        self.meters.retain(|_, offender| offender.excluded_until.is_some() || !old(offender.last));
        let searched = self.search.is_some();
        self.search.take_if(|search| old(search.last));
        self.changed |= before != self.meters.len() || searched != self.search.is_some();
    }
}

/// Whether a meter is a member of the list, and not missing.
fn took_part(meter: &MeterId, list: &MembershipList, missing: &MemberSet) -> bool {
    list.index_of(meter.as_str()).is_some_and(|index| !missing.contains(index))
}
