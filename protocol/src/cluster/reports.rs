//! What members say of lists that this gateway does not know, because it lost its records (`protocol-gateway.md 8`, "Lifecycle
//! at the gateway").

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::MeterId;
use crate::time::Timestamp;

/// Within this time what a meter says leads to one list at most.
const CALM_SECONDS: u64 = 86_400;

/// How many meters at least must say the same, or all if there are fewer.
const LEAST_REPORTERS: usize = 3;

/// The newest epochs that members say they know, of lists that are not known here, and what protection they ask for.
#[derive(Debug, Default)]
pub(super) struct Reports {
    epochs: BTreeMap<MeterId, u64>,
    /// When a list last followed from what a meter said, for as long as that counts.
    answered: BTreeMap<MeterId, Timestamp>,
    /// The least T that members say they accept.
    malicious: BTreeMap<MeterId, u16>,
}

impl Reports {
    /// Takes note of what a meter says, unless a list has followed from its words already today.
    pub(super) fn note(&mut self, meter: &MeterId, epoch: u64, now: Timestamp) {
        self.answered.retain(|_, answered| now.millis_since(*answered) < CALM_SECONDS * 1000);
        if !self.answered.contains_key(meter) {
            self.epochs.insert(meter.clone(), epoch);
        }
    }

    /// Returns the highest epoch that more than a tenth of so many meters say they know, or a later one.
    pub(super) fn agreed(&self, known: usize) -> Option<u64> {
        let needed = (known / 10 + 1).max(LEAST_REPORTERS).min(known.max(1));
        let mut epochs: Vec<u64> = self.epochs.values().copied().collect();
        epochs.sort_unstable_by(|one, other| other.cmp(one));
        epochs.get(needed - 1).copied()
    }

    /// Takes note of the least T that a meter accepts.
    pub(super) fn note_malicious(&mut self, meter: MeterId, malicious: u16) {
        self.malicious.insert(meter, malicious);
    }

    /// Returns the T that more than a tenth of so many meters, and at least three, ask for: fewer could be liars that want
    /// more noise.
    pub(super) fn asked_malicious(&self, known: usize) -> u16 {
        let mut asked: Vec<u16> = self.malicious.values().copied().collect();
        asked.sort_unstable_by_key(|&malicious| core::cmp::Reverse(malicious));
        asked.get((known / 10).max(2)).copied().unwrap_or(0)
    }

    /// A list was published: forgets what is known by now, and what a list has followed from.
    pub(super) fn settle(&mut self, followed: bool, is_unknown: impl Fn(u64) -> bool, now: Timestamp) {
        if followed {
            self.answered.extend(core::mem::take(&mut self.epochs).into_keys().map(|meter| (meter, now)));
        }
        self.epochs.retain(|_, epoch| is_unknown(*epoch));
        self.malicious.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(epochs: &[u64]) -> Reports {
        let mut reports = Reports::default();
        for (number, &epoch) in epochs.iter().enumerate() {
            reports.note(&MeterId::new(&format!("m-{number}")).unwrap(), epoch, Timestamp::from_secs(0));
        }
        reports
    }

    #[test]
    fn more_than_a_tenth_and_at_least_three_must_agree_or_all_of_fewer() {
        assert_eq!(reports(&[]).agreed(0), None);
        assert_eq!((reports(&[7]).agreed(1), reports(&[7]).agreed(2)), (Some(7), None));
        assert_eq!(reports(&[7, 9]).agreed(2), Some(7));
        assert_eq!((reports(&[7, 9]).agreed(20), reports(&[7, 9, 8]).agreed(20)), (None, Some(7)));
        assert_eq!(reports(&[9; 10]).agreed(100), None, "as many as may collude");
        assert_eq!(reports(&[[9; 10].as_slice(), &[5, 3]].concat()).agreed(100), Some(5), "no liar raises it");
    }

    #[test]
    fn a_meter_is_listened_to_once_a_day() {
        let mut reports = reports(&[5, 5, 5]);
        reports.settle(true, |_| true, Timestamp::from_secs(100));
        let meter = |number: u64| MeterId::new(&format!("m-{number}")).unwrap();
        (0..3).for_each(|number| reports.note(&meter(number), 6, Timestamp::from_secs(100 + 86_399)));
        assert_eq!(reports.agreed(3), None);
        (0..3).for_each(|number| reports.note(&meter(number), 6, Timestamp::from_secs(100 + 86_400)));
        assert_eq!(reports.agreed(3), Some(6));
    }
}
