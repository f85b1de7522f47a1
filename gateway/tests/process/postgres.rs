//! Two gateways on one PostgreSQL, as processes: one serves and the other one waits, until the first is frozen, killed or replaced.

use std::process::Command;
use std::sync::Arc;

use dream_edge::cut_off::CutOff;
use dream_gateway::history::{FilteredLoad, Rollup, Step};
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::cluster::Record;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::access::Access;
use dream_testkit::lab::aggregates::{assert_exact_or, assert_no_gap, published};
use dream_testkit::lab::client::Message;
use dream_testkit::lab::fleet::{Fate, Fleet};
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::postgres::Postgres;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::outcomes::Slotted;

use crate::gateway::Gateway;

const METERS: usize = 12;

/// What the protocol loses slots for, if something happens in the middle of one.
const ALLOWED: [&str; 3] = ["interrupted", "too_many_missing", "reveal_missing"];

struct Scene {
    first: Gateway,
    second: Gateway,
    fleet: Fleet,
    watcher: Watcher,
    database: Arc<Postgres>,
    _broker: Mosquitto,
}

impl Scene {
    /// A cluster that the first gateway has decoded once, while the second waits.
    async fn set() -> Self {
        let (identities, broker, database) = (Identities::default(), Mosquitto::start(), Arc::new(Postgres::start()));
        let settings = Settings::new(broker.access()).cluster("north", METERS).on(&database);
        let mut first = Gateway::start(&identities, settings.clone());
        first.wait_until_ready().await;
        let mut second = Gateway::start(&identities, settings);
        second.wait_until_ok("/livez").await;
        let mut watcher = Watcher::start(broker.access().options("watcher"), &["dream/v1/north/#"]).await;
        let fleet = Fleet::with_faults(&identities, broker.access(), "north", METERS, |outgoing| {
            let lost = outgoing.channel == MeterChannel::Reading && outgoing.meter == 5;
            if lost { Fate::Lost } else { Fate::Sent }
        });
        watcher.wait_for("a slot", |message| message.topic.ends_with("/aggregate")).await;
        assert_eq!(second.get("/readyz").status, 503);
        Self { first, second, fleet, watcher, database, _broker: broker }
    }

    /// Waits until so many messages come on topics that contain this.
    async fn seen(&mut self, count: usize, topic: &str) {
        self.watcher.seen();
        let mut seen = 0;
        let enough = |message: &Message| {
            seen += usize::from(message.topic.contains(topic));
            seen >= count
        };
        self.watcher.wait_for(topic, enough).await;
    }

