//! The key that everything hangs on, and how it goes.
//!
//! redb never overwrites: what was removed stays in free pages of the file until they are used again. This key is 32 bytes at a
//! fixed place of a small file, and *is* overwritten there, and synced. What that achieves depends on what is below: on a file
//! system that writes in place the block is replaced; one that copies on write (btrfs, ZFS), a snapshot of the file system and the
//! spare blocks of flash may keep an old block for a while. A copy of the state directory never holds an old key.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::seal::Secret;

/// Each of the two keys has a block of its own.
const BLOCK: u64 = 4096;

/// The keys of the commit that holds and, while the next one is written, of that one.
pub(super) struct ShredKeys {
    file: File,
    path: PathBuf,
    /// By the parity of the commit's number.
    keys: [Secret; 2],
}

impl std::fmt::Debug for ShredKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShredKeys").finish_non_exhaustive()
    }
}

impl ShredKeys {
    /// Makes a file without any key, or overwrites what is in it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let keys = Self { file, path: path.to_owned(), keys: [Secret::default(), Secret::default()] };
        keys.store(0)?;
        keys.store(1)?;
        // The name of the file must last, too.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        Ok(keys)
    }

    /// Opens the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut keys = Self { file, path: path.to_owned(), keys: [Secret::default(), Secret::default()] };
        for (at, key) in (0..).zip(&mut keys.keys) {
            keys.file.read_exact_at(key.as_mut_slice(), at * BLOCK)?;
        }
        Ok(keys)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn of(&self, number: u64) -> &Secret {
        &self.keys[parity(number)]
    }

    /// Makes a key of this number; the one before it stays until [`ShredKeys::keep_only`].
    pub(super) fn add(&mut self, number: u64) -> io::Result<()> {
        self.keys[parity(number)] = Secret::new(rand::random());
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
}

const fn parity(number: u64) -> usize {
    if number.is_multiple_of(2) { 0 } else { 1 }
}
