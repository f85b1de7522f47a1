//! The store: one `redb` file from which every cluster is rebuilt after a crash, and which keeps the aggregates.
//!
//! A commit is durable when [`Store::commit`] returns, and all of it or nothing. Commits are in two phases, so that a
//! damaged file shows as damaged instead of as yesterday's.

mod open;
mod periods;
mod schema;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use dream_protocol::cluster::{Forget, Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use redb::{Database, ReadTransaction, ReadableDatabase as _, StorageError, TableDefinition, TableError};
use thiserror::Error;

use crate::history::{ClosedSlot, Extent, FilteredLoad, History, HistoryError, Read, Rollup, Span, Step};

use open::FileId;
pub use open::OpenStoreError;
use schema::{ENROLMENTS, EVIDENCE, FILTERED, LISTS, OFFENDERS, OUTCOMES, RETRIES, SLOTS, SMOOTHED};

/// How many of the newest outcomes a cluster is rebuilt with: the last one says which slots are over.
const OUTCOMES_TO_RESUME: usize = 16;

/// Why something could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Redb(#[from] redb::Error),
    #[error("an entry of the cluster `{cluster}` is damaged: {error}")]
    Entry { cluster: String, error: dream_protocol::wire::DecodeError },
    #[error(
        "the file {} was removed or replaced under the running gateway: nothing more is written or acknowledged. The old file is \
         still open. Find it with `ls -l /proc/{}/fd`, copy it to its place with `cp /proc/{}/fd/NUMBER {}`, and restart the \
         gateway",
        path.display(), std::process::id(), std::process::id(), path.display()
    )]
    Displaced { path: PathBuf },
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
    /// Replaces the energy of an hour or a day. It goes with the outcome of the slot that was added.
    PutRollup {
        cluster: ClusterId,
        step: Step,
        rollup: Rollup,
    },
    /// Drops slots that ended, and hours that began, before these moments, of all clusters. Days are kept forever.
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
    /// The file that is open.
    file: Mutex<Option<FileId>>,
}

impl Store {
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
        self.check_in_place()?;
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

    fn read_slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Result<Vec<ClosedSlot>, StoreError> {
        let id = cluster.as_str();
        let database = self.database()?;
        let read = database.begin_read()?;
        let range = (id, ended.start.as_millis())..(id, ended.end.as_millis());
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
    }

    fn database(&self) -> Result<Opened<'_>, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if database.is_none() { Err(StorageError::DatabaseClosed.into()) } else { Ok(Opened(database)) }
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
    fn slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>> {
        self.read_slots(cluster, ended, limit).map_err(HistoryError::new)
    }

    fn rollups(&self, cluster: &ClusterId, step: Step, begun: Span, limit: usize) -> Read<Vec<Rollup>> {
        self.read_rollups(cluster, step, begun, limit).map_err(HistoryError::new)
    }

    fn extent(&self, cluster: &ClusterId) -> Read<Option<Extent>> {
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
