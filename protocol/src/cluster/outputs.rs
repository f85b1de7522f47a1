//! What is to be done, in the order in which it must take effect.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use rand_core::CryptoRng;

use super::{Forget, Notice, Output, Record, Rejection};
use crate::aggregate::SlotOutcome;
use crate::ids::MeterId;
use crate::time::Timestamp;
use crate::topic::GatewayChannel;

/// One call of [`super::Cluster::handle`]: when it is, its randomness, and where its outputs go.
pub(super) struct Turn<'a> {
    pub(super) now: Timestamp,
    pub(super) rng: &'a mut dyn CryptoRng,
    pub(super) outputs: &'a mut Outputs,
}

/// A queue of outputs.
#[derive(Debug, Default)]
pub(super) struct Outputs(VecDeque<Output>);

impl Outputs {
    pub(super) fn next(&mut self) -> Option<Output> {
        self.0.pop_front()
    }

    pub(super) fn persist(&mut self, record: Record) {
        self.0.push_back(Output::Persist(record));
    }

    pub(super) fn forget(&mut self, forget: Forget) {
        self.0.push_back(Output::Forget(forget));
    }

    pub(super) fn publish(&mut self, channel: GatewayChannel, payload: Arc<[u8]>) {
        self.0.push_back(Output::Publish { channel, payload });
    }

    pub(super) fn reject(&mut self, meter: Option<MeterId>, reason: Rejection) {
        self.0.push_back(Output::Reject { meter, reason });
    }

    pub(super) fn close(&mut self, outcome: SlotOutcome) {
        self.0.push_back(Output::Closed(outcome));
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.0.push_back(Output::Notice(notice));
    }

    pub(super) fn notices(&mut self, notices: impl IntoIterator<Item = Notice>) {
        self.0.extend(notices.into_iter().map(Output::Notice));
    }
}
