//! The store: one `redb` file from which every cluster is rebuilt after a crash, and which keeps the aggregates.
//!
//! A commit is durable when [`Store::commit`] returns, and all of it or nothing. Commits are in two phases, so that a
//! damaged file shows as damaged instead of as yesterday's.

mod periods;
mod schema;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use dream_edge::database;
use dream_protocol::cluster::{Forget, Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::{Slot, Timestamp};
use redb::{Database, ReadTransaction, ReadableDatabase as _, StorageError, TableDefinition, TableError};
use thiserror::Error;

use crate::history::{ClosedSlot, Extent, FilteredLoad, History, HistoryError, Rollup, Step};

use schema::{ENROLMENTS, EVIDENCE, FILTERED, FORMAT, LISTS, META, OFFENDERS, OUTCOMES, RETRIES, SLOTS, SMOOTHED};

/// How many of the newest outcomes a cluster is rebuilt with: the last one says which slots are over.
const OUTCOMES_TO_RESUME: usize = 16;

/// Why a store cannot be opened. It is left as it is.
#[derive(Debug, Error)]
pub enum OpenStoreError {
    #[error("the store {} is in use by another process: stop that one first", path.display())]
    Locked { path: PathBuf },
    #[error(
        "the store {} was written by a newer version (format {found}, this one reads up to {FORMAT}): install that \
         version, or start with another `store.path`",
        path.display()
    )]
    Newer { path: PathBuf, found: u64 },
    #[error(
        "the store {} was written by an earlier version (format {found}, this one reads {FORMAT}): what it holds of lists and \
         enrolments cannot be used any more. Get its history out with that version's `dream-gateway export` if you want \
         it, move the file away, and start again with an empty one: the meters enrol again by themselves",
        path.display()
    )]
    Earlier { path: PathBuf, found: u64 },
    #[error(
        "the store {} is damaged, or no store of a gateway ({detail}); it was left as it is. Restore a back-up, or move \
         it away: the gateway then takes up the clusters from their retained lists",
        path.display()
    )]
    Damaged { path: PathBuf, detail: String },
    #[error("the store {} cannot be opened: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("there is no store {}", path.display())]
    Missing { path: PathBuf },
}

/// Why something could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Redb(#[from] redb::Error),
    #[error("an entry of the cluster `{cluster}` is damaged: {error}")]
    Entry { cluster: String, error: dream_protocol::wire::DecodeError },
    #[error("a row of the cluster `{cluster}` is damaged, or of a newer version: that of the {step} from {start}")]
    Row { cluster: String, step: &'static str, start: String },
}

macro_rules! from_redb {
    ($($error:ty),*) => { $(impl From<$error> for StoreError {
        fn from(error: $error) -> Self {
            Self::Redb(error.into())
        }
    })* };
}
from_redb!(StorageError, TableError, redb::TransactionError, redb::CommitError, redb::SetDurabilityError);

/// One change to what is kept of a cluster.
#[derive(Debug)]
pub enum Change {
    Put(ClusterId, Record),
    Forget(ClusterId, Forget),
    /// Belongs to the outcome of the slot that ended then.
    PutFiltered {
        cluster: ClusterId,
        end: Timestamp,
        filtered: FilteredLoad,
    },
    /// The same, for a slot an hour before.
    PutSmoothed {
        cluster: ClusterId,
        end: Timestamp,
        smoothed: FilteredLoad,
    },
    /// Replaces what the slots of an hour or a day come to. It goes with the outcome of the slot that was added.
    PutRollup {
        cluster: ClusterId,
        step: Step,
        rollup: Rollup,
    },
    /// Drops slots that ended, and hours that began, before these moments, of all clusters. Days are kept for ever.
    Expire {
        slots: Timestamp,
        hours: Timestamp,
    },
}

