//! Several gateways share the clusters.

use std::collections::BTreeSet;

use dream_protocol::ids::ClusterId;
use dream_protocol::meter::Input;
use dream_protocol::simulation::Simulation;
use dream_testkit::lab::aggregates::{assert_exact_or, published};
use dream_testkit::node::MeterNode;
use dream_testkit::rng;

use crate::world::gateway::Gateway;
use crate::world::{World, eventually};

const METERS: usize = 6;
const CLUSTERS: [&str; 6] = ["east", "harbour", "hill", "north", "south", "west"];

#[tokio::test(start_paused = true)]
async fn two_replicas_share_the_clusters_without_overlap_or_gap() {
    let world = World::new();
    let settings = CLUSTERS.iter().fold(World::settings(), |settings, cluster| settings.cluster(cluster, METERS));
    let mut owned = Vec::new();
    let mut gateways = Vec::new();
    for ordinal in [0, 1] {
        let gateway = Gateway::ready(&world, settings.clone().replica(ordinal, 2)).await;
        let samples = gateway.metrics().await;
        owned.push(samples.values_of("cluster").into_iter().map(str::to_owned).collect::<BTreeSet<_>>());
        gateways.push(gateway);
    }
    assert!(owned[0].is_disjoint(&owned[1]), "{owned:?}");
    assert_eq!(owned[0].union(&owned[1]).map(String::as_str).collect::<Vec<_>>(), CLUSTERS);

    let fleets = CLUSTERS.map(|cluster| (cluster, world.fleet(cluster, METERS)));
    eventually("every cluster has two slots", async || {
        let log = world.broker.log();
        CLUSTERS.iter().all(|cluster| published(&log, cluster).len() >= 2)
    })
    .await;
    for (cluster, fleet) in &fleets {
        let slots = published(&world.broker.log(), cluster);
        assert!(assert_exact_or(&slots, fleet, &[]) > 0, "{slots:?}");
        assert_eq!((fleet.lists().len(), fleet.contradictions(), fleet.equivocations()), (1, 0, Vec::new()));
    }
    for ordinal in [0, 1] {
        let status = world.broker.retained(&format!("dream/v1/gateway/gw-{ordinal}/status"));
        assert_eq!(status.as_deref(), Some(b"online".as_slice()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_moved_is_given_up_by_the_session_that_outlived_it() {
    let world = World::new();
    let settings = CLUSTERS.iter().fold(World::settings(), |settings, cluster| settings.cluster(cluster, METERS));
    let mut gateway = Gateway::ready(&world, settings).await;
    gateway.stop().await;
    gateway.settings = gateway.settings.clone().replica(0, 2);
    gateway.restart();
    gateway.wait_until_ready().await;
    let moved = |world: &World| {
        let filters = world.broker.filters("gw-0");
        CLUSTERS.into_iter().filter(|cluster| !filters.contains(&format!("dream/v1/{cluster}/reading/+"))).count()
    };
    assert_eq!(moved(&world), 0, "the session outlives the gateway");
    for cluster in CLUSTERS {
        world.broker.publish(&format!("dream/v1/{cluster}/reading/{cluster}-00"), b"nobody's", false);
    }
    let samples = gateway.metrics().await;
    let owned = samples.values_of("cluster").len();
    eventually("the others' topics are given up", async || moved(&world) == CLUSTERS.len() - owned).await;
    assert_eq!(world.broker.unacknowledged("gw-0"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_meter_is_in_one_cluster_of_a_gateway_at_a_time() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS);
    let gateway = Gateway::ready(&world, settings).await;
    let north = world.fleet("north", METERS);
    north.list(1).await;
    // The same certificate, enrolled once more: in another cluster, and as a meter that is in none.
    for (meter, refused) in [("north-00", 1.0), ("south-00", 1.0)] {
        let config = world.identities.meter(meter, &ClusterId::new("south").unwrap());
        let mut node = MeterNode::new(config, Simulation::default(), rng(7));
        for packet in node.handle(Input::Connected, world.now()) {
            world.broker.publish(&packet.topic, &packet.payload, false);
        }
        eventually("all is handled", async || world.broker.unacknowledged(&gateway.name()) == 0).await;
        assert_eq!(gateway.messages("enrol", "in_other_cluster").await, refused, "{meter}");
    }
    assert_eq!(gateway.metric("dream_cluster_candidates", "south").await, Some(1.0));
}
