//! Whom a slot leaves out, and whether a failed sum is asked for again.

use super::search::{self, Search};
use super::{BOTH, Offence, Offender, Offenders, took_part};
use crate::ids::MeterId;
use crate::member_set::MemberSet;
use crate::membership::MembershipList;
use crate::time::Slot;

/// How many retries are kept for members that are on no trial: without one to spare trials wait.
const KEPT_FROM_TRIALS: u64 = 2;

/// For how many slots a trial waits for a retry to spare. Then it is held without one, and may cost the slot: an honest member
/// must not stay out because others use up the retries.
const LONGEST_DELAY: u64 = 12;

/// How many members may be in quarantine at once although that is more than half of those who may be missing.
const LEAST_QUARANTINED: u16 = 3;

impl Offenders {
    /// Chooses S: the absent, then those who were silent in an earlier attempt of the slot and those who are denied, then
    /// who is in quarantine, then who is left out to search; never more than M. `left` retries are left.
    pub(in crate::cluster) fn choose(
        &self,
        slot: Slot,
        list: &MembershipList,
        absent: MemberSet,
        silent: &MemberSet,
        denied: impl Fn(&MeterId) -> bool,
        left: u64,
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
        leave_out(&mut self.quarantined(slot, list, left).into_iter());
        let room = most.saturating_sub(missing.len());
        let group = self.search.as_ref().filter(|search| self.wants_group(search, slot));
        let group = group.map(|search| search.choose(slot, list, &missing, room, |meter| self.spoils_sums(meter)));
        let both_on_trial = matches!(self.spoiler_on_trial(slot, list, left), Some((_, BOTH)));
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

    /// The members in quarantine, the worst first: at most half of those who may be missing, but at least three, so that
    /// several who were found are left out together. Without a retry each of them could cost the slot: then all are.
    fn quarantined(&self, slot: Slot, list: &MembershipList, left: u64) -> Vec<u16> {
        let trial = self.spoiler_on_trial(slot, list, left);
        let excused = |meter: &MeterId, offender: &Offender| match (&offender.offence, trial) {
            (Offence::Silent, _) => left > KEPT_FROM_TRIALS,
            (Offence::SpoilsSums, Some((trial, _))) => meter == trial,
            (Offence::SuspectedWith(other), Some((trial, stage))) => {
                (meter == trial && stage != 1) || (other == trial && stage != 0)
            }
            (Offence::SpoilsSums | Offence::SuspectedWith(_), None) => false,
        };
        // A sum is asked for again: without everybody who may have spoiled it.
        let again = self.meters.values().any(|offender| {
            offender.spoils_sums() && offender.last == slot && offender.failures > 1 && offender.is_waiting(slot)
        });
        let mut waiting: Vec<(u16, u32)> = self
            .meters
            .iter()
            .filter(|(meter, offender)| {
                offender.is_waiting(slot)
                    || (offender.is_on_trial(slot) && !excused(meter, offender))
                    || (again && offender.spoils_sums())
            })
            .filter_map(|(meter, offender)| Some((list.index_of(meter.as_str())?, offender.failures)))
            .collect();
        waiting.sort_by_key(|&(_, failures)| std::cmp::Reverse(failures));
        let most = list.params().max_missing();
        let most = if again || left == 0 { most } else { (most / 2).max(LEAST_QUARANTINED) };
        waiting.into_iter().take(most.into()).map(|(member, _)| member).collect()
    }

    /// Whose trial a slot is, of those who spoil sums: one at a time, and none while sums are tested.
    fn spoiler_on_trial(&self, slot: Slot, list: &MembershipList, left: u64) -> Option<(&MeterId, u8)> {
        if self.is_searching() {
            return None;
        }
        let delay = if left > KEPT_FROM_TRIALS { 0 } else { LONGEST_DELAY };
        let due = |(meter, offender): &(&MeterId, &Offender)| {
            let waited = offender.next_trial.is_none_or(|trial| trial.0.saturating_add(delay) <= slot.0);
            let due = offender.spoils_sums() && offender.is_on_trial(slot) && waited;
            due && list.index_of(meter.as_str()).is_some()
        };
        self.meters.iter().find(due).map(|(meter, offender)| (meter, offender.stage))
    }

    /// Returns whether a sum that failed is worth another attempt: who probably spoiled it is known, and will be left out.
    pub(in crate::cluster) fn may_repeat(&self, list: &MembershipList, missing: &MemberSet) -> bool {
        let explains =
            |(meter, offender): (&MeterId, &Offender)| offender.spoils_sums() && took_part(meter, list, missing);
        self.meters.iter().any(explains)
    }
}
