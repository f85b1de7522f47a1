//! Whose certificates count, and for what: authorities of meters and authorities of gateways are different ones.
//!
//! An authority that certifies meters can invent some. If the gateway's operator ran it, it could list invented meters beside one
//! home, and the sum would be that home's reading. So a certificate counts only in the role of its authority.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::fields::{self, Fields, oid};
use super::signature;
use super::{Certificate, CertificateError, Fingerprint, Role};
use crate::derive::sha256;

/// A set of trust anchors, for one role. Cheap to clone and to share.
#[derive(Clone)]
pub struct Anchors(Arc<[Arc<Anchor>]>);

/// A trust anchor: a name and a key. Its own validity is the configuration's business.
#[derive(PartialEq, Eq)]
struct Anchor {
    /// DER of the subject name, compared bytewise with a certificate's issuer.
    name: Vec<u8>,
    /// DER of the SubjectPublicKeyInfo: any key type that this build verifies (`signature`).
    key: Vec<u8>,
    fingerprint: Fingerprint,
}

impl Anchors {
    /// From the authorities' own certificates, in DER.
    pub fn new<'a>(certificates: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, CertificateError> {
        let anchors = certificates.into_iter().map(|der| {
            let read = Fields::read(der)?;
            let mut constraints = read.extensions.iter().filter(|extension| extension.oid == oid::BASIC_CONSTRAINTS);
            let is_authority = constraints.next().and_then(|found| fields::is_authority(found.value)) == Some(true);
            if !is_authority || constraints.next().is_some() {
                return Err(CertificateError::NotAnAuthority);
            }
            let (name, key) = (read.subject.to_vec(), read.key_info.to_vec());
            let fingerprint = sha256(&[&name[..], &key].concat());
            Ok(Arc::new(Anchor { name, key, fingerprint }))
        });
        Ok(Self(anchors.collect::<Result<_, _>>()?))
    }

    /// Nobody.
    pub fn none() -> Self {
        Self(Arc::new([]))
    }

    /// Returns the fingerprints of all of them, ascending, as a list names them.
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        self.0.iter().map(|known| known.fingerprint).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub fn contains(&self, fingerprint: &Fingerprint) -> bool {
        self.0.iter().any(|known| known.fingerprint == *fingerprint)
    }

    /// Whether a key is in both sets, under whatever names.
    pub fn share_a_key_with(&self, others: &Self) -> bool {
        self.0.iter().any(|known| others.0.iter().any(|other| other.key == known.key))
    }

    /// Returns those that have these fingerprints, or the first fingerprint that none has.
    fn only<'a>(&self, fingerprints: &'a [Fingerprint]) -> Result<Self, &'a Fingerprint> {
        let find =
            |wanted: &'a Fingerprint| self.0.iter().find(|known| known.fingerprint == *wanted).cloned().ok_or(wanted);
        fingerprints.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the one that issued a certificate. Two may share a name while one key replaces the other: then the signature
    /// says which of them it was.
    fn issuer(&self, read: &Fields<'_>, signatures: Signatures) -> Result<&Anchor, CertificateError> {
        let named: Vec<&Anchor> =
            self.0.iter().map(|known| &**known).filter(|known| known.name == read.issuer).collect();
        match (&named[..], signatures) {
            ([], _) => Err(CertificateError::UnknownAuthority),
            ([only], Signatures::Stored) => Ok(only),
            (several, _) => several
                .iter()
                .find(|known| signature::verifies(read, &known.key))
                .copied()
                .ok_or(CertificateError::BadSignature),
        }
    }
}

impl PartialEq for Anchors {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Anchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Anchors").field(&self.0.len()).finish()
    }
}

/// One key is an authority of meters and of gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "one key is an authority of meters and an authority of gateways: the gateway's authority could invent meters, list \
     them beside one home, and read that home; use two authorities, run by different people"
)]
pub struct SharedAuthority;

