//! The lists a meter holds: what it checks for itself, and the keys it derives under each.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::{AcceptedList, Conduct, Key, Meter, Notice, Output, OwnEnrolment, Record, Refusal};
use crate::certificate::Signatures;
use crate::derive::{self, sha256};
use crate::enrolment::Enrolment;
use crate::evidence::{self, Contradiction};
use crate::keys::{AgreementPublic, ListHash, MacKey, PairKey, SelfKey, StreamKey};
use crate::membership::{ListError, MAX_LIST_AHEAD_SECONDS, MembershipList};
use crate::noise::Sampler;
use crate::protection::{METER_PERIOD, Protection};
use crate::scheme::pairwise::{self, mask::Masks, partners};
use crate::scheme::{Scheme, committee};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::StatusCode;

/// How many lists may be held at once. A gateway may publish one in every slot, each two slots ahead: then the open slot, the
/// running one and the next two have a list each, and a slow clock still holds the one before. One more is room.
const MAX_LISTS: usize = 6;

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

impl<C: Conduct> Meter<C> {
    /// Accepts a sound list if it also satisfies this meter, and says why not otherwise.
    pub(super) fn consider(&mut self, list: &Arc<MembershipList>, at: Timestamp) {
        self.needs_full_list = self.is_needed_whole(list);
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
        if self.lists.len() >= MAX_LISTS {
            return Err(Refusal::TooManyLists);
        }
        let held = self.hold(list, at).inspect_err(|_| (self.listed, self.renewing) = (false, false))?;
        self.statuses.remove(&StatusCode::NoList);
        (self.listed, self.renewing) = (Some(held.enrolment) == self.newest_seq(), false);
        self.lists.insert(list.epoch(), held);
        self.account.newest_list = Some((list.epoch(), *list.hash()));
        self.account.protection = Some(protection);
        let accepted = AcceptedList { epoch: list.epoch(), accepted_at: at, bytes: list.bytes().clone() };
        self.outputs.push_back(Output::Persist(Record::List(accepted)));
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
        let short = self.lists.get(&list.epoch()).filter(|held| !held.list.is_full() && list.is_full());
        let Some(accepted_at) = short.map(|held| held.accepted_at) else { return Ok(()) };
        // Whoever has enrolled again meanwhile goes on with the enrolment that the list names.
        let own = self.own_enrolment(list)?;
        let held = self.derive_keys(list, &own, accepted_at).ok_or(Refusal::RecordLost)?;
        self.lists.insert(list.epoch(), held);
        let accepted = AcceptedList { epoch: list.epoch(), accepted_at, bytes: list.bytes().clone() };
        self.outputs.push_back(Output::Persist(Record::List(accepted)));
        Ok(())
    }

