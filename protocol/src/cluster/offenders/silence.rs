//! Members that send readings and then do not reveal, and for how long each is left out.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Attempt, KEPT_FOR_SILENCE, Notice, Offence};
use crate::ids::MeterId;
use crate::membership::MembershipList;
use crate::time::{Slot, Timestamp};

/// The longest quarantine before a trial, in slots.
pub(super) const LONGEST_WAIT: u64 = 144;

/// After how many slots without an offence it is forgotten.
const FORGOTTEN_AFTER: u64 = 2 * LONGEST_WAIT;

/// How many members are remembered, so that the entry in the store stays small.
const MOST_METERS: usize = 10_000;

/// How long a quarantine has become when its member is left out of lists instead: three trials in a row have failed.
const EXCLUDED_FROM_WAIT: u64 = 16;

/// The longest time that a member is left out of lists, in days.
pub(super) const MOST_DAYS: u64 = 32;

/// How many members may be in quarantine at once although that is more than half of those who may be missing.
const LEAST_QUARANTINED: u16 = 3;

/// A member that did not reveal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silence {
    pub(super) since: Slot,
    pub(super) last: Slot,
    /// How many slots it spoiled.
    pub(super) failures: u32,
    /// While it is in quarantine, the slot in which it may take part again, on trial.
    pub(super) next_trial: Option<Slot>,
    pub(super) excluded_until: Option<Timestamp>,
    /// The length of its last quarantine, in slots.
    pub(super) wait: u64,
    /// For how many days it was last left out of lists.
    pub(super) days: u64,
}

impl Silence {
    const fn new(slot: Slot) -> Self {
        Self { since: slot, last: slot, failures: 1, next_trial: None, excluded_until: None, wait: 0, days: 0 }
    }

    /// Whether it is in quarantine and its trial has not come.
    fn is_waiting(&self, slot: Slot) -> bool {
        // With another length of slots the numbers start elsewhere: nobody waits for one that is far away.
        self.next_trial.is_some_and(|trial| slot < trial && trial.0 <= slot.0 + LONGEST_WAIT + 1)
    }

    /// Puts it into quarantine for twice as long as the last time.
    fn quarantine(&mut self, slot: Slot) {
        self.wait = (self.wait * 2).clamp(2, LONGEST_WAIT);
        self.next_trial = Some(slot.plus(self.wait + 1));
    }

    /// Was silent again: puts it into quarantine, and out of lists once trials do not help, or no retry is left for them.
    fn again(&mut self, slot: Slot, left: u64, now: Timestamp) -> Option<Timestamp> {
        (self.failures, self.last) = (self.failures.saturating_add(1), slot);
        if left == 0 {
            self.wait = self.wait.max(EXCLUDED_FROM_WAIT / 2);
        }
        self.quarantine(slot);
        if self.excluded_until.is_some() || (self.days == 0 && self.wait < EXCLUDED_FROM_WAIT) {
            return None;
        }
        self.days = (self.days * 2).clamp(1, MOST_DAYS);
        self.excluded_until = Some(now.plus_secs(self.days * 86_400));
        self.excluded_until
    }
}

/// Members that did not reveal, by meter, so that it outlives lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Silences(pub(super) BTreeMap<MeterId, Silence>);

impl Silences {
    /// Learns who revealed in an attempt and who did not, while `left` retries are left. When most did not it was nobody's fault: the broker or the network
    /// was away.
    pub(super) fn learn(&mut self, attempt: &Attempt, left: u64, now: Timestamp) -> Vec<Notice> {
        let mut notices = Vec::new();
        if attempt.most_silent {
            return notices;
        }
        for meter in attempt.silent.iter().filter_map(|member| attempt.list().member(member)).map(|member| member.id())
        {
            let Some(known) = self.0.get_mut(meter.as_str()) else {
                if self.0.len() < MOST_METERS {
                    let mut known = Silence::new(attempt.slot);
                    // Without a retry the first time has cost a slot, and the second would cost another.
                    if left == 0 {
                        known.quarantine(attempt.slot);
                        notices.push(Notice::Quarantined { meter: meter.clone(), offence: Offence::Silent });
                    }
                    self.0.insert(meter.clone(), known);
                }
                continue;
            };
            let excluded = known.again(attempt.slot, left, now);
            notices.push(Notice::Quarantined { meter: meter.clone(), offence: Offence::Silent });
            notices.extend(excluded.map(|until| Notice::LeftOutOfLists { meter: meter.clone(), until }));
        }
        for (meter, known) in &mut self.0 {
            let revealed = attempt.took_part(meter);
            if known.next_trial.is_some() && !known.is_waiting(attempt.slot) && revealed {
                known.next_trial = None;
                notices.push(Notice::Released { meter: meter.clone() });
            }
        }
        let old = |last: Slot| attempt.slot.0 >= last.0 + FORGOTTEN_AFTER || last > attempt.slot;
        self.0.retain(|_, known| known.excluded_until.is_some() || !old(known.last));
        notices
    }

    /// The members in quarantine, the worst first: at most half of those who may be missing, but at least three, so that
    /// several who were found are left out together; all of them if silence cannot be made up for by a retry.
    pub(super) fn quarantined(&self, slot: Slot, list: &MembershipList, left: u64) -> Vec<u16> {
        // A trial that fails costs a retry: without one to spare nobody is on trial.
        let no_trials = left <= KEPT_FOR_SILENCE;
        let waits = |known: &Silence| known.is_waiting(slot) || (no_trials && known.next_trial.is_some());
        let waiting = self.0.iter().filter(|(_, known)| waits(known));
        let mut waiting: Vec<(u16, u32)> =
            waiting.filter_map(|(meter, known)| Some((list.index_of(meter.as_str())?, known.failures))).collect();
        waiting.sort_by_key(|&(_, failures)| Reverse(failures));
        let most = list.params().max_missing();
        let most = if left == 0 { most } else { (most / 2).max(LEAST_QUARANTINED) };
        waiting.into_iter().take(most.into()).map(|(member, _)| member).collect()
    }

    /// Who is left out of lists, the worst first.
    pub(super) fn excluded(&self) -> Vec<&MeterId> {
        let mut excluded: Vec<_> = self.0.iter().filter(|(_, known)| known.excluded_until.is_some()).collect();
        excluded.sort_by_key(|(_, known)| Reverse(known.failures));
        excluded.into_iter().map(|(meter, _)| meter).collect()
    }

    /// Ends the time out of lists that is over; returns whether it ended for somebody.
    pub(super) fn end_exclusions(&mut self, slot: Slot, now: Timestamp) -> bool {
        let mut ended = false;
        for known in self.0.values_mut().filter(|known| known.excluded_until.is_some_and(|until| until <= now)) {
            (known.excluded_until, known.last, ended) = (None, slot, true);
        }
        ended
    }
}
