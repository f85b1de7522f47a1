//! Whether the records are the ones that this meter wrote last, or a copy or an earlier state of them.
//!
//! A meter whose records went back may answer twice for one slot, and two noisy answers to one question are worth more than one.
//! So whatever looks like a copy or a restored back-up makes it silent until the next UTC day, and enrol anew then. Four signs
//! are looked at when it starts:
//!
//! - the machine: a hash of `/etc/machine-id` is in the records;
//! - the file: its number in the file system and the moment at which it was made are in the records. A copied or restored file was
//!   made later, also where it is given the number of one that is gone;
//! - the *witness*: a small file outside the state directory counts the commits, and records that have fewer went back;
//! - the witness names other records, or there are none where it knows some.
//!
//! All of this is best effort. Not seen is a machine that is put back as a whole, with its witness and its files: the snapshot of a
//! virtual machine or a disk image. Nothing on the machine itself can tell.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use dream_protocol::time::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::records::{Number, Records, RecordsError};

const DAY_SECONDS: u64 = 86_400;

/// Why records are not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    OtherMachine,
    OtherFile,
    WentBack,
    OtherRecords,
    NoRecords,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherMachine => "the records come from another machine",
            Self::OtherFile => "the file of the records was copied or restored",
            Self::WentBack => "the records are older than those that were in use here",
            Self::OtherRecords => "different records were in use here",
            Self::NoRecords => "the records that were in use here are gone",
        })
    }
}

/// What identifies this machine, if anything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostId(Option<u64>);

impl HostId {
    /// Hashes the machine's id, which is nobody's business.
    pub fn of_system() -> Self {
        Self::of(fs::read_to_string("/etc/machine-id").ok().as_deref())
    }

    fn of(id: Option<&str>) -> Self {
        let id = id.map(str::trim).filter(|id| !id.is_empty());
        Self(id.map(|id| {
            let hash = Sha256::new().chain_update("dream-meter machine ").chain_update(id).finalize();
            hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
        }))
    }
}

/// The small file outside the state directory. It need not be synced: one that is behind accuses nobody.
#[derive(Debug)]
pub struct Witness {
    path: PathBuf,
    instance: u64,
}

impl Witness {
    /// Looks at records that were just opened, makes them this machine's own, and returns what is wrong with them. From then on
    /// [`Witness::note`] follows every commit.
    pub fn examine(
        path: &Path,
        records: &mut Records,
        machine: HostId,
        now: Timestamp,
    ) -> Result<(Self, Option<Doubt>), RecordsError> {
        let seen = read(path);
        let doubt = find_doubt(seen, records, machine)?;
        let known = records.number(Number::Instance).filter(|_| doubt.is_none());
        let instance = known.unwrap_or_else(rand::random);
        let (inode, birth) = records.file_marks()?;
        let mut numbers = vec![(Number::Inode, inode), (Number::Instance, instance)];
        numbers.extend(birth.map(|birth| (Number::Birth, birth)));
        numbers.extend(machine.0.map(|machine| (Number::Machine, machine)));
        let commits = if doubt.is_some() {
            let tomorrow = (now.utc_day() + 1) * DAY_SECONDS;
            numbers.push((Number::SilentUntil, tomorrow));
            records.discard(&numbers)?
        } else {
            records.commit(&[], &numbers)?
        };
        let witness = Self { path: path.to_owned(), instance };
        witness.note(commits).map_err(|error| RecordsError::File { path: path.to_owned(), error })?;
        Ok((witness, doubt))
    }

    /// Notes how many commits there were. Of fixed length, so that it is never cut short.
    pub fn note(&self, commits: u64) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        file.write_all_at(format!("{:016x} {commits:020}\n", self.instance).as_bytes(), 0)
    }
}

/// Returns the instance and the commits in a witness, if there is a sound one.
fn read(path: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let (instance, commits) = text.trim_end().split_once(' ')?;
    Some((u64::from_str_radix(instance, 16).ok()?, commits.parse().ok()?))
}

