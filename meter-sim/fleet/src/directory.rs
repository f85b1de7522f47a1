//! A directory that `meter-sim provision` wrote, read back.

use std::fs;
use std::path::{Path, PathBuf};

use dream_edge::files::{self, FileError};
use dream_protocol::certificate::{Anchors, Authorities, Certificate, CertificateError, SharedAuthority};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use thiserror::Error;

use crate::authority::{GATEWAY_AUTHORITY, Issued, METER_AUTHORITY};

/// Why opening a directory failed. Names the file, and what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{} cannot be read: {error}; make the directory with `meter-sim provision`", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{reason}; `meter-sim provision` makes such a directory, and with --force makes it anew")]
    File { reason: FileError },
    #[error("{}: {error}; all files of a directory must come from one run of `meter-sim provision`", path.display())]
    Certificate { path: PathBuf, error: CertificateError },
    #[error("{}: {error}", path.display())]
    Authorities { path: PathBuf, error: SharedAuthority },
    #[error("the key in {} does not match the certificate in {}; both must come from one run of `meter-sim \
             provision`", key.display(), certificate.display())]
    Mismatch { key: PathBuf, certificate: PathBuf },
    #[error("{} is for the meter `{found}`, but is named after `{expected}`; name the file after its meter", path.display())]
    OtherMeter { path: PathBuf, expected: MeterId, found: MeterId },
    #[error("{}: {message}; clusters and meters are named `[a-z0-9][a-z0-9_-]*`", path.display())]
    Name { path: PathBuf, message: String },
    #[error("{} holds no meters; make some with `meter-sim provision`", path.display())]
    Empty { path: PathBuf },
}

impl From<FileError> for OpenError {
    fn from(reason: FileError) -> Self {
        Self::File { reason }
    }
}

/// What there is in a directory. Meters' own files are read when they are asked for.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    authorities: Authorities,
    clusters: Vec<(ClusterId, Vec<MeterFiles>)>,
}

/// The certificate and the key of one meter.
#[derive(Debug, Clone)]
pub struct MeterFiles {
    pub id: MeterId,
    pub certificate: PathBuf,
    pub key: PathBuf,
    authorities: Authorities,
}

impl Directory {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let anchors = |name: &str| {
            let path = path.join(format!("{name}.pem"));
            let found = files::certificates(&path)?;
            let anchors = Anchors::new(found.iter().map(|der| der.as_ref()));
            anchors.map_err(|error| OpenError::Certificate { path, error })
        };
        let authorities = Authorities::new(anchors(METER_AUTHORITY)?, anchors(GATEWAY_AUTHORITY)?)
            .map_err(|error| OpenError::Authorities { path: path.to_owned(), error })?;
        let mut clusters = Vec::new();
        for (folder, name) in sorted(&path.join("meters"))? {
            let cluster = ClusterId::new(&name)
                .map_err(|error| OpenError::Name { path: folder.clone(), message: error.to_string() })?;
            clusters.push((cluster, meters(&folder, &authorities)?));
        }
        if clusters.is_empty() {
            return Err(OpenError::Empty { path: path.join("meters") });
        }
        Ok(Self { path: path.to_owned(), authorities, clusters })
    }

    /// What the broker is verified with: the certificate of the gateways' authority.
    pub fn broker_ca(&self) -> PathBuf {
        self.path.join(format!("{GATEWAY_AUTHORITY}.pem"))
    }

    pub fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    /// The clusters and their meters, both sorted by name.
    pub fn clusters(&self) -> &[(ClusterId, Vec<MeterFiles>)] {
        &self.clusters
    }

    /// The gateway's certificate and key files.
    pub fn gateway_files(&self) -> (PathBuf, PathBuf) {
        (self.path.join("gateway.pem"), self.path.join("gateway.key"))
    }

    /// The certificate and key files of the reader of results on the broker.
    pub fn observer_files(&self) -> (PathBuf, PathBuf) {
        (self.path.join("observer.pem"), self.path.join("observer.key"))
    }

    /// Returns the gateway's name, certificate and key.
    pub fn gateway(&self) -> Result<(GatewayId, Issued), OpenError> {
        let (certificate, key) = self.gateway_files();
        let (issued, checked) = load(&certificate, &key, |der| self.authorities.verify_gateway(der))?;
        let id = checked.gateway().map_err(|error| OpenError::Certificate { path: certificate, error })?.clone();
        Ok((id, issued))
    }

    /// Returns the gateway's name without reading its key.
    pub fn gateway_id(&self) -> Result<GatewayId, OpenError> {
        let (path, _) = self.gateway_files();
        let (_, checked) = certificate(&path, |der| self.authorities.verify_gateway(der))?;
        checked.gateway().cloned().map_err(|error| OpenError::Certificate { path, error })
    }
}

impl MeterFiles {
    /// The certificate and its key.
    pub fn load(&self) -> Result<Issued, OpenError> {
        let (issued, checked) = load(&self.certificate, &self.key, |der| self.authorities.verify_meter(der))?;
        let refused = |error| OpenError::Certificate { path: self.certificate.clone(), error };
        let found = checked.meter().map_err(refused)?;
        if *found != self.id {
            let (expected, found) = (self.id.clone(), found.clone());
            return Err(OpenError::OtherMeter { path: self.certificate.clone(), expected, found });
        }
        Ok(issued)
    }
}

type Verified = Result<Certificate, CertificateError>;

fn load(path: &Path, key: &Path, verify: impl FnOnce(&[u8]) -> Verified) -> Result<(Issued, Certificate), OpenError> {
    let (der, checked) = certificate(path, verify)?;
    let issued = Issued { der, seed: files::seed(key)? };
    if issued.identity().public() != *checked.key() {
        return Err(OpenError::Mismatch { key: key.to_owned(), certificate: path.to_owned() });
    }
    Ok((issued, checked))
}

/// In DER, and verified.
fn certificate(path: &Path, verify: impl FnOnce(&[u8]) -> Verified) -> Result<(Vec<u8>, Certificate), OpenError> {
    let der = files::certificates(path)?.swap_remove(0).to_vec();
    let checked = verify(&der).map_err(|error| OpenError::Certificate { path: path.to_owned(), error })?;
    Ok((der, checked))
}

fn meters(folder: &Path, authorities: &Authorities) -> Result<Vec<MeterFiles>, OpenError> {
    let mut meters = Vec::new();
    for (certificate, name) in sorted(folder)? {
        let Some(name) = name.strip_suffix(".pem") else { continue };
        let id = MeterId::new(name)
            .map_err(|error| OpenError::Name { path: certificate.clone(), message: error.to_string() })?;
        let key = certificate.with_extension("key");
        meters.push(MeterFiles { id, certificate, key, authorities: authorities.clone() });
    }
    if meters.is_empty() {
        return Err(OpenError::Empty { path: folder.to_owned() });
    }
    Ok(meters)
}

/// What is in a folder, with its names, sorted.
fn sorted(folder: &Path) -> Result<Vec<(PathBuf, String)>, OpenError> {
    let broken = |error| OpenError::Read { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.push((path, name));
    }
    found.sort();
    Ok(found)
}
