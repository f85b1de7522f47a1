//! The energy account of each UTC day: reserved, drawn on by readings, and erased (`protocol.md 5a`).
//!
//! A slot belongs to the day in which it starts. What the account allows of a reading is hidden in the reading's message like
//! the reading itself; nothing else that a meter does depends on it.

use super::{Conduct, Meter};
use crate::day::DAY_SECONDS;
use crate::params::Params;
use crate::reading::Reading;
use crate::time::Timestamp;

impl<C: Conduct> Meter<C> {
    /// Returns the largest E that a day may reserve at the slot that starts at `start`: of the lists that were accepted before
    /// the slot began and cover some slot of its day.
    pub(super) fn largest_day(&self, start: Timestamp) -> u64 {
        let day = start.utc_day();
        let held = self.lists.values().filter(|held| held.accepted_at <= start);
        let of_day = held.filter_map(|held| {
            let params = held.list.params();
            let [first, last] =
                [held.list.from_slot(), held.list.to_slot()].map(|slot| params.slot_start(slot).utc_day());
            (first..=last).contains(&day).then_some(params.terms().day_micro_epsilon)
        });
        of_day.max().unwrap_or(0)
    }

    /// Draws a reading on its day's account, and returns what is reported of it.
    pub(super) fn reported(&mut self, day: u64, params: &Params, reading: &Reading) -> Reading {
        if self.conduct.keeps_account() { self.account.days.grant(day, params, reading) } else { reading.clone() }
    }

    /// Erases the accounts of days whose last slot is closed. From then on, no slot of such a day is reported any more, even
    /// if the clock is put back.
    pub(super) fn close_days(&mut self, at: Timestamp) {
        let over: Vec<u64> = self.account.days.open().filter(|&day| self.day_closes(day) <= at).collect();
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
        self.account.days.open().map(|day| self.day_closes(day)).min()
    }

    /// When the last slot that starts on a day is closed, under whichever list is held.
    fn day_closes(&self, day: u64) -> Timestamp {
        let last_second = Timestamp::from_secs((day + 1) * DAY_SECONDS - 1);
        let closed = self.lists.values().map(|held| {
            let params = held.list.params();
            params.slot_expiry(params.slot_at(last_second))
        });
        closed.fold(last_second.plus_secs(1), Timestamp::max)
    }
}
