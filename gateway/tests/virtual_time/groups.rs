//! Sums of clusters, of a gateway that runs: new ones without a restart, and parts of them in several replicas.

use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::fleet::{Fate, Outgoing};
use dream_testkit::lab::prometheus::Samples;
use serde_json::{Value, json};

use crate::world::gateway::Gateway;
use crate::world::{World, eventually};

const METERS: usize = 6;

async fn json(gateway: &Gateway, path: &str) -> Value {
    gateway.get(path).await.json()
}

async fn groups(gateway: &Gateway) -> Vec<String> {
    let all = json(gateway, "/api/v1/groups").await;
    all["groups"].as_array().unwrap().iter().map(|group| group["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns how many clusters are in the newest slot of a group.
async fn in_sum(gateway: &Gateway, group: &str) -> Option<u64> {
    json(gateway, &format!("/api/v1/groups/{group}")).await["last"]["in_sum"].as_u64()
}

/// Checks every past slot of a group against those of its clusters, and returns how many had all of them.
async fn add_up(gateway: &Gateway, group: &str, clusters: &[&str]) -> usize {
    let mut all = Vec::new();
    for cluster in clusters {
        let told = json(gateway, &format!("/api/v1/clusters/{cluster}/slots")).await;
        all.extend(told["slots"].as_array().unwrap().clone());
    }
    let told = json(gateway, &format!("/api/v1/groups/{group}/slots")).await;
    let mut whole = 0;
    for slot in told["slots"].as_array().unwrap() {
        let own = || all.iter().filter(|one| one["start"] == slot["start"] && one["outcome"] == "decoded");
        assert_eq!(
            (slot["clusters"].as_u64(), slot["in_sum"].as_u64()),
            (Some(clusters.len() as u64), Some(own().count() as u64))
        );
        for name in ["load_watts", "load_estimated_watts", "members", "responders"] {
            let sum: i64 = own().map(|one| one[name].as_i64().unwrap()).sum();
            assert_eq!(slot[name].as_i64().unwrap_or_default(), sum, "{name} of {slot}");
        }
        whole += usize::from(slot["in_sum"] == slot["clusters"]);
    }
    whole
}

#[tokio::test(start_paused = true)]
async fn groups_come_change_and_go_with_the_settings_and_have_the_past_of_their_clusters() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS);
    let mut gateway = Gateway::ready(&world, settings.clone()).await;
    let fleets = ["north", "south"].map(|cluster| world.fleet(cluster, METERS));
    gateway.decode_more("north", 2).await;
    gateway.decode_more("south", 2).await;
    assert_eq!(groups(&gateway).await, [""; 0]);
    let version = json(&gateway, "/api/v1/groups").await["version"].as_u64().unwrap();

    gateway.settings = settings.clone().group("feeder", &["north", "south"]).group("region", &["feeder"]);
    gateway.reload().await;
    eventually("the groups are there", async || groups(&gateway).await == ["feeder", "region"]).await;
    let now = json(&gateway, "/api/v1/groups").await["version"].as_u64().unwrap();
    assert!(now > version, "pages that wait for news get them");
    assert!(add_up(&gateway, "region", &["north", "south"]).await >= 2, "slots from before the group was there");
    eventually("both are in the newest slot", async || in_sum(&gateway, "region").await == Some(2)).await;
    let metric = async |name: &str| gateway.metrics().await.get(name, &[("group", "region")]);
    assert_eq!(metric("dream_group_clusters").await, Some(2.0));

    gateway.settings = settings.clone().group("region", &["south"]);
    gateway.reload().await;
    eventually("a group is gone", async || groups(&gateway).await == ["region"]).await;
    assert_eq!(gateway.get("/api/v1/groups/feeder").await.status, 404);
    assert_eq!(json(&gateway, "/api/v1/groups/region").await["of"], json!(["south"]));
    assert!(add_up(&gateway, "region", &["south"]).await >= 2);
    let metric = async |name: &str| gateway.metrics().await.get(name, &[("group", "region")]);
    assert_eq!(metric("dream_group_clusters").await, Some(1.0));
    assert!(!gateway.metrics().await.values_of("group").contains("feeder"), "its series vanish");

    gateway.settings = settings;
    gateway.reload().await;
    eventually("no group is left", async || groups(&gateway).await.is_empty()).await;
    for fleet in fleets {
        assert_eq!(fleet.lists().len(), 1, "no cluster noticed");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_tell_parts_that_add_up_to_the_group() {
    const CLUSTERS: [&str; 6] = ["east", "harbour", "hill", "north", "south", "west"];
    let world = World::new();
    let settings = CLUSTERS.iter().fold(World::settings(), |settings, cluster| settings.cluster(cluster, METERS));
    let settings = settings.group("town", &CLUSTERS);
    let mut gateways = Vec::new();
    for ordinal in [0, 1] {
        gateways.push(Gateway::ready(&world, settings.clone().replica(ordinal, 2)).await);
    }
    let _fleets = CLUSTERS.map(|cluster| world.fleet(cluster, METERS));
    let town = [("group", "town")];
    let both = async || [gateways[0].metrics().await, gateways[1].metrics().await];
    let total =
        |samples: &[Samples; 2], name: &str| samples.iter().map(|samples| samples.sum(name, &town)).sum::<f64>();
    eventually("all clusters are in the sums of both", async || {
        total(&both().await, "dream_group_clusters_in_sum") == 6.0
    })
    .await;
    // Whatever time has passed, all have closed a slot when half of the next one is over.
    world.sleep_into_slot(crate::world::AT_REST_MILLIS).await;
    let samples = both().await;
    let all =
        |name: &str, labels: &[(&str, &str)]| samples.iter().map(|samples| samples.sum(name, labels)).sum::<f64>();
    for load in ["load_watts", "load_estimated_watts"] {
        assert_eq!(
            total(&samples, &format!("dream_group_{load}")),
            all(&format!("dream_cluster_{load}"), &[]),
            "{load}"
        );
    }
    assert_eq!(
        samples.each_ref().map(|samples| samples.get("dream_group_clusters", &town)),
        [Some(6.0); 2],
        "not a sum"
    );

    // The parts of a band add up in quadrature to no less than the band of the whole, and to little more.
    let quadrature = |of: &str, ids: &[&str]| {
        let name = format!("dream_{of}_load_estimated_band_watts");
        let band = |id: &&str, one: &Samples| one.get(&name, &[(of, *id), ("confidence", "0.95")]).unwrap_or_default();
        ids.iter().flat_map(|id| samples.iter().map(move |one| band(id, one).powi(2))).sum::<f64>().sqrt()
    };
    let (parts, clusters) = (quadrature("group", &["town"]), quadrature("cluster", &CLUSTERS));
    assert!((0.9 * clusters..clusters).contains(&parts), "{parts}, {clusters}");

    let mut served = 0;
    for gateway in &gateways {
        let told = json(gateway, "/api/v1/groups/town").await;
        assert_eq!(told["clusters"], 6);
        let own = told["clusters_served"].as_u64().unwrap();
        served += own;
        let page = gateway.get("/groups/town").await;
        assert!(page.text().contains(&format!("{own} of 6 clusters are served here")), "{}", page.text());
    }
    assert_eq!(served, 6);
}

/// Every fifth slot of `south` has too few readings.
fn drops_some(outgoing: &Outgoing<'_>) -> Fate {
    let dropped = outgoing.channel == MeterChannel::Reading && outgoing.slot.0.is_multiple_of(5) && outgoing.meter > 1;
    if dropped { Fate::Lost } else { Fate::Sent }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_sum_is_filled_in_from_its_filter_and_stays_so_after_a_restart() {
    let world = World::new();
    let settings =
        World::settings().cluster("north", METERS).cluster("south", METERS).group("town", &["north", "south"]);
    let mut gateway = Gateway::ready(&world, settings).await;
    let _fleets = (world.fleet("north", METERS), world.faulty_fleet("south", METERS, drops_some));
    let slots = async |gateway: &Gateway| json(gateway, "/api/v1/groups/town/slots").await["slots"].clone();
    let filled = |slots: &Value| -> Vec<Value> {
        slots.as_array().unwrap().iter().filter(|slot| slot["filled"] == 1).cloned().collect()
    };
    eventually("a slot is filled in", async || !filled(&slots(&gateway).await).is_empty()).await;
    let before = filled(&slots(&gateway).await);
    let slot = before[0].clone();
    assert_eq!((&slot["in_sum"], &slot["clusters"]), (&json!(1), &json!(2)));
    let north = json(&gateway, "/api/v1/clusters/north/slots").await["slots"].clone();
    let own = north.as_array().unwrap().iter().find(|one| one["start"] == slot["start"]).unwrap().clone();
    assert_eq!(slot["load_watts"], own["load_watts"], "the plain sum is of those who answered");
    assert!(
        slot["band95_estimated_watts"].as_u64() > own["band95_estimated_watts"].as_u64(),
        "what is filled in has a band"
    );
    let south = json(&gateway, "/api/v1/clusters/south/slots").await["slots"].clone();
    let failed = south.as_array().unwrap().iter().find(|one| one["start"] == slot["start"]).unwrap().clone();
    assert_eq!((&failed["outcome"], &failed["load_filtered_watts"]), (&json!("too_many_missing"), &Value::Null));

    gateway.crash().await;
    assert_eq!(filled(&slots(&gateway).await).first(), Some(&slot), "it was stored");
}
