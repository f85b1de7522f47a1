//! The thread that commits: whatever waits goes into one commit, and only then is it acted upon.
//!
//! While one commit is on its way to the disk the next batch gathers, so that a slow disk means larger batches instead of
//! a longer queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::mpsc;

use crate::store::{Change, Store, StoreError};

/// How many batches may wait, so that whoever makes them waits too.
const QUEUE: usize = 8;

/// What to commit, and what may happen once it is durable.
#[derive(Debug)]
pub struct Job<E> {
    pub changes: Vec<Change>,
    pub effects: Vec<E>,
}

impl<E> Default for Job<E> {
    fn default() -> Self {
        Self { changes: Vec::new(), effects: Vec::new() }
    }
}

impl<E> Job<E> {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.effects.is_empty()
    }
}

/// What whoever runs the writer wants to know.
pub trait Observer<E>: Send + 'static {
    /// Everything before these is durable.
    fn durable(&mut self, effects: Vec<E>);
    /// A commit took this long.
    fn committed(&mut self, took: Duration);
    /// A commit failed and is tried again.
    fn failed(&mut self, error: &StoreError);
}

/// The committing thread has given up, or failed: nothing more is acted upon.
#[derive(Debug, Error)]
#[error("the thread that writes the store has ended")]
pub struct WriterEnded;

/// The committing thread.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread, and returns it with where to hand over jobs; whoever does waits while too many wait already. Once
    /// `giving_up` is true, a disk that refuses is given up on: what it refused was not acknowledged.
    pub fn start<E: Send + 'static>(
        store: Arc<Store>,
        mut observer: impl Observer<E>,
        giving_up: Arc<AtomicBool>,
    ) -> std::io::Result<(Self, mpsc::Sender<Job<E>>)> {
        let (jobs, mut waiting) = mpsc::channel::<Job<E>>(QUEUE);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            while let Some(mut job) = waiting.blocking_recv() {
                while let Ok(mut next) = waiting.try_recv() {
                    job.changes.append(&mut next.changes);
                    job.effects.append(&mut next.effects);
                }
                if !commit(&store, &job.changes, &mut observer, &giving_up) {
                    return;
                }
                observer.durable(job.effects);
            }
        })?;
        Ok((Self { thread }, jobs))
    }

    /// Waits until everything is committed that was handed over; whoever hands over must be gone.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the committing thread has failed");
        }
    }
}

/// Tries until it works; `false` if the gateway stops before it does.
fn commit<E>(store: &Store, changes: &[Change], observer: &mut impl Observer<E>, giving_up: &AtomicBool) -> bool {
    if changes.is_empty() {
        return true;
    }
    let mut wait = Duration::from_millis(100);
    loop {
        let started = Instant::now();
        match store.commit(changes) {
            Ok(()) => {
                observer.committed(started.elapsed());
                return true;
            }
            Err(error) => observer.failed(&error),
        }
        while {
            if giving_up.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_secs(5));
            store.reopen().inspect_err(|error| tracing::error!(%error, "the store cannot be opened again")).is_err()
        } {}
    }
}

#[cfg(test)]
mod tests {
    use dream_protocol::cluster::Record;
    use dream_protocol::ids::ClusterId;
    use dream_protocol::time::Timestamp;
    use dream_testkit::outcomes::Slotted;

    use super::*;
    use crate::serve::board::History as _;

    /// Remembers how many slots were in the store when each effect happened.
    struct Watch {
        store: Arc<Store>,
        seen: std::sync::mpsc::Sender<(usize, usize)>,
    }

    fn north() -> ClusterId {
        ClusterId::new("north").unwrap()
    }

    impl Observer<usize> for Watch {
        fn durable(&mut self, effects: Vec<usize>) {
            let all = (Timestamp::from_millis(0), Timestamp::from_millis(u64::MAX));
            let stored = self.store.slots(&north(), all.0, all.1, usize::MAX).unwrap().len();
            effects.into_iter().for_each(|effect| self.seen.send((effect, stored)).unwrap());
        }

        fn committed(&mut self, _: Duration) {}

        fn failed(&mut self, error: &StoreError) {
            panic!("{error}");
        }
    }

    #[test]
    fn effects_come_in_their_order_and_after_the_commit_of_their_own_changes() {
        let directory = tempfile::TempDir::new().unwrap();
        let store = Arc::new(Store::open(&directory.path().join("store.redb"), 4).unwrap());
        let (seen, happened) = std::sync::mpsc::channel();
        let watch = Watch { store: store.clone(), seen };
        let (writer, jobs) = Writer::start(store, watch, Arc::default()).unwrap();
        for at in 1..=20 {
            let outcome = Slotted::new(at).decoded(1000, 90);
            let changes = vec![Change::Put(north(), Record::Outcome(outcome))];
            jobs.blocking_send(Job { changes, effects: vec![usize::try_from(at).unwrap()] }).unwrap();
        }
        drop(jobs);
        writer.join();
        let happened: Vec<(usize, usize)> = happened.into_iter().collect();
        assert_eq!(happened.iter().map(|(effect, _)| *effect).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        assert!(happened.iter().all(|(effect, stored)| stored >= effect), "{happened:?}");
    }
}
