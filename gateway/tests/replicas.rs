//! Several gateways share the clusters, and a gateway's clusters come and go while it runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;

use support::aggregates::{assert_exact_or, published, served};
use support::broker;
use support::client::Message;
use support::fleet::Fleet;
use support::gateway::{Gateway, Settings};
use support::identities::Identities;
use support::mosquitto::Mosquitto;
use support::until;
use support::watcher::Watcher;

const METERS: usize = 6;
const CLUSTERS: [&str; 6] = ["east", "harbour", "hill", "north", "south", "west"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_share_the_clusters_without_overlap_or_gap() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = CLUSTERS.iter().fold(Settings::new(&access), |settings, cluster| settings.cluster(cluster, METERS));
    let mut gateways = [0, 1].map(|ordinal| Gateway::start(&identities, settings.clone().replica(ordinal, 2)));
    for gateway in &mut gateways {
        gateway.wait_until_ready().await;
    }
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    let fleets = CLUSTERS.map(|cluster| (cluster, Fleet::start(&identities, &access, cluster, METERS)));
    until("every cluster has two slots", || {
        let seen = watcher.catch_up();
        CLUSTERS.iter().all(|cluster| published(seen, cluster).len() >= 2)
    })
    .await;

    let owned = gateways.each_ref().map(|gateway| {
        let samples = gateway.metrics();
        samples.values_of("cluster").into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
    });
    assert!(owned[0].is_disjoint(&owned[1]), "{owned:?}");
    assert_eq!(owned[0].union(&owned[1]).map(String::as_str).collect::<Vec<_>>(), CLUSTERS);
    for (cluster, fleet) in &fleets {
        let slots = published(watcher.catch_up(), cluster);
        assert!(assert_exact_or(&slots, fleet, &["too_many_missing"]) > 0, "{slots:?}");
        assert_eq!((fleet.lists().len(), fleet.contradictions(), fleet.equivocations()), (1, 0, Vec::new()));
    }
    let mut statuses = Watcher::start(&access, "statuses", &["dream/v1/gateway/+/status"]).await;
    let mut online = BTreeSet::new();
    let both = |message: &Message| {
        assert_eq!(message.payload, b"online");
        online.insert(message.topic.clone());
        online.len() == 2
    };
    statuses.wait_for("both replicas' status", both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_and_another_goes_while_the_gateway_runs_and_the_others_do_not_notice() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = Settings::new(&access).cluster("north", METERS).cluster("south", METERS).home_assistant();
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let mut watcher = Watcher::start(&access, "watcher", &["homeassistant/#"]).await;
    let fleets = ["north", "south"].map(|cluster| Fleet::start(&identities, &access, cluster, METERS));
    let load = |gateway: &Gateway, cluster: &str| gateway.metric("dream_cluster_load_watts", cluster);
    until("both are decoded", || ["north", "south"].iter().all(|cluster| load(&gateway, cluster).is_some())).await;

    gateway.settings.clusters.remove("south");
    gateway.settings = gateway.settings.clone().cluster("west", METERS);
    gateway.write_settings();
    gateway.hang_up();
    let west = Fleet::start(&identities, &access, "west", METERS);
    let sensor = |message: &Message| message.topic == "homeassistant/sensor/dream_south/config";
    watcher.wait_for("its sensor is taken away", |message| sensor(message) && message.payload.is_empty()).await;
    until("the removed cluster's series vanish", || !gateway.metrics().values_of("cluster").contains("south")).await;
    until("the new cluster is decoded", || load(&gateway, "west").is_some()).await;

    assert!(gateway.is_running());
    let slots = served(&gateway, "north");
    let (first, last) = (slots.keys().next().unwrap(), slots.keys().next_back().unwrap());
    assert_eq!(usize::try_from(last - first).unwrap() + 1, slots.len(), "no slot is left out");
    assert_exact_or(&slots, &fleets[0], &[]);
    assert_exact_or(&served(&gateway, "west"), &west, &[]);
    assert_eq!(fleets[0].lists().len(), 1, "the cluster that stayed kept its list");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_read_without_a_broker_do_not_make_ready_and_a_removed_cluster_goes_when_the_broker_is_back() {
    let (identities, mut broker) = (Identities::default(), Mosquitto::start());
    let settings = Settings::new(broker.access()).cluster("north", METERS).cluster("south", METERS).home_assistant();
    let mut gateway = Gateway::start(&identities, settings);
    let mut watcher = Watcher::start(broker.access(), "watcher", &["homeassistant/#"]).await;
    let sensor = |message: &Message| message.topic == "homeassistant/sensor/dream_south/config";
    watcher.wait_for("its sensor", sensor).await;
    gateway.wait_until_ready().await;

    broker.kill();
    until("the loss is noticed", || gateway.get("/readyz").status == 503).await;
    gateway.settings.clusters.remove("south");
    gateway.write_settings();
    gateway.hang_up();
    until("the settings were read", || gateway.said().contains("configuration read again")).await;
    assert_eq!(gateway.get("/readyz").status, 503);

    broker.restart();
    watcher.wait_for("its sensor is taken away", |message| sensor(message) && message.payload.is_empty()).await;
    gateway.wait_until_ready().await;
    assert_eq!(gateway.said().matches("subscribed to the topics").count(), 2, "{}", gateway.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_new_terms_gets_a_new_list_and_the_other_does_not_notice() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = Settings::new(&access).cluster("north", METERS).cluster("south", METERS);
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let [north, south] = ["north", "south"].map(|cluster| Fleet::start(&identities, &access, cluster, METERS));
    let decoded = |gateway: &Gateway, cluster: &str, epsilon: f64| {
        gateway.metric("dream_cluster_load_watts", cluster).is_some()
            && gateway.metric("dream_cluster_epsilon", cluster) == Some(epsilon)
    };
    until("both are decoded", || ["north", "south"].iter().all(|cluster| decoded(&gateway, cluster, 1.0))).await;

    gateway.settings = gateway.settings.clone().cluster_with("south", METERS, "epsilon = 0.5");
    gateway.write_settings();
    gateway.hang_up();
    south.list(2).await;
    until("it is decoded on the new terms", || decoded(&gateway, "south", 0.5)).await;
    let slots = served(&gateway, "north");
    let (first, last) = (slots.keys().next().unwrap(), slots.keys().next_back().unwrap());
    assert_eq!(usize::try_from(last - first).unwrap() + 1, slots.len(), "no slot is left out");
    assert_exact_or(&slots, &north, &[]);
    assert!(slots.values().all(|aggregate| aggregate.attempts == 1), "{slots:?}");
    assert_exact_or(&served(&gateway, "south"), &south, &[]);
    assert_eq!((north.lists().len(), south.lists().len()), (1, 2));
    assert_eq!((south.contradictions(), south.equivocations()), (0, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_be_used_change_nothing() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, &access, "north", METERS);
    fleet.list(1).await;
    gateway.settings = gateway.settings.clone().cluster_with("south", METERS, "no_such_key = 1");
    gateway.write_settings();
    gateway.hang_up();
    until("the mistake is named", || gateway.said().contains("no_such_key")).await;
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    assert_exact_or(&served(&gateway, "north"), &fleet, &[]);
    assert!(gateway.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_replicas_waits_for_a_restart_and_moves_nothing() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = CLUSTERS.iter().fold(Settings::new(&access), |settings, cluster| settings.cluster(cluster, METERS));
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let clusters = |gateway: &Gateway| gateway.metrics().values_of("cluster").len();
    assert_eq!(clusters(&gateway), CLUSTERS.len());
    gateway.settings.replicas = 3;
    gateway.write_settings();
    gateway.hang_up();
    until("the settings were read", || gateway.said().contains("configuration read again")).await;
    assert!(gateway.said().contains("takes a restart"), "{}", gateway.said());
    assert_eq!(clusters(&gateway), CLUSTERS.len());
}
