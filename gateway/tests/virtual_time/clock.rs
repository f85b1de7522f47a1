//! A gateway whose machine has the wrong time, for a while or from the start: no slot is lost to it for good.

use std::sync::Arc;
use std::time::Duration;

use dream_gateway::clock::Zone;
use dream_gateway::engine::energy::RunningEnergy;
use dream_gateway::history::ClosedSlot;
use dream_gateway::store::Change;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{Slots, decoded};
use dream_testkit::lab::fleet::{Fate, Outgoing};
use dream_testkit::lab::postgres::Postgres;
use dream_testkit::lab::settings::Settings;
use dream_testkit::outcomes::Slotted;

use crate::crash::{METERS, Scene};
use crate::world::log::Log;
use crate::world::{SLOT_SECONDS, World, Wrong, eventually};

const HOUR: i64 = 3600;

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Makes two tests of each function: one on a file and one on PostgreSQL.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod on_a_file {
            $(#[tokio::test(start_paused = true)] async fn $test() { super::$test(super::World::settings()).await; })*
        }

        mod on_postgres {
            $(#[tokio::test(start_paused = true)] async fn $test() {
                super::$test(super::World::settings().on(&super::Arc::new(super::Postgres::start()))).await;
            })*
        }
    };
}
on_both! {
    a_clock_an_hour_ahead_for_a_while_costs_no_slot,
    a_clock_an_hour_back_for_a_while_costs_no_slot,
    started_forty_days_ahead_it_closes_and_forgets_nothing_and_goes_on_when_the_time_is_right,
    a_machine_that_slept_with_its_clocks_going_on_is_believed,
    a_jump_is_followed_when_enough_members_have_the_same_time,
    two_members_cannot_move_the_clock_and_three_can,
    a_store_that_was_carried_ahead_is_carried_back_within_two_slots,
    of_two_clusters_only_the_one_that_was_carried_ahead_is_carried_back,
}

impl Scene {
    fn set_gateway_clock(&self, wall_ahead: i64, steady_behind: u64) {
        self.world.gateway_clock.set(Wrong { wall_ahead, steady_behind });
    }

    /// Stops the machine of the gateway for two minutes, as a virtual machine is paused: its steady clock stands still, or goes
    /// on as it does while a laptop sleeps.
    async fn pause(&self, steady_behind: u64) {
        self.gateway.freezer.freeze();
        sleep(8).await;
        self.world.broker.cut(&self.gateway.name());
        sleep(112).await;
        self.set_gateway_clock(0, steady_behind);
        self.gateway.freezer.thaw();
    }

    async fn doubts_the_clock(&self) -> bool {
        let readiness = self.gateway.get("/readyz").await;
        let told = readiness.status == 503 && readiness.text().contains("clock right");
        let metric = self.gateway.metrics().await.get("dream_clock_doubtful", &[]) == Some(1.0);
        assert_eq!(told, metric, "readiness and metric say the same");
        told
    }

    fn assert_none_is_of_the_future(&self, slots: &Slots) {
        let last = *slots.keys().next_back().unwrap();
        assert!((last + 1) * SLOT_SECONDS <= self.world.now().as_secs(), "{slots:?}");
    }
}

/// Lets the clock jump for 50 seconds, and come back: every slot gives its sum all the while.
async fn assert_a_jump_costs_nothing(settings: Settings, wall_ahead: i64, told: &str) {
    let log = Log::capture();
    let scene = Scene::with(settings, |_| Fate::Sent).await;
    scene.set_gateway_clock(wall_ahead, 0);
    eventually("the clock is doubted", async || scene.doubts_the_clock().await).await;
    assert!(scene.gateway.get("/gateway").await.text().contains(told));
    sleep(50).await;
    assert!(scene.doubts_the_clock().await);
    scene.set_gateway_clock(0, 0);
    eventually("the clock is believed", async || scene.gateway.is_ready().await).await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
    scene.assert_none_is_of_the_future(&slots);
    assert!(decoded(&slots) >= 8, "{slots:?}");
    assert_eq!(log.without_details().matches(told).count(), 1, "said once");
    assert!(log.without_details().contains("the clock is right: it agrees with the steady clock again"));
    assert!(!scene.gateway.get("/gateway").await.text().contains(told));
}

async fn a_clock_an_hour_ahead_for_a_while_costs_no_slot(settings: Settings) {
    assert_a_jump_costs_nothing(settings, HOUR, "The clock jumped 3600 seconds ahead").await;
}

async fn a_clock_an_hour_back_for_a_while_costs_no_slot(settings: Settings) {
    assert_a_jump_costs_nothing(settings, -HOUR, "The clock jumped 3600 seconds back").await;
}

