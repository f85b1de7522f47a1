//! The certificates that a configuration names, whatever they are for: whose they are, and when they end.

use std::path::Path;

use dream_protocol::time::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::access::hex;
use super::secrets::{SecretError, certificates};
use super::{Config, HttpTls, Place};
use crate::clock::rfc3339;

/// A certificate in a file of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The key that names its file.
    pub key: &'static str,
    pub subject: String,
    /// Whether others are verified with it.
    pub is_authority: bool,
    /// In Unix seconds.
    pub ends: u64,
    /// The beginning of its SHA-256, in hexadecimal digits.
    pub fingerprint: String,
}

impl NamedCertificate {
    /// Reads what matters of a certificate; `None` if it is none.
    pub fn read(key: &'static str, is_authority: bool, der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let ends = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let fingerprint = hex(&Sha256::digest(der)[..8]);
        Some(Self { key, subject: parsed.subject().to_string(), is_authority, ends, fingerprint })
    }

    /// Returns its end as people write it.
    pub fn end(&self) -> String {
        rfc3339(Timestamp::from_secs(self.ends))
    }
}

/// Returns every certificate that the gateway and its broker, database and clients are verified with, but for that of HTTP; errors
/// stand for files that cannot be read.
pub fn named(config: &Config) -> Vec<Result<NamedCertificate, SecretError>> {
    let Config { identity, broker, store, .. } = config;
    let mut all = leaf("identity.certificate", &identity.certificate);
    for path in &identity.meter_authorities {
        all.extend(authorities("identity.meter_authorities", path));
    }
    for path in &identity.gateway_authorities {
        all.extend(authorities("identity.gateway_authorities", path));
    }
    if let Some(tls) = &broker.tls {
        all.extend(authorities("broker.ca", &tls.ca));
        all.extend(tls.client.iter().flat_map(|(certificate, _)| leaf("broker.client_certificate", certificate)));
    }
    if let Place::Postgres(postgres) = &store.place {
        all.extend(postgres.ca.iter().flat_map(|ca| authorities("store.ca", ca)));
    }
    all
}

/// Returns the certificate that HTTP is served with.
pub fn of_http(tls: &HttpTls) -> Vec<Result<NamedCertificate, SecretError>> {
    leaf("http.tls_certificate", &tls.certificate)
}

/// Reads the first certificate of a file: those behind it only certify it.
fn leaf(key: &'static str, path: &Path) -> Vec<Result<NamedCertificate, SecretError>> {
    read(key, path, false, 1)
}

fn authorities(key: &'static str, path: &Path) -> Vec<Result<NamedCertificate, SecretError>> {
    read(key, path, true, usize::MAX)
}

fn read(key: &'static str, path: &Path, is_authority: bool, most: usize) -> Vec<Result<NamedCertificate, SecretError>> {
    let found = match certificates(key, path) {
        Ok(found) => found,
        Err(error) => return vec![Err(error)],
    };
    let named = |der: &CertificateDer<'_>| {
        let (what, label) = ("certificate that can be read", "CERTIFICATE");
        let wrong = || SecretError::NoPem { key, path: path.to_owned(), what, label };
        NamedCertificate::read(key, is_authority, der).ok_or_else(wrong)
    };
    found.iter().take(most).map(named).collect()
}
