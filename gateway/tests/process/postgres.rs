//! Two gateways on one PostgreSQL, as processes: one serves and the other one waits, until the first is frozen, killed or replaced.

use std::sync::Arc;

use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{assert_exact_or, assert_no_gap, published};
use dream_testkit::lab::client::Message;
use dream_testkit::lab::fleet::{Fate, Fleet};
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::postgres::Postgres;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;
use dream_testkit::lab::watcher::Watcher;

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
    let expires = scene.database.sql("dream", "select owner, fence from dream.shards").unwrap();
    assert_eq!(expires, "gw-0|2");
}
