//! Slots that a demonstration fills in: marked wherever they are shown, and counted nowhere.

use dream_gateway::clock::Zone;
use dream_gateway::engine::backfill::{BackfillError, backfill};
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::engine::served::NEVER;
use dream_gateway::history::History as _;
use dream_gateway::store::Store;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::ids::ClusterId;
use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::{Simulation, unmasked_slot};
use dream_protocol::time::{Slot, Timestamp};
use dream_testkit::outcomes::Slotted;
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

/// A gateway whose store was filled in, not yet started.
fn filled_in(world: &World) -> Gateway {
    let gateway = Gateway::stopped(world, World::settings().cluster("north", METERS));
    let store = Store::open(&gateway.store_path(), 4).unwrap();
    backfill(&store, &north(), &past(world)).unwrap();
    gateway
}

#[tokio::test(start_paused = true)]
async fn what_was_filled_in_is_marked_and_neither_counted_nor_announced() {
    let world = World::new();
    let mut gateway = filled_in(&world);
    gateway.restart();
    gateway.wait_until_ready().await;

    let slots = gateway.get("/api/v1/clusters/north/slots?limit=1000").await.json();
    let slots = slots["slots"].as_array().unwrap().clone();
    assert_eq!(slots.len(), usize::try_from(SLOTS).unwrap());
    assert!(slots.iter().all(|slot| slot["backfilled"] == true && slot["epoch"] == 0), "{slots:?}");
    assert!(slots.iter().all(|slot| slot["load_filtered_watts"].is_i64()), "{slots:?}");
    let csv = gateway.get("/api/v1/clusters/north/slots?format=csv&limit=1000").await;
    assert_eq!(csv.text().lines().filter(|line| line.ends_with(",true")).count(), slots.len(), "{}", csv.text());
    let cluster = gateway.get("/api/v1/clusters/north").await.json();
    assert_eq!((&cluster["last"], &cluster["last_decoded"]["backfilled"]), (&serde_json::Value::Null, &true.into()));
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
async fn live_slots_follow_and_the_filter_goes_on_from_what_was_filled_in() {
    let world = World::new();
    let mut gateway = filled_in(&world);
    gateway.restart();
    gateway.wait_until_ready().await;
    let fleet = world.fleet("north", METERS);
    eventually("a slot is decoded", async || {
        gateway.metrics().await.sum("dream_slots_total", &[("cluster", "north"), ("outcome", "decoded")]) > 0.0
    })
    .await;
    let last = gateway.get("/api/v1/clusters/north").await.json()["last"].clone();
    assert_eq!((&last["backfilled"], &last["epoch"]), (&false.into(), &fleet.list(1).await.epoch().into()), "{last}");
    assert_eq!(gateway.metric("dream_cluster_epsilon_day", "north").await, Some(1.0));

    gateway.stop().await;
    let store = Store::open(&gateway.store_path(), 4).unwrap();
    let kept = store.slots(&north(), Timestamp::from_secs(0), NEVER, usize::MAX).unwrap();
    assert!(kept.len() > usize::try_from(SLOTS).unwrap());
    let mut filter = ClusterFilter::new(&Zone::default(), &[]);
    for slot in kept {
        assert_eq!(slot.filtered, filter.observe(&slot.outcome), "as if the same filter had seen all: {slot:?}");
    }
}

#[test]
fn only_simulated_slots_of_a_new_cluster_can_be_filled_in() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("gateway.redb"), 4).unwrap();
    let simulated = |slot| Slotted { epoch: 0, ..Slotted::new(slot) }.decoded(1000, 95);
    let real = Slotted::new(8).decoded(1000, 95);
    let refused = backfill(&store, &north(), &[simulated(7), real]).unwrap_err();
    assert!(matches!(refused, BackfillError::OfAList { slot: 8, epoch: 1 }), "{refused}");
    backfill(&store, &north(), &[simulated(7)]).unwrap();
    assert!(matches!(backfill(&store, &north(), &[simulated(8)]), Err(BackfillError::NotNew(_))));
    let kept = store.slots(&north(), Timestamp::from_secs(0), NEVER, 10).unwrap();
    assert_eq!(kept.iter().map(|slot| slot.outcome.slot.0).collect::<Vec<_>>(), [7]);
}
