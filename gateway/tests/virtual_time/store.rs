//! The store by itself: what it keeps, what it forgets, and which files it refuses without touching them.
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dream_edge::cut_off::CutOff;
use dream_gateway::config::Postgres as Database;
use dream_gateway::history::{ClosedSlot, FilteredLoad, History, Rollup, Step};
use dream_gateway::store::{Change, FileStore, OpenStoreError, PostgresStore, Store, StoreError};
use dream_protocol::cluster::{Forget, Key, Record, SlotEntry};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::{Slot, Timestamp};
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::postgres::{PASSWORD, Postgres};
use dream_testkit::outcomes::Slotted;
use redb::{ReadableDatabase, TableDefinition};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::world::gateway::{Gateway, in_memory};
use crate::world::log::Log;
use crate::world::{World, eventually};

fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

/// Sorts before `north` and starts with it: ranges of keys must not run into one another.
fn others() -> [ClusterId; 3] {
    ["nort", "north-2", "north2"].map(|name| ClusterId::new(name).unwrap())
}

fn open(dir: &TempDir) -> FileStore {
    FileStore::open(&dir.path().join("store.redb"), 4).unwrap()
}

/// Where a store is kept.
struct Place {
    directory: TempDir,
    server: Option<Postgres>,
}

impl Place {
    fn file() -> Self {
        Self { directory: TempDir::new().unwrap(), server: None }
    }

    fn postgres() -> Self {
        let place = Self { server: Some(Postgres::start()), ..Self::file() };
        place.write_key("store.key", "5e");
        place
    }

    fn write_key(&self, name: &str, byte: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.directory.path().join(name);
        std::fs::write(&path, byte.repeat(32)).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn server(&self) -> &Postgres {
        self.server.as_ref().unwrap()
    }

    fn sql(&self, sql: &str) -> String {
        self.server().sql("dream", sql).unwrap()
    }

    /// Opens the database with these keys.
    fn database(&self, keys: &[&str], owner: &str) -> Result<PostgresStore, OpenStoreError> {
        let keys = keys.iter().map(|name| self.directory.path().join(name)).collect();
        let database = Database { url: self.server().url(), ca: None, password_file: None, keys, lease_seconds: 1 };
        PostgresStore::open(&database, 0, owner)
    }

    /// Opens it to be written, once the lease of the one before has ended.
    fn open(&self) -> Box<dyn Store> {
        if self.server.is_none() {
            return Box::new(open(&self.directory));
        }
        let store = self.database(&["store.key"], "test").unwrap();
        while store.try_take().unwrap().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Box::new(store)
    }
}

/// Makes two tests of each function: one on a file and one on PostgreSQL.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod on_a_file {
            $(#[test] fn $test() { super::$test(&super::Place::file()); })*
        }

        mod on_postgres {
            $(#[test] fn $test() { super::$test(&super::Place::postgres()); })*
        }
    };
}
on_both! {
    what_was_committed_is_there_after_opening_again,
    a_later_entry_of_the_same_name_replaces_the_earlier_one,
    a_forgotten_slot_is_gone_also_within_one_commit_and_its_neighbours_stay,
    forgotten_enrolments_are_gone,
    history_is_asked_by_time_and_gives_the_newest,
    aggregates_expire_in_all_clusters,
    evidence_is_kept_by_cluster_and_number,
    loads_of_the_filter_go_with_their_slots,
    hours_and_days_are_kept_to_the_bit,
    a_withdrawn_outcome_goes_with_its_loads_and_the_rows_from_its_day_on,
}

fn put(store: &dyn Store, cluster: &ClusterId, record: Record) {
    store.commit(&[Change::Put(cluster.clone(), record)]).unwrap();
}

