//! A meter's request for a certificate (PKCS#10), made by the meter and read by the authority.

use std::path::{Path, PathBuf};

use dream_edge::issuer::{self, Ed25519};
use dream_protocol::ids::{IdError, MeterId};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::OID_SIG_ED25519;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

use crate::files::{self, FileError, Seed};

/// Why a request is not signed.
#[derive(Debug, Error)]
pub enum RequestError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} holds no request in PEM (a block `-----BEGIN CERTIFICATE REQUEST-----`)", path.display())]
    NoPem { path: PathBuf },
    #[error("{from} is not a valid request, or its signature is wrong: create it again on the meter")]
    Broken { from: String },
    #[error("{from} is for a key that is not Ed25519, the only kind the protocol uses")]
    NotEd25519 { from: String },
    #[error("{from} names no meter: {error}")]
    Name { from: String, error: IdError },
}

/// A request whose signature shows that the meter has the key.
#[derive(Debug)]
pub struct Request {
    meter: MeterId,
    key: Ed25519,
    der: Vec<u8>,
}

impl Request {
    /// Reads a file with a request in PEM.
    pub fn read(path: &Path) -> Result<Self, RequestError> {
        let text = files::read(path)?;
        let der = CertificateSigningRequestDer::from_pem_slice(&text)
            .map_err(|_| RequestError::NoPem { path: path.to_owned() })?;
        Self::parse(&der, &path.display().to_string())
    }

    /// Reads a request in DER and checks its signature. Nothing of it counts but the name and the key.
    pub fn parse(der: &[u8], from: &str) -> Result<Self, RequestError> {
        let from = || from.to_owned();
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|_| RequestError::Broken { from: from() })?;
        if !rest.is_empty() || request.verify_signature().is_err() {
            return Err(RequestError::Broken { from: from() });
        }
        let info = &request.certification_request_info;
        let key = info.subject_pki.subject_public_key.as_ref().try_into().ok();
        let key = key.filter(|_| info.subject_pki.algorithm.algorithm == OID_SIG_ED25519);
        let name = name_of(&info.subject).unwrap_or_default();
        Ok(Self {
            meter: MeterId::new(&name).map_err(|error| RequestError::Name { from: from(), error })?,
            key: Ed25519(key.ok_or_else(|| RequestError::NotEd25519 { from: from() })?),
            der: der.to_vec(),
        })
    }

    /// Returns it in PEM.
    pub(super) fn pem(&self) -> String {
        files::encode("CERTIFICATE REQUEST", &self.der)
    }

    pub const fn meter(&self) -> &MeterId {
        &self.meter
    }

    pub(super) const fn key(&self) -> Ed25519 {
        self.key
    }
}

/// Writes a request for a certificate.
pub fn write_request(path: &Path, meter: &MeterId, seed: &Seed) -> Result<(), FileError> {
    files::replace(path, files::encode("CERTIFICATE REQUEST", &issuer::request(meter, seed)).as_bytes())
}

/// Returns the common name of a certificate.
pub(super) fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    name_of(certificate.subject())
}

fn name_of(name: &X509Name<'_>) -> Option<String> {
    name.iter_common_name().next()?.as_str().ok().map(str::to_owned)
}
