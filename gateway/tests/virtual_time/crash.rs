//! A gateway that dies before every commit and every effect of a slot, one after the other: nothing is lost, nothing is said
//! twice, and what is said again is the same bytes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{Aggregate, Slots, assert_exact_or, assert_no_gap, published};
use dream_testkit::lab::fleet::{Fate, Fleet, Outgoing};
use dream_testkit::lab::postgres::Postgres;
use dream_testkit::lab::settings::Settings;

use crate::world::gateway::Gateway;
use crate::world::writer::Step;
use crate::world::{AT_REST_MILLIS, SLOT_SECONDS, World, eventually};

pub const METERS: usize = 12;

/// A gateway with a cluster that has been decoded once, and its meters, one of them silent.
pub struct Scene {
    pub world: World,
    pub gateway: Gateway,
    pub fleet: Fleet,
}

impl Scene {
    pub async fn set() -> Self {
        Self::with_faults(|_| Fate::Sent).await
    }

    /// With what else may happen to the other meters.
    pub async fn with_faults(fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static) -> Self {
        Self::with(World::settings(), fate).await
    }

    pub async fn with(settings: Settings, mut fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static) -> Self {
        let world = World::new();
        let gateway = Gateway::ready(&world, settings.cluster("north", METERS)).await;
        let fleet = world.faulty_fleet("north", METERS, move |outgoing| {
            let lost = outgoing.channel == MeterChannel::Reading && outgoing.meter == 5;
            if lost { Fate::Lost } else { fate(outgoing) }
        });
        gateway.decode_more("north", 1).await;
        Self { world, gateway, fleet }
    }

    /// Every slot has one outcome, the same everywhere: the exact sum, or an allowed failure. Returns how many were decoded.
    pub fn assert_nothing_lost_or_doubled(&self, slots: &Slots, allowed: &[&str]) -> usize {
        assert_no_gap(slots);
        let (first, last) = (slots.values().next().unwrap(), slots.values().next_back().unwrap());
        for (slot, aggregate) in published(&self.world.broker.log(), "north") {
            // What an earlier gateway published is not in this one's store.
            let elsewhere = slot > last.slot || aggregate.epoch < first.epoch;
            assert!(elsewhere || slots.get(&slot) == Some(&aggregate), "{aggregate:?}");
        }
        assert_eq!(self.fleet.contradictions(), 0, "a request is the same bytes after a restart");
        assert_eq!(self.fleet.equivocations(), Vec::new());
        assert_exact_or(slots, &self.fleet, allowed)
    }

    /// Every decoded slot has everyone in it but the silent meter: what was sent was not lost on the way.
    fn assert_only_the_silent_meter_is_missing(slots: &Slots) {
        let decoded = |aggregate: &&Aggregate| aggregate.outcome == "decoded";
        assert!(slots.values().filter(decoded).all(|aggregate| aggregate.missing == 1), "{slots:?}");
    }

    /// Kills the gateway before the first step of a slot, in the next slot before the second one, and so on until a slot has
    /// no further step; returns before which steps it died.
    async fn die_before_every_step(&mut self) -> Vec<Step> {
        let mut died = Vec::new();
        loop {
            self.world.sleep_into_slot(AT_REST_MILLIS).await;
            self.gateway.doom.after(died.len());
            let slot = Duration::from_millis(1000 * SLOT_SECONDS - 1);
            let death = tokio::time::timeout(slot, self.gateway.doom.death()).await;
            let Ok(step) = death else { break };
            died.push(step);
            self.gateway.crash().await;
        }
        self.gateway.doom.lift();
        died
    }
}

