//! Copies of a store, row by row: a back-up while the gateway goes on, and putting one back.
//!
//! A copy is of one moment: it is read in one transaction, which keeps no commit waiting. It has no open slot and no key of a list. A gateway
//! that goes back to a copy does not know what it has asked since; without the key of a list it can ask nothing more under that list, so
//! that it never contradicts itself. It continues with the next list, as after a take-over.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use dream_edge::database;
use dream_protocol::cluster::Record;
use redb::{Key, ReadTransaction, ReadableDatabase as _, TableDefinition, TableError, Value, WriteTransaction};
use thiserror::Error;
use zeroize::Zeroizing;

use super::schema::{
    CUT_OFFS, DAYS, ENROLMENTS, EVIDENCE, FILTERED, FORMATS, HOURS, LISTS, META, OFFENDERS, OUTCOMES, RETRIES, SENT,
    SMOOTHED,
};
use super::{FileStore, OpenStoreError, StoreError, decode};

/// What rows begin with, before the format of the store.
const HEAD: &[u8] = b"dream-gateway rows\n";

/// What ends the rows of a table: longer than any key.
const END: u32 = u32::MAX;

/// Who made a copy, and when. In back-ups only.
pub(super) const MADE: TableDefinition<'_, &str, &str> = TableDefinition::new("backup");

/// How much is sent at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// How much of a copy is in memory while it is written.
const CACHE_BYTES: usize = 32 << 20;

/// Why a store was not copied.
#[derive(Debug, Error)]
pub enum CopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Redb(redb::Error),
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The disk, or the other end.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "the running gateway keeps its store in format {found}, and this version in {expected}: use the command of the version that runs"
    )]
    OtherFormat { found: u64, expected: u64 },
    #[error("the rows ended too early: the gateway stopped, or its store has an error, which its log names")]
    Cut,
}

dream_edge::from_redb!(CopyError: StorageError, TableError, TransactionError, CommitError, DatabaseError, CompactionError);

/// The bytes of a key and its value.
type Row = (Vec<u8>, Zeroizing<Vec<u8>>);

/// One table of a copy, whatever its keys and values are.
trait Copied {
    fn send(&self, read: &ReadTransaction, out: &mut dyn Write) -> Result<(), CopyError>;
    fn receive(&self, write: &WriteTransaction, rows: &mut dyn Read) -> Result<(), CopyError>;
}

/// In the order in which they are sent. What is not here is not in a copy: the entries of open slots.
const TABLES: [&dyn Copied; 13] = [
    &META,
    &ENROLMENTS,
    &NewestLists,
    &OUTCOMES,
    &FILTERED,
    &SMOOTHED,
    &CUT_OFFS,
    &HOURS,
    &DAYS,
    &OFFENDERS,
    &RETRIES,
    &EVIDENCE,
    &SENT,
];

impl FileStore {
    /// Sends all rows as they stand now.
    pub(super) fn send_all(&self, out: &mut dyn Write) -> Result<(), CopyError> {
        let read = self.database()?.begin_read()?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, WhileOpen { store: self, out });
        out.write_all(HEAD)?;
        out.write_all(&FORMATS.newest().to_be_bytes())?;
        for table in TABLES {
            table.send(&read, &mut out)?;
            out.write_all(&END.to_be_bytes())?;
        }
        Ok(out.flush()?)
    }

    /// Copies the store into a new file, as [`FileStore::receive`] does.
    pub fn copy_to(&self, path: &Path, made: &[(&str, &str)]) -> Result<(), CopyError> {
        let (mut rows, mut out) = io::pipe()?;
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || self.send_all(&mut out));
            let received = Self::receive(&mut rows, path, made);
            drop(rows);
            match sending.join() {
                // What is wrong with the store is why rows are missing; a pipe that broke is not.
                Ok(Err(error)) if !matches!(error, CopyError::Io(_)) => Err(error),
                Ok(Ok(()) | Err(_)) => received,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Writes the rows that another store sends into a new file for its owner alone, and checks every page of it. The file is complete or not there.
    /// `made` is what a back-up says of itself.
    pub fn receive(rows: &mut dyn Read, path: &Path, made: &[(&str, &str)]) -> Result<(), CopyError> {
        let partial = partial(path);
        let received = receive_into(&mut BufReader::with_capacity(BUFFER_BYTES, rows), &partial, made).and_then(|()| {
            drop(Self::open_unchanged(&partial)?);
            std::fs::rename(&partial, path)?;
            Ok(sync_folder(path)?)
        });
        if received.is_err() {
            std::fs::remove_file(&partial).ok();
        }
        received
    }
}

/// Ends a copy when the store is to be opened again after an error, which cannot happen while somebody reads from it.
struct WhileOpen<'a> {
    store: &'a FileStore,
    out: &'a mut dyn Write,
}

