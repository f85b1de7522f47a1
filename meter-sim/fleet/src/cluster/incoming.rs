//! What the gateway says, to those meters of a connection whom it concerns, and what their connections subscribe to.
//!
//! A list is verified once for all meters of the process. One that does not verify goes to each of them, so that each refuses
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::Input;
use dream_protocol::topic::{self, GatewayChannel, Topic};
use dream_protocol::wire::{RecoveryMessage, Sign1};

use super::{ClusterRunner, lock};
use crate::agreements;
use crate::meter::SimulatedMeter;

/// What meters may have to hear.
const CHANNELS: [GatewayChannel; 4] =
    [GatewayChannel::Membership, GatewayChannel::FullMembership, GatewayChannel::Recovery, GatewayChannel::Retry];

/// Returns what a connection of these meters may subscribe to, and whether it does.
pub(super) fn topics(cluster: &ClusterId, meters: &[SimulatedMeter]) -> BTreeMap<String, bool> {
    let channels = CHANNELS.map(|channel| (channel.topic(cluster), wants_one(meters, channel)));
    channels.into_iter().chain([(topic::ANY_GATEWAY_STATUS.to_owned(), true)]).collect()
}

fn wants_one(meters: &[SimulatedMeter], channel: GatewayChannel) -> bool {
    meters.iter().any(|meter| meter.channels.contains(&channel))
}

impl ClusterRunner {
    pub(super) fn message(&mut self, connection: usize, topic: &str, payload: &[u8]) {
        match Topic::parse(topic) {
            Ok(Topic::Gateway { channel, .. }) => match channel {
                GatewayChannel::Membership => self.short_list(connection, topic, payload),
                GatewayChannel::FullMembership => self.full_list(connection, topic, payload),
                GatewayChannel::Recovery | GatewayChannel::Retry => self.recovery(connection, channel, topic, payload),
                GatewayChannel::Aggregate => {}
            },
            Ok(Topic::Meter { .. }) => {}
            // Whether a gateway is online, or what is for the meters to refuse.
            Err(_) => self.on(connection).for_each(|index| self.input(index, Input::Message { topic, payload })),
        }
    }

    fn full_list(&mut self, connection: usize, topic: &str, payload: &[u8]) {
        if self.list.as_ref().is_none_or(|known| **known.bytes() != *payload) {
            let known = self.list.as_deref();
            let Ok(list) = MembershipList::verify_after(known, payload, &self.cluster, &self.fleet.policy.authorities)
            else {
                return self.tell(connection, GatewayChannel::FullMembership, &Input::Message { topic, payload });
            };
            lock(&self.oracle).note_list(&list);
            self.prepare(&list);
            self.list = Some(list);
        }
        if let Some(list) = self.list.clone() {
            self.hand_over(connection, GatewayChannel::FullMembership, list);
        }
    }

    /// A short list, or the header of one that all need whole: what that asks for, each meter sees for itself.
    fn short_list(&mut self, connection: usize, topic: &str, payload: &[u8]) {
        if self.short.as_ref().is_none_or(|known| **known.bytes() != *payload) {
            let Ok(Some(list)) = MembershipList::verify_short(payload, &self.cluster, &self.fleet.policy.authorities)
            else {
                return self.tell(connection, GatewayChannel::Membership, &Input::Message { topic, payload });
            };
            self.prepare(&list);
            self.short = Some(list);
        }
        if let Some(list) = self.short.clone() {
            self.hand_over(connection, GatewayChannel::Membership, list);
        }
    }

    /// Lets the meters agree on keys for a list.
    fn prepare(&mut self, list: &MembershipList) {
        {
            let mut status = lock(&self.status);
            status.holders = list.holders().len();
            status.busy |= !self.complete;
        }
        agreements::share(&mut self.members, list);
    }

    fn hand_over(&mut self, connection: usize, channel: GatewayChannel, list: Arc<MembershipList>) {
        if !self.complete {
            lock(&self.status).busy = true;
        }
        self.tell(connection, channel, &Input::List(list));
    }

    /// Tells those meters of a connection that subscribe to a channel.
    fn tell(&mut self, connection: usize, channel: GatewayChannel, input: &Input<'_>) {
        for index in self.on(connection) {
            if self.members[index].channels.contains(&channel) {
                self.input(index, input.clone());
            }
        }
    }

    fn recovery(&mut self, connection: usize, channel: GatewayChannel, topic: &str, payload: &[u8]) {
        lock(&self.oracle).note_recovery(payload);
        let message = Sign1::decode(payload).and_then(|envelope| RecoveryMessage::decode(envelope.payload())).ok();
        for index in self.on(connection) {
            let member = &self.members[index];
            let (id, faults) = (&member.setup.id, &self.fleet.faults);
            let gone = message.as_ref().is_some_and(|message| {
                let slot = message.slot();
                let asked = channel == GatewayChannel::Recovery;
                (asked && faults.vanishes(id, slot, message.attempt())) || self.is_off(index, slot)
            });
            if !gone && member.channels.contains(&channel) {
                self.input(index, Input::Message { topic, payload });
            }
        }
    }

    /// Subscribes connections to what their meters need by now. What a connection has received already is handed to meters
    /// that need it only now: the broker would not send it again. Returns whether there were any.
    pub(super) fn follow_subscriptions(&mut self) -> bool {
        let mut received = Vec::new();
        for index in std::mem::take(&mut self.newcomers) {
            let connection = &self.connections[self.connection_of(index)];
            if connection.want(GatewayChannel::FullMembership.topic(&self.cluster), true) {
                received.push(index);
            }
        }
        for connection in std::mem::take(&mut self.resubscribing) {
            let meters = &self.members[self.on(connection)];
            for channel in CHANNELS {
                self.connections[connection].want(channel.topic(&self.cluster), wants_one(meters, channel));
            }
        }
        let newest = self.short.as_ref().map_or(0, |short| short.epoch());
        let Some(list) = self.list.clone().filter(|list| newest <= list.epoch()) else { return false };
        received.iter().for_each(|&index| self.input(index, Input::List(list.clone())));
        !received.is_empty()
    }
}
