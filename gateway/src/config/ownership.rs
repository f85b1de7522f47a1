//! Which replica owns which cluster: rendezvous hashing, so that adding or removing a replica moves as few as possible.

use dream_protocol::ids::ClusterId;
use sha2::{Digest, Sha256};

/// Returns the ordinal of the replica that owns a cluster: the one with the highest hash.
pub(super) fn owner(cluster: &ClusterId, replicas: u32) -> u32 {
    let weight = |ordinal: &u32| {
        let mut hash = Sha256::new();
        hash.update(cluster.as_str());
        hash.update([0]);
        hash.update(ordinal.to_be_bytes());
        <[u8; 32]>::from(hash.finalize())
    };
    (0..replicas).max_by_key(weight).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters() -> Vec<ClusterId> {
        (0..1000).map(|number| ClusterId::new(&format!("cluster-{number}")).unwrap()).collect()
    }

    #[test]
    fn every_replica_owns_about_its_share() {
        let mut owned = [0; 4];
        for cluster in clusters() {
            owned[owner(&cluster, 4) as usize] += 1;
        }
        assert!(owned.iter().all(|count| (200..300).contains(count)), "{owned:?}");
    }

    #[test]
    fn one_more_replica_takes_clusters_and_moves_none_between_the_others() {
        let mut taken = 0;
        for cluster in clusters() {
            let (before, after) = (owner(&cluster, 4), owner(&cluster, 5));
            assert!(after == before || after == 4);
            taken += usize::from(after == 4);
        }
        assert!((150..250).contains(&taken), "{taken}");
    }

    /// Replicas of different versions must agree, or a cluster has two owners or none.
    #[test]
    fn owners_never_change() {
        let owners: Vec<u32> = clusters().iter().take(12).map(|cluster| owner(cluster, 3)).collect();
        assert_eq!(owners, [0, 0, 0, 0, 0, 1, 2, 1, 0, 1, 1, 2]);
    }
}
