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

use super::{Change, Store, StoreError};

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
pub struct Writer<E> {
    jobs: mpsc::Sender<Job<E>>,
    thread: JoinHandle<()>,
}

impl<E: Send + 'static> Writer<E> {
    /// Once `giving_up` is true, a disk that refuses is given up on: what it refused was not acknowledged.
    pub fn start(
        store: Arc<Store>,
        mut observer: impl Observer<E>,
        giving_up: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
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
        Ok(Self { jobs, thread })
    }

    /// Hands over a batch; waits while too many wait already.
    pub async fn submit(&self, job: Job<E>) -> Result<(), WriterEnded> {
        self.jobs.send(job).await.map_err(|_| WriterEnded)
    }

    /// Commits what was submitted, and ends.
    pub fn stop(self) {
        drop(self.jobs);
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