/// The open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    cache_bytes: usize,
    /// Empty while the file is being opened again after an error.
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Opens a store, or makes a new one. Takes as long as reading the file takes.
    pub fn open(path: &Path, cache_mebibytes: usize) -> Result<Self, OpenStoreError> {
        let cache_bytes = cache_mebibytes << 20;
        let database = open(path, cache_bytes, true)?;
        let store = Self { path: path.to_owned(), cache_bytes, database: RwLock::new(Some(database)) };
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
        let store = Self { path: path.to_owned(), cache_bytes, database: RwLock::new(Some(database)) };
        if !store.check_format()? {
            return Err(OpenStoreError::Damaged { path: path.to_owned(), detail: "it is empty".to_owned() });
        }
        Ok(store)
    }

    /// Returns the records a cluster is rebuilt from.
    pub fn records(&self, cluster: &ClusterId) -> Result<Vec<Record>, StoreError> {
        let id = cluster.as_str();
        let database = self.database()?;
        let read = database.begin_read()?;
        let mut records = Vec::new();
        let mut take = |bytes: &[u8]| -> Result<(), StoreError> {
            records.push(decode(id, bytes)?);
            Ok(())
        };
        for entry in read.open_table(ENROLMENTS)?.range((id, "")..=(id, "\u{7f}"))? {
            take(entry?.1.value())?;
        }
        for entry in read.open_table(LISTS)?.range((id, 0)..=(id, u64::MAX))? {
            take(entry?.1.value())?;
        }
        for entry in read.open_table(OUTCOMES)?.range((id, 0)..=(id, u64::MAX))?.rev().take(OUTCOMES_TO_RESUME) {
            take(entry?.1.value())?;
        }
        read.open_table(OFFENDERS)?.get(id)?.map(|entry| take(entry.value())).transpose()?;
        read.open_table(RETRIES)?.get(id)?.map(|entry| take(entry.value())).transpose()?;
        for entry in read.open_table(EVIDENCE)?.range((id, 0)..=(id, u64::MAX))? {
            take(entry?.1.value())?;
        }
        // A later entry of the same name replaces the earlier one.
        let mut slots: BTreeMap<Key, Record> = BTreeMap::new();
        for entry in read.open_table(SLOTS)?.range((id, 0, 0)..=(id, u64::MAX, u64::MAX))? {
            for bytes in schema::split(entry?.1.value()) {
                let record = decode(id, bytes)?;
                slots.insert(record.key(), record);
            }
        }
        records.extend(slots.into_values());
        Ok(records)
    }

    /// Makes changes durable, all or none, in their order.
    pub fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let database = self.database()?;
        let mut write = database.begin_write()?;
        write.set_two_phase_commit(true);
        schema::Tables::open(&write)?.apply(changes)?;
        write.commit()?;
        Ok(())
    }

    /// Returns when the first and the last slot of a cluster ended, in Unix milliseconds.
    pub fn span(&self, cluster: &ClusterId) -> Result<Option<(u64, u64)>, StoreError> {
        let outcomes = self.database()?.begin_read()?.open_table(OUTCOMES)?;
        let mut all = outcomes.range((cluster.as_str(), 0)..=(cluster.as_str(), u64::MAX))?;
        let first = all.next().transpose()?.map(|(key, _)| key.value().1);
        let last = all.next_back().transpose()?.map(|(key, _)| key.value().1);
        Ok(first.map(|first| (first, last.unwrap_or(first))))
    }
    /// Closes the file and opens it again: after an error nothing else gets it out of its doubts.
    pub(crate) fn reopen(&self) -> Result<(), OpenStoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        *database = None;
        *database = Some(open(&self.path, self.cache_bytes, false)?);
        Ok(())
    }

    fn database(&self) -> Result<Opened<'_>, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if database.is_none() { Err(StorageError::DatabaseClosed.into()) } else { Ok(Opened(database)) }
    }

    /// Refuses a file of another version or of something else; says whether it is a store, or still empty.
    fn check_format(&self) -> Result<bool, OpenStoreError> {
        let path = || self.path.clone();
        let damaged = |error: StoreError| OpenStoreError::Damaged { path: path(), detail: error.to_string() };
        match self.format().map_err(damaged)? {
            Some(FORMAT) => Ok(true),
            Some(found) if found > FORMAT => Err(OpenStoreError::Newer { path: path(), found }),
            Some(0) => Err(OpenStoreError::Damaged { path: path(), detail: "format 0 never existed".to_owned() }),
            Some(found) => Err(OpenStoreError::Earlier { path: path(), found }),
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

/// The database, for as long as it is read from.
struct Opened<'a>(RwLockReadGuard<'a, Option<Database>>);

impl std::ops::Deref for Opened<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("`Store::database` looks before it hands one out")
    }
}

impl History for Store {
    fn slots(
        &self,
        cluster: &ClusterId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClosedSlot>, HistoryError> {
        let read = || -> Result<Vec<ClosedSlot>, StoreError> {
            let id = cluster.as_str();
            let database = self.database()?;
            let read = database.begin_read()?;
            let range = (id, from.as_millis())..(id, to.as_millis());
            let filtered = loads(&read, FILTERED, range.clone(), limit)?;
            let smoothed = loads(&read, SMOOTHED, range.clone(), limit)?;
            let mut found = Vec::new();
            for entry in read.open_table(OUTCOMES)?.range(range)?.rev().take(limit) {
                if let Record::Outcome(outcome) = decode(id, entry?.1.value())? {
                    let of = |loads: &HashMap<_, _>| loads.get(&outcome.end.as_millis()).copied();
                    let (filtered, predicted) = match outcome.result {
                        Ok(_) => (of(&filtered), None),
                        Err(_) => (None, of(&filtered)),
                    };
                    found.push(ClosedSlot { outcome, filtered, smoothed: of(&smoothed), predicted });
                }
            }
            found.reverse();
            Ok(found)
        };
        read().map_err(HistoryError::new)
    }

    fn rollups(
        &self,
        cluster: &ClusterId,
        step: Step,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Rollup>, HistoryError> {
        self.read_rollups(cluster, step, from..to, limit).map_err(HistoryError::new)
    }

    fn extent(&self, cluster: &ClusterId) -> Result<Option<Extent>, HistoryError> {
        self.read_extent(cluster).map_err(HistoryError::new)
    }

    fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

/// Returns the newest loads of a range that a filter made, by when their slots ended. A store that was written only by
/// versions before the table has none.
fn loads(
    read: &ReadTransaction,
    table: TableDefinition<'_, (&'static str, u64), (i64, u64)>,
    range: Range<(&str, u64)>,
    limit: usize,
) -> Result<HashMap<u64, FilteredLoad>, StoreError> {
    let table = match read.open_table(table) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(HashMap::new()),
        found => found?,
    };
    let newest = table.range(range)?.rev().take(limit).map(|entry| {
        let (key, value) = entry?;
        let (watts, band95) = value.value();
        Ok((key.value().1, FilteredLoad { watts, band95 }))
    });
    newest.collect()
}

fn decode(cluster: &str, bytes: &[u8]) -> Result<Record, StoreError> {
    Record::decode(bytes).map_err(|error| StoreError::Entry { cluster: cluster.to_owned(), error })
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

/// Returns the slot of an entry that belongs to one: such entries go into one value for each commit.
fn slot_of(record: &Record) -> Option<Slot> {
    match record.key() {
        Key::Slot(slot, ..) => Some(slot),
        Key::Enrolment(_) | Key::List(_) | Key::Outcome(_) | Key::Offenders | Key::Retries | Key::Evidence(_) => None,
    }
}
