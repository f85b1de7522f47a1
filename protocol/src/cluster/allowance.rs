//! How often each meter may have a signature checked: one that floods a gateway costs it little.

use alloc::collections::BTreeMap;

use super::Rejection;
use crate::ids::MeterId;
use crate::params::MAX_MEMBERS;
use crate::time::Timestamp;

/// How long counts are kept before they start anew.
const PERIOD_SECONDS: u64 = 60;

/// How many enrolments and statuses of a meter are checked in that time: one of each code, and some enrolments.
const MOST: u8 = 12;

/// How many meters are counted; with more, counting starts anew.
const METERS: usize = 2 * MAX_MEMBERS;

/// The enrolments and statuses of each meter within the current minute.
#[derive(Debug)]
pub(super) struct Allowance {
    ends: Timestamp,
    counts: BTreeMap<MeterId, u8>,
}

impl Allowance {
    pub(super) const fn new() -> Self {
        Self { ends: Timestamp::from_millis(0), counts: BTreeMap::new() }
    }

    /// Counts a message in a meter's name, even if somebody else sent it; refuses it if there were too many.
    pub(super) fn take(&mut self, meter: &str, now: Timestamp) -> Result<(), Rejection> {
        // A clock that was put back must not make a minute last.
        let whole = now.plus_secs(PERIOD_SECONDS);
        if self.ends <= now || whole < self.ends || self.counts.len() >= METERS {
            self.counts.clear();
            self.ends = whole;
        }
        let meter = MeterId::new(meter).map_err(|_| Rejection::Unknown)?;
        let count = self.counts.entry(meter).or_default();
        if *count == MOST {
            return Err(Rejection::TooOften);
        }
        *count += 1;
        Ok(())
    }
}
