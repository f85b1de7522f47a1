//! The gateway's hot path takes no memory from the heap: what arrives by the thousand costs arithmetic alone.

use std::alloc::System;

use dream_protocol::cluster::Input;
use dream_testkit::example::cluster_config;
use dream_testkit::pki::Pki;
use dream_testkit::plain_cluster::{Conduct, PlainCluster};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn accepting_a_reading_allocates_nothing() {
    // One of them is silent, so that the slot stays open.
    let conducts = [vec![Conduct::Off], vec![Conduct::Honest; 39]].concat();
    let mut cluster = PlainCluster::new(cluster_config(&Pki::new(), 40), conducts, 1);
    let list = cluster.first_list();
    let packets = cluster.readings(list.from_slot(), 0, list.epoch());
    let now = list.params().slot_end(list.from_slot());
    cluster.gateway.handle(Input::Tick, now);
    let (first, rest) = packets.split_first().unwrap();
    assert_eq!(cluster.gateway.count_writes(first, now), 1, "the first makes room in the queue of outputs");

    let region = Region::new(ALLOCATOR);
    let accepted: u64 = rest.iter().map(|packet| cluster.gateway.count_writes(packet, now)).sum();
    let change = region.change();
    assert_eq!(accepted, rest.len() as u64);
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
