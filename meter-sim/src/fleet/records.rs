//! The records of all meters of a process, in one file: what a device would keep in its flash.
//!
//! They survive kill -9 because a commit is on disk before anything is sent that it allows.

use std::path::Path;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::meter::{Key, Record};
use redb::{Database, DatabaseError, ReadableDatabase as _, TableDefinition, TableError};
use thiserror::Error;

/// By cluster, meter and entry.
const RECORDS: TableDefinition<'_, (&str, &str, u8, u64), &[u8]> = TableDefinition::new("records");

/// Why records cannot be kept.
#[derive(Debug, Error)]
pub enum RecordsError {
    #[error("{path} is in use by another process: one fleet a file")]
    Locked { path: String },
    #[error("the meters' records cannot be read or written: {0}")]
    Redb(#[from] redb::Error),
    #[error("a record of the meter `{meter}` is damaged: {error}")]
    Entry { meter: String, error: dream_protocol::wire::DecodeError },
}

/// One change of a meter's records.
#[derive(Debug)]
pub(super) enum Change {
    Put(Record),
    Erase(Key),
}

#[derive(Debug)]
pub struct Records {
    database: Database,
}

impl Records {
    /// Opens the file, or makes a new one.
    pub fn open(path: &Path) -> Result<Self, RecordsError> {
        match Database::builder().set_cache_size(16 << 20).create(path) {
            Ok(database) => Ok(Self { database }),
            Err(DatabaseError::DatabaseAlreadyOpen) => Err(RecordsError::Locked { path: path.display().to_string() }),
            Err(error) => Err(RecordsError::Redb(error.into())),
        }
    }

    /// What a meter had recorded.
    pub(super) fn of(&self, cluster: &ClusterId, meter: &MeterId) -> Result<Vec<Record>, RecordsError> {
        let read = self.database.begin_read().map_err(redb::Error::from)?;
        let table = match read.open_table(RECORDS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(RecordsError::Redb(error.into())),
        };
        let (cluster, meter) = (cluster.as_str(), meter.as_str());
        let all = (cluster, meter, 0, 0)..=(cluster, meter, u8::MAX, u64::MAX);
        let mut records = Vec::new();
        for entry in table.range(all).map_err(redb::Error::from)? {
            let (_, bytes) = entry.map_err(redb::Error::from)?;
            let decoded = Record::decode(bytes.value());
            records.push(decoded.map_err(|error| RecordsError::Entry { meter: meter.to_owned(), error })?);
        }
        Ok(records)
    }

    /// Makes changes of many meters durable, all or none.
    pub(super) fn commit<'a>(
        &self,
        changes: impl Iterator<Item = (&'a ClusterId, &'a MeterId, &'a Change)>,
    ) -> Result<(), RecordsError> {
        let write = self.database.begin_write().map_err(redb::Error::from)?;
        {
            let mut table = write.open_table(RECORDS).map_err(redb::Error::from)?;
            for (cluster, meter, change) in changes {
                let place = |key: &Key| {
                    let (kind, number) = place(key);
                    (cluster.as_str(), meter.as_str(), kind, number)
                };
                match change {
                    Change::Put(record) => {
                        table.insert(place(&record.key()), record.encode().as_slice()).map_err(redb::Error::from)?;
                    }
                    Change::Erase(key) => drop(table.remove(place(key)).map_err(redb::Error::from)?),
                }
            }
        }
        write.commit().map_err(redb::Error::from)?;
        Ok(())
    }
}

fn place(key: &Key) -> (u8, u64) {
    match key {
        Key::Account => (0, 0),
        Key::Enrolment(seq) => (1, *seq),
        Key::List(epoch) => (2, *epoch),
        Key::Slot(slot) => (3, slot.0),
        Key::Evidence(number) => (4, *number),
    }
}