    /// Returns whether lists in between were missed; `None` for the newest list, seen again while it is held.
    fn check_epoch(&mut self, list: &MembershipList) -> Result<Option<bool>, Refusal> {
        let Some((last, hash)) = self.account.newest_list else {
            return Ok(Some(false));
        };
        let found = list.epoch();
        if found == last && *list.hash() == hash {
            return Ok(if self.list(&hash).is_some() { None } else { Some(false) });
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
        let accepted = self.list(accepted).map(|held| &held.list).filter(|held| held.gateway() == list.gateway());
        let Some(first) = accepted.map(|held| held.header().to_vec()) else { return };
        self.keep_evidence(Vec::new(), first, list.header().to_vec());
    }

    /// Finds this meter in the list, with its newest enrolment, and derives its keys.
    fn hold(&mut self, list: &Arc<MembershipList>, accepted_at: Timestamp) -> Result<HeldList, Refusal> {
        let listed = list.index_of(self.id.as_str()).and_then(|index| list.member(index));
        if listed.is_some_and(|me| me.identity() != self.certificate.key()) {
            return Err(Refusal::NotListed);
        }
        let own = self.own_enrolment(list)?;
        if Some(own.seq) != self.newest_seq() {
            return Err(Refusal::OldEnrolment);
        }
        self.derive_keys(list, &own, accepted_at).ok_or(Refusal::RecordLost)
    }

    /// Returns the enrolment with which a list names this meter. A short list names it by a digest, unless it is a holder.
    fn own_enrolment(&self, list: &MembershipList) -> Result<OwnEnrolment, Refusal> {
        let Some(index) = list.index_of(self.id.as_str()) else {
            let named = |own: &&OwnEnrolment| !list.is_full() && list.names(&sha256(&own.bytes));
            return self.enrolments.values().rev().find(named).cloned().ok_or(Refusal::NotListed);
        };
        let me = &list.members()[usize::from(index)];
        let own = self.enrolments.get(&me.seq()).filter(|own| own.agreement.public() == *me.agreement());
        own.cloned().ok_or(Refusal::RecordLost)
    }

    /// Every key of this meter under a list; `None` if an X25519 result is not contributory, which a sound list rules out.
    fn derive_keys(
        &mut self,
        list: &Arc<MembershipList>,
        own: &OwnEnrolment,
        accepted_at: Timestamp,
    ) -> Option<HeldList> {
        let (cluster, hash) = (list.cluster(), list.hash());
        let with_gateway = own.agreement.agree(list.gateway_agreement())?;
        let (stream, mac) = derive::gateway_keys(hash, &with_gateway, cluster, &self.id);
        let params = list.params();
        let role = match params.terms().scheme {
            Scheme::Pairwise { .. } => {
                let index = list.index_of(self.id.as_str())?;
                let masks = Masks::new(self.pair_keys(list, list.members(), own)?, partners::threshold(params));
                Role::Pairwise(pairwise::Member::new(index, masks))
            }
            Scheme::Committee(_) => {
                let holders = self.pair_keys(list, list.holders(), own)?;
                let up = list.holders().map(|holder| self.id < *holder.id());
                let seats = holders.into_iter().zip(up).map(|(key, up)| key.map(|key| (key, up)));
                let member = committee::member::Member::new(seats, list.dealer()?, own.self_key.clone(), *hash);
                let index = list.index_of(self.id.as_str()).filter(|_| list.is_full());
                let holder = match index.and_then(|index| list.holder_of(index)) {
                    None => None,
                    Some(_) => {
                        let keys = self.pair_keys(list, list.members(), own)?;
                        Some(committee::member::Holder::new(keys, own.self_key.clone(), *hash))
                    }
                };
                Role::Committee { member, holder }
            }
        };
        Some(HeldList {
            list: list.clone(),
            accepted_at,
            enrolment: own.seq,
            role,
            stream,
            mac,
            self_key: own.self_key.clone(),
            sampler: Sampler::new(params.honest().into(), params.noise_scale()),
        })
    }

    /// The keys shared with some members of a list, `None` for this meter itself.
    fn pair_keys<'a>(
        &mut self,
        list: &MembershipList,
        members: impl IntoIterator<Item = &'a Enrolment>,
        own: &OwnEnrolment,
    ) -> Option<Vec<Option<PairKey>>> {
        let keys = members.into_iter().map(|member| {
            if *member.id() == self.id {
                return Some(None);
            }
            let shared = match self.agreements.entry((own.seq, *member.agreement())) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(own.agreement.agree(member.agreement())?),
            };
            Some(Some(derive::pair_key(list.hash(), shared, list.cluster(), &self.id, member.id())))
        });
        keys.collect()
    }

    /// Takes a list from the meter's own records. One whose enrolment is gone is gone too, and so is one that the policy no
    /// longer accepts.
    pub(super) fn reopen_list(&mut self, record: &AcceptedList) {
        let authorities = &self.config.policy.authorities;
        let list = MembershipList::read(&record.bytes, &self.config.cluster, authorities, Signatures::Stored).ok();
        let held = list.filter(|list| self.config.policy.check(list).is_ok()).and_then(|list| {
            let own = self.own_enrolment(&list).ok()?;
            self.derive_keys(&list, &own, record.accepted_at)
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
                self.needs_full_list = self.is_needed_whole(&held.list);
                self.lists.insert(record.epoch, held);
            }
            None => self.outputs.push_back(Output::Erase(Key::List(record.epoch))),
        }
    }

    /// Looks at what the gateway tells all members of its newest list: the holders, or that the whole list is needed.
    pub(super) fn short_list(&mut self, payload: &[u8], at: Timestamp) {
        match MembershipList::verify_short(payload, &self.config.cluster, &self.config.policy.authorities) {
            Ok(None) => self.needs_full_list = true,
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

    /// The channels of the gateway that this meter has to hear. Lists whole and requests only while they are for it: in a
    /// large cluster they are for few.
    pub(super) fn wanted_channels(&self) -> BTreeSet<GatewayChannel> {
        let mut wanted = BTreeSet::from([GatewayChannel::Membership, GatewayChannel::Retry]);
        if self.needs_full_list {
            wanted.insert(GatewayChannel::FullMembership);
        }
        if self.lists.values().any(|held| held.role.is_asked()) {
            wanted.insert(GatewayChannel::Recovery);
        }
        wanted
    }

    /// Says which channels to subscribe to and which no longer, where that has changed.
    pub(super) fn tell_subscriptions(&mut self) {
        let wanted = self.wanted_channels();
        if wanted == self.told_channels {
            return;
        }
        let told = std::mem::replace(&mut self.told_channels, wanted.clone());
        self.outputs.extend(wanted.difference(&told).map(|&channel| Output::Subscribe(channel)));
        self.outputs.extend(told.difference(&wanted).map(|&channel| Output::Unsubscribe(channel)));
    }

    pub(super) fn list(&self, hash: &ListHash) -> Option<&HeldList> {
        self.lists.values().find(|held| held.list.hash() == hash)
    }

    /// The list in force for a slot: the highest epoch that covers it, from the first slot that starts after acceptance.
    pub(super) fn in_force(&self, slot: Slot) -> Option<&HeldList> {
        let usable =
            |held: &&HeldList| held.list.covers(slot) && held.accepted_at <= held.list.params().slot_start(slot);
        self.lists.values().rev().find(usable)
    }

    /// When nothing of a list can be open any more: after its last slot, or after the last one before a later list that
    /// covers all the rest.
    pub(super) fn list_ends(&self, epoch: u64) -> Option<Timestamp> {
        let list = &self.lists.get(&epoch)?.list;
        let later = self.lists.range(epoch + 1..).map(|(_, held)| &held.list);
        let replaced = later.filter(|later| later.to_slot() >= list.to_slot()).map(|later| later.from_slot()).min();
        let last = replaced.map_or(u64::MAX, |from| from.0.saturating_sub(1)).min(list.to_slot().0);
        Some(list.params().slot_expiry(Slot(last)))
    }

    pub(super) fn drop_lists_that_are_over(&mut self, at: Timestamp) {
        let over = |epoch: &u64| self.list_ends(*epoch).is_some_and(|ends| ends <= at);
        let ended: Vec<u64> = self.lists.keys().copied().filter(over).collect();
        if ended.is_empty() {
            return;
        }
        for epoch in ended {
            self.lists.remove(&epoch);
            self.outputs.push_back(Output::Erase(Key::List(epoch)));
        }
        let members = self.lists.values().flat_map(|held| held.list.members());
        let named: BTreeSet<AgreementPublic> = members.map(|member| *member.agreement()).collect();
        self.agreements.retain(|(_, with), _| named.contains(with));
    }
}