    /// The second gateway has every slot once, each exact or lost for an allowed reason; it said the same, and no meter was asked twice
    /// for one attempt. Hours have what slots have.
    async fn assert_nothing_lost_or_doubled(&mut self) {
        let slots = self.second.decode_more("north", 1).await;
        assert_no_gap(&slots);
        let last = *slots.keys().next_back().unwrap();
        for (slot, aggregate) in published(self.watcher.seen(), "north") {
            assert!(slot > last || slots.get(&slot) == Some(&aggregate), "{aggregate:?}");
        }
        assert_eq!(self.fleet.contradictions(), 0, "a request is the same bytes whoever repeats it");
        assert_eq!(self.fleet.equivocations(), Vec::new());
        let decoded = assert_exact_or(&slots, &self.fleet, &ALLOWED);
        assert!(decoded >= 2, "{slots:?}");
        let counted = "select (select count(*) from dream.slots) = (select sum(slots) from dream.hours), \
                       (select count(load_watts) from dream.slots) = (select sum(decoded) from dream.hours)";
        assert_eq!(self.database.sql("dream", counted).unwrap(), "t|t");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_frozen_for_longer_than_its_lease_is_mute_when_it_goes_on() {
    let mut scene = Scene::set().await;
    scene.seen(4, "/reading/").await;
    scene.first.signal("STOP");
    scene.second.wait_until_ready().await;
    scene.seen(4, "/reading/").await;
    scene.first.signal("CONT");
    until("the first one ends", || !scene.first.is_running()).await;
    assert!(scene.first.printed().contains("another gateway has taken over"), "{}", scene.first.printed());
    scene.assert_nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_owner_is_followed_and_a_killed_database_waited_for() {
    let mut scene = Scene::set().await;
    scene.seen(1, "/recovery").await;
    scene.first.kill();
    scene.second.wait_until_ready().await;
    scene.seen(4, "/reading/").await;
    scene.database.kill();
    scene.seen(4, "/reading/").await;
    scene.database.restart();
    scene.assert_nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_stops_in_the_middle_of_a_slot_hands_it_over() {
    let mut scene = Scene::set().await;
    scene.seen(6, "/reading/").await;
    assert!(scene.first.stop().success());
    scene.second.wait_until_ready().await;
    scene.assert_nothing_lost_or_doubled().await;
    let owner = scene.database.sql("dream", "select owner, fence from dream.shards").unwrap();
    assert_eq!(owner, "gw-0|2");
}

/// Runs the program with a gateway's configuration; returns what it printed, and how it ended.
fn run(gateway: &Gateway, command: &str, more: &[&str]) -> String {
    let config = gateway.file("gateway.toml");
    let program = env!("CARGO_BIN_EXE_dream-gateway");
    let done = Command::new(program).arg(command).arg("--config").arg(config).args(more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{}{}{}", text(done.stdout), text(done.stderr), done.status.code().unwrap())
}

#[test]
fn a_file_is_imported_once_and_exported_as_before() {
    let (identities, database) = (Identities::default(), Arc::new(Postgres::start()));
    let mut gateway = Gateway::prepare(&identities, Settings::new(&Access::open(1)).cluster("north", METERS));
    let north = ClusterId::new("north").unwrap();
    let file = FileStore::open(&gateway.file("gateway.redb"), 4).unwrap();
    let mut changes = Vec::new();
    for slot in 1..=20 {
        let outcome = Slotted::new(slot).decoded(1000 + i64::try_from(slot).unwrap(), 90);
        let (cluster, end, filtered) = (north.clone(), outcome.end, FilteredLoad { watts: 7, band95: 3 });
        changes.push(Change::Put(north.clone(), Record::Outcome(outcome)));
        changes.push(Change::PutFiltered { cluster: cluster.clone(), end, filtered });
        changes.push(Change::PutSmoothed { cluster: cluster.clone(), end, smoothed: filtered });
        let cut_off = CutOff { share: 20_000, lasting: 300, daily: 400, passing: 500 };
        changes.push(Change::PutCutOff { cluster: cluster.clone(), end, cut_off });
        let mut rollup = Rollup::new(outcome.start..outcome.end);
        rollup.add(&outcome.into());
        changes.extend([Step::Hour, Step::Day].map(|step| Change::PutRollup {
            cluster: cluster.clone(),
            step,
            rollup,
        }));
    }
    let meter = MeterId::new("m-1").unwrap();
    changes.push(Change::Put(north.clone(), Record::Enrolment { meter, bytes: Arc::new([7; 9]) }));
    file.commit(&changes).unwrap();
    drop(file);
    let steps = ["slot", "hour", "day"];
    let before = steps.map(|step| run(&gateway, "export", &["--step", step]));
    gateway.settings = gateway.settings.clone().on(&database);
    gateway.write_settings();
    let path = gateway.file("gateway.redb").display().to_string();
    assert_eq!(run(&gateway, "import", &[&path]), format!("north: {} rows\n0", changes.len()));
    assert_eq!(run(&gateway, "import", &[&path]), "north: left as it is: the database has it already\n0");
    assert_eq!(steps.map(|step| run(&gateway, "export", &["--step", step])), before);
    assert_eq!(database.sql("dream", "select count(*) from dream.records").unwrap(), "1");
    let checked = run(&gateway, "check-config", &[]);
    assert!(checked.contains("  store     postgres://dream@127.0.0.1:"), "{checked}");
    assert!(
        checked.contains("      WARNING: `fsync` is off: a crash of the server may damage the database\n"),
        "{checked}"
    );
    database.kill();
    let refused = run(&gateway, "check-config", &[]);
    assert!(refused.contains("store.url: the database postgres://") && refused.ends_with('2'), "{refused}");
}
