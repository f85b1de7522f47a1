//! A list that this gateway has published, with its keys under it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Rejection;
use super::retained::Form;
use crate::derive;
use crate::keys::{AgreementSecret, MacKey, StreamKey};
use crate::membership::MembershipList;
use crate::time::{Slot, Timestamp};
use crate::wire::Mac0;

/// How many slots before its first one a list is published.
pub(super) const LEAD_SLOTS: u64 = 2;

/// A published list with the gateway's keys under it.
pub(super) struct OwnList {
    pub(super) list: Arc<MembershipList>,
    /// What members get that need the holders only.
    pub(super) short: Arc<[u8]>,
    pub(super) published_at: Timestamp,
    keys: Vec<(StreamKey, MacKey)>,
}

impl OwnList {
    /// `None` if an X25519 result is not contributory, which a sound list rules out.
    pub(super) fn new(list: Arc<MembershipList>, secret: &AgreementSecret, published_at: Timestamp) -> Option<Self> {
        let keys = list.members().iter().map(|member| {
            let shared = secret.agree(member.agreement())?;
            Some(derive::gateway_keys(list.hash(), &shared, list.cluster(), member.id()))
        });
        Some(Self { keys: keys.collect::<Option<_>>()?, short: list.shortened().into(), list, published_at })
    }

    /// The list as it is published in one of its forms.
    pub(super) fn form(&self, form: Form) -> &Arc<[u8]> {
        match form {
            Form::Short => &self.short,
            Form::Full => self.list.bytes(),
        }
    }

    /// S_i and A_i of a member of this list.
    pub(super) fn member_keys(&self, member: u16) -> (&StreamKey, &MacKey) {
        let (stream, mac) = &self.keys[usize::from(member)];
        (stream, mac)
    }

    /// The member who made a message, given its envelope, its topic and the meter that the topic names, if its list and its
    /// tag are right.
    pub(super) fn authenticate(
        &self,
        (envelope, topic, meter): (&Mac0<'_>, &str, &str),
        list: &[u8; 8],
    ) -> Result<u16, Rejection> {
        if *list != self.list.hash().prefix() {
            return Err(Rejection::OtherList);
        }
        let member = self.list.index_of(meter).ok_or(Rejection::NotAMember)?;
        let (_, mac) = self.member_keys(member);
        if envelope.verifies(mac, topic) { Ok(member) } else { Err(Rejection::BadMac) }
    }

    /// A list is renewed in the last quarter of its life, and in time for the next to be published ahead. One that could
    /// not be renewed is tried again when the members change.
    pub(super) fn renewal(&self) -> Timestamp {
        let (from, to) = (self.list.from_slot(), self.list.to_slot());
        let early = ((to.0 - from.0 + 1) / 4).max(LEAD_SLOTS + 1);
        self.list.params().slot_start(Slot((to.0 + 1).saturating_sub(early)))
    }

    pub(super) fn starts(&self) -> Timestamp {
        self.list.params().slot_start(self.list.from_slot())
    }

    pub(super) fn ends(&self) -> Timestamp {
        self.list.params().slot_end(self.list.to_slot())
    }
}

impl fmt::Debug for OwnList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnList").field("epoch", &self.list.epoch()).finish_non_exhaustive()
    }
}
