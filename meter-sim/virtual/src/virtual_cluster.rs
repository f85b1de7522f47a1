//! A gateway's cluster and its meters in one process: the machines that ship, exchanging the bytes that they would exchange
//! over a broker, at moments that nobody waits for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, Topic};
use rand_chacha::ChaCha20Rng;

use crate::node::{ClusterNode, MeterNode, Packet};

/// A cluster in virtual time. Messages take no time, and none is lost.
#[derive(Debug)]
pub struct VirtualCluster {
    pub gateway: ClusterNode,
    /// A meter that is switched off is `None`: it neither hears nor says anything.
    pub meters: Vec<Option<MeterNode>>,
    /// Topics whose messages never reach the gateway.
    pub withheld: BTreeSet<String>,
    /// The channel of the gateway's whose messages reach no meter, and those messages: a broker that obeys somebody else.
    pub intercepted: Option<(GatewayChannel, Vec<Packet>)>,
    now: Timestamp,
    /// Messages under way, in the order in which they were sent, and whether they go to the gateway.
    packets: VecDeque<(bool, Packet)>,
    /// The newest list, verified once for all meters.
    list: Option<Arc<MembershipList>>,
}

impl VirtualCluster {
    /// Connects a gateway and its meters at `now`.
    pub fn new(
        config: ClusterConfig,
        meters: impl IntoIterator<Item = MeterNode>,
        now: Timestamp,
        rng: ChaCha20Rng,
    ) -> Self {
        let mut cluster = Self {
            gateway: ClusterNode::new(config, now, rng),
            meters: meters.into_iter().map(Some).collect(),
            withheld: BTreeSet::new(),
            intercepted: None,
            now,
            packets: VecDeque::new(),
            list: None,
        };
        for meter in cluster.meters.iter_mut().flatten() {
            let sent = meter.handle(meter::Input::Connected, now);
            cluster.packets.extend(sent.into_iter().map(|packet| (true, packet)));
        }
        cluster.deliver();
        cluster
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the newest list that the gateway has published.
    pub fn list(&self) -> Option<&Arc<MembershipList>> {
        self.list.as_ref()
    }

    /// Lets time pass until a slot closes; `watts` says what a meter measures in a slot, if it measures anything.
    pub fn next_outcome(&mut self, mut watts: impl FnMut(usize, Slot) -> Option<i64>) -> SlotOutcome {
        loop {
            if !self.gateway.outcomes.is_empty() {
                return self.gateway.outcomes.remove(0);
            }
            self.advance(&mut watts);
        }
    }

    /// Goes to the next moment at which something is due, does it, and delivers what follows from it.
    pub fn advance(&mut self, mut watts: impl FnMut(usize, Slot) -> Option<i64>) {
        let meters_due = self.meters.iter().flatten().filter_map(MeterNode::deadline);
        let due = meters_due.chain(self.gateway.cluster.deadline()).min();
        self.now = due.expect("the next slot, or the next enrolment, is always ahead").max(self.now);
        let now = self.now;
        if self.gateway.cluster.deadline().is_some_and(|due| due <= now) {
            let published = self.gateway.handle(cluster::Input::Tick, now);
            self.packets.extend(published.into_iter().map(|packet| (false, packet)));
        }
        for (index, meter) in self.meters.iter_mut().enumerate() {
            let Some(meter) = meter.as_mut().filter(|meter| meter.deadline().is_some_and(|due| due <= now)) else {
                continue;
            };
            let sent = meter.advance(now, |slot| watts(index, slot));
            self.packets.extend(sent.into_iter().map(|packet| (true, packet)));
        }
        self.deliver();
    }

    /// Delivers what meters have sent to the gateway, and what follows from it.
    pub fn send(&mut self, packets: impl IntoIterator<Item = Packet>) {
        self.packets.extend(packets.into_iter().map(|packet| (true, packet)));
        self.deliver();
    }

    /// Carries messages until none is under way.
    fn deliver(&mut self) {
        while let Some((to_gateway, packet)) = self.packets.pop_front() {
            if to_gateway && self.withheld.contains(&packet.topic) {
                continue;
            }
            if to_gateway {
                let published = self.gateway.receive(&packet, self.now);
                self.packets.extend(published.into_iter().map(|packet| (false, packet)));
                continue;
            }
            if let Some((channel, held)) = &mut self.intercepted
                && packet.topic == channel.topic(&self.gateway.config.cluster)
            {
                held.push(packet);
                continue;
            }
            let list = self.verified(&packet);
            let input = match &list {
                Some(list) => meter::Input::List(list.clone()),
                None => meter::Input::Message { topic: &packet.topic, payload: &packet.payload },
            };
            for meter in self.meters.iter_mut().flatten() {
                if !meter.meter.subscriptions().contains(&packet.topic) {
                    continue;
                }
                let sent = meter.handle(input.clone(), self.now);
                self.packets.extend(sent.into_iter().map(|packet| (true, packet)));
            }
        }
    }

    /// Returns the list in a message, if it is one.
    fn verified(&mut self, packet: &Packet) -> Option<Arc<MembershipList>> {
        let ClusterConfig { cluster, authorities, .. } = &self.gateway.config;
        match Topic::parse(&packet.topic) {
            Ok(Topic::Gateway { channel: GatewayChannel::FullMembership, .. }) => {}
            Ok(Topic::Gateway { channel: GatewayChannel::Membership, .. }) => {
                return MembershipList::verify_short(&packet.payload, cluster, authorities).ok().flatten();
            }
            Ok(_) | Err(_) => return None,
        }
        if self.list.as_ref().is_none_or(|known| **known.bytes() != *packet.payload) {
            let known = self.list.as_deref();
            self.list = MembershipList::verify_after(known, &packet.payload, cluster, authorities).ok();
        }
        self.list.clone()
    }
}
