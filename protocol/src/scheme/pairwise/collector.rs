//! What the gateway collects in an attempt of the pairwise scheme.

use alloc::boxed::Box;
use alloc::vec;

use crate::member_set::MemberSet;

/// Readings and reveals of one attempt. Arithmetic is modulo 2^64 and wraps on purpose.
#[derive(Debug)]
pub(crate) struct Collector {
    readings: Tally,
    reveals: Tally,
}

impl Collector {
    pub(crate) fn new(members: u16) -> Self {
        Self { readings: Tally::new(members), reveals: Tally::new(members) }
    }

    /// The ciphertext that a member sent, if it did.
    pub(crate) fn reading(&self, member: u16) -> Option<u64> {
        self.readings.get(member)
    }

    /// Takes a ciphertext, and what is left of it without the member's stream.
    pub(crate) fn add_reading(&mut self, member: u16, ciphertext: u64, unstreamed: u64) {
        self.readings.add(member, ciphertext, unstreamed);
    }

    /// How many readings there are.
    pub(crate) const fn count(&self) -> u16 {
        self.readings.count
    }

    pub(crate) fn reveal(&self, member: u16) -> Option<u64> {
        self.reveals.get(member)
    }

    pub(crate) fn add_reveal(&mut self, member: u16, revealed: u64) {
        self.reveals.add(member, revealed, revealed);
    }

    /// Whether everybody who is not missing has revealed.
    pub(crate) fn is_complete(&self, members: u16, missing: &MemberSet) -> bool {
        self.reveals.count + missing.len() == members
    }

    /// The sum over everybody who is not missing; `unstreamed` gives what is left of a member's ciphertext without its stream.
    pub(crate) fn sum(&self, missing: &MemberSet, unstreamed: impl Fn(u16, u64) -> u64) -> i64 {
        let left_out = missing.iter().filter_map(|member| Some(unstreamed(member, self.readings.get(member)?)));
        let readings = left_out.fold(self.readings.sum, u64::wrapping_sub);
        readings.wrapping_sub(self.reveals.sum).cast_signed()
    }
}

/// One value per member, and the sum of what they contribute.
#[derive(Debug)]
struct Tally {
    values: Box<[u64]>,
    present: MemberSet,
    count: u16,
    sum: u64,
}

impl Tally {
    fn new(members: u16) -> Self {
        Self { values: vec![0; members.into()].into(), present: MemberSet::empty(members), count: 0, sum: 0 }
    }

    fn get(&self, member: u16) -> Option<u64> {
        self.present.contains(member).then(|| self.values[usize::from(member)])
    }

    fn add(&mut self, member: u16, value: u64, contribution: u64) {
        if self.present.contains(member) || usize::from(member) >= self.values.len() {
            return;
        }
        self.present.insert(member);
        self.values[usize::from(member)] = value;
        self.count += 1;
        self.sum = self.sum.wrapping_add(contribution);
    }
}
