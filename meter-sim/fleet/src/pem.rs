//! Certificates and keys as files that are named after their owners.

use std::fs;
use std::io;
use std::path::Path;

use dream_edge::files;
use zeroize::Zeroizing;

/// Writes `NAME.pem`.
pub(crate) fn write_certificate(directory: &Path, name: &str, der: &[u8]) -> io::Result<()> {
    fs::write(directory.join(format!("{name}.pem")), files::encode("CERTIFICATE", der))
}

/// Writes `NAME.key`, for its owner alone.
pub(crate) fn write_key(directory: &Path, name: &str, seed: &[u8; 32]) -> io::Result<()> {
    let path = directory.join(format!("{name}.key"));
    // A file that is there keeps its mode when it is written over.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    files::write_key(&path, &Zeroizing::new(*seed)).map_err(io::Error::other)
}
