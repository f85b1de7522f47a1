//! How fast simulated time passes while a fleet starts: the first slot begins as soon as all meters are ready.

use std::sync::{Arc, PoisonError};

use dream_protocol::time::Timestamp;

use crate::RunningCluster;
use crate::clock::SimulatedClock;

/// How fast time passes until then: what the gateway waits for is there already, and meters that compute hold it back.
const STARTING_SPEED: f64 = 20.0;

/// Sets the speed of a clock by how far its meters are.
///
/// Agreeing on keys takes hundreds of meters in one process several seconds, in which slots would be missed. So time passes
/// slowly until all have done so, and what is then left until the first slot is skipped.
#[derive(Debug)]
pub struct Pacer {
    clock: Arc<SimulatedClock>,
    speed: f64,
    /// Whether all meters are ready.
    started: bool,
}

/// How far a cluster is.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// When the first slot of its list begins, once it has one.
    begins: Option<Timestamp>,
    /// Whether all its meters have accepted that list and done what follows.
    accepted: bool,
}

impl Pacer {
    /// Starts the clock; time passes at `speed` when all meters are ready.
    pub fn new(clock: Arc<SimulatedClock>, speed: f64) -> Self {
        clock.set_speed(STARTING_SPEED);
        Self { clock, speed, started: false }
    }

    /// Looks how far the meters are. Call it often.
    pub fn look(&mut self, clusters: &[RunningCluster]) {
        if !self.started {
            let progress: Vec<_> = clusters.iter().map(RunningCluster::progress).collect();
            self.go_on(&progress);
        }
    }

    fn go_on(&mut self, clusters: &[Progress]) {
        let first = clusters.iter().filter_map(|cluster| cluster.begins).min();
        if let Some(first) = first.filter(|_| clusters.iter().all(|cluster| cluster.accepted)) {
            self.clock.skip_to(first);
            self.clock.set_speed(self.speed);
            self.started = true;
        }
    }
}

impl RunningCluster {
    fn progress(&self) -> Progress {
        let list = self.oracle.lock().unwrap_or_else(PoisonError::into_inner).lists().last().cloned();
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        Progress {
            begins: list.map(|list| list.params().slot_start(list.from_slot())),
            accepted: !status.busy && status.list.is_some_and(|(_, accepted)| accepted == status.meters),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dream_edge::clock::Clock as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slots_begin_when_all_meters_are_ready_and_none_is_missed() {
        let start = Timestamp::from_secs(1_000_000);
        let clock = Arc::new(SimulatedClock::new(start));
        let mut pacer = Pacer::new(clock.clone(), 150.0);
        let begins = [None, Some(start.plus_secs(1200)), Some(start.plus_secs(1800))];
        let progress =
            |which: [(usize, bool); 2]| which.map(|(at, accepted)| Progress { begins: begins[at], accepted });
        let steps = [
            ([(0, false), (0, false)], 20),
            ([(1, false), (0, false)], 20),
            ([(1, true), (2, false)], 20),
            ([(1, true), (2, true)], 150),
        ];
        for (at, speed) in steps {
            pacer.go_on(&progress(at));
            let before = clock.now();
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(clock.now().millis_since(before), speed * 1000, "{at:?}");
        }
        assert_eq!(clock.now(), start.plus_secs(1200 + 150), "the first slot begins at once");
    }
}
