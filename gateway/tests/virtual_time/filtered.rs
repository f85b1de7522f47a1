//! The filtered load: kept with its slot, never computed again, and continued after a restart from the sums of two weeks;
//! and what the filter says of a slot an hour later.

use std::collections::HashMap;
use std::path::PathBuf;

use dream_gateway::clock::Zone;
use dream_gateway::config::secrets::GatewayIdentity;
use dream_gateway::config::{Config, Overrides};
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::engine::served::{NEVER, ServedCluster, profiles, resume_all};
use dream_gateway::history::{ClosedSlot, FilteredLoad, History};
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::outcomes::Slotted;
use redb::{ReadableDatabase, ReadableTableMetadata, TableDefinition, TableHandle};
use tempfile::TempDir;

use crate::world::World;

/// As the store names and types it.
const FILTERED: TableDefinition<'_, (&str, u64), (i64, u64)> = TableDefinition::new("filtered");
const SMOOTHED: TableDefinition<'_, (&str, u64), (i64, u64)> = TableDefinition::new("smoothed");

/// When these tests take place: 2026-11-16T14:00:00Z.
pub const NOW: Timestamp = Timestamp::from_secs(1_794_837_600);

/// A cluster with its store, as a gateway has them, and nothing else of a gateway.
pub struct Scene {
    directory: TempDir,
    pub config: Config,
    identity: GatewayIdentity,
}

impl Scene {
    pub fn set() -> Self {
        Self::of(&World::settings().cluster("north", 6).toml(1))
    }

    fn of(toml: &str) -> Self {
        let directory = TempDir::new().unwrap();
        Identities::default().write_gateway(directory.path(), GATEWAY);
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, toml).unwrap();
        let config = Config::load(&path, &Overrides::default()).unwrap();
        let identity = GatewayIdentity::load(&config.identity, &config.id, NOW).unwrap();
        Self { directory, config, identity }
    }

    pub fn store_path(&self) -> PathBuf {
        self.directory.path().join("gateway.redb")
    }

    /// Starts a gateway on what is there.
    pub fn start(&self) -> Life {
        let store = FileStore::open(&self.store_path(), 4).unwrap();
        let served = self.serve(&store, None);
        Life { store, served }
    }

    /// Serves all clusters, as the driver does when it starts, or when its configuration is read again.
    fn serve_all(&self, store: &FileStore, before: &HashMap<ClusterId, ServedCluster>) -> Vec<ServedCluster> {
        let all: Vec<_> = self.config.owned().filter(|(id, _)| !before.contains_key(*id)).collect();
        let mut served = resume_all(&all, &self.identity, 1, &self.config.time_zone, store, before, NOW).unwrap();
        served.sort_by(|a, b| a.id.cmp(&b.id));
        served
    }

    pub fn serve(&self, store: &FileStore, before: Option<&ServedCluster>) -> ServedCluster {
        let (id, settings) = self.config.owned().next().unwrap();
        ServedCluster::resume(id, settings, &self.identity, 1, &self.config.time_zone, store, before, NOW).unwrap()
    }
}

/// From one start to the next.
pub struct Life {
    pub store: FileStore,
    pub served: ServedCluster,
}

impl Life {
    /// Closes slots, as the driver does.
    pub fn close(&mut self, outcomes: &[SlotOutcome]) -> Vec<Option<FilteredLoad>> {
        let mut closed = Vec::new();
        for outcome in outcomes {
            let mut changes = vec![Change::Put(north(), Record::Outcome(*outcome))];
            closed.push(self.served.note_closed(*outcome, &mut changes).filtered);
            self.store.commit(&changes).unwrap();
        }
        closed
    }

    fn kept(&self) -> Vec<ClosedSlot> {
        self.store.slots(&north(), Timestamp::from_millis(0)..NEVER, usize::MAX).unwrap()
    }

    fn kept_late_loads(&self) -> Vec<Option<FilteredLoad>> {
        self.kept().iter().map(|kept| kept.smoothed).collect()
    }

    fn kept_loads(&self) -> Vec<Option<FilteredLoad>> {
        self.kept().iter().map(|kept| kept.filtered).collect()
    }
}

fn expiry(slots: Timestamp) -> Change {
    Change::Expire { slots, hours: Timestamp::from_millis(0) }
}

