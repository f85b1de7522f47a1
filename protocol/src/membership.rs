//! The membership list: who is in a cluster, under which terms, for which slots (`protocol.md 8`).
//!
//! One function, [`MembershipList::verify`], serves meters and gateway alike. It answers whether a list is sound for
//! *anyone*; its result is shared freely, and each meter then checks only what concerns itself
//! ([`crate::policy::Policy`], its own enrolment, the epoch).

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use thiserror::Error;

use crate::certificate::{Authorities, Certificate, CertificateError, Signatures};
use crate::derive::sha256;
use crate::enrolment::{Enrolment, EnrolmentError};
use crate::ids::{ClusterId, GatewayId, MeterId};
use crate::keys::{AgreementPublic, IdentityPublic, ListHash};
use crate::params::{MAX_EPOCH, MAX_SLOT, Params, ParamsError};
use crate::part::Part;
use crate::time::Slot;
use crate::topic::GatewayChannel;
use crate::wire::{DecodeError, ListStatement, Message as _, Sign1};

/// Why a list is refused, whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    #[error("the list does not decode: {0}")]
    Decode(#[from] DecodeError),
    #[error("the list is for cluster `{found}`, not `{expected}`")]
    OtherCluster { expected: ClusterId, found: ClusterId },
    #[error("the list's gateway certificate is refused: {0}")]
    Gateway(#[from] CertificateError),
    #[error("the list's signature does not verify on the cluster's membership topic")]
    BadSignature,
    #[error("entry {entry} of the list: {reason}")]
    Enrolment { entry: usize, reason: EnrolmentError },
    #[error("entry {entry} of the list does not hold for all of its slots")]
    Period { entry: usize },
    #[error("the list's gateway certificate does not hold for all of its slots")]
    GatewayPeriod,
    #[error("the list covers slots {from} to {to}; it must cover at least one, and end below 2^40")]
    Slots { from: Slot, to: Slot },
    #[error("epoch {0} is not below 2^40")]
    Epoch(u64),
    #[error("entry {entry} is out of order or there twice; entries are sorted by meter id")]
    Order { entry: usize },
    #[error("entry {entry} repeats a certificate key of the list")]
    RepeatedIdentity { entry: usize },
    #[error("entry {entry} repeats an X25519 key of the list")]
    RepeatedAgreement { entry: usize },
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
    authorities: Authorities,
    epoch: u64,
    previous: ListHash,
    from_slot: Slot,
    to_slot: Slot,
    params: Params,
    members: Vec<Member>,
    /// Finds a member for every reading. A hasher without a random key: ids are certified, and nothing here is ambient.
    indices: HashMap<MeterId, u16, BuildHasherDefault<DefaultHasher>>,
    bytes: Arc<[u8]>,
}

/// One entry of a list.
#[derive(Debug, Clone)]
pub struct Member {
    id: MeterId,
    identity: IdentityPublic,
    agreement: AgreementPublic,
    seq: u64,
    size: Option<u16>,
}

impl Member {
    pub const fn id(&self) -> &MeterId {
        &self.id
    }

    pub const fn identity(&self) -> &IdentityPublic {
        &self.identity
    }

    pub const fn agreement(&self) -> &AgreementPublic {
        &self.agreement
    }

    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// How many meters the cluster has, if the member's certificate says so.
    pub const fn certified_size(&self) -> Option<u16> {
        self.size
    }
}

impl MembershipList {
    /// Checks a list for `cluster` whole: signatures, certificates, entries, periods, parameters.
    pub fn verify(bytes: &[u8], cluster: &ClusterId, authorities: &Authorities) -> Result<Arc<Self>, ListError> {
        Self::read(&bytes.into(), cluster, authorities, Signatures::Check)
    }

    pub(crate) fn read(
        bytes: &Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Arc<Self>, ListError> {
        let (envelope, der) = Sign1::decode_certified(bytes)?;
        let statement = ListStatement::decode(envelope.payload())?;
        if statement.cluster != *cluster {
            return Err(ListError::OtherCluster { expected: cluster.clone(), found: statement.cluster });
        }
        let certificate = authorities.read(der, signatures)?;
        let gateway = certificate.gateway()?.clone();
        let topic = GatewayChannel::Membership.topic(cluster);
        if signatures == Signatures::Check && !envelope.verifies(&certificate.key, &topic) {
            return Err(ListError::BadSignature);
        }
        let params = Params::unconnected(statement.enrolments.len(), statement.terms)?;
        let enrolments = (0..)
            .zip(parts(bytes, &statement))
            .map(|(entry, bytes)| {
                Enrolment::read(bytes, cluster, authorities, signatures)
                    .map_err(|reason| ListError::Enrolment { entry, reason })
            })
            .collect::<Result<Vec<_>, _>>()?;
        check_together(&statement, &params, &certificate, &enrolments)?;
        // Last: for large lists it takes as long as checking a thousand signatures.
        params.check_partners()?;
        Ok(Arc::new(Self {
            hash: ListHash(sha256(envelope.payload())),
            cluster: statement.cluster,
            gateway,
            gateway_identity: certificate.key,
            gateway_agreement: statement.gateway,
            authorities: authorities.clone(),
            epoch: statement.epoch,
            previous: statement.previous,
            from_slot: statement.from_slot,
            to_slot: statement.to_slot,
            params,
            members: enrolments.iter().map(member).collect(),
            indices: enrolments.iter().map(|enrolment| enrolment.id().clone()).zip(0..).collect(),
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

    /// Under which authorities the list was verified.
    pub const fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

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
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn member(&self, index: u16) -> Option<&Member> {
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

    /// The members' enrolments, byte for byte.
    pub fn enrolments(&self) -> Vec<Vec<u8>> {
        self.entries().iter().map(|entry| entry.to_vec()).collect()
    }

    /// The members' enrolments as parts of the list.
    pub(crate) fn entries(&self) -> Vec<Part> {
        let (envelope, _) = Sign1::decode_certified(&self.bytes).expect("the list was decoded from these bytes");
        let statement = ListStatement::decode(envelope.payload()).expect("the list was decoded from these bytes");
        parts(&self.bytes, &statement).collect()
    }
}

/// Returns the epoch that a list states, whatever else is in it.
pub(crate) fn epoch_of(bytes: &[u8]) -> Result<u64, DecodeError> {
    let (envelope, _) = Sign1::decode_certified(bytes)?;
    Ok(ListStatement::decode(envelope.payload())?.epoch)
}

/// The enrolments of a statement that was decoded from these bytes.
fn parts(bytes: &Arc<[u8]>, statement: &ListStatement<'_>) -> impl Iterator<Item = Part> {
    statement
        .enrolments
        .iter()
        .map(|entry| Part::of(bytes, entry).expect("decoding borrows, and packets are below 4 GiB"))
}

/// What only the entries together can get wrong.
fn check_together(
    statement: &ListStatement<'_>,
    params: &Params,
    gateway: &Certificate,
    enrolments: &[Enrolment],
) -> Result<(), ListError> {
    let (from, to) = (statement.from_slot, statement.to_slot);
    if from > to || to.0 >= MAX_SLOT {
        return Err(ListError::Slots { from, to });
    }
    if statement.epoch >= MAX_EPOCH {
        return Err(ListError::Epoch(statement.epoch));
    }
    if gateway.not_before > params.slot_start(from).as_secs() || gateway.not_after < params.slot_end(to).as_secs() {
        return Err(ListError::GatewayPeriod);
    }
    if statement.gateway.is_low_order() {
        return Err(ListError::LowOrder);
    }
    let mut identities = BTreeSet::from([gateway.key]);
    let mut agreements = BTreeSet::from([statement.gateway.canonical()]);
    for (entry, enrolment) in enrolments.iter().enumerate() {
        if entry > 0 && enrolments[entry - 1].id() >= enrolment.id() {
            return Err(ListError::Order { entry });
        }
        if !identities.insert(*enrolment.identity()) {
            return Err(ListError::RepeatedIdentity { entry });
        }
        if !agreements.insert(enrolment.agreement().0) {
            return Err(ListError::RepeatedAgreement { entry });
        }
        if !enrolment.covers(params, from, to) {
            return Err(ListError::Period { entry });
        }
    }
    check_sizes(params.members(), enrolments)
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

fn member(enrolment: &Enrolment) -> Member {
    Member {
        id: enrolment.id().clone(),
        identity: *enrolment.identity(),
        agreement: *enrolment.agreement(),
        seq: enrolment.seq(),
        size: enrolment.certified_size(),
    }
}
