//! The gateway's hot path takes no memory from the heap: what arrives by the thousand costs arithmetic alone.

use std::alloc::System;

use dream_testkit::keyed_cluster::KeyedCluster;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn accepting_a_reading_allocates_nothing() {
    let mut members = KeyedCluster::new(40);
    let packets = members.readings(members.next);
    let now = members.open_next_slot();
    let ((first, bytes), rest) = packets.split_first().unwrap();
    assert_eq!(members.receive(first, bytes, now), 1, "the first makes room in the queue of outputs");

    let region = Region::new(ALLOCATOR);
    let accepted: u64 = rest.iter().map(|(topic, payload)| members.receive(topic, payload, now)).sum();
    let change = region.change();
    assert_eq!(accepted, rest.len() as u64);
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
