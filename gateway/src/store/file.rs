//! A store in one `redb` file, for a gateway on one machine.
//!
//! Commits are in two phases, so that a damaged file shows as damaged instead of as yesterday's.

mod copy;
mod open;
mod periods;
mod schema;
mod summary;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use dream_edge::cut_off::CutOff;
use dream_protocol::cluster::{Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use redb::{Database, ReadTransaction, ReadableDatabase as _, StorageError, TableDefinition, TableError, Value};

use super::{Change, OUTCOMES_TO_RESUME, OpenStoreError, Store, StoreError, decode, split};
use crate::history::{ClosedSlot, Extent, FilteredLoad, History, HistoryError, Read, Rollup, Span, Step};

pub use copy::{CopyError, folder_of, sync_folder};
use open::FileId;
use schema::{CUT_OFFS, ENROLMENTS, EVIDENCE, FILTERED, LISTS, OFFENDERS, OUTCOMES, RETRIES, SENT, SLOTS, SMOOTHED};
pub use summary::{ClusterSummary, Summary};

/// An open file.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    cache_bytes: usize,
    /// Empty while the file is being opened again after an error.
    database: RwLock<Option<Database>>,
    /// The file that is open.
    file: Mutex<Option<FileId>>,
}

impl Store for FileStore {
    fn records(&self, cluster: &ClusterId) -> Result<Vec<Record>, StoreError> {
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
            for bytes in split(entry?.1.value()) {
                let record = decode(id, bytes)?;
                slots.insert(record.key(), record);
            }
        }
        records.extend(slots.into_values());
        Ok(records)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.check_in_place()?;
        if changes.is_empty() {
            return Ok(());
        }
        let database = self.database()?;
        let mut write = database.begin_write()?;
        write.set_two_phase_commit(true);
        schema::Tables::open(&write)?.apply(changes)?;
        write.commit()?;
        Ok(())
    }

    fn span(&self, cluster: &ClusterId) -> Result<Option<(u64, u64)>, StoreError> {
        let outcomes = self.database()?.begin_read()?.open_table(OUTCOMES)?;
        let mut all = outcomes.range((cluster.as_str(), 0)..=(cluster.as_str(), u64::MAX))?;
        let first = all.next().transpose()?.map(|(key, _)| key.value().1);
        let last = all.next_back().transpose()?.map(|(key, _)| key.value().1);
        Ok(first.map(|first| (first, last.unwrap_or(first))))
    }

    fn sent(&self, cluster: &ClusterId) -> Result<Option<Timestamp>, StoreError> {
        let table = match self.database()?.begin_read()?.open_table(SENT) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            found => found?,
        };
        Ok(table.get(cluster.as_str())?.map(|until| Timestamp::from_millis(until.value())))
    }

    fn clusters(&self) -> Result<Vec<ClusterId>, StoreError> {
        self.read_clusters()
    }

    fn reopen(&self) -> Result<(), OpenStoreError> {
        self.open_again()
    }

    fn send_rows(&self, out: &mut dyn Write) -> Result<(), CopyError> {
        self.send_all(out)
    }
}

impl FileStore {
    /// The format in which stores are written.
    pub const FORMAT: u64 = schema::FORMATS.newest();

    fn read_slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Result<Vec<ClosedSlot>, StoreError> {
        let id = cluster.as_str();
        let database = self.database()?;
        let read = database.begin_read()?;
        let range = (id, ended.start.as_millis())..(id, ended.end.as_millis());
        let load = |(watts, band95)| FilteredLoad { watts, band95 };
        let filtered = newest(&read, FILTERED, range.clone(), limit, load)?;
        let smoothed = newest(&read, SMOOTHED, range.clone(), limit, load)?;
        let cut_off = |(share, lasting, daily, passing)| CutOff { share, lasting, daily, passing };
        let cut_offs = newest(&read, CUT_OFFS, range.clone(), limit, cut_off)?;
        let mut found = Vec::new();
        for entry in read.open_table(OUTCOMES)?.range(range)?.rev().take(limit) {
            if let Record::Outcome(outcome) = decode(id, entry?.1.value())? {
                let of = |loads: &HashMap<_, _>| loads.get(&outcome.end.as_millis()).copied();
                let (filtered, predicted) = match outcome.result {
                    Ok(_) => (of(&filtered), None),
                    Err(_) => (None, of(&filtered)),
                };
                let cut_off = cut_offs.get(&outcome.end.as_millis()).copied();
                found.push(ClosedSlot { outcome, filtered, smoothed: of(&smoothed), predicted, cut_off });
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
        self.0.as_ref().expect("`FileStore::database` looks before it hands one out")
    }
}

impl History for FileStore {
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

/// Returns the newest of what is kept beside the outcomes of a range, by when their slots ended. A store that was written only
/// by versions before the table has none.
fn newest<V: Value + 'static, T>(
    read: &ReadTransaction,
    table: TableDefinition<'_, (&'static str, u64), V>,
    range: Range<(&str, u64)>,
    limit: usize,
    made: impl Fn(V::SelfType<'_>) -> T,
) -> Result<HashMap<u64, T>, StoreError> {
    let table = match read.open_table(table) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(HashMap::new()),
        found => found?,
    };
    let newest = table.range(range)?.rev().take(limit).map(|entry| {
        let (key, value) = entry?;
        Ok((key.value().1, made(value.value())))
    });
    newest.collect()
}
