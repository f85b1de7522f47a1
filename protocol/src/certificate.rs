//! From an X.509 certificate to who somebody is (`protocol.md 3`).
//!
//! The profile is narrow on purpose: issued directly by a configured authority, an Ed25519 key, the id as common name and
//! again in exactly one `urn:dream:` name that also says the role. A meter's may name its cluster as well. There is no
//! revocation: operators keep a deny-list and issue for short periods. Whose certificates count, and in which role, is in
//! `authorities`; `fields` reads, `profile` judges, and `signature` verifies.

mod authorities;
mod draw;
mod fields;
mod profile;
mod signature;

use alloc::string::String;
use core::fmt;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

pub use self::authorities::{Anchors, Authorities, SharedAuthority};
pub(crate) use self::authorities::{Signatures, Unfit};
use self::draw::DRAW_URN;
pub use self::draw::Draw;
use self::fields::Fields;
use self::profile::{CLUSTER_URN, GATEWAY_URN, METER_URN};
use crate::derive::sha256;
use crate::ids::{ClusterId, GatewayId, IdError, MeterId};
pub use crate::keys::DrawKey;
use crate::keys::IdentityPublic;
use crate::params::MAX_MEMBERS;

/// Names an authority: SHA-256 of its name and its key, both in DER.
pub type Fingerprint = [u8; 32];

/// Why a certificate is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CertificateError {
    #[error("not one DER-encoded X.509 certificate")]
    Malformed,
    #[error("not issued by a configured authority; certificates must be issued by one directly")]
    UnknownAuthority,
    #[error("issued by an authority that is trusted for {}s, not for {needed}s", needed.other())]
    WrongAuthority { needed: Role },
    #[error("the authority's signature does not verify")]
    BadSignature,
    #[error("the subject's key is not Ed25519")]
    NotEd25519,
    #[error("the subject's key is no Ed25519 point, one of small order, or not in its canonical encoding")]
    WeakKey,
    #[error("an authority's certificate must be a CA's (basicConstraints CA:TRUE)")]
    NotAnAuthority,
    #[error("a CA's certificate cannot be a meter's or a gateway's")]
    IsAnAuthority,
    #[error("KeyUsage does not allow digitalSignature")]
    KeyUsage,
    #[error("critical extension {0} is not understood")]
    UnknownCriticalExtension(String),
    #[error("extension {0} is malformed or there twice")]
    BadExtension(String),
    #[error("the subject must have exactly one common name, a UTF8String or a PrintableString")]
    CommonName,
    #[error("there must be exactly one `{METER_URN}<id>` or `{GATEWAY_URN}<id>` URI name")]
    Name,
    #[error(
        "there may be one `{CLUSTER_URN}<name>` or `{CLUSTER_URN}<name>:<size>` URI name, in a meter's certificate only; a \
         size is from 1 to {MAX_MEMBERS}, without leading zeros"
    )]
    Cluster,
    #[error("there may be one `{DRAW_URN}<32 lowercase hexadecimal digits>` URI name, in a meter's certificate only")]
    Draw,
    #[error("the `urn:dream:` name and the common name differ")]
    NameMismatch,
    #[error("the certificate is a {found}'s, a {expected}'s was expected")]
    WrongRole { expected: Role, found: Role },
    #[error("the common name is not an id: {0}")]
    Id(#[from] IdError),
}

/// What a certificate is for, and what an authority may certify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Meter,
    Gateway,
}

impl Role {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Meter => Self::Gateway,
            Self::Gateway => Self::Meter,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Meter => "meter",
            Self::Gateway => "gateway",
        })
    }
}

/// Who a certificate speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Meter(MeterId),
    Gateway(GatewayId),
}

/// The cluster that a meter's certificate is for, in the authority's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedCluster {
    pub id: ClusterId,
    /// How many meters the cluster has.
    pub size: Option<u16>,
}

/// What the protocol needs of a certificate that an authority issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub(crate) subject: Subject,
    pub(crate) cluster: Option<CertifiedCluster>,
    pub(crate) key: IdentityPublic,
    /// SHA-256 of the DER.
    pub(crate) hash: [u8; 32],
    /// What the meter is drawn by as a holder.
    pub(crate) draw: Option<Draw>,
    /// The fingerprint of the authority that issued it; zeros if nobody asked.
    pub(crate) authority: Fingerprint,
    /// Unix seconds; instants before 1970 count as 0.
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
}

impl Certificate {
    /// What a certificate says of itself, with its issuer unchecked: to show it, never to trust it.
    pub fn unverified(der: &[u8]) -> Result<Self, CertificateError> {
        Self::of(&Fields::read(der)?, der)
    }

    fn of(read: &Fields<'_>, der: &[u8]) -> Result<Self, CertificateError> {
        let key = profile::subject_key(read)?;
        let (subject, cluster, draw) = profile::subject(read)?;
        Ok(Self {
            key,
            subject,
            cluster,
            hash: sha256(der),
            draw,
            authority: Fingerprint::default(),
            not_before: read.not_before,
            not_after: read.not_after,
        })
    }

    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the only cluster in which this meter may enrol; `None` if the certificate does not say.
    pub const fn cluster(&self) -> Option<&CertifiedCluster> {
        self.cluster.as_ref()
    }

    /// Returns the value by which this meter is drawn as a holder, if it has one.
    pub const fn draw(&self) -> Option<Draw> {
        self.draw
    }

    pub const fn key(&self) -> &IdentityPublic {
        &self.key
    }

    pub const fn not_before(&self) -> u64 {
        self.not_before
    }

    pub const fn not_after(&self) -> u64 {
        self.not_after
    }

    /// The meter's id, if it is a meter's.
    pub fn meter(&self) -> Result<&MeterId, CertificateError> {
        match &self.subject {
            Subject::Meter(id) => Ok(id),
            Subject::Gateway(_) => Err(CertificateError::WrongRole { expected: Role::Meter, found: Role::Gateway }),
        }
    }

    /// The gateway's id, if it is a gateway's.
    pub fn gateway(&self) -> Result<&GatewayId, CertificateError> {
        match &self.subject {
            Subject::Gateway(id) => Ok(id),
            Subject::Meter(_) => Err(CertificateError::WrongRole { expected: Role::Gateway, found: Role::Meter }),
        }
    }
}
