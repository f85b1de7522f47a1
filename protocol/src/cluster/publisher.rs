//! The lists that a gateway publishes: when a new one is formed, which of them are held, and what the broker retains.

mod draft;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::offenders::Offenders;
use super::open_slot::OpenSlot;
use super::outputs::{Outputs, Turn};
use super::own_list::OwnList;
use super::reports::Reports;
use super::retained::{Form, Retained};
use super::roster::Roster;
use super::{CannotForm, ClusterConfig, Forget, ListRecord, Notice, Record, Rejection};
use crate::certificate::{Certificate, Signatures};
use crate::enrolment::{Enrolment, MAX_AHEAD_SECONDS};
use crate::ids::MeterId;
use crate::keys::{AgreementSecret, ListHash};
use crate::membership::{ListError, MAX_LIST_AHEAD_SECONDS, MembershipList};
use crate::protection::{GATEWAY_PERIOD, Protection};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::{ListStatement, list_name};
use draft::Draft;

/// The enrolled meters of a cluster and the lists that are formed of them.
#[derive(Debug)]
pub(super) struct Publisher {
    config: Arc<ClusterConfig>,
    certificate: Certificate,
    pub(super) roster: Roster,
    /// Published lists with an open or future slot, by epoch.
    lists: BTreeMap<u64, Arc<OwnList>>,
    newest: Option<Newest>,
    pub(super) retained: Retained,
    reports: Reports,
    /// The epoch that could not be renewed: tried again when the members change.
    renewal_failed: Option<u64>,
    /// Whether the next list does not wait for the interval: the newest names a member that has been denied since, or others
    /// are left out of lists to find who spoils sums.
    urgent: bool,
}

/// The list of the highest epoch ever published or taken over.
#[derive(Debug, Clone, Copy)]
struct Newest {
    epoch: u64,
    /// What the next list names as the one before it.
    hash: ListHash,
    /// `None` if it was taken over or cannot be used any more: its successor need not wait.
    published_at: Option<Timestamp>,
    /// The T that the cluster's lists have allowed for.
    protection: Option<Protection>,
}

impl Publisher {
    pub(super) fn new(config: Arc<ClusterConfig>, certificate: Certificate, now: Timestamp) -> Self {
        Self {
            roster: Roster::new(config.roster.clone(), now),
            config,
            certificate,
            lists: BTreeMap::new(),
            newest: None,
            retained: Retained::new(),
            reports: Reports::default(),
            renewal_failed: None,
            urgent: false,
        }
    }

    /// Published lists with an open or future slot, by epoch.
    pub(super) fn lists(&self) -> impl DoubleEndedIterator<Item = &Arc<OwnList>> {
        self.lists.values()
    }

    /// The list in force at an instant: the highest epoch that covers it.
    pub(super) fn in_force_at(&self, at: Timestamp) -> Option<&Arc<OwnList>> {
        self.lists().rev().find(|own| own.starts() <= at && at < own.ends())
    }

    /// Whether a list begins so late that no meter accepts it now.
    pub(super) fn is_ahead(&self, now: Timestamp) -> bool {
        self.lists().any(|own| now.plus_secs(MAX_LIST_AHEAD_SECONDS) < own.starts())
    }

    /// The newest list, if it was published here and is not over.
    fn newest_own(&self) -> Option<&Arc<OwnList>> {
        self.newest.and_then(|newest| self.lists.get(&newest.epoch))
    }

    /// The first slot that ends after an instant, its list, and when it opens: at its end, less the tolerated clock skew.
    pub(super) fn next_slot(&self, opened_until: Timestamp) -> Option<(Slot, Arc<OwnList>, Timestamp)> {
        let next = self.lists().filter_map(|own| {
            let params = own.list.params();
            let reached = params.slot_at(opened_until.plus_secs(params.terms().slot_seconds - 1));
            let slot = reached.max(own.list.from_slot());
            let start = params.slot_start(slot);
            let in_force = self.in_force_at(start).is_some_and(|force| Arc::ptr_eq(force, own));
            let skew = self.config.clock_skew_seconds.min(params.terms().slot_seconds / 2);
            let opens = Timestamp::from_secs(params.slot_end(slot).as_secs() - skew);
            (in_force && own.list.covers(slot)).then(|| (slot, own.clone(), opens))
        });
        next.min_by_key(|(_, _, opens)| *opens)
    }

