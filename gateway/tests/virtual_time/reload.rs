//! A gateway's clusters come and go while it runs.

use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{assert_exact_or, assert_no_gap};
use dream_testkit::lab::fleet::Fate;

use crate::world::gateway::Gateway;
use crate::world::log::Log;
use crate::world::{World, eventually};

const METERS: usize = 6;
const SENSOR: &str = "homeassistant/sensor/dream_south/config";

async fn is_decoded(gateway: &Gateway, cluster: &str, epsilon: f64) -> bool {
    gateway.metric("dream_cluster_load_watts", cluster).await.is_some()
        && gateway.metric("dream_cluster_epsilon", cluster).await == Some(epsilon)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_and_another_goes_while_the_gateway_runs_and_the_others_do_not_notice() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS).home_assistant();
    let mut gateway = Gateway::ready(&world, settings).await;
    let [north, _south] = ["north", "south"].map(|cluster| world.fleet(cluster, METERS));
    eventually("both are decoded", async || {
        is_decoded(&gateway, "north", 1.0).await && is_decoded(&gateway, "south", 1.0).await
    })
    .await;
    assert!(world.broker.retained(SENSOR).is_some());

    gateway.settings.clusters.remove("south");
    gateway.settings = gateway.settings.clone().cluster("west", METERS);
    gateway.reload().await;
    let west = world.fleet("west", METERS);
    eventually("its sensor is taken away", async || world.broker.retained(SENSOR).is_none()).await;
    let series = async || gateway.metrics().await.values_of("cluster").contains("south");
    assert!(!series().await, "the removed cluster's series vanish");
    assert_eq!(gateway.get("/api/v1/clusters/south").await.status, 404);
    let filters = world.broker.filters(&gateway.name());
    assert!(filters.iter().all(|filter| !filter.contains("/south/")), "{filters:?}");
    eventually("the new cluster is decoded", async || is_decoded(&gateway, "west", 1.0).await).await;

    let slots = gateway.slots("north").await;
    assert_no_gap(&slots);
    assert_exact_or(&slots, &north, &[]);
    assert_exact_or(&gateway.slots("west").await, &west, &[]);
    assert_eq!(north.lists().len(), 1, "the cluster that stayed kept its list");
}

#[tokio::test(start_paused = true)]
async fn settings_read_without_a_broker_do_not_make_ready_and_a_removed_cluster_goes_when_the_broker_is_back() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS).home_assistant();
    let mut gateway = Gateway::ready(&world, settings).await;
    assert!(world.broker.retained(SENSOR).is_some());

    world.broker.stop();
    eventually("the loss is noticed", async || !gateway.is_ready().await).await;
    gateway.settings.clusters.remove("south");
    gateway.reload().await;
    eventually("the settings were read", async || gateway.get("/api/v1/clusters/south").await.status == 404).await;
    assert!(!gateway.is_ready().await);
    assert!(world.broker.retained(SENSOR).is_some(), "nobody could be told");

    world.broker.start();
    eventually("its sensor is taken away", async || world.broker.retained(SENSOR).is_none()).await;
    gateway.wait_until_ready().await;
    let online = world.broker.log().into_iter().filter(|message| message.payload == b"online").count();
    assert_eq!(online, 2, "once for each connection");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_new_terms_gets_a_new_list_and_the_other_does_not_notice() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS);
    let mut gateway = Gateway::ready(&world, settings).await;
    let [north, south] = ["north", "south"].map(|cluster| world.fleet(cluster, METERS));
    eventually("both are decoded", async || {
        is_decoded(&gateway, "north", 1.0).await && is_decoded(&gateway, "south", 1.0).await
    })
    .await;

    gateway.settings = gateway.settings.clone().cluster_with("south", METERS, "epsilon = 0.5");
    gateway.reload().await;
    south.list(2).await;
    eventually("it is decoded on the new terms", async || is_decoded(&gateway, "south", 0.5).await).await;
    let slots = gateway.slots("north").await;
    assert_no_gap(&slots);
    assert_exact_or(&slots, &north, &[]);
    assert!(slots.values().all(|aggregate| aggregate.attempts == 1), "{slots:?}");
    assert_exact_or(&gateway.slots("south").await, &south, &[]);
    assert_eq!((north.lists().len(), south.lists().len()), (1, 2));
    assert_eq!((south.contradictions(), south.equivocations()), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_reload_in_the_middle_of_a_slot_costs_neither_the_slot_nor_its_bytes() {
    let world = World::new();
    let mut gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.faulty_fleet("north", METERS, |outgoing| {
        let late = outgoing.channel == MeterChannel::Reveal && outgoing.meter == 3 && outgoing.attempt == 0;
        if late { Fate::Lost } else { Fate::Sent }
    });
    gateway.decode_more("north", 1).await;
    for millis in [10, 500, 2100, 2500, 3100, 4000] {
        world.sleep_into_slot(millis).await;
        // The rules of the roster are no terms of a list: the cluster is rebuilt from the store, and its list stays.
        for settle in ["settle_seconds = 2", "settle_seconds = 3"] {
            gateway.settings = gateway.settings.clone().cluster_with("north", METERS, settle);
            gateway.reload().await;
        }
    }
    let slots = gateway.decode_more("north", 1).await;
    assert_no_gap(&slots);
    assert_exact_or(&slots, &fleet, &[]);
    assert_eq!((fleet.lists().len(), fleet.contradictions(), fleet.equivocations()), (1, 0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_renewed_certificate_signs_the_next_list() {
    let world = World::new();
    let gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.fleet("north", METERS);
    let old = *fleet.list(1).await.gateway_identity();
    gateway.decode_more("north", 1).await;
    gateway.renew();
    gateway.reload().await;
    let second = fleet.list(2).await;
    assert_ne!(*second.gateway_identity(), old, "the new key signs");
    let slots = gateway.decode_more("north", 2).await;
    assert_exact_or(&slots, &fleet, &["interrupted", "too_many_missing"]);
    assert!(
        slots.values().any(|aggregate| aggregate.epoch == second.epoch() && aggregate.outcome == "decoded"),
        "{slots:?}"
    );
    assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn another_number_of_replicas_waits_for_a_restart_and_moves_nothing() {
    let log = Log::capture();
    let world = World::new();
    let clusters = ["east", "harbour", "hill", "north", "south", "west"];
    let settings = clusters.iter().fold(World::settings(), |settings, cluster| settings.cluster(cluster, METERS));
    let mut gateway = Gateway::ready(&world, settings).await;
    gateway.settings.replicas = 3;
    gateway.reload().await;
    eventually("the settings were read", async || log.text().contains("configuration reloaded")).await;
    assert!(log.text().contains("needs a restart"), "{}", log.text());
    assert_eq!(gateway.metrics().await.values_of("cluster").len(), clusters.len());
}

#[tokio::test(start_paused = true)]
async fn home_assistant_is_switched_on_and_off_while_the_gateway_runs() {
    let world = World::new();
    let mut gateway = Gateway::ready(&world, World::settings().cluster("south", METERS)).await;
    assert!(world.broker.retained(SENSOR).is_none());
    gateway.settings.home_assistant = true;
    gateway.reload().await;
    let filtered = SENSOR.replace("_south", "_south_filtered");
    let both = || [SENSOR, &filtered].map(|sensor| world.broker.retained(sensor).is_some());
    eventually("the sensors appear", async || both() == [true, true]).await;
    gateway.settings.home_assistant = false;
    gateway.reload().await;
    eventually("the sensors are taken away", async || both() == [false, false]).await;
}