fn keys(store: &dyn Store, cluster: &ClusterId) -> Vec<Key> {
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
    let store = FileStore::open(&gateway.store_path(), 4).unwrap();
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
    let store = FileStore::open(&gateway.store_path(), 4).unwrap();
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

fn slots(store: &dyn Store, from: u64, to: u64, limit: usize) -> Vec<u64> {
    let found = store.slots(&north(), Timestamp::from_secs(from)..Timestamp::from_secs(to), limit).unwrap();
    found.iter().map(|kept: &ClosedSlot| kept.outcome.slot.0).collect()
}

fn what_was_committed_is_there_after_opening_again(place: &Place) {
    let store = place.open();
    for cluster in [north()].into_iter().chain(others()) {
        put(&*store, &cluster, enrolment("m-1", 1));
        put(&*store, &cluster, reading(7, 3, 30));
        put(&*store, &cluster, outcome(6, 6000));
        put(&*store, &cluster, Record::Offenders(Box::default()));
        put(&*store, &cluster, Record::Retries(Box::default()));
    }
    drop(store);
    let store = &*place.open();
    let expected = [
        Key::Enrolment(MeterId::new("m-1").unwrap()),
        Key::Outcome(Slot(6)),
        Key::Offenders,
        Key::Retries,
        Key::Slot(Slot(7), 0, SlotEntry::Reading(3)),
    ];
    for cluster in [north()].into_iter().chain(others()) {
        assert_eq!(keys(store, &cluster), expected);
    }
    assert_eq!(store.clusters().unwrap().len(), 4);
}

fn a_later_entry_of_the_same_name_replaces_the_earlier_one(place: &Place) {
    let store = &*place.open();
    put(store, &north(), enrolment("m-1", 1));
    put(store, &north(), enrolment("m-1", 2));
    put(store, &north(), reading(7, 3, 30));
    put(store, &north(), reading(7, 3, 31));
    let found: Vec<String> = store.records(&north()).unwrap().iter().map(|record| format!("{record:?}")).collect();
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("[2, 2,") && found[1].contains("ciphertext: 31"), "{found:?}");
}

fn a_forgotten_slot_is_gone_also_within_one_commit_and_its_neighbours_stay(place: &Place) {
    let store = &*place.open();
    put(store, &north(), reading(7, 1, 10));
    put(store, &others()[1], reading(7, 1, 10));
    store
        .commit(&[
            Change::Put(north(), reading(8, 1, 11)),
            Change::Put(north(), request(7, 1)),
            Change::Put(north(), outcome(7, 7000)),
            Change::Forget(north(), Forget::Slot(Slot(7))),
        ])
        .unwrap();
    assert_eq!(keys(store, &north()), [Key::Outcome(Slot(7)), Key::Slot(Slot(8), 0, SlotEntry::Reading(1))]);
    assert_eq!(keys(store, &others()[1]).len(), 1);
}

fn forgotten_enrolments_are_gone(place: &Place) {
    let store = &*place.open();
    put(store, &north(), enrolment("m-1", 1));
    put(store, &north(), enrolment("m-2", 1));
    store.commit(&[Change::Forget(north(), Forget::Enrolment(MeterId::new("m-1").unwrap()))]).unwrap();
    assert_eq!(keys(store, &north()), [Key::Enrolment(MeterId::new("m-2").unwrap())]);
}

fn history_is_asked_by_time_and_gives_the_newest(place: &Place) {
    let store = &*place.open();
    for slot in 1..=9 {
        put(store, &north(), outcome(slot, slot * 1000));
        put(store, &others()[1], outcome(slot + 100, slot * 1000));
    }
    assert_eq!(slots(store, 3000, 6000, 100), [3, 4, 5]);
    assert_eq!(slots(store, 0, u64::MAX, 2), [8, 9]);
    assert_eq!(slots(store, 9001, u64::MAX, 2), [0u64; 0]);
    assert_eq!(store.span(&north()).unwrap(), Some((1_000_000, 9_000_000)));
    assert_eq!(store.span(&ClusterId::new("south").unwrap()).unwrap(), None);
}

fn aggregates_expire_in_all_clusters(place: &Place) {
    let store = &*place.open();
    for cluster in [north()].into_iter().chain(others()) {
        for slot in 1..=9 {
            put(store, &cluster, outcome(slot, slot * 1000));
        }
    }
    store.commit(&[expiry(4000)]).unwrap();
    for cluster in [north()].into_iter().chain(others()) {
        assert_eq!(store.span(&cluster).unwrap(), Some((4_000_000, 9_000_000)), "{cluster}");
    }
    store.commit(&[expiry(40_000)]).unwrap();
    assert_eq!(store.clusters().unwrap(), [0; 0].map(|_: u8| north()));
}

