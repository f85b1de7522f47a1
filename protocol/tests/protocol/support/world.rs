//! A whole honest cluster whose messages each test delivers itself.

use std::sync::Arc;

use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::ListStatement;
pub(crate) use dream_testkit::node::{ClusterNode, MeterNode, Packet};

use super::pki::Pki;
use super::{START, at, cluster_config, cluster_id, meter_config, meter_name, rng};

/// A gateway and its meters, all honest, with a list in force; the test delivers the messages.
pub(crate) struct World {
    pub(crate) pki: Pki,
    pub(crate) gateway: ClusterNode,
    pub(crate) meters: Vec<MeterNode>,
    pub(crate) list: Arc<MembershipList>,
    /// The list as it was published.
    pub(crate) list_packet: Packet,
}

impl World {
    /// Enrols `members` meters without noise and delivers their list. The next slot to measure is the list's first.
    pub(crate) fn new(members: usize) -> Self {
        Self::with(members, |_| {}, Simulation::NOISELESS)
    }

    pub(crate) fn with(members: usize, change: impl FnOnce(&mut ClusterConfig), simulation: Simulation) -> Self {
        let pki = Pki::new();
        let mut config = cluster_config(&pki, u16::try_from(members).unwrap());
        change(&mut config);
        let mut gateway = ClusterNode::new(config, at(START), rng(1));
        let mut meters = Vec::new();
        for index in 0..members {
            let mut node = MeterNode::new(meter_config(&pki, &meter_name(index)), simulation, rng(1000 + index as u64));
            for packet in node.handle(meter::Input::Connected, at(START)) {
                gateway.receive(&packet, at(START));
            }
            meters.push(node);
        }
        let list_packet = gateway.handle(cluster::Input::Tick, at(START + 5)).pop().expect("a list is due");
        let list = MembershipList::verify(&list_packet.payload, &cluster_id(), &pki.authorities()).unwrap();
        for node in &mut meters {
            let sent = node.handle(meter::Input::List(list.clone()), at(START + 6));
            assert_eq!(sent, [], "an accepted list needs no answer");
        }
        Self { pki, gateway, meters, list, list_packet }
    }

    pub(crate) fn first_slot(&self) -> Slot {
        self.list.from_slot()
    }

    pub(crate) fn slot_end(&self, slot: Slot) -> Timestamp {
        self.list.params().slot_end(slot)
    }

    /// Lets a meter measure a slot and returns the reading it sends within its window.
    pub(crate) fn measure(&mut self, meter: usize, slot: Slot, watts: i64) -> Vec<Packet> {
        let end = self.slot_end(slot);
        let node = &mut self.meters[meter];
        let mut sent = node.handle(meter::Input::Measured { slot, watts }, end);
        sent.extend(node.handle(meter::Input::Tick, end.plus_secs(30)));
        sent
    }

    /// Delivers a packet of the gateway's to one meter.
    pub(crate) fn deliver(&mut self, meter: usize, packet: &Packet, wall: Timestamp) -> Vec<Packet> {
        self.meters[meter].receive(packet, wall)
    }
}

/// A list that a gateway signs, whatever it says: for lists that no honest gateway would make.
pub(crate) fn sign_list(pki: &Pki, statement: &ListStatement<'_>) -> Packet {
    let gateway = pki.gateway("gw");
    let topic = GatewayChannel::Membership.topic(&statement.cluster);
    let payload = statement.seal((&gateway.identity(), &gateway.der), &topic);
    Packet::new(GatewayChannel::FullMembership.topic(&statement.cluster), payload)
}
