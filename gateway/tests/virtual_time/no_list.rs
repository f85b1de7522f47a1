//! Slots that a demonstration writes to the store before its gateway starts: they are of no list, and count nowhere.

use dream_gateway::clock::Zone;
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::engine::served::NEVER;
use dream_gateway::history::History as _;
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::{Simulation, unmasked_slot};
use dream_protocol::time::{Slot, Timestamp};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::world::gateway::Gateway;
use crate::world::{SLOT_SECONDS, World, eventually};

const METERS: usize = 6;
const SLOTS: u64 = 40;

fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

/// The slots before the test begins, made of readings of a kilowatt.
fn past(world: &World) -> Vec<SlotOutcome> {
    let terms = Terms { max_missing: 1, max_malicious: 1, ..Terms::with_slots_of(SLOT_SECONDS) };
    let terms = Terms { reading_seconds: 2, reveal_seconds: 1, ..terms };
    let params = Params::new(METERS, terms).unwrap();
    let end = params.slot_at(world.now()).0;
    let mut rng = StdRng::seed_from_u64(1);
    let slot = |slot| unmasked_slot(&params, Slot(slot), [Some((1000, Simulation::default())); METERS], &mut rng);
    (end - SLOTS..end).map(slot).collect()
}

/// A gateway in whose store these slots are, not yet started.
fn written(world: &World) -> Gateway {
    let gateway = Gateway::stopped(world, World::settings().cluster("north", METERS));
    let store = FileStore::open(&gateway.store_path(), 4).unwrap();
    let (mut filter, mut changes) = (ClusterFilter::new(&Zone::default(), &[]), Vec::new());
    for outcome in past(world) {
        changes.push(Change::Put(north(), Record::Outcome(outcome)));
        filter.close(&north(), outcome, &mut changes);
    }
    store.commit(&changes).unwrap();
    gateway
}

#[tokio::test(start_paused = true)]
async fn slots_of_no_list_are_shown_and_neither_counted_nor_announced() {
    let world = World::new();
    let mut gateway = written(&world);
    gateway.restart();
    gateway.wait_until_ready().await;

    let slots = gateway.get("/api/v1/clusters/north/slots?limit=1000").await.json();
    let slots = slots["slots"].as_array().unwrap().clone();
    assert_eq!(slots.len(), usize::try_from(SLOTS).unwrap());
    assert!(slots.iter().all(|slot| slot["epoch"] == 0), "{slots:?}");
    assert!(slots.iter().all(|slot| slot["load_filtered_watts"].is_i64()), "{slots:?}");
    let csv = gateway.get("/api/v1/clusters/north/slots?format=csv&limit=1000").await;
    assert_eq!(
        csv.text().lines().filter(|line| line.split(',').nth(4) == Some("0")).count(),
        slots.len(),
        "{}",
        csv.text()
    );
    let cluster = gateway.get("/api/v1/clusters/north").await.json();
    assert_eq!((&cluster["last"], &cluster["last_decoded"]["epoch"]), (&serde_json::Value::Null, &0.into()));
    assert_eq!(cluster["state"], "waiting_for_members", "it has never closed a slot: {cluster}");

    assert_eq!(gateway.metric("dream_cluster_epsilon_day", "north").await, Some(0.0));
    assert_eq!(gateway.metric("dream_cluster_stalled", "north").await, Some(0.0));
    assert_eq!(gateway.metrics().await.sum("dream_slots_total", &[("cluster", "north")]), 0.0);
    assert!(gateway.get("/metrics").await.text().lines().all(|line| !line.starts_with("dream_cluster_energy")));
    assert_eq!(cluster["energy"]["month"], serde_json::Value::Null);
    let days = gateway.get("/api/v1/clusters/north/history").await.json();
    assert_eq!(days["periods"], serde_json::json!([]), "they are in no energy");
    for gauge in ["load_watts", "load_filtered_watts", "responders", "last_slot_timestamp_seconds"] {
        let name = format!("dream_cluster_{gauge}");
        assert_eq!(gateway.metric(&name, "north").await, None, "{gauge}");
    }
    assert!(world.broker.log().iter().all(|message| !message.topic.ends_with("/aggregate")));
}

#[tokio::test(start_paused = true)]
async fn live_slots_follow_and_the_filter_goes_on_from_what_was_there() {
    let world = World::new();
    let mut gateway = written(&world);
    gateway.restart();
    gateway.wait_until_ready().await;
    let fleet = world.fleet("north", METERS);
    eventually("a slot is decoded", async || {
        gateway.metrics().await.sum("dream_slots_total", &[("cluster", "north"), ("outcome", "decoded")]) > 0.0
    })
    .await;
    let last = gateway.get("/api/v1/clusters/north").await.json()["last"].clone();
    assert_eq!(last["epoch"], fleet.list(1).await.epoch(), "{last}");
    assert_eq!(gateway.metric("dream_cluster_epsilon_day", "north").await, Some(1.0));

    gateway.stop().await;
    let store = FileStore::open(&gateway.store_path(), 4).unwrap();
    let kept = store.slots(&north(), Timestamp::from_secs(0)..NEVER, usize::MAX).unwrap();
    assert!(kept.len() > usize::try_from(SLOTS).unwrap());
    let mut filter = ClusterFilter::new(&Zone::default(), &[]);
    for slot in kept {
        assert_eq!(slot.filtered, filter.observe(&slot.outcome), "as if the same filter had seen all: {slot:?}");
    }
}
