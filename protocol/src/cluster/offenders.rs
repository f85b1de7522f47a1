//! Members that spoil the cluster's slots, and for how long each is left out (`protocol.md 4`, "Whom the gateway leaves
//! out").
//!
//! Leaving a member out means naming it in S, or forming a list without it: nothing that a meter could not check before.

mod choice;
mod offender;
mod record;
mod search;
mod several;
mod sums;

use std::collections::{BTreeMap, BTreeSet};

use super::open_slot::Attempt;
use super::{ClusterConfig, Notice};
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::{Slot, Timestamp};
use offender::EXCLUDED_FROM_WAIT;
pub use offender::{Offence, Offender};
use search::Search;
use several::{Limits, Several};

/// The longest quarantine before a trial, in slots.
const LONGEST_WAIT: u64 = 144;

/// After how many slots without an offence, or without a failed sum, it is forgotten.
const FORGOTTEN_AFTER: u64 = 2 * LONGEST_WAIT;

/// How many members are remembered, so that the entry in the store stays small.
const MOST_OFFENDERS: usize = 10_000;

/// How many times in a row a member was shown to spoil sums before a failed sum without it means that there is another one.
const PROOFS: u64 = 3;

/// The last stage of the trial of a pair.
const BOTH: u8 = 2;

/// What a cluster knows of members that spoil slots. It is kept by meter, so that it outlives lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offenders {
    meters: BTreeMap<MeterId, Offender>,
    search: Option<Search>,
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

    /// Returns whether the search was given up, because too few members may be left out.
    pub(super) fn is_given_up(&self) -> bool {
        self.search.as_ref().is_some_and(Search::is_given_up)
    }

    /// The search for several members that spoil sums, while it goes on.
    fn several(&self) -> Option<&Several> {
        self.search.as_ref().filter(|search| search.is_looking())?.several.as_ref()
    }

    /// Returns whom lists are formed without for some slots, to find who spoils sums.
    pub(super) fn away(&self) -> Option<&BTreeSet<MeterId>> {
        self.several().map(|several| &several.away).filter(|away| !away.is_empty())
    }

    /// Returns among how many members all those are who spoil sums; 0 as long as no sum shows it.
    pub(super) fn suspects(&self) -> usize {
        self.several().map_or(0, Several::suspects)
    }

    /// Returns whom lists are formed without, if enough members remain: for their offences, the worst first, then to search.
    pub(super) fn left_out_of_lists(&self) -> Vec<&MeterId> {
        let mut excluded: Vec<_> = self.meters.iter().filter(|(_, known)| known.excluded_until.is_some()).collect();
        excluded.sort_by_key(|(_, offender)| std::cmp::Reverse(offender.failures));
        excluded.into_iter().map(|(meter, _)| meter).chain(self.away().into_iter().flatten()).collect()
    }

    /// What the search may do, in a cluster of all who are in the list or left out of it to search.
    fn limits(&self, list: &MembershipList, config: &ClusterConfig) -> Limits {
        let held = self.meters.values().filter(|known| known.spoils_sums() && known.next_trial.is_some()).count();
        let everybody = self.several().map_or(0, |several| several.everybody.len());
        let members = u16::try_from(everybody).unwrap_or(u16::MAX).max(list.params().members());
        let size = list.members().iter().filter_map(Enrolment::certified_size).max();
        Limits::new(config, members, size, held)
    }

    /// Whether a meter is known to spoil sums, or suspected of it.
    fn spoils_sums(&self, meter: &MeterId) -> bool {
        self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums)
    }

    /// Whether it is shown often enough that sums fail with a meter and decode without it.
    fn is_proved(&self, meter: &MeterId) -> bool {
        self.meters.get(meter.as_str()).is_some_and(|offender| offender.proofs >= PROOFS)
    }

    /// Returns whether something changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Learns from an attempt that came to its end, after which so many retries are `left`; returns what an operator should
    /// know.
    pub(super) fn observe(
        &mut self,
        attempt: &Attempt,
        config: &ClusterConfig,
        left: u64,
        now: Timestamp,
    ) -> Vec<Notice> {
        let list = attempt.list();
        let away = self.away().cloned();
        let mut notices = Vec::new();
        // When most did not reveal it was nobody's fault: the broker or the network was away.
        if !attempt.most_silent {
            for member in attempt.silent.iter() {
                if let Some(member) = list.member(member) {
                    self.was_silent(member.id(), attempt.slot, left, now, &mut notices);
                }
            }
            self.release_who_revealed(attempt, &mut notices);
        }
        match attempt.decoded {
            Some(true) => self.decoded(attempt, &mut notices),
            Some(false) => self.spoiled(attempt, config, now, &mut notices),
            None => {}
        }
        if attempt.decoded.is_some() {
            self.decide_list(attempt, config);
        }
        self.forget(attempt.slot);
        if self.away() != away.as_ref() {
            let left_out = u16::try_from(self.away().map_or(0, BTreeSet::len)).unwrap_or(u16::MAX);
            notices.push(Notice::SearchesByLists { left_out });
        }
        notices
    }

    /// Decides whom the next list is formed without, while several members are looked for.
    fn decide_list(&mut self, attempt: &Attempt, config: &ClusterConfig) {
        if self.several().is_none() {
            return;
        }
        let limits = self.limits(attempt.list(), config);
        let known = |meter: &MeterId| self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums);
        if let Some(several) = self.search.as_mut().and_then(|search| search.several.as_mut()) {
            several.decide(attempt.slot, attempt.list(), &limits, known);
            self.changed = true;
        }
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

    fn was_silent(&mut self, meter: &MeterId, slot: Slot, left: u64, now: Timestamp, notices: &mut Vec<Notice>) {
        self.changed = true;
        let Some(offender) = self.meters.get_mut(meter.as_str()) else {
            if self.meters.len() < MOST_OFFENDERS {
                let mut offender = Offender::new(Offence::Silent, slot);
                // Without a retry the first time has cost a slot, and the second would cost another.
                if left == 0 {
                    offender.quarantine(slot, LONGEST_WAIT);
                }
                self.meters.insert(meter.clone(), offender);
            }
            return;
        };
        offender.failures = offender.failures.saturating_add(1);
        offender.last = slot;
        if left == 0 {
            offender.wait = offender.wait.max(EXCLUDED_FROM_WAIT / 2);
        }
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
