//! What sums say of who spoils them: those that decode, and those that do not.

use super::search::{Search, Verdict};
use super::{BOTH, LONGEST_WAIT, Offence, Offender, Offenders, PROOFS, took_part};
use crate::cluster::open_slot::Attempt;
use crate::cluster::{ClusterConfig, Notice};
use crate::ids::MeterId;
use crate::time::{Slot, Timestamp};

/// The longest quarantine of an accused member while others could still explain the failures.
const LONGEST_UNSETTLED_WAIT: u64 = 32;

impl Offenders {
    /// A sum decoded: whoever is in it did not spoil it.
    pub(super) fn decoded(&mut self, attempt: &Attempt, notices: &mut Vec<Notice>) {
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
            let found = search.decoded(list, missing, known);
            // Of several each was let in alone, and the sum failed.
            let proofs = if search.accused().is_some() { 0 } else { PROOFS };
            for meter in found {
                let slots = slot.0.saturating_sub(search.since.0);
                notices.push(Notice::SpoilerFound { meter: meter.clone(), slots });
                let known =
                    self.meters.entry(meter.clone()).or_insert_with(|| Offender::new(Offence::SpoilsSums, slot));
                (known.offence, known.last, known.proofs) = (Offence::SpoilsSums, slot, proofs);
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
    pub(super) fn spoiled(
        &mut self,
        attempt: &Attempt,
        config: &ClusterConfig,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) {
        let (slot, list, missing) = (attempt.slot, attempt.list(), &attempt.missing);
        self.changed = true;
        let known = self.meters.iter().filter(|(_, known)| known.spoils_sums());
        let (in_it, left_out): (Vec<_>, Vec<_>) =
            known.map(|(meter, _)| meter.clone()).partition(|meter| took_part(meter, list, missing));
        // With one in it that is proved to spoil sums, the failure says nothing of the others.
        let explained = in_it.iter().any(|meter| self.is_proved(meter));
        if !explained {
            self.clear(&left_out, notices);
        }
        if in_it.is_empty() {
            self.search_on(attempt, config, notices);
            return;
        }
        if let (Some(search), Some(meter)) = (&mut self.search, in_it.first())
            && (!explained || search.accused().is_some_and(|accused| in_it.contains(accused)))
        {
            search.failed_with(meter, list, missing);
        }
        for meter in self.most_suspicious(in_it, slot) {
            let known = |meter: &MeterId| self.spoils_sums(meter);
            let alone = self.search.as_ref().is_some_and(|search| search.leaves_only(&meter, list, known));
            let Some(offender) = self.meters.get_mut(meter.as_str()) else { continue };
            let accused = self.search.as_ref().and_then(Search::accused) == Some(&meter);
            offender.alone |= alone && attempt.blames_members;
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
    fn search_on(&mut self, attempt: &Attempt, config: &ClusterConfig, notices: &mut Vec<Notice>) {
        let slot = attempt.slot;
        if self.search.as_ref().is_none_or(|search| search.may_begin(slot)) {
            let found = self.search.as_ref().and_then(Search::accused).is_some_and(|meter| self.spoils_sums(meter));
            self.search.take_if(|search| found || search.starts_over(slot));
            notices.push(Notice::SearchStarted { slot });
        }
        let known = |meter: &MeterId| self.meters.get(meter.as_str()).is_some_and(Offender::spoils_sums);
        let (list, missing) = (attempt.list(), &attempt.missing);
        let limits = self.limits(list, config);
        let search = self.search.get_or_insert_with(|| Search::new(slot));
        if search.failed(slot, list, missing, &limits, known) {
            let params = list.params();
            notices.push(Notice::CannotBeFound { members: params.members(), max_missing: params.max_missing() });
        }
    }

    /// If only one member spoils sums, it is none of those who were left out of a failed one: they are released, unless it is
    /// proved that they do. Of a pair it was the other.
    fn clear(&mut self, left_out: &[MeterId], notices: &mut Vec<Notice>) {
        for meter in left_out {
            let Some(cleared) = self.meters.get(meter.as_str()).filter(|_| !self.is_proved(meter)) else { continue };
            if let Offence::SuspectedWith(other) = cleared.offence.clone()
                && let Some(other) = self.meters.get_mut(other.as_str())
            {
                other.offence = Offence::SpoilsSums;
            }
            self.meters.remove(meter.as_str());
            notices.push(Notice::Released { meter: meter.clone() });
        }
    }
}
