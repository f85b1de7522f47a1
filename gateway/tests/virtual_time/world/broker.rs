//! A broker in memory: retained messages, persistent sessions, last wills, and redelivery of what was not acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dream_protocol::time::Timestamp;
use dream_testkit::lab::client::{Answer, Event, Message};
use dream_testkit::lab::fleet::Link;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long meters wait before they connect again.
const PAUSE: Duration = Duration::from_millis(100);

/// What a connection hands to its client.
#[derive(Debug)]
pub enum Incoming {
    /// A message with the packet's number, under which it is acknowledged.
    Message(u16, Message),
    /// The connection has ended.
    Closed,
}

/// One connection of a client.
#[derive(Debug)]
pub struct Connected {
    pub number: u64,
    pub incoming: UnboundedReceiver<Incoming>,
}

/// A message that the broker publishes when a connection is cut: its topic and payload.
pub type Will = (String, Vec<u8>);

/// The broker. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Broker(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    down: bool,
    retained: BTreeMap<String, Vec<u8>>,
    sessions: BTreeMap<String, Session>,
    connections: u64,
    /// Everything that was ever published.
    log: Vec<Message>,
    /// Wakes those that wait for a message.
    news: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Session {
    filters: BTreeSet<String>,
    /// What is not acknowledged, in its order.
    queue: VecDeque<(u16, Message)>,
    packets: u16,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    incoming: UnboundedSender<Incoming>,
    will: Option<Will>,
}

impl Broker {
    /// Connects a client, and throws out another one of the same id; `None` while the broker is down. What the session has
    /// not acknowledged comes again.
    pub fn connect(&self, id: &str, will: Option<Will>) -> Option<Connected> {
        let mut state = self.state();
        if state.down {
            return None;
        }
        state.cut(id);
        state.connections += 1;
        let number = state.connections;
        let (sender, incoming) = unbounded_channel();
        let session = state.sessions.entry(id.to_owned()).or_default();
        for (packet, message) in &session.queue {
            sender.send(Incoming::Message(*packet, message.clone())).ok();
        }
        session.connection = Some(Connection { number, incoming: sender, will });
        Some(Connected { number, incoming })
    }

    /// Publishes for a connection; one that is gone publishes nothing.
    pub fn publish_over(&self, id: &str, number: u64, topic: &str, payload: &[u8], retain: bool) {
        let mut state = self.state();
        if state.connection(id, number).is_some() {
            state.publish(topic, payload, retain);
        }
    }

    /// Publishes for somebody who is always connected.
    pub fn publish(&self, topic: &str, payload: &[u8], retain: bool) {
        self.state().publish(topic, payload, retain);
    }

    /// Subscribes, and delivers what is retained.
    pub fn subscribe(&self, id: &str, number: u64, filters: &[String]) {
        let mut state = self.state();
        let retained: Vec<Message> = state.retained_for(filters);
        if let Some(session) = state.connection(id, number) {
            session.filters.extend(filters.iter().cloned());
            retained.into_iter().for_each(|message| session.deliver(message));
        }
    }

    pub fn unsubscribe(&self, id: &str, number: u64, filters: &[String]) {
        if let Some(session) = self.state().connection(id, number) {
            session.filters.retain(|filter| !filters.contains(filter));
        }
    }

    pub fn acknowledge(&self, id: &str, number: u64, packet: u16) {
        if let Some(session) = self.state().connection(id, number) {
            session.queue.retain(|(waiting, _)| *waiting != packet);
        }
    }

    /// Ends a connection as its client wants it: without its last will.
    pub fn disconnect(&self, id: &str, number: u64) {
        if let Some(session) = self.state().connection(id, number) {
            session.close();
        }
    }

    /// Cuts a client's connection, and publishes its last will.
    pub fn cut(&self, id: &str) {
        self.state().cut(id);
    }

    /// Stops the broker: every connection ends, and no will is published. What it knows is kept.
    pub fn stop(&self) {
        let mut state = self.state();
        state.down = true;
        state.sessions.values_mut().for_each(|session| drop(session.close()));
    }

    /// Runs it again.
    pub fn start(&self) {
        self.state().down = false;
    }

    /// Returns everything that was ever published.
    pub fn log(&self) -> Vec<Message> {
        self.state().log.clone()
    }

    /// Waits until so many more messages were published on topics that contain this.
    pub async fn wait_for(&self, count: usize, topic: &str) {
        let begun = self.state().log.len();
        let news = self.state().news.clone();
        let seen = || self.state().log[begun..].iter().filter(|message| message.topic.contains(topic)).count();
        loop {
            let published = news.notified();
            if seen() >= count {
                return;
            }
            published.await;
        }
    }

