//! Who the meter is: its key, its certificate, and the authorities that it trusts.

use std::path::{Path, PathBuf};

use dream_protocol::certificate::{Anchors, Authorities, Certificate, CertificateError, SharedAuthority};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::time::Timestamp;
use thiserror::Error;

use crate::clock::utc;
use crate::files::{self, FileError, Seed};

/// The files of an identity, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub meter_authorities: Vec<PathBuf>,
    pub gateway_authorities: Vec<PathBuf>,
    /// Whether the owner accepts one key in both roles, and has said what that gives up.
    pub one_authority: bool,
}

/// Why a meter cannot be who its files say.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {error}", path.display())]
    Certificate { path: PathBuf, error: CertificateError },
    #[error("`identity.meter_authorities` and `identity.gateway_authorities`: {0}")]
    Shared(SharedAuthority),
    #[error(
        "the key in {} does not match the certificate in {}; the signed request was made with another key",
        key.display(), certificate.display()
    )]
    Mismatch { key: PathBuf, certificate: PathBuf },
    #[error(
        "the certificate in {} is not valid now, only from {} to {}; ask the authority to renew it, or set this machine's clock",
        path.display(), utc(*from), utc(*to)
    )]
    Period { path: PathBuf, from: u64, to: u64 },
    #[error(
        "the certificate in {} names no cluster; write `cluster = \"NAME\"` into the configuration, or ask for one that does",
        path.display()
    )]
    NoCluster { path: PathBuf },
    #[error("the certificate in {} is for the cluster `{certified}`, and `cluster` is `{configured}`", path.display())]
    OtherCluster { path: PathBuf, certified: ClusterId, configured: ClusterId },
}

/// A meter's identity, checked.
#[derive(Debug)]
pub struct Identity {
    pub id: MeterId,
    pub cluster: ClusterId,
    pub checked: Certificate,
    /// In DER.
    pub certificate: Vec<u8>,
    pub authorities: Authorities,
    seed: SecretSeed,
}

struct SecretSeed(Seed);

impl std::fmt::Debug for SecretSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretSeed").finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads and checks everything that can be wrong before a broker is asked.
    pub fn load(files: &IdentityFiles, cluster: Option<&ClusterId>) -> Result<Self, IdentityError> {
        let authorities = authorities(&files.meter_authorities, &files.gateway_authorities, files.one_authority)?;
        let path = &files.certificate;
        let certificate = files::certificates(path)?.swap_remove(0).to_vec();
        let refused = |error| IdentityError::Certificate { path: path.clone(), error };
        let checked = authorities.verify_meter(&certificate).map_err(refused)?;
        let id = checked.meter().map_err(refused)?.clone();
        let cluster = match (checked.cluster(), cluster) {
            (None, None) => return Err(IdentityError::NoCluster { path: path.clone() }),
            (Some(certified), Some(configured)) if certified.id != *configured => {
                let (certified, configured) = (certified.id.clone(), configured.clone());
                return Err(IdentityError::OtherCluster { path: path.clone(), certified, configured });
            }
            (Some(certified), Some(_) | None) => certified.id.clone(),
            (None, Some(configured)) => configured.clone(),
        };
        let seed = files::private_seed(&files.key)?;
        if IdentityKey::from_seed(&seed).public() != *checked.key() {
            return Err(IdentityError::Mismatch { key: files.key.clone(), certificate: path.clone() });
        }
        Ok(Self { id, cluster, checked, certificate, authorities, seed: SecretSeed(seed) })
    }

    /// Returns an error if the certificate is not valid at this time.
    pub fn check_period(&self, path: &Path, now: Timestamp) -> Result<(), IdentityError> {
        let (from, to) = (self.checked.not_before(), self.checked.not_after());
        if (from..=to).contains(&now.as_secs()) {
            return Ok(());
        }
        Err(IdentityError::Period { path: path.to_owned(), from, to })
    }

    /// Returns whether one key certifies meters and gateways, which the owner has accepted.
    pub fn has_one_authority(&self) -> bool {
        self.authorities.meters().share_a_key_with(self.authorities.gateways())
    }

    /// Returns the key that signs.
    pub fn key(&self) -> IdentityKey {
        IdentityKey::from_seed(&self.seed.0)
    }

    /// Returns the key for TLS.
    pub fn pkcs8(&self) -> zeroize::Zeroizing<Vec<u8>> {
        files::pkcs8(&self.seed.0)
    }

    /// Returns the seed of the key, for a request that it signs.
    pub(crate) fn seed(&self) -> Seed {
        self.seed.0.clone()
    }

    /// Returns when the last third of the certificate's life begins, in which an authority renews it.
    pub fn renewable_from(&self) -> u64 {
        renewable_from(&self.checked)
    }
}

/// Returns when the last third of a certificate's life begins, in Unix seconds.
pub fn renewable_from(certificate: &Certificate) -> u64 {
    let (from, to) = (certificate.not_before(), certificate.not_after());
    to - (to - from) / 3
}

/// Reads the authorities of meters and of gateways, which must differ unless the owner says otherwise.
pub fn authorities(meters: &[PathBuf], gateways: &[PathBuf], one: bool) -> Result<Authorities, IdentityError> {
    let (meters, gateways) = (anchors(meters)?, anchors(gateways)?);
    if one {
        return Ok(Authorities::shared(meters, gateways));
    }
    Authorities::new(meters, gateways).map_err(IdentityError::Shared)
}

/// Reads the authorities in these files, each of which may hold several.
fn anchors(paths: &[PathBuf]) -> Result<Anchors, IdentityError> {
    let mut all = Vec::new();
    for path in paths {
        let found = files::certificates(path)?;
        Anchors::new(found.iter().map(|der| der.as_ref()))
            .map_err(|error| IdentityError::Certificate { path: path.clone(), error })?;
        all.extend(found);
    }
    Ok(Anchors::new(all.iter().map(|der| der.as_ref())).expect("each was accepted by itself"))
}
