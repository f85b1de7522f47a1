//! The lists a meter holds: what it checks for itself, and the keys it derives under each.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::enrolments::Listing;
use super::{AcceptedList, Conduct, Key, Meter, Notice, Output, Record, Refusal};
use crate::certificate::Signatures;
use crate::day::DAY_SECONDS;
use crate::evidence::{self, Contradiction};
use crate::keys::{ListHash, MacKey, SelfKey, StreamKey};
use crate::membership::{ListError, MAX_LIST_AHEAD_SECONDS, MembershipList};
use crate::noise::Sampler;
use crate::protection::{METER_PERIOD, Protection};
use crate::scheme::{committee, pairwise};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::StatusCode;

/// How many lists may be held at once. A gateway may publish one in every slot, each two slots ahead: then the open slot, the
/// running one and the next two have a list each, and a slow clock still holds the one before. One more is room.
const MAX_LISTS: usize = 6;

/// How many slots before its newest list ends a meter offers its enrolment again: the gateway may have left it out.
const OFFER_SLOTS: u64 = 2;

/// A list in force, or soon to be, with this meter's keys under it.
#[derive(Debug)]
pub(super) struct HeldList {
    pub(super) list: Arc<MembershipList>,
    pub(super) accepted_at: Timestamp,
    /// Sequence number of the enrolment that the list names.
    pub(super) enrolment: u64,
    pub(super) role: Role,
    pub(super) stream: StreamKey,
    pub(super) mac: MacKey,
    pub(super) self_key: Arc<SelfKey>,
    pub(super) sampler: Sampler,
}

/// What this meter does under a list, by its scheme.
#[derive(Debug)]
pub(super) enum Role {
    Pairwise(pairwise::Member),
    /// A member that deals, and that answers as well if it is a holder and has the whole list.
    Committee {
        member: committee::member::Member,
        holder: Option<committee::member::Holder>,
    },
}

impl Role {
    pub(super) const fn holder(&self) -> Option<&committee::member::Holder> {
        match self {
            Self::Pairwise(_) => None,
            Self::Committee { holder, .. } => holder.as_ref(),
        }
    }

    /// Whether requests are for this meter.
    pub(super) const fn is_asked(&self) -> bool {
        match self {
            Self::Pairwise(_) => true,
            Self::Committee { holder, .. } => holder.is_some(),
        }
    }
}

impl HeldList {
    pub(super) fn expiry_of(&self, slot: Slot) -> Timestamp {
        self.list.params().slot_expiry(slot)
    }
}

/// The lists that a meter holds, by epoch.
#[derive(Debug, Default)]
pub(super) struct HeldLists {
    pub(super) held: BTreeMap<u64, HeldList>,
    /// Whether the newest list is of use only as a whole.
    pub(super) needs_full: bool,
    /// The channels that the driver last heard of.
    pub(super) told: BTreeSet<GatewayChannel>,
}

impl HeldLists {
    pub(super) fn newest(&self) -> Option<&HeldList> {
        self.held.values().next_back()
    }

    pub(super) fn get(&self, hash: &ListHash) -> Option<&HeldList> {
        self.held.values().find(|held| held.list.hash() == hash)
    }

    /// The list in force for a slot: the highest epoch that covers it, from the first slot that starts after acceptance.
    pub(super) fn in_force(&self, slot: Slot) -> Option<&HeldList> {
        let usable =
            |held: &&HeldList| held.list.covers(slot) && held.accepted_at <= held.list.params().slot_start(slot);
        self.held.values().rev().find(usable)
    }

    /// When nothing of a list can be open any more: after its last slot, or after the last one before a later list that
    /// covers all the rest.
    fn ends(&self, epoch: u64) -> Option<Timestamp> {
        let list = &self.held.get(&epoch)?.list;
        let later = self.held.range(epoch + 1..).map(|(_, held)| &held.list);
        let replaced = later.filter(|later| later.to_slot() >= list.to_slot()).map(|later| later.from_slot()).min();
        let last = replaced.map_or(u64::MAX, |from| from.0.saturating_sub(1)).min(list.to_slot().0);
        Some(list.params().slot_expiry(Slot(last)))
    }

    /// Drops the lists of which nothing can be open any more, and returns their epochs.
    fn drop_over(&mut self, at: Timestamp) -> Vec<u64> {
        let over = |epoch: &u64| self.ends(*epoch).is_some_and(|ends| ends <= at);
        let ended: Vec<u64> = self.held.keys().copied().filter(over).collect();
        ended.iter().for_each(|epoch| drop(self.held.remove(epoch)));
        ended
    }

