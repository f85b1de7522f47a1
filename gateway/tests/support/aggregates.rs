//! What a gateway tells the world about its slots.

use std::collections::BTreeMap;

use dream_protocol::time::Slot;
use serde::Deserialize;

use super::client::Message;
use super::fleet::Fleet;
use super::gateway::Gateway;
use super::until_some;

/// A closed slot as JSON, on the aggregate topic and in the API.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Aggregate {
    pub slot: u64,
    pub start: String,
    pub end: String,
    pub outcome: String,
    pub load_watts: Option<i64>,
    pub band95_watts: Option<f64>,
    pub band99_watts: Option<f64>,
    pub load_estimated_watts: Option<f64>,
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<i64>,
    pub members: usize,
    pub responders: usize,
    pub missing: usize,
    pub attempts: u8,
    pub epoch: u64,
}

/// Slots by number.
pub type Slots = BTreeMap<u64, Aggregate>;

/// The slots of a cluster that were published on its aggregate topic.
///
/// # Panics
/// If one slot was published with two outcomes.
pub fn published(messages: &[Message], cluster: &str) -> Slots {
    let topic = format!("dream/v1/{cluster}/aggregate");
    let mut slots = Slots::new();
    for message in messages.iter().filter(|message| message.topic == topic && !message.payload.is_empty()) {
        let aggregate: Aggregate = serde_json::from_slice(&message.payload).unwrap();
        let known = slots.entry(aggregate.slot).or_insert_with(|| aggregate.clone());
        assert_eq!(*known, aggregate, "a slot never gets a second outcome");
    }
    slots
}

/// The slots of a cluster as the API lists them.
pub fn served(gateway: &Gateway, cluster: &str) -> Slots {
    #[derive(Deserialize)]
    struct Answer {
        slots: Vec<Aggregate>,
        truncated: bool,
    }
    let response = gateway.get(&format!("/api/v1/clusters/{cluster}/slots"));
    assert_eq!(response.status, 200, "{response:?}");
    let Answer { slots, truncated } = serde_json::from_str(&response.body).unwrap();
    assert!(!truncated);
    slots.into_iter().map(|aggregate| (aggregate.slot, aggregate)).collect()
}

/// Waits until the gateway is ready and so many slots more are decoded, and returns all there are.
pub async fn decode_more(gateway: &mut Gateway, cluster: &str, more: usize) -> Slots {
    gateway.wait_until_ready().await;
    let decoded = |slots: &Slots| slots.values().filter(|aggregate| aggregate.outcome == "decoded").count();
    let before = decoded(&served(gateway, cluster));
    until_some("more slots are decoded", || {
        Some(served(gateway, cluster)).filter(|slots| decoded(slots) >= before + more)
    })
    .await
}

/// Compares a decoded slot with what its meters measured, to the watt.
///
/// # Panics
/// If it was not decoded, or differs.
pub fn assert_exact(aggregate: &Aggregate, fleet: &Fleet) {
    assert_eq!(aggregate.outcome, "decoded", "{aggregate:?}");
    let slot = Slot(aggregate.slot);
    let expected = fleet.expected(slot).unwrap_or_else(|| panic!("nobody was asked for {aggregate:?}"));
    assert_eq!(aggregate.load_watts, Some(expected.watts), "{aggregate:?}, {expected:?}");
    assert_eq!(
        (aggregate.members, aggregate.responders, aggregate.missing, aggregate.attempts, aggregate.epoch),
        (
            expected.members,
            expected.responders.len(),
            expected.members - expected.responders.len(),
            expected.attempts,
            expected.epoch
        ),
        "{aggregate:?}, {expected:?}"
    );
    assert!(expected.responders.is_subset(&fleet.reported(slot)), "{expected:?}");
}

/// How many of the slots were decoded, each of them exactly. The others must have failed for one of the allowed reasons.
///
/// # Panics
/// If one differs, or failed otherwise.
pub fn assert_exact_or(slots: &Slots, fleet: &Fleet, allowed: &[&str]) -> usize {
    let mut decoded = 0;
    for aggregate in slots.values() {
        if allowed.contains(&aggregate.outcome.as_str()) {
            assert_eq!(aggregate.load_watts, None, "{aggregate:?}");
        } else {
            assert_exact(aggregate, fleet);
            decoded += 1;
        }
    }
    decoded
}
