//! The driver and its broker: subscriptions, and what other consumers receive.

use std::sync::Arc;

use dream_protocol::cluster::Input;
use dream_protocol::ids::ClusterId;
use dream_protocol::topic::{GatewayChannel, MeterChannel};

use super::Driver;
use crate::board;
use crate::board::gateway_view::BrokerView;
use crate::board::readiness::Latch;
use crate::clock::Clock as _;
use crate::engine::announce;
use crate::engine::effect::Effect;
use crate::engine::parts::Parts;
use crate::engine::transport::Session;

/// How many clusters' topics are asked for in one packet.
const SUBSCRIBED_TOGETHER: usize = 10;

impl Driver {
    pub(super) fn connected(&mut self, session: Arc<dyn Session>) {
        self.parts.telemetry.broker_connected();
        let since = self.parts.clock.now();
        self.parts.board.update_gateway(|gateway| gateway.broker = BrokerView::Connected { since });
        self.parts.telemetry.metrics.track_unacknowledged(session.state().unacknowledged.clone());
        self.state.session = Some(session);
        self.state.subscribing.clear();
        self.state.foreign.clear();
        self.state.rebuilding.session_lost();
        self.publish_discovery_removals();
        let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
        self.subscribe(&all);
        // A replica may have no cluster at all.
        self.publish_online_when_subscribed();
    }

    /// Asks for the topics of clusters; they count as connected when the broker has confirmed. A few at a time, so that
    /// one that is refused does not keep all others waiting.
    pub(super) fn subscribe(&mut self, clusters: &[ClusterId]) {
        let Some(session) = &self.state.session else { return };
        for some in clusters.chunks(SUBSCRIBED_TOGETHER) {
            let tag = self.state.next_tag;
            self.state.next_tag += 1;
            let asking = session.subscribe(some.iter().flat_map(filters).collect(), tag);
            self.state.subscribing.insert(tag, (some.to_vec(), asking));
        }
    }

    pub(super) fn subscribed(&mut self, session: u64, tag: u64) {
        if self.state.session.as_ref().is_none_or(|current| current.state().number != session) {
            return;
        }
        let Some((clusters, _)) = self.state.subscribing.remove(&tag) else { return };
        for cluster in &clusters {
            self.announce(cluster);
            self.input(cluster, Input::Connected);
        }
        self.publish_online_when_subscribed();
    }

    pub(super) fn publish_online_when_subscribed(&mut self) {
        let all = self.state.subscribing.is_empty() && self.state.rebuilding.is_over();
        if self.state.session.is_some() && all {
            self.publish(self.parts.status_topic.clone(), b"online".to_vec(), true);
            self.parts.readiness.set(Latch::BrokerSubscribed);
            self.parts.telemetry.broker_subscribed();
            let now = self.parts.clock.now();
            self.parts.board.update_gateway(|gateway| gateway.broker = gateway.broker.subscribed(now));
        }
    }

    /// What other consumers learn about a cluster when a connection stands.
    pub(super) fn announce(&mut self, cluster: &ClusterId) {
        let Some(served) = self.state.clusters.get(cluster) else { return };
        let slot_seconds = served.settings.terms.slot_seconds;
        // An old one would replace what another replica has published since.
        let last = served.last.filter(|closed| board::is_recent(closed, slot_seconds, self.parts.clock.now()));
        let aggregate = last.map(|closed| announce::aggregate(cluster, &closed, served.energy().as_ref()));
        let Parts { config, status_topic, .. } = &self.parts;
        let prefix = config.home_assistant.as_ref();
        let discovery = prefix.map(|prefix| announce::discovery(prefix, cluster, slot_seconds, status_topic));
        for (topic, payload) in aggregate.into_iter().chain(discovery.into_iter().flatten()) {
            self.publish(topic, payload, true);
        }
    }

    pub(super) fn publish_discovery_removals(&mut self) {
        if self.state.session.is_some() {
            for (topic, payload) in std::mem::take(&mut self.state.pending_discovery_removals) {
                self.publish(topic, payload, true);
            }
        }
    }

    pub(super) fn lost(&mut self) {
        self.parts.readiness.unset(Latch::BrokerSubscribed);
        self.parts.telemetry.metrics.track_unacknowledged(Arc::default());
        self.state.rebuilding.session_lost();
        if self.state.session.take().is_some() {
            let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
            for cluster in &all {
                self.input(cluster, Input::Disconnected);
            }
        }
    }

    pub(super) fn publish(&mut self, topic: String, payload: Vec<u8>, retain: bool) {
        if let Some(session) = &self.state.session {
            let payload = payload.into();
            self.state.job.effects.push(Effect::Publish { session: session.clone(), topic, payload, retain });
        }
    }
}

/// Returns every topic of a cluster that concerns its gateway.
pub(in crate::engine) fn filters(cluster: &ClusterId) -> Vec<String> {
    let meters = MeterChannel::ALL.into_iter().map(|channel| channel.filter(cluster));
    let lists = [GatewayChannel::Membership, GatewayChannel::FullMembership].map(|channel| channel.topic(cluster));
    meters.chain(lists).collect()
}
