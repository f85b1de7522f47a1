//! Many homes, simulated on all cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::home::{ActivityModel, Home, PvShare, Residents};

/// Homes of one seed, numbered from 1.
pub fn homes(seed: u64, count: u32, residents: Residents, activities: ActivityModel) -> Vec<Home> {
    (1..=count).map(|number| Home::new(seed, number, residents).with_activities(activities)).collect()
}

/// Homes of one to five residents, each equally probable, as in the paper.
pub fn usual_homes(seed: u64, count: u32, activities: ActivityModel) -> Vec<Home> {
    homes(seed, count, Residents::between(1, 5).expect("of one to five"), activities)
}

/// The same homes, of which this share has panels on their roofs.
pub fn with_pv(homes: Vec<Home>, share: PvShare) -> Vec<Home> {
    homes.into_iter().map(|home| home.with_pv(share)).collect()
}

/// As many threads as there are cores to run them.
pub fn all_cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Does the same work on every item, on so many threads. Results are in the order of the items: how many threads there
/// were cannot be seen from them.
pub fn in_parallel<I: Sync, T: Send>(threads: NonZeroUsize, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        items.get(at).map(|item| (at, work(item)))
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get().min(items.len()))
            .map(|_| scope.spawn(|| std::iter::from_fn(take).collect::<Vec<_>>()))
            .collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_number_of_threads() {
        let items: Vec<u32> = (0..1000).collect();
        let squares: Vec<u32> = items.iter().map(|item| item * item).collect();
        for threads in [1, 2, 7, 2000] {
            let threads = NonZeroUsize::new(threads).unwrap();
            assert_eq!(in_parallel(threads, &items, |item| item * item), squares);
        }
        assert_eq!(in_parallel(all_cores(), &[], |item: &u32| *item), Vec::<u32>::new());
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_of_a_worker_is_not_lost() {
        in_parallel(NonZeroUsize::new(2).unwrap(), &[1, 7], |item| assert!(*item != 7, "seven"));
    }
}
