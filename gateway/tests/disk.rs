//! A disk that takes nothing more: nothing is acknowledged until it does again, and then nothing is lost or doubled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::aggregates::{self, Slots, assert_exact_or, published};
use support::client::Message;
use support::fleet::Fleet;
use support::gateway::{Gateway, Settings};
use support::identities::Identities;
use support::mosquitto::Mosquitto;
use support::until;
use support::watcher::Watcher;

const METERS: usize = 12;

/// Outcomes of slots whose windows passed while nothing could be written.
const MISSED: &[&str] = &["interrupted", "too_many_missing", "reveal_missing"];

struct Scene {
    _broker: Mosquitto,
    gateway: Gateway,
    fleet: Fleet,
    watcher: Watcher,
}

impl Scene {
    async fn set() -> Self {
        let (identities, broker) = (Identities::default(), Mosquitto::start());
        let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
        gateway.wait_until_ready().await;
        let fleet = Fleet::start(&identities, broker.access(), "north", METERS);
        let watcher = Watcher::start(broker.access(), "watcher", &["dream/v1/north/#"]).await;
        let mut scene = Self { _broker: broker, gateway, fleet, watcher };
        scene.watcher.wait_for("a slot", |message| message.topic.ends_with("/aggregate")).await;
        scene
    }

    /// Lets the disk be full from the middle of a slot's readings until the gateway says that it is not ready.
    async fn fill_disk(&mut self, bytes: u64) {
        self.watcher.catch_up();
        let mut readings = 0;
        let some = |message: &Message| {
            readings += usize::from(message.topic.contains("/reading/"));
            readings >= METERS / 2
        };
        self.watcher.wait_for("readings", some).await;
        let errors = |gateway: &Gateway| gateway.metrics().get("dream_store_commit_errors_total", &[]).unwrap();
        let before = errors(&self.gateway);
        self.gateway.limit_files(Some(bytes));
        until("the gateway is not ready", || self.gateway.get("/readyz").status == 503).await;
        until("it tries again", || errors(&self.gateway) > before).await;
        assert_eq!(self.gateway.get("/livez").status, 200, "a full disk is mended, not restarted away");
    }

    async fn decode_more(&mut self, more: usize) -> Slots {
        aggregates::decode_more(&mut self.gateway, "north", more).await
    }

    fn assert_nothing_lost_or_doubled(&mut self, slots: &Slots) {
        let (first, last) = (*slots.keys().next().unwrap(), *slots.keys().next_back().unwrap());
        assert_eq!((first..=last).find(|slot| !slots.contains_key(slot)), None, "every slot has an outcome");
        for (slot, aggregate) in published(self.watcher.catch_up(), "north") {
            assert!(slot > last || slots.get(&slot) == Some(&aggregate), "{aggregate:?}");
        }
        assert_eq!((self.fleet.contradictions(), self.fleet.equivocations()), (0, Vec::new()));
        assert_eq!(self.fleet.lists().len(), 1);
        assert_exact_or(slots, &self.fleet, MISSED);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_disk_was_full_goes_on_where_it_was() {
    let mut scene = Scene::set().await;
    // Not a byte; the first pages and no more.
    for bytes in [0, 64 << 10] {
        scene.fill_disk(bytes).await;
        scene.gateway.limit_files(None);
        let slots = scene.decode_more(2).await;
        scene.assert_nothing_lost_or_doubled(&slots);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_with_a_full_disk_gets_again_what_it_did_not_acknowledge() {
    let mut scene = Scene::set().await;
    scene.fill_disk(0).await;
    scene.gateway.kill();
    scene.gateway.restart();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_a_full_disk_stops_when_its_time_is_over() {
    let mut scene = Scene::set().await;
    scene.fill_disk(0).await;
    for _ in 0..4 {
        scene.gateway.hang_up();
    }
    let status = scene.gateway.terminate().await;
    assert_eq!(status.code(), Some(1), "what it could not write it did not acknowledge, and it says so");
    scene.gateway.restart();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots);
}
