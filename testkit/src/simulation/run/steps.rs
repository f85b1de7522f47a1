//! One step of one process: an input, what it causes, and how much of that still happens if the process crashes.

use dream_protocol::cluster;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::time::Now;
use dream_protocol::topic::GatewayChannel;

use super::Run;
use crate::example::cluster_id;
use crate::simulation::fixture::Fixture;
use crate::simulation::network::Node;
use crate::simulation::scenario::Timer;

impl Run {
    /// Handles an input and carries out all outputs, or only the first few of them; says whether the process survived.
    pub(super) fn handle_meter(&mut self, index: usize, input: meter::Input<'_>) -> bool {
        let now = Now { wall: self.wall(index), monotonic_millis: self.network.now().as_millis() };
        let Some(node) = self.meters[index].process.node.as_mut() else { return false };
        node.meter.handle(input, now, &mut node.rng);
        let outputs: Vec<_> = std::iter::from_fn(|| node.meter.poll()).collect();
        let hidden = node.meter.take_hidden();
        let faults = self.scenario.meter_faults;
        let dice = &mut self.network.dice;
        let crash = dice.chance(faults.crash, 10_000);
        let kept = if crash { dice.below(outputs.len() + 1) } else { outputs.len() };
        self.referee.meter_outputs(index, &outputs, kept, hidden);
        let Some(node) = self.meters[index].process.node.as_mut() else { return false };
        let mut measure = None;
        for output in outputs.into_iter().take(kept) {
            if let meter::Output::Measure { slot, to, .. } = output {
                measure = Some((slot, to));
            }
            if let Some(packet) = node.carry_out(output) {
                self.network.publish(Node::Meter(index), packet);
            }
        }
        for channel in std::mem::take(&mut node.subscribed) {
            self.network.subscribe(Node::Meter(index), &channel.topic(&cluster_id()));
        }
        if crash {
            let down = self.network.dice.between(faults.down);
            self.crash(Node::Meter(index), down);
            return false;
        }
        if self.network.dice.chance(faults.offline, 10_000) {
            self.go_offline(Node::Meter(index));
        }
        if let Some((slot, end)) = measure {
            self.meters[index].measuring = Some(slot);
            self.network.wait_millis(end.millis_since(now.wall), Timer::Measure { meter: index, slot, end });
        }
        self.expect_wake(Node::Meter(index));
        true
    }

    pub(super) fn handle_gateway(&mut self, input: cluster::Input<'_>) -> bool {
        let now = self.network.now();
        let Some(node) = self.gateway.node.as_mut() else { return false };
        node.cluster.handle(input, now, &mut node.rng);
        let outputs: Vec<_> = std::iter::from_fn(|| node.cluster.poll()).collect();
        let faults = self.scenario.gateway_faults;
        let dice = &mut self.network.dice;
        let crash = dice.chance(faults.crash, 10_000);
        let kept = if crash { dice.below(outputs.len() + 1) } else { outputs.len() };
        for output in outputs.into_iter().take(kept) {
            self.referee.gateway_output(&output, input, now);
            let Some(packet) = node.carry_out(output) else { continue };
            let is_list = packet.topic.ends_with(GatewayChannel::FullMembership.as_str());
            let is_short = packet.topic.ends_with(GatewayChannel::Membership.as_str());
            if is_short && !self.verified.contains_key(&packet.payload) {
                let authorities = Fixture::get().authorities();
                let short = MembershipList::verify_short(&packet.payload, &cluster_id(), authorities).unwrap();
                self.verified.extend(short.map(|list| (packet.payload.clone(), list)));
            }
            if is_list && !self.verified.contains_key(&packet.payload) {
                let authorities = Fixture::get().authorities();
                let list = MembershipList::verify(&packet.payload, &cluster_id(), authorities).unwrap();
                self.referee.list_published(&list, now);
                self.verified.insert(packet.payload.clone(), list);
            }
            self.network.publish(Node::Gateway, packet);
        }
        if crash {
            let down = self.network.dice.between(faults.down);
            self.crash(Node::Gateway, down);
            return false;
        }
        if self.network.dice.chance(faults.stall, 10_000) {
            let down = self.network.dice.between(faults.down);
            self.stall(down);
        } else if self.network.dice.chance(faults.offline, 10_000) {
            self.go_offline(Node::Gateway);
        }
        self.expect_wake(Node::Gateway);
        true
    }

    /// Waits for a machine's deadline, unless an earlier moment is waited for already.
    pub(super) fn expect_wake(&mut self, node: Node) {
        let now = self.network.now();
        let (wake, due) = match node {
            Node::Gateway => {
                let due = self.gateway.deadline();
                (&mut self.gateway.wake, due.map(|due| due.max(self.gateway.down_until)))
            }
            Node::Meter(meter) => {
                let wall = self.wall(meter);
                let process = &mut self.meters[meter].process;
                let due = process.deadline();
                (&mut process.wake, due.map(|due| now.plus_millis(due.millis_since(wall))))
            }
        };
        let Some(due) = due.map(|due| due.max(now)) else { return };
        if wake.is_none_or(|wake| due < wake) {
            *wake = Some(due);
            self.network.wait(due, Timer::Wake(node));
        }
    }
}
