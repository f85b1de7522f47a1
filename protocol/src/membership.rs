//! The membership list: who is in a cluster, under which terms, for which slots (`protocol.md 8`).
//!
//! One function, [`MembershipList::verify`], serves meters and gateway alike. It answers whether a list is sound for
//! *anyone*; its result is shared freely, and each meter then checks only what concerns itself
//! ([`crate::policy::Policy`], its own enrolment, the epoch).

mod index;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
/// A device has one thread.
#[cfg(not(feature = "std"))]
use core::cell::OnceCell as OnceLock;
#[cfg(feature = "std")]
use std::sync::OnceLock;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use self::index::Index;
use crate::certificate::{Authorities, Certificate, CertificateError, Fingerprint, Role, Signatures, Unfit};
use crate::derive::sha256;
use crate::enrolment::{Enrolment, EnrolmentError};
use crate::ids::{ClusterId, GatewayId};
use crate::keys::{AgreementPublic, IdentityPublic, ListHash};
use crate::params::{MAX_EPOCH, MAX_SLOT, Params, ParamsError};
use crate::part::Part;
use crate::scheme::committee::dealing::Dealer;
use crate::scheme::committee::{self, Committee};
use crate::time::Slot;
use crate::topic::GatewayChannel;
use crate::wire::{
    DIGEST, DecodeError, EnrolmentStatement, FullList, ListHashes, ListHeader, Message as _, ShortList, Sign1,
};

/// How far ahead of a clock a list may begin. An epoch is never later than the list's first slot, so a thief who signs once
/// with a gateway's key cannot use up epochs for longer than this.
pub(crate) const MAX_LIST_AHEAD_SECONDS: u64 = 2 * 86_400;

/// Why a list is refused by every reader.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ListError {
    #[error("the list does not decode: {0}")]
    #[strum(serialize = "malformed")]
    Decode(#[from] DecodeError),
    #[error("the list is for cluster `{found}`, not `{expected}`")]
    OtherCluster { expected: ClusterId, found: ClusterId },
    #[error(
        "the list names an authority that is not configured here; add its certificate, or have the gateway drop its meters"
    )]
    UnknownAuthority,
    #[error("the list names an authority of {}s as one of {needed}s, for which it is not trusted here", needed.other())]
    WrongAuthority { needed: Role },
    #[error("the list's gateway certificate is refused: {0}")]
    Gateway(#[from] CertificateError),
    #[error("the list's header names another gateway certificate than it carries")]
    OtherCertificate,
    #[error("the list's signature does not verify on the cluster's membership topic")]
    BadSignature,
    #[error("the list's header says {stated} holders; by the rules there are {found}")]
    HolderCount { stated: u64, found: usize },
    #[error("the holders are not those that the list's header names")]
    OtherHolders,
    #[error("entry {entry} is no holder: it is not willing, not drawn, or its certificate states no draw value")]
    NotAHolder { entry: usize },
    #[error("the digests that follow are not those that the list's header names, or the holders are not among them")]
    OtherDigests,
    #[error("holders or digests follow where every member needs the whole list")]
    NotShort,
    #[error("the list's header says {stated} members, and {found} follow")]
    MemberCount { stated: u64, found: usize },
    #[error("the enrolments that follow are not those that the list's header names")]
    OtherEntries,
    #[error("entry {entry} of the list: {reason}")]
    Enrolment { entry: usize, reason: EnrolmentError },
    #[error("entry {entry} of the list does not hold for all of its slots")]
    Period { entry: usize },
    #[error("the list's gateway certificate does not hold for all of its slots")]
    GatewayPeriod,
    #[error("the list covers slots {from} to {to}; it must cover at least one, and end below 2^40")]
    Slots { from: Slot, to: Slot },
    #[error(
        "epoch {epoch}, after {previous}: epochs are Unix times, go up, and lie before the list's first slot, which starts \
         at {start}"
    )]
    Epoch { epoch: u64, previous: u64, start: u64 },
    #[error("entry {entry} is out of order or there twice; entries are sorted by meter id")]
    Order { entry: usize },
    #[error("entry {entry} repeats a certificate key of the list")]
    RepeatedIdentity { entry: usize },
    #[error("the gateway's X25519 key is a point of small order")]
    LowOrder,
    #[error("entry {entry} is certified for a cluster of {size} meters; a list names at least 7 in 10, not {members}")]
    CertifiedSize { entry: usize, size: u16, members: u16 },
    #[error("the list's parameters are refused: {0}")]
    Params(#[from] ParamsError),
}