async fn started_forty_days_ahead_it_closes_and_forgets_nothing_and_goes_on_when_the_time_is_right(
    mut settings: Settings,
) {
    settings.defaults = settings.defaults.replace("list_slots = 1000", "list_slots = 40");
    let mut scene = Scene::with(settings, |_| Fate::Sent).await;
    scene.gateway.stop().await;
    scene.set_gateway_clock(40 * 24 * HOUR, 0);
    scene.gateway.restart();
    eventually("members object to the time", async || scene.doubts_the_clock().await).await;
    assert!(scene.gateway.get("/gateway").await.text().contains("readings are of another time than the clock"));
    let before = scene.gateway.slots("north").await;
    sleep(60).await;
    assert_eq!(scene.gateway.slots("north").await, before, "nothing closes");
    assert!(scene.doubts_the_clock().await, "nobody gets used to it");
    assert_eq!(scene.gateway.metric("dream_cluster_stalled", "north").await, Some(1.0));
    assert!(scene.gateway.get("/readyz").await.text().contains("slots closing in time"));

    scene.set_gateway_clock(0, 0);
    scene.gateway.wait_until_ready().await;
    let right = scene.world.now().as_secs() / SLOT_SECONDS;
    let slots = scene.gateway.decode_more("north", 1).await;
    assert!(*slots.keys().next_back().unwrap() <= right + 2, "it takes no longer than two slots");
    // In the slot in which the clock was set right, some readings had come before.
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing"]);
    scene.assert_none_is_of_the_future(&slots);
    assert_eq!(scene.fleet.lists().len(), 1, "the list and its keys are still there");

    // The next list does not wait for the time that never was.
    eventually("there is another list", async || scene.fleet.lists().len() == 2).await;
}

async fn a_machine_that_slept_with_its_clocks_going_on_is_believed(settings: Settings) {
    let log = Log::capture();
    let scene = Scene::with(settings, |_| Fate::Sent).await;
    scene.pause(0).await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert!(!log.text().contains("The clock jumped"));
}

async fn a_jump_is_followed_when_enough_members_have_the_same_time(settings: Settings) {
    let log = Log::capture();
    let scene = Scene::with(settings, |_| Fate::Sent).await;
    scene.pause(120).await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_nothing_lost_or_doubled(&slots, &["interrupted", "too_many_missing", "reveal_missing"]);
    assert!(log.without_details().contains("The clock jumped 120 seconds ahead"));
    assert!(log.without_details().contains("the clock is right: enough members have the same time"));
    assert!(scene.gateway.is_ready().await);
}

async fn two_members_cannot_move_the_clock_and_three_can(settings: Settings) {
    let scene = Scene::with(settings, |_| Fate::Sent).await;
    let only = |some: usize| {
        move |outgoing: &Outgoing<'_>| {
            let lost = outgoing.channel == MeterChannel::Reading && outgoing.meter >= some;
            if lost { Fate::Lost } else { Fate::Sent }
        }
    };
    scene.fleet.set_faults(only(2));
    scene.pause(120).await;
    eventually("the clock is doubted", async || scene.doubts_the_clock().await).await;
    sleep(10 * SLOT_SECONDS).await;
    assert!(scene.doubts_the_clock().await, "two are too few");
    scene.fleet.set_faults(only(3));
    // Those that are silent were last heard before the jump.
    eventually("the clock is believed", async || !scene.doubts_the_clock().await).await;
}

/// Lets a stopped gateway's store look as if its clock had been an hour ahead for a while: slots of a cluster are closed without
/// anybody in them. Returns the slot of now.
fn carry_ahead(scene: &Scene, cluster: &str) -> u64 {
    let cluster = ClusterId::new(cluster).unwrap();
    let store = scene.gateway.open_store();
    let mut energy = RunningEnergy::resume(&*store, &cluster, &Zone::default()).unwrap();
    let now = scene.world.now().as_secs() / SLOT_SECONDS;
    for slot in now..now + 225 {
        let outcome = Slotted { slot_seconds: SLOT_SECONDS, ..Slotted::new(slot) }.failed("too_many_missing", 0);
        let closed = ClosedSlot::from(outcome);
        let mut changes: Vec<Change> = energy.close(&closed).collect();
        changes.push(Change::Put(cluster.clone(), Record::Outcome(outcome)));
        store.commit(&changes).unwrap();
    }
    store.give_back();
    now
}

const WITHDREW: &str = "the clock had been ahead: withdrew slots that closed before their time";

async fn a_store_that_was_carried_ahead_is_carried_back_within_two_slots(settings: Settings) {
    let log = Log::capture();
    let mut scene = Scene::with(settings, |_| Fate::Sent).await;
    scene.gateway.stop().await;
    let now = carry_ahead(&scene, "north");
    scene.gateway.restart();
    scene.gateway.wait_until_ready().await;
    let slots = scene.gateway.decode_more("north", 2).await;
    scene.assert_none_is_of_the_future(&slots);
    assert!(*slots.keys().next_back().unwrap() <= now + 4, "{slots:?}");
    assert!(log.without_details().contains(WITHDREW));
    scene.gateway.assert_energy_has_each_slot_once("north").await;
    assert_eq!(scene.fleet.contradictions(), 0);
    assert_eq!(scene.fleet.lists().len(), 1);
}

async fn of_two_clusters_only_the_one_that_was_carried_ahead_is_carried_back(settings: Settings) {
    let log = Log::capture();
    let mut scene = Scene::with(settings.cluster("south", METERS), |_| Fate::Sent).await;
    let south = scene.world.fleet("south", METERS);
    scene.gateway.decode_more("south", 1).await;
    scene.gateway.stop().await;
    let now = carry_ahead(&scene, "south");
    scene.gateway.restart();
    scene.gateway.wait_until_ready().await;
    // The last slot of the other one shows that the time is right.
    let slots = scene.gateway.decode_more("south", 2).await;
    scene.assert_none_is_of_the_future(&slots);
    assert!(*slots.keys().next_back().unwrap() <= now + 3, "{slots:?}");
    assert_eq!(south.contradictions(), 0);
    scene.gateway.assert_energy_has_each_slot_once("south").await;
    let slots = scene.gateway.slots("north").await;
    scene.assert_nothing_lost_or_doubled(&slots, &[]);
    assert_eq!(log.without_details().matches(WITHDREW).count(), 1);
}
