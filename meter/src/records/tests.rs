//! The file against crashes, damage and tampering.

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

/// Returns records with an account and an enrolment in a state directory, cleanly closed.
fn closed(folder: &Path) -> Vec<Vec<u8>> {
    let mut records = Records::open(folder).unwrap();
    records.commit(&first_changes(), &[(Number::Sent, 7)]).unwrap();
    encoded(&records.load().unwrap())
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
    assert_eq!(records.number(Number::Sent), Some(7));
    assert_eq!(records.commits(), 1);
}

#[test]
fn a_directory_serves_one_meter_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _records = Records::open(folder.path()).unwrap();
    assert!(matches!(Records::open(folder.path()), Err(RecordsError::Locked { .. })));
}

#[test]
fn no_entry_is_in_the_file_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    let entries = closed(folder.path());
    let file = fs::read(Records::file(folder.path())).unwrap();
    for entry in entries {
        // Also not in part: the account's last bytes are what the day has cost.
        for part in [&entry[..16], &entry[entry.len() - 16..]] {
            assert!(!file.windows(part.len()).any(|window| window == part));
        }
    }
}

#[test]
fn what_was_replaced_or_erased_has_lost_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Records::open(folder.path()).unwrap();
    records.commit(&first_changes(), &[]).unwrap();
    let enrolment = records.load().unwrap().iter().map(Record::key).find(|key| matches!(key, Key::Enrolment(_)));
    let account = || first_changes().into_iter().find(|change| change.of_place().0 == (0, 0)).unwrap();
    for changes in [vec![account()], vec![Change::Erase(enrolment.unwrap())]] {
        let key_file = Records::key_file(folder.path());
        let before = fs::read(&key_file).unwrap();
        let old_keys = records.index.keys.clone();
        records.commit(&changes, &[]).unwrap();
        let after = fs::read(&key_file).unwrap();
        let old = before.chunks(32).find(|chunk| chunk.iter().any(|byte| *byte != 0)).unwrap();
        assert!(!after.windows(32).any(|window| window == old), "the key of the index before is gone");
        for change in &changes {
            let (place, _) = change.of_place();
            assert_ne!(records.index.keys.get(&place), old_keys.get(&place), "and so is the entry's");
        }
    }
    assert_eq!(records.load().unwrap().len(), 1);
}

#[test]
fn the_last_change_of_an_entry_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Records::open(folder.path()).unwrap();
    let key = |change: &Change| match change {
        Change::Put(record) => record.key(),
        Change::Erase(key) => *key,
    };
    let erased = first_changes().iter().map(|change| Change::Erase(key(change))).collect::<Vec<_>>();
    let changes: Vec<_> = first_changes().into_iter().chain(first_changes()).chain(erased).collect();
    records.commit(&changes, &[]).unwrap();
    assert!(records.load().unwrap().is_empty());
    records.commit(&first_changes(), &[]).unwrap();
    drop(records);
    assert_eq!(Records::open(folder.path()).unwrap().load().unwrap().len(), 2);
}

#[test]
fn a_crash_before_the_old_key_is_removed_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Records::open(folder.path()).unwrap();
    records.commit(&first_changes(), &[]).unwrap();
    // The key for the next commit is written, and then the power is gone.
    records.keys.add(2).unwrap();
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
    assert_eq!(records.number(Number::SilentUntil), Some(5));
}

/// What is left of a state directory's two files if they are not touched.
fn sound(folder: &Path) -> [(PathBuf, Vec<u8>); 2] {
    [Records::file(folder), Records::key_file(folder)].map(|path| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    })
}

#[test]
fn a_flipped_bit_changes_nothing_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let entries = closed(folder.path());
    let files = sound(folder.path());
    let (mut refused, mut harmless) = (0, 0);
    for (path, bytes) in &files {
        // Every byte that is written, and some of the emptiness between.
        let chosen = |at: &usize| !matches!(bytes[*at], 0 | 0xff) || at.is_multiple_of(bytes.len().div_ceil(40));
        for at in (0..bytes.len()).filter(chosen) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            for (path, bytes) in &files {
                fs::write(path, bytes).unwrap();
            }
            fs::write(path, &flipped).unwrap();
            match Records::open(folder.path()) {
                Ok(records) => {
                    assert_eq!(encoded(&records.load().unwrap()), entries, "byte {at} of {}", path.display());
                    assert_eq!((records.number(Number::Sent), records.commits()), (Some(7), 1), "byte {at}");
                    harmless += 1;
                }
                Err(RecordsError::Damaged { .. } | RecordsError::OtherFormat { .. }) => {
                    let left = fs::read(path).unwrap();
                    assert!(left == flipped || path.ends_with("records.redb"), "left as it is");
                    refused += 1;
                }
                Err(error) => panic!("byte {at} of {}: {error}", path.display()),
            }
        }
    }
    assert!(refused > 300 && harmless > 50, "{refused} refused, {harmless} harmless");
}