fn find_doubt(seen: Option<(u64, u64)>, records: &Records, machine: HostId) -> Result<Option<Doubt>, RecordsError> {
    let Some(instance) = records.number(Number::Instance) else {
        return Ok(seen.map(|_| Doubt::NoRecords));
    };
    let written_by = records.number(Number::Machine);
    let (inode, birth) = records.file_marks()?;
    let other_birth = records.number(Number::Birth).zip(birth).is_some_and(|(then, now)| then != now);
    Ok(if written_by.zip(machine.0).is_some_and(|(then, now)| then != now) {
        Some(Doubt::OtherMachine)
    } else if seen.is_some_and(|(other, _)| other != instance) {
        Some(Doubt::OtherRecords)
    } else if seen.is_some_and(|(_, seen)| records.commits() < seen) {
        Some(Doubt::WentBack)
    } else if other_birth || records.number(Number::Inode) != Some(inode) {
        Some(Doubt::OtherFile)
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(20_000 * DAY_SECONDS + 3_600);
    const HERE: HostId = HostId(Some(1));

    struct Home {
        folder: tempfile::TempDir,
    }

    impl Home {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn state(&self) -> PathBuf {
            self.folder.path().join("state")
        }

        fn witness(&self) -> PathBuf {
            self.folder.path().join("elsewhere/witness")
        }

        fn start(&self, machine: HostId) -> (Records, Witness, Option<Doubt>) {
            let mut records = Records::open(&self.state()).unwrap();
            let (witness, doubt) = Witness::examine(&self.witness(), &mut records, machine, NOW).unwrap();
            (records, witness, doubt)
        }

        /// Starts it, and commits so often.
        fn live(&self, commits: usize) {
            let (mut records, witness, doubt) = self.start(HERE);
            assert_eq!(doubt, None);
            for _ in 0..commits {
                witness.note(records.commit(&[], &[]).unwrap()).unwrap();
            }
        }

        fn copy(&self, to: &str) -> PathBuf {
            let copy = self.folder.path().join(to);
            fs::create_dir(&copy).unwrap();
            for file in [Records::file(&self.state()), Records::key_file(&self.state())] {
                fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
            }
            copy
        }
    }

    #[test]
    fn records_that_stay_where_they_are_are_trusted() {
        let home = Home::new();
        home.live(3);
        home.live(2);
        // Without a witness, which may be cleaned away, the other signs are left.
        fs::remove_file(home.witness()).unwrap();
        home.live(1);
        assert_eq!(home.start(HostId(None)).2, None, "nobody knows the machine");
    }

    #[test]
    fn a_commit_that_the_witness_missed_is_no_doubt() {
        let home = Home::new();
        let (mut records, ..) = home.start(HERE);
        records.commit(&[], &[]).unwrap();
        drop(records);
        assert_eq!(home.start(HERE).2, None);
    }

    #[test]
    fn another_machine_is_noticed() {
        let home = Home::new();
        home.live(1);
        assert_eq!(home.start(HostId(Some(2))).2, Some(Doubt::OtherMachine));
        assert_eq!(home.start(HostId(Some(2))).2, None, "told once: the records are new");
    }

    #[test]
    fn a_copy_in_the_place_of_the_directory_is_noticed() {
        let home = Home::new();
        home.live(1);
        let copy = home.copy("copy");
        fs::rename(home.state(), home.folder.path().join("old")).unwrap();
        fs::rename(copy, home.state()).unwrap();
        assert_eq!(home.start(HERE).2, Some(Doubt::OtherFile));
    }

    #[test]
    fn a_file_that_was_made_later_under_the_same_number_is_noticed() {
        let home = Home::new();
        home.live(1);
        let (mut records, _, doubt) = home.start(HERE);
        assert_eq!(doubt, None);
        let (inode, birth) = records.file_marks().unwrap();
        let birth = birth.expect("the file systems that tests run on know when a file was made");
        records.commit(&[], &[(Number::Inode, inode), (Number::Birth, birth - 1)]).unwrap();
        drop(records);
        fs::remove_file(home.witness()).unwrap();
        assert_eq!(home.start(HERE).2, Some(Doubt::OtherFile));
        assert_eq!(home.start(HERE).2, None, "told once");
    }

    #[test]
    fn a_back_up_written_into_the_same_file_is_noticed() {
        let home = Home::new();
        home.live(1);
        let back_up = home.copy("back-up");
        home.live(2);
        for file in [Records::file(&home.state()), Records::key_file(&home.state())] {
            let bytes = fs::read(back_up.join(file.file_name().unwrap())).unwrap();
            fs::write(file, bytes).unwrap();
        }
        let (records, _, doubt) = home.start(HERE);
        assert_eq!(doubt, Some(Doubt::WentBack));
        assert_eq!(records.number(Number::SilentUntil), Some(20_001 * DAY_SECONDS), "until the next UTC day");
    }

    #[test]
    fn records_that_are_gone_or_exchanged_are_noticed() {
        let home = Home::new();
        home.live(1);
        fs::remove_dir_all(home.state()).unwrap();
        assert_eq!(home.start(HERE).2, Some(Doubt::NoRecords));
        let other = Home::new();
        other.live(1);
        fs::copy(other.witness(), home.witness()).unwrap();
        assert_eq!(home.start(HERE).2, Some(Doubt::OtherRecords));
    }

    #[test]
    fn a_machine_is_known_by_its_id_and_none_without_one() {
        assert_eq!(HostId::of(Some("abc\n")), HostId::of(Some("abc")));
        assert_ne!(HostId::of(Some("abc")), HostId::of(Some("abd")));
        assert_eq!(HostId::of(Some("\n")), HostId::of(None));
    }
}
