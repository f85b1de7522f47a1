//! A source that runs, and a clock in the hands of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dream_protocol::time::{Now, Timestamp};
use dream_sources::{Clock, Event, Sample, Source};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A test that waits longer than this for an event has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both clocks, in milliseconds; they stand still until the test moves them.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    pub(crate) wall: AtomicU64,
    pub(crate) monotonic: AtomicU64,
}

impl Clock for TestClock {
    fn both(&self) -> Now {
        Now {
            wall: Timestamp::from_millis(self.wall.load(Ordering::SeqCst)),
            monotonic_millis: self.monotonic.load(Ordering::SeqCst),
        }
    }
}

/// A source that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) clock: Arc<TestClock>,
    events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts a source from the text of its configuration.
    pub(crate) fn start(toml: &str) -> Self {
        let source = Source::parse("source", toml).unwrap_or_else(|error| panic!("{error}"));
        let clock = Arc::new(TestClock::default());
        clock.wall.store(1_700_000_000_000, Ordering::SeqCst);
        let (sender, events) = mpsc::channel(16);
        let task = tokio::spawn(source.run(clock.clone(), sender));
        Self { clock, events, task }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event.expect("no event came").expect("the source has ended")
    }

    /// The next sample, past whatever else happens before it.
    pub(crate) async fn sample(&mut self) -> Sample {
        loop {
            if let Event::Sample(sample) = self.next().await {
                return sample;
            }
        }
    }

    /// Why the source is lost next.
    pub(crate) async fn lost(&mut self) -> String {
        loop {
            if let Event::Lost { why, .. } = self.next().await {
                return why;
            }
        }
    }

    /// Why something could not be read next.
    pub(crate) async fn garbled(&mut self) -> String {
        loop {
            if let Event::Garbled { why, .. } = self.next().await {
                return why;
            }
        }
    }

    /// Why the source is refused next.
    pub(crate) async fn refused(&mut self) -> String {
        loop {
            if let Event::Refused { why, .. } = self.next().await {
                return why;
            }
        }
    }

    pub(crate) async fn connected(&mut self) {
        while !matches!(self.next().await, Event::Connected { .. }) {}
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The numbers of a sample: import and export in thousandths of a watt-hour, power in milliwatts.
pub(crate) fn numbers(sample: &Sample) -> (Option<i64>, Option<i64>, Option<i64>) {
    (sample.import, sample.export, sample.power)
}

/// The mistakes that a configuration has, as its owner sees them.
pub(crate) fn mistake(toml: &str) -> String {
    let text = Source::parse("source", toml).expect_err("the configuration is sound").to_string();
    text.strip_prefix("invalid configuration\n").expect("every error begins like this").to_owned()
}