fn loads_of_the_filter_go_with_their_slots(place: &Place) {
    let store = &*place.open();
    let load = |watts| FilteredLoad { watts, band95: 50 };
    let decoded = Slotted::new(7).decoded(1234, 95);
    let end = decoded.end;
    let filtered = Change::PutFiltered { cluster: north(), end, filtered: load(-1100) };
    let cut_off = CutOff { share: -20_000, lasting: 300, daily: 400, passing: u32::MAX };
    let cut = Change::PutCutOff { cluster: north(), end, cut_off };
    store.commit(&[Change::Put(north(), Record::Outcome(decoded)), filtered, cut]).unwrap();
    store.commit(&[Change::PutSmoothed { cluster: north(), end, smoothed: load(1150) }]).unwrap();
    let failed = Slotted::new(8).failed("interrupted", 0);
    let expected = Change::PutFiltered { cluster: north(), end: failed.end, filtered: load(900) };
    store.commit(&[expected, Change::Put(north(), Record::Outcome(failed))]).unwrap();
    let ever = Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX);
    let (filtered, smoothed, predicted) = (Some(load(-1100)), Some(load(1150)), Some(load(900)));
    let first = ClosedSlot { filtered, smoothed, cut_off: Some(cut_off), ..decoded.into() };
    let second = ClosedSlot { predicted, ..failed.into() };
    assert_eq!(store.slots(&north(), ever, 9).unwrap(), [first, second]);
}

fn hours_and_days_are_kept_to_the_bit(place: &Place) {
    let store = &*place.open();
    let mut rows = Vec::new();
    for day in 100..105 {
        let start = Timestamp::from_secs(day * 86_400);
        let mut rollup = Rollup::new(start..start.plus_secs(86_400));
        rollup.add(&Slotted::new(day * 144).decoded(54_321, 90).into());
        rows.push(rollup);
    }
    for step in [Step::Hour, Step::Day] {
        let put = |rollup: &Rollup| Change::PutRollup { cluster: north(), step, rollup: *rollup };
        store.commit(&rows.iter().map(put).collect::<Vec<_>>()).unwrap();
        let span = rows[1].start..rows[4].start;
        assert_eq!(store.rollups(&north(), step, span.clone(), 9).unwrap(), rows[1..4]);
        assert_eq!(store.rollups(&north(), step, span, 2).unwrap(), rows[2..4]);
    }
    let extent = store.extent(&north()).unwrap().unwrap();
    assert_eq!((extent.begun, extent.until), (rows[0].first, rows[4].last));
    assert_eq!(store.extent(&others()[0]).unwrap(), None);
}

fn a_withdrawn_outcome_goes_with_its_loads_and_the_rows_from_its_day_on(place: &Place) {
    let store = &*place.open();
    let south = ClusterId::new("south").unwrap();
    let day = |number: u64| Timestamp::from_secs(number * 86_400);
    let closed = |slot: u64| Slotted::new(slot).failed("too_many_missing", 0);
    for cluster in [north(), south.clone()] {
        let mut changes = Vec::new();
        // The last slots of one day, and the first ones of the next.
        for slot in 101 * 144 - 2..101 * 144 + 2 {
            let (outcome, load) = (closed(slot), FilteredLoad { watts: 9, band95: 1 });
            changes.push(Change::Put(cluster.clone(), Record::Outcome(outcome)));
            changes.push(Change::PutFiltered { cluster: cluster.clone(), end: outcome.end, filtered: load });
            changes.push(Change::PutSmoothed { cluster: cluster.clone(), end: outcome.end, smoothed: load });
        }
        for (step, start, length) in
            [(Step::Day, day(100), 86_400), (Step::Day, day(101), 86_400), (Step::Hour, day(101), 3600)]
        {
            let rollup = Rollup::new(start..start.plus_secs(length));
            changes.push(Change::PutRollup { cluster: cluster.clone(), step, rollup });
        }
        let hour = day(101).as_secs() - 3600;
        let rollup = Rollup::new(Timestamp::from_secs(hour)..day(101));
        changes.push(Change::PutRollup { cluster: cluster.clone(), step: Step::Hour, rollup });
        store.commit(&changes).unwrap();
    }
    let all = || day(0)..day(200);
    let rows = |cluster: &ClusterId, step| store.rollups(cluster, step, all(), 9).unwrap().len();
    let left = |cluster: &ClusterId| {
        let slots = store.slots(cluster, all(), 9).unwrap();
        (slots.len(), rows(cluster, Step::Hour), rows(cluster, Step::Day))
    };
    let withdraw = |slot| Change::Forget(north(), Forget::Outcome(closed(slot)));
    assert_eq!(left(&north()), (4, 2, 2));
    store.commit(&[withdraw(101 * 144 + 1)]).unwrap();
    assert_eq!(left(&north()), (3, 1, 1), "the day before stays");
    store.commit(&[withdraw(101 * 144), withdraw(101 * 144 - 1)]).unwrap();
    assert_eq!(left(&north()), (1, 0, 0));
    assert_eq!(left(&south), (4, 2, 2));
    // What comes back has none of the loads of before.
    put(store, &north(), Record::Outcome(closed(101 * 144)));
    let again = *store.slots(&north(), all(), 1).unwrap().last().unwrap();
    assert_eq!((again.predicted, again.smoothed), (None, None));
    // Within one commit too.
    let rollup = Rollup::new(day(101)..day(102));
    let row = Change::PutRollup { cluster: north(), step: Step::Day, rollup };
    store
        .commit(&[Change::Put(north(), Record::Outcome(closed(101 * 144 + 5))), row, withdraw(101 * 144 + 5)])
        .unwrap();
    assert_eq!(left(&north()), (2, 0, 0));
}

