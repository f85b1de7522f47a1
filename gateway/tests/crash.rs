//! The daemon and the broker killed at every step, over a real Mosquitto: nothing is lost, nothing is said twice.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use dream_protocol::meter::Notice;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use support::aggregates::{self, Aggregate, Slots, assert_exact, assert_exact_or, published, served};
use support::client::Message;
use support::fleet::{Fate, Fleet, Outgoing};
use support::gateway::{Gateway, Settings};
use support::identities::Identities;
use support::metrics::Samples;
use support::mosquitto::Mosquitto;
use support::until;
use support::watcher::Watcher;

const METERS: usize = 12;
/// Everything that travels in the cluster.
const TRAFFIC: &[&str] = &["dream/v1/north/#", "dream/v1/gateway/+/status"];

/// When to strike: as soon as so many messages of a kind were seen.
#[derive(Debug, Clone, Copy)]
enum Step {
    Readings(usize),
    /// Requests and retries.
    Requests(usize),
    Reveals(usize),
    Aggregate,
}

impl Step {
    const ALL: [Self; 10] = [
        Self::Readings(1),
        Self::Requests(1),
        Self::Reveals(1),
        Self::Aggregate,
        Self::Readings(6),
        Self::Reveals(6),
        Self::Readings(10),
        Self::Reveals(10),
        Self::Requests(1),
        Self::Aggregate,
    ];

    async fn come(self, watcher: &mut Watcher) {
        watcher.catch_up();
        let (topic, count) = match self {
            Self::Readings(count) => ("/reading/", count),
            Self::Requests(count) => ("/recovery", count),
            Self::Reveals(count) => ("/reveal/", count),
            Self::Aggregate => ("/aggregate", 1),
        };
        let mut seen = 0;
        let enough = |message: &Message| {
            seen += usize::from(message.topic.contains(topic));
            seen >= count
        };
        watcher.wait_for(&format!("{self:?}"), enough).await;
    }
}

/// A broker, a gateway with a cluster that has been decoded once, its meters, one of them silent, and a watcher.
struct Scene {
    identities: Identities,
    broker: Mosquitto,
    gateway: Gateway,
    fleet: Fleet,
    watcher: Watcher,
}

impl Scene {
    async fn set() -> Self {
        Self::with_faults(|_| Fate::Sent).await
    }

    /// With what else may happen to the other meters.
    async fn with_faults(mut fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static) -> Self {
        let (identities, broker) = (Identities::default(), Mosquitto::start());
        let settings = Settings::new(broker.access()).cluster("north", METERS);
        let mut gateway = Gateway::start(&identities, settings);
        gateway.wait_until_ready().await;
        let mut watcher = Watcher::start(broker.access(), "watcher", TRAFFIC).await;
        let fleet = Fleet::with_faults(&identities, broker.access(), "north", METERS, move |outgoing| {
            let lost = outgoing.channel == MeterChannel::Reading && outgoing.meter == 5;
            if lost { Fate::Lost } else { fate(outgoing) }
        });
        Step::Aggregate.come(&mut watcher).await;
        Self { identities, broker, gateway, fleet, watcher }
    }

    /// Waits until so many slots more are decoded, and returns all there are.
    async fn decode_more(&mut self, more: usize) -> Slots {
        aggregates::decode_more(&mut self.gateway, "north", more).await
    }

