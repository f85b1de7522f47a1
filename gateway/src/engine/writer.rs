//! The thread that commits: all jobs that wait go into one commit, and only then are their effects carried out.
//!
//! While one commit is on its way to the disk the next batch gathers, so that a slow disk means larger batches instead of
//! a longer queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dream_edge::backoff::Backoff;
use thiserror::Error;
use tokio::sync::mpsc;

use super::effect::{Effect, EffectRunner};
use crate::store::{Change, Store, StoreError};

/// How many batches may wait, so that their producer waits too.
const QUEUE: usize = 8;

/// What to commit, and what may happen once it is durable.
#[derive(Debug, Default)]
pub struct Job {
    pub changes: Vec<Change>,
    pub effects: Vec<Effect>,
}

impl Job {
    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.effects.is_empty()
    }
}

/// The committing thread has given up, or failed: nothing more is acted upon.
#[derive(Debug, Error)]
#[error("the thread that writes the store has ended; uncommitted messages were not acknowledged")]
pub struct WriterEnded;

/// The committing thread.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread, and returns it with a sender of jobs, which blocks while too many wait already. Once
    /// `giving_up` is true, a disk that refuses is given up on: what it refused was not acknowledged.
    pub fn start(
        store: Arc<dyn Store>,
        mut runner: EffectRunner,
        giving_up: Arc<AtomicBool>,
    ) -> std::io::Result<(Self, mpsc::Sender<Job>)> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            while let Some(mut job) = waiting.blocking_recv() {
                while let Ok(mut next) = waiting.try_recv() {
                    job.changes.append(&mut next.changes);
                    job.effects.append(&mut next.effects);
                }
                if !commit(&*store, &job.changes, &mut runner, &giving_up) {
                    return;
                }
                runner.run(job.effects);
            }
        })?;
        Ok((Self { thread }, jobs))
    }

    /// Waits until every job is committed; all senders must be dropped first.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the committing thread has failed");
        }
    }
}

/// Tries until it works; `false` if the gateway stops before it does, or another one has taken over.
fn commit(store: &dyn Store, changes: &[Change], runner: &mut EffectRunner, giving_up: &AtomicBool) -> bool {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        let started = Instant::now();
        let removed = match store.commit(changes) {
            Ok(()) => {
                if !changes.is_empty() {
                    runner.committed(started.elapsed());
                }
                return true;
            }
            Err(error @ StoreError::Fenced) => {
                tracing::error!(%error, "nothing more is written, said or acknowledged here");
                return false;
            }
            Err(error) => {
                runner.commit_failed(&error);
                matches!(error, StoreError::Displaced { .. })
            }
        };
        while {
            if giving_up.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(backoff.next_wait());
            // A file that was removed is gone once it is closed.
            !removed
                && store
                    .reopen()
                    .inspect_err(|error| tracing::error!(%error, "the store cannot be opened again"))
                    .is_err()
        } {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dream_protocol::cluster::Record;
    use dream_protocol::ids::ClusterId;
    use dream_protocol::time::Timestamp;
    use dream_testkit::outcomes::Slotted;
    use tokio::task::AbortHandle;

    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::telemetry::Telemetry;
    use crate::engine::transport::{Receipt, Session, SessionState};
    use crate::engine::window::WindowWatch;
    use crate::metrics::Metrics;
    use crate::store::FileStore;

    /// A session that notes, for each message published, how many slots were in the store by then.
    #[derive(Debug)]
    struct Watch {
        store: Arc<dyn Store>,
        published: std::sync::mpsc::Sender<(usize, usize)>,
        state: SessionState,
    }

    fn north() -> ClusterId {
        ClusterId::new("north").unwrap()
    }

    impl Session for Watch {
        fn state(&self) -> &SessionState {
            &self.state
        }

        fn publish(&self, topic: String, _: Bytes, _: bool) {
            let all = Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX);
            let stored = self.store.slots(&north(), all, usize::MAX).unwrap().len();
            self.published.send((topic.parse().unwrap(), stored)).unwrap();
        }

        fn acknowledge(&self, _: Vec<Receipt>) {}

        fn subscribe(&self, _: Vec<String>, _: u64) -> AbortHandle {
            unreachable!("effects do not subscribe")
        }

        fn unsubscribe(&self, _: Vec<String>) {}

        fn disconnect(&self) {}
    }

    #[test]
    fn effects_come_in_their_order_and_after_the_commit_of_their_own_changes() {
        let directory = tempfile::TempDir::new().unwrap();
        let store = Arc::new(FileStore::open(&directory.path().join("store.redb"), 4).unwrap());
        let (published, happened) = std::sync::mpsc::channel();
        let session = Arc::new(Watch { store: store.clone(), published, state: SessionState::new(1) });
        let runner = EffectRunner {
            store: store.clone(),
            board: Arc::default(),
            members: Arc::default(),
            telemetry: Telemetry { metrics: Arc::new(Metrics::new(&[])) },
            readiness: Arc::default(),
            clock: Arc::new(SystemClock),
            window: WindowWatch::default(),
        };
        let (writer, jobs) = Writer::start(store, runner, Arc::default()).unwrap();
        for at in 1..=20 {
            let outcome = Slotted::new(at).decoded(1000, 90);
            let changes = vec![Change::Put(north(), Record::Outcome(outcome))];
            let (session, topic, payload) = (session.clone(), at.to_string(), Bytes::new());
            let effects = vec![Effect::Publish { session, topic, payload, retain: false }];
            jobs.blocking_send(Job { changes, effects }).unwrap();
        }
        drop((jobs, session));
        writer.join();
        let happened: Vec<(usize, usize)> = happened.into_iter().collect();
        assert_eq!(happened.iter().map(|(effect, _)| *effect).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        assert!(happened.iter().all(|(effect, stored)| stored >= effect), "{happened:?}");
    }
}
