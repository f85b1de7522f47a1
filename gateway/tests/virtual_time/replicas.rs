//! Several gateways share the clusters.

use std::collections::BTreeSet;

use dream_testkit::lab::aggregates::{assert_exact_or, published};

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
