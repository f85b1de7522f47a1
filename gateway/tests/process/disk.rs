//! A disk that takes nothing more: nothing is acknowledged until it does again, and then nothing is lost or doubled.

use dream_testkit::lab::aggregates::{Slots, assert_exact_or, assert_no_gap, published};
use dream_testkit::lab::client::Message;
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;
use dream_testkit::lab::watcher::Watcher;

use crate::gateway::Gateway;

const METERS: usize = 12;

/// Outcomes of slots whose windows passed while nothing could be written.
const MISSED: &[&str] = &["interrupted", "too_many_missing", "reveal_missing"];

struct Scene {
    gateway: Gateway,
    fleet: Fleet,
    watcher: Watcher,
    _broker: Mosquitto,
}

impl Scene {
    async fn set() -> Self {
        let (identities, broker) = (Identities::default(), Mosquitto::start());
        let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
        gateway.wait_until_ready().await;
        let fleet = Fleet::start(&identities, broker.access(), "north", METERS);
        let watcher = Watcher::start(broker.access().options("watcher"), &["dream/v1/north/#"]).await;
        let mut scene = Self { _broker: broker, gateway, fleet, watcher };
        scene.watcher.wait_for("a slot", |message| message.topic.ends_with("/aggregate")).await;
        scene
    }

    /// Lets the disk be full from the middle of a slot's readings until the gateway says that it is not ready.
    async fn fill_disk(&mut self, bytes: u64) {
        self.watcher.seen();
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
        self.gateway.decode_more("north", more).await
    }

    fn assert_nothing_lost_or_doubled(&mut self, slots: &Slots) {
        assert_no_gap(slots);
        let last = *slots.keys().next_back().unwrap();
        for (slot, aggregate) in published(self.watcher.seen(), "north") {
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
    scene.gateway.start();
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
    let status = scene.gateway.stop();
    assert_eq!(status.code(), Some(1), "what it could not write it did not acknowledge, and it says so");
    scene.gateway.start();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_deleted_is_noticed_and_can_be_put_back_as_the_gateway_says() {
    let mut scene = Scene::set().await;
    let (path, open) = (scene.gateway.file("gateway.redb"), format!("/proc/{}/fd", scene.gateway.id().unwrap()));
    std::fs::remove_file(&path).unwrap();
    until("the gateway is not ready", || scene.gateway.get("/readyz").status == 503).await;
    let page = scene.gateway.get("/gateway").text().to_owned();
    assert!(page.contains("was removed or replaced under the running gateway") && page.contains(&open), "{page}");

    let mut handles = std::fs::read_dir(open).unwrap().map(|handle| handle.unwrap().path());
    let deleted = handles.find(|handle| {
        std::fs::read_link(handle).is_ok_and(|file| file.to_string_lossy().ends_with("gateway.redb (deleted)"))
    });
    std::fs::copy(deleted.expect("it was not closed"), &path).unwrap();
    assert_eq!(scene.gateway.get("/readyz").status, 503, "it is another file");
    scene.gateway.kill();
    scene.gateway.start();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots);
}
