//! One member that spoils slots: what it did, and when it may take part again.

use super::LONGEST_WAIT;
use crate::ids::MeterId;
use crate::time::{Slot, Timestamp};

/// How long a quarantine has become when its member is left out of lists instead: three trials in a row have failed.
pub(super) const EXCLUDED_FROM_WAIT: u64 = 16;

/// The longest time that a member is left out of lists, in days.
pub(super) const MOST_DAYS: u64 = 32;

/// What a member did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offence {
    /// It sent readings and did not reveal.
    Silent,
    /// Sums with it are not those of readings and noise.
    SpoilsSums,
    /// Sums are spoiled when both it and this member are in them: one of the two does it.
    SuspectedWith(MeterId),
}

/// A member that spoiled slots, as far as the gateway can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offender {
    pub offence: Offence,
    /// The slot of the first offence.
    pub since: Slot,
    /// The slot of the last offence.
    pub last: Slot,
    /// How many slots it spoiled.
    pub failures: u32,
    /// While it is in quarantine, the slot in which it may take part again, on trial.
    pub next_trial: Option<Slot>,
    /// Until when it is left out of lists, if that leaves enough members.
    pub excluded_until: Option<Timestamp>,
    /// The length of its last quarantine, in slots.
    pub(super) wait: u64,
    /// For how many days it was last left out of lists.
    pub(super) days: u64,
    /// In how many trials in a row a sum failed with it and decoded without it, in one slot.
    pub(super) proofs: u64,
    /// Whether nobody else can explain the failures.
    pub(super) alone: bool,
    /// How far the trial of a pair has come: one of them takes part, then the other, then both.
    pub(super) stage: u8,
}

impl Offender {
    pub(super) fn new(offence: Offence, slot: Slot) -> Self {
        Self {
            offence,
            since: slot,
            last: slot,
            failures: 1,
            next_trial: None,
            excluded_until: None,
            wait: 0,
            days: 0,
            proofs: 0,
            alone: false,
            stage: 0,
        }
    }

    pub(super) fn spoils_sums(&self) -> bool {
        self.offence != Offence::Silent
    }

    /// Whether it is in quarantine and its trial has not come.
    pub(super) fn is_waiting(&self, slot: Slot) -> bool {
        // With another length of slots the numbers start elsewhere: nobody waits for one that is far away.
        self.next_trial.is_some_and(|trial| slot < trial && trial.0 <= slot.0 + LONGEST_WAIT + 1)
    }

    pub(super) fn is_on_trial(&self, slot: Slot) -> bool {
        self.next_trial.is_some() && !self.is_waiting(slot)
    }

    /// Puts it into quarantine for twice as long as the last time.
    pub(super) fn quarantine(&mut self, slot: Slot, longest: u64) {
        self.wait = (self.wait * 2).clamp(2, longest.max(self.wait));
        self.next_trial = Some(slot.plus(self.wait + 1));
        self.stage = 0;
    }

    /// Leaves it out of lists once trials do not help; never where another member may be the one.
    pub(super) fn exclude(&mut self, now: Timestamp) -> Option<Timestamp> {
        let certain = match self.offence {
            Offence::Silent => true,
            Offence::SpoilsSums => self.alone,
            Offence::SuspectedWith(_) => false,
        };
        let again = self.days > 0 || self.wait >= EXCLUDED_FROM_WAIT;
        if !certain || !again || self.excluded_until.is_some() {
            return None;
        }
        self.days = (self.days * 2).clamp(1, MOST_DAYS);
        self.excluded_until = Some(Timestamp::from_secs(now.as_secs() + self.days * 86_400));
        self.excluded_until
    }
}
