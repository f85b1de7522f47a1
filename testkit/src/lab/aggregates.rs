//! What a gateway tells the world about its slots, held against what its meters measured.

use std::collections::BTreeMap;

use dream_protocol::time::Slot;
use serde::Deserialize;

use super::client::Message;
use super::fleet::Fleet;
use super::http::Answer;

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

/// Returns the slots of a cluster that were published on its aggregate topic.
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

/// Returns the slots in an answer of `/api/v1/clusters/NAME/slots`, which must have them all.
pub fn listed(answer: &Answer) -> Slots {
    #[derive(Deserialize)]
    struct Body {
        slots: Vec<Aggregate>,
        truncated: bool,
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    let Body { slots, truncated } = serde_json::from_slice(&answer.body).unwrap();
    assert!(!truncated);
    slots.into_iter().map(|aggregate| (aggregate.slot, aggregate)).collect()
}

/// Returns how many of the slots were decoded.
pub fn decoded(slots: &Slots) -> usize {
    slots.values().filter(|aggregate| aggregate.outcome == "decoded").count()
}

/// Checks that no slot between the first and the last is left out.
///
/// # Panics
/// If one is.
pub fn assert_no_gap(slots: &Slots) {
    let (first, last) = (*slots.keys().next().unwrap(), *slots.keys().next_back().unwrap());
    assert_eq!((first..=last).find(|slot| !slots.contains_key(slot)), None, "every slot has an outcome");
}

/// Compares a decoded slot with what its meters measured, to the watt.
///
/// # Panics
/// If it was not decoded, or differs.
pub fn assert_exact(aggregate: &Aggregate, fleet: &Fleet) {
    assert_eq!(aggregate.outcome, "decoded", "{aggregate:?}");
    let slot = Slot(aggregate.slot);
    let expected = fleet.expected(slot).unwrap_or_else(|| panic!("nobody was asked for {aggregate:?}"));
    assert_eq!(aggregate.load_watts, Some(expected.truth), "{aggregate:?}, {expected:?}");
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

/// Returns how many of the slots were decoded, each of them exactly. The others must have failed for one of the allowed reasons.
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
