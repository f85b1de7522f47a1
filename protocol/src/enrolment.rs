//! A meter's signed statement that it belongs to a cluster (`protocol.md 8`).

use alloc::sync::Arc;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::certificate::{Authorities, CertificateError, Draw, Fingerprint, Signatures};
use crate::derive::sha256;
use crate::ids::{ClusterId, MeterId};
use crate::keys::{AgreementPublic, IdentityPublic};
use crate::params::Params;
use crate::part::Part;
use crate::time::Slot;
use crate::topic::MeterChannel;
use crate::wire::{DecodeError, EnrolmentStatement, Message as _, Sign1};

/// The longest an enrolment, and with it a meter's X25519 key, may live.
pub const MAX_ENROLMENT_SECONDS: u64 = 35 * 86_400;

/// How far ahead an enrolment may be dated: the clock was wrong when one that is dated further was made.
pub(crate) const MAX_AHEAD_SECONDS: u64 = 3600;

/// Why an enrolment is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EnrolmentError {
    #[error("the enrolment does not decode: {0}")]
    #[strum(serialize = "malformed")]
    Decode(#[from] DecodeError),
    #[error("the enrolment's certificate is refused: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the enrolment names another certificate than it carries")]
    OtherCertificate,
    #[error("the enrolment is for cluster `{found}`, not `{expected}`")]
    OtherCluster { expected: ClusterId, found: ClusterId },
    #[error("the enrolment is for cluster `{found}`, its certificate for `{certified}` alone")]
    CertifiedCluster { certified: ClusterId, found: ClusterId },
    #[error("the enrolment's signature does not verify on its meter's enrol topic")]
    BadSignature,
    #[error("the enrolment must last between 1 second and 35 days, it lasts from {not_before} to {not_after}")]
    Period { not_before: u64, not_after: u64 },
    #[error("the enrolment's X25519 key is a point of small order")]
    LowOrder,
}

/// A verified enrolment: what the protocol needs of it, and its bytes. Cheap to clone; a gateway keeps one per meter, and
/// its bytes inside those of the list that it is in.
#[derive(Debug, Clone)]
pub struct Enrolment {
    id: MeterId,
    identity: IdentityPublic,
    /// In canonical form: X25519 makes no difference, and equal keys are equal bytes.
    agreement: AgreementPublic,
    /// When both the enrolment and its certificate hold, in Unix seconds.
    not_before: u64,
    not_after: u64,
    seq: u64,
    /// The authority that issued the certificate.
    authority: Fingerprint,
    /// SHA-256 of the bytes, by which the header of a list names them.
    hash: [u8; 32],
    /// How many meters the authority says that the cluster has.
    size: Option<u16>,
    /// The largest cluster in which the meter is willing to be a holder.
    holds: u16,
    /// What it is drawn by as a holder, if it has a draw value.
    draw: Option<Draw>,
    bytes: Part,
}

impl Enrolment {
    /// Checks an enrolment for `cluster`: certificate, signature, period, key. Never looks at a clock.
    pub fn verify(bytes: &[u8], cluster: &ClusterId, authorities: &Authorities) -> Result<Self, EnrolmentError> {
        Self::own(bytes.into(), cluster, authorities, Signatures::Check)
    }