    /// Erases lists, and with them keys, after their last slot or once later ones cover all the rest. Of the newest, the
    /// list itself stays: the next one continues it.
    pub(super) fn forget_lists(
        &mut self,
        opened_until: Timestamp,
        is_open: impl Fn(u64) -> bool,
        now: Timestamp,
        outputs: &mut Outputs,
    ) {
        let over = |(&epoch, own): (&u64, &Arc<OwnList>)| {
            let mut later = self.lists.range(epoch + 1..).map(|(_, later)| later);
            let replaced = later.any(|later| later.ends() >= own.ends() && later.starts() <= opened_until);
            let expired = own.list.params().slot_expiry(own.list.to_slot()) <= now;
            ((replaced || expired) && !is_open(epoch)).then_some(epoch)
        };
        let ended: Vec<u64> = self.lists.iter().filter_map(over).collect();
        for epoch in ended {
            let Some(own) = self.lists.remove(&epoch) else { continue };
            match self.newest {
                Some(Newest { epoch: newest, protection, .. }) if newest == epoch => {
                    let (published_at, bytes) = (own.published_at, own.list.bytes().clone());
                    let record = ListRecord { epoch, published_at, bytes, secret: None, protection };
                    outputs.persist(Record::List(record));
                }
                Some(_) | None => outputs.forget(Forget::List(epoch)),
            }
        }
    }

