//! What may happen only after a commit, and what carries it out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dream_protocol::ids::ClusterId;
use tokio::sync::oneshot;

use super::parts::Parts;
use crate::board::named::{NamedMembers, Names};
use crate::board::readiness::{Latch, Readiness};
use crate::board::{Board, ClusterView};
use crate::clock::Clock;
use crate::engine::telemetry::Telemetry;
use crate::engine::transport::{Receipt, Session};
use crate::engine::window::WindowWatch;
use crate::history::ClosedSlot;
use crate::store::{Store, StoreError};

/// Something that is visible outside this process, or to its readers.
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
    Show {
        views: Vec<ClusterView>,
        /// Of each of these clusters, for the operator alone.
        names: Vec<(ClusterId, Names)>,
    },
    /// Everything before this has happened.
    Flushed(oneshot::Sender<()>),
}

/// Carries out effects, right after the commit.
#[derive(Debug)]
pub struct EffectRunner {
    pub(super) store: Arc<dyn Store>,
    pub(super) board: Arc<Board>,
    pub(super) members: Arc<NamedMembers>,
    pub(super) telemetry: Telemetry,
    pub(super) readiness: Arc<Readiness>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) window: WindowWatch,
}

impl EffectRunner {
    /// Makes a runner for the driver with these parts.
    pub fn new(parts: &Parts) -> Self {
        Self {
            store: parts.store.clone(),
            board: parts.board.clone(),
            members: parts.members.clone(),
            telemetry: parts.telemetry.clone(),
            readiness: parts.readiness.clone(),
            clock: parts.clock.clone(),
            window: WindowWatch::default(),
        }
    }

    /// Carries out effects, in their order. Everything that they depend on must be durable.
    pub fn run(&mut self, effects: Vec<Effect>) {
        let newest = effects.iter().rev().find_map(|effect| match effect {
            Effect::Acknowledge(session, _) => Some(session.state().unacknowledged.load(Ordering::Relaxed)),
            Effect::Publish { .. } | Effect::Closed { .. } | Effect::Show { .. } | Effect::Flushed(_) => None,
        });
        if let Some(window) = newest.and_then(|waiting| self.window.commit(waiting)) {
            self.telemetry.window_bound(window);
        }
        for effect in effects {
            match effect {
                Effect::Acknowledge(session, receipts) => {
                    session.state().unacknowledged.fetch_sub(receipts.len(), Ordering::Relaxed);
                    session.acknowledge(receipts);
                }
                Effect::Publish { session, topic, payload, retain } => session.publish(topic, payload, retain),
                Effect::Closed { cluster, closed } => self.telemetry.slot_closed(&cluster, &closed, self.clock.now()),
                Effect::Show { views, names } => {
                    self.board.show(views);
                    self.members.set(names);
                }
                Effect::Flushed(done) => drop(done.send(())),
            }
        }
    }

    /// Notes that a commit took this long.
    pub fn committed(&mut self, took: Duration) {
        self.readiness.set(Latch::StoreWritable);
        self.board.update_gateway(|gateway| gateway.commit_error = None);
        self.telemetry.metrics.committed(took, self.store.file_bytes());
    }

    /// Notes that a commit failed; it is tried again.
    pub fn commit_failed(&mut self, error: &StoreError) {
        self.readiness.unset(Latch::StoreWritable);
        self.board.update_gateway(|gateway| gateway.commit_error = Some(error.to_string()));
        self.telemetry.commit_failed(error);
    }
}
