//! A meter's own enrolments, and the keys that it shares through them.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::lists::{HeldList, HeldLists, Role};
use super::{OwnEnrolment, Refusal};
use crate::derive::{self, sha256};
use crate::enrolment::Enrolment;
use crate::ids::MeterId;
use crate::keys::{AgreementPublic, PairKey, SharedSecret};
use crate::membership::MembershipList;
use crate::noise::Sampler;
use crate::scheme::pairwise::{self, mask::Masks, partners};
use crate::scheme::{Scheme, committee};
use crate::time::{Slot, Timestamp};
use crate::wire::Sign1;

/// Whether the newest valid list names this meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// With its newest enrolment.
    Listed,
    /// With the enrolment before: the next list will come in time.
    Renewing,
    Unlisted,
}

/// A meter's own enrolments, and when they are offered.
#[derive(Debug)]
pub(super) struct Enrolments {
    pub(super) own: BTreeMap<u64, OwnEnrolment>,
    /// X25519 results by own enrolment and other key: they outlive lists.
    pub(super) agreements: BTreeMap<(u64, AgreementPublic), SharedSecret>,
    pub(super) listing: Listing,
    pub(super) offer_again: Timestamp,
    /// When to offer the enrolment because nobody asked for anything in a slot, with that slot and its list.
    pub(super) unasked: Option<(Timestamp, Slot, [u8; 8])>,
    /// When to offer the enrolment because the gateway came back, and nothing would show that it has lost its store.
    pub(super) offer_at: Option<Timestamp>,
}

impl Enrolments {
    pub(super) const fn new() -> Self {
        Self {
            own: BTreeMap::new(),
            agreements: BTreeMap::new(),
            listing: Listing::Unlisted,
            offer_again: Timestamp::from_millis(0),
            unasked: None,
            offer_at: None,
        }
    }

    pub(super) fn newest(&self) -> Option<&OwnEnrolment> {
        self.own.values().next_back()
    }

    pub(super) fn newest_seq(&self) -> Option<u64> {
        self.own.keys().next_back().copied()
    }

    /// Returns when the newest enrolment is offered next: from time to time while the newest list does not name it, and
    /// again from shortly before that list ends.
    pub(super) fn offer_due(&self, lists: &HeldLists) -> Timestamp {
        match lists.ending() {
            Some(ending) if self.listing == Listing::Listed => self.offer_again.max(ending),
            Some(_) | None => self.offer_again,
        }
    }

    /// Between seven and eight twelfths into the newest enrolment's life, and at once if it speaks for an earlier
    /// certificate; `None` if a new one could not live longer. Meters that enrolled together renew one after the other:
    /// the moment follows from the enrolment's signature, which looks random.
    pub(super) fn renewal_due(&self, certificate: &[u8], not_after: u64) -> Option<Timestamp> {
        let newest = self.newest()?;
        let carried = Sign1::decode_certified(&newest.bytes).ok().map(|(_, certificate)| certificate);
        if carried != Some(certificate) {
            return Some(Timestamp::from_secs(newest.not_before));
        }
        let life = newest.not_after.saturating_sub(newest.not_before);
        let [high, low, ..] = newest.bytes.last_chunk::<64>().copied().unwrap_or([0; 64]);
        let spread = life / 12 * u64::from(u16::from_be_bytes([high, low])) / 0x1_0000;
        let due = Timestamp::from_secs(newest.not_before + life * 7 / 12 + spread);
        (newest.not_after < not_after).then_some(due)
    }

    /// Forgets what was agreed on with keys that no list names any more.
    pub(super) fn keep_agreements_of(&mut self, lists: &HeldLists) {
        let members = lists.held.values().flat_map(|held| held.list.members());
        let named: BTreeSet<AgreementPublic> = members.map(|member| *member.agreement()).collect();
        self.agreements.retain(|(_, with), _| named.contains(with));
    }

    /// Returns the enrolment with which a list names this meter. A short list names it by a digest, unless it is a holder.
    pub(super) fn named_by(&self, list: &MembershipList, id: &MeterId) -> Result<OwnEnrolment, Refusal> {
        let Some(index) = list.index_of(id.as_str()) else {
            let named = |own: &&OwnEnrolment| !list.is_full() && list.names(&sha256(&own.bytes));
            return self.own.values().rev().find(named).cloned().ok_or(Refusal::NotListed);
        };
        let me = &list.members()[usize::from(index)];
        let own = self.own.get(&me.seq()).filter(|own| own.agreement.public() == *me.agreement());
        own.cloned().ok_or(Refusal::RecordLost)
    }

    /// Every key of this meter under a list; `None` if an X25519 result is not contributory, which a sound list rules out.
    pub(super) fn derive_keys(
        &mut self,
        id: &MeterId,
        list: &Arc<MembershipList>,
        own: &OwnEnrolment,
        accepted_at: Timestamp,
    ) -> Option<HeldList> {
        let (cluster, hash) = (list.cluster(), list.hash());
        let with_gateway = own.agreement.agree(list.gateway_agreement())?;
        let (stream, mac) = derive::gateway_keys(hash, &with_gateway, cluster, id);
        let params = list.params();
        let role = match params.terms().scheme {
            Scheme::Pairwise { .. } => {
                let index = list.index_of(id.as_str())?;
                let masks = Masks::new(self.pair_keys(id, list, list.members(), own)?, partners::threshold(params));
                Role::Pairwise(pairwise::Member::new(index, masks))
            }
            Scheme::Committee(_) => {
                let holders = self.pair_keys(id, list, list.holders(), own)?;
                let up = list.holders().map(|holder| id < holder.id());
                let seats = holders.into_iter().zip(up).map(|(key, up)| key.map(|key| (key, up)));
                let member = committee::member::Member::new(seats, list.dealer()?, own.self_key.clone(), *hash);
                let index = list.index_of(id.as_str()).filter(|_| list.is_full());
                let holder = match index.and_then(|index| list.holder_of(index)) {
                    None => None,
                    Some(_) => {
                        let keys = self.pair_keys(id, list, list.members(), own)?;
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
        id: &MeterId,
        list: &MembershipList,
        members: impl IntoIterator<Item = &'a Enrolment>,
        own: &OwnEnrolment,
    ) -> Option<Vec<Option<PairKey>>> {
        let keys = members.into_iter().map(|member| {
            if member.id() == id {
                return Some(None);
            }
            let shared = match self.agreements.entry((own.seq, *member.agreement())) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(own.agreement.agree(member.agreement())?),
            };
            Some(Some(derive::pair_key(list.hash(), shared, list.cluster(), id, member.id())))
        });
        keys.collect()
    }
}