    /// Reads an enrolment that stands alone.
    pub(crate) fn own(
        bytes: Arc<[u8]>,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Self, EnrolmentError> {
        let bytes = Part::all(bytes).ok_or(DecodeError::OutOfRange { field: "enrolment" })?;
        Self::read(bytes, cluster, authorities, signatures)
    }

    pub(crate) fn read(
        bytes: Part,
        cluster: &ClusterId,
        authorities: &Authorities,
        signatures: Signatures,
    ) -> Result<Self, EnrolmentError> {
        let (envelope, der) = Sign1::decode_certified(&bytes)?;
        let statement = EnrolmentStatement::decode(envelope.payload())?;
        if statement.cluster != *cluster {
            return Err(EnrolmentError::OtherCluster { expected: cluster.clone(), found: statement.cluster });
        }
        let certificate = authorities.read_meter(der, signatures)?;
        if certificate.hash != statement.certificate {
            return Err(EnrolmentError::OtherCertificate);
        }
        let id = certificate.meter()?.clone();
        let size = match &certificate.cluster {
            Some(certified) if certified.id != *cluster => {
                return Err(EnrolmentError::CertifiedCluster {
                    certified: certified.id.clone(),
                    found: cluster.clone(),
                });
            }
            Some(certified) => certified.size,
            None => None,
        };
        let topic = MeterChannel::Enrol.topic(cluster, &id);
        if signatures == Signatures::Check && !envelope.verifies(&certificate.key, &topic) {
            return Err(EnrolmentError::BadSignature);
        }
        let EnrolmentStatement { not_before, not_after, .. } = statement;
        if not_after <= not_before || not_after - not_before > MAX_ENROLMENT_SECONDS {
            return Err(EnrolmentError::Period { not_before, not_after });
        }
        if statement.agreement.is_low_order() {
            return Err(EnrolmentError::LowOrder);
        }
        Ok(Self {
            id,
            identity: certificate.key,
            agreement: AgreementPublic(statement.agreement.canonical()),
            not_before: not_before.max(certificate.not_before),
            not_after: not_after.min(certificate.not_after),
            seq: statement.seq,
            authority: certificate.authority,
            hash: sha256(&bytes),
            size,
            holds: u16::try_from(statement.holds).unwrap_or(u16::MAX),
            draw: certificate.draw,
            bytes,
        })
    }

    pub const fn id(&self) -> &MeterId {
        &self.id
    }

    /// The key of the meter's certificate.
    pub const fn identity(&self) -> &IdentityPublic {
        &self.identity
    }

    pub const fn agreement(&self) -> &AgreementPublic {
        &self.agreement
    }

    /// Whether the meter is willing to be a holder in a list of so many members.
    pub const fn is_willing(&self, members: u16) -> bool {
        self.holds >= members
    }

    /// Returns the number that decides whether the meter is a holder on a day, where holders are drawn; `None` if its
    /// certificate states no draw value.
    pub fn sigma(&self, day: u64) -> Option<u64> {
        self.draw.map(|draw| draw.sigma(day))
    }

    /// When the enrolment or its certificate ends, in Unix seconds.
    pub const fn not_after(&self) -> u64 {
        self.not_after
    }

    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The fingerprint of the authority that issued the meter's certificate.
    pub const fn authority(&self) -> &Fingerprint {
        &self.authority
    }

    /// SHA-256 of the envelope.
    pub const fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// How many meters the cluster has, if the meter's certificate says so.
    pub const fn certified_size(&self) -> Option<u16> {
        self.size
    }

    /// The envelope, byte for byte as the meter sent it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the same enrolment with its bytes as a part of a list that they are an entry of.
    pub(crate) fn kept_in(&self, elsewhere: Part) -> Self {
        debug_assert_eq!(*self.bytes, *elsewhere, "the same bytes");
        Self { bytes: elsewhere, id: self.id.clone(), ..*self }
    }

    /// Keeps a copy of its bytes rather than a whole list other than `list`, which may be needed by nobody else.
    pub(crate) fn keep_no_list_but(&mut self, list: &Arc<[u8]>) {
        if self.bytes.keeps_another(list) {
            self.bytes = Part::all((&*self.bytes).into()).expect("a part is not longer than its whole");
        }
    }

    /// Whether enrolment and certificate hold from the start of `from` to the end of `to`.
    pub fn covers(&self, params: &Params, from: Slot, to: Slot) -> bool {
        self.not_before <= params.slot_start(from).as_secs() && params.slot_end(to).as_secs() <= self.not_after
    }
}
