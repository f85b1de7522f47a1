//! The membership list: who is in a cluster, under which terms, for which slots (`protocol.md 8`).
//!
//! One function, [`MembershipList::verify`], serves meters and gateway alike. It answers whether a list is sound for
//! *anyone*; its result is shared freely, and each meter then checks only what concerns itself
//! ([`crate::policy::Policy`], its own enrolment, the epoch).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use thiserror::Error;

use crate::certificate::{Authorities, Certificate, CertificateError, Fingerprint, Signatures};
use crate::derive::sha256;
use crate::enrolment::{Enrolment, EnrolmentError};
use crate::ids::{ClusterId, GatewayId, MeterId};
use crate::keys::{AgreementPublic, IdentityPublic, ListHash};
use crate::params::{MAX_EPOCH, MAX_SLOT, Params, ParamsError};
use crate::part::Part;
use crate::time::Slot;
use crate::topic::GatewayChannel;
use crate::wire::{DecodeError, FullList, ListHashes, ListHeader, Message as _, PAIRWISE, Sign1};

/// How far ahead of a clock a list may begin. Epochs are not after a list's first slot: so whoever has a gateway's key, and
/// signs with it once, cannot use up epochs for longer than this.
pub(crate) const MAX_LIST_AHEAD_SECONDS: u64 = 2 * 86_400;

/// Why a list is refused, whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    #[error("the list does not decode: {0}")]
    Decode(#[from] DecodeError),
    #[error("the list is for cluster `{found}`, not `{expected}`")]
    OtherCluster { expected: ClusterId, found: ClusterId },
    #[error(
        "the list names an authority that is not configured here; add its certificate, or have the gateway drop its meters"
    )]
    UnknownAuthority,
    #[error("the list's gateway certificate is refused: {0}")]
    Gateway(#[from] CertificateError),
    #[error("the list's header names another gateway certificate than it carries")]
    OtherCertificate,
    #[error("the list's signature does not verify on the cluster's membership topic")]
    BadSignature,
    #[error(
        "the list's scheme is {scheme} with q = {quorum} and K = {holders}; only scheme 0, with zeros, is known: update"
    )]
    Scheme { scheme: u64, quorum: u64, holders: u64 },
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
    authorities: Vec<Fingerprint>,
    epoch: u64,
    previous_epoch: u64,
    previous: ListHash,
    from_slot: Slot,
    to_slot: Slot,
    params: Params,
    members: Vec<Enrolment>,
    /// Finds a member for every reading. A hasher without a random key: ids are certified, and nothing here is ambient.
    indices: HashMap<MeterId, u16, BuildHasherDefault<DefaultHasher>>,
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

    pub(crate) fn read(
        bytes: &Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Arc<Self>, ListError> {
        Self::read_after(&BTreeMap::new(), bytes, cluster, authorities, signatures)
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
        let (envelope, der) = Sign1::decode_certified(list.header)?;
        let header = ListHeader::decode(envelope.payload())?;
        if header.cluster != *cluster {
            return Err(ListError::OtherCluster { expected: cluster.clone(), found: header.cluster });
        }
        let authorities = authorities.only(&header.authorities).ok_or(ListError::UnknownAuthority)?;
        let certificate = authorities.read(der, signatures)?;
        let gateway = certificate.gateway()?.clone();
        if certificate.hash != header.certificate {
            return Err(ListError::OtherCertificate);
        }
        let topic = GatewayChannel::Membership.topic(cluster);
        if signatures == Signatures::Check && !envelope.verifies(&certificate.key, &topic) {
            return Err(ListError::BadSignature);
        }
        let params = check_header(&header, &certificate, list.enrolments.len())?;
        let hashes: Vec<[u8; 32]> = list.enrolments.iter().map(|entry| sha256(entry)).collect();
        if ListHashes::new(&hashes) != header.hashes {
            return Err(ListError::OtherEntries);
        }
        let part = |slice| Part::of(bytes, slice).expect("decoding borrows, and packets are below 4 GiB");
        let members = (0..).zip(&list.enrolments).zip(&hashes).map(|((entry, &enrolment), hash)| {
            match known.get(hash).filter(|known| header.authorities.contains(known.authority())) {
                Some(known) => Ok(known.kept_in(part(enrolment))),
                None => Enrolment::read(part(enrolment), cluster, &authorities, signatures)
                    .map_err(|reason| ListError::Enrolment { entry, reason }),
            }
        });
        let members = members.collect::<Result<Vec<_>, _>>()?;
        check_together(&header, &params, &certificate, &members)?;
        // Last: for large lists it takes as long as checking a thousand signatures.
        params.check_partners()?;
        Ok(Arc::new(Self {
            hash: ListHash(sha256(envelope.payload())),
            cluster: header.cluster,
            gateway,
            gateway_identity: certificate.key,
            gateway_agreement: header.gateway,
            authorities: header.authorities,
            epoch: header.epoch,
            previous_epoch: header.previous_epoch,
            previous: header.previous,
            from_slot: header.from_slot,
            to_slot: header.to_slot,
            params,
            indices: members.iter().map(|member| member.id().clone()).zip(0..).collect(),
            members,
            header: part(list.header),
            bytes: bytes.clone(),
        }))
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

    /// The authorities under which every certificate of the list verifies.
    pub fn authorities(&self) -> &[Fingerprint] {
        &self.authorities
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

    /// Sorted by id; a member's place is its index in every bitmap.
    pub fn members(&self) -> &[Enrolment] {
        &self.members
    }

    pub fn member(&self, index: u16) -> Option<&Enrolment> {
        self.members.get(usize::from(index))
    }

    /// A member's index.
    pub fn index_of(&self, id: &str) -> Option<u16> {
        self.indices.get(id).copied()
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

/// Checks what a header says by itself, and the number of entries that follow it.
fn check_header(header: &ListHeader, gateway: &Certificate, entries: usize) -> Result<Params, ListError> {
    let ListHeader { scheme, quorum, holders, .. } = *header;
    if (scheme, quorum, holders) != (PAIRWISE, 0, 0) {
        return Err(ListError::Scheme { scheme, quorum, holders });
    }
    if header.members != entries as u64 {
        return Err(ListError::MemberCount { stated: header.members, found: entries });
    }
    let params = Params::unconnected(entries, header.terms)?;
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
fn check_together(
    header: &ListHeader,
    params: &Params,
    gateway: &Certificate,
    members: &[Enrolment],
) -> Result<(), ListError> {
    let mut identities = BTreeSet::from([gateway.key]);
    for (entry, member) in members.iter().enumerate() {
        if entry > 0 && members[entry - 1].id() >= member.id() {
            return Err(ListError::Order { entry });
        }
        if !identities.insert(*member.identity()) {
            return Err(ListError::RepeatedIdentity { entry });
        }
        if !member.covers(params, header.from_slot, header.to_slot) {
            return Err(ListError::Period { entry });
        }
    }
    check_sizes(params.members(), members)
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
