//! The store: everything from which the clusters are rebuilt after a crash, and the aggregates.
//!
//! There are two, which pass the same tests: [`FileStore`], a `redb` file for a gateway on one machine, and [`PostgresStore`], the
//! operator's PostgreSQL. With either, a commit is durable when [`Store::commit`] returns, and all of it or nothing.

mod file;
#[cfg(feature = "postgres")]
mod postgres;

use std::fmt::Debug;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dream_edge::cut_off::CutOff;
use dream_protocol::cluster::{Forget, Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::{Slot, Timestamp};
use redb::{StorageError, TableError};
use thiserror::Error;

use crate::config;
use crate::history::{FilteredLoad, History, Rollup, Step};

pub use file::{ClusterSummary, CopyError, FileStore, Summary, folder_of, sync_folder};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;

/// How many of the newest outcomes a cluster is rebuilt with: the last one says which slots are over.
const OUTCOMES_TO_RESUME: usize = 16;

/// What a gateway needs of its store. All of it blocks.
pub trait Store: History + Debug {
    /// Returns the records a cluster is rebuilt from.
    fn records(&self, cluster: &ClusterId) -> Result<Vec<Record>, StoreError>;

    /// Makes changes durable, all or none, in their order. Without changes it only finds out whether this gateway may still
    /// write: after that, what was committed before may be said again.
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns when the first and the last slot of a cluster ended, in Unix milliseconds.
    fn span(&self, cluster: &ClusterId) -> Result<Option<(u64, u64)>, StoreError>;

    /// Returns the clusters that there are slots or days of.
    fn clusters(&self) -> Result<Vec<ClusterId>, StoreError>;

    /// Returns until when the slots of a cluster were written to a receiver, if any were.
    fn sent(&self, cluster: &ClusterId) -> Result<Option<Timestamp>, StoreError>;

    /// Writes all rows as they stand now, for [`FileStore::receive`]: a back-up. Commits go on meanwhile. A database has tools of its own.
    fn send_rows(&self, _: &mut dyn Write) -> Result<(), CopyError> {
        Err(CopyError::Io(std::io::ErrorKind::Unsupported.into()))
    }

    /// Gets out of its doubts after an error.
    fn reopen(&self) -> Result<(), OpenStoreError>;

    /// Becomes the one that may write, if no other is; `Some` names the other. A file has nobody else: whoever opened it may write.
    fn try_take(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Lets another become the one that may write, without waiting for a lease to end.
    fn give_back(&self) {}
}

/// Returns where a running gateway hands out back-ups of its file: beside it, and for the same users.
pub fn socket_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sock");
    name.into()
}

/// Opens the store that the configuration names, or makes a new one. `shard` is what this gateway writes of a database that
/// several share, and `owner` its name there.
pub fn open(config: &config::Store, shard: u32, owner: &str) -> Result<Arc<dyn Store>, OpenStoreError> {
    match &config.place {
        config::Place::File { path, cache_mebibytes } => Ok(Arc::new(FileStore::open(path, *cache_mebibytes)?)),
        #[cfg(feature = "postgres")]
        config::Place::Postgres(postgres) => Ok(Arc::new(PostgresStore::open(postgres, shard, owner)?)),
        #[cfg(not(feature = "postgres"))]
        config::Place::Postgres(_) => {
            unreachable!("{owner} {shard}: without the feature no configuration names a database")
        }
    }
}

/// Opens a store that must be there already, to read it. A database may be in use.
pub fn open_existing(place: &config::Place) -> Result<Box<dyn Store>, OpenStoreError> {
    match place {
        config::Place::File { path, .. } => Ok(Box::new(FileStore::open_existing(path)?)),
        #[cfg(feature = "postgres")]
        config::Place::Postgres(postgres) => Ok(Box::new(PostgresStore::open_existing(postgres)?)),
        #[cfg(not(feature = "postgres"))]
        config::Place::Postgres(_) => unreachable!("without the feature no configuration names a database"),
    }
}

/// Finds out whether a gateway could use a database, which is left as it is; returns why what it has committed may be lost.
pub fn probe(postgres: &config::Postgres) -> Result<Vec<String>, OpenStoreError> {
    #[cfg(feature = "postgres")]
    let probed = PostgresStore::probe(postgres);
    #[cfg(not(feature = "postgres"))]
    let probed = unreachable!("without the feature no configuration names {}", postgres.url);
    probed
}

/// Why something could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Redb(#[from] redb::Error),
    /// What PostgreSQL, or the way to it, says.
    #[error("{0}")]
    Postgres(String),
    #[error("another gateway has taken over: this one must not write any more")]
    Fenced,
    #[error(
        "{what} of the cluster `{cluster}` does not open: it was sealed under a key that `store.keys` does not name, or it is damaged"
    )]
    Sealed { cluster: String, what: &'static str },
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

/// Why a store cannot be opened. It is left as it is.
#[derive(Debug, Error)]
pub enum OpenStoreError {
    #[error("the store {} is in use by another process: stop that one first", path.display())]
    Locked { path: PathBuf },
    #[error(
        "the store {} was written by a newer version (format {found}, this one reads up to {expected}): install that \
         version, or start with another `store.path`",
        path.display()
    )]
    Newer { path: PathBuf, found: u64, expected: u64 },
    #[error(
        "the store {} was written by an earlier version (format {found}, this one reads {expected}): this version \
         cannot read its lists and enrolments. Export its history with that version's `dream-gateway export` if you \
         want it, move the file away, and start again with an empty store: the meters enrol again by themselves",
        path.display()
    )]
    Earlier { path: PathBuf, found: u64, expected: u64 },
    #[error(
        "the store {} was written by an earlier version (format {found}, this one writes {expected}): start the gateway of this version \
         on it, which brings it up to date, or use the command of that version",
        path.display()
    )]
    Outdated { path: PathBuf, found: u64, expected: u64 },
    #[error(
        "the store {} of format {found} cannot be brought to format {newest}: {detail}. It was left as it is: free space on its disk, or \
         go back to the version that wrote it",
        path.display()
    )]
    Migration { path: PathBuf, found: u64, newest: u64, detail: String },
    #[error(
        "the store {} is damaged, or not the store of a gateway ({detail}); it was left as it is. Restore a back-up, or move \
         it away: the gateway then restores the clusters from their retained lists",
        path.display()
    )]
    Damaged { path: PathBuf, detail: String },
    #[error("the store {} cannot be opened: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("no store at {}", path.display())]
    Missing { path: PathBuf },
    #[error("the database {url} cannot be used: {detail}")]
    Postgres { url: String, detail: String },
}

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
    /// The same: what its meters are expected to have cut off.
    PutCutOff {
        cluster: ClusterId,
        end: Timestamp,
        cut_off: CutOff,
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
    /// The slots that ended until then were written to a receiver.
    PutSent {
        cluster: ClusterId,
        until: Timestamp,
    },
    /// Drops slots that ended, and hours that began, before these moments, of all clusters. Days are kept forever.
    Expire {
        slots: Timestamp,
        hours: Timestamp,
    },
}

/// Returns the slot of an entry that belongs to one: such entries go into one value for each commit.
fn slot_of(record: &Record) -> Option<Slot> {
    match record.key() {
        Key::Slot(slot, ..) => Some(slot),
        Key::Enrolment(_) | Key::List(_) | Key::Outcome(_) | Key::Offenders | Key::Retries | Key::Evidence(_) => None,
    }
}

/// Adds an entry to a value: its length, and then its bytes.
fn append(value: &mut Vec<u8>, entry: &[u8]) {
    let length = u32::try_from(entry.len()).expect("an entry is smaller than an MQTT packet");
    value.extend_from_slice(&length.to_be_bytes());
    value.extend_from_slice(entry);
}

/// Returns the entries of a value. A cut one comes out as it is, and does not decode.
fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (length, bytes) = rest.split_first_chunk().unwrap_or((&[0xff; 4], rest));
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX).min(bytes.len());
        let (entry, after) = bytes.split_at(length);
        rest = after;
        Some(entry)
    })
}

fn decode(cluster: &str, bytes: &[u8]) -> Result<Record, StoreError> {
    Record::decode(bytes).map_err(|error| StoreError::Entry { cluster: cluster.to_owned(), error })
}
