//! The store by itself: what it keeps, what it forgets, and which files it refuses without touching them.
use std::path::Path;
use std::sync::Arc;

use dream_gateway::history::{ClosedSlot, History, Rollup, Step};
use dream_gateway::store::{Change, OpenStoreError, Store};
use dream_protocol::cluster::{Forget, Key, Record, SlotEntry};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::{Slot, Timestamp};
use redb::{ReadableDatabase, TableDefinition};
use tempfile::TempDir;

use crate::world::gateway::Gateway;
use crate::world::log::Log;
use crate::world::{World, eventually};

fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

/// Sorts before `north` and starts with it: ranges of keys must not run into one another.
fn others() -> [ClusterId; 3] {
    ["nort", "north-2", "north2"].map(|name| ClusterId::new(name).unwrap())
}

fn open(dir: &TempDir) -> Store {
    Store::open(&dir.path().join("store.redb"), 4).unwrap()
}

fn put(store: &Store, cluster: &ClusterId, record: Record) {
    store.commit(&[Change::Put(cluster.clone(), record)]).unwrap();
}

fn keys(store: &Store, cluster: &ClusterId) -> Vec<Key> {
    store.records(cluster).unwrap().iter().map(Record::key).collect()
}

fn enrolment(meter: &str, byte: u8) -> Record {
    Record::Enrolment { meter: MeterId::new(meter).unwrap(), bytes: Arc::new([byte; 9]) }
}

fn reading(slot: u64, member: u16, ciphertext: u64) -> Record {
    Record::Reading { slot: Slot(slot), attempt: 0, member, ciphertext }
}

fn request(slot: u64, byte: u8) -> Record {
    Record::Request { slot: Slot(slot), attempt: 0, bytes: Arc::new([byte; 5]) }
}

#[tokio::test(start_paused = true)]
async fn a_running_gateway_drops_what_is_older_than_its_retention() {
    let log = Log::capture();
    let world = World::new();
    let mut settings = World::settings().cluster("north", 6);
    settings.retention_days = 2;
    let mut gateway = Gateway::stopped(&world, settings);
    let store = Store::open(&gateway.store_path(), 4).unwrap();
    let (now, hour) = (world.now().as_secs(), 3600);
    for (slot, age) in [(1, 72 * hour), (2, 49 * hour), (3, 47 * hour), (4, hour)] {
        put(&store, &north(), outcome(slot, now - age));
    }
    let ten_years = 10 * 366 * 24 * hour;
    let periods = [(Step::Hour, ten_years), (Step::Hour, 100 * hour), (Step::Day, ten_years)].map(|(step, age)| {
        let [start, end] = [now - age, now - age + hour].map(Timestamp::from_secs);
        Change::PutRollup { cluster: north(), step, rollup: Rollup::new(start..end) }
    });
    store.commit(&periods).unwrap();
    drop(store);
    gateway.restart();
    gateway.wait_until_ready().await;
    eventually("the clock is believed", async || log.text().contains("the clock is right: no member objects to it"))
        .await;
    gateway.stop().await;
    let store = Store::open(&gateway.store_path(), 4).unwrap();
    assert_eq!(slots(&store, 0, now, usize::MAX), [3, 4]);
    let oldest = |step| {
        let rows = store.rollups(&north(), step, Timestamp::from_secs(0)..Timestamp::from_secs(now), 9).unwrap();
        (now - rows[0].start.as_secs()) / hour
    };
    assert_eq!(oldest(Step::Hour), 100, "hours are kept for five years");
    assert_eq!(oldest(Step::Day) * hour, ten_years, "days are kept for ever");
}

/// Drops slots that ended before this, and no hours.
fn expiry(seconds: u64) -> Change {
    Change::Expire { slots: Timestamp::from_secs(seconds), hours: Timestamp::from_secs(0) }
}

/// A closed slot; only the protocol makes aggregates, so this one has failed.
fn outcome(slot: u64, end_seconds: u64) -> Record {
    let end = end_seconds * 1000;
    let mut bytes = Vec::new();
    let mut cbor = minicbor::Encoder::new(&mut bytes);
    cbor.array(14).unwrap().u64(7).unwrap().u64(slot).unwrap().u64(end - 600_000).unwrap().u64(end).unwrap();
    for number in [1, 100, 80, 60, 1, 1_000_000, 9000, 1] {
        cbor.u64(number).unwrap();
    }
    cbor.str("too_many_missing").unwrap().i64(0).unwrap();
    Record::decode(&bytes).unwrap()
}

