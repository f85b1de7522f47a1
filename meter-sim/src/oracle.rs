//! The right answers: what every home really drew and hid, to hold against what the gateway says.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::simulation::Hidden;
use dream_protocol::time::Slot;
use dream_protocol::wire::RecoveryRequest;
use serde::Serialize;

/// What is known about one cluster.
#[derive(Debug, Default)]
pub struct Oracle {
    /// By slot and attempt, then by meter.
    hidden: BTreeMap<(Slot, u8), BTreeMap<String, Hidden>>,
    /// Which members a slot's last request leaves out, by slot.
    asked: BTreeMap<Slot, Asked>,
    lists: BTreeMap<u64, Arc<MembershipList>>,
}

#[derive(Debug)]
struct Asked {
    attempt: u8,
    list: Arc<MembershipList>,
    missing: MemberSet,
}

/// What the gateway should have decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The sum without noise.
    pub truth: i64,
    /// The sum with the noise that the meters added: what unmasking must give, to the watt.
    pub noisy: i64,
    pub responders: usize,
}

/// For how many slots answers are kept.
const KEPT: usize = 64;

impl Oracle {
    pub fn note_hidden(&mut self, meter: &str, hidden: Hidden) {
        self.hidden.entry((hidden.slot, hidden.attempt)).or_default().insert(meter.to_owned(), hidden);
        while self.hidden.len() > KEPT {
            self.hidden.pop_first();
        }
    }

    pub fn note_list(&mut self, list: &Arc<MembershipList>) {
        self.lists.insert(list.epoch(), list.clone());
        while self.lists.len() > 8 {
            self.lists.pop_first();
        }
    }

    /// Takes a request; a later attempt replaces an earlier one.
    pub fn note_request(&mut self, request: &RecoveryRequest) {
        let Some(list) = self.lists.values().find(|list| *list.hash() == request.list) else { return };
        let Ok(missing) = MemberSet::from_bytes(list.params().members(), &request.missing) else { return };
        if self.asked.get(&request.slot).is_none_or(|known| known.attempt < request.attempt) {
            self.asked.insert(request.slot, Asked { attempt: request.attempt, list: list.clone(), missing });
        }
        while self.asked.len() > KEPT {
            self.asked.pop_first();
        }
    }

    /// The answer for a slot; `None` if not everything about it is known here.
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        let asked = self.asked.get(&slot)?;
        let hidden = self.hidden.get(&(slot, asked.attempt))?;
        let mut expected = Expected { truth: 0, noisy: 0, responders: 0 };
        for (index, member) in (0u16..).zip(asked.list.members()) {
            if asked.missing.contains(index) {
                continue;
            }
            let one = hidden.get(member.id().as_str())?;
            expected.truth += one.watts;
            expected.noisy += one.watts + one.share;
            expected.responders += 1;
        }
        Some(expected)
    }
}
