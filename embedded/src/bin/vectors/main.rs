//! The meter's part of `protocol/tests/vectors`, on the device: every number, every message, everything that must be refused.

#![no_std]
#![no_main]

extern crate alloc;

mod broken;
mod canary;
mod json;
mod machine;
mod noise;
mod numbers;
mod slots;

use alloc::string::String;
use alloc::vec::Vec;

use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use dream_embedded::{fail, memory, succeed};

/// What was checked of one file.
#[derive(Default)]
pub(crate) struct Tally {
    passed: u32,
    wrong: Vec<String>,
}

impl Tally {
    /// Counts one answer that has to be `expected`.
    pub(crate) fn check<T: PartialEq>(&mut self, name: &str, found: &T, expected: &T) {
        if found == expected {
            self.passed += 1;
        } else {
            self.wrong.push(name.into());
        }
    }
}

#[entry]
fn main() -> ! {
    memory::prepare();
    let suites: [(&str, fn(&mut Tally)); 14] = [
        ("canary", canary::canary),
        ("key_schedule", numbers::key_schedule),
        ("masks", numbers::masks),
        ("stream_and_secret", numbers::stream_and_secret),
        ("dealing", numbers::dealing),
        ("messages", numbers::messages),
        ("params", numbers::params),
        ("day", numbers::day),
        ("noise", noise::noise),
        ("slot", slots::slot),
        ("retry", slots::retry),
        ("committee_slot", slots::committee_slot),
        ("broken", broken::broken),
        ("committee_broken", broken::committee_broken),
    ];
    let (mut all, mut wrong) = (0, 0);
    for (name, suite) in suites {
        let mut tally = Tally::default();
        suite(&mut tally);
        hprintln!("{}: {} passed, {} failed", name, tally.passed, tally.wrong.len());
        tally.wrong.iter().for_each(|case| hprintln!("    FAILED {}", case));
        if tally.passed == 0 && tally.wrong.is_empty() {
            hprintln!("    nothing was checked");
            wrong += 1;
        }
        all += tally.passed;
        wrong += tally.wrong.len();
    }
    hprintln!("vectors: {} passed, {} failed", all, wrong);
    if wrong == 0 { succeed() } else { fail() }
}
