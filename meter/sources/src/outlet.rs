//! Where a source puts what it finds: stamped with the time, in order, and with the clock watched.

use std::io;
use std::sync::Arc;

use dream_edge::clock::Clock;
use dream_protocol::time::{Now, Timestamp};
use tokio::sync::mpsc;

use crate::sample::{Event, Values};

/// The wall clock may differ by so much from the one that never jumps, between two events, before it counts as set.
pub(crate) const MOST_DRIFT_MILLIS: u64 = 2_000;

/// Why a session with a source ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is tried again after a while.
    Lost(String),
    /// There will never be more.
    Ended(String),
    /// Nobody listens any more.
    Closed,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

#[derive(Debug)]
pub(crate) struct Outlet {
    clock: Arc<dyn Clock>,
    events: mpsc::Sender<Event>,
    last: Option<Now>,
    /// Whether a sample was sent since [`Outlet::connected`].
    pub(crate) has_sampled: bool,
}

impl Outlet {
    pub(crate) fn new(clock: Arc<dyn Clock>, events: mpsc::Sender<Event>) -> Self {
        Self { clock, events, last: None, has_sampled: false }
    }

    pub(crate) async fn connected(&mut self) -> Result<(), Stop> {
        self.has_sampled = false;
        let at = self.now().await?;
        self.send(Event::Connected { at }).await
    }

    pub(crate) async fn lost(&mut self, why: String) -> Result<(), Stop> {
        let at = self.now().await?;
        self.send(Event::Lost { at, why }).await
    }

    pub(crate) async fn garbled(&mut self, why: String) -> Result<(), Stop> {
        let at = self.now().await?;
        self.send(Event::Garbled { at, why }).await
    }

    pub(crate) async fn refused(&mut self, why: String) -> Result<(), Stop> {
        let at = self.now().await?;
        self.send(Event::Refused { at, why }).await
    }

    pub(crate) async fn sample(&mut self, values: Values) -> Result<(), Stop> {
        let at = self.now().await?;
        self.sample_at(values, at).await
    }

    /// A sample that says itself when it was taken.
    pub(crate) async fn sample_at(&mut self, values: Values, at: Timestamp) -> Result<(), Stop> {
        if values.is_empty() {
            return Ok(());
        }
        self.has_sampled = true;
        self.send(Event::Sample(values.at(at))).await
    }

    /// Milliseconds of the clock that never jumps.
    pub(crate) fn monotonic_millis(&self) -> u64 {
        self.clock.both().monotonic_millis
    }

    async fn now(&mut self) -> Result<Timestamp, Stop> {
        let now = self.clock.both();
        let stepped = self.last.is_some_and(|last| {
            let steady = last.wall.plus_millis(now.monotonic_millis.saturating_sub(last.monotonic_millis));
            steady.as_millis().abs_diff(now.wall.as_millis()) > MOST_DRIFT_MILLIS
        });
        self.last = Some(now);
        if stepped {
            self.send(Event::ClockStepped { at: now.wall }).await?;
        }
        Ok(now.wall)
    }

    async fn send(&self, event: Event) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::Closed)
    }
}
