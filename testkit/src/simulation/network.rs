//! An MQTT-like network in virtual time: a queue of events, links that misbehave, and a broker with a retained
//! membership topic and persistent sessions.

use std::collections::BTreeMap;

use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, Topic};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::node::Packet;

/// Who is connected to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Gateway,
    Meter(usize),
}

/// How the way between a node and the broker behaves; chances are per thousand packets.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Milliseconds, from and to. Packets overtake one another.
    pub delay: (u64, u64),
    /// Lost at first and sent again some seconds later, as QoS 1 does.
    pub late: u64,
    /// Lost for good, because the connection breaks and a meter's client has no persistent session, or the publisher's
    /// none of its own. The gateway's subscriptions persist.
    pub lost: u64,
    /// Delivered a second time, some seconds later.
    pub twice: u64,
}

impl Link {
    pub const GOOD: Self = Self { delay: (5, 250), late: 0, lost: 0, twice: 0 };
    pub const LIGHT: Self = Self { delay: (5, 400), late: 20, lost: 2, twice: 20 };
    pub const HEAVY: Self = Self { delay: (5, 800), late: 100, lost: 10, twice: 100 };
}

/// Milliseconds after which a late packet, or the second copy of one, arrives.
const LATE: (u64, u64) = (500, 9_000);

/// Every decision of a run, from its seed or from bytes that somebody gives.
#[derive(Debug)]
pub struct Dice {
    given: Vec<u8>,
    used: usize,
    random: ChaCha8Rng,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { given: Vec::new(), used: 0, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Makes dice that show what these bytes say, four for each throw, and are fair when there are no more.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { given: bytes.to_vec(), ..Self::new(0) }
    }

    /// From `from` to `to`, inclusive.
    pub fn between(&mut self, (from, to): (u64, u64)) -> u64 {
        from + self.throw() % (to - from + 1)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.throw() % end as u64).unwrap()
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.throw().is_multiple_of(times)
    }

    /// Whether something of this chance, in parts of `of`, happens.
    pub fn chance(&mut self, parts: u64, of: u64) -> bool {
        parts > 0 && self.throw() % of < parts
    }

    fn throw(&mut self) -> u64 {
        let given = self.given.get(self.used..).and_then(|rest| rest.first_chunk());
        given.map_or_else(
            || self.random.next_u64(),
            |four| {
                self.used += four.len();
                u32::from_le_bytes(*four).into()
            },
        )
    }
}

/// What happens next.
#[derive(Debug)]
pub enum Event<T> {
    Timer(T),
    Delivery {
        to: Node,
        packet: Packet,
    },
    /// A packet was lost with the connection that carried it.
    Broken(Node),
    AtBroker {
        number: u64,
        packet: Packet,
    },
}

/// A node's session at the broker: it outlives connections.
#[derive(Debug, Default)]
struct Session {
    connected: bool,
    /// At the broker, for when the node is back.
    inbox: Vec<Packet>,
    /// At the node, for when the broker is back.
    outbox: Vec<Packet>,
}

/// The queue, the broker and the links; `T` is what else is waited for.
#[derive(Debug)]
pub struct Network<T> {
    now: Timestamp,
    order: u64,
    queue: BTreeMap<(Timestamp, u64), Event<T>>,
    sessions: BTreeMap<Node, Session>,
    /// By topic, with the number of its publication: a client sends again in order, so an old copy never replaces a new list.
    retained: BTreeMap<String, (u64, Packet)>,
    pub link: Link,
    pub dice: Dice,
}