pub fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

/// Slots until now, one after the other: loads that move, silent meters, and every thirtieth failed.
pub fn past(count: u64) -> Vec<SlotOutcome> {
    let first = NOW.as_secs() / 600 - count;
    let slot = |at: u64| {
        let (slotted, number) = (Slotted::new(first + at), i64::try_from(at).unwrap());
        match at % 30 {
            17 => slotted.failed("reveal_missing", 95),
            _ => slotted.decoded(40_000 + 7919 * number % 20_011, 100 - u16::try_from(at % 7).unwrap()),
        }
    };
    (0..count).map(slot).collect()
}

#[test]
fn restarts_change_no_filtered_load_neither_of_before_nor_of_after() {
    let outcomes = past(300);
    let scene = Scene::set();
    let mut life = scene.start();
    let unbroken = life.close(&outcomes);
    let late = life.kept_late_loads();
    assert!(unbroken.iter().zip(&outcomes).all(|(load, outcome)| load.is_some() == outcome.result.is_ok()));

    let scene = Scene::set();
    let closed: Vec<_> = outcomes.chunks(37).flat_map(|some| scene.start().close(some)).collect();
    assert_eq!(closed, unbroken);
    let mut again = scene.start();
    assert_eq!(again.kept_loads(), unbroken);
    assert_eq!(again.kept_late_loads(), late);
    let shown = again.served.take_view(NOW).unwrap();
    assert_eq!(shown.last_decoded.unwrap().filtered, *unbroken.last().unwrap());
}

#[test]
fn an_hour_later_the_load_of_a_slot_is_told_again() {
    let outcomes = past(200);
    let scene = Scene::set();
    let mut life = scene.start();
    let closed = life.close(&outcomes);
    let late = life.kept_late_loads();
    let last = outcomes.last().unwrap().end;
    for ((outcome, closed), late) in outcomes.iter().zip(&closed).zip(&late) {
        let is_final = outcome.end.plus_secs(3600) <= last;
        assert_eq!(late.is_some(), closed.is_some() && is_final, "{outcome:?}");
    }
    let band = |loads: &[Option<FilteredLoad>]| loads.iter().flatten().map(|load| load.band95).sum::<u64>();
    let (early, late) = (band(&closed[100..190]), band(&late[100..190]));
    assert!(100 * late < 97 * early, "the hour tells something: {late} {early}");
}

#[test]
fn a_store_without_late_loads_can_be_read_and_gets_them_from_then_on() {
    let outcomes = past(60);
    let scene = Scene::set();
    scene.start().close(&outcomes[..40]);
    let database = redb::Database::open(scene.store_path()).unwrap();
    let write = database.begin_write().unwrap();
    assert!(write.delete_table(SMOOTHED).unwrap());
    write.commit().unwrap();
    drop(database);
    let store = FileStore::open_existing(&scene.store_path()).unwrap();
    let kept = store.slots(&north(), Timestamp::from_millis(0)..NEVER, usize::MAX).unwrap();
    assert!(kept.len() == 40 && kept.iter().all(|kept| kept.smoothed.is_none()));
    drop(store);
    let mut life = scene.start();
    life.close(&outcomes[40..]);
    let late = life.kept_late_loads();
    assert!(late[..33].iter().all(Option::is_none), "what was said is not said again");
    assert!(late[41..54].iter().zip(&outcomes[41..54]).all(|(late, of)| late.is_some() == of.result.is_ok()));
}

#[test]
fn the_filter_goes_by_the_clocks_of_the_time_zone_also_after_a_restart() {
    let outcomes = past(1000);
    let toml = World::settings().cluster("north", 6).toml(1);
    let scene = Scene::of(&format!("time_zone = \"Pacific/Auckland\"\n{toml}"));
    let closed: Vec<_> = outcomes.chunks(400).flat_map(|some| scene.start().close(some)).collect();
    let by = |zone: &Zone| {
        let mut filter = ClusterFilter::new(zone, &[]);
        outcomes.iter().map(|outcome| filter.observe(outcome)).collect::<Vec<_>>()
    };
    assert_eq!(closed, by(&Zone::named("Pacific/Auckland").unwrap()));
    assert_ne!(closed, by(&Zone::default()));
}

