//! The records of all meters of a process, in one file: what a device would keep in its flash.
//!
//! They survive kill -9 because a commit is on disk before anything is sent that it allows. A membership list, which every
//! meter of a cluster records, is kept once.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use dream_edge::files::mode_for_everybody;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::meter::{Key, Record};
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

/// By cluster, meter and entry.
const RECORDS: TableDefinition<'_, (&str, &str, u8, u64), Value<'_>> = TableDefinition::new("records");

/// The hash of a list, if the entry ends with one, and what comes before it.
type Value<'a> = (Option<&'a [u8; 32]>, &'a [u8]);

/// Lists by their hash.
const LISTS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("lists");

/// The version of everything above, and the name under which it is kept. Files of the first version do not tell theirs.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT: u64 = 2;

/// Why records cannot be kept.
#[derive(Debug, Error)]
pub enum RecordsError {
    #[error("{path} is in use by another process: a file serves one fleet")]
    Locked { path: String },
    #[error(
        "{path} holds the keys of meters, and everybody on this machine can read it (mode {mode:o}): `chmod 600` it, or move it \
         away if others have had access, and the meters start anew"
    )]
    Open { path: String, mode: u32 },
    #[error(
        "{path} was written by another version, whose lists and enrolments this one cannot read: move it away, and \
         the meters start anew, without what they remember of their privacy budgets"
    )]
    OtherFormat { path: String },
    #[error("evidence cannot be written to {path}: {error}")]
    Evidence { path: String, error: std::io::Error },
    #[error("the meters' records cannot be read or written")]
    Redb(#[from] redb::Error),
    #[error("a record of the meter `{meter}` is damaged: {error}")]
    Entry { meter: String, error: dream_protocol::wire::DecodeError },
    #[error("a list that the meter `{meter}` has accepted is gone from its records")]
    NoList { meter: String },
}

dream_edge::from_redb!(RecordsError);

/// One change of a meter's records.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Record),
    Erase(Key),
}

#[derive(Debug)]
pub struct Records {
    database: Database,
    /// Where evidence is written, beside the file.
    folder: PathBuf,
}

impl Records {
    /// Opens the file, or creates it.
    pub fn open(path: &Path) -> Result<Self, RecordsError> {
        if let Ok(Some(mode)) = mode_for_everybody(path) {
            return Err(RecordsError::Open { path: path.display().to_string(), mode });
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let opened = file.map_err(DatabaseError::from);
        let records = match opened.and_then(|file| Database::builder().set_cache_size(16 << 20).create_file(file)) {
            Ok(database) => Self { database, folder: path.with_file_name("") },
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                return Err(RecordsError::Locked { path: path.display().to_string() });
            }
            Err(error) => return Err(RecordsError::Redb(error.into())),
        };
        if !records.check_format()? {
            return Err(RecordsError::OtherFormat { path: path.display().to_string() });
        }
        records.forget_lists()?;
        Ok(records)
    }

    /// Returns whether the file is of this version; a new one becomes so.
    fn check_format(&self) -> Result<bool, RecordsError> {
        let write = self.database.begin_write()?;
        let new = write.list_tables()?.next().is_none();
        let found = {
            let mut meta = write.open_table(META)?;
            if new {
                meta.insert("format", FORMAT)?;
            }
            meta.get("format")?.map(|format| format.value())
        };
        if found == Some(FORMAT) {
            write.commit()?
        } else {
            write.abort()?
        }
        Ok(found == Some(FORMAT))
    }

    /// Removes lists that no meter needs any more.
    fn forget_lists(&self) -> Result<(), RecordsError> {
        let write = self.database.begin_write()?;
        {
            let records = write.open_table(RECORDS)?;
            let mut needed = BTreeSet::new();
            for entry in records.iter()? {
                needed.extend(entry?.1.value().0.copied());
            }
            write.open_table(LISTS)?.retain(|hash, _| needed.contains(hash))?;
        }
        Ok(write.commit()?)
    }

    /// Returns the records of a meter.
    pub fn of(&self, cluster: &ClusterId, meter: &MeterId) -> Result<Vec<Record>, RecordsError> {
        let read = self.database.begin_read()?;
        let table = read.open_table(RECORDS)?;
        let lists = read.open_table(LISTS)?;
        let (cluster, meter) = (cluster.as_str(), meter.as_str());
        let all = (cluster, meter, 0, 0)..=(cluster, meter, u8::MAX, u64::MAX);
        let mut records = Vec::new();
        for entry in table.range(all)? {
            let (_, value) = entry?;
            let (list, own) = value.value();
            let mut bytes = Zeroizing::new(own.to_vec());
            if let Some(hash) = list {
                let list = lists.get(hash)?;
                bytes.extend(list.ok_or_else(|| RecordsError::NoList { meter: meter.to_owned() })?.value());
            }
            let decoded = Record::decode(&bytes);
            records.push(decoded.map_err(|error| RecordsError::Entry { meter: meter.to_owned(), error })?);
        }
        Ok(records)
    }

