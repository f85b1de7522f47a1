//! Opens a redb file that holds secrets: for its owner alone, for one process at a time, and only if it is sound.

mod formats;
mod trial;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub use formats::{Formats, Unreadable};

use redb::{Builder, Database, DatabaseError, StorageError};
use thiserror::Error;

/// Lets an error type with a variant `Redb(redb::Error)` be made of any error of redb's.
#[macro_export]
macro_rules! from_redb {
    ($error:ty) => {
        $crate::from_redb!($error: StorageError, TableError, TransactionError, CommitError);
    };
    ($error:ty: $($of:ident),*) => { $(impl From<redb::$of> for $error {
        fn from(error: redb::$of) -> Self {
            Self::Redb(error.into())
        }
    })* };
}

/// Why a file is not opened. It is left as it is.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("it is in use by another process")]
    Locked,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Checks every page of a file and opens it. A file that is not there is an error, or made if `create` says so.
#[expect(clippy::wildcard_enum_match_arm, reason = "anything else that redb says of a file, now or later, is damage")]
pub fn open(path: &Path, cache_bytes: usize, create: bool) -> Result<Database, OpenError> {
    let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)?;
    lock(&file)?;
    let new = file.metadata()?.len() == 0;
    let clean = new || trial::open(file.try_clone()?, cache_bytes).map_err(OpenError::Damaged)?.1;
    let opened = Builder::new().set_cache_size(cache_bytes).create_file(file).and_then(|mut database| {
        if !clean {
            database.check_integrity()?;
        }
        Ok(database)
    });
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked,
        DatabaseError::Storage(StorageError::Io(error)) => OpenError::Io(error),
        error => OpenError::Damaged(error.to_string()),
    })
}

/// Checks every page of a file and opens it to be read. The file may be on a read-only disk, and no byte of it is changed: what is written
/// to the database stays in memory.
pub fn open_unchanged(path: &Path, cache_bytes: usize) -> Result<Database, OpenError> {
    let file = File::open(path)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked),
        Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => return Err(OpenError::Io(error)),
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    trial::open(file, cache_bytes).map(|(database, _)| database).map_err(OpenError::Damaged)
}

/// Returns whether a process has a file open. One that is not there nobody has.
pub fn is_in_use(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match lock(&file) {
        Err(OpenError::Locked) => Ok(true),
        Err(OpenError::Io(error)) => Err(error),
        Ok(()) | Err(OpenError::Damaged(_)) => Ok(false),
    }
}

/// Checks every page of a file that no other process has open, without changing it or keeping others from opening it.
pub fn check(path: &Path) -> Result<(), OpenError> {
    let file = File::open(path)?;
    let is_free = || {
        lock(&file)?;
        Ok::<_, OpenError>(file.unlock()?)
    };
    is_free()?;
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let checked = trial::open(file.try_clone()?, 32 << 20);
    // A process that opened it meanwhile may have written while it was read.
    is_free()?;
    checked.map(drop).map_err(OpenError::Damaged)
}

fn lock(file: &File) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked),
        // A file system without locks.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(OpenError::Io(error)),
    }
}