    /// When a list should be formed, because members changed or the newest one runs out, or published again, because the
    /// broker has lost it. Never without a connection, nor before the retained list was seen.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let listening = self.retained.listening()?;
        let again = self.retained.is_due().then_some(listening);
        self.forming_due().into_iter().chain(again).min().map(|due| due.max(listening))
    }

    fn forming_due(&self) -> Option<Timestamp> {
        let interval = if self.urgent { 0 } else { self.config.roster.min_interval_seconds };
        let published = self.newest.and_then(|newest| newest.published_at);
        let wanted = self.roster.list_wanted();
        let change =
            wanted.map(|wanted| published.map_or(wanted, |published| wanted.max(published.plus_secs(interval))));
        let renewal = self.lists().next_back().filter(|own| self.renewal_failed != Some(own.list.epoch()));
        change.into_iter().chain(renewal.map(|own| own.renewal())).min()
    }

    /// Forms a list if one is due, and publishes the newest again if the broker has lost it.
    pub(super) fn publish_lists(&mut self, offenders: &Offenders, turn: &mut Turn<'_>) {
        if self.forming_due().is_some_and(|due| due <= turn.now) {
            self.form_list(offenders, turn);
        }
        for form in Form::ALL {
            if self.retained.take_due(form)
                && let Some(own) = self.newest_own()
            {
                turn.outputs.publish(form.channel(), own.form(form).clone());
                self.retained.sent_again(turn.now);
            }
        }
    }

    fn form_list(&mut self, offenders: &Offenders, turn: &mut Turn<'_>) {
        for meter in self.roster.expire(turn.now) {
            turn.outputs.forget(Forget::Enrolment(meter));
        }
        self.roster.settled();
        let formed = match self.draft(offenders, turn.now) {
            Ok(Some(draft)) => self.publish(draft, turn),
            Ok(None) => Ok(()),
            Err(cannot) => Err(cannot),
        };
        self.renewal_failed = formed.is_err().then(|| self.lists.keys().next_back().copied()).flatten();
        if let Err((members, reason)) = formed {
            turn.outputs.notice(Notice::CannotForm { members, reason });
        }
    }

    fn publish(&mut self, draft: Draft, turn: &mut Turn<'_>) -> Result<(), (u16, CannotForm)> {
        let Draft { epoch, previous: (previous_epoch, previous), from_slot, to_slot, members, .. } = draft;
        let count = draft.params.members();
        let secret = Arc::new(AgreementSecret::generate(turn.rng));
        let issuers: BTreeSet<_> = members.iter().map(|member| *member.authority()).collect();
        let statement = ListStatement {
            cluster: self.config.cluster.clone(),
            epoch,
            previous_epoch,
            previous,
            gateway: secret.public(),
            meter_authorities: issuers.into_iter().collect(),
            gateway_authority: self.certificate.authority,
            from_slot,
            to_slot,
            terms: *draft.params.terms(),
            enrolments: members.iter().map(Enrolment::bytes).collect(),
            holders: draft.holders,
        };
        let topic = GatewayChannel::Membership.topic(&self.config.cluster);
        let bytes: Arc<[u8]> = statement.seal((&self.config.identity, &self.config.certificate), &topic).into();
        let protection = Some(self.protection_after(draft.params.max_malicious(), turn.now));
        let record = ListRecord { epoch, published_at: turn.now, bytes, secret: Some(secret), protection };
        let followed = self.agreed_epoch().is_some();
        let before = self.newest_without_keys();
        self.open_list(&record).map_err(|error| (count, error.into()))?;
        turn.outputs.persist(Record::List(record));
        if let Some(epoch) = before {
            turn.outputs.forget(Forget::List(epoch));
        }
        if let Some(own) = self.newest_own() {
            Form::ALL.into_iter().for_each(|form| turn.outputs.publish(form.channel(), own.form(form).clone()));
        }
        self.reports.settle(followed, |reported| previous_epoch < reported && reported != epoch, turn.now);
        self.urgent = false;
        self.retained.published(turn.now);
        turn.outputs.notices(draft.no_committee.map(Notice::NoCommittee));
        turn.outputs.notice(Notice::ListPublished { epoch, members: count, from_slot, to_slot });
        Ok(())
    }

    /// The epoch of the newest list, if nothing but its record is left here.
    fn newest_without_keys(&self) -> Option<u64> {
        self.newest.map(|newest| newest.epoch).filter(|epoch| !self.lists.contains_key(epoch))
    }

    /// The newest epoch that enough members say they know, and that the newest list here denies.
    fn agreed_epoch(&self) -> Option<u64> {
        self.reports.agreed(self.roster.candidates())
    }

    /// Returns the epoch of a list of this gateway's that is held.
    pub(super) fn epoch_of(&self, hash: [u8; 8]) -> Option<u64> {
        self.lists.iter().find(|(_, own)| own.list.hash().prefix() == hash).map(|(&epoch, _)| epoch)
    }

    /// Takes note of the newest epoch that a member knows. If the newest list here says that there was no such list, because
    /// this gateway lost its records, members refuse it: once enough of them say so another list follows, which they accept.
    pub(super) fn note_epoch(&mut self, meter: &MeterId, epoch: u64, now: Timestamp) {
        let newest = self.newest.map_or(0, |newest| newest.epoch);
        let previous = self.newest_own().map_or(newest, |own| own.list.previous_epoch());
        let ahead = epoch > now.as_secs().saturating_add(MAX_AHEAD_SECONDS);
        if epoch <= previous || epoch == newest || ahead {
            return;
        }
        self.reports.note(meter, epoch, now);
        if self.newest.is_some() && self.agreed_epoch().is_some() && self.roster.list_wanted().is_none() {
            self.roster.change(now);
        }
    }

    /// Takes note of the least T that a member accepts. A gateway that lost its records states less, and members refuse that:
    /// another list follows once enough of them have said so.
    pub(super) fn note_malicious(&mut self, meter: MeterId, malicious: u16, now: Timestamp) {
        self.reports.note_malicious(meter, malicious);
        let Some(newest) = self.newest_own().map(|own| *own.list.params()) else { return };
        let wanted = self.config.params_keeping(newest.members(), self.asked_malicious());
        if wanted.is_ok_and(|wanted| wanted.max_malicious() > newest.max_malicious()) {
            self.roster.change(now);
        }
    }

    fn asked_malicious(&self) -> u16 {
        self.reports.asked_malicious(self.roster.candidates())
    }

    fn protection(&self) -> Option<Protection> {
        self.newest.and_then(|newest| newest.protection)
    }

    /// Returns what lists have allowed for after one with this T. Members that ask for it remember a step more.
    fn protection_after(&self, malicious: u16, now: Timestamp) -> Protection {
        let memory = self.protection().map(|memory| memory.lowered(now, GATEWAY_PERIOD).after(malicious, now));
        let memory = memory.unwrap_or_else(|| Protection::new(malicious, now));
        let asked = self.asked_malicious().min(malicious);
        if memory.least() < asked { Protection::of_least(asked, now) } else { memory }
    }

    /// Asks for a list that does not wait for the interval.
    pub(super) const fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Hurries if the newest list names somebody who is not to be in lists by now.
    pub(super) fn hurry_without(&mut self, offenders: &Offenders) {
        let away: BTreeSet<&MeterId> = offenders.search().away().collect();
        let unwanted = |meter: &MeterId| !self.roster.allows(meter) || away.contains(meter);
        let names_one = |own: &Arc<OwnList>| own.list.members().iter().any(|member| unwanted(member.id()));
        self.urgent = self.newest_own().is_some_and(names_one);
    }

    /// Admits a meter, for the lists that follow.
    pub(super) fn admit(
        &mut self,
        enrolment: Enrolment,
        now: Timestamp,
        outputs: &mut Outputs,
    ) -> Result<(), Rejection> {
        let (meter, bytes) = (enrolment.id().clone(), enrolment.bytes().into());
        self.roster.admit(enrolment, now)?;
        outputs.persist(Record::Enrolment { meter, bytes });
        Ok(())
    }

    /// Drops members that were silent in a closed slot once too often. Takes dropped ones back that were heard, from the
    /// entries of its list: nobody else would say that they are there, because they are listed and see no reason to enrol.
    pub(super) fn count_heard(&mut self, slot: &OpenSlot, now: Timestamp, outputs: &mut Outputs) {
        let dropped = self.roster.count_silence(slot, now);
        if let Some(members) = u16::try_from(dropped.len()).ok().filter(|&members| members > 0) {
            dropped.into_iter().for_each(|meter| outputs.forget(Forget::Enrolment(meter)));
            outputs.notice(Notice::Dropped { members });
        }
        let heard = slot.heard().filter(|(member, heard)| *heard && self.roster.may_return(member.id()));
        let absent: Vec<&Enrolment> = heard.map(|(member, _)| member).collect();
        let returned = absent.into_iter().filter(|known| self.admit((*known).clone(), now, outputs).is_ok()).count();
        if let Some(members) = u16::try_from(returned).ok().filter(|&members| members > 0) {
            outputs.notice(Notice::Readmitted { members });
        }
    }

    /// Takes an enrolment from the gateway's own records; one that the rules no longer allow is forgotten.
    pub(super) fn reopen_enrolment(&mut self, meter: MeterId, bytes: Arc<[u8]>, now: Timestamp, outputs: &mut Outputs) {
        let ClusterConfig { cluster, authorities, .. } = &*self.config;
        let known = Enrolment::own(bytes, cluster, authorities, Signatures::Stored).ok();
        if known.and_then(|known| self.roster.admit_again(known, now).ok()).is_none() {
            outputs.forget(Forget::Enrolment(meter));
        }
    }

    /// Checks everything of a list but its signatures, which were checked when the members enrolled, and holds it.
    fn open_list(&mut self, record: &ListRecord) -> Result<(), ListError> {
        let ClusterConfig { cluster, authorities, .. } = &*self.config;
        let list = MembershipList::read(&record.bytes, cluster, authorities, Signatures::Stored)?;
        let (epoch, hash) = (list.epoch(), *list.hash());
        // Requests verify under the key that signed the list: with another one its slots cannot be recovered.
        let ours = *list.gateway_identity() == self.config.identity.public();
        if let Some(secret) = record.secret.as_ref().filter(|_| ours) {
            let own = OwnList::new(list, secret, record.published_at).ok_or(ListError::LowOrder)?;
            self.roster.keep_in(&own.list);
            self.lists.insert(record.epoch, Arc::new(own));
        }
        self.continue_after(record, epoch, hash, record.secret.as_ref().map(|_| record.published_at));
        Ok(())
    }

    /// Takes the list of a record as the newest, if it is. A record that leaves an epoch out is followed by a list that names
    /// no list before it.
    fn continue_after(&mut self, record: &ListRecord, epoch: u64, hash: ListHash, published_at: Option<Timestamp>) {
        if self.newest.is_none_or(|newest| newest.epoch < record.epoch) {
            let hash = if record.epoch == epoch { hash } else { ListHash::NONE };
            self.newest = Some(Newest { epoch: record.epoch, hash, published_at, protection: record.protection });
        }
    }

    /// Takes a list from the gateway's own records. One that can no longer be used, because an authority was removed,
    /// still says which epoch and hash the next one continues: meters know them.
    pub(super) fn reopen_list(&mut self, mut record: ListRecord, now: Timestamp, outputs: &mut Outputs) {
        // The next one need not wait for a time that never was.
        record.published_at = record.published_at.min(now);
        if self.open_list(&record).is_ok() {
            return;
        }
        let Ok((epoch, hash)) = list_name(&record.bytes) else {
            return outputs.forget(Forget::List(record.epoch));
        };
        self.continue_after(&record, epoch, hash, None);
        if record.secret.is_some() {
            outputs.persist(Record::List(ListRecord { secret: None, ..record }));
        }
    }

    /// Looks at the retained short list. It says nothing that the whole one does not say: anything but our own is replaced.
    pub(super) fn found_short(&mut self, found: &[u8], now: Timestamp, outputs: &mut Outputs) {
        match self.newest_own() {
            Some(own) if *own.short == *found => self.retained.confirm(Form::Short),
            Some(_) | None => self.restore_retained(Form::Short, found, now, outputs),
        }
    }

    /// Looks at the retained list, which may be ahead of our own; one that is not, nor is our own, is replaced.
    pub(super) fn found_full(&mut self, found: &[u8], now: Timestamp, outputs: &mut Outputs) -> Result<(), Rejection> {
        if self.newest_own().is_some_and(|own| **own.list.bytes() == *found) {
            self.retained.confirm(Form::Full);
            return Ok(());
        }
        let taken = self.take_over(found, now, outputs);
        if !matches!(taken, Ok(true)) {
            self.restore_retained(Form::Full, found, now, outputs);
        }
        taken.map(drop)
    }

    /// Publishes the newest list again when it turns out that somebody replaced it on the broker, or erased it. What comes
    /// before the list itself has come back is older than the list.
    fn restore_retained(&mut self, form: Form, found: &[u8], now: Timestamp, outputs: &mut Outputs) {
        let Some(epoch) = self.newest.filter(|_| self.newest_own().is_some()).map(|newest| newest.epoch) else {
            return;
        };
        if self.retained.replace(form, now) {
            outputs.notice(Notice::ListOverwritten { epoch, erased: found.is_empty() });
        }
    }

    /// Takes over a list that is ahead of our own, because the cluster moved here or the store was restored from a back-up:
    /// its epoch and its members; the next epoch is ours. Returns whether it was ahead.
    fn take_over(&mut self, payload: &[u8], now: Timestamp, outputs: &mut Outputs) -> Result<bool, Rejection> {
        let known = self.lists.values().map(|own| &*own.list);
        let list = MembershipList::verify_after(known, payload, &self.config.cluster, &self.config.authorities)?;
        if Some(list.gateway()) != self.certificate.gateway().ok() {
            return Err(Rejection::OtherGateway);
        }
        // Meters refuse it too: nobody is led to use up epochs.
        if now.plus_secs(MAX_LIST_AHEAD_SECONDS) < list.params().slot_start(list.from_slot()) {
            return Err(Rejection::TooFarAhead);
        }
        let (found, hash) = (list.epoch(), *list.hash());
        let (epoch, hash) = match self.newest {
            Some(newest) if found < newest.epoch || (found == newest.epoch && hash == newest.hash) => return Ok(false),
            // Two gateways with one identity made an epoch each: leave one out, so that both halves accept the next.
            Some(newest) if found == newest.epoch => (found + 1, ListHash::NONE),
            Some(_) | None => (found, hash),
        };
        if let Some(epoch) = self.newest_without_keys() {
            outputs.forget(Forget::List(epoch));
        }
        let protection = Some(self.protection_after(list.params().max_malicious(), now));
        self.newest = Some(Newest { epoch, hash, published_at: None, protection });
        let (published_at, bytes) = (now, list.bytes().clone());
        outputs.persist(Record::List(ListRecord { epoch, published_at, bytes, secret: None, protection }));
        for enrolment in list.members() {
            // One that is older than the known one, or denied, is rightly left out.
            self.admit(enrolment.clone(), now, outputs).ok();
        }
        self.roster.change(now);
        outputs.notice(Notice::TakenOver { epoch: found });
        Ok(true)
    }
}