    /// Returns from when the newest list is about to end; `None` without a list.
    pub(super) fn ending(&self) -> Option<Timestamp> {
        let list = &self.newest()?.list;
        Some(list.params().slot_start(Slot((list.to_slot().0 + 1).saturating_sub(OFFER_SLOTS))))
    }

    /// Returns when the first list is over.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.held.keys().filter_map(|&epoch| self.ends(epoch)).min()
    }

    /// The channels of the gateway that this meter has to hear. Lists whole and requests only while they are for it: in a
    /// large cluster they are for few.
    pub(super) fn wanted(&self) -> BTreeSet<GatewayChannel> {
        let mut wanted = BTreeSet::from([GatewayChannel::Membership, GatewayChannel::Retry]);
        if self.needs_full {
            wanted.insert(GatewayChannel::FullMembership);
        }
        if self.held.values().any(|held| held.role.is_asked()) {
            wanted.insert(GatewayChannel::Recovery);
        }
        wanted
    }

    /// The slot that `at` falls into, its list, its start and its end, if a list is in force for it.
    pub(super) fn measuring(&self, at: Timestamp) -> Option<(Slot, ListHash, Timestamp, Timestamp)> {
        self.held.values().rev().find_map(|held| {
            let (params, hash) = (held.list.params(), *held.list.hash());
            let slot = params.slot_at(at);
            let in_force = self.in_force(slot).is_some_and(|force| *force.list.hash() == hash);
            in_force.then(|| (slot, hash, params.slot_start(slot), params.slot_end(slot)))
        })
    }

    /// The next start of a slot that a list covers, after an instant.
    pub(super) fn next_start(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.held.values().filter_map(|held| {
            let params = held.list.params();
            let slot = params.slot_at(at).plus(1).max(held.list.from_slot());
            held.list.covers(slot).then(|| params.slot_start(slot))
        });
        next.min()
    }

    /// Returns the largest rho that a day may reserve at the slot that starts at `start`: of the lists that were accepted before
    /// the slot began and cover some slot of its day.
    pub(super) fn largest_rho(&self, start: Timestamp) -> u64 {
        let day = start.utc_day();
        let held = self.held.values().filter(|held| held.accepted_at <= start);
        let of_day = held.filter_map(|held| {
            let params = held.list.params();
            let [first, last] =
                [held.list.from_slot(), held.list.to_slot()].map(|slot| params.slot_start(slot).utc_day());
            (first..=last).contains(&day).then_some(params.terms().day_micro_rho)
        });
        of_day.max().unwrap_or(0)
    }

    /// When the last slot that starts on a day is closed, under whichever list is held.
    pub(super) fn day_closes(&self, day: u64) -> Timestamp {
        let last_second = Timestamp::from_secs((day + 1) * DAY_SECONDS - 1);
        let closed = self.held.values().map(|held| {
            let params = held.list.params();
            params.slot_expiry(params.slot_at(last_second))
        });
        closed.fold(last_second.plus_secs(1), Timestamp::max)
    }
}

impl<C: Conduct> Meter<C> {
    /// Accepts a sound list if it also satisfies this meter, and says why not otherwise.
    pub(super) fn consider(&mut self, list: &Arc<MembershipList>, at: Timestamp) {
        self.lists.needs_full = self.is_needed_whole(list);
        match self.accept(list, at) {
            Ok(()) => {}
            Err(refusal) => self.refuse(&refusal, Some(list.hash().prefix()), Slot(0)),
        }
    }

