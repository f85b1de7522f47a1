//! The meter's records in one file: what a device would keep in its flash (`protocol.md 9`).
//!
//! A commit is on disk before [`Records::commit`] returns, and nothing that depends on it is sent before that. Entries that hold
//! a reading or a key are encrypted under a key of a file of its own, which is replaced whenever such an entry goes: see
//! `records/shred.rs`. What this file was last seen as, and what follows if it was copied or restored, is in [`crate::origin`].

mod shred;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dream_protocol::meter::{Key, Record};
use dream_protocol::wire::DecodeError;
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};
use thiserror::Error;
use zeroize::Zeroizing;

use shred::ShredKeys;

/// By the kind of entry and its number.
const ENTRIES: TableDefinition<'_, (u8, u64), &[u8]> = TableDefinition::new("entries");

/// Numbers beside the entries, by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// The version of the file.
const FORMAT: u64 = 1;

/// Little is read twice.
const CACHE_BYTES: usize = 256 << 10;

/// Why records cannot be kept.
#[derive(Debug, Error)]
pub enum RecordsError {
    #[error("{} is in use: a meter runs once. Stop the running one first", path.display())]
    Locked { path: PathBuf },
    #[error("{} was written by another version; `dream-meter leave` removes it, and the meter enrols anew", path.display())]
    OtherFormat { path: PathBuf },
    #[error("{} cannot be used: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("the meter's records cannot be read or written")]
    Redb(#[from] redb::Error),
    #[error("a record is damaged: {0}; `dream-meter leave` removes all of them, and the meter enrols anew")]
    Entry(DecodeError),
}

/// One change of the records.
#[derive(Debug)]
pub enum Change {
    Put(Record),
    Erase(Key),
}

/// A number that is kept beside the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// How many commits there were: it only grows.
    Commits,
    /// Which file this is: its number in the file system.
    Inode,
    /// The machine that wrote it.
    Machine,
    /// A random number that one set of records has from its beginning.
    Instance,
    /// Until when the meter says nothing, in Unix seconds.
    SilentUntil,
    /// The UTC day that `Sent` counts.
    Day,
    /// For how many slots of that day a reading was recorded to be sent.
    Sent,
    /// Which of the keys the entries are encrypted under.
    ShredKey,
}

impl Number {
    const fn name(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Inode => "inode",
            Self::Machine => "machine",
            Self::Instance => "instance",
            Self::SilentUntil => "silent_until",
            Self::Day => "day",
            Self::Sent => "sent",
            Self::ShredKey => "shred_key",
        }
    }
}

#[derive(Debug)]
pub struct Records {
    database: Database,
    keys: ShredKeys,
    path: PathBuf,
}