fn slots(store: &Store, from: u64, to: u64, limit: usize) -> Vec<u64> {
    let found = store.slots(&north(), Timestamp::from_secs(from)..Timestamp::from_secs(to), limit).unwrap();
    found.iter().map(|kept: &ClosedSlot| kept.outcome.slot.0).collect()
}

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    for cluster in [north()].into_iter().chain(others()) {
        put(&store, &cluster, enrolment("m-1", 1));
        put(&store, &cluster, reading(7, 3, 30));
        put(&store, &cluster, outcome(6, 6000));
        put(&store, &cluster, Record::Offenders(Box::default()));
        put(&store, &cluster, Record::Retries(Box::default()));
    }
    drop(store);
    let store = open(&dir);
    let expected = [
        Key::Enrolment(MeterId::new("m-1").unwrap()),
        Key::Outcome(Slot(6)),
        Key::Offenders,
        Key::Retries,
        Key::Slot(Slot(7), 0, SlotEntry::Reading(3)),
    ];
    for cluster in [north()].into_iter().chain(others()) {
        assert_eq!(keys(&store, &cluster), expected);
    }
    assert_eq!(store.clusters().unwrap().len(), 4);
}

#[test]
fn a_later_entry_of_the_same_name_replaces_the_earlier_one() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    put(&store, &north(), enrolment("m-1", 1));
    put(&store, &north(), enrolment("m-1", 2));
    put(&store, &north(), reading(7, 3, 30));
    put(&store, &north(), reading(7, 3, 31));
    let found: Vec<String> = store.records(&north()).unwrap().iter().map(|record| format!("{record:?}")).collect();
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("[2, 2,") && found[1].contains("ciphertext: 31"), "{found:?}");
}

#[test]
fn a_forgotten_slot_is_gone_also_within_one_commit_and_its_neighbours_stay() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    put(&store, &north(), reading(7, 1, 10));
    put(&store, &others()[1], reading(7, 1, 10));
    store
        .commit(&[
            Change::Put(north(), reading(8, 1, 11)),
            Change::Put(north(), request(7, 1)),
            Change::Put(north(), outcome(7, 7000)),
            Change::Forget(north(), Forget::Slot(Slot(7))),
        ])
        .unwrap();
    assert_eq!(keys(&store, &north()), [Key::Outcome(Slot(7)), Key::Slot(Slot(8), 0, SlotEntry::Reading(1))]);
    assert_eq!(keys(&store, &others()[1]).len(), 1);
}

#[test]
fn forgotten_enrolments_are_gone() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    put(&store, &north(), enrolment("m-1", 1));
    put(&store, &north(), enrolment("m-2", 1));
    store.commit(&[Change::Forget(north(), Forget::Enrolment(MeterId::new("m-1").unwrap()))]).unwrap();
    assert_eq!(keys(&store, &north()), [Key::Enrolment(MeterId::new("m-2").unwrap())]);
}

#[test]
fn history_is_asked_by_time_and_gives_the_newest() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    for slot in 1..=9 {
        put(&store, &north(), outcome(slot, slot * 1000));
        put(&store, &others()[1], outcome(slot + 100, slot * 1000));
    }
    assert_eq!(slots(&store, 3000, 6000, 100), [3, 4, 5]);
    assert_eq!(slots(&store, 0, u64::MAX, 2), [8, 9]);
    assert_eq!(slots(&store, 9001, u64::MAX, 2), [0u64; 0]);
    assert_eq!(store.span(&north()).unwrap(), Some((1_000_000, 9_000_000)));
    assert_eq!(store.span(&ClusterId::new("south").unwrap()).unwrap(), None);
}

#[test]
fn aggregates_expire_in_all_clusters() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    for cluster in [north()].into_iter().chain(others()) {
        for slot in 1..=9 {
            put(&store, &cluster, outcome(slot, slot * 1000));
        }
    }
    store.commit(&[expiry(4000)]).unwrap();
    for cluster in [north()].into_iter().chain(others()) {
        assert_eq!(store.span(&cluster).unwrap(), Some((4_000_000, 9_000_000)), "{cluster}");
    }
    store.commit(&[expiry(40_000)]).unwrap();
    assert_eq!(store.clusters().unwrap(), [0; 0].map(|_: u8| north()));
}

#[test]
fn a_store_in_use_is_refused() {
    let dir = TempDir::new().unwrap();
    let _store = open(&dir);
    let refused = Store::open(&dir.path().join("store.redb"), 4).unwrap_err();
    assert!(matches!(refused, OpenStoreError::Locked { .. }), "{refused}");
}

#[test]
fn a_missing_store_is_not_made_by_whoever_only_reads() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    assert!(matches!(Store::open_existing(&path), Err(OpenStoreError::Missing { .. })));
    assert!(!path.exists());
}