/// A sound list. Shared as an [`Arc`]: a process that hosts many meters verifies it once.
#[derive(Debug)]
pub struct MembershipList {
    hash: ListHash,
    cluster: ClusterId,
    gateway: GatewayId,
    gateway_identity: IdentityPublic,
    gateway_agreement: AgreementPublic,
    meter_authorities: Vec<Fingerprint>,
    gateway_authority: Fingerprint,
    epoch: u64,
    previous_epoch: u64,
    previous: ListHash,
    from_slot: Slot,
    to_slot: Slot,
    params: Params,
    /// All members, or in a short list the holders.
    members: Vec<Enrolment>,
    /// Where the holders are among them, ascending.
    holders: Vec<u16>,
    index: Index,
    /// What a short list says of the members that it does not carry; nothing for a full one.
    digests: Option<Part>,
    /// Computed when the first meter of this process needs it.
    dealer: OnceLock<Option<Arc<Dealer>>>,
    header: Part,
    bytes: Arc<[u8]>,
}

impl MembershipList {
    /// Checks a list for `cluster` whole: signatures, certificates, entries, periods, parameters.
    pub fn verify(bytes: &[u8], cluster: &ClusterId, authorities: &Authorities) -> Result<Arc<Self>, ListError> {
        Self::verify_after([], bytes, cluster, authorities)
    }