impl<T> Network<T> {
    pub fn new(nodes: impl IntoIterator<Item = Node>, link: Link, start: Timestamp, dice: Dice) -> Self {
        Self {
            now: start,
            order: 0,
            queue: BTreeMap::new(),
            sessions: nodes.into_iter().map(|node| (node, Session::default())).collect(),
            retained: BTreeMap::new(),
            link,
            dice,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn is_connected(&self, node: Node) -> bool {
        self.sessions[&node].connected
    }

    /// Waits; what is due already comes next, in the order of the calls.
    pub fn wait(&mut self, until: Timestamp, timer: T) {
        self.schedule(until.max(self.now), Event::Timer(timer));
    }

    pub fn wait_millis(&mut self, millis: u64, timer: T) {
        self.wait(self.now.plus_millis(millis), timer);
    }

    /// The next thing that concerns a node, before `end`.
    pub fn next(&mut self, end: Timestamp) -> Option<Event<T>> {
        loop {
            let next = self.queue.first_entry().filter(|next| next.key().0 < end)?;
            let ((at, _), event) = next.remove_entry();
            self.now = at;
            match event {
                Event::AtBroker { number, packet } => self.route(number, &packet),
                Event::Delivery { to, packet } if !self.is_connected(to) => self.session(to).inbox.push(packet),
                Event::Delivery { .. } | Event::Broken(_) | Event::Timer(_) => return Some(event),
            }
        }
    }

    /// A node hands a packet to its client.
    pub fn publish(&mut self, from: Node, packet: Packet) {
        if !self.is_connected(from) {
            return self.session(from).outbox.push(packet);
        }
        let number = self.order;
        if self.is_lost() {
            return self.schedule(self.now, Event::Broken(from));
        }
        for delay in self.travel() {
            self.schedule(self.now.plus_millis(delay), Event::AtBroker { number, packet: packet.clone() });
        }
    }

    /// A delivery was not acknowledged: it comes again with the next connection.
    pub fn not_acknowledged(&mut self, by: Node, packet: Packet) {
        self.session(by).inbox.push(packet);
    }

    /// The broker gives a node what waited for it, and what is retained.
    pub fn connect(&mut self, node: Node) {
        let session = self.session(node);
        session.connected = true;
        let (mut inbox, outbox) = (std::mem::take(&mut session.inbox), std::mem::take(&mut session.outbox));
        inbox.extend(self.retained.values().map(|(_, packet)| packet.clone()));
        for packet in inbox {
            self.deliver(node, &packet);
        }
        for packet in outbox {
            self.publish(node, packet);
        }
    }

    /// The broker gives a node what is retained on a topic that it has just subscribed to.
    pub fn subscribe(&mut self, node: Node, topic: &str) {
        if let Some((_, packet)) = self.retained.get(topic).cloned().filter(|_| self.is_connected(node)) {
            self.deliver(node, &packet);
        }
    }

    pub fn disconnect(&mut self, node: Node) {
        self.session(node).connected = false;
    }

    /// The node's process ends, and with it what its client has not sent.
    pub fn forget_outbox(&mut self, node: Node) {
        self.session(node).outbox.clear();
    }

    fn session(&mut self, node: Node) -> &mut Session {
        self.sessions.get_mut(&node).expect("a node of this network")
    }

    fn route(&mut self, number: u64, packet: &Packet) {
        let to: Vec<Node> = match Topic::parse(&packet.topic).unwrap() {
            Topic::Meter { .. } => vec![Node::Gateway],
            Topic::Gateway { channel: GatewayChannel::Membership | GatewayChannel::FullMembership, .. } => {
                if self.retained.get(&packet.topic).is_none_or(|(newest, _)| *newest <= number) {
                    self.retained.insert(packet.topic.clone(), (number, packet.clone()));
                }
                self.sessions.keys().copied().collect()
            }
            Topic::Gateway { .. } => self.sessions.keys().copied().filter(|node| *node != Node::Gateway).collect(),
        };
        for node in to {
            self.deliver(node, packet);
        }
    }

    fn deliver(&mut self, to: Node, packet: &Packet) {
        if to != Node::Gateway && self.is_connected(to) && self.is_lost() {
            return self.schedule(self.now, Event::Broken(to));
        }
        for delay in self.travel() {
            self.schedule(self.now.plus_millis(delay), Event::Delivery { to, packet: packet.clone() });
        }
    }

    fn is_lost(&mut self) -> bool {
        self.dice.chance(self.link.lost, 1000)
    }

    /// How long each copy of a packet takes to the other end of a link.
    fn travel(&mut self) -> Vec<u64> {
        let Link { delay, late, twice, .. } = self.link;
        let dice = &mut self.dice;
        let mut copies = vec![dice.between(delay)];
        if dice.chance(late, 1000) {
            copies[0] += dice.between(LATE);
        }
        if dice.chance(twice, 1000) {
            copies.push(dice.between(LATE));
        }
        copies
    }

    fn schedule(&mut self, at: Timestamp, event: Event<T>) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }
}