    /// Every slot has one outcome, the same everywhere: the exact sum, or an allowed failure. Says how many were decoded.
    fn assert_nothing_lost_or_doubled(&mut self, slots: &Slots, allowed: &[&str]) -> usize {
        let (first, last) = (slots.values().next().unwrap(), slots.values().next_back().unwrap());
        let gap = (first.slot..=last.slot).find(|slot| !slots.contains_key(slot));
        assert_eq!(gap, None, "every slot of a list in force has an outcome");
        for (slot, aggregate) in published(self.watcher.catch_up(), "north") {
            // What an earlier gateway published is not in this one's store.
            let elsewhere = slot > last.slot || aggregate.epoch < first.epoch;
            assert!(elsewhere || slots.get(&slot) == Some(&aggregate), "{aggregate:?}");
        }
        assert_eq!(self.fleet.contradictions(), 0, "a request is the same bytes after a restart");
        assert_eq!(self.fleet.equivocations(), Vec::new());
        assert_exact_or(slots, &self.fleet, allowed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_at_any_step_of_a_slot_loses_nothing_and_repeats_itself_to_the_byte() {
    let mut scene = Scene::set().await;
    for step in Step::ALL {
        step.come(&mut scene.watcher).await;
        // Before, within or after the commit, and before or after what follows from it.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..30))).await;
        scene.gateway.kill();
        scene.gateway.restart();
        scene.gateway.wait_until_ready().await;
    }
    let slots = scene.decode_more(2).await;
    let decoded = scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
    assert!(decoded > Step::ALL.len() / 2, "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_while_it_tries_a_slot_again_repeats_itself_too() {
    let mut scene = Scene::with_faults(|outgoing| {
        let lost = outgoing.channel == MeterChannel::Reveal && outgoing.meter == 3 && outgoing.attempt == 0;
        if lost { Fate::Lost } else { Fate::Sent }
    })
    .await;
    for step in [Step::Requests(2), Step::Requests(3), Step::Requests(4), Step::Readings(15), Step::Reveals(15)] {
        step.come(&mut scene.watcher).await;
        scene.gateway.kill();
        scene.gateway.restart();
        scene.gateway.wait_until_ready().await;
    }
    let slots = scene.decode_more(2).await;
    let decoded = scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert!(slots.values().filter(|aggregate| aggregate.attempts == 2).count() >= 3, "{slots:?}");
    assert!(decoded >= 3, "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_down_for_whole_slots_calls_them_interrupted() {
    let mut scene = Scene::set().await;
    Step::Readings(3).come(&mut scene.watcher).await;
    scene.gateway.kill();
    tokio::time::sleep(Duration::from_secs(20)).await;
    scene.gateway.restart();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
    assert!(slots.values().any(|aggregate| aggregate.outcome == "interrupted"), "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_was_frozen_for_whole_slots_goes_on() {
    let mut scene = Scene::set().await;
    Step::Requests(1).come(&mut scene.watcher).await;
    scene.gateway.freeze();
    tokio::time::sleep(Duration::from_secs(20)).await;
    scene.gateway.thaw();
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_killed_at_any_step_of_a_slot_loses_nothing() {
    let mut scene = Scene::set().await;
    for step in [Step::Readings(4), Step::Requests(1), Step::Reveals(4), Step::Aggregate] {
        step.come(&mut scene.watcher).await;
        scene.broker.kill();
        scene.broker.restart();
        scene.decode_more(1).await;
    }
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert_eq!(scene.gateway.metrics().get("dream_broker_connected", &[]), Some(1.0));
    assert_eq!(scene.fleet.lists().len(), 1, "the list outlived the broker");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_an_empty_store_takes_over_with_the_next_epoch() {
    let mut scene = Scene::set().await;
    scene.gateway.kill();
    let settings = scene.gateway.settings.clone();
    scene.gateway = Gateway::start(&scene.identities, settings);
    let list = scene.fleet.list(2).await;
    assert_eq!((list.epoch(), list.members().len()), (2, METERS));
    let slots = scene.decode_more(2).await;
    assert!(slots.values().all(|aggregate| aggregate.epoch == 2), "{slots:?}");
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_of_one_name_throw_each_other_out_and_whoever_stays_serves_on() {
    let mut scene = Scene::set().await;
    let second = Gateway::start(&scene.identities, scene.gateway.settings.clone());
    let thrown_out = |gateway: &Gateway| {
        let samples = gateway.try_get("/metrics").map(|response| Samples::parse(&response.body));
        samples.map_or(0.0, |samples| samples.sum("dream_broker_troubles_total", &[("cause", "closed")]))
    };
    until("both were thrown out twice", || [&scene.gateway, &second].iter().all(|one| thrown_out(one) >= 2.0)).await;
    scene.gateway.kill();
    scene.gateway = second;
    let slots = scene.decode_more(2).await;

    assert_exact_or(&slots, &scene.fleet, &["interrupted", "too_many_missing"]);
    assert_eq!(scene.fleet.equivocations(), Vec::new());
    let published = scene.watcher.catch_up().iter().filter(|message| message.topic.ends_with("/aggregate"));
    let mut decoded: Vec<Aggregate> = published
        .map(|message| serde_json::from_slice(&message.payload).unwrap())
        .filter(|aggregate: &Aggregate| aggregate.outcome == "decoded")
        .collect();
    decoded.iter().for_each(|aggregate| assert_exact(aggregate, &scene.fleet));
    decoded.sort_by_key(|aggregate| aggregate.slot);
    decoded.dedup();
    assert!(decoded.is_sorted_by(|one, next| one.slot < next.slot), "one answer a slot, whoever gave it: {decoded:?}");
    let mut answers: Vec<_> = scene.fleet.notices();
    answers.retain(|(_, notice)| matches!(notice, Notice::Answered { .. }));
    let all = answers.len();
    let distinct: BTreeSet<String> = answers.iter().map(|answer| format!("{answer:?}")).collect();
    assert_eq!(distinct.len(), all, "no meter answers two requests for one attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_was_stored_and_not_announced_is_announced_after_a_restart() {
    let mut scene = Scene::set().await;
    scene.gateway.kill();
    let stored = scene.gateway.exported("north");
    let last = stored.values().next_back().unwrap();
    // As if it had died a moment before.
    scene.watcher.publish("dream/v1/north/aggregate", b"", true);
    let about = |message: &Message| message.topic == "dream/v1/north/aggregate";
    scene
        .watcher
        .wait_for("nothing is announced any more", |message| about(message) && message.payload.is_empty())
        .await;
    scene.gateway.restart();
    let message = scene.watcher.wait_for("the last slot", about).await;
    let announced: Aggregate = serde_json::from_slice(&message.payload).unwrap();
    // On a busy machine another slot may have closed meanwhile.
    assert!(announced == *last || announced.slot > last.slot, "{announced:?}, {last:?}");
    let slots = scene.decode_more(1).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_meter_that_restarts_in_every_slot_is_still_counted_once() {
    let mut scene = Scene::set().await;
    for meter in 0..4 {
        Step::Readings(6).come(&mut scene.watcher).await;
        scene.fleet.restart(&scene.identities, meter);
        Step::Reveals(3).come(&mut scene.watcher).await;
        scene.fleet.restart(&scene.identities, meter + 6);
    }
    let slots = scene.decode_more(2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_asked_to_stop_says_goodbye_and_comes_back_with_all_it_knew() {
    let mut scene = Scene::set().await;
    Step::Requests(1).come(&mut scene.watcher).await;
    let before = served(&scene.gateway, "north");
    assert!(before.values().any(|aggregate| aggregate.load_filtered_watts.is_some()), "{before:?}");
    let status = scene.gateway.terminate().await;
    assert!(status.success(), "{status}");
    let mut late = Watcher::start(scene.broker.access(), "late", &["dream/v1/gateway/gw-0/status"]).await;
    let goodbye = late.wait_for("the gateway's status", |_| true).await;
    assert_eq!((goodbye.payload.as_slice(), goodbye.retained), (b"offline".as_slice(), true));

    scene.gateway.restart();
    late.wait_for("the gateway's return", |message| message.payload == b"online").await;
    let slots = scene.decode_more(1).await;
    assert!(before.iter().all(|(slot, aggregate)| slots.get(slot) == Some(aggregate)));
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_is_offline_by_its_last_will() {
    let mut scene = Scene::set().await;
    scene.gateway.kill();
    let topic = "dream/v1/gateway/gw-0/status";
    let will = |message: &Message| message.topic == topic && message.payload == b"offline";
    scene.watcher.wait_for("the last will", will).await;
    let mut late = Watcher::start(scene.broker.access(), "late", &[topic]).await;
    assert!(late.wait_for("the last will, retained", will).await.retained);
    let slot = *published(scene.watcher.catch_up(), "north").keys().next_back().unwrap();
    until("the meters go on without it", || !scene.fleet.reported(Slot(slot + 1)).is_empty()).await;
}
