//! What `export` writes of a store: slots, hours and days.

use dream_gateway::clock::Zone;
use dream_gateway::engine::energy::RunningEnergy;
use dream_gateway::history::{ClosedSlot, FilteredLoad};
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_testkit::outcomes::Slotted;
use tempfile::TempDir;

use crate::command::{command, seen};

/// A store with four hours of a cluster, across a midnight in Amsterdam; one slot gave no sum.
fn store() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(&folder.path().join("gateway.redb"), 4).unwrap();
    let north = ClusterId::new("north").unwrap();
    let mut energy = RunningEnergy::resume(&store, &north, &Zone::named("Europe/Amsterdam").unwrap()).unwrap();
    // From 2026-11-16T21:00:00Z on.
    for slot in 2_991_438..2_991_462 {
        let outcome = match slot % 24 {
            3 => Slotted::new(slot).failed("reveal_missing", 95),
            _ => Slotted::new(slot).decoded(60_000, 100),
        };
        let predicted = outcome.result.err().map(|_| FilteredLoad { watts: 60_000, band95: 6000 });
        let rows = energy.add(&ClosedSlot { predicted, ..outcome.into() });
        let rows = rows.into_iter().map(|(step, rollup)| Change::PutRollup { cluster: north.clone(), step, rollup });
        let put = Change::Put(north.clone(), Record::Outcome(outcome));
        store.commit(&rows.chain([put]).collect::<Vec<_>>()).unwrap();
    }
    folder
}

#[test]
fn slots_hours_and_days_are_exported() {
    let folder = store();
    let export = |more: &[&str]| seen(command(folder.path()).args(["export", "--store", "gateway.redb"]).args(more));
    assert_eq!(export(&[]).lines().filter(|line| line.starts_with("north,")).count(), 24);
    let said = [
        export(&["--step", "hour"]),
        export(&["--step", "day"]),
        export(&["--step", "day", "--from", "2026-11-16", "--format", "jsonl"]),
    ];
    insta::assert_snapshot!(said.join("\n"));
}
