//! The process and the broker killed, over a real Mosquitto. Every single step is gone through in virtual time; this shows
//! that a real process, disk and broker keep to the same order.

use std::time::Duration;

use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{Slots, assert_exact_or, assert_no_gap, published};
use dream_testkit::lab::client::Message;
use dream_testkit::lab::fleet::{Fate, Fleet};
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;
use dream_testkit::lab::watcher::Watcher;

use crate::gateway::Gateway;

const METERS: usize = 12;
const STATUS: &str = "dream/v1/gateway/gw-0/status";

/// A broker, a gateway with a cluster that has been decoded once, its meters, one of them silent, and a watcher.
struct Scene {
    gateway: Gateway,
    fleet: Fleet,
    watcher: Watcher,
    broker: Mosquitto,
}

impl Scene {
    async fn set() -> Self {
        let (identities, broker) = (Identities::default(), Mosquitto::start());
        let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
        gateway.wait_until_ready().await;
        let mut watcher = Watcher::start(broker.access().options("watcher"), &["dream/v1/north/#", STATUS]).await;
        let fleet = Fleet::with_faults(&identities, broker.access(), "north", METERS, |outgoing| {
            let lost = outgoing.channel == MeterChannel::Reading && outgoing.meter == 5;
            if lost { Fate::Lost } else { Fate::Sent }
        });
        watcher.wait_for("a slot", |message| message.topic.ends_with("/aggregate")).await;
        Self { gateway, fleet, watcher, broker }
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

    /// Every slot has one outcome, the same everywhere: the exact sum, or an allowed failure. Returns how many were decoded.
    fn assert_nothing_lost_or_doubled(&mut self, slots: &Slots, allowed: &[&str]) -> usize {
        assert_no_gap(slots);
        let last = *slots.keys().next_back().unwrap();
        for (slot, aggregate) in published(self.watcher.seen(), "north") {
            assert!(slot > last || slots.get(&slot) == Some(&aggregate), "{aggregate:?}");
        }
        assert_eq!(self.fleet.contradictions(), 0, "a request is the same bytes after a restart");
        assert_eq!(self.fleet.equivocations(), Vec::new());
        assert_exact_or(slots, &self.fleet, allowed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_while_readings_requests_and_reveals_are_under_way_loses_nothing() {
    let mut scene = Scene::set().await;
    for (count, topic) in [(6, "/reading/"), (1, "/recovery"), (6, "/reveal/")] {
        scene.seen(count, topic).await;
        // Before, within or after the commit, and before or after what follows from it.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..30))).await;
        scene.gateway.kill();
        scene.gateway.start();
        scene.gateway.wait_until_ready().await;
    }
    let slots = scene.gateway.decode_more("north", 1).await;
    let decoded = scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert!(decoded >= 2, "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_killed_while_reveals_are_under_way_loses_nothing() {
    let mut scene = Scene::set().await;
    scene.seen(4, "/reveal/").await;
    scene.broker.kill();
    scene.broker.restart();
    let slots = scene.gateway.decode_more("north", 1).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert_eq!(scene.gateway.metrics().get("dream_broker_connected", &[]), Some(1.0));
    assert_eq!(scene.fleet.lists().len(), 1, "the list outlived the broker");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_is_offline_by_its_last_will_and_one_that_stops_says_so_itself() {
    let mut scene = Scene::set().await;
    scene.gateway.kill();
    let offline = |message: &Message| message.topic == STATUS && message.payload == b"offline";
    scene.watcher.wait_for("the last will", offline).await;
    let slot = *published(scene.watcher.seen(), "north").keys().next_back().unwrap();
    until("the meters go on without it", || !scene.fleet.reported(Slot(slot + 1)).is_empty()).await;

    scene.gateway.start();
    scene.watcher.wait_for("its return", |message| message.topic == STATUS && message.payload == b"online").await;
    scene.gateway.wait_until_ready().await;
    let before = scene.gateway.slots("north");
    let status = scene.gateway.stop();
    assert!(status.success(), "{status}");
    scene.watcher.wait_for("its farewell", offline).await;
    let mut late = Watcher::start(scene.broker.access().options("late"), &[STATUS]).await;
    let kept = late.next().await;
    assert_eq!((kept.payload.as_slice(), kept.retained), (b"offline".as_slice(), true));
    let stored: Vec<u64> = scene.gateway.export("north").iter().map(|slot| slot["slot"].as_u64().unwrap()).collect();
    assert!(before.keys().all(|slot| stored.contains(slot)), "{before:?}, {stored:?}");
}
