//! The status of a cluster's meters.

use std::collections::{BTreeMap, BTreeSet};

use dream_protocol::meter::{Notice, Refusal};
use dream_protocol::policy::PolicyError;
use dream_protocol::time::{Slot, Timestamp};

use crate::liar::Begun;

/// The status of the meters of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Status {
    pub meters: usize,
    /// How many connections there should be.
    pub connections: usize,
    pub(crate) connected: BTreeSet<usize>,
    /// Why a connection was last lost, or not made.
    pub trouble: Option<String>,
    /// The newest list, and how many meters have accepted it.
    pub list: Option<(u64, usize)>,
    /// How many holders the newest list has; 0 in the pairwise scheme, where all meters answer.
    pub holders: usize,
    /// Whether meters are agreeing on keys for a list right now: so many in one process take long.
    pub busy: bool,
    /// When that ended for the first list of this process.
    pub since: Option<Timestamp>,
    /// The newest slot that was reported, how many meters have done so, and how many have answered the request for it.
    pub slot: Option<(Slot, usize, usize)>,
    /// How many slots were reported.
    pub slots: usize,
    /// What meters refused to do, in their words, and how often.
    pub refusals: BTreeMap<String, usize>,
    /// How often meters caught the gateway at something that no honest one does.
    pub accusations: usize,
    /// Meters that lie by now, in the order in which they began.
    pub lies: Vec<Begun>,
}

impl Status {
    pub fn connected(&self) -> usize {
        self.connected.len()
    }

    /// Whether all meters have come equally far, before their first slot.
    pub fn is_settled(&self) -> bool {
        let accepted = self.list.is_none_or(|(_, accepted)| accepted == self.meters);
        self.connected() == self.connections && accepted && self.slot.is_none()
    }

    pub(crate) fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Enrolled { .. } => {}
            Notice::ListAccepted { epoch, .. } => match &mut self.list {
                Some((known, accepted)) if known == epoch => *accepted += 1,
                newest if newest.is_none_or(|(known, _)| known < *epoch) => *newest = Some((*epoch, 1)),
                _ => {}
            },
            Notice::Charged { slot, attempt: 0 } => match &mut self.slot {
                Some((known, reported, _)) if known == slot => *reported += 1,
                newest if newest.is_none_or(|(known, ..)| known < *slot) => {
                    *newest = Some((*slot, 1, 0));
                    self.slots += 1;
                }
                _ => {}
            },
            Notice::Answered { slot, attempt: 0 } => {
                if let Some((_, _, answered)) = self.slot.as_mut().filter(|(known, ..)| known == slot) {
                    *answered += 1;
                }
            }
            Notice::Charged { .. } | Notice::Answered { .. } => {}
            Notice::Refused(refusal) if is_worth_telling(refusal) => {
                *self.refusals.entry(text(refusal)).or_default() += 1;
                self.accusations += usize::from(is_accusation(refusal));
            }
            Notice::Refused(_) => {}
        }
    }
}

/// Returns whether a refusal is worth showing. Others are routine: a meter was switched off, or has not received a list yet.
fn is_worth_telling(refusal: &Refusal) -> bool {
    let telling = matches!(
        refusal,
        Refusal::ClockDoubtful
            | Refusal::List(_)
            | Refusal::Policy(_)
            | Refusal::RecordLost
            | Refusal::StaleEpoch { .. }
            | Refusal::TooManyLists
            | Refusal::LedgerExhausted
    );
    telling || is_accusation(refusal)
}

/// Returns whether no honest gateway causes this refusal.
fn is_accusation(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TwoListsOfAnEpoch(_)
            | Refusal::BrokenChain(_)
            | Refusal::BadSignature
            | Refusal::TooManyMissing { .. }
            | Refusal::SecondRequest
    )
}

/// Returns the refusal as text, with the flag that lifts the limit if there is one.
fn text(refusal: &Refusal) -> String {
    let limit = matches!(
        refusal,
        Refusal::Policy(
            PolicyError::SlotTooShort { .. }
                | PolicyError::TooFewMembers { .. }
                | PolicyError::TooFewMalicious { .. }
                | PolicyError::TooFewHonest { .. }
        ) | Refusal::LedgerExhausted
    );
    if limit {
        return format!("{refusal}; real meters keep to that, --trial-policy lifts it");
    }
    let range = matches!(refusal, Refusal::Policy(PolicyError::Range { .. }));
    format!("{refusal}{}", if range { "; --range-watts sets it" } else { "" })
}
