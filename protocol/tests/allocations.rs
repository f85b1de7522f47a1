//! The gateway's hot path takes no memory from the heap: what arrives by the thousand costs arithmetic alone.

mod support;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::hall::Hall;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn accepting_a_reading_allocates_nothing() {
    let mut hall = Hall::new(40);
    let packets = hall.readings(hall.next);
    let now = hall.open_next_slot();
    let ((first, bytes), rest) = packets.split_first().unwrap();
    assert_eq!(hall.receive(first, bytes, now), 1, "the first makes room in the queue of outputs");

    let region = Region::new(ALLOCATOR);
    let accepted: u64 = rest.iter().map(|(topic, payload)| hall.receive(topic, payload, now)).sum();
    let change = region.change();
    assert_eq!(accepted, rest.len() as u64);
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
