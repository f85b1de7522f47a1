//! Which homes are in which cluster.

use clap::ValueEnum;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::source::Source;

/// How homes are put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Clustering {
    /// By lot
    #[default]
    Random,
    /// Those that use about the same together, the smallest first
    Consumption,
}

impl Clustering {
    /// Clusters of these sizes, made of the source's homes as it counts them; there must be enough.
    pub fn assign(self, source: &Source, sizes: &[usize], seed: u64) -> Vec<Vec<usize>> {
        let wanted = sizes.iter().sum();
        let mut homes: Vec<usize> = (0..source.homes()).collect();
        shuffle(&mut homes, seed);
        homes.truncate(wanted);
        if self == Self::Consumption {
            let used = source.consumption();
            homes.sort_by_key(|&home| (used[home], home));
        }
        let mut homes = homes.into_iter();
        sizes.iter().map(|&size| homes.by_ref().take(size).collect()).collect()
    }
}

/// By Fisher and Yates, from a stream whose numbers never change.
pub fn shuffle(homes: &mut [usize], seed: u64) {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    for last in (1..homes.len()).rev() {
        let other = chance.next_u64() % (last as u64 + 1); // so few that the remainder favours none
        homes.swap(last, usize::try_from(other).expect("at most `last`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::Readings;

    fn source() -> Source {
        Source::Readings(Readings::parse("50,10,90,20,70,30\n50,10,90,20,70,30\n", "six.csv".as_ref()).unwrap())
    }

    #[test]
    fn every_home_is_in_one_cluster_and_a_seed_repeats_itself() {
        let clusters = Clustering::Random.assign(&source(), &[2, 4], 1);
        let mut all = clusters.concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        assert_eq!(clusters, Clustering::Random.assign(&source(), &[2, 4], 1));
        assert!((2..20).any(|seed| clusters != Clustering::Random.assign(&source(), &[2, 4], seed)));
    }

    #[test]
    fn homes_that_use_about_the_same_are_together() {
        assert_eq!(Clustering::Consumption.assign(&source(), &[2, 2, 2], 1), [[1, 3], [5, 0], [4, 2]]);
    }
}
