//! The account of each UTC day: reserved, drawn on by readings, and erased (`protocol.md 5a`).
//!
//! A slot belongs to the day in which it starts. What the account allows of a reading is hidden in the reading's message like
//! the reading itself; nothing else that a meter does depends on it.

use alloc::vec::Vec;

use super::{Conduct, Meter};
use crate::day::DAY_SECONDS;
use crate::params::Params;
use crate::reading::Reading;
use crate::time::{Slot, Timestamp};

impl<C: Conduct> Meter<C> {
    /// Draws a reading on its day's account, and returns what is reported of it.
    pub(super) fn reported(&mut self, slot: Slot, params: &Params, reading: &Reading) -> Reading {
        match self.conduct.day_weight(params.day_weight()) {
            Some(weight) => self.account.days.grant(slot, params, reading, weight),
            None => reading.clone(),
        }
    }

    /// Erases the accounts of days whose last slot is closed. From then on, no slot of such a day is reported any more, even
    /// if the clock is put back.
    pub(super) fn close_days(&mut self, at: Timestamp) {
        let over: Vec<u64> = self.account.days.open().filter(|&day| self.lists.day_closes(day) <= at).collect();
        if over.is_empty() {
            return;
        }
        for day in over {
            self.account.days.close(day);
            self.account.high_water = self.account.high_water.max((day + 1) * DAY_SECONDS);
        }
        self.persist_account();
    }

    /// When the next account is to be erased.
    pub(super) fn days_deadline(&self) -> Option<Timestamp> {
        self.account.days.open().map(|day| self.lists.day_closes(day)).min()
    }
}
