//! The largest load of each cluster in each slot, which is what the paper scales its noise by: lambda(t).
//!
//! Noise of this scale gives every home of the cluster epsilon 1 or less in every slot: what it draws, divided by what the
//! largest draws. Nobody knows the largest load beforehand, and to say it tells something of the home that has it. The
//! product uses a constant range instead.

use super::dataset::Loads;

/// Homes in clusters, with each cluster's peaks.
#[derive(Debug)]
pub(super) struct Peaks {
    cluster_of: Vec<usize>,
    watts: Vec<Vec<f64>>,
}

impl Peaks {
    /// Puts homes that are next to each other in this order together, in as many clusters as come nearest to `size` homes
    /// each. What does not divide is spread over all of them.
    pub(super) fn of(loads: &Loads, order: &[usize], size: usize) -> Self {
        let clusters = ((order.len() + size / 2) / size).max(1);
        let mut cluster_of = vec![0; loads.homes()];
        let mut watts = vec![vec![0.0_f64; loads.slots()]; clusters];
        for (place, &home) in order.iter().enumerate() {
            let cluster = place * clusters / order.len();
            cluster_of[home] = cluster;
            let peaks = watts[cluster].iter_mut().zip(&loads.watts[home]);
            peaks.for_each(|(peak, load)| *peak = peak.max(load.abs()));
        }
        Self { cluster_of, watts }
    }

    /// How many homes are in a cluster, on average and rounded.
    pub(super) fn size(&self) -> usize {
        (self.cluster_of.len() + self.watts.len() / 2) / self.watts.len()
    }

    /// The peaks of the cluster that this home is in.
    pub(super) fn around(&self, home: usize) -> &[f64] {
        &self.watts[self.cluster_of[home]]
    }

    /// The epsilon of each slot of something that this home drew: its watts in proportion to the peak.
    pub(super) fn epsilons(&self, home: usize, watts: &[f64]) -> Vec<f64> {
        let slots = watts.iter().zip(self.around(home));
        slots.map(|(watts, peak)| if *watts == 0.0 { 0.0 } else { watts.abs() / peak }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::slots::SlotLength;

    fn loads() -> Loads {
        let watts = [[1.0, 50.0], [20.0, 5.0], [3.0, 7.0], [-40.0, 0.0], [5.0, 0.0]];
        Loads::new(SlotLength::new(600).unwrap(), watts.map(|watts| watts.to_vec()).into())
    }

    #[test]
    fn every_slot_has_a_peak_of_its_own() {
        let peaks = Peaks::of(&loads(), &[1, 0, 4, 2, 3], 3);
        assert_eq!(peaks.around(0), [20.0, 50.0]);
        assert_eq!(peaks.around(1), peaks.around(4), "the fifth home joins a cluster of two");
        assert_eq!(peaks.around(3), [40.0, 7.0], "what is fed in has to be hidden as well");
        assert_eq!(Peaks::of(&loads(), &[1, 0, 4, 2, 3], 9).around(2), [40.0, 50.0]);
    }

    #[test]
    fn clusters_are_as_near_to_the_wanted_size_as_the_homes_allow() {
        let sizes = |homes: usize, wanted| {
            let loads = Loads { watts: vec![vec![1.0]; homes], ..loads() };
            let peaks = Peaks::of(&loads, &(0..homes).collect::<Vec<_>>(), wanted);
            let mut sizes = vec![0; peaks.watts.len()];
            peaks.cluster_of.iter().for_each(|cluster| sizes[*cluster] += 1);
            (sizes, peaks.size())
        };
        assert_eq!(sizes(19, 10), (vec![10, 9], 10));
        assert_eq!(sizes(199, 100), (vec![100, 99], 100));
        assert_eq!(sizes(149, 100), (vec![149], 149));
        assert_eq!(sizes(34, 10), (vec![12, 11, 11], 11));
        assert_eq!(sizes(7, 10), (vec![7], 7));
    }

    #[test]
    fn epsilon_is_a_share_of_the_peak() {
        let peaks = Peaks::of(&loads(), &[0, 1, 2, 3, 4], 5);
        assert_eq!(peaks.epsilons(1, &[20.0, 5.0]), [0.5, 0.1]);
        assert_eq!(peaks.epsilons(3, &[-40.0, 0.0]), [1.0, 0.0]);
        let nothing = Loads { watts: vec![vec![0.0]; 2], ..loads() };
        assert_eq!(Peaks::of(&nothing, &[0, 1], 2).epsilons(0, &[0.0]), [0.0], "not a number is no epsilon");
    }
}