    fn accept(&mut self, list: &Arc<MembershipList>, at: Timestamp) -> Result<(), Refusal> {
        if *list.cluster() != self.config.cluster {
            let (expected, found) = (self.config.cluster.clone(), list.cluster().clone());
            return Err(ListError::OtherCluster { expected, found }.into());
        }
        self.config.policy.check(list)?;
        if at.plus_secs(MAX_LIST_AHEAD_SECONDS) < list.params().slot_start(list.from_slot()) {
            return Err(Refusal::TooFarAhead);
        }
        let Some(skipped) = self.check_epoch(list)? else { return self.complete(list) };
        let protection = self.protection_under(list, at)?;
        if list.params().slot_expiry(list.to_slot()) <= at {
            return Err(Refusal::ListOver);
        }
        if self.lists.held.len() >= MAX_LISTS {
            return Err(Refusal::TooManyLists);
        }
        let held = self.hold(list, at).inspect_err(|_| self.enrolments.listing = Listing::Unlisted)?;
        self.statuses.forget(StatusCode::NoList);
        self.enrolments.listing =
            if Some(held.enrolment) == self.enrolments.newest_seq() { Listing::Listed } else { Listing::Unlisted };
        self.lists.held.insert(list.epoch(), held);
        self.account.newest_list = Some((list.epoch(), *list.hash()));
        self.account.protection = Some(protection);
        let accepted = AcceptedList { epoch: list.epoch(), accepted_at: at, bytes: list.bytes().clone() };
        self.persist(Record::List(accepted));
        self.persist_account();
        self.notice(Notice::ListAccepted { epoch: list.epoch(), skipped });
        Ok(())
    }

    /// What is remembered at a time of the T that protected this meter.
    pub(super) fn protection(&self, at: Timestamp) -> Option<Protection> {
        self.account.protection.map(|remembered| remembered.lowered(at, METER_PERIOD))
    }

    /// The least T that this meter accepts at a time, or 0 if it accepts any.
    pub(super) fn least_malicious(&self, at: Timestamp) -> u16 {
        let least = self.protection(at).map_or(0, Protection::least);
        self.certified_size().map_or(least, |size| least.min(size.div_ceil(10)))
    }

    /// How many meters this meter's own certificate says that the cluster has.
    fn certified_size(&self) -> Option<u16> {
        self.certificate.cluster().and_then(|cluster| cluster.size)
    }

    /// Returns what will have protected this meter once a list is accepted. T may be a step below what it was. It may be less
    /// if this meter's own certificate says that the cluster has so few meters: that is its authority's word, not the gateway's.
    fn protection_under(&self, list: &MembershipList, at: Timestamp) -> Result<Protection, Refusal> {
        let found = list.params().max_malicious();
        let vouched = |size: u16| 10 * u32::from(found) >= u32::from(size);
        match self.protection(at) {
            Some(remembered) if found >= remembered.least() => Ok(remembered.after(found, at)),
            Some(remembered) if !self.certified_size().is_some_and(vouched) => {
                Err(Refusal::ProtectionFalls { least: remembered.least(), found })
            }
            Some(_) | None => Ok(Protection::new(found, at)),
        }
    }

    /// Holds a list whole that is held in its short form, so that this meter can answer as a holder.
    fn complete(&mut self, list: &Arc<MembershipList>) -> Result<(), Refusal> {
        let short = self.lists.held.get(&list.epoch()).filter(|held| !held.list.is_full() && list.is_full());
        let Some(accepted_at) = short.map(|held| held.accepted_at) else { return Ok(()) };
        // A meter that has enrolled again meanwhile goes on with the enrolment that the list names.
        let own = self.enrolments.named_by(list, &self.id)?;
        let held = self.enrolments.derive_keys(&self.id, list, &own, accepted_at).ok_or(Refusal::RecordLost)?;
        self.lists.held.insert(list.epoch(), held);
        let accepted = AcceptedList { epoch: list.epoch(), accepted_at, bytes: list.bytes().clone() };
        self.persist(Record::List(accepted));
        Ok(())
    }

    /// Returns whether lists in between were missed; `None` for the newest list, seen again while it is held.
    fn check_epoch(&mut self, list: &MembershipList) -> Result<Option<bool>, Refusal> {
        let Some((last, hash)) = self.account.newest_list else {
            return Ok(Some(false));
        };
        let found = list.epoch();
        if found == last && *list.hash() == hash {
            return Ok(if self.lists.get(&hash).is_some() { None } else { Some(false) });
        }
        let before = (list.previous_epoch(), list.previous());
        if let Some(contradiction) = evidence::contradiction((last, &hash), (found, list.hash()), before) {
            self.keep_lists(&hash, list);
            return Err(match contradiction {
                Contradiction::Lists { .. } => Refusal::TwoListsOfAnEpoch(found),
                Contradiction::Chain { .. } | Contradiction::Requests { .. } | Contradiction::Retries { .. } => {
                    Refusal::BrokenChain(found)
                }
            });
        }
        if found < last {
            return Err(Refusal::StaleEpoch { last, found });
        }
        Ok(Some(list.previous_epoch() > last))
    }