    /// Returns what a newcomer finds on a topic.
    pub fn retained(&self, topic: &str) -> Option<Vec<u8>> {
        self.state().retained.get(topic).cloned()
    }

    /// Returns how many messages a session has not acknowledged.
    pub fn unacknowledged(&self, id: &str) -> usize {
        self.state().sessions.get(id).map_or(0, |session| session.queue.len())
    }

    /// Returns what a session is subscribed to.
    pub fn filters(&self, id: &str) -> BTreeSet<String> {
        self.state().sessions.get(id).map(|session| session.filters.clone()).unwrap_or_default()
    }

    /// Connects meters, again after every loss; what they publish meanwhile waits.
    pub fn link(&self, id: &str, filters: &[String], clock: impl Fn() -> Timestamp + Send + 'static) -> Link {
        let (sender, events) = unbounded_channel();
        let (outgoing, waiting) = unbounded_channel::<(String, Vec<u8>)>();
        tokio::spawn(keep_connected(self.clone(), id.to_owned(), filters.to_vec(), waiting, sender));
        let publish = move |topic: &str, payload: &[u8]| {
            outgoing.send((topic.to_owned(), payload.to_vec())).ok();
        };
        Link { publish: Box::new(publish), events, clock: Box::new(clock) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

/// Acknowledges whatever comes; ends when nobody listens any more.
async fn keep_connected(
    broker: Broker,
    id: String,
    filters: Vec<String>,
    mut waiting: UnboundedReceiver<(String, Vec<u8>)>,
    events: UnboundedSender<Event>,
) {
    while !events.is_closed() {
        if let Some(Connected { number, mut incoming }) = broker.connect(&id, None) {
            broker.subscribe(&id, number, &filters);
            events.send(Event::Subscriptions(Answer::Granted)).ok();
            loop {
                tokio::select! {
                    biased;
                    () = events.closed() => return,
                    arrived = incoming.recv() => {
                        let Some(Incoming::Message(packet, message)) = arrived else { break };
                        broker.acknowledge(&id, number, packet);
                        events.send(Event::Message(message)).ok();
                    }
                    sent = waiting.recv() => {
                        let Some((topic, payload)) = sent else { return };
                        broker.publish_over(&id, number, &topic, &payload, false);
                    }
                }
            }
        }
        events.send(Event::Subscriptions(Answer::Disconnected)).ok();
        tokio::time::sleep(PAUSE).await;
    }
}

impl State {
    fn publish(&mut self, topic: &str, payload: &[u8], retain: bool) {
        if retain && payload.is_empty() {
            self.retained.remove(topic);
        } else if retain {
            self.retained.insert(topic.to_owned(), payload.to_vec());
        }
        let message = Message { topic: topic.to_owned(), payload: payload.to_vec(), retained: false };
        for session in self.sessions.values_mut() {
            if session.filters.iter().any(|filter| matches(filter, topic)) {
                session.deliver(message.clone());
            }
        }
        self.log.push(message);
        self.news.notify_waiters();
    }

    fn retained_for(&self, filters: &[String]) -> Vec<Message> {
        let wanted = self.retained.iter().filter(|(topic, _)| filters.iter().any(|filter| matches(filter, topic)));
        let message = |(topic, payload): (&String, &Vec<u8>)| Message {
            topic: topic.clone(),
            payload: payload.clone(),
            retained: true,
        };
        wanted.map(message).collect()
    }

    /// Returns the session of a connection, if it is still that of the client.
    fn connection(&mut self, id: &str, number: u64) -> Option<&mut Session> {
        let session = self.sessions.get_mut(id)?;
        session.connection.as_ref().is_some_and(|connection| connection.number == number).then_some(session)
    }

    fn cut(&mut self, id: &str) {
        let will = self.sessions.get_mut(id).and_then(Session::close);
        if let Some((topic, payload)) = will {
            self.publish(&topic, &payload, true);
        }
    }
}

impl Session {
    fn deliver(&mut self, message: Message) {
        self.packets = self.packets.checked_add(1).unwrap_or(1);
        self.queue.push_back((self.packets, message.clone()));
        if let Some(connection) = &self.connection {
            connection.incoming.send(Incoming::Message(self.packets, message)).ok();
        }
    }

    /// Ends the connection, and returns its will.
    fn close(&mut self) -> Option<Will> {
        let connection = self.connection.take()?;
        connection.incoming.send(Incoming::Closed).ok();
        connection.will
    }
}

/// Whether a topic is one of a filter's: `+` stands for one level, `#` for all that follow.
fn matches(filter: &str, topic: &str) -> bool {
    let (mut wanted, mut levels) = (filter.split('/'), topic.split('/'));
    loop {
        match (wanted.next(), levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}