#[test]
fn evidence_is_kept_by_cluster_and_number() {
    let dir = TempDir::new().unwrap();
    let evidence = |number| Record::Evidence { number, bytes: Arc::from(&b"two messages"[..]) };
    let south = ClusterId::new("south").unwrap();
    let puts = [(north(), 0), (north(), 1), (south, 0)].map(|(cluster, number)| Change::Put(cluster, evidence(number)));
    open(&dir).commit(&puts).unwrap();
    assert_eq!(keys(&open(&dir), &north()), [Key::Evidence(0), Key::Evidence(1)]);
}

#[test]
fn only_the_owner_can_read_a_new_store() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    drop(open(&dir));
    let mode = std::fs::metadata(dir.path().join("store.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Opens a store whose format is another one; returns why that is refused, after checking that the file was left alone.
fn open_of_format(found: u64) -> OpenStoreError {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    drop(open(&dir));
    let database = redb::Database::open(&path).unwrap();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let write = database.begin_write().unwrap();
    write.open_table(meta).unwrap().insert("format", found).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = Store::open(&path, 4).unwrap_err();
    let database = redb::Database::open(&path).unwrap();
    let format = database.begin_read().unwrap().open_table(meta).unwrap().get("format").unwrap().unwrap().value();
    assert_eq!(format, found);
    refused
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let refused = open_of_format(4);
    assert!(matches!(refused, OpenStoreError::Newer { found: 4, .. }), "{refused}");
}

#[test]
fn an_earlier_format_is_refused_and_left_alone_and_the_error_says_what_to_do() {
    let refused = open_of_format(2);
    assert!(matches!(refused, OpenStoreError::Earlier { found: 2, .. }), "{refused}");
    for told in ["dream-gateway export", "move the file away", "the meters enrol again"] {
        assert!(refused.to_string().contains(told), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    for (name, bytes) in [("text", b"load,watts\n1,2\n".to_vec()), ("zeros", vec![0; 8192]), ("noise", noise(70_000))] {
        let path = dir.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let refused = Store::open(&path, 4).unwrap_err();
        assert!(matches!(refused, OpenStoreError::Damaged { .. }), "{name}: {refused}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{name} was changed");
    }
}

/// Every flipped byte is either noticed, or in a place that holds nothing.
#[test]
fn a_damaged_store_is_refused_or_reads_as_before() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    let store = open(&dir);
    for slot in 0..40 {
        put(&store, &north(), enrolment(&format!("m-{slot}"), 5));
        put(&store, &north(), outcome(slot + 1, 1000 * (slot + 1)));
        put(&store, &north(), reading(90, u16::try_from(slot).unwrap(), slot));
    }
    let content = |store: &Store| (format!("{:?}", store.records(&north())), slots(store, 0, u64::MAX, 100));
    let good = content(&store);
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        match Store::open(&path, 4) {
            Ok(store) => assert_eq!(content(&store), good, "byte {at} of {} was flipped unnoticed", bytes.len()),
            Err(OpenStoreError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > 10, "only {refused} damaged files were refused");
}

/// redb believes the header of a file that was closed in order: nothing may get there that would make it abort or panic later.
#[test]
fn a_damaged_header_is_refused_in_words_and_left_alone_or_holds_nothing() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    let store = open(&dir);
    put(&store, &north(), enrolment("m-1", 1));
    put(&store, &north(), outcome(1, 1000));
    let good = keys(&store, &north());
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..320).chain([400, 4095]) {
        for flip in [0xff, 0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            std::fs::write(&path, &damaged).unwrap();
            match Store::open(&path, 4) {
                Ok(store) => {
                    assert_eq!(keys(&store, &north()), good, "byte {at} of the header, {flip:#x}");
                    put(&store, &north(), enrolment("m-2", 1));
                }
                Err(OpenStoreError::Damaged { .. }) => {
                    refused += 1;
                    assert!(std::fs::read(&path).unwrap() == damaged, "byte {at}, {flip:#x}: the file was changed");
                }
                Err(error) => panic!("byte {at}, {flip:#x}: {error}"),
            }
        }
    }
    assert!(refused > 300, "only {refused} damaged headers were refused");
}

#[test]
fn a_truncated_store_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    let store = open(&dir);
    put(&store, &north(), enrolment("m-1", 1));
    drop(store);
    let length = std::fs::metadata(&path).unwrap().len();
    for keep in [length - 1, length / 2, 4096, 100, 1] {
        truncate(&path, keep);
        let refused = Store::open(&path, 4).unwrap_err();
        assert!(matches!(refused, OpenStoreError::Damaged { .. }), "{keep} of {length} bytes: {refused}");
    }
}

fn truncate(path: &Path, keep: u64) {
    let bytes = std::fs::read(path).unwrap();
    let keep = usize::try_from(keep).unwrap().min(bytes.len());
    std::fs::write(path, &bytes[..keep]).unwrap();
}

fn noise(count: u32) -> Vec<u8> {
    (0..count).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}
