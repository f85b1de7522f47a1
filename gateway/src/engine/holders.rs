//! Which holders drop out or contradict others, counted over two days.

use std::collections::BTreeMap;

use dream_protocol::cluster::HoldersReport;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::Timestamp;

use crate::board::holders::HolderJson;

/// How often holders of a cluster dropped out or answered wrongly, today and yesterday (UTC).
#[derive(Debug, Clone, Default)]
pub struct HolderTally {
    days: BTreeMap<u64, Day>,
}

#[derive(Debug, Clone, Default)]
struct Day {
    slots: u32,
    meters: BTreeMap<MeterId, Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    vanished: u32,
    wrong: u32,
}

impl HolderTally {
    /// Counts what a report names, and forgets days before yesterday.
    pub fn note(&mut self, report: &HoldersReport, now: Timestamp) {
        let today = now.utc_day();
        self.days.retain(|&day, _| day + 1 >= today);
        let Day { slots, meters } = self.days.entry(today).or_default();
        *slots += 1;
        for meter in &report.vanished {
            meters.entry(meter.clone()).or_default().vanished += 1;
        }
        for meter in &report.wrong {
            meters.entry(meter.clone()).or_default().wrong += 1;
        }
    }

    /// Returns who was counted, by id.
    pub fn named(&self, cluster: &ClusterId) -> Vec<HolderJson> {
        let of_slots = self.days.values().map(|day| day.slots).sum();
        let mut meters: BTreeMap<&MeterId, Counts> = BTreeMap::new();
        for (meter, counts) in self.days.values().flat_map(|day| &day.meters) {
            let sum = meters.entry(meter).or_default();
            sum.vanished += counts.vanished;
            sum.wrong += counts.wrong;
        }
        let named = |(meter, counts): (&MeterId, Counts)| HolderJson {
            cluster: cluster.to_string(),
            meter: meter.to_string(),
            vanished_slots: counts.vanished,
            wrong_slots: counts.wrong,
            of_slots,
        };
        meters.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use dream_protocol::time::Slot;

    use super::*;

    #[test]
    fn holders_are_counted_over_today_and_yesterday() {
        let report = |vanished: &[&str], wrong: &[&str]| {
            let ids = |ids: &[&str]| ids.iter().map(|id| MeterId::new(id).unwrap()).collect();
            let (vanished, wrong) = (ids(vanished), ids(wrong));
            HoldersReport { slot: Slot(1), epoch: 1, holders: 20, needed: 15, answered: 18, wrong, vanished }
        };
        let day = |day: u64| Timestamp::from_secs(day * 86_400);
        let mut tally = HolderTally::default();
        tally.note(&report(&["m-1", "m-2"], &[]), day(10));
        tally.note(&report(&["m-1"], &["m-3"]), day(11));
        let cluster = ClusterId::new("north").unwrap();
        let found = |tally: &HolderTally| -> Vec<(String, u32, u32, u32)> {
            let all = tally.named(&cluster).into_iter();
            all.map(|holder| (holder.meter, holder.vanished_slots, holder.wrong_slots, holder.of_slots)).collect()
        };
        let expected = [("m-1", 2, 0, 2), ("m-2", 1, 0, 2), ("m-3", 0, 1, 2)];
        assert_eq!(found(&tally), expected.map(|(meter, vanished, wrong, of)| (meter.to_owned(), vanished, wrong, of)));
        tally.note(&report(&[], &[]), day(12));
        assert_eq!(found(&tally), [("m-1".to_owned(), 1, 0, 2), ("m-3".to_owned(), 0, 1, 2)]);
    }
}