/// The authorities whose certificates count, by role. Cheap to clone and to share.
#[derive(Debug, Clone, PartialEq)]
pub struct Authorities {
    meters: Anchors,
    gateways: Anchors,
}

/// An authority that a list names in a role that it has not got here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    Unknown,
    /// It is trusted in the other role.
    Other(Role),
}

/// Whether a signature is checked, or known to be good because it was checked when the bytes were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signatures {
    Check,
    /// Only for a machine's own records. The issuer's name is still checked: an authority may have been removed since.
    Stored,
}

impl Authorities {
    /// Two sets that have no key in common.
    pub fn new(meters: Anchors, gateways: Anchors) -> Result<Self, SharedAuthority> {
        if meters.share_a_key_with(&gateways) { Err(SharedAuthority) } else { Ok(Self { meters, gateways }) }
    }

    /// Two sets that may have keys in common, which takes away all that meters are certified for: only for a gateway, which
    /// cannot harm itself, and for an owner who has said so in as many words.
    pub const fn shared(meters: Anchors, gateways: Anchors) -> Self {
        Self { meters, gateways }
    }

    /// Nobody.
    pub fn none() -> Self {
        Self { meters: Anchors::none(), gateways: Anchors::none() }
    }

    /// Those who may certify meters.
    pub const fn meters(&self) -> &Anchors {
        &self.meters
    }

    /// Those who may certify gateways.
    pub const fn gateways(&self) -> &Anchors {
        &self.gateways
    }

    /// Checks everything of a meter's certificate but the period of validity, which concerns a list's slots and never the
    /// verifier's clock.
    pub fn verify_meter(&self, der: &[u8]) -> Result<Certificate, CertificateError> {
        self.read_meter(der, Signatures::Check)
    }

    /// Checks a gateway's certificate as [`Authorities::verify_meter`] does a meter's.
    pub fn verify_gateway(&self, der: &[u8]) -> Result<Certificate, CertificateError> {
        self.read_gateway(der, Signatures::Check)
    }

    pub(crate) fn read_meter(&self, der: &[u8], signatures: Signatures) -> Result<Certificate, CertificateError> {
        let certificate = self.read(der, Role::Meter, signatures)?;
        certificate.meter()?;
        Ok(certificate)
    }

    pub(crate) fn read_gateway(&self, der: &[u8], signatures: Signatures) -> Result<Certificate, CertificateError> {
        let certificate = self.read(der, Role::Gateway, signatures)?;
        certificate.gateway()?;
        Ok(certificate)
    }

    /// Returns the authorities that a list names, and no others.
    pub(crate) fn only(&self, meters: &[Fingerprint], gateway: &Fingerprint) -> Result<Self, Unfit> {
        let unfit = |needed: Role, found: &Fingerprint| {
            if self.anchors(needed.other()).contains(found) { Unfit::Other(needed) } else { Unfit::Unknown }
        };
        Ok(Self {
            meters: self.meters.only(meters).map_err(|found| unfit(Role::Meter, found))?,
            gateways: self
                .gateways
                .only(core::slice::from_ref(gateway))
                .map_err(|found| unfit(Role::Gateway, found))?,
        })
    }

    const fn anchors(&self, role: Role) -> &Anchors {
        match role {
            Role::Meter => &self.meters,
            Role::Gateway => &self.gateways,
        }
    }

    fn read(&self, der: &[u8], needed: Role, signatures: Signatures) -> Result<Certificate, CertificateError> {
        let read = Fields::read(der)?;
        let issuer = self.anchors(needed).issuer(&read, signatures).map_err(|error| {
            let other = self.anchors(needed.other()).issuer(&read, Signatures::Check);
            if other.is_ok() { CertificateError::WrongAuthority { needed } } else { error }
        })?;
        Ok(Certificate { authority: issuer.fingerprint, ..Certificate::of(&read, der)? })
    }
}
