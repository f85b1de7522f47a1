//! The meter's records in one file: what a device would keep in its flash (`protocol.md 9`).
//!
//! A commit is on disk before [`Records::commit`] returns, and nothing that depends on it is sent before that. Every entry is
//! sealed under a key of its own (`records/seal.rs`). These keys are in the *index* (`records/index.rs`), which every commit seals
//! anew under a key in a file of its own, and that key is overwritten by the next commit (`records/shred.rs`). So what was
//! erased or replaced has lost its key, and an entry that is changed, exchanged, put back or missing does not fit the index. What
//! this file was last seen as, and what follows if it was copied or restored, is in [`crate::origin`].

mod index;
mod seal;
mod shred;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dream_edge::database::{self, Formats, OpenError, Unreadable};
use dream_protocol::meter::{Key, Record};
use redb::{Database, ReadTransaction, ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition, TableError};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use thiserror::Error;
use zeroize::Zeroizing;

use index::Index;
use seal::Secret;
use shred::ShredKeys;

/// Where an entry is: its kind and its number.
type Place = (u8, u64);

/// The bytes of an entry, with its place.
type Entry = (Place, Zeroizing<Vec<u8>>);

/// What becomes of entries: a record, or nothing any more.
type Changes<'a> = BTreeMap<Place, Option<&'a Record>>;

/// Sealed entries.
const ENTRIES: TableDefinition<'_, Place, &[u8]> = TableDefinition::new("entries");

/// The sealed index.
const INDEX: TableDefinition<'_, (), &[u8]> = TableDefinition::new("index");

/// The version of the file, and which commit this is: that says which key opens the index. Nothing else is in clear.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const VERSION: &str = "format";
const COMMIT: &str = "commit";

/// What becomes of an entry from one format to the next: its bytes, or nothing any more.
type Migration = fn(Place, &[u8]) -> Option<Zeroizing<Vec<u8>>>;

/// The versions of the file; 0.1.0 wrote the oldest. The one before had its account in clear, and called this table otherwise.
const FORMATS: Formats<Migration> = Formats { oldest: 2, steps: &[] };

/// Little is read twice.
const CACHE_BYTES: usize = 256 << 10;

/// Why records cannot be kept.
#[derive(Debug, Error)]
pub enum RecordsError {
    #[error("{} is in use: the meter is already running. Stop it first", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} was written by another version, and this one cannot read it; `dream-meter leave` removes it, and the meter \
         enrols again",
        path.display()
    )]
    OtherFormat { path: PathBuf },
    #[error(
        "{} was written by a newer version (format {found}, this one reads up to {expected}), and was not changed: install that \
         version again",
        path.display()
    )]
    Newer { path: PathBuf, found: u64, expected: u64 },
    #[error(
        "{} is damaged, or not a meter's records ({detail}); it was not changed. Move it away, and do not restore a \
         backup in its place: the meter then stays silent until the next day in UTC, and enrols again",
        path.display()
    )]
    Damaged { path: PathBuf, detail: String },
    #[error("{} cannot be opened or written: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("cannot read or write the meter's records")]
    Redb(#[from] redb::Error),
}

dream_edge::from_redb!(RecordsError);

/// One change of the records.
#[derive(Debug)]
pub enum Change {
    Put(Record),
    Erase(Key),
}

/// A number that is kept beside the entries. What each is called in the file never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    /// Which file this is: its number in the file system, which is given out again when a file is gone.
    Inode = 1,
    /// The machine that wrote it.
    Machine = 2,
    /// A random number that one set of records has from its beginning.
    Instance = 3,
    /// Until when the meter says nothing, in Unix seconds.
    SilentUntil = 4,
    /// The UTC day that `Sent` counts.
    Day = 5,
    /// For how many slots of that day a reading was recorded to be sent.
    Sent = 6,
    /// When the file was made, in nanoseconds, where the file system knows it.
    Birth = 7,
    /// The UTC day from which what this home gave away is counted.
    SharedSince = 8,
    /// On how many days it shared readings.
    SharedDays = 9,
    /// The rho of these days, added up in millionths.
    SharedRho = 10,
    /// The epsilon of attempts under lists that state no rho, added up in millionths.
    SharedEpsilon = 11,
}

impl Number {
    const ALL: [Self; 11] = [
        Self::Inode,
        Self::Machine,
        Self::Instance,
        Self::SilentUntil,
        Self::Day,
        Self::Sent,
        Self::Birth,
        Self::SharedSince,
        Self::SharedDays,
        Self::SharedRho,
        Self::SharedEpsilon,
    ];
}

#[derive(Debug)]
pub struct Records {
    database: Database,
    keys: ShredKeys,
    path: PathBuf,
    /// How many commits there were: it only grows.
    commits: u64,
    index: Index,
    /// The version in which it is written.
    format: u64,
}