impl Records {
    /// Returns the file of the records in a state directory.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join("records.redb")
    }

    /// Returns the file with the keys that entries are encrypted under.
    pub fn key_file(directory: &Path) -> PathBuf {
        directory.join("records.key")
    }

    /// Opens the records of a state directory, or begins new ones.
    pub fn open(directory: &Path) -> Result<Self, RecordsError> {
        let path = Self::file(directory);
        let broken = |error| RecordsError::File { path: path.clone(), error };
        fs::create_dir_all(directory).map_err(broken)?;
        let database = match Database::builder().set_cache_size(CACHE_BYTES).create(&path) {
            Ok(database) => database,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(RecordsError::Locked { path }),
            Err(error) => return Err(RecordsError::Redb(error.into())),
        };
        private(&path).map_err(broken)?;
        if !check_format(&database)? {
            return Err(RecordsError::OtherFormat { path });
        }
        let key_file = Self::key_file(directory);
        let keys = ShredKeys::open(&key_file).map_err(|error| RecordsError::File { path: key_file, error })?;
        let mut records = Self { database, keys, path };
        let current = records.number(Number::ShredKey)?.unwrap_or(0);
        records.keys.keep_only(current).map_err(|error| records.key_trouble(error))?;
        Ok(records)
    }

    /// Returns everything that is recorded.
    pub fn load(&self) -> Result<Vec<Record>, RecordsError> {
        let current = self.number(Number::ShredKey)?.unwrap_or(0);
        let read = self.database.begin_read().map_err(redb::Error::from)?;
        let table = read.open_table(ENTRIES).map_err(redb::Error::from)?;
        let mut records = Vec::new();
        for entry in table.iter().map_err(redb::Error::from)? {
            let (place, value) = entry.map_err(redb::Error::from)?;
            let bytes = if is_secret(place.value().0) {
                self.keys.open_entry(current, value.value())
            } else {
                Zeroizing::new(value.value().to_vec())
            };
            records.push(Record::decode(&bytes).map_err(RecordsError::Entry)?);
        }
        Ok(records)
    }

    /// Makes changes durable, all or none, and returns how many commits there were.
    pub fn commit(&mut self, changes: &[Change], numbers: &[(Number, u64)]) -> Result<u64, RecordsError> {
        let current = self.number(Number::ShredKey)?.unwrap_or(0);
        let next = if self.ends_a_secret(changes)? { current + 1 } else { current };
        if next != current {
            self.keys.add(next).map_err(|error| self.key_trouble(error))?;
        }
        let commits = self.write(changes, numbers, current, next)?;
        if next != current {
            self.keys.keep_only(next).map_err(|error| self.key_trouble(error))?;
        }
        Ok(commits)
    }

    /// Erases what must not be used after records were copied or restored: all but the account, which only errs on the safe
    /// side, and evidence.
    pub fn discard(&mut self, numbers: &[(Number, u64)]) -> Result<u64, RecordsError> {
        let stale = |record: &Record| match record.key() {
            key @ (Key::Enrolment(_) | Key::List(_) | Key::Slot(_) | Key::Answer(_)) => Some(Change::Erase(key)),
            Key::Account | Key::Evidence(_) => None,
        };
        let changes: Vec<Change> = self.load()?.iter().filter_map(stale).collect();
        self.commit(&changes, numbers)
    }

    pub fn number(&self, number: Number) -> Result<Option<u64>, RecordsError> {
        let read = self.database.begin_read().map_err(redb::Error::from)?;
        let table = read.open_table(NUMBERS).map_err(redb::Error::from)?;
        Ok(table.get(number.name()).map_err(redb::Error::from)?.map(|found| found.value()))
    }

    /// Returns the number by which the file system knows this file.
    pub fn inode(&self) -> Result<u64, RecordsError> {
        let found = fs::metadata(&self.path);
        Ok(found.map_err(|error| RecordsError::File { path: self.path.clone(), error })?.ino())
    }

    /// Whether the changes erase or replace an entry that holds a reading or a key.
    fn ends_a_secret(&self, changes: &[Change]) -> Result<bool, RecordsError> {
        let read = self.database.begin_read().map_err(redb::Error::from)?;
        let table = read.open_table(ENTRIES).map_err(redb::Error::from)?;
        for change in changes {
            let place = change.place();
            if is_secret(place.0) && table.get(place).map_err(redb::Error::from)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write(
        &self,
        changes: &[Change],
        numbers: &[(Number, u64)],
        current: u64,
        next: u64,
    ) -> Result<u64, RecordsError> {
        let mut write = self.database.begin_write().map_err(redb::Error::from)?;
        // In one phase, a torn commit could only be taken for the one before: records that went back.
        write.set_two_phase_commit(true);
        self.apply(&write, changes, current, next)?;
        let commits = {
            let mut table = write.open_table(NUMBERS).map_err(redb::Error::from)?;
            for (number, value) in numbers {
                table.insert(number.name(), value).map_err(redb::Error::from)?;
            }
            let name = Number::Commits.name();
            let commits = table.get(name).map_err(redb::Error::from)?.map_or(0, |found| found.value()) + 1;
            table.insert(name, commits).map_err(redb::Error::from)?;
            table.insert(Number::ShredKey.name(), next).map_err(redb::Error::from)?;
            commits
        };
        write.commit().map_err(redb::Error::from)?;
        Ok(commits)
    }

    fn apply(&self, write: &WriteTransaction, changes: &[Change], current: u64, next: u64) -> Result<(), RecordsError> {
        let mut table = write.open_table(ENTRIES).map_err(redb::Error::from)?;
        let mut written = BTreeSet::new();
        for change in changes {
            let place = change.place();
            match change {
                Change::Put(record) => {
                    let bytes = record.encode();
                    if is_secret(place.0) {
                        table.insert(place, self.keys.seal_entry(next, &bytes).as_slice())
                    } else {
                        table.insert(place, bytes.as_slice())
                    }
                    .map_err(redb::Error::from)?;
                }
                Change::Erase(_) => drop(table.remove(place).map_err(redb::Error::from)?),
            }
            written.insert(place);
        }
        if next == current {
            return Ok(());
        }
        // What stays needs the new key, because the old one goes.
        let mut kept = Vec::new();
        for entry in table.iter().map_err(redb::Error::from)? {
            let (place, value) = entry.map_err(redb::Error::from)?;
            let place = place.value();
            if is_secret(place.0) && !written.contains(&place) {
                kept.push((place, self.keys.open_entry(current, value.value())));
            }
        }
        for (place, bytes) in kept {
            table.insert(place, self.keys.seal_entry(next, &bytes).as_slice()).map_err(redb::Error::from)?;
        }
        Ok(())
    }

    fn key_trouble(&self, error: std::io::Error) -> RecordsError {
        RecordsError::File { path: self.keys.path().to_owned(), error }
    }
}

impl Change {
    fn place(&self) -> (u8, u64) {
        match self {
            Self::Put(record) => place(&record.key()),
            Self::Erase(key) => place(key),
        }
    }
}

const fn place(key: &Key) -> (u8, u64) {
    match key {
        Key::Account => (0, 0),
        Key::Enrolment(seq) => (1, *seq),
        Key::List(epoch) => (2, *epoch),
        Key::Slot(slot) => (3, slot.0),
        Key::Evidence(number) => (4, *number),
        Key::Answer(slot) => (5, slot.0),
    }
}

/// Enrolments have keys, slots have readings, and answers of a holder what it knew of others.
const fn is_secret(kind: u8) -> bool {
    matches!(kind, 1 | 3 | 5)
}

/// Returns whether the file is of this version; a new one becomes so.
fn check_format(database: &Database) -> Result<bool, redb::Error> {
    let write = database.begin_write()?;
    let new = write.list_tables()?.next().is_none();
    let found = {
        let mut numbers = write.open_table(NUMBERS)?;
        if new {
            numbers.insert("format", FORMAT)?;
        }
        drop(write.open_table(ENTRIES)?);
        numbers.get("format")?.map(|format| format.value())
    };
    if found == Some(FORMAT) {
        write.commit()?;
    } else {
        write.abort()?;
    }
    Ok(found == Some(FORMAT))
}

/// Makes a file readable for its owner alone.
pub(crate) fn private(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use dream_protocol::ids::ClusterId;
    use dream_protocol::meter::{Input, Meter, Output};
    use dream_protocol::simulation::{Simulated, Simulation};
    use dream_protocol::time::Timestamp;
    use dream_testkit::lab::identities::Identities;

    use super::*;

    /// Returns what a meter asks for when it starts: an account and an enrolment with keys.
    fn first_changes() -> Vec<Change> {
        let config = Identities::default().meter("m-1", &ClusterId::new("north").unwrap());
        let mut meter: Meter<Simulated> = Meter::simulated(config, [], Simulation::default()).unwrap();
        let now = dream_testkit::now(Timestamp::from_secs(1_900_000_000));
        meter.handle(Input::Connected, now, &mut dream_testkit::rng(1));
        let change = |output| match output {
            Output::Persist(record) => Some(Change::Put(record)),
            Output::Erase(key) => Some(Change::Erase(key)),
            Output::Measure { .. }
            | Output::Publish { .. }
            | Output::Subscribe(_)
            | Output::Unsubscribe(_)
            | Output::Notice(_) => None,
        };
        std::iter::from_fn(|| meter.poll()).filter_map(change).collect()
    }

    fn encoded(records: &[Record]) -> Vec<Vec<u8>> {
        records.iter().map(|record| record.encode().to_vec()).collect()
    }

    #[test]
    fn what_was_committed_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        assert!(records.load().unwrap().is_empty());
        let changes = first_changes();
        assert_eq!(records.commit(&changes, &[(Number::Sent, 7)]).unwrap(), 1);
        let before = encoded(&records.load().unwrap());
        assert_eq!(before.len(), 2);
        drop(records);
        let records = Records::open(folder.path()).unwrap();
        assert_eq!(encoded(&records.load().unwrap()), before);
        assert_eq!(records.number(Number::Sent).unwrap(), Some(7));
    }

    #[test]
    fn a_directory_serves_one_meter_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let _records = Records::open(folder.path()).unwrap();
        assert!(matches!(Records::open(folder.path()), Err(RecordsError::Locked { .. })));
    }

    #[test]
    fn an_erased_key_can_be_read_from_no_later_copy_of_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        records.commit(&first_changes(), &[]).unwrap();
        let key_file = Records::key_file(folder.path());
        let before = fs::read(&key_file).unwrap();
        let enrolment = records.load().unwrap().iter().map(Record::key).find(|key| matches!(key, Key::Enrolment(_)));
        records.commit(&[Change::Erase(enrolment.unwrap())], &[]).unwrap();
        let after = fs::read(&key_file).unwrap();
        let old = before.chunks(32).find(|chunk| chunk.iter().any(|byte| *byte != 0)).unwrap();
        assert!(!after.windows(32).any(|window| window == old), "the key of what is gone is gone");
        assert_eq!(records.load().unwrap().len(), 1);
    }

    #[test]
    fn no_secret_is_in_the_file_in_clear() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        let changes = first_changes();
        records.commit(&changes, &[]).unwrap();
        drop(records);
        let file = fs::read(Records::file(folder.path())).unwrap();
        for change in &changes {
            let Change::Put(record) = change else { continue };
            let bytes = record.encode();
            let found = file.windows(bytes.len()).any(|window| *window == **bytes);
            assert_eq!(found, !is_secret(change.place().0), "{:?}", record.key());
        }
    }

    #[test]
    fn a_crash_before_the_old_key_is_removed_costs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        records.commit(&first_changes(), &[]).unwrap();
        // The key for the next commit is written, and then the power is gone.
        records.keys.add(1).unwrap();
        drop(records);
        let records = Records::open(folder.path()).unwrap();
        assert_eq!(records.load().unwrap().len(), 2);
    }

    #[test]
    fn discarding_keeps_the_account_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        records.commit(&first_changes(), &[]).unwrap();
        records.discard(&[(Number::SilentUntil, 5)]).unwrap();
        let left = records.load().unwrap();
        assert_eq!(left.iter().map(Record::key).collect::<Vec<_>>(), [Key::Account]);
        assert_eq!(records.number(Number::SilentUntil).unwrap(), Some(5));
    }
}
