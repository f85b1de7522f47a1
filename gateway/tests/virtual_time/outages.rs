//! Gateways that are away for long, stop, come back with nothing, or are there twice.

use std::collections::BTreeSet;
use std::time::Duration;

use dream_protocol::meter::Notice;
use dream_protocol::time::Slot;
use dream_testkit::lab::aggregates::{Aggregate, assert_exact, assert_exact_or, published};
use dream_testkit::lab::client::Message;

use crate::crash::{METERS, Scene};
use crate::world::gateway::Gateway;
use crate::world::{SLOT_SECONDS, eventually};

const STATUS: &str = "dream/v1/gateway/gw-0/status";

#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_down_for_whole_slots_calls_them_interrupted() {
    let mut scene = Scene::set().await;
    scene.world.broker.wait_for(3, "/reading/").await;
    scene.gateway.kill().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    scene.gateway.restart();
    scene.gateway.wait_until_ready().await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
    assert!(slots.values().any(|aggregate| aggregate.outcome == "interrupted"), "{slots:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_was_frozen_for_whole_slots_goes_on() {
    let scene = Scene::set().await;
    scene.world.broker.wait_for(1, "/recovery").await;
    scene.gateway.freezer.freeze();
    tokio::time::sleep(Duration::from_secs(8)).await;
    // A broker gives up on a client that says nothing for so long.
    scene.world.broker.cut(&scene.gateway.name());
    tokio::time::sleep(Duration::from_secs(12)).await;
    scene.gateway.freezer.thaw();
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_with_an_empty_store_takes_over_with_the_next_epoch() {
    let mut scene = Scene::set().await;
    scene.gateway.kill().await;
    let settings = scene.gateway.settings.clone();
    scene.gateway = Gateway::start(&scene.world, settings);
    let list = scene.fleet.list(2).await;
    let first = scene.fleet.list(1).await;
    assert_eq!((list.previous_epoch(), list.previous()), (first.epoch(), first.hash()));
    assert_eq!(list.members().len(), METERS);
    let slots = scene.gateway.decode_more("north", 2).await;
    assert!(slots.values().all(|aggregate| aggregate.epoch == list.epoch()), "{slots:?}");
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
}

#[tokio::test(start_paused = true)]
async fn two_gateways_of_one_name_throw_each_other_out_and_the_one_that_stays_serves_on() {
    let mut scene = Scene::set().await;
    let second = Gateway::start(&scene.world, scene.gateway.settings.clone());
    let thrown_out = async |gateway: &Gateway| {
        gateway.metrics().await.sum("dream_broker_troubles_total", &[("cause", "closed")]) >= 2.0
    };
    eventually("both were thrown out twice", async || thrown_out(&scene.gateway).await && thrown_out(&second).await)
        .await;
    scene.gateway.kill().await;
    scene.gateway = second;
    let slots = scene.gateway.decode_more("north", 2).await;

    assert_exact_or(&slots, &scene.fleet, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert_eq!(scene.fleet.equivocations(), Vec::new());
    let aggregate = |message: Message| serde_json::from_slice::<Aggregate>(&message.payload).ok();
    let mut decoded: Vec<Aggregate> = scene.world.broker.log().into_iter().filter_map(aggregate).collect();
    decoded.retain(|aggregate| aggregate.outcome == "decoded");
    decoded.iter().for_each(|aggregate| assert_exact(aggregate, &scene.fleet));
    decoded.sort_by_key(|aggregate| aggregate.slot);
    decoded.dedup();
    assert!(decoded.is_sorted_by(|one, next| one.slot < next.slot), "one answer a slot, from either: {decoded:?}");
    let mut answers: Vec<_> = scene.fleet.notices();
    answers.retain(|(_, notice)| matches!(notice, Notice::Answered { .. }));
    let distinct: BTreeSet<String> = answers.iter().map(|answer| format!("{answer:?}")).collect();
    assert_eq!(distinct.len(), answers.len(), "no meter answers two requests for one attempt");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_asked_to_stop_says_so_and_comes_back_with_all_it_knew() {
    let mut scene = Scene::set().await;
    scene.world.broker.wait_for(1, "/recovery").await;
    let before = scene.gateway.slots("north").await;
    assert!(before.values().any(|aggregate| aggregate.load_filtered_watts.is_some()), "{before:?}");
    scene.gateway.stop().await;
    assert_eq!(scene.world.broker.retained(STATUS).as_deref(), Some(b"offline".as_slice()));

    scene.gateway.restart();
    scene.gateway.wait_until_ready().await;
    eventually("the gateway is back", async || scene.world.broker.retained(STATUS).as_deref() == Some(b"online")).await;
    let slots = scene.gateway.decode_more("north", 1).await;
    assert!(before.iter().all(|(slot, aggregate)| slots.get(slot) == Some(aggregate)));
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
}

#[tokio::test(start_paused = true)]
async fn meters_go_on_without_a_gateway() {
    let mut scene = Scene::set().await;
    scene.gateway.kill().await;
    assert_eq!(scene.world.broker.retained(STATUS).as_deref(), Some(b"offline".as_slice()), "its last will");
    let slot = *published(&scene.world.broker.log(), "north").keys().next_back().unwrap();
    tokio::time::sleep(Duration::from_secs(3 * SLOT_SECONDS)).await;
    assert!(!scene.fleet.reported(Slot(slot + 1)).is_empty());
}
