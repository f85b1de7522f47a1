//! The directory of an authority: never beside a gateway's key, and changed by one program at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use dream_protocol::certificate::{Certificate, Subject};
use rustls::pki_types::CertificateDer;

use super::AuthorityError;
use crate::files::{self, FileError};

/// Keeps other programs from changing the directory until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl Lock {
    /// Waits until no other program changes the directory.
    pub fn take(directory: &Path) -> Result<Self, AuthorityError> {
        let path = directory.join("lock");
        let locked = || {
            let file = File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        locked().map(Self).map_err(|error| FileError::Write { path: path.clone(), error }.into())
    }
}

/// Looks for a gateway's files in the directory and beside it.
pub(super) fn refuse_beside_gateway(directory: &Path) -> Result<(), AuthorityError> {
    let parent = directory.canonicalize().ok().and_then(|full| full.parent().map(Path::to_owned));
    for folder in std::iter::once(directory.to_owned()).chain(parent) {
        for name in ["gateway.key", "gateway.toml"] {
            let found = folder.join(name);
            if found.exists() {
                return Err(AuthorityError::BesideGateway { found });
            }
        }
        // One that cannot be listed holds nothing that can be read here.
        for found in pem_files(&folder).unwrap_or_default() {
            let certificates = files::certificates(&found).unwrap_or_default();
            let is_gateway = |der: &CertificateDer<'_>| {
                Certificate::unverified(der).is_ok_and(|found| matches!(found.subject(), Subject::Gateway(_)))
            };
            if certificates.iter().any(is_gateway) {
                return Err(AuthorityError::BesideGateway { found });
            }
        }
    }
    Ok(())
}

pub(super) fn pem_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let broken = |error| FileError::Read { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.extension().is_some_and(|extension| extension == "pem") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