#[test]
fn a_new_cluster_begins_with_what_the_others_learned_and_an_older_one_stays_as_it_was() {
    let (north, south) = (north(), ClusterId::new("south").unwrap());
    let scene = Scene::of(&World::settings().cluster("north", 6).cluster("south", 6).toml(1));
    let outcomes = past(9 * 144);
    let (learned, today) = outcomes.split_at(8 * 144);
    let keep = |store: &FileStore, cluster: &ClusterId, outcomes: &[SlotOutcome], others: &ClusterFilter| {
        let (mut filter, mut changes) = (others.clone(), Vec::new());
        for outcome in outcomes {
            changes.push(Change::Put(cluster.clone(), Record::Outcome(*outcome)));
            filter.close(cluster, *outcome, &mut changes);
        }
        store.commit(&changes).unwrap();
    };
    let store = FileStore::open(&scene.store_path(), 4).unwrap();
    let nothing = ClusterFilter::new(&scene.config.time_zone, &[]);
    keep(&store, &north, learned, &nothing);
    let mut served = scene.serve_all(&store, &HashMap::new());
    let of_north = profiles(served.iter());
    assert_eq!(of_north.len(), 1, "south has no days yet");
    let primed = ClusterFilter::new(&scene.config.time_zone, &of_north);
    let first = |mut filter: ClusterFilter| filter.observe(&today[0]).unwrap();
    assert_ne!(first(primed.clone()), first(nothing.clone()));
    let mut changes = Vec::new();
    assert_eq!(served[1].note_closed(today[0], &mut changes).filtered, Some(first(primed.clone())));

    // It comes with a new configuration, while the other goes on.
    let before = HashMap::from([(north.clone(), served.swap_remove(0))]);
    let mut added = scene.serve_all(&store, &before);
    assert_eq!(added[0].note_closed(today[0], &mut changes).filtered, Some(first(primed.clone())));

    // After a day it begins once more with what north knows, and sees its own day again.
    keep(&store, &south, &today[..143], &primed);
    let mut again = scene.serve_all(&store, &HashMap::new());
    let mut expected = primed;
    for outcome in &today[..143] {
        expected.observe(outcome);
    }
    let last = today[143];
    assert_eq!(again[1].note_closed(last, &mut changes).filtered, expected.observe(&last));
    // North has eight days of its own, and owes nothing to others.
    let mut alone = nothing;
    for outcome in learned {
        alone.observe(outcome);
    }
    assert_eq!(again[0].note_closed(last, &mut changes).filtered, alone.observe(&last));
}

#[test]
fn a_cluster_without_sums_still_begins_with_what_others_learn_later_and_one_with_sums_does_not() {
    let zone = Zone::default();
    let outcomes = past(8 * 144 + 2);
    let (learned, next) = outcomes.split_at(8 * 144);
    let mut other = ClusterFilter::new(&zone, &[]);
    for outcome in learned {
        other.observe(outcome);
    }
    let profiles = [other.profile().unwrap()];
    let (mut waiting, mut begun) = (ClusterFilter::new(&zone, &[]), ClusterFilter::new(&zone, &[]));
    begun.observe(&next[0]);
    let mut as_it_was = begun.clone();
    assert!(!waiting.has_begun() && begun.has_begun() && begun.is_new() && !other.is_new());
    waiting.begin_with(&profiles);
    begun.begin_with(&profiles);
    assert_eq!(waiting.observe(&next[1]), ClusterFilter::new(&zone, &profiles).observe(&next[1]));
    assert_eq!(begun.observe(&next[1]), as_it_was.observe(&next[1]));
}

#[test]
fn a_slot_that_closes_after_a_later_one_has_none_and_disturbs_no_other() {
    let outcomes = past(10);
    let straight: Vec<_> = Scene::set().start().close(&[&outcomes[..4], &outcomes[5..]].concat());
    let scene = Scene::set();
    let late = [&outcomes[..4], &outcomes[5..8], &outcomes[4..5], &outcomes[8..]].concat();
    let closed = scene.start().close(&late);
    assert_eq!(closed[7], None);
    assert_eq!([&closed[..7], &closed[8..]].concat(), straight);
    assert_eq!(scene.start().kept_loads(), [&straight[..4], &[None], &straight[4..]].concat());
}