#[test]
fn a_store_in_use_is_refused() {
    let dir = TempDir::new().unwrap();
    let _store = open(&dir);
    let refused = FileStore::open(&dir.path().join("store.redb"), 4).unwrap_err();
    assert!(matches!(refused, OpenStoreError::Locked { .. }), "{refused}");
}

#[test]
fn a_missing_store_is_not_made_by_a_reader() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.redb");
    assert!(matches!(FileStore::open_existing(&path), Err(OpenStoreError::Missing { .. })));
    assert!(!path.exists());
}

fn evidence_is_kept_by_cluster_and_number(place: &Place) {
    let evidence = |number| Record::Evidence { number, bytes: Arc::from(&b"two messages"[..]) };
    let south = ClusterId::new("south").unwrap();
    let puts = [(north(), 0), (north(), 1), (south, 0)].map(|(cluster, number)| Change::Put(cluster, evidence(number)));
    place.open().commit(&puts).unwrap();
    assert_eq!(keys(&*place.open(), &north()), [Key::Evidence(0), Key::Evidence(1)]);
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
    let refused = FileStore::open(&path, 4).unwrap_err();
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
        let refused = FileStore::open(&path, 4).unwrap_err();
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
    for slot in 0..3 {
        put(&store, &north(), enrolment(&format!("m-{slot}"), 5));
        put(&store, &north(), outcome(slot + 1, 1000 * (slot + 1)));
        put(&store, &north(), reading(90, u16::try_from(slot).unwrap(), slot));
    }
    let content = |store: &FileStore| (format!("{:?}", store.records(&north())), slots(store, 0, u64::MAX, 100));
    let good = content(&store);
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    // Every byte that is written, and some of the emptiness between.
    let all = (0..bytes.len()).filter(|at| !matches!(bytes[*at], 0 | 0xff) || at % 997 == 0).collect::<Vec<_>>();
    let next = AtomicUsize::new(0);
    let worker = || {
        let dir = in_memory();
        let (path, mut refused) = (dir.path().join("store.redb"), 0);
        while let Some(at) = all.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            match FileStore::open(&path, 4) {
                Ok(store) => assert_eq!(content(&store), good, "byte {at} of {} was flipped unnoticed", bytes.len()),
                Err(OpenStoreError::Damaged { .. }) => refused += 1,
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        refused
    };
    let refused: usize = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(worker));
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(refused > 1000, "only {refused} of {} damaged files were refused", all.len());
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
            match FileStore::open(&path, 4) {
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
        let refused = FileStore::open(&path, 4).unwrap_err();
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

#[test]
fn whoever_was_taken_over_from_writes_nothing_more() {
    let place = Place::postgres();
    let first = place.database(&["store.key"], "first").unwrap();
    let second = place.database(&["store.key"], "second").unwrap();
    assert!(matches!(first.commit(&[]), Err(StoreError::Fenced)), "nobody has asked yet");
    assert_eq!(first.try_take().unwrap(), None);
    first.commit(&[Change::Put(north(), outcome(1, 1000))]).unwrap();
    assert_eq!(second.try_take().unwrap().as_deref(), Some("first"), "its lease is renewed");
    // As if it had slept: this row is not renewed any more.
    place.sql("update dream.shards set expires = '-infinity'");
    assert_eq!(second.try_take().unwrap(), None);
    for changes in [vec![Change::Put(north(), outcome(2, 2000))], Vec::new()] {
        assert!(matches!(first.commit(&changes), Err(StoreError::Fenced)), "{changes:?}");
    }
    second.commit(&[Change::Put(north(), outcome(3, 3000))]).unwrap();
    assert_eq!(slots(&second, 0, 9000, 9), [1, 3]);
    second.give_back();
    assert_eq!(first.try_take().unwrap(), None, "what was given back is free at once");
    first.commit(&[Change::Put(north(), outcome(4, 4000))]).unwrap();
}

#[test]
fn a_server_that_was_killed_is_found_again() {
    let place = Place::postgres();
    let store = place.open();
    put(&*store, &north(), reading(7, 3, 30));
    place.server().kill();
    let change = [Change::Put(north(), reading(7, 4, 40))];
    assert!(matches!(store.commit(&change), Err(StoreError::Postgres(_))));
    place.server().restart();
    store.reopen().unwrap();
    store.commit(&change).unwrap();
    assert_eq!(keys(&*store, &north()).len(), 2);
}

#[test]
fn nothing_in_the_database_names_a_meter_or_shows_a_record() {
    let place = Place::postgres();
    let store = &*place.open();
    put(store, &north(), enrolment("meter-of-mr-smith", 7));
    put(store, &north(), Record::Evidence { number: 0, bytes: Arc::from(&b"meter-of-mr-smith"[..]) });
    put(store, &north(), Record::Request { slot: Slot(7), attempt: 0, bytes: Arc::from(&b"meter-of-mr-smith"[..]) });
    let tables = place.sql(
        "select string_agg(relname, ' ' order by relname) from pg_class join pg_namespace n on n.oid = relnamespace \
                            where nspname = 'dream' and relkind = 'r'",
    );
    assert_eq!(tables, "days hours records sent shards slot_entries slots versions");
    let mut rows = 0;
    for table in tables.split(' ') {
        let text = place.sql(&format!("select t::text from dream.{table} t")).to_lowercase();
        rows += text.lines().count();
        assert!(!text.contains("smith") && !text.contains(&hex::encode("smith")), "{table}: {text}");
    }
    assert!(rows >= 5, "three sealed rows, a shard and a version: {rows}");
}

/// Bits rot in databases too, and whoever may write to this one may not speak for meters.
#[test]
fn no_byte_of_a_sealed_row_or_of_its_name_changes_unnoticed() {
    let place = Place::postgres();
    let store = &*place.open();
    put(store, &north(), enrolment("m-1", 7));
    put(store, &north(), Record::Evidence { number: 3, bytes: Arc::from(&b"two messages"[..]) });
    put(store, &north(), reading(7, 3, 30));
    put(store, &north(), request(8, 9));
    let good = format!("{:?}", store.records(&north()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&place.server().url(), NoTls)).unwrap();
    runtime.spawn(connection);
    let execute = |sql: &str| runtime.block_on(client.execute(sql, &[])).unwrap();
    let mut flipped = 0;
    for (table, bytes) in [("records", "sealed"), ("records", "name"), ("slot_entries", "sealed")] {
        let rows = format!("select ctid::text, length({bytes}) from dream.{table} where length({bytes}) > 0");
        for row in runtime.block_on(client.query(&rows, &[])).unwrap() {
            let (mut at, length): (String, i32) = (row.get(0), row.get(1));
            for byte in 0..length {
                // Twice is back.
                let mut flip = || {
                    let sql = format!(
                        "update dream.{table} set {bytes} = set_byte({bytes}, {byte}, get_byte({bytes}, {byte}) # 1) \
                         where ctid = '{at}' returning ctid::text"
                    );
                    at = runtime.block_on(client.query_one(&sql, &[])).unwrap().get(0);
                };
                flip();
                let refused = store.records(&north()).unwrap_err();
                assert!(matches!(refused, StoreError::Sealed { .. }), "byte {byte} of {bytes} in {table}: {refused}");
                flip();
                flipped += 1;
            }
        }
    }
    // Nor can entries of one slot or commit pass for those of another.
    for column in ["slot", "fence", "number"] {
        execute(&format!("update dream.slot_entries set {column} = {column} + 100"));
        assert!(matches!(store.records(&north()), Err(StoreError::Sealed { .. })), "{column}");
        execute(&format!("update dream.slot_entries set {column} = {column} - 100"));
    }
    assert_eq!(format!("{:?}", store.records(&north()).unwrap()), good);
    assert!(flipped > 150, "{flipped} bytes");
}

#[test]
fn a_reader_sees_what_is_released_and_nothing_else() {
    let place = Place::postgres();
    place.sql("create role dream_reader login");
    let store = &*place.open();
    let decoded = Slotted::new(7).decoded(1234, 90);
    put(store, &north(), Record::Outcome(decoded));
    put(store, &north(), enrolment("m-1", 7));
    let read = |sql: &str| place.server().sql("dream_reader", sql);
    let sql = "select cluster, extract(epoch from ends)::bigint * 1000, members, responders, outcome, load_watts, \
               band95_watts, estimated_watts from dream.slots";
    let closed = ClosedSlot::from(decoded);
    let (sum, estimate) = (closed.sum().unwrap(), closed.estimate().unwrap());
    let row = format!(
        "north|{}|{}|90|decoded|1234|{}|{}",
        decoded.end.as_millis(),
        decoded.members,
        sum.band95,
        estimate.watts
    );
    assert_eq!(read(sql).unwrap(), row);
    assert_eq!(read("select count(*) from dream.hours").unwrap(), "0");
    for table in ["records", "slot_entries", "shards"] {
        let refused = read(&format!("select * from dream.{table}")).unwrap_err();
        assert!(refused.contains("permission denied"), "{table}: {refused}");
    }
    assert!(read("delete from dream.slots").unwrap_err().contains("permission denied"));
}

#[test]
fn a_key_is_replaced_by_naming_a_new_one_first() {
    let place = Place::postgres();
    place.write_key("new.key", "77");
    let open = |keys: &[&str]| {
        let store = place.database(keys, "test").unwrap();
        assert_eq!(store.try_take().unwrap(), None);
        store
    };
    let store = open(&["store.key"]);
    put(&store, &north(), enrolment("m-1", 1));
    put(&store, &north(), enrolment("m-2", 1));
    store.give_back();
    let store = open(&["new.key", "store.key"]);
    put(&store, &north(), enrolment("m-1", 2));
    assert_eq!(keys(&store, &north()).len(), 2, "it is there once");
    store.commit(&[Change::Forget(north(), Forget::Enrolment(MeterId::new("m-2").unwrap()))]).unwrap();
    store.give_back();
    let store = open(&["new.key"]);
    assert_eq!(keys(&store, &north()), [Key::Enrolment(MeterId::new("m-1").unwrap())]);
    store.give_back();
    let refused = open(&["store.key"]).records(&north()).unwrap_err();
    assert!(refused.to_string().contains("`store.keys`"), "{refused}");
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_left_alone() {
    let place = Place::postgres();
    drop(place.open());
    place.sql("insert into dream.versions values (99)");
    let refused = place.database(&["store.key"], "test").unwrap_err().to_string();
    assert!(refused.contains("newer version (format 99, this one reads up to 1)"), "{refused}");
    assert_eq!(place.sql("select count(*) from dream.versions"), "2");
}

#[test]
fn a_database_is_restored_by_its_own_tools_and_by_what_the_page_says() {
    let (place, restored) = (Place::postgres(), Place::postgres());
    let store = place.open();
    put(&*store, &north(), enrolment("m-1", 7));
    put(&*store, &north(), Record::Outcome(Slotted::new(7).decoded(1234, 90)));
    put(&*store, &north(), reading(8, 3, 30));
    drop(store);
    place.sql("insert into dream.records values ('north', 'list', 'epoch 1', 'sealed')");
    place.server().dump_into(restored.server());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/backup.md");
    let page = std::fs::read_to_string(page).unwrap();
    let sql = page.split("```sql").nth(1).unwrap().split("```").next().unwrap().to_owned();
    restored.sql(&sql);
    let store = restored.open();
    let expected = [Key::Enrolment(MeterId::new("m-1").unwrap()), Key::Outcome(Slot(7))];
    assert_eq!(keys(&*store, &north()), expected, "neither a list with its key nor an open slot");
    put(&*store, &north(), reading(9, 3, 30));
}

#[test]
fn gateways_that_open_a_new_database_together_make_its_tables_once() {
    let place = &Place::postgres();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| place.database(&["store.key"], "test").unwrap());
        }
    });
    assert_eq!(place.sql("select count(*) from dream.versions"), "1");
}

