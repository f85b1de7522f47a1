//! What the next list says: its members, its parameters, its slots and the list before it.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::own_list::LEAD_SLOTS;
use super::super::{CannotForm, ClusterConfig, Offenders};
use super::Publisher;
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::keys::ListHash;
use crate::membership::fewest_of;
use crate::params::Params;
use crate::protection::GATEWAY_PERIOD;
use crate::scheme::committee::NoCommittee;
use crate::time::{Slot, Timestamp};

/// A list that is to be published.
pub(super) struct Draft {
    pub(super) epoch: u64,
    /// The epoch and hash that it names as those of the list before it.
    pub(super) previous: (u64, ListHash),
    pub(super) from_slot: Slot,
    pub(super) to_slot: Slot,
    pub(super) members: Vec<Enrolment>,
    pub(super) params: Params,
    pub(super) holders: Vec<u16>,
    /// Why it has no committee, where one was preferred.
    pub(super) no_committee: Option<NoCommittee>,
}

impl Publisher {
    /// Drafts the next list; `None` if it would say what the newest one says, which is not about to end. If none can be
    /// formed, says of how many members and why.
    pub(super) fn draft(&self, offenders: &Offenders, now: Timestamp) -> Result<Option<Draft>, (u16, CannotForm)> {
        let (terms, rules) = (&self.config.terms, &self.config.roster);
        let previous = self.predecessor();
        let epoch = now.as_secs().max(previous.0 + 1);
        // An epoch is never after the list's first slot: meters refuse lists that are too far ahead, and so no epoch is.
        let soonest = Slot(now.as_secs() / terms.slot_seconds).plus(LEAD_SLOTS);
        let from_slot = soonest.max(Slot(epoch.div_ceil(terms.slot_seconds)));
        let wanted = from_slot.plus(rules.list_slots.max(LEAD_SLOTS + 2) - 1);
        // In the last days of the gateway's certificate lists are as long as it lives.
        let to_slot = wanted.min(Slot((self.certificate.not_after() / terms.slot_seconds).saturating_sub(1)));
        let unsized_params = self.config.params_for(rules.min_members).map_err(|error| (0, error.into()))?;
        let eligible = self.roster.eligible().filter(|known| known.covers(&unsized_params, from_slot, to_slot));
        let eligible: Vec<Enrolment> = eligible.cloned().collect();
        let malicious = self.malicious_of(u16::try_from(eligible.len()).unwrap_or(u16::MAX), now);
        let eligible = self.without_excluded(offenders, eligible, malicious);
        let (config, members) = self.for_search(offenders, eligible, malicious, from_slot);
        let denies = self.agreed_epoch().is_some();
        let unchanged = self.unchanged(&config, &members, malicious);
        if !denies && unchanged && self.newest_own().is_some_and(|own| now < own.renewal()) {
            return Ok(None);
        }
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let certified = members.iter().filter_map(Enrolment::certified_size).max().map_or(0, fewest_of);
        let least = rules.min_members.max(certified);
        if count < least {
            return Err((count, CannotForm::TooFew { least }));
        }
        let (params, holders, no_committee) =
            config.params_of(&members, malicious, from_slot).map_err(|error| (count, error))?;
        Ok(Some(Draft { epoch, previous, from_slot, to_slot, members, params, holders, no_committee }))
    }

    /// The epoch and hash that the next list names as those of the list before it. Where members know a later list than this
    /// gateway does, it names an epoch after that, of a list that it does not know: none of them can say that it is wrong.
    fn predecessor(&self) -> (u64, ListHash) {
        let (newest, hash) = self.newest.map_or((0, ListHash::NONE), |newest| (newest.epoch, newest.hash));
        match self.agreed_epoch() {
            Some(reported) if reported > newest => (reported + 1, ListHash::NONE),
            Some(_) | None => (newest, hash),
        }
    }

    /// Returns the T of lists while so many members could be listed, some of whom a list may leave out. It is that of all of
    /// them, and no less than members accept after what the cluster had.
    fn malicious_of(&self, members: u16, now: Timestamp) -> u16 {
        let share = self.config.params_for(members).map_or(0, |params| params.max_malicious());
        let remembered = self.protection().map_or(0, |memory| memory.lowered(now, GATEWAY_PERIOD).least());
        share.max(remembered).max(self.asked_malicious())
    }

    /// Leaves out who is to be left out of lists, as long as enough members remain.
    fn without_excluded(&self, offenders: &Offenders, mut members: Vec<Enrolment>, malicious: u16) -> Vec<Enrolment> {
        for meter in offenders.excluded() {
            let fewer = u16::try_from(members.len().saturating_sub(1)).unwrap_or(u16::MAX);
            let others = members.iter().filter(|known| known.id() != meter);
            if self.config.allows(fewer, malicious, others.filter_map(Enrolment::certified_size).max()) {
                members.retain(|known| known.id() != meter);
            }
        }
        members
    }

    /// Returns what the search asks of the next list: that more of its members may be missing, and that some are left out of
    /// it, as many as leave a committee with everybody's T.
    fn for_search(
        &self,
        offenders: &Offenders,
        eligible: Vec<Enrolment>,
        malicious: u16,
        from_slot: Slot,
    ) -> (Arc<ClusterConfig>, Vec<Enrolment>) {
        let search = offenders.search();
        let everybody = u16::try_from(eligible.len()).unwrap_or(u16::MAX);
        if !search.wants_wide_lists() {
            return (self.config.clone(), eligible);
        }
        let away: Vec<&MeterId> = search.away().collect();
        for quarters in (1..=4).rev() {
            let away: BTreeSet<&MeterId> = away.iter().take(away.len() * quarters / 4).copied().collect();
            let members: Vec<Enrolment> = eligible.iter().filter(|known| !away.contains(known.id())).cloned().collect();
            let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
            let size = members.iter().filter_map(Enrolment::certified_size).max();
            let allowed = |config: &ClusterConfig| config.allows(count, malicious, size);
            let Some(config) = self.config.widened(count, malicious).filter(allowed) else { continue };
            let formed = || config.params_of(&members, malicious, from_slot);
            let committee = || formed().is_ok_and(|(_, holders, _)| !holders.is_empty());
            if away.is_empty() || committee() {
                return (Arc::new(config), members);
            }
        }
        let allowed = |config: &ClusterConfig| config.allows(everybody, malicious, None);
        let config = self.config.widened(everybody, malicious).filter(allowed);
        (config.map_or_else(|| self.config.clone(), Arc::new), eligible)
    }

    /// Whether a list of these members would say what the newest one says.
    fn unchanged(&self, config: &ClusterConfig, members: &[Enrolment], malicious: u16) -> bool {
        self.newest_own().is_some_and(|own| {
            let listed = own.list.members().iter().map(|member| (member.id(), member.seq()));
            let count = own.list.params().members();
            *own.list.gateway_identity() == self.config.identity.public()
                && config
                    .params_keeping(count, malicious)
                    .is_ok_and(|params| config.would_say(&params, own.list.params()))
                && listed.eq(members.iter().map(|known| (known.id(), known.seq())))
        })
    }
}