/// Changes sealed entries behind the meter's back, with checksums that are right.
fn tamper(folder: &Path, change: impl FnOnce(&mut redb::Table<'_, Place, &[u8]>)) {
    let database = Database::open(Records::file(folder)).unwrap();
    let mut write = database.begin_write().unwrap();
    write.set_two_phase_commit(true);
    change(&mut write.open_table(ENTRIES).unwrap());
    write.commit().unwrap();
}

#[test]
fn entries_cannot_be_exchanged_put_back_or_left_out() {
    let earlier = tempfile::tempdir().unwrap();
    closed(earlier.path());
    let sealed = |folder: &Path, place: Place| {
        let database = Database::open(Records::file(folder)).unwrap();
        let table = database.begin_read().unwrap().open_table(ENTRIES).unwrap();
        table.get(place).unwrap().map(|found| found.value().to_vec())
    };
    let account = (0, 0);
    let enrolment = *Records::open(earlier.path()).unwrap().index.keys.keys().next_back().unwrap();
    let old_account = sealed(earlier.path(), account).unwrap();
    let begin = || {
        let folder = tempfile::tempdir().unwrap();
        for file in [Records::file, Records::key_file] {
            fs::copy(file(earlier.path()), file(folder.path())).unwrap();
        }
        let mut records = Records::open(folder.path()).unwrap();
        records.commit(&first_changes(), &[]).unwrap();
        folder
    };
    let refused = |folder: &Path| matches!(Records::open(folder), Err(RecordsError::Damaged { .. }));

    let folder = begin();
    assert!(!refused(folder.path()));
    let other = sealed(folder.path(), enrolment).unwrap();
    tamper(folder.path(), |table| drop(table.insert(account, other.as_slice()).unwrap()));
    assert!(refused(folder.path()), "another entry in its place");

    let folder = begin();
    tamper(folder.path(), |table| drop(table.insert(account, old_account.as_slice()).unwrap()));
    assert!(refused(folder.path()), "an earlier account in the place of this one");

    let folder = begin();
    tamper(folder.path(), |table| drop(table.remove(account).unwrap()));
    assert!(refused(folder.path()), "no account at all");

    let folder = begin();
    tamper(folder.path(), |table| drop(table.insert((1, 9), other.as_slice()).unwrap()));
    assert!(refused(folder.path()), "one enrolment more");
}

#[test]
fn records_of_an_earlier_version_or_without_their_key_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(Records::file(folder.path())).unwrap();
    let mut write = database.begin_write().unwrap();
    write.set_two_phase_commit(true);
    let numbers: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
    write.open_table(numbers).unwrap().insert("format", 1).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = Records::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordsError::OtherFormat { .. }), "{error}");
    assert!(error.to_string().contains("dream-meter leave"));

    let folder = tempfile::tempdir().unwrap();
    closed(folder.path());
    fs::write(Records::key_file(folder.path()), vec![0; 8192]).unwrap();
    let error = Records::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("does not fit `records.key`") && error.contains("do not restore a backup in its place"),
        "{error}"
    );
    fs::remove_file(Records::key_file(folder.path())).unwrap();
    let error = Records::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("records.key cannot be opened or written"), "{error}");
}

/// Copies the records that 0.1.0 wrote into a state directory.
fn of_0_1_0() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in [Records::file, Records::key_file] {
        fs::copy(file(&fixture()), file(folder.path())).unwrap();
    }
    folder
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0")
}

/// With `DREAM_BLESS=1` it writes the records anew, as this version does. After a release they never change again.
#[test]
fn records_of_0_1_0_open() {
    if std::env::var_os("DREAM_BLESS").is_some() {
        fs::create_dir_all(fixture()).unwrap();
        for file in [Records::file, Records::key_file] {
            fs::remove_file(file(&fixture())).ok();
        }
        closed(&fixture());
        Database::open(Records::file(&fixture())).unwrap().compact().unwrap();
    }
    let folder = of_0_1_0();
    let records = Records::open(folder.path()).unwrap();
    let keys: Vec<Key> = records.load().unwrap().iter().map(Record::key).collect();
    assert!(matches!(keys[..], [Key::Account, Key::Enrolment(_)]), "{keys:?}");
    assert_eq!((records.number(Number::Sent), records.commits()), (Some(7), 1));
}

/// A format to come, which knows no enrolments and writes the account as it was.
const NEXT: Formats<Migration> =
    Formats { oldest: 2, steps: &[|place, bytes| (place.0 == 0).then(|| Zeroizing::new(bytes.to_vec()))] };

#[test]
fn older_records_are_brought_up_to_date_in_one_commit_and_newer_ones_are_refused() {
    let folder = of_0_1_0();
    let before = encoded(&Records::open(folder.path()).unwrap().load().unwrap());
    let old_keys = fs::read(Records::key_file(folder.path())).unwrap();
    let records = Records::open_with(folder.path(), &NEXT).unwrap();
    assert_eq!(encoded(&records.load().unwrap()), before[..1]);
    assert_eq!((records.number(Number::Sent), records.commits()), (Some(7), 2));
    assert_ne!(fs::read(Records::key_file(folder.path())).unwrap(), old_keys, "what was dropped has lost its key");
    drop(records);
    assert_eq!(Records::open_with(folder.path(), &NEXT).unwrap().commits(), 2, "once");

    let migrated = sound(folder.path());
    let error = Records::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordsError::Newer { found: 3, expected: 2, .. }), "{error}");
    assert!(error.to_string().contains("install that version"), "{error}");
    assert_eq!(sound(folder.path())[1], migrated[1], "its key is left alone");
    assert_eq!(Records::open_with(folder.path(), &NEXT).unwrap().load().unwrap().len(), 1);
}

#[test]
fn records_that_cannot_be_brought_up_to_date_are_left_as_they_are() {
    const BROKEN: Formats<Migration> = Formats { oldest: 2, steps: &[|_, _| Some(Zeroizing::new(vec![0xff]))] };
    let folder = of_0_1_0();
    let error = Records::open_with(folder.path(), &BROKEN).unwrap_err();
    assert!(matches!(error, RecordsError::Damaged { .. }), "{error}");
    let records = Records::open(folder.path()).unwrap();
    assert_eq!((records.load().unwrap().len(), records.commits()), (2, 1));
}