/// Returns a query as Grafana sends it.
fn filled_in(query: &str) -> String {
    let time = with_time(query);
    time.replace("$clusters", "'north', 'south'").replace("$cluster", "north")
}

/// Replaces Grafana's macro for the time range.
fn with_time(query: &str) -> String {
    let mut parts = query.split("$__timeFilter(");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (column, rest) = part.split_once(')').unwrap();
        text += &format!("{column} between '2000-01-01' and '2100-01-01'{rest}");
    }
    text
}

#[test]
fn every_query_of_the_page_and_the_dashboard_gets_an_answer() {
    let place = Place::postgres();
    place.sql("create role dream_reader login");
    let store = &*place.open();
    put(store, &north(), Record::Outcome(Slotted::new(2_900_000).decoded(1234, 90)));
    let start = Timestamp::from_secs(1_794_837_600);
    let day = Rollup::new(start..start.plus_secs(86_400));
    store.commit(&[Change::PutRollup { cluster: north(), step: Step::Day, rollup: day }]).unwrap();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(project.join("docs/scale.md")).unwrap();
    let block =
        page.split("```sql").find(|block| block.contains("$__timeFilter")).unwrap().split("```").next().unwrap();
    let sql: String = block.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
    let mut queries: Vec<String> =
        sql.split(';').map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect();
    let board = std::fs::read_to_string(project.join("helm/dream-gateway/dashboards-sql/sql.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    for panel in board["panels"].as_array().unwrap() {
        queries
            .extend(panel["targets"].as_array().unwrap().iter().map(|one| one["rawSql"].as_str().unwrap().to_owned()));
    }
    queries.push(board["templating"]["list"][1]["query"].as_str().unwrap().to_owned());
    assert!(queries.len() >= 10, "{queries:?}");
    for query in queries {
        let answer =
            place.server().sql("dream_reader", &filled_in(&query)).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(!answer.is_empty(), "{query}: nothing");
    }
}

#[test]
fn a_database_is_reached_over_tls_with_a_password_and_no_other_server_is_believed() {
    let identities = Identities::default();
    let (server, folder) = Postgres::guarded(&identities);
    let place = Place { server: Some(server), ..Place::file() };
    place.write_key("store.key", "5e");
    let path = |name: &str| place.directory.path().join(name);
    std::fs::write(path("password"), format!("{PASSWORD}\n")).unwrap();
    std::fs::write(path("wrong"), "guess").unwrap();
    let open = |ca: Option<std::path::PathBuf>, password: &str| {
        let (url, keys, password_file) = (place.server().url(), vec![path("store.key")], Some(path(password)));
        PostgresStore::open(&Database { url, ca, password_file, keys, lease_seconds: 1 }, 0, "test")
    };
    let store = open(Some(folder.join("gateway-authority.pem")), "password").unwrap();
    assert_eq!(store.try_take().unwrap(), None);
    let sql = "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'dream-gateway'";
    assert_eq!(place.sql(sql), "t");
    let refused = open(Some(folder.join("meter-authority.pem")), "password").unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    let refused = open(Some(folder.join("gateway-authority.pem")), "wrong").unwrap_err().to_string();
    assert!(refused.contains("password authentication failed") && !refused.contains("guess"), "{refused}");
}
