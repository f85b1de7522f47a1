//! A gateway that starts: clusters are served as soon as they are rebuilt, and nothing is lost that comes for the others.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dream_gateway::history::{ClosedSlot, Extent, History, Read, Rollup, Span, Step};
use dream_gateway::store::{Change, OpenStoreError, Store, StoreError};
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_testkit::lab::aggregates::assert_exact_or;

use crate::world::gateway::Gateway;
use crate::world::{AT_REST_MILLIS, World};

/// A store that keeps the records of the cluster `south` until it is opened.
#[derive(Debug, Clone)]
pub struct Gate {
    store: Arc<dyn Store>,
    is_open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn open(is_open: &(Mutex<bool>, Condvar)) {
        *is_open.0.lock().unwrap() = true;
        is_open.1.notify_all();
    }
}

impl Store for Gate {
    fn records(&self, cluster: &ClusterId) -> Result<Vec<Record>, StoreError> {
        if cluster.as_str() == "south" {
            drop(self.is_open.1.wait_while(self.is_open.0.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
        self.store.records(cluster)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.store.commit(changes)
    }

    fn span(&self, cluster: &ClusterId) -> Result<Option<(u64, u64)>, StoreError> {
        self.store.span(cluster)
    }

    fn sent(&self, cluster: &ClusterId) -> Result<Option<dream_protocol::time::Timestamp>, StoreError> {
        self.store.sent(cluster)
    }

    fn clusters(&self) -> Result<Vec<ClusterId>, StoreError> {
        self.store.clusters()
    }

    fn reopen(&self) -> Result<(), OpenStoreError> {
        self.store.reopen()
    }
}

impl History for Gate {
    fn slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>> {
        self.store.slots(cluster, ended, limit)
    }

    fn rollups(&self, cluster: &ClusterId, step: Step, begun: Span, limit: usize) -> Read<Vec<Rollup>> {
        self.store.rollups(cluster, step, begun, limit)
    }

    fn extent(&self, cluster: &ClusterId) -> Read<Option<Extent>> {
        self.store.extent(cluster)
    }

    fn file_bytes(&self) -> u64 {
        self.store.file_bytes()
    }
}

/// Waits without virtual time, which stands still while a cluster is rebuilt.
async fn settle(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..20_000 {
        if holds().await {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    panic!("waited too long until {what}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_served_while_another_is_rebuilt_and_what_comes_for_that_one_waits() {
    let world = World::new();
    let mut gateway = Gateway::ready(&world, World::settings().cluster("north", 6).cluster("south", 6)).await;
    let fleets = ["north", "south"].map(|cluster| world.fleet(cluster, 6));
    for cluster in ["north", "south"] {
        gateway.decode_more(cluster, 1).await;
    }
    world.broker.wait_for(2, "north/reading/").await;
    gateway.kill().await;
    // All readings of the slot are there by now, and wait at the broker.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let is_open = Arc::new((Mutex::new(false), Condvar::new()));
    let gate = is_open.clone();
    gateway.restart_with(move |store| Arc::new(Gate { store, is_open: gate.clone() }));
    let name = gateway.name();
    let listed = async || gateway.get("/api/v1/clusters").await.text().to_owned();
    settle("north is served", async || listed().await.contains("\"north\"")).await;
    settle("what came for south waits", async || world.broker.unacknowledged(&name) > 0).await;
    assert!(!listed().await.contains("\"south\""));
    assert_eq!(gateway.get("/readyz").await.status, 503);
    Gate::open(&is_open);
    gateway.wait_until_ready().await;
    for (cluster, fleet) in ["north", "south"].into_iter().zip(&fleets) {
        let slots = gateway.decode_more(cluster, 1).await;
        assert_exact_or(&slots, fleet, &[]);
        assert!(slots.values().all(|slot| slot.missing == 0), "{slots:?}");
        assert_eq!(fleet.contradictions(), 0);
    }
    world.sleep_into_slot(AT_REST_MILLIS).await;
    assert_eq!(world.broker.unacknowledged(&name), 0, "nothing comes back for ever");
}