impl Records {
    /// Returns the file of the records in a state directory.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join("records.redb")
    }

    /// Returns the file with the key that the index is sealed under.
    pub fn key_file(directory: &Path) -> PathBuf {
        directory.join("records.key")
    }

    /// Opens the records of a state directory, or begins new ones. Everything in them is checked before a byte is changed.
    ///
    /// Records of an older format are brought up to date in one commit. No copy of them is kept: a meter must never go back to earlier records
    /// (`protocol.md 9`), and what was erased would live on in it.
    pub fn open(directory: &Path) -> Result<Self, RecordsError> {
        Self::open_with(directory, &FORMATS)
    }

    fn open_with(directory: &Path, formats: &Formats<Migration>) -> Result<Self, RecordsError> {
        let format = formats.newest();
        let path = Self::file(directory);
        let broken = |error| RecordsError::File { path: path.clone(), error };
        fs::create_dir_all(directory).map_err(broken)?;
        let database = database::open(&path, CACHE_BYTES, true).map_err(|error| match error {
            OpenError::Locked => RecordsError::Locked { path: path.clone() },
            OpenError::Damaged(detail) => RecordsError::Damaged { path: path.clone(), detail },
            OpenError::Io(error) => broken(error),
        })?;
        private(&path).map_err(broken)?;
        let key_file = Self::key_file(directory);
        let no_key = |error| RecordsError::File { path: key_file.clone(), error };
        let Some((commits, steps)) = check_format(&database, &path, formats)? else {
            let keys = ShredKeys::create(&key_file).map_err(no_key)?;
            return Ok(Self { database, keys, path, commits: 0, index: Index::default(), format });
        };
        let keys = ShredKeys::open(&key_file).map_err(no_key)?;
        let mut records = Self { database, keys, path, commits, index: Index::default(), format };
        records.index = records.read_index()?;
        let entries = records.migrated(steps)?;
        records.keys.keep_only(commits).map_err(|error| records.key_trouble(error))?;
        if !steps.is_empty() {
            records.commit_entries(&entries.iter().map(|(place, record)| (*place, record.as_ref())).collect(), &[])?;
        }
        Ok(records)
    }

    /// Reads every entry and takes it through the steps; nothing is left of one that is dropped.
    fn migrated(&self, steps: &[Migration]) -> Result<Vec<(Place, Option<Record>)>, RecordsError> {
        let migrate = |(place, bytes): Entry| {
            let migrated = steps.iter().try_fold(bytes, |bytes, step| step(place, &bytes));
            Ok((place, migrated.map(|bytes| self.decode(&bytes)).transpose()?))
        };
        self.entries()?.into_iter().map(migrate).collect()
    }

    /// Returns everything that is recorded.
    pub fn load(&self) -> Result<Vec<Record>, RecordsError> {
        self.entries()?.iter().map(|(_, bytes)| self.decode(bytes)).collect()
    }

    /// Returns the bytes of every entry, with its place.
    fn entries(&self) -> Result<Vec<Entry>, RecordsError> {
        if self.commits == 0 {
            return Ok(Vec::new());
        }
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        if table.len()? != self.index.keys.len() as u64 {
            return Err(self.damaged("entries were added or removed"));
        }
        let mut entries = Vec::new();
        for (place, key) in &self.index.keys {
            let sealed = table.get(place)?.ok_or_else(|| self.damaged("an entry is missing"))?;
            let bytes = seal::open(key, &place_bytes(*place), sealed.value());
            entries.push((*place, bytes.ok_or_else(|| self.damaged("an entry is not what was written"))?));
        }
        Ok(entries)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Record, RecordsError> {
        Record::decode(bytes).map_err(|error| self.damaged(error.to_string()))
    }

    /// Makes changes durable, all or none, and returns how many commits there were.
    pub fn commit(&mut self, changes: &[Change], numbers: &[(Number, u64)]) -> Result<u64, RecordsError> {
        // The last change of an entry counts: a key seals once.
        self.commit_entries(&changes.iter().map(Change::of_place).collect(), numbers)
    }

    fn commit_entries(&mut self, changes: &Changes<'_>, numbers: &[(Number, u64)]) -> Result<u64, RecordsError> {
        let commits = self.commits + 1;
        let mut index = self.index.clone();
        index.numbers.extend(numbers.iter().copied());
        for (place, record) in changes {
            match record {
                Some(_) => index.keys.insert(*place, Secret::new(rand::random())),
                None => index.keys.remove(place),
            };
        }
        self.keys.add(commits).map_err(|error| self.key_trouble(error))?;
        self.write(changes, &index, commits)?;
        self.keys.keep_only(commits).map_err(|error| self.key_trouble(error))?;
        (self.commits, self.index) = (commits, index);
        Ok(commits)
    }

    /// Erases what must not be used after records were copied or restored: all but the account and evidence.
    pub fn discard(&mut self, numbers: &[(Number, u64)]) -> Result<u64, RecordsError> {
        let stale = |record: &Record| match record.key() {
            key @ (Key::Enrolment(_) | Key::List(_) | Key::Slot(_) | Key::Answer(_)) => Some(Change::Erase(key)),
            Key::Account | Key::Evidence(_) => None,
        };
        let changes: Vec<Change> = self.load()?.iter().filter_map(stale).collect();
        self.commit(&changes, numbers)
    }

    pub fn number(&self, number: Number) -> Option<u64> {
        self.index.numbers.get(&number).copied()
    }

    /// Returns how many commits there were.
    pub const fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns the number by which the file system knows this file, and when it was made if it knows that, too.
    pub fn file_marks(&self) -> Result<(u64, Option<u64>), RecordsError> {
        let (all, flags) = (StatxFlags::INO | StatxFlags::BTIME, AtFlags::empty());
        let found = statx(CWD, &self.path, flags, all)
            .map_err(|error| RecordsError::File { path: self.path.clone(), error: error.into() })?;
        let born = found.stx_btime;
        let nanos = u64::try_from(born.tv_sec).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let birth = nanos.map(|nanos| nanos + u64::from(born.tv_nsec));
        Ok((found.stx_ino, birth.filter(|_| found.stx_mask & StatxFlags::BTIME.bits() != 0)))
    }

    fn write(&self, changes: &Changes<'_>, index: &Index, commits: u64) -> Result<(), RecordsError> {
        let mut write = self.database.begin_write()?;
        // In one phase, a torn commit could only be taken for the one before: records that went back.
        write.set_two_phase_commit(true);
        {
            let mut entries = write.open_table(ENTRIES)?;
            for (place, record) in changes {
                match record {
                    Some(record) => {
                        let sealed = seal::seal(&index.keys[place], &place_bytes(*place), &record.encode());
                        entries.insert(place, sealed.as_slice())?
                    }
                    None => entries.remove(place)?,
                };
            }
            let sealed = seal::seal(self.keys.of(commits), &index_bytes(commits), &index.encode());
            write.open_table(INDEX)?.insert((), sealed.as_slice())?;
            let mut meta = write.open_table(META)?;
            meta.insert(VERSION, self.format)?;
            meta.insert(COMMIT, commits)?;
        }
        Ok(write.commit()?)
    }

    fn read_index(&self) -> Result<Index, RecordsError> {
        let table = self.database.begin_read()?.open_table(INDEX)?;
        let sealed = table.get(())?.ok_or_else(|| self.damaged("it has no index"))?;
        let opened = seal::open(self.keys.of(self.commits), &index_bytes(self.commits), sealed.value());
        let bytes = opened.ok_or_else(|| self.damaged("its index does not fit `records.key`"))?;
        Index::decode(&bytes).ok_or_else(|| self.damaged("its index cannot be read"))
    }

    fn damaged(&self, detail: impl Into<String>) -> RecordsError {
        RecordsError::Damaged { path: self.path.clone(), detail: detail.into() }
    }

    fn key_trouble(&self, error: std::io::Error) -> RecordsError {
        RecordsError::File { path: self.keys.path().to_owned(), error }
    }
}