    /// Checks a list as [`MembershipList::verify`] does, except for the signatures of enrolments that were checked for one of
    /// these lists: a renewed list costs little more than what is new in it.
    pub fn verify_after<'a>(
        known: impl IntoIterator<Item = &'a Self>,
        bytes: &[u8],
        cluster: &ClusterId,
        authorities: &Authorities,
    ) -> Result<Arc<Self>, ListError> {
        let known = known.into_iter().filter(|list| list.cluster == *cluster).flat_map(|list| &list.members);
        let known = known.map(|entry| (entry.hash(), entry)).collect();
        Self::read_after(&known, &bytes.into(), cluster, authorities, Signatures::Check)
    }

    /// Checks a short list for `cluster`: the header, and the holders. Returns `None` for a sound header of a list that every
    /// member needs whole.
    pub fn verify_short(
        bytes: &[u8],
        cluster: &ClusterId,
        authorities: &Authorities,
    ) -> Result<Option<Arc<Self>>, ListError> {
        Self::read_short(&bytes.into(), cluster, authorities, Signatures::Check)
    }

    /// Reads a list from a machine's own records, full or short.
    pub(crate) fn read(
        bytes: &Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Arc<Self>, ListError> {
        match Self::read_after(&BTreeMap::new(), bytes, cluster, authorities, signatures) {
            Err(ListError::Decode(DecodeError::WrongCount { .. })) => {
                Self::read_short(bytes, cluster, authorities, signatures)?.ok_or(ListError::NotShort)
            }
            full => full,
        }
    }

    /// Reads the header, which is signed and short; then compares the entries with it by their hashes; and only then looks
    /// into those that are not known.
    fn read_after(
        known: &BTreeMap<&[u8; 32], &Enrolment>,
        bytes: &Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Arc<Self>, ListError> {
        let list = FullList::decode(bytes)?;
        let head = Head::read(list.header, cluster, authorities, signatures)?;
        if head.header.members != list.enrolments.len() as u64 {
            return Err(ListError::MemberCount { stated: head.header.members, found: list.enrolments.len() });
        }
        let hashes: Vec<[u8; 32]> = list.enrolments.iter().map(|entry| sha256(entry)).collect();
        // The holders follow from the entries, which are not read yet: their hash is compared below.
        let named = head.header.hashes;
        if (ListHashes { holders: named.holders, ..ListHashes::new(&hashes, []) }) != named {
            return Err(ListError::OtherEntries);
        }
        let members = head.entries(known, bytes, &list.enrolments, &hashes, signatures)?;
        check_together(&head, &members)?;
        check_sizes(head.params.members(), &members)?;
        let holders = holders_of(&head.params, head.header.from_slot, &members);
        let stated = head.params.terms().scheme.committee().map_or(0, |committee| committee.holders);
        if holders.len() as u64 != stated {
            return Err(ListError::HolderCount { stated, found: holders.len() });
        }
        if ListHashes::of_holders(holders.iter().map(|&holder| &hashes[usize::from(holder)])) != named.holders {
            return Err(ListError::OtherHolders);
        }
        // Last: for large lists it takes as long as checking a thousand signatures.
        head.params.check_partners()?;
        Ok(head.list(bytes, list.header, members, holders, None))
    }

    fn read_short(
        bytes: &Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Option<Arc<Self>>, ListError> {
        let list = ShortList::decode(bytes)?;
        let head = Head::read(list.header, cluster, authorities, signatures)?;
        let drawn = head.params.terms().scheme.committee().filter(|committee| committee.drawn > 0);
        let Some(Committee { holders: stated, .. }) = drawn else {
            let empty = list.holders.is_empty() && list.digests.is_empty();
            return if empty { Ok(None) } else { Err(ListError::NotShort) };
        };
        if list.holders.len() as u64 != stated {
            return Err(ListError::HolderCount { stated, found: list.holders.len() });
        }
        let hashes: Vec<[u8; 32]> = list.holders.iter().map(|entry| sha256(entry)).collect();
        if ListHashes::of_holders(&hashes) != head.header.hashes.holders {
            return Err(ListError::OtherHolders);
        }
        check_digests(&head, list.digests, &hashes)?;
        let holders = head.entries(&BTreeMap::new(), bytes, &list.holders, &hashes, signatures)?;
        check_together(&head, &holders)?;
        let drawn = holders_of(&head.params, head.header.from_slot, &holders);
        if let Some(entry) =
            (0..holders.len()).find(|&entry| drawn.get(entry).map(|&at| usize::from(at)) != Some(entry))
        {
            return Err(ListError::NotAHolder { entry });
        }
        check_sizes(head.params.members(), &holders)?;
        Ok(Some(head.list(bytes, list.header, holders, drawn, Some(list.digests))))
    }

    /// LH.
    pub const fn hash(&self) -> &ListHash {
        &self.hash
    }

    pub const fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    pub const fn gateway(&self) -> &GatewayId {
        &self.gateway
    }

    /// The key under which requests and retries for this list's slots verify.
    pub const fn gateway_identity(&self) -> &IdentityPublic {
        &self.gateway_identity
    }

    pub const fn gateway_agreement(&self) -> &AgreementPublic {
        &self.gateway_agreement
    }

    /// The authorities under which every meter's certificate of the list verifies.
    pub fn meter_authorities(&self) -> &[Fingerprint] {
        &self.meter_authorities
    }

    /// The authority under which the gateway's certificate verifies.
    pub const fn gateway_authority(&self) -> &Fingerprint {
        &self.gateway_authority
    }

    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch of the list before; 0 if there was none.
    pub const fn previous_epoch(&self) -> u64 {
        self.previous_epoch
    }

    /// The hash of the list before; zeros if there was none, or none that the gateway knows.
    pub const fn previous(&self) -> &ListHash {
        &self.previous
    }

    pub const fn from_slot(&self) -> Slot {
        self.from_slot
    }

    pub const fn to_slot(&self) -> Slot {
        self.to_slot
    }

    pub fn covers(&self, slot: Slot) -> bool {
        (self.from_slot..=self.to_slot).contains(&slot)
    }

    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Returns whether the list carries every member's enrolment. A short one carries the holders' alone.
    pub const fn is_full(&self) -> bool {
        self.digests.is_none()
    }

    /// Returns the members whose enrolments the list carries, sorted by id: all of them in a full list, where a member's place
    /// is its index in every bitmap; the holders in a short one.
    pub fn members(&self) -> &[Enrolment] {
        &self.members
    }

    /// Returns the holders in the order of their ids, which is that of their points 1 to K; none in the pairwise scheme.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = &Enrolment> {
        self.holders.iter().map(|&holder| &self.members[usize::from(holder)])
    }

    /// Returns which holder a member of this index is, counted from 0.
    pub fn holder_of(&self, index: u16) -> Option<u16> {
        self.holders.binary_search(&index).ok().and_then(|place| u16::try_from(place).ok())
    }

    /// Returns the index of a holder, counted from 0.
    pub fn holder_index(&self, holder: u16) -> Option<u16> {
        self.holders.get(usize::from(holder)).copied()
    }

    /// Returns what members deal with, which all meters of a process share; `None` in the pairwise scheme.
    pub(crate) fn dealer(&self) -> Option<Arc<Dealer>> {
        let count = |count: u64| usize::try_from(count).ok();
        let dealer = || {
            let Committee { holders, needed, .. } = self.params.terms().scheme.committee()?;
            Some(Arc::new(Dealer::new(count(holders)?, count(needed)?)))
        };
        self.dealer.get_or_init(dealer).clone()
    }

    /// Returns whether the list names an enrolment with this hash.
    pub fn names(&self, enrolment: &[u8; 32]) -> bool {
        match &self.digests {
            None => self.members.iter().any(|member| member.hash() == enrolment),
            Some(digests) => digests.as_chunks::<DIGEST>().0.iter().any(|digest| *digest == enrolment[..DIGEST]),
        }
    }

    /// Returns the list as members get it that need the holders only, or just its header where all need the whole list.
    pub fn shortened(&self) -> Vec<u8> {
        let drawn = self.params.terms().scheme.committee().is_some_and(|committee| committee.drawn > 0);
        let digests: Vec<u8> = self.members.iter().flat_map(|member| &member.hash()[..DIGEST]).copied().collect();
        let list = ShortList {
            header: &self.header,
            holders: if drawn { self.holders().map(Enrolment::bytes).collect() } else { Vec::new() },
            digests: if drawn { &digests } else { &[] },
        };
        list.encode()
    }

    pub fn member(&self, index: u16) -> Option<&Enrolment> {
        self.members.get(usize::from(index))
    }

    /// A member's index.
    pub fn index_of(&self, id: &str) -> Option<u16> {
        self.index.find(&self.members, id)
    }

    /// The signed list, byte for byte.
    pub const fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The signed header in its envelope, byte for byte.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The gateway's certificate, in DER.
    pub(crate) fn gateway_certificate(&self) -> &[u8] {
        Sign1::decode_certified(&self.header).expect("the list was decoded from these bytes").1
    }
}

/// A sound header: what full and short lists have in common.
struct Head {
    header: ListHeader,
    hash: ListHash,
    /// Those that the header names, and no others.
    authorities: Authorities,
    certificate: Certificate,
    gateway: GatewayId,
    params: Params,
}

impl Head {
    fn read(
        bytes: &[u8],
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Self, ListError> {
        let (envelope, der) = Sign1::decode_certified(bytes)?;
        let header = ListHeader::decode(envelope.payload())?;
        if header.cluster != *cluster {
            return Err(ListError::OtherCluster { expected: cluster.clone(), found: header.cluster });
        }
        let authorities =
            authorities.only(&header.meter_authorities, &header.gateway_authority).map_err(|unfit| match unfit {
                Unfit::Unknown => ListError::UnknownAuthority,
                Unfit::Other(needed) => ListError::WrongAuthority { needed },
            })?;
        let certificate = authorities.read_gateway(der, signatures)?;
        let gateway = certificate.gateway()?.clone();
        if certificate.hash != header.certificate {
            return Err(ListError::OtherCertificate);
        }
        let topic = GatewayChannel::Membership.topic(cluster);
        if signatures == Signatures::Check && !envelope.verifies(&certificate.key, &topic) {
            return Err(ListError::BadSignature);
        }
        let params = check_header(&header, &certificate)?;
        let hash = ListHash(sha256(envelope.payload()));
        Ok(Self { header, hash, authorities, certificate, gateway, params })
    }

    /// Reads the enrolments that a list carries, except for those that are known.
    fn entries(
        &self,
        known: &BTreeMap<&[u8; 32], &Enrolment>,
        whole: &Arc<[u8]>,
        enrolments: &[&[u8]],
        hashes: &[[u8; 32]],
        signatures: Signatures,
    ) -> Result<Vec<Enrolment>, ListError> {
        let entries = (0..).zip(enrolments).zip(hashes).map(|((entry, &enrolment), hash)| {
            match known.get(hash).filter(|known| self.header.meter_authorities.contains(known.authority())) {
                Some(known) => Ok(known.kept_in(part(whole, enrolment))),
                None => Enrolment::read(part(whole, enrolment), &self.header.cluster, &self.authorities, signatures)
                    .map_err(|reason| ListError::Enrolment { entry, reason }),
            }
        });
        entries.collect()
    }

    fn list(
        self,
        bytes: &Arc<[u8]>,
        header: &[u8],
        members: Vec<Enrolment>,
        holders: Vec<u16>,
        digests: Option<&[u8]>,
    ) -> Arc<MembershipList> {
        Arc::new(MembershipList {
            hash: self.hash,
            cluster: self.header.cluster,
            gateway: self.gateway,
            gateway_identity: self.certificate.key,
            gateway_agreement: self.header.gateway,
            meter_authorities: self.header.meter_authorities,
            gateway_authority: self.header.gateway_authority,
            epoch: self.header.epoch,
            previous_epoch: self.header.previous_epoch,
            previous: self.header.previous,
            from_slot: self.header.from_slot,
            to_slot: self.header.to_slot,
            params: self.params,
            index: Index::of(&members),
            members,
            holders,
            digests: digests.map(|digests| part(bytes, digests)),
            dealer: OnceLock::new(),
            header: part(bytes, header),
            bytes: bytes.clone(),
        })
    }
}

fn part(whole: &Arc<[u8]>, slice: &[u8]) -> Part {
    Part::of(whole, slice).expect("decoding borrows, and packets are below 4 GiB")
}

/// Returns which of a list's members are holders: those that are willing, and drawn if the list draws them.
pub(crate) fn holders_of(params: &Params, from_slot: Slot, members: &[Enrolment]) -> Vec<u16> {
    let day = committee::day_of(params.slot_start(from_slot).as_secs());
    select_holders(params, members.iter().map(|member| (member.is_willing(params.members()), member.sigma(day))))
}

/// Returns which of the enrolments of a list, of whose signatures nothing is known, are holders'.
pub(crate) fn drawn(header: &ListHeader, enrolments: &[&[u8]]) -> Vec<u16> {
    let Ok(params) = Params::unconnected(enrolments.len(), header.terms) else { return Vec::new() };
    let day = committee::day_of(params.slot_start(header.from_slot).as_secs());
    let draws = enrolments.iter().map(|bytes| {
        let (envelope, der) = Sign1::decode_certified(bytes).ok()?;
        let willing = EnrolmentStatement::decode(envelope.payload()).ok()?.holds >= u64::from(params.members());
        Some((willing, Certificate::unverified(der).ok()?.draw.map(|draw| draw.sigma(day))))
    });
    select_holders(&params, draws.map(|draw| draw.unwrap_or((false, None))))
}

/// Returns the holders among members of whom it is known whether they are willing, and what was drawn for them.
fn select_holders(params: &Params, members: impl Iterator<Item = (bool, Option<u64>)>) -> Vec<u16> {
    let Some(committee) = params.terms().scheme.committee() else { return Vec::new() };
    let threshold = committee::threshold(committee.drawn, params.members().into());
    let drawn = |sigma: Option<u64>| threshold.is_none_or(|threshold| sigma.is_some_and(|sigma| sigma < threshold));
    (0..).zip(members).filter(|(_, (willing, sigma))| *willing && drawn(*sigma)).map(|(index, _)| index).collect()
}

/// Checks that the digests are those that the header names, and that the holders are among them, in order.
fn check_digests(head: &Head, digests: &[u8], holders: &[[u8; 32]]) -> Result<(), ListError> {
    let (each, rest) = digests.as_chunks::<DIGEST>();
    let named = rest.is_empty() && each.len() as u64 == head.header.members;
    if !named || sha256(digests) != head.header.hashes.digests {
        return Err(ListError::OtherDigests);
    }
    let mut left = each.iter();
    let among = holders.iter().all(|holder| left.any(|digest| *digest == holder[..DIGEST]));
    if among { Ok(()) } else { Err(ListError::OtherDigests) }
}

/// Checks what a header says by itself.
fn check_header(header: &ListHeader, gateway: &Certificate) -> Result<Params, ListError> {
    let members = usize::try_from(header.members).unwrap_or(usize::MAX);
    let params = Params::unconnected(members, header.terms)?;
    let (from, to) = (header.from_slot, header.to_slot);
    if from > to || to.0 >= MAX_SLOT {
        return Err(ListError::Slots { from, to });
    }
    let (epoch, previous, start) = (header.epoch, header.previous_epoch, params.slot_start(from).as_secs());
    let unknown = previous > 0 || header.previous == ListHash::NONE;
    if epoch <= previous || epoch > start || epoch >= MAX_EPOCH || !unknown {
        return Err(ListError::Epoch { epoch, previous, start });
    }
    if gateway.not_before > start || gateway.not_after < params.slot_end(to).as_secs() {
        return Err(ListError::GatewayPeriod);
    }
    if header.gateway.is_low_order() {
        return Err(ListError::LowOrder);
    }
    Ok(params)
}

/// What only the entries together can get wrong.
fn check_together(head: &Head, members: &[Enrolment]) -> Result<(), ListError> {
    let mut identities = BTreeSet::from([head.certificate.key]);
    for (entry, member) in members.iter().enumerate() {
        if entry > 0 && members[entry - 1].id() >= member.id() {
            return Err(ListError::Order { entry });
        }
        if !identities.insert(*member.identity()) {
            return Err(ListError::RepeatedIdentity { entry });
        }
        if !member.covers(&head.params, head.header.from_slot, head.header.to_slot) {
            return Err(ListError::Period { entry });
        }
    }
    Ok(())
}

/// Checks that the list names at least 7 in 10 of the meters that the cluster has, by every certificate that says how many:
/// a gateway must not choose a few homes.
fn check_sizes(members: u16, enrolments: &[Enrolment]) -> Result<(), ListError> {
    let too_large = |size: &u16| members < fewest_of(*size);
    let sizes = enrolments.iter().map(Enrolment::certified_size).enumerate();
    match sizes.filter_map(|(entry, size)| Some((entry, size.filter(too_large)?))).next() {
        Some((entry, size)) => Err(ListError::CertifiedSize { entry, size, members }),
        None => Ok(()),
    }
}

/// Returns the fewest members of a list of a cluster of `size` meters: 7 in 10.
pub(crate) fn fewest_of(size: u16) -> u16 {
    u16::try_from((7 * u32::from(size)).div_ceil(10)).expect("less than the size")
}
