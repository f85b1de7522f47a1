//! Certificates and keys as PEM files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

/// What precedes the seed of an Ed25519 key in PKCS#8 (RFC 8410), version 1.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The same in version 2, which has the public key behind the seed.
const PKCS8_V2: [u8; 16] = [0x30, 0x51, 2, 1, 1, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Why a PEM file cannot be used. Never says what is in it.
#[derive(Debug, Error)]
pub enum PemError {
    #[error("{} cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} holds no {what} in PEM (a block `-----BEGIN {label}-----`)", path.display())]
    NoPem { path: PathBuf, what: &'static str, label: &'static str },
    #[error("{} holds no Ed25519 key as PKCS#8; make one with `openssl genpkey -algorithm ed25519`", path.display())]
    NotEd25519 { path: PathBuf },
}

/// At least one certificate.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let (what, label) = ("certificate", "CERTIFICATE");
    found.ok_or_else(|| PemError::NoPem { path: path.to_owned(), what, label })
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let (what, label) = ("private key", "PRIVATE KEY");
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| PemError::NoPem { path: path.to_owned(), what, label })
}

/// The seed of an Ed25519 key.
pub(crate) fn seed(path: &Path) -> Result<Zeroizing<[u8; 32]>, PemError> {
    let key = private_key(path)?;
    let der = key.secret_der();
    let seed = [PKCS8, PKCS8_V2].iter().find_map(|head| der.strip_prefix(head)?.first_chunk::<32>());
    seed.map(|seed| Zeroizing::new(*seed)).ok_or_else(|| PemError::NotEd25519 { path: path.to_owned() })
}

/// An Ed25519 key as PKCS#8.
pub(crate) fn pkcs8(seed: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([PKCS8.as_slice(), seed].concat())
}

/// Writes `NAME.pem`.
pub(crate) fn write_certificate(directory: &Path, name: &str, der: &[u8]) -> io::Result<()> {
    fs::write(directory.join(format!("{name}.pem")), encode("CERTIFICATE", der))
}

/// Writes `NAME.key`, for its owner alone.
pub(crate) fn write_key(directory: &Path, name: &str, seed: &[u8; 32]) -> io::Result<()> {
    let path = directory.join(format!("{name}.key"));
    // A file that is there keeps its mode when it is written over.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&path)?.write_all(Zeroizing::new(encode("PRIVATE KEY", &pkcs8(seed))).as_bytes())
}

fn encode(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, PemError> {
    let bytes = fs::read(path).map_err(|error| PemError::Read { path: path.to_owned(), error })?;
    Ok(Zeroizing::new(bytes))
}
