//! What protected a home before: T, the number of colluders that the noise allows for, falls slowly or for a reason that can
//! be checked (`protocol.md 8`).
//!
//! A gateway chooses whom it lists, and the limits on T are a share of that. Without a memory it could list the colluders that
//! it has in a large cluster with a few homes, from one day to the next, and let T fall with N.

use crate::params::MAX_MEMBERS;
use crate::time::Timestamp;

/// How long a T counts for a meter, in seconds.
pub(crate) const METER_PERIOD: u64 = 30 * 86_400;

/// The same for a gateway: longer, so that its T never falls before a meter's may, which got the list later.
pub(crate) const GATEWAY_PERIOD: u64 = 31 * 86_400;

/// A T that protected a meter in a cluster, and when it last did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    malicious: u16,
    /// Unix seconds.
    since: u64,
}

impl Protection {
    pub const fn new(malicious: u16, at: Timestamp) -> Self {
        Self { malicious, since: at.as_secs() }
    }

    /// What a member remembers that accepts no T below this one.
    pub(crate) const fn of_least(least: u16, at: Timestamp) -> Self {
        let mut malicious = least + 1;
        while malicious - step(malicious) < least {
            malicious += 1;
        }
        Self::new(malicious, at)
    }

    /// Reads what a record has of it: nothing if T is 0.
    pub(crate) fn from_parts(malicious: u64, since: u64) -> Option<Self> {
        let malicious =
            u16::try_from(malicious).ok().filter(|found| (1..=MAX_MEMBERS).contains(&usize::from(*found)))?;
        Some(Self { malicious, since })
    }

    pub(crate) const fn parts(self) -> (u64, u64) {
        (self.malicious as u64, self.since)
    }

    /// The T that is remembered.
    pub const fn malicious(self) -> u16 {
        self.malicious
    }

    /// Returns what is left of it at a time: a step less for each period since it last protected.
    #[must_use]
    pub(crate) const fn lowered(mut self, at: Timestamp, period: u64) -> Self {
        while self.malicious > 1 && at.as_secs().saturating_sub(self.since) >= period {
            self.malicious -= step(self.malicious);
            self.since += period;
        }
        self
    }

    /// Returns the least T that a list may have without a reason.
    pub const fn least(self) -> u16 {
        self.malicious - step(self.malicious)
    }

    /// Returns what is remembered after a list with this T was accepted. One that is a step below is no protection yet: only
    /// time makes it one.
    #[must_use]
    pub(crate) const fn after(self, malicious: u16, at: Timestamp) -> Self {
        if malicious >= self.malicious { Self::new(malicious, at) } else { self }
    }
}

/// By how much T may fall at a time: a tenth, and at least one.
const fn step(malicious: u16) -> u16 {
    if malicious < 20 { 1 } else { malicious / 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn day(day: u64) -> Timestamp {
        Timestamp::from_secs(1_780_000_000 + day * DAY)
    }

    /// Follows a gateway that states the least T it can, every day, and returns T by day.
    fn falling(from: u16, days: u64) -> Vec<u16> {
        let mut memory = Protection::new(from, day(0));
        let state = |today| {
            memory = memory.lowered(day(today), METER_PERIOD);
            let stated = memory.least();
            memory = memory.after(stated, day(today));
            stated
        };
        (0..days).map(state).collect()
    }

    #[test]
    fn a_gateway_that_lowers_t_as_fast_as_it_can_lowers_it_by_a_step_in_thirty_days() {
        let stated = falling(20, 181);
        let on = |day: usize| stated[day];
        assert_eq!([0, 29, 30, 59, 60, 90, 120, 150, 180].map(on), [18, 18, 17, 17, 16, 15, 14, 13, 12]);
        assert_eq!(falling(1000, 91)[90], 657);
    }

    #[test]
    fn a_long_time_at_one_t_earns_no_sudden_fall() {
        let mut memory = Protection::new(20, day(0));
        for today in 0..400 {
            memory = memory.lowered(day(today), METER_PERIOD).after(20, day(today));
        }
        assert_eq!(memory.lowered(day(400), METER_PERIOD).least(), 18);
    }

    #[test]
    fn a_meter_that_was_away_for_long_forgets_step_by_step_and_never_all() {
        let memory = Protection::new(20, day(0));
        let left = |days| memory.lowered(day(days), METER_PERIOD).malicious();
        assert_eq!([29, 30, 60, 365, 3650].map(left), [20, 18, 17, 7, 1]);
        assert_eq!(memory.lowered(Timestamp::from_secs(u64::MAX / 2000), METER_PERIOD).malicious(), 1);
        assert_eq!(memory.lowered(Timestamp::from_secs(0), METER_PERIOD), memory, "a clock that was put back");
    }

    #[test]
    fn a_gateway_is_never_ahead_of_a_meter_that_got_its_list_within_a_day() {
        let (mut ours, mut theirs) = (Protection::new(40, day(0)), Protection::new(40, day(1)));
        for today in 1..400 {
            ours = ours.lowered(day(today), GATEWAY_PERIOD);
            let stated = ours.least();
            ours = ours.after(stated, day(today));
            theirs = theirs.lowered(day(today), METER_PERIOD);
            assert!(stated >= theirs.least(), "day {today}");
            theirs = theirs.after(stated, day(today + 1));
        }
        assert!(ours.malicious() < 30);
    }

    #[test]
    fn what_is_remembered_follows_from_the_least_that_is_accepted() {
        for malicious in 2..=10_000 {
            let memory = Protection::new(malicious, day(0));
            let guessed = Protection::of_least(memory.least(), day(0));
            assert_eq!(guessed.least(), memory.least());
            assert!(guessed.malicious() <= malicious);
        }
    }

    #[test]
    fn what_a_record_cannot_hold_is_no_memory() {
        let memory = Protection::new(20, day(0));
        let (malicious, since) = memory.parts();
        assert_eq!(Protection::from_parts(malicious, since), Some(memory));
        assert_eq!([0, 10_001, 1 << 16].map(|found| Protection::from_parts(found, since)), [None; 3]);
    }
}
