//! The right answers: what a gateway must find for a slot, from what it asked the meters and from what they measured.
//!
//! An [`Oracle`] is shown the lists and the recovery messages of one gateway. From the last request for a slot it knows who
//! is in the sum. What these meters measured is either reported to it ([`Oracle::note_hidden`]) or given as a function of
//! the meter and the slot, for which [`reading`] is a good choice: its sums tell who is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::ids::MeterId;
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::simulation::Hidden;
use dream_protocol::time::Slot;
use dream_protocol::wire::{Message as _, RecoveryMessage, RecoveryRequest, Sign1};

/// The most meters whose readings a sum can tell apart.
pub const MOST: usize = 16;

/// Returns what a meter measures in a slot: a digit to the base of three for each meter, another one in each slot, and above
/// them the slot. A sum shows who is missing in it, who is in it twice, and which slot it is of.
pub fn reading(meter: usize, slot: Slot) -> i64 {
    let turn = usize::try_from(slot.0 % MOST as u64).unwrap();
    let digit = 3i64.pow(u32::try_from((meter + turn) % MOST).unwrap());
    digit + i64::try_from(turn).unwrap() * 3i64.pow(16)
}

/// How many lists are remembered by an oracle that does not remember everything.
const LISTS: usize = 8;

/// What is known about one cluster.
#[derive(Debug)]
pub struct Oracle {
    /// By epoch and hash: there may be several of an epoch if the gateway contradicts itself.
    lists: BTreeMap<(u64, [u8; 32]), Arc<MembershipList>>,
    /// Signed messages by slot, attempt and kind: one each, unless the gateway contradicts itself.
    messages: BTreeMap<(Slot, u8, MessageKind), BTreeSet<Vec<u8>>>,
    contradictions: usize,
    /// By slot and attempt, then by meter.
    hidden: BTreeMap<(Slot, u8), BTreeMap<MeterId, Hidden>>,
    /// For how many messages and attempts answers are kept, if not for all.
    kept: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MessageKind {
    Request,
    Retry,
}

/// What a gateway must find for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub epoch: u64,
    pub members: usize,
    /// How many attempts were begun.
    pub attempts: u8,
    /// The members that the last request does not call missing.
    pub responders: BTreeSet<MeterId>,
    /// The sum of what they measured.
    pub truth: i64,
    /// The sum with the noise that they added: what unmasking must give, to the watt.
    pub noisy: i64,
}

impl Default for Oracle {
    /// Makes an oracle that remembers everything.
    fn default() -> Self {
        Self {
            lists: BTreeMap::new(),
            messages: BTreeMap::new(),
            contradictions: 0,
            hidden: BTreeMap::new(),
            kept: None,
        }
    }
}

impl Oracle {
    /// Makes an oracle for a run without end, which remembers about as many slots.
    pub fn remembering(slots: usize) -> Self {
        Self { kept: Some(slots), ..Self::default() }
    }

    /// Notes a list. A short one does not say who is a member, and is ignored.
    pub fn note_list(&mut self, list: &Arc<MembershipList>) {
        if !list.is_full() {
            return;
        }
        self.lists.insert((list.epoch(), list.hash().0), list.clone());
        while self.kept.is_some() && self.lists.len() > LISTS {
            self.lists.pop_first();
        }
    }

    /// Returns the lists that were noted, the oldest first.
    pub fn lists(&self) -> impl Iterator<Item = &Arc<MembershipList>> {
        self.lists.values()
    }

    /// Notes a request or a retry. What is not signed by the gateway of a known list is ignored.
    pub fn note_recovery(&mut self, bytes: &[u8]) {
        let Ok(envelope) = Sign1::decode(bytes) else { return };
        let Ok(message) = RecoveryMessage::decode(envelope.payload()) else { return };
        let key = match &message {
            RecoveryMessage::Request(request) => (request.slot, request.attempt, MessageKind::Request),
            RecoveryMessage::Retry(retry) => (retry.slot, retry.attempt, MessageKind::Retry),
        };
        if self.messages.get(&key).is_some_and(|known| known.contains(bytes)) {
            return;
        }
        let Some(list) = self.list(&message.list().0) else { return };
        if !envelope.verifies(list.gateway_identity(), &message.channel().topic(list.cluster())) {
            return;
        }
        let known = self.messages.entry(key).or_default();
        self.contradictions += usize::from(!known.is_empty());
        known.insert(bytes.to_vec());
        while self.kept.is_some_and(|kept| self.messages.len() > kept) {
            self.messages.pop_first();
        }
    }

    /// Notes what a meter hid in an attempt.
    pub fn note_hidden(&mut self, meter: &MeterId, hidden: Hidden) {
        self.hidden.entry((hidden.slot, hidden.attempt)).or_default().insert(meter.clone(), hidden);
        while self.kept.is_some_and(|kept| self.hidden.len() > kept) {
            self.hidden.pop_first();
        }
    }

    /// Returns how many requests and retries contradict an earlier one.
    pub fn contradictions(&self) -> usize {
        self.contradictions
    }

    /// Returns the answer for a slot, from what its meters hid; nothing if there was no request, or not all is known.
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        let asked = self.asked(slot)?;
        let hidden = self.hidden.get(&(slot, asked.attempts - 1))?;
        let each = asked.responders.iter().map(|meter| hidden.get(meter).map(|one| (one.watts, one.share)));
        let each = each.collect::<Option<Vec<_>>>()?;
        let (truth, noise) = each.iter().fold((0, 0), |(truth, noise), (watts, share)| (truth + watts, noise + share));
        Some(Expected { truth, noisy: truth + noise, ..asked })
    }

    /// Returns the answer for a slot of meters that add no noise, from what each of them measures; nothing if there was no
    /// request.
    pub fn expected_of(&self, slot: Slot, watts: impl Fn(&MeterId, Slot) -> i64) -> Option<Expected> {
        let asked = self.asked(slot)?;
        let truth = asked.responders.iter().map(|meter| watts(meter, slot)).sum();
        Some(Expected { truth, noisy: truth, ..asked })
    }

    /// Returns what the last request for a slot asks for, without a sum.
    fn asked(&self, slot: Slot) -> Option<Expected> {
        let mut of_slot = self.messages.range((slot, 0, MessageKind::Request)..=(slot, u8::MAX, MessageKind::Retry));
        let (_, requests) = of_slot.rfind(|((_, _, kind), _)| *kind == MessageKind::Request)?;
        let request = RecoveryRequest::decode(Sign1::decode(requests.first()?).ok()?.payload()).ok()?;
        let list = self.list(&request.list.0)?;
        let missing = MemberSet::from_bytes(list.params().members(), &request.missing).ok()?;
        let responders = (0..).zip(list.members()).filter(|(index, _)| !missing.contains(*index));
        Some(Expected {
            epoch: list.epoch(),
            members: list.members().len(),
            attempts: request.attempt + 1,
            responders: responders.map(|(_, member)| member.id().clone()).collect(),
            truth: 0,
            noisy: 0,
        })
    }

    fn list(&self, hash: &[u8; 32]) -> Option<&Arc<MembershipList>> {
        self.lists.iter().find(|((_, known), _)| known == hash).map(|(_, list)| list)
    }
}

#[cfg(test)]
mod tests;
