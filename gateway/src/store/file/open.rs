//! Opening a store: checking every page, refusing other formats, and opening it again after an error.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use dream_edge::database;
use redb::{Database, ReadableDatabase as _, TableError};

use super::schema::{self, FORMAT, META};
use super::{FileStore, OpenStoreError, StoreError};

/// Which file a path names: its device and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// Returns the file that is there now, if there is one.
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|file| Self(file.dev(), file.ino()))
    }
}

impl FileStore {
    /// Opens a store, or makes a new one. Takes as long as reading the file takes.
    pub fn open(path: &Path, cache_mebibytes: usize) -> Result<Self, OpenStoreError> {
        let cache_bytes = cache_mebibytes << 20;
        let database = open(path, cache_bytes, true)?;
        let file = Mutex::new(FileId::of(path));
        let store = Self { path: path.to_owned(), cache_bytes, database: RwLock::new(Some(database)), file };
        if !store.check_format()? {
            let damaged =
                |error: StoreError| OpenStoreError::Damaged { path: path.to_owned(), detail: error.to_string() };
            store.write_format().map_err(damaged)?;
        }
        Ok(store)
    }

    /// Opens a store that must be there already.
    pub fn open_existing(path: &Path) -> Result<Self, OpenStoreError> {
        let cache_bytes = 32 << 20;
        let database = open(path, cache_bytes, false)?;
        let file = Mutex::new(FileId::of(path));
        let store = Self { path: path.to_owned(), cache_bytes, database: RwLock::new(Some(database)), file };
        if !store.check_format()? {
            return Err(OpenStoreError::Damaged { path: path.to_owned(), detail: "it is empty".to_owned() });
        }
        Ok(store)
    }

    /// Closes the file and opens it again: after an error nothing else gets it out of its doubts.
    pub(super) fn open_again(&self) -> Result<(), OpenStoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        *database = None;
        *database = Some(open(&self.path, self.cache_bytes, false)?);
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = FileId::of(&self.path);
        Ok(())
    }

    /// Returns an error if the file was removed or replaced: what would be written is lost when the gateway stops.
    pub(super) fn check_in_place(&self) -> Result<(), StoreError> {
        let known = *self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() && FileId::of(&self.path) == known {
            return Ok(());
        }
        Err(StoreError::Displaced { path: self.path.clone() })
    }

    /// Refuses a file of another version or of something else; says whether it is a store, or still empty.
    fn check_format(&self) -> Result<bool, OpenStoreError> {
        let path = || self.path.clone();
        let damaged = |error: StoreError| OpenStoreError::Damaged { path: path(), detail: error.to_string() };
        match self.format().map_err(damaged)? {
            Some(FORMAT) => Ok(true),
            Some(found) if found > FORMAT => Err(OpenStoreError::Newer { path: path(), found, expected: FORMAT }),
            Some(0) => Err(OpenStoreError::Damaged { path: path(), detail: "format 0 never existed".to_owned() }),
            Some(found) => Err(OpenStoreError::Earlier { path: path(), found, expected: FORMAT }),
            None if self.has_tables().map_err(damaged)? => {
                Err(OpenStoreError::Damaged { path: path(), detail: "it holds something else".to_owned() })
            }
            None => Ok(false),
        }
    }

    fn format(&self) -> Result<Option<u64>, StoreError> {
        let database = self.database()?;
        match database.begin_read()?.open_table(META) {
            Ok(meta) => Ok(meta.get("format")?.map(|format| format.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn has_tables(&self) -> Result<bool, StoreError> {
        Ok(self.database()?.begin_read()?.list_tables()?.next().is_some())
    }

    fn write_format(&self) -> Result<(), StoreError> {
        let database = self.database()?;
        let mut write = database.begin_write()?;
        write.set_two_phase_commit(true);
        write.open_table(META)?.insert("format", FORMAT)?;
        schema::Tables::open(&write)?;
        write.commit()?;
        Ok(())
    }
}

/// Checks every page of the file, which is left as it is if it is damaged, and opens it.
fn open(path: &Path, cache_bytes: usize, create: bool) -> Result<Database, OpenStoreError> {
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
    let opened = database::open(path, cache_bytes, create).map_err(|error| {
        let path = path.to_owned();
        match error {
            database::OpenError::Locked => OpenStoreError::Locked { path },
            database::OpenError::Damaged(detail) => OpenStoreError::Damaged { path, detail },
            database::OpenError::Io(error) if !create && error.kind() == ErrorKind::NotFound => {
                OpenStoreError::Missing { path }
            }
            database::OpenError::Io(error) => OpenStoreError::Io { path, error },
        }
    })?;
    warn_if_readable(path, mode);
    Ok(opened)
}

fn warn_if_readable(path: &Path, mode: u32) {
    if mode & 0o077 != 0 {
        let (path, mode) = (path.display(), format!("{:o}", mode & 0o777));
        tracing::warn!(%path, mode, "others can read the store, and it holds keys: chmod 600");
    }
}
