//! Which clusters may hold a meter, without looking through all of them.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use dream_protocol::ids::ClusterId;

/// Clusters by the hashes of their meters: few bytes a meter. It never forgets one that is there, and may name clusters that hold
/// the meter no more: their machines know.
#[derive(Debug, Default)]
pub(super) struct MeterIndex {
    hasher: RandomState,
    numbers: HashMap<ClusterId, u32>,
    clusters: Vec<ClusterId>,
    known: BTreeSet<(u64, u32)>,
}

impl MeterIndex {
    /// Notes that a cluster has heard of a meter.
    pub(super) fn note(&mut self, cluster: &ClusterId, meter: &str) {
        let number = match self.numbers.get(cluster) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.clusters.len()).expect("fewer clusters than that are configured");
                self.numbers.insert(cluster.clone(), number);
                self.clusters.push(cluster.clone());
                number
            }
        };
        self.known.insert((self.hasher.hash_one(meter), number));
    }

    /// Returns the clusters that may hold a meter.
    pub(super) fn clusters(&self, meter: &str) -> impl Iterator<Item = &ClusterId> {
        let hash = self.hasher.hash_one(meter);
        let found = self.known.range((hash, 0)..=(hash, u32::MAX));
        found.filter_map(|(_, number)| self.clusters.get(usize::try_from(*number).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_found_wherever_it_was_noted_and_nowhere_else() {
        let [north, south] = ["north", "south"].map(|name| ClusterId::new(name).unwrap());
        let mut index = MeterIndex::default();
        for number in 0..1000 {
            index.note(&north, &format!("m-{number}"));
            index.note(&north, &format!("m-{number}"));
        }
        index.note(&south, "m-7");
        assert_eq!(index.clusters("m-7").collect::<Vec<_>>(), [&north, &south]);
        assert_eq!(index.clusters("m-8").collect::<Vec<_>>(), [&north]);
        assert_eq!(index.clusters("m-1000").count(), 0);
        assert_eq!(index.known.len(), 1001);
    }
}