impl Write for WhileOpen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.store.database.try_read() {
            Ok(database) if database.is_some() => self.out.write(bytes),
            Ok(_) | Err(_) => Err(io::Error::other("the store has an error and is opened again")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the name of a file that is not complete yet.
pub(super) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes a new name in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    std::fs::File::open(folder_of(path))?.sync_all()
}

/// Returns the folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn receive_into(mut rows: &mut dyn Read, path: &Path, made: &[(&str, &str)]) -> Result<(), CopyError> {
    let mut head = [0; HEAD.len()];
    rows.read_exact(&mut head).map_err(cut)?;
    let found = u64::from_be_bytes(read_exact(rows)?);
    if head != HEAD || found != FORMATS.newest() {
        return Err(CopyError::OtherFormat { found, expected: FORMATS.newest() });
    }
    // One that was cut off.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let mut database = database::open(path, CACHE_BYTES, true).map_err(|error| match error {
        database::OpenError::Io(error) => CopyError::Io(error),
        error @ (database::OpenError::Locked | database::OpenError::Damaged(_)) => {
            CopyError::Io(io::Error::other(error.to_string()))
        }
    })?;
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    for table in TABLES {
        table.receive(&write, &mut rows)?;
    }
    super::schema::Tables::open(&write)?;
    for (name, value) in made {
        write.open_table(MADE)?.insert(name, value)?;
    }
    write.commit()?;
    database.compact()?;
    Ok(())
}

impl<K: Key + 'static, V: Value + 'static> Copied for TableDefinition<'static, K, V> {
    fn send(&self, read: &ReadTransaction, out: &mut dyn Write) -> Result<(), CopyError> {
        let table = match read.open_table(*self) {
            // A store that was written only by versions before it.
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            found => found?,
        };
        for row in table.range::<K::SelfType<'_>>(..)? {
            let (key, value) = row?;
            send_row(K::as_bytes(&key.value()).as_ref(), V::as_bytes(&value.value()).as_ref(), out)?;
        }
        Ok(())
    }

    fn receive(&self, write: &WriteTransaction, rows: &mut dyn Read) -> Result<(), CopyError> {
        let mut table = write.open_table(*self)?;
        while let Some((key, value)) = receive_row(rows)? {
            table.insert(K::from_bytes(&key), V::from_bytes(&value))?;
        }
        Ok(())
    }
}

/// The newest list of each cluster, without the gateway's key: what the next one continues.
struct NewestLists;

impl Copied for NewestLists {
    fn send(&self, read: &ReadTransaction, out: &mut dyn Write) -> Result<(), CopyError> {
        let table = read.open_table(LISTS)?;
        let mut rows = table.range::<(&str, u64)>(..)?.peekable();
        while let Some(row) = rows.next() {
            let (key, value) = row?;
            let (cluster, epoch) = key.value();
            let newer = |next: &Result<(redb::AccessGuard<'_, (&str, u64)>, _), _>| {
                next.as_ref().is_ok_and(|(next, _)| next.value().0 == cluster)
            };
            if rows.peek().is_some_and(newer) {
                continue;
            }
            if let Record::List(list) = decode(cluster, value.value())? {
                let bytes = Record::List(list.without_key()).encode();
                send_row(<(&str, u64)>::as_bytes(&(cluster, epoch)).as_ref(), &bytes, out)?;
            }
        }
        Ok(())
    }

    fn receive(&self, write: &WriteTransaction, rows: &mut dyn Read) -> Result<(), CopyError> {
        LISTS.receive(write, rows)
    }
}

fn send_row(key: &[u8], value: &[u8], out: &mut dyn Write) -> Result<(), CopyError> {
    for part in [key, value] {
        let length = u32::try_from(part.len()).expect("keys and values are smaller than an MQTT packet");
        out.write_all(&length.to_be_bytes())?;
        out.write_all(part)?;
    }
    Ok(())
}

/// Returns the next row of a table, unless that was the last one.
fn receive_row(rows: &mut dyn Read) -> Result<Option<Row>, CopyError> {
    let length = u32::from_be_bytes(read_exact(rows)?);
    if length == END {
        return Ok(None);
    }
    let key = part(rows, length)?;
    let length = u32::from_be_bytes(read_exact(rows)?);
    Ok(Some((key, Zeroizing::new(part(rows, length)?))))
}

fn part(rows: &mut dyn Read, length: u32) -> Result<Vec<u8>, CopyError> {
    let mut bytes = Vec::new();
    rows.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == u64::from(length) { Ok(bytes) } else { Err(CopyError::Cut) }
}

fn read_exact<const N: usize>(rows: &mut dyn Read) -> Result<[u8; N], CopyError> {
    let mut bytes = [0; N];
    rows.read_exact(&mut bytes).map_err(cut)?;
    Ok(bytes)
}

fn cut(error: io::Error) -> CopyError {
    if error.kind() == io::ErrorKind::UnexpectedEof { CopyError::Cut } else { CopyError::Io(error) }
}
