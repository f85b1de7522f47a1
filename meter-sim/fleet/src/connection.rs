//! One MQTT connection for one or more meters of a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dream_edge::mqtt::{self, Client, Message, Session};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What happens on a connection, with its number.
#[derive(Debug)]
pub(crate) enum Event {
    Connected(usize),
    Lost { connection: usize, reason: String },
    Messages { connection: usize, messages: Vec<Message> },
}

/// What tells the subscriptions with which a connection begins from later ones.
const FIRST: u64 = 0;
const LATER: u64 = 1;

#[derive(Debug)]
pub(crate) struct Connection(Arc<Mutex<Subscribed>>);

/// What a connection subscribes to.
#[derive(Debug)]
struct Subscribed {
    session: Option<Session>,
    /// Every topic that it may subscribe to, with whether it does.
    topics: BTreeMap<String, bool>,
    /// What is asked of the broker for single topics, until it grants them.
    asking: BTreeMap<String, AbortHandle>,
}

impl Connection {
    /// Connects, reconnects after every loss, subscribes each time to what is wanted then, and forwards what arrives.
    pub(crate) fn start(
        number: usize,
        client: Client,
        topics: BTreeMap<String, bool>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let shared = Arc::new(Mutex::new(Subscribed { session: None, topics, asking: BTreeMap::new() }));
        tokio::spawn(forward(number, client.start(), shared.clone(), events));
        Self(shared)
    }

    /// Subscribes to a topic, or does so no more, now or when the connection is back. Returns whether it did already.
    pub(crate) fn want(&self, topic: String, wanted: bool) -> bool {
        let mut shared = lock(&self.0);
        let before = shared.topics.insert(topic.clone(), wanted).unwrap_or_default();
        let Some(session) = shared.session.clone().filter(|_| before != wanted) else { return before };
        if let Some(asking) = shared.asking.remove(&topic) {
            asking.abort();
        }
        if wanted {
            shared.asking.insert(topic.clone(), session.subscribe(vec![topic], LATER));
        } else {
            session.unsubscribe(vec![topic]);
        }
        before
    }

    /// Publishes with QoS 1. What is published without a connection is dropped: meters say again what matters when it is back.
    pub(crate) fn publish(&self, topic: String, payload: Vec<u8>) {
        if let Some(session) = &lock(&self.0).session {
            session.publish(topic, payload, false);
        }
    }

    pub(crate) fn disconnect(&self) {
        if let Some(session) = &lock(&self.0).session {
            session.disconnect();
        }
    }
}

async fn forward(
    number: usize,
    mut connection: mqtt::Connection,
    shared: Arc<Mutex<Subscribed>>,
    events: mpsc::UnboundedSender<Event>,
) {
    let lost = |reason| Event::Lost { connection: number, reason };
    while let Some(event) = connection.next().await {
        let event = match event {
            mqtt::Event::Connected(session) => {
                lock(&shared).begin(session);
                continue;
            }
            mqtt::Event::Subscribed { tag: FIRST, .. } => Event::Connected(number),
            mqtt::Event::Subscribed { .. } => continue,
            mqtt::Event::Refused { filter, .. } => lost(format!("the broker refuses the subscription to {filter}")),
            mqtt::Event::Messages(messages) => Event::Messages { connection: number, messages },
            mqtt::Event::Lost(trouble) => {
                lock(&shared).session = None;
                lost(trouble.to_string())
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

impl Subscribed {
    /// Subscribes to what is wanted. A session that the broker has kept may be subscribed to more.
    fn begin(&mut self, session: Session) {
        let topics = self.topics.clone().into_iter();
        let (wanted, others): (Vec<_>, Vec<_>) = topics.partition(|(_, wanted)| *wanted);
        let names = |topics: Vec<(String, bool)>| topics.into_iter().map(|(topic, _)| topic).collect();
        session.subscribe(names(wanted), FIRST);
        if session.is_kept() {
            session.unsubscribe(names(others));
        }
        self.asking.clear();
        self.session = Some(session);
    }
}

fn lock(shared: &Mutex<Subscribed>) -> MutexGuard<'_, Subscribed> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
