//! One step of one process: an input, what it causes, and how much of that still happens if the process crashes.

use std::collections::BTreeMap;

use dream_protocol::cluster::{self, Cluster};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, Meter};
use dream_protocol::time::Now;
use dream_protocol::topic::GatewayChannel;

use super::Run;
use crate::fixture::Fixture;
use crate::network::Node;
use crate::scenario::Timer;
use crate::support::cluster_id;
use crate::support::world::Packet;

impl Run {
    /// Handles an input and carries out all outputs, or only the first few of them; says whether the process survived.
    pub(super) fn handle_meter(&mut self, index: usize, input: meter::Input<'_>) -> bool {
        let now = Now { wall: self.wall(index), monotonic_millis: self.network.now().as_millis() };
        let process = &mut self.meters[index].process;
        let Some(machine) = process.machine.as_mut() else { return false };
        machine.handle(input, now, &mut process.rng);
        let outputs: Vec<_> = std::iter::from_fn(|| machine.poll()).collect();
        let faults = self.scenario.meter_faults;
        let dice = &mut self.network.dice;
        let crash = dice.chance(faults.crash, 10_000);
        let kept = if crash { dice.below(outputs.len() + 1) } else { outputs.len() };
        self.referee.meter_outputs(index, &outputs, kept);
        for output in outputs.into_iter().take(kept) {
            match output {
                meter::Output::Persist(record) => {
                    self.meters[index].process.store.insert(record.key(), record.encode().to_vec());
                }
                meter::Output::Erase(key) => {
                    self.meters[index].process.store.remove(&key);
                }
                meter::Output::Publish { topic, payload } => {
                    self.network.publish(Node::Meter(index), Packet { topic, payload });
                }
                meter::Output::Notice(_) => {}
            }
        }
        if crash {
            let down = self.network.dice.between(faults.down);
            self.crash(Node::Meter(index), down);
            return false;
        }
        if self.network.dice.chance(faults.offline, 10_000) {
            self.go_offline(Node::Meter(index));
        }
        self.expect_measurement(index);
        self.expect_wake(Node::Meter(index));
        true
    }

    pub(super) fn handle_gateway(&mut self, input: cluster::Input<'_>) -> bool {
        let now = self.network.now();
        let Some(machine) = self.gateway.machine.as_mut() else { return false };
        machine.handle(input, now, &mut self.gateway.rng);
        let outputs: Vec<_> = std::iter::from_fn(|| machine.poll()).collect();
        let faults = self.scenario.gateway_faults;
        let dice = &mut self.network.dice;
        let crash = dice.chance(faults.crash, 10_000);
        let kept = if crash { dice.below(outputs.len() + 1) } else { outputs.len() };
        for output in outputs.into_iter().take(kept) {
            self.referee.gateway_output(&output, input, now);
            match output {
                cluster::Output::Persist(record) => {
                    self.gateway.store.insert(record.key(), record.encode().to_vec());
                }
                cluster::Output::Forget(forget) => erase(&mut self.gateway.store, &forget),
                cluster::Output::Publish { channel, payload } => {
                    if channel == GatewayChannel::Membership && !self.verified.contains_key(&payload) {
                        let authorities = Fixture::get().authorities();
                        let list = MembershipList::verify(&payload, &cluster_id(), authorities).unwrap();
                        self.referee.list_published(&list, now);
                        self.verified.insert(payload.clone(), list);
                    }
                    self.network.publish(Node::Gateway, Packet::new(channel.topic(&cluster_id()), payload));
                }
                cluster::Output::Closed(_) | cluster::Output::Reject { .. } | cluster::Output::Notice(_) => {}
            }
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

    fn expect_measurement(&mut self, index: usize) {
        let wall = self.wall(index);
        let node = &mut self.meters[index];
        let Some((slot, _, end)) = node.process.machine.as_ref().and_then(|machine| machine.measuring(wall)) else {
            return;
        };
        if node.measuring != Some(slot) {
            node.measuring = Some(slot);
            self.network.wait_millis(end.millis_since(wall), Timer::Measure { meter: index, slot, end });
        }
    }

    /// Waits for a machine's deadline, unless an earlier moment is waited for already.
    pub(super) fn expect_wake(&mut self, node: Node) {
        let now = self.network.now();
        let (wake, due) = match node {
            Node::Gateway => {
                let due = self.gateway.machine.as_ref().and_then(Cluster::deadline);
                (&mut self.gateway.wake, due.map(|due| due.max(self.gateway.down_until)))
            }
            Node::Meter(meter) => {
                let wall = self.wall(meter);
                let process = &mut self.meters[meter].process;
                let due = process.machine.as_ref().and_then(Meter::deadline);
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

fn erase(store: &mut BTreeMap<cluster::Key, Vec<u8>>, forget: &cluster::Forget) {
    store.retain(|key, _| match (key, forget) {
        (cluster::Key::Enrolment(id), cluster::Forget::Enrolment(gone)) => id != gone,
        (cluster::Key::List(epoch), cluster::Forget::List(gone)) => epoch != gone,
        (cluster::Key::Slot(slot, ..), cluster::Forget::Slot(gone)) => slot != gone,
        _ => true,
    });
}
