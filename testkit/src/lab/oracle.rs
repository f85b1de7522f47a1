//! What meters measure, who of them counts in a slot, and so what a gateway must find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::ids::ClusterId;
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::time::Slot;
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{RecoveryMessage, Sign1};

/// The most meters whose readings a sum can tell apart.
pub const MOST: usize = 16;

/// Returns what a meter measures: one digit to the base of three for each meter, another one in each slot, and above them the
/// slot. A sum shows who is missing in it, who is in it twice, and which slot it is of.
pub fn reading(meter: usize, slot: Slot) -> i64 {
    let turn = usize::try_from(slot.0 % MOST as u64).unwrap();
    let digit = 3i64.pow(u32::try_from((meter + turn) % MOST).unwrap());
    digit + i64::try_from(turn).unwrap() * 3i64.pow(16)
}

/// Returns the sum that these meters measure in a slot.
pub fn truth(slot: Slot, responders: impl IntoIterator<Item = usize>) -> i64 {
    responders.into_iter().map(|meter| reading(meter, slot)).sum()
}

/// Returns the name of a cluster's meter.
pub fn meter_name(cluster: &ClusterId, meter: usize) -> String {
    format!("{cluster}-{meter:02}")
}

/// Returns which of a cluster's meters has this name.
pub fn meter_of(name: &str) -> usize {
    name.rsplit_once('-').unwrap().1.parse().unwrap()
}

/// What a gateway must find for a slot: known from what it asked the meters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub watts: i64,
    pub members: usize,
    pub responders: BTreeSet<usize>,
    pub attempts: u8,
    pub epoch: u64,
}

/// Everything the gateway has said to a cluster.
#[derive(Debug)]
pub struct Oracle {
    cluster: ClusterId,
    lists: BTreeMap<[u8; 32], Arc<MembershipList>>,
    /// Signed requests and retries by slot and attempt: one each, unless the gateway contradicts itself.
    requests: BTreeMap<(Slot, u8), BTreeSet<Vec<u8>>>,
    retries: BTreeMap<(Slot, u8), BTreeSet<Vec<u8>>>,
}

impl Oracle {
    /// An oracle that has heard nothing yet.
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, lists: BTreeMap::new(), requests: BTreeMap::new(), retries: BTreeMap::new() }
    }

    /// Remembers a list.
    pub fn note_list(&mut self, list: &Arc<MembershipList>) {
        self.lists.insert(list.hash().0, list.clone());
    }

    /// Returns all lists.
    pub fn lists(&self) -> impl Iterator<Item = &Arc<MembershipList>> {
        self.lists.values()
    }

    /// Remembers what the gateway has signed; what others have put on its topic is nothing.
    pub fn note_recovery(&mut self, bytes: &[u8]) {
        let Ok(envelope) = Sign1::decode(bytes) else { return };
        let Ok(message) = RecoveryMessage::decode(envelope.payload()) else { return };
        let Some(list) = self.lists.get(&message.list().0) else { return };
        if envelope.verifies(list.gateway_identity(), &GatewayChannel::Recovery.topic(&self.cluster)) {
            let (said, attempt) = match &message {
                RecoveryMessage::Request(request) => (&mut self.requests, request.attempt),
                RecoveryMessage::Retry(retry) => (&mut self.retries, retry.attempt),
            };
            said.entry((message.slot(), attempt)).or_default().insert(bytes.to_vec());
        }
    }

    /// Returns how many requests or retries contradict an earlier one.
    pub fn contradictions(&self) -> usize {
        self.requests.values().chain(self.retries.values()).map(|said| said.len() - 1).sum()
    }

    /// Returns what the last request for the slot asks for; `None` if there was none.
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        let ((_, attempt), said) = self.requests.range((slot, 0)..=(slot, u8::MAX)).next_back()?;
        let envelope = Sign1::decode(said.first()?).unwrap();
        let RecoveryMessage::Request(request) = RecoveryMessage::decode(envelope.payload()).unwrap() else {
            unreachable!("only requests are kept as requests");
        };
        let list = &self.lists[&request.list.0];
        let missing = MemberSet::from_bytes(list.params().members(), &request.missing).unwrap();
        let members = (0..).zip(list.members());
        let responders: BTreeSet<usize> = members
            .filter(|&(index, _)| !missing.contains(index))
            .map(|(_, member)| meter_of(member.id().as_str()))
            .collect();
        Some(Expected {
            watts: truth(slot, responders.iter().copied()),
            members: list.members().len(),
            responders,
            attempts: attempt + 1,
            epoch: list.epoch(),
        })
    }
}
