//! What may happen only after a commit, and who lets it happen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dream_protocol::ids::ClusterId;
use tokio::sync::oneshot;

use super::driver::Parts;
use crate::clock::Clock;
use crate::ingest::telemetry::Events;
use crate::ingest::transport::{Receipt, Session};
use crate::ingest::window::WindowWatch;
use crate::ingest::writer::Observer;
use crate::serve::board::{Board, ClosedSlot, ClusterView};
use crate::serve::readiness::{Latch, Readiness};
use crate::store::{Store, StoreError};

/// Something that the world may see.
#[derive(Debug)]
pub enum Effect {
    Acknowledge(Arc<dyn Session>, Vec<Receipt>),
    Publish {
        session: Arc<dyn Session>,
        topic: String,
        payload: Bytes,
        retain: bool,
    },
    Closed {
        cluster: ClusterId,
        closed: ClosedSlot,
    },
    Show(Vec<ClusterView>),
    /// Everything before this has happened.
    Flushed(oneshot::Sender<()>),
}

/// Lets effects happen, right after the commit.
#[derive(Debug)]
pub struct EffectRunner {
    store: Arc<Store>,
    board: Arc<Board>,
    events: Events,
    readiness: Arc<Readiness>,
    clock: Arc<dyn Clock>,
    window: WindowWatch,
}

impl EffectRunner {
    /// Makes one for the driver with these parts.
    pub fn new(parts: &Parts) -> Self {
        Self {
            store: parts.store.clone(),
            board: parts.board.clone(),
            events: parts.events.clone(),
            readiness: parts.readiness.clone(),
            clock: parts.clock.clone(),
            window: WindowWatch::default(),
        }
    }
}

impl Observer<Effect> for EffectRunner {
    fn durable(&mut self, effects: Vec<Effect>) {
        let newest = effects.iter().rev().find_map(|effect| match effect {
            Effect::Acknowledge(session, _) => Some(session.unacknowledged().load(Ordering::Relaxed)),
            Effect::Publish { .. } | Effect::Closed { .. } | Effect::Show(_) | Effect::Flushed(_) => None,
        });
        if let Some(window) = newest.and_then(|waiting| self.window.commit(waiting)) {
            self.events.window_bound(window);
        }
        for effect in effects {
            match effect {
                Effect::Acknowledge(session, receipts) => {
                    session.unacknowledged().fetch_sub(receipts.len(), Ordering::Relaxed);
                    session.acknowledge(receipts);
                }
                Effect::Publish { session, topic, payload, retain } => session.publish(topic, payload, retain),
                Effect::Closed { cluster, closed } => self.events.slot_closed(&cluster, &closed, self.clock.now()),
                Effect::Show(views) => self.board.show(views),
                Effect::Flushed(done) => drop(done.send(())),
            }
        }
    }

    fn committed(&mut self, took: Duration) {
        self.readiness.set(Latch::StoreWritable);
        self.events.metrics.committed(took, self.store.file_bytes());
    }

    fn failed(&mut self, error: &StoreError) {
        self.readiness.unset(Latch::StoreWritable);
        self.events.commit_failed(error);
    }
}
