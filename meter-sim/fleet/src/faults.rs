//! Injected faults, which depend on the seed, the meter and the slot alone, so that a run repeats.

use dream_protocol::ids::MeterId;
use dream_protocol::time::Slot;
use sha2::{Digest, Sha256};

/// How often faults happen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    pub seed: u64,
    /// The share of readings with a fault.
    pub rate: f64,
    /// The share of requests that find a meter gone which should answer: any member in the pairwise scheme, a holder of a
    /// committee.
    pub vanish: f64,
}

/// A fault of a meter in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The meter is switched off until the slot is over.
    Silent,
    /// Its reading goes out after the reading window.
    Late,
    /// Its reading goes out twice.
    Duplicate,
    /// Its reading is damaged on the way.
    Corrupted,
    /// The meter loses power and starts again from its records.
    Restart,
    /// Its clock is ahead by a second in this slot.
    Skew,
}

impl Fault {
    pub const ALL: [Self; 6] = [Self::Silent, Self::Late, Self::Duplicate, Self::Corrupted, Self::Restart, Self::Skew];
}

impl Fault {
    /// Returns whether the gateway goes without the reading.
    pub const fn loses_reading(self) -> bool {
        match self {
            Self::Silent | Self::Late | Self::Corrupted => true,
            Self::Duplicate | Self::Restart | Self::Skew => false,
        }
    }
}

impl Faults {
    /// Returns the fault of this meter in this slot, if there is one.
    pub fn at(&self, meter: &MeterId, slot: Slot) -> Option<Fault> {
        let (chance, choice) = self.draw(&format!("fault/{meter}/{slot}"));
        let kind = usize::try_from(choice % Fault::ALL.len() as u64).expect("one of six");
        (chance < self.rate).then_some(Fault::ALL[kind])
    }

    /// Returns whether this meter is gone when its answer for an attempt is requested. It is back for the next attempt, in
    /// which others may be gone.
    pub fn vanishes(&self, meter: &MeterId, slot: Slot, attempt: u8) -> bool {
        self.draw(&format!("vanish/{meter}/{slot}/{attempt}")).0 < self.vanish
    }

    /// Returns a pseudo-random number from 0 to 1, and one of 64 bits.
    fn draw(&self, what: &str) -> (f64, u64) {
        let hash = <[u8; 32]>::from(Sha256::digest(format!("{}/{what}", self.seed)));
        let word = |at: usize| u64::from_be_bytes(hash[at..at + 8].try_into().expect("eight bytes"));
        ((word(0) >> 11) as f64 / (1u64 << 53) as f64, word(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(number: u32) -> MeterId {
        MeterId::new(&format!("m-{number}")).unwrap()
    }

    #[test]
    fn faults_come_as_often_as_asked_for_and_the_same_with_the_same_seed() {
        let faults = Faults { seed: 7, rate: 0.3, vanish: 0.1 };
        let all = |faults: Faults| -> Vec<Option<Fault>> {
            (0..100).flat_map(|number| (0..100).map(move |slot| faults.at(&meter(number), Slot(slot)))).collect()
        };
        let found = all(faults);
        let count = found.iter().flatten().count();
        assert!((2800..3200).contains(&count), "{count}");
        for kind in Fault::ALL {
            let of_kind = found.iter().flatten().filter(|&&fault| fault == kind).count();
            assert!((400..600).contains(&of_kind), "{kind:?}: {of_kind}");
        }
        assert_eq!(found, all(faults));
        assert_ne!(found, all(Faults { seed: 8, ..faults }));
        let gone = |slot: u64, attempt| faults.vanishes(&meter(1), Slot(slot), attempt);
        let vanished = |attempt| (0..10_000).filter(|&slot| gone(slot, attempt)).count();
        assert!((850..1150).contains(&vanished(0)) && (850..1150).contains(&vanished(1)));
        let twice = (0..10_000).filter(|&slot| gone(slot, 0) && gone(slot, 1)).count();
        assert!((60..140).contains(&twice), "one attempt says nothing of the next: {twice}");
    }

    #[test]
    fn nothing_happens_at_rate_zero() {
        let faults = Faults { seed: 7, rate: 0.0, vanish: 0.0 };
        let happens = |slot| faults.at(&meter(1), slot).is_some() || faults.vanishes(&meter(1), slot, 0);
        assert!((0..1000).map(Slot).all(|slot| !happens(slot)));
    }
}