    /// Commits the changes of many meters, all or none. `shared` are the lists that many of them may have accepted. Evidence is
    /// also written to files of its own, which `dream-gateway verify-evidence` judges.
    pub(crate) fn commit<'a>(
        &self,
        changes: impl Iterator<Item = (&'a ClusterId, &'a MeterId, &'a Change)>,
        shared: &[&[u8]],
    ) -> Result<(), RecordsError> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(RECORDS)?;
            let mut lists = write.open_table(LISTS)?;
            let mut kept: Vec<Option<[u8; 32]>> = vec![None; shared.len()];
            for (cluster, meter, change) in changes {
                let place = |key: &Key| {
                    let (kind, number) = key.place();
                    (cluster.as_str(), meter.as_str(), kind, number)
                };
                match change {
                    Change::Put(record) => {
                        if let Record::Evidence(evidence) = record {
                            self.write_evidence(cluster, meter, &record.key(), evidence.bytes())?;
                        }
                        let (key, bytes) = (record.key(), record.encode());
                        let mut of_list = shared.iter().zip(&mut kept).filter(|_| matches!(key, Key::List(_)));
                        let value =
                            match of_list.find_map(|(list, kept)| Some((list, kept, bytes.strip_suffix(*list)?))) {
                                None => (None, bytes.as_slice()),
                                Some((list, kept, own)) => {
                                    if kept.is_none() {
                                        let hash = Sha256::digest(list).into();
                                        lists.insert(&hash, *list)?;
                                        *kept = Some(hash);
                                    }
                                    (kept.as_ref(), own)
                                }
                            };
                        table.insert(place(&key), value)?;
                    }
                    Change::Erase(key) => drop(table.remove(place(key))?),
                }
            }
        }
        write.commit()?;
        Ok(())
    }

    fn write_evidence(
        &self,
        cluster: &ClusterId,
        meter: &MeterId,
        key: &Key,
        bytes: &[u8],
    ) -> Result<(), RecordsError> {
        let path = self.folder.join(format!("evidence-{cluster}-{meter}-{}.cbor", key.place().1));
        std::fs::write(&path, bytes).map_err(|error| RecordsError::Evidence { path: path.display().to_string(), error })
    }
}

#[cfg(test)]
mod tests {
    use dream_protocol::wire::FullList;
    use dream_testkit::example::cluster_config;
    use dream_testkit::pki::Pki;
    use dream_testkit::plain_cluster::{Conduct, PlainCluster};

    use super::*;

    fn id(name: &str) -> MeterId {
        MeterId::new(name).unwrap()
    }

    #[test]
    fn a_list_is_kept_once_and_as_long_as_a_meter_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meters.redb");
        let cluster = ClusterId::new("north").unwrap();
        let list = PlainCluster::new(cluster_config(&Pki::new(), 30), vec![Conduct::Honest; 30], 1).first_list();
        let (epoch, list) = (list.epoch(), list.bytes().to_vec());
        let records = Records::open(&path).unwrap();
        let (first, second) = (Change::Put(entry(1, &list)), Change::Put(entry(2, &list)));
        let both = [(&cluster, &id("a"), &first), (&cluster, &id("b"), &second)];
        records.commit(both.into_iter(), &[b"another", &list]).unwrap();
        for (meter, at) in [("a", 1), ("b", 2)] {
            let found = records.of(&cluster, &id(meter)).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(*found[0].encode(), *entry(at, &list).encode());
        }
        assert_eq!(lists(&records), 1);

        let erase = Change::Erase(Key::List(epoch));
        records.commit([(&cluster, &id("a"), &erase)].into_iter(), &[]).unwrap();
        drop(records);
        assert_eq!(lists(&Records::open(&path).unwrap()), 1, "the other meter needs it");
        let records = Records::open(&path).unwrap();
        records.commit([(&cluster, &id("b"), &erase)].into_iter(), &[]).unwrap();
        drop(records);
        assert_eq!(lists(&Records::open(&path).unwrap()), 0);
    }

    #[test]
    fn a_file_is_for_its_owner_and_refused_if_everybody_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meters.redb");
        drop(Records::open(&path).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for (mode, refused) in [(0o640, false), (0o644, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Records::open(&path).err().map(|error| error.to_string());
            assert_eq!(error.is_some_and(|error| error.contains("chmod 600")), refused, "{mode:o}");
        }
    }

    #[test]
    fn a_file_of_the_first_version_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meters.redb");
        let database = Database::create(&path).unwrap();
        let write = database.begin_write().unwrap();
        drop(write.open_table(RECORDS).unwrap());
        write.commit().unwrap();
        drop(database);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        for _ in 0..2 {
            let refused = Records::open(&path).unwrap_err();
            assert!(matches!(refused, RecordsError::OtherFormat { .. }), "{refused}");
            assert!(refused.to_string().contains("move it away"), "{refused}");
        }
    }

    fn lists(records: &Records) -> usize {
        records.database.begin_read().unwrap().open_table(LISTS).unwrap().iter().unwrap().count()
    }

    /// How a meter records that it has accepted a list, in CBOR.
    fn entry(at: u8, list: &[u8]) -> Record {
        let length = u16::try_from(list.len()).unwrap().to_be_bytes();
        let epoch = FullList::header_of(list).unwrap().1.epoch;
        let epoch = [&[0x1a][..], &u32::try_from(epoch).unwrap().to_be_bytes()].concat();
        let bytes = [&[0x84, 3], &epoch[..], &[at, 0x59], length.as_slice(), list].concat();
        Record::decode(&bytes).unwrap()
    }
}
