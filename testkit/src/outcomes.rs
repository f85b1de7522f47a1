//! Closed slots for tests. Only the protocol makes an aggregate, so these come through the record that it persists.

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;

/// A slot about to be closed: of 100 members and 600 s by default.
#[derive(Debug, Clone, Copy)]
pub struct Slotted {
    pub slot: u64,
    pub slot_seconds: u64,
    pub epoch: u64,
    pub members: u16,
    pub honest: u16,
    pub attempts: u8,
    pub micro_epsilon: u64,
    pub noise_scale: u64,
}

impl Slotted {
    pub fn new(slot: u64) -> Self {
        Self {
            slot,
            slot_seconds: 600,
            epoch: 1,
            members: 100,
            honest: 80,
            attempts: 1,
            micro_epsilon: 1_000_000,
            noise_scale: 9000,
        }
    }

    pub fn decoded(self, watts: i64, responders: u16) -> SlotOutcome {
        self.outcome("decoded", watts, responders)
    }

    pub fn failed(self, word: &str, responders: u16) -> SlotOutcome {
        self.outcome(word, 0, responders)
    }

    fn outcome(self, word: &str, watts: i64, responders: u16) -> SlotOutcome {
        let start = self.slot * self.slot_seconds * 1000;
        let numbers = [
            7,
            self.slot,
            start,
            start + self.slot_seconds * 1000,
            self.epoch,
            self.members.into(),
            self.honest.into(),
            responders.into(),
            self.attempts.into(),
            self.micro_epsilon,
            self.noise_scale,
            1,
        ];
        let mut bytes = vec![0x80 | 14];
        numbers.iter().for_each(|&number| head(&mut bytes, 0, number));
        head(&mut bytes, 3, word.len().try_into().unwrap());
        bytes.extend(word.bytes());
        match u64::try_from(watts) {
            Ok(watts) => head(&mut bytes, 0, watts),
            Err(_) => head(&mut bytes, 1, watts.unsigned_abs() - 1),
        }
        let Record::Outcome(outcome) = Record::decode(&bytes).unwrap() else {
            panic!("a record of kind 7 is an outcome")
        };
        outcome
    }
}

/// The head of a CBOR item, as short as it can be.
fn head(bytes: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    match value {
        0..24 => bytes.push(major | u8::try_from(value).unwrap()),
        24..0x100 => bytes.extend([major | 24, u8::try_from(value).unwrap()]),
        0x100..0x1_0000 => {
            bytes.push(major | 25);
            bytes.extend(u16::try_from(value).unwrap().to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            bytes.push(major | 26);
            bytes.extend(u32::try_from(value).unwrap().to_be_bytes());
        }
        _ => {
            bytes.push(major | 27);
            bytes.extend(value.to_be_bytes());
        }
    }
}