#[test]
fn a_restart_does_not_make_up_for_a_slot_that_closed_too_late() {
    let outcomes = past(40);
    let straight: Vec<_> = Scene::set().start().close(&[&outcomes[..4], &outcomes[5..]].concat());
    let scene = Scene::set();
    scene.start().close(&[&outcomes[..4], &outcomes[5..8], &outcomes[4..5]].concat());
    assert_eq!(scene.start().close(&outcomes[8..]), straight[7..]);
}

#[test]
fn a_new_configuration_leaves_the_filter_as_it_was_and_looks_at_no_slot_again() {
    let outcomes = past(200);
    let unbroken = Scene::set().start().close(&outcomes);
    let scene = Scene::set();
    let mut life = scene.start();
    life.close(&outcomes[..150]);
    life.store.commit(&[expiry(NEVER)]).unwrap();
    let since = life.served.since;
    life.served = scene.serve(&life.store, Some(&life.served));
    assert_eq!(life.close(&outcomes[150..]), unbroken[150..]);
    assert_eq!(life.served.since, since);
}

#[test]
fn a_filtered_load_whose_slot_is_gone_is_ignored_and_expires() {
    let outcomes = past(20);
    let scene = Scene::set();
    let mut life = scene.start();
    life.close(&outcomes[..10]);
    let lost = FilteredLoad { watts: 1_000_000, band95: 1 };
    life.store.commit(&[Change::PutFiltered { cluster: north(), end: outcomes[12].end, filtered: lost }]).unwrap();
    assert_eq!(life.kept().len(), 10);
    drop(life);
    let mut life = scene.start();
    assert_eq!(
        life.close(&outcomes[14..]),
        Scene::set().start().close(&[&outcomes[..10], &outcomes[14..]].concat())[10..]
    );
    life.store.commit(&[expiry(outcomes[14].end)]).unwrap();
    let kept = life.kept().iter().filter(|closed| closed.filtered.or(closed.predicted).is_some()).count();
    drop(life);
    let database = redb::Database::open(scene.store_path()).unwrap();
    let rows = database.begin_read().unwrap().open_table(FILTERED).unwrap().len().unwrap();
    assert_eq!(rows, u64::try_from(kept).unwrap());
}

#[test]
fn a_store_without_filtered_loads_opens_and_the_filter_learns_from_it() {
    let outcomes = past(200);
    let unbroken = Scene::set().start().close(&outcomes);
    let scene = Scene::set();
    scene.start().close(&outcomes[..150]);
    let database = redb::Database::open(scene.store_path()).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(FILTERED).unwrap().retain(|_, _| false).unwrap();
    write.commit().unwrap();
    drop(database);

    let mut life = scene.start();
    assert_eq!(life.kept_loads(), vec![None; 150]);
    assert_eq!(life.close(&outcomes[150..]), unbroken[150..]);
    assert_eq!(life.kept_loads(), [&[None; 150], &unbroken[150..]].concat());
}

#[test]
fn filtered_loads_expire_with_their_slots() {
    let outcomes = past(100);
    let scene = Scene::set();
    let mut life = scene.start();
    let closed = life.close(&outcomes);
    life.store.commit(&[expiry(outcomes[60].end)]).unwrap();
    assert_eq!(life.kept_loads(), closed[60..]);
    drop(life);
    let database = redb::Database::open(scene.store_path()).unwrap();
    let read = database.begin_read().unwrap();
    assert!(read.list_tables().unwrap().any(|table| table.name() == FILTERED.name()));
    let rows = |table| read.open_table(table).unwrap().len().unwrap();
    let filtered = u64::try_from(closed[60..].iter().flatten().count()).unwrap();
    // Slots that gave no sum have what was expected of them. Late loads of the last hour are not final.
    let failed = outcomes[60..].iter().filter(|outcome| outcome.result.is_err()).count() as u64;
    assert_eq!((rows(FILTERED), rows(SMOOTHED)), (filtered + failed, filtered - 6));
}

#[test]
fn a_cluster_that_was_away_for_long_starts_anew() {
    let old: Vec<_> = (0..50).map(|at| Slotted::new(1_000_000 + at).decoded(900_000, 95)).collect();
    let now = past(5);
    let scene = Scene::set();
    scene.start().close(&old);
    assert_eq!(scene.start().close(&now), Scene::set().start().close(&now));
}
