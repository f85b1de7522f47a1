//! Opening a store: checking every page, bringing older formats up to date, and opening it again after an error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use dream_edge::database::{self, Formats, Unreadable};
use redb::{Database, ReadableDatabase as _, TableError};

use super::copy::{partial, sync_folder};
use super::schema::{self, FORMATS, META, Migration};
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
    /// Opens a store, or makes a new one. Takes as long as reading the file takes. A store of an older format is brought up to date, after a copy of it
    /// was put beside it.
    pub fn open(path: &Path, cache_mebibytes: usize) -> Result<Self, OpenStoreError> {
        Self::open_with(path, cache_mebibytes, &FORMATS)
    }

    fn open_with(path: &Path, cache_mebibytes: usize, formats: &Formats<Migration>) -> Result<Self, OpenStoreError> {
        let cache_bytes = cache_mebibytes << 20;
        let store = Self::of(open(path, cache_bytes, true)?, path, cache_bytes);
        let damaged = |error: StoreError| OpenStoreError::Damaged { path: path.to_owned(), detail: error.to_string() };
        match store.check_format(formats)? {
            None => store.migrate(&[], formats.newest()).map_err(damaged)?,
            Some((_, [])) => {}
            Some((found, steps)) => store.bring_up_to_date(found, steps, formats.newest())?,
        }
        Ok(store)
    }

    /// Opens a store that must be there already.
    pub fn open_existing(path: &Path) -> Result<Self, OpenStoreError> {
        let cache_bytes = 32 << 20;
        Self::of(open(path, cache_bytes, false)?, path, cache_bytes).of_this_format()
    }

    /// Opens a store to read it; no byte of the file is changed.
    pub fn open_unchanged(path: &Path) -> Result<Self, OpenStoreError> {
        let cache_bytes = 32 << 20;
        let database = database::open_unchanged(path, cache_bytes).map_err(|error| why(path, false, error))?;
        Self::of(database, path, cache_bytes).of_this_format()
    }

    fn of(database: Database, path: &Path, cache_bytes: usize) -> Self {
        let file = Mutex::new(FileId::of(path));
        Self { path: path.to_owned(), cache_bytes, database: RwLock::new(Some(database)), file }
    }

    fn of_this_format(self) -> Result<Self, OpenStoreError> {
        let path = || self.path.clone();
        match self.check_format(&FORMATS)? {
            None => Err(OpenStoreError::Damaged { path: path(), detail: "it is empty".to_owned() }),
            Some((_, [])) => Ok(self),
            Some((found, _)) => Err(OpenStoreError::Outdated { path: path(), found, expected: FORMATS.newest() }),
        }
    }

    /// Puts a copy of the file beside it, and brings the tables to the newest format in one transaction.
    fn bring_up_to_date(&self, found: u64, steps: &[Migration], newest: u64) -> Result<(), OpenStoreError> {
        let (path, copy) = (self.path.clone(), copy_of_format(&self.path, found));
        let failed = |detail: String| OpenStoreError::Migration { path: path.clone(), found, newest, detail };
        copy_file(&self.path, &copy)
            .map_err(|error| failed(format!("{} cannot be written: {error}", copy.display())))?;
        self.migrate(steps, newest).map_err(|error| failed(error.to_string()))?;
        let (from, copy) = (found, copy.display());
        tracing::warn!(from, to = newest, %copy, "the store was brought to a newer format; remove the copy once you will not go back: it holds keys");
        Ok(())
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

    /// Refuses a file of something else, or of a format that cannot be read. Returns the format with the steps that bring it up to date;
    /// nothing if the file is still empty.
    fn check_format(
        &self,
        formats: &Formats<Migration>,
    ) -> Result<Option<(u64, &'static [Migration])>, OpenStoreError> {
        let (path, expected) = (|| self.path.clone(), formats.newest());
        let damaged = |detail: &str| OpenStoreError::Damaged { path: path(), detail: detail.to_owned() };
        let failed = |error: StoreError| damaged(&error.to_string());
        match self.format().map_err(failed)? {
            Some(0) => Err(damaged("format 0 never existed")),
            Some(found) => match formats.steps_from(found) {
                Ok(steps) => Ok(Some((found, steps))),
                Err(Unreadable::Newer) => Err(OpenStoreError::Newer { path: path(), found, expected }),
                Err(Unreadable::Earlier) => Err(OpenStoreError::Earlier { path: path(), found, expected }),
            },
            None if self.has_tables().map_err(failed)? => Err(damaged("it holds something else")),
            None => Ok(None),
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

    /// Takes steps and writes the number of the format that they lead to, all or nothing.
    fn migrate(&self, steps: &[Migration], newest: u64) -> Result<(), StoreError> {
        let database = self.database()?;
        let mut write = database.begin_write()?;
        write.set_two_phase_commit(true);
        for step in steps {
            step(&write)?;
        }
        write.open_table(META)?.insert("format", newest)?;
        schema::Tables::open(&write)?;
        write.commit()?;
        Ok(())
    }
}

/// Returns where the copy of a store is put before it is brought up to date.
fn copy_of_format(path: &Path, format: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".format-{format}"));
    name.into()
}

/// Copies a file for its owner alone. The copy is complete or not there.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let partial = partial(to);
    let copied = || {
        let mut copy = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        io::copy(&mut File::open(from)?, &mut copy)?;
        copy.sync_all()?;
        std::fs::rename(&partial, to)?;
        sync_folder(to)
    };
    copied().inspect_err(|_| drop(std::fs::remove_file(&partial)))
}

