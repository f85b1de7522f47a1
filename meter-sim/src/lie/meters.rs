//! The honest meters: the real machines on real connections, and their reactions to every message.

use std::time::Duration;

use dream_protocol::ids::ClusterId;
use dream_protocol::meter::{Input, MeterConfig, MeterError, Notice, Refusal};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_virtual::node::{MeterNode, Packet};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::link::{Event, Link, Publish};
use super::participants::{MeterIdentity, watts};
use dream_fleet::clock::Clock;

/// Something that happened in a group of meters.
#[derive(Debug)]
pub(super) enum MeterEvent {
    /// A group is connected, and its meters have enrolled.
    Connected,
    Reacted(Reaction),
    Lost(String),
}

/// How one meter reacted to one message of the gateway.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) meter: usize,
    /// SHA-256 of the message.
    pub(super) message: [u8; 32],
    pub(super) refusal: Option<Refusal>,
    /// Whether it complied: accepted a list, answered a request, reported again.
    pub(super) complied: bool,
}

pub(super) fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

/// The meters of one connection.
pub(super) struct MeterGroup {
    nodes: Vec<Node>,
    client: Box<dyn Publish>,
    events: UnboundedReceiver<Event>,
    meter_events: UnboundedSender<MeterEvent>,
    clock: Clock,
}

impl MeterGroup {
    /// Meters of `cluster` that connect as this client.
    pub(super) fn connect(
        link: &dyn Link,
        client_id: &str,
        identities: Vec<MeterIdentity>,
        cluster: &ClusterId,
        policy: &Policy,
        simulation: Simulation,
        meter_events: UnboundedSender<MeterEvent>,
        clock: Clock,
    ) -> Result<Self, MeterError> {
        let node = |MeterIdentity { number, der, identity }| {
            let config = MeterConfig { identity, certificate: der, cluster: cluster.clone(), policy: policy.clone() };
            let rng = ChaCha20Rng::from_rng(&mut rand::rng());
            Ok(Node { number, machine: MeterNode::try_new(config, simulation, rng)?, clock })
        };
        let nodes = identities.into_iter().map(node).collect::<Result<_, MeterError>>()?;
        let channels = [
            GatewayChannel::Membership,
            GatewayChannel::FullMembership,
            GatewayChannel::Recovery,
            GatewayChannel::Retry,
        ];
        let topics = channels.map(|channel| channel.topic(cluster));
        let (client, events) = link.connect(client_id, &topics);
        Ok(Self { nodes, client, events, meter_events, clock })
    }

    /// Runs the meters until the receiver of their events is dropped.
    pub(super) async fn run(mut self) {
        while !self.meter_events.is_closed() {
            let wait = self.wait();
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            for node in &mut self.nodes {
                publish(&*self.client, node.advance());
            }
        }
    }

    /// Returns the time until something is due.
    fn wait(&self) -> Duration {
        let due = self.nodes.iter().filter_map(|node| node.machine.deadline()).min();
        let millis = due.map_or(1000, |due| due.millis_since(self.clock.now().wall));
        Duration::from_millis(millis.clamp(1, 1000))
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Subscribed => {
                for node in &mut self.nodes {
                    publish(&*self.client, node.handle(Input::Connected));
                }
                self.report(MeterEvent::Connected);
            }
            Event::Lost(error) => self.report(MeterEvent::Lost(error)),
            Event::Message { topic, payload } => {
                let message = digest(&payload);
                for at in 0..self.nodes.len() {
                    let node = &mut self.nodes[at];
                    node.machine.notices.clear();
                    let sent = node.handle(Input::Message { topic: &topic, payload: &payload });
                    let reaction = node.reaction(message, &sent);
                    publish(&*self.client, sent);
                    self.report(MeterEvent::Reacted(reaction));
                }
            }
        }
    }

    fn report(&self, event: MeterEvent) {
        // The receiver is dropped when the run is over.
        self.meter_events.send(event).ok();
    }
}

fn publish(client: &dyn Publish, packets: Vec<Packet>) {
    for Packet { topic, payload, .. } in packets {
        client.publish(&topic, &payload);
    }
}

struct Node {
    number: usize,
    machine: MeterNode,
    clock: Clock,
}

impl Node {
    fn handle(&mut self, input: Input<'_>) -> Vec<Packet> {
        self.machine.handle_at(input, self.clock.now())
    }

    /// Reports the slots that have ended, and ticks.
    fn advance(&mut self) -> Vec<Packet> {
        let number = self.number;
        self.machine.advance_at(self.clock.now(), |_| Some(watts(number)))
    }

    /// Returns what came of a message: how it was refused, or that the meter complied.
    fn reaction(&mut self, message: [u8; 32], sent: &[Packet]) -> Reaction {
        let notices = std::mem::take(&mut self.machine.notices);
        let accepted =
            notices.iter().any(|notice| matches!(notice, Notice::ListAccepted { .. } | Notice::Charged { .. }));
        let reveal = self.machine.meter.topic(MeterChannel::Reveal);
        let revealed = sent.iter().any(|packet| packet.topic == reveal);
        let refusal = notices.iter().find_map(Notice::refusal).cloned();
        Reaction { meter: self.number, message, refusal, complied: accepted || revealed }
    }
}
