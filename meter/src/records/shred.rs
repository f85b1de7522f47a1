//! Keys that entries are encrypted under, so that an entry is gone when its key is.
//!
//! redb never overwrites: what was removed stays in free pages of the file until they are used again. A key is 32 bytes at a
//! fixed place of a small file, and *is* overwritten there, and synced. What that achieves depends on what is below: on a file
//! system that writes in place the block is replaced; one that copies on write (btrfs, ZFS), a snapshot of the file system and the
//! spare blocks of flash may keep an old block for a while. A copy of the state directory never holds an old key.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use zeroize::Zeroizing;

/// Each of the two keys has a block of its own.
const BLOCK: u64 = 4096;
const IV_BYTES: usize = 16;

type Secret = Zeroizing<[u8; 32]>;

/// The keys of the commit that holds and, while the next one is written, of that one.
pub(super) struct ShredKeys {
    file: File,
    path: PathBuf,
    /// By the parity of their number.
    keys: [Secret; 2],
}

impl std::fmt::Debug for ShredKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShredKeys").finish_non_exhaustive()
    }
}

impl ShredKeys {
    /// Opens the file, or makes it with the key of number 0.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut keys = Self { file, path: path.to_owned(), keys: [Secret::default(), Secret::default()] };
        if new {
            keys.keys[1] = Secret::default();
            keys.store(1)?;
            keys.add(0)?;
            // The name of the file must last, too.
            path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        }
        for (at, key) in (0..).zip(&mut keys.keys) {
            keys.file.read_exact_at(key.as_mut_slice(), at * BLOCK)?;
        }
        Ok(keys)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a key of this number; the one before it stays until [`ShredKeys::keep_only`].
    pub(super) fn add(&mut self, number: u64) -> io::Result<()> {
        self.keys[parity(number)] = Zeroizing::new(rand::random());
        self.store(parity(number))
    }

    /// Overwrites the other key.
    pub(super) fn keep_only(&mut self, number: u64) -> io::Result<()> {
        let other = parity(number + 1);
        if *self.keys[other] == [0; 32] {
            return Ok(());
        }
        self.keys[other] = Secret::default();
        self.store(other)
    }

    fn store(&self, at: usize) -> io::Result<()> {
        let offset = if at == 0 { 0 } else { BLOCK };
        self.file.write_all_at(self.keys[at].as_slice(), offset)?;
        self.file.sync_data()
    }

    pub(super) fn seal_entry(&self, number: u64, bytes: &[u8]) -> Vec<u8> {
        let iv: [u8; IV_BYTES] = rand::random();
        let mut sealed = [&iv, bytes].concat();
        self.stream(number, iv, &mut sealed[IV_BYTES..]);
        sealed
    }

    /// Returns what was sealed. What is too short to be sealed is empty, and then no record.
    pub(super) fn open_entry(&self, number: u64, sealed: &[u8]) -> Zeroizing<Vec<u8>> {
        let Some((iv, bytes)) = sealed.split_first_chunk::<IV_BYTES>() else { return Zeroizing::default() };
        let mut bytes = Zeroizing::new(bytes.to_vec());
        self.stream(number, *iv, &mut bytes);
        bytes
    }

    fn stream(&self, number: u64, iv: [u8; IV_BYTES], bytes: &mut [u8]) {
        let key = &self.keys[parity(number)];
        Ctr128BE::<Aes256>::new((&**key).into(), &iv.into()).apply_keystream(bytes);
    }
}

const fn parity(number: u64) -> usize {
    if number.is_multiple_of(2) { 0 } else { 1 }
}