impl Change {
    fn of_place(&self) -> (Place, Option<&Record>) {
        match self {
            Self::Put(record) => (record.key().place(), Some(record)),
            Self::Erase(key) => (key.place(), None),
        }
    }
}

/// What an entry and the index are bound to.
fn place_bytes((kind, number): Place) -> Vec<u8> {
    [b"dream-meter entry".as_slice(), &[kind], &number.to_be_bytes()].concat()
}

fn index_bytes(commits: u64) -> Vec<u8> {
    [b"dream-meter index".as_slice(), &commits.to_be_bytes()].concat()
}

/// Returns the number of commits in a file with the steps that bring it up to date, and nothing of a new one.
fn check_format(
    database: &Database,
    path: &Path,
    formats: &Formats<Migration>,
) -> Result<Option<(u64, &'static [Migration])>, RecordsError> {
    let read = database.begin_read()?;
    if read.list_tables()?.next().is_none() {
        return Ok(None);
    }
    let (found, commits) = match meta(&read) {
        Ok((Some(found), commits)) => (found, commits),
        Ok((None, _)) | Err(TableError::TableDoesNotExist(_)) => {
            return Err(RecordsError::OtherFormat { path: path.to_owned() });
        }
        Err(error) => return Err(error.into()),
    };
    match (formats.steps_from(found), commits) {
        (Ok(steps), Some(commits)) => Ok(Some((commits, steps))),
        (Ok(_), None) => {
            Err(RecordsError::Damaged { path: path.to_owned(), detail: "it counts no commits".to_owned() })
        }
        (Err(Unreadable::Earlier), _) => Err(RecordsError::OtherFormat { path: path.to_owned() }),
        (Err(Unreadable::Newer), _) => {
            Err(RecordsError::Newer { path: path.to_owned(), found, expected: formats.newest() })
        }
    }
}

fn meta(read: &ReadTransaction) -> Result<(Option<u64>, Option<u64>), TableError> {
    let meta = read.open_table(META)?;
    let number = |name: &str| Ok::<_, redb::StorageError>(meta.get(name)?.map(|found| found.value()));
    Ok((number(VERSION)?, number(COMMIT)?))
}

/// Makes a file readable for its owner alone.
pub(crate) fn private(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}
