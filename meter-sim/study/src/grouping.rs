//! Clusters to look at: two hundred of one size, more than exist side by side, so that they tell how clusters differ.

use super::cluster::chance;
use super::dataset::Loads;
use dream_homes::clustering::{Clustering, shuffle};

/// As many as the paper looked at for each size.
pub(super) const CLUSTERS: usize = 200;
const SIZES: [usize; 11] = [10, 20, 30, 50, 70, 100, 200, 300, 500, 700, 1000];
/// The size that the paper gives numbers for.
pub(super) const PAPERS_SIZE: usize = 100;

/// The sizes of clusters that so many homes can make.
pub(super) fn sizes(homes: usize) -> impl Iterator<Item = usize> {
    SIZES.into_iter().filter(move |size| *size <= homes)
}

/// The same and this one.
pub(super) fn sizes_and(homes: usize, size: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = sizes(homes).chain(Some(size).filter(|size| *size <= homes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The size that was asked for. If none was, the paper's size, or the largest below it of which so many homes can make clusters
/// that differ; if there is none, the smallest size.
pub(super) fn usual_size(homes: usize, asked: Option<usize>) -> Option<usize> {
    if let Some(asked) = asked {
        return (asked <= homes).then_some(asked);
    }
    let usual = sizes(homes).take_while(|size| *size <= PAPERS_SIZE && differ(*size, homes));
    usual.last().or_else(|| sizes(homes).next())
}

/// Whether clusters of this size, of so many homes, tell how clusters differ. If one holds more than half of all homes, any
/// two have homes in common, and two that hold everybody are the same.
pub(super) fn differ(size: usize, homes: usize) -> bool {
    2 * size <= homes
}

/// The members of each cluster, whatever the length of slots. There must be so many homes.
///
/// Random clusters draw their homes without returning them. Consumption-based clusters are neighbours in the order of
/// daily use, as in the paper, whose clusters do not overlap: to have as many, ours begin at places evenly spread over
/// that order, from the smallest homes to the largest.
pub(super) fn clusters(loads: &Loads, clustering: Clustering, size: usize, seed: u64) -> Vec<Vec<usize>> {
    match clustering {
        Clustering::Random => {
            let mut chance = chance(seed, size as u64); // streams of homes begin far above
            (0..CLUSTERS).map(|_| rand::seq::index::sample(&mut chance, loads.homes(), size).into_vec()).collect()
        }
        Clustering::Consumption => {
            let order = loads.by_consumption();
            let last = loads.homes() - size;
            let begins = (0..CLUSTERS).map(|number| number * last / (CLUSTERS - 1));
            begins.map(|begin| order[begin..begin + size].to_vec()).collect()
        }
    }
}

/// Clusters that have no home in common, at most as many as [`clusters`] makes: what is left over is in none. Homes are taken by
/// lot, or as neighbours in the order of daily use.
pub(super) fn disjoint(loads: &Loads, clustering: Clustering, size: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut order = loads.by_consumption();
    if clustering == Clustering::Random {
        shuffle(&mut order, seed);
    }
    let all: Vec<Vec<usize>> = order.chunks_exact(size).map(<[usize]>::to_vec).collect();
    let count = all.len().min(CLUSTERS);
    (0..count).map(|number| all[number * (all.len() - 1) / (count - 1).max(1)].clone()).collect()
}

/// What figures and tables call it.
pub(super) fn name(clustering: Clustering) -> &'static str {
    match clustering {
        Clustering::Random => "random",
        Clustering::Consumption => "consumption",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use dream_homes::slots::SlotLength;

    /// Home `i` of 400 uses 7 i mod 400, so that every use from 0 to 399 occurs once.
    fn loads() -> Loads {
        let watts = (0..400u32).map(|home| vec![f64::from(home * 7 % 400)]).collect();
        Loads::new(SlotLength::new(86_400).unwrap(), watts)
    }

    #[test]
    fn sizes_end_with_the_homes() {
        assert_eq!(sizes(69).collect::<Vec<_>>(), [10, 20, 30, 50]);
        assert_eq!(sizes(3000).last(), Some(1000));
        assert_eq!([9, 10, 19, 40].map(|homes| usual_size(homes, None)), [None, Some(10), Some(10), Some(20)]);
        assert_eq!([usual_size(99, Some(60)), usual_size(99, Some(100))], [Some(60), None]);
        assert_eq!(sizes_and(69, 60), [10, 20, 30, 50, 60]);
        assert_eq!([99, 100, 199, 200, 3000].map(|homes| usual_size(homes, None)), [30, 50, 70, 100, 100].map(Some));
    }

    #[test]
    fn random_clusters_have_distinct_homes_and_repeat_with_the_seed() {
        let made = clusters(&loads(), Clustering::Random, 100, 1);
        assert_eq!(made.len(), CLUSTERS);
        assert!(made.iter().all(|cluster| cluster.iter().collect::<BTreeSet<_>>().len() == 100));
        assert_eq!(made, clusters(&loads(), Clustering::Random, 100, 1));
        assert_ne!(made, clusters(&loads(), Clustering::Random, 100, 2));
        let mean = made.concat().iter().sum::<usize>() as f64 / 20_000.0;
        assert!((mean - 199.5).abs() < 3.0, "{mean}: no home is favoured (deviation 0.7)");
    }

    #[test]
    fn clusters_side_by_side_have_no_home_in_common() {
        for clustering in [Clustering::Random, Clustering::Consumption] {
            let made = disjoint(&loads(), clustering, 30, 1);
            assert_eq!(made.len(), 13);
            assert_eq!(made.concat().iter().collect::<BTreeSet<_>>().len(), 390);
        }
        assert_eq!(disjoint(&loads(), Clustering::Consumption, 1, 1).len(), CLUSTERS);
        let used: Vec<f64> =
            disjoint(&loads(), Clustering::Consumption, 100, 1)[3].iter().map(|home| loads().watts[*home][0]).collect();
        assert_eq!((used[0], used[99]), (300.0, 399.0));
    }

    #[test]
    fn consumption_clusters_are_neighbours_and_reach_from_the_smallest_to_the_largest() {
        let loads = loads();
        let used = |homes: &[usize]| homes.iter().map(|&home| loads.watts[home][0]).collect::<Vec<_>>();
        let made = clusters(&loads, Clustering::Consumption, 10, 1);
        assert_eq!(made.len(), CLUSTERS);
        assert!(made.iter().all(|homes| used(homes).windows(2).all(|pair| pair[1] - pair[0] == 1.0)));
        assert_eq!((used(&made[0])[0], used(&made[CLUSTERS - 1])[9]), (0.0, 399.0));
        assert_eq!(clusters(&loads, Clustering::Consumption, 400, 1)[7].len(), 400);
    }
}
