//! Certificates and keys as PEM files, and files that are for their owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

/// What precedes the seed of an Ed25519 key in PKCS#8 (RFC 8410): as openssl writes it, and with the public key behind it.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PKCS8_V2: [u8; 16] = [0x30, 0x51, 2, 1, 1, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The seed of an Ed25519 key.
pub type Seed = Zeroizing<[u8; 32]>;

/// Why a file is invalid, or cannot be read or written. Never says what is in it.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("{} cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} cannot be written: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("{} already exists and is not replaced; move it away first", path.display())]
    Exists { path: PathBuf },
    #[error("{} holds no {what} in PEM (a block `-----BEGIN {label}-----`)", path.display())]
    NoPem { path: PathBuf, what: &'static str, label: &'static str },
    #[error("{} holds no Ed25519 key as PKCS#8; `openssl genpkey -algorithm ed25519` makes one", path.display())]
    NotEd25519 { path: PathBuf },
    #[error("{} does not hold 64 hexadecimal digits", path.display())]
    NotASecret { path: PathBuf },
    #[error("{} can be read by others (mode {mode:o}); `chmod 600` it", path.display())]
    Open { path: PathBuf, mode: u32 },
}

/// Returns the bytes of a file, which are erased when dropped.
pub fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let bytes = fs::read(path).map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    Ok(Zeroizing::new(bytes))
}

/// Returns the certificates of a file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let (what, label) = ("certificate", "CERTIFICATE");
    found.ok_or_else(|| FileError::NoPem { path: path.to_owned(), what, label })
}

/// Returns the key in a file.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let (what, label) = ("private key", "PRIVATE KEY");
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| FileError::NoPem { path: path.to_owned(), what, label })
}

/// Returns the seed of the Ed25519 key in a file.
pub fn seed(path: &Path) -> Result<Seed, FileError> {
    seed_of(&private_key(path)?).ok_or_else(|| FileError::NotEd25519 { path: path.to_owned() })
}

/// Returns the same of a file that nobody else can read.
pub fn private_seed(path: &Path) -> Result<Seed, FileError> {
    check_private(path)?;
    seed(path)
}

/// Returns the seed of a key, if it is an Ed25519 key as PKCS#8.
pub fn seed_of(key: &PrivateKeyDer<'_>) -> Option<Seed> {
    let der = key.secret_der();
    let seed = [PKCS8, PKCS8_V2].iter().find_map(|head| der.strip_prefix(head)?.first_chunk::<32>());
    seed.map(|seed| Zeroizing::new(*seed))
}

/// Returns the first line of a text: a password.
pub fn password(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let line = text.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or_default();
    Zeroizing::new(line.to_vec())
}

/// Returns the 32 bytes that a file which nobody else can read has in hexadecimal digits.
pub fn secret(path: &Path) -> Result<Zeroizing<[u8; 32]>, FileError> {
    check_private(path)?;
    digits(path)
}

/// Returns the 32 bytes that a file has in hexadecimal digits, whoever can read it.
pub fn digits(path: &Path) -> Result<Zeroizing<[u8; 32]>, FileError> {
    let text = read(path)?;
    let digits = text.trim_ascii();
    let mut bytes = Zeroizing::new([0; 32]);
    let wrong = || FileError::NotASecret { path: path.to_owned() };
    if digits.len() != 64 {
        return Err(wrong());
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = nibble(pair[0]).zip(nibble(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(wrong)?;
    }
    Ok(bytes)
}

/// Writes 32 bytes in hexadecimal digits into a new file for its owner alone.
pub fn create_secret(path: &Path, bytes: &[u8; 32]) -> Result<(), FileError> {
    let digits = |nibble: u8| char::from_digit(nibble.into(), 16).expect("four bits");
    let text = bytes.iter().flat_map(|byte| [digits(byte >> 4), digits(byte & 15)]);
    let mut all = Zeroizing::new(String::with_capacity(65));
    all.extend(text.chain(['\n']));
    create(path, all.as_bytes(), 0o600)
}

/// Returns the mode of a file that everybody on this machine can read, write or execute. A group may: that is how Kubernetes
/// hands a secret to a process that is not root.
pub fn mode_for_everybody(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & 0o007 != 0).then_some(mode))
}

