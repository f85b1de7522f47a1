//! What may happen only after a commit, and who lets it happen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dream_protocol::ids::ClusterId;
use tokio::sync::oneshot;

use crate::board::{Board, ClosedSlot, ClusterView};
use crate::events::Events;
use crate::mqtt::{Receipt, Session};
use crate::readiness::{Latch, Readiness};
use crate::store::{Observer, Store, StoreError};
use crate::window::WindowWatch;

/// Something that the world may see.
#[derive(Debug)]
pub enum Effect {
    Acknowledge(Arc<Session>, Vec<Receipt>),
    Publish {
        session: Arc<Session>,
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

/// Lets effects happen, on the store's thread, right after the commit.
#[derive(Debug)]
pub struct Finisher {
    pub store: Arc<Store>,
    pub board: Arc<Board>,
    pub events: Events,
    pub readiness: Arc<Readiness>,
    pub window: WindowWatch,
}

impl Observer<Effect> for Finisher {
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
                Effect::Closed { cluster, closed } => self.events.slot_closed(&cluster, &closed, super::now()),
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