fn count(steps: &[Step], of: Step) -> usize {
    steps.iter().filter(|step| **step == of).count()
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_dies_before_any_step_of_a_slot_loses_nothing_and_repeats_itself_to_the_byte() {
    lose_nothing_and_repeat(World::settings()).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_on_postgres() {
    lose_nothing_and_repeat(World::settings().on(&Arc::new(Postgres::start()))).await;
}

async fn lose_nothing_and_repeat(settings: Settings) {
    let mut scene = Scene::with(settings, |_| Fate::Sent).await;
    let died = scene.die_before_every_step().await;
    // A reading and a reveal of each meter but one are committed and acknowledged by themselves.
    assert!(count(&died, Step::Commit) > 2 * (METERS - 1), "{died:?}");
    assert!(count(&died, Step::Acknowledge) >= 2 * (METERS - 1), "{died:?}");
    assert!(count(&died, Step::Publish) >= 2, "a request and an aggregate: {died:?}");
    assert_eq!(count(&died, Step::Closed), 1, "{died:?}");
    let slots = scene.gateway.decode_more("north", 2).await;
    let decoded = scene.assert_nothing_lost_or_doubled(&slots, &[]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    assert!(decoded > died.len(), "{slots:?}");
    Scene::assert_only_the_silent_meter_is_missing(&slots);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_dies_before_any_step_of_a_slot_that_is_tried_again_repeats_itself_too() {
    // Of most members, so that none of them is blamed and left out from the beginning of later slots.
    let mut scene = Scene::with_faults(|outgoing| {
        let lost = outgoing.channel == MeterChannel::Reveal && outgoing.meter < 8 && outgoing.attempt == 0;
        if lost { Fate::Lost } else { Fate::Sent }
    })
    .await;
    let died = scene.die_before_every_step().await;
    // Two readings of each meter but one, and the reveals: few of the first attempt, all but two of the second.
    assert!(count(&died, Step::Commit) > 3 * (METERS - 1), "{died:?}");
    assert!(count(&died, Step::Publish) >= 4, "two requests, a retry and an aggregate: {died:?}");
    let slots = scene.gateway.decode_more("north", 2).await;
    let decoded = scene.assert_nothing_lost_or_doubled(&slots, &[]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    assert!(decoded > died.len(), "{slots:?}");
    // The silent meter, and one of those who had not revealed: no more may be left out.
    assert!(slots.values().all(|aggregate| (aggregate.attempts, aggregate.missing) == (2, 2)), "{slots:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_dies_at_every_step_of_its_start_comes_up_all_the_same() {
    come_up_all_the_same(World::settings()).await;
}

#[tokio::test(start_paused = true)]
async fn it_comes_up_on_postgres_too() {
    come_up_all_the_same(World::settings().on(&Arc::new(Postgres::start()))).await;
}

async fn come_up_all_the_same(settings: Settings) {
    let mut scene = Scene::with(settings, |_| Fate::Sent).await;
    for steps in 0.. {
        scene.gateway.kill().await;
        scene.gateway.doom.after(steps);
        scene.gateway.restart();
        let death = tokio::time::timeout(Duration::from_millis(400), scene.gateway.doom.death()).await;
        if death.is_err() {
            assert!(steps > 3, "starting takes commits and effects");
            break;
        }
    }
    scene.gateway.doom.lift();
    scene.gateway.crash().await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    assert_eq!(scene.fleet.lists().len(), 1, "the list was kept");
}

#[tokio::test(start_paused = true)]
async fn a_broker_lost_at_any_moment_of_a_slot_loses_nothing() {
    let mut scene = Scene::set().await;
    for (count, topic) in moments() {
        scene.world.broker.wait_for(count, topic).await;
        scene.world.broker.stop();
        tokio::time::sleep(Duration::from_millis(50)).await;
        scene.world.broker.start();
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
    }
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["reveal_missing"]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    Scene::assert_only_the_silent_meter_is_missing(&slots);
    assert_eq!(scene.gateway.metrics().await.get("dream_broker_connected", &[]), Some(1.0));
    assert_eq!(scene.fleet.lists().len(), 1, "the list outlived the broker");
    scene.world.sleep_into_slot(AT_REST_MILLIS).await;
    assert_eq!(scene.world.broker.unacknowledged(&scene.gateway.name()), 0, "nothing comes back for ever");
    scene.gateway.kill().await;
}

/// After every reading, request, reveal and aggregate of a slot.
fn moments() -> Vec<(usize, &'static str)> {
    let each = |topic| (1..METERS).map(move |count| (count, topic));
    each("/reading/").chain([(1, "/recovery")]).chain(each("/reveal/")).chain([(1, "/aggregate")]).collect()
}

#[tokio::test(start_paused = true)]
async fn only_the_gateways_connection_is_cut_at_any_moment_and_nothing_is_lost() {
    let scene = Scene::set().await;
    for (count, topic) in moments() {
        scene.world.broker.wait_for(count, topic).await;
        scene.world.broker.cut(&scene.gateway.name());
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
    }
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["reveal_missing"]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    Scene::assert_only_the_silent_meter_is_missing(&slots);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_stored_and_not_announced_is_announced_after_a_restart() {
    let mut scene = Scene::set().await;
    let topic = "dream/v1/north/aggregate";
    // Dies before the first effect that follows the commit of an outcome.
    for steps in 0.. {
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
        scene.gateway.doom.after(steps);
        if scene.gateway.doom.death().await == Step::Closed {
            break;
        }
        scene.gateway.crash().await;
    }
    scene.world.broker.publish(topic, b"", true);
    scene.gateway.kill().await;
    scene.gateway.doom.lift();
    scene.gateway.restart();
    scene.gateway.wait_until_ready().await;
    let slots = scene.gateway.slots("north").await;
    let last = slots.values().next_back().unwrap();
    eventually("the last slot is announced", async || scene.world.broker.retained(topic).is_some()).await;
    let announced: Aggregate = serde_json::from_slice(&scene.world.broker.retained(topic).unwrap()).unwrap();
    assert_eq!(announced, *last);
    let slots = scene.gateway.decode_more("north", 1).await;
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
}

#[tokio::test(start_paused = true)]
async fn a_meter_that_restarts_in_every_slot_is_still_counted_once() {
    let scene = Scene::set().await;
    for meter in 0..4 {
        scene.world.broker.wait_for(6, "/reading/").await;
        scene.fleet.restart(&scene.world.identities, meter);
        scene.world.broker.wait_for(3, "/reveal/").await;
        scene.fleet.restart(&scene.world.identities, meter + 6);
    }
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    Scene::assert_only_the_silent_meter_is_missing(&slots);
}

#[tokio::test(start_paused = true)]
async fn no_meter_answers_two_requests_for_one_attempt_however_often_the_gateway_dies() {
    let mut scene = Scene::set().await;
    for steps in [3, 17, 25, 30, 40] {
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
        scene.gateway.doom.after(steps);
        scene.gateway.doom.death().await;
        scene.gateway.crash().await;
    }
    scene.gateway.decode_more("north", 1).await;
    let mut answers: Vec<_> = scene.fleet.notices();
    answers.retain(|(_, notice)| matches!(notice, dream_protocol::meter::Notice::Answered { .. }));
    let distinct: BTreeSet<String> = answers.iter().map(|answer| format!("{answer:?}")).collect();
    assert_eq!(distinct.len(), answers.len());
}