/// Checks that nobody but its owner can read a file.
pub fn check_private(path: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(path).map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(FileError::Open { path: path.to_owned(), mode }) }
}

/// Returns an Ed25519 key as PKCS#8.
pub fn pkcs8(seed: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([PKCS8.as_slice(), seed.as_slice()].concat())
}

/// Makes a new key in a new file for its owner alone.
pub fn create_key(path: &Path) -> Result<Seed, FileError> {
    let seed = Zeroizing::new(rand::random());
    write_key(path, &seed)?;
    Ok(seed)
}

/// Writes a key into a new file for its owner alone.
pub fn write_key(path: &Path, seed: &Seed) -> Result<(), FileError> {
    create(path, Zeroizing::new(encode("PRIVATE KEY", &pkcs8(seed))).as_bytes(), 0o600)
}

/// Writes a new file.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let trouble = |error| FileError::Write { path: path.to_owned(), error };
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(FileError::Exists { path: path.to_owned() });
        }
        Err(error) => return Err(trouble(error)),
    };
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(trouble)
}

/// Replaces a file as a whole: a reader sees the old one or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    if beside.exists() {
        fs::remove_file(&beside).map_err(|error| FileError::Write { path: beside.clone(), error })?;
    }
    create(&beside, bytes, 0o644)?;
    fs::rename(&beside, path).map_err(|error| FileError::Write { path: path.to_owned(), error })
}

/// Overwrites a file with zeros, as far as the file system writes in place, and removes it. Returns whether there was one.
pub fn erase(path: &Path) -> Result<bool, FileError> {
    let overwrite = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        let zeros = [0; 4096];
        let (mut at, end) = (0, file.metadata()?.len());
        while at < end {
            let part = usize::try_from(end - at).map_or(zeros.len(), |left| left.min(zeros.len()));
            file.write_all_at(&zeros[..part], at)?;
            at += part as u64;
        }
        file.sync_all()?;
        fs::remove_file(path)?;
        // The removal is in the folder.
        path.parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    match overwrite() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::Write { path: path.to_owned(), error }),
    }
}

/// Returns bytes as PEM.
pub fn encode(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_for_its_owner_alone_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meter.key");
        let made = create_key(&path).unwrap();
        assert_eq!(private_seed(&path).unwrap(), made);
        assert!(matches!(create_key(&path), Err(FileError::Exists { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(private_seed(&path), Err(FileError::Open { mode: 0o640, .. })));
    }

    #[test]
    fn a_file_for_its_owner_or_a_group_is_not_for_everybody() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, open) in
            [(0o600, false), (0o400, false), (0o440, false), (0o640, false), (0o644, true), (0o604, true)]
        {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(mode_for_everybody(file.path()).unwrap(), open.then_some(mode), "{mode:o}");
        }
    }

    #[test]
    fn a_secret_is_written_in_digits_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draw.key");
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8 + 7).unwrap());
        create_secret(&path, &bytes).unwrap();
        assert_eq!(*secret(&path).unwrap(), bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(secret(&path), Err(FileError::Open { mode: 0o644, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "00ff", &"0g".repeat(32), &"0".repeat(65)] {
            fs::write(&path, text).unwrap();
            assert!(matches!(secret(&path), Err(FileError::NotASecret { .. })), "{text}");
        }
    }

    #[test]
    fn erasing_removes_a_file_and_says_whether_there_was_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, vec![7; 10_000]).unwrap();
        // Another name of the same file shows what became of it.
        let other = folder.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        assert!(erase(&path).unwrap());
        assert_eq!(fs::read(&other).unwrap(), vec![0; 10_000]);
        assert!(!path.exists() && !erase(&path).unwrap());
    }
}