/// Checks every page of the file, which is left as it is if it is damaged, and opens it.
fn open(path: &Path, cache_bytes: usize, create: bool) -> Result<Database, OpenStoreError> {
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
    let opened = database::open(path, cache_bytes, create).map_err(|error| why(path, create, error))?;
    warn_if_readable(path, mode);
    Ok(opened)
}

fn why(path: &Path, create: bool, error: database::OpenError) -> OpenStoreError {
    let path = path.to_owned();
    match error {
        database::OpenError::Locked => OpenStoreError::Locked { path },
        database::OpenError::Damaged(detail) => OpenStoreError::Damaged { path, detail },
        database::OpenError::Io(error) if !create && error.kind() == ErrorKind::NotFound => {
            OpenStoreError::Missing { path }
        }
        database::OpenError::Io(error) => OpenStoreError::Io { path, error },
    }
}

fn warn_if_readable(path: &Path, mode: u32) {
    if mode & 0o077 != 0 {
        let (path, mode) = (path.display(), format!("{:o}", mode & 0o777));
        tracing::warn!(%path, mode, "others can read the store, and it holds keys: chmod 600");
    }
}

#[cfg(test)]
mod tests {
    use redb::{ReadableTable as _, TableDefinition};
    use tempfile::TempDir;

    use super::*;
    use crate::store::file::schema::ENROLMENTS;

    const COUNTS: TableDefinition<'_, &str, u64> = TableDefinition::new("counts");

    /// A format to come: it counts the enrolments, and drops them.
    const NEXT: Formats<Migration> = Formats {
        oldest: 3,
        steps: &[|write| {
            let mut enrolments = write.open_table(ENROLMENTS)?;
            let count = enrolments.iter()?.count() as u64;
            write.open_table(COUNTS)?.insert("enrolments", count)?;
            Ok(enrolments.retain(|_, _| false)?)
        }],
    };

    /// One whose second step fails.
    const BROKEN: Formats<Migration> = Formats { oldest: 3, steps: &[NEXT.steps[0], |_| Err(StoreError::Fenced)] };

    /// A store that 0.1.0 wrote.
    fn of_0_1_0(folder: &TempDir) -> PathBuf {
        let path = folder.path().join("gateway.redb");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0/gateway.redb");
        std::fs::copy(fixture, &path).unwrap();
        path
    }

    fn enrolments(store: &FileStore) -> u64 {
        let read = store.database().unwrap().begin_read().unwrap();
        read.open_table(ENROLMENTS).unwrap().iter().unwrap().count() as u64
    }

    #[test]
    fn a_store_of_the_version_before_is_brought_up_to_date_and_can_be_put_back() {
        let folder = TempDir::new().unwrap();
        let path = of_0_1_0(&folder);
        let before = enrolments(&FileStore::open(&path, 4).unwrap());
        assert!(before > 0);
        let store = FileStore::open_with(&path, 4, &NEXT).unwrap();
        let counted = store.database().unwrap().begin_read().unwrap().open_table(COUNTS).unwrap().get("enrolments");
        assert_eq!((enrolments(&store), counted.unwrap().unwrap().value()), (0, before));
        drop(store);
        drop(FileStore::open_with(&path, 4, &NEXT).unwrap());

        let migrated = std::fs::read(&path).unwrap();
        let refused = FileStore::open(&path, 4).unwrap_err();
        assert!(matches!(refused, OpenStoreError::Newer { found: 4, expected: 3, .. }), "{refused}");
        assert!(refused.to_string().contains("install that version"), "{refused}");
        let copy = copy_of_format(&path, 3);
        assert_eq!(copy, folder.path().join("gateway.redb.format-3"));
        assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap().len(), migrated.len());

        // As `restore` does: without keys.
        std::fs::remove_file(&path).unwrap();
        FileStore::open_unchanged(&copy).unwrap().copy_to(&path, &[]).unwrap();
        let store = FileStore::open(&path, 4).unwrap();
        assert_eq!((enrolments(&store), store.summary().unwrap().keys), (before, 0));
    }

    #[test]
    fn a_step_that_fails_or_a_copy_that_cannot_be_made_leaves_the_store_as_it_is() {
        let folder = TempDir::new().unwrap();
        let path = of_0_1_0(&folder);
        let refused = FileStore::open_with(&path, 4, &BROKEN).unwrap_err();
        assert!(matches!(refused, OpenStoreError::Migration { found: 3, newest: 5, .. }), "{refused}");
        assert!(enrolments(&FileStore::open(&path, 4).unwrap()) > 0);

        // A folder is where the copy would be.
        let copy = copy_of_format(&path, 3);
        std::fs::remove_file(&copy).unwrap();
        std::fs::create_dir_all(copy.join("full")).unwrap();
        let refused = FileStore::open_with(&path, 4, &NEXT).unwrap_err().to_string();
        assert!(refused.contains("gateway.redb.format-3 cannot be written"), "{refused}");
        assert!(enrolments(&FileStore::open(&path, 4).unwrap()) > 0);
    }

    #[test]
    fn a_store_that_is_opened_unchanged_is_unchanged_whatever_is_written() {
        let folder = TempDir::new().unwrap();
        let path = of_0_1_0(&folder);
        let bytes = std::fs::read(&path).unwrap();
        let store = FileStore::open_unchanged(&path).unwrap();
        store.migrate(&[NEXT.steps[0]], 9).unwrap();
        assert_eq!(enrolments(&store), 0);
        drop(store);
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