    /// Keeps the headers of two lists of one gateway that contradict each other, if the accepted one is still held.
    fn keep_lists(&mut self, accepted: &ListHash, list: &MembershipList) {
        let accepted = self.lists.get(accepted).map(|held| &held.list).filter(|held| held.gateway() == list.gateway());
        let Some(first) = accepted.map(|held| held.header().to_vec()) else { return };
        self.keep_evidence(Vec::new(), first, list.header().to_vec());
    }

    /// Finds this meter in the list, with its newest enrolment, and derives its keys.
    fn hold(&mut self, list: &Arc<MembershipList>, accepted_at: Timestamp) -> Result<HeldList, Refusal> {
        let listed = list.index_of(self.id.as_str()).and_then(|index| list.member(index));
        if listed.is_some_and(|me| me.identity() != self.certificate.key()) {
            return Err(Refusal::NotListed);
        }
        let own = self.enrolments.named_by(list, &self.id)?;
        if Some(own.seq) != self.enrolments.newest_seq() {
            return Err(Refusal::OldEnrolment);
        }
        self.enrolments.derive_keys(&self.id, list, &own, accepted_at).ok_or(Refusal::RecordLost)
    }

    /// Takes a list from the meter's own records. One whose enrolment is gone is gone too, and so is one that the policy no
    /// longer accepts.
    pub(super) fn reopen_list(&mut self, record: &AcceptedList) {
        let authorities = &self.config.policy.authorities;
        let list = MembershipList::read(&record.bytes, &self.config.cluster, authorities, Signatures::Stored).ok();
        let held = list.filter(|list| self.config.policy.check(list).is_ok()).and_then(|list| {
            let own = self.enrolments.named_by(&list, &self.id).ok()?;
            self.enrolments.derive_keys(&self.id, &list, &own, record.accepted_at)
        });
        match held {
            Some(held) => {
                // The account is written after the list: a crash between the two must not make the list unaccepted.
                let newest = self.account.newest_list.filter(|(last, _)| *last >= record.epoch);
                if newest.is_none() {
                    let (malicious, at) = (held.list.params().max_malicious(), record.accepted_at);
                    let after = self.protection(at).map(|remembered| remembered.after(malicious, at));
                    self.account.protection = after.or_else(|| Some(Protection::new(malicious, at)));
                }
                self.account.newest_list = newest.or_else(|| Some((record.epoch, *held.list.hash())));
                self.lists.needs_full = self.is_needed_whole(&held.list);
                self.lists.held.insert(record.epoch, held);
            }
            None => self.erase(Key::List(record.epoch)),
        }
    }

    /// Looks at what the gateway tells all members of its newest list: the holders, or that the whole list is needed.
    pub(super) fn short_list(&mut self, payload: &[u8], at: Timestamp) {
        match MembershipList::verify_short(payload, &self.config.cluster, &self.config.policy.authorities) {
            Ok(None) => self.lists.needs_full = true,
            Ok(Some(list)) => self.consider(&list, at),
            Err(error) => self.refuse(&error.into(), None, Slot(0)),
        }
    }

    /// Whether this meter needs a list whole: unless holders are drawn and it is none of them.
    fn is_needed_whole(&self, list: &MembershipList) -> bool {
        let drawn = list.params().terms().scheme.committee().is_some_and(|committee| committee.drawn > 0);
        let holder = || list.holders().any(|holder| *holder.id() == self.id);
        !drawn || holder()
    }

    /// Says which channels to subscribe to and which no longer, where that has changed.
    pub(super) fn tell_subscriptions(&mut self) {
        let wanted = self.lists.wanted();
        if wanted == self.lists.told {
            return;
        }
        let told = core::mem::replace(&mut self.lists.told, wanted.clone());
        self.outputs.extend(wanted.difference(&told).map(|&channel| Output::Subscribe(channel)));
        self.outputs.extend(told.difference(&wanted).map(|&channel| Output::Unsubscribe(channel)));
    }

    pub(super) fn drop_lists_that_are_over(&mut self, at: Timestamp) {
        let ended = self.lists.drop_over(at);
        if ended.is_empty() {
            return;
        }
        ended.into_iter().for_each(|epoch| self.erase(Key::List(epoch)));
        self.enrolments.keep_agreements_of(&self.lists);
    }
}
