//! The honest meters: real machines on real connections, and what each of them makes of every message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dream_protocol::ids::ClusterId;
use dream_protocol::meter::{Input, Meter, MeterConfig, MeterError, Notice, Output, Refusal};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::cast::{Actor, now, wall, watts};
use super::client::{Client, Event};
use crate::access::Access;

/// What a group of meters has to tell.
#[derive(Debug)]
pub(super) enum News {
    /// A group is connected, and its meters have enrolled.
    Connected,
    Reacted(Reaction),
    Lost(String),
}

/// What one meter made of one message of the gateway.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) meter: usize,
    /// SHA-256 of the message.
    pub(super) message: [u8; 32],
    pub(super) refusal: Option<Refusal>,
    /// Whether it did what was asked: accepted a list, answered a request, reported again.
    pub(super) complied: bool,
}

pub(super) fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

/// The meters of one connection.
pub(super) struct Group {
    nodes: Vec<Node>,
    client: Client,
    events: UnboundedReceiver<Event>,
    news: UnboundedSender<News>,
}

impl Group {
    /// Meters of `cluster` that connect as this client.
    pub(super) fn connect(
        access: &Access,
        client_id: &str,
        actors: Vec<Actor>,
        cluster: &ClusterId,
        policy: &Policy,
        simulation: Simulation,
        news: UnboundedSender<News>,
    ) -> Result<Self, MeterError> {
        let node = |Actor { number, der, identity }| {
            let config = MeterConfig { identity, certificate: der, cluster: cluster.clone(), policy: policy.clone() };
            let mut meter = Meter::resume(config, [])?;
            meter.simulate(simulation);
            Ok(Node { number, meter, begun: Instant::now(), measuring: None })
        };
        let nodes = actors.into_iter().map(node).collect::<Result<_, MeterError>>()?;
        let topics = [GatewayChannel::Membership, GatewayChannel::Recovery].map(|channel| channel.topic(cluster));
        let (client, events) = Client::connect(access, client_id, &topics);
        Ok(Self { nodes, client, events, news })
    }

    /// Plays the meters until nobody listens any more.
    pub(super) async fn run(mut self) {
        while !self.news.is_closed() {
            let wait = self.wait();
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            let at = wall();
            for node in &mut self.nodes {
                publish(&self.client, node.advance(at));
            }
        }
    }

    /// How long until something is due.
    fn wait(&self) -> Duration {
        let due = self.nodes.iter().filter_map(Node::deadline).min();
        let millis = due.map_or(1000, |due| due.millis_since(wall()));
        Duration::from_millis(millis.clamp(1, 1000))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Subscribed => {
                for node in &mut self.nodes {
                    publish(&self.client, node.handle(Input::Connected));
                }
                self.tell(News::Connected);
            }
            Event::Lost(error) => self.tell(News::Lost(error)),
            Event::Message { topic, payload } => {
                let message = digest(&payload);
                for at in 0..self.nodes.len() {
                    let node = &mut self.nodes[at];
                    let done = node.handle(Input::Message { topic: &topic, payload: &payload });
                    let reaction = done.reaction(node.number, message);
                    publish(&self.client, done);
                    self.tell(News::Reacted(reaction));
                }
            }
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens once the run is over.
        self.news.send(news).ok();
    }
}

fn publish(client: &Client, done: Done) {
    for (topic, payload) in done.published {
        client.publish(&topic, &payload);
    }
}

struct Node {
    number: usize,
    meter: Meter,
    begun: Instant,
    /// The slot that is being measured, and its end.
    measuring: Option<(Slot, Timestamp)>,
}

/// What a meter did.
#[derive(Default)]
struct Done {
    published: Vec<(String, Arc<[u8]>)>,
    notices: Vec<Notice>,
}

impl Node {
    fn handle(&mut self, input: Input<'_>) -> Done {
        self.meter.handle(input, now(self.begun), &mut rand::rng());
        let mut done = Done::default();
        while let Some(output) = self.meter.poll() {
            match output {
                // Nothing is restarted in a run, so nothing has to outlive it.
                Output::Persist(_) | Output::Erase(_) => {}
                Output::Publish { topic, payload } => done.published.push((topic, payload)),
                Output::Notice(notice) => done.notices.push(notice),
            }
        }
        done
    }

    /// Does what is due: reports the slot that has ended, and ticks.
    fn advance(&mut self, at: Timestamp) -> Done {
        let mut all = Done::default();
        if let Some((slot, _)) = self.measuring.filter(|(_, end)| *end <= at) {
            all.published.extend(self.handle(Input::Measured { slot, watts: watts(self.number) }).published);
        }
        if self.meter.deadline().is_some_and(|due| due <= at) {
            all.published.extend(self.handle(Input::Tick).published);
        }
        self.measuring = self.meter.measuring(at).map(|(slot, _, end)| (slot, end));
        all
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.meter.deadline().into_iter().chain(self.measuring.map(|(_, end)| end)).min()
    }
}

impl Done {
    fn reaction(&self, meter: usize, message: [u8; 32]) -> Reaction {
        let refusal = self.notices.iter().find_map(|notice| match notice {
            Notice::Refused(refusal) => Some(refusal.clone()),
            Notice::Enrolled { .. }
            | Notice::ListAccepted { .. }
            | Notice::Charged { .. }
            | Notice::Answered { .. } => None,
        });
        let accepted =
            self.notices.iter().any(|notice| matches!(notice, Notice::ListAccepted { .. } | Notice::Charged { .. }));
        let revealed = self
            .published
            .iter()
            .any(|(topic, _)| matches!(Topic::parse(topic), Ok(Topic::Meter { channel: MeterChannel::Reveal, .. })));
        Reaction { meter, message, refusal, complied: accepted || revealed }
    }
}
