//! Results of runs, counted.

use std::collections::BTreeMap;

use dream_protocol::aggregate::Failure;

/// Results of runs, counted so that a test can tell that it tried what it means to try.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub runs: u64,
    pub slots: u64,
    /// Decoded with every member, with some missing, and of these two, how many in a second attempt.
    pub whole: u64,
    pub recovered: u64,
    pub retried: u64,
    /// Readings of which the day's account left only a part, or nothing.
    pub in_part: u64,
    pub failed: BTreeMap<Failure, u64>,
    pub lists: u64,
    pub rejections: BTreeMap<&'static str, u64>,
    pub refusals: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.slots += other.slots;
        self.whole += other.whole;
        self.recovered += other.recovered;
        self.retried += other.retried;
        self.in_part += other.in_part;
        self.lists += other.lists;
        other.failed.iter().for_each(|(why, count)| *self.failed.entry(*why).or_default() += count);
        other.rejections.iter().for_each(|(why, count)| *self.rejections.entry(why).or_default() += count);
        other.refusals.iter().for_each(|(why, count)| *self.refusals.entry(why).or_default() += count);
    }

    pub fn failed(&self, why: Failure) -> u64 {
        self.failed.get(&why).copied().unwrap_or(0)
    }

    pub fn decoded(&self) -> u64 {
        self.whole + self.recovered
    }
}
