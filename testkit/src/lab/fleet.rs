//! The meters of a cluster, all on one connection to a broker, with faults as a test wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{About, Input, Notice, Refusal};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::StatusCode;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::access::Access;
use super::client::{Answer, Client, Event, Message};
use super::identities::Identities;
use super::{until_some, wall};
use crate::node::{MeterNode, Packet};
use crate::oracle::{self, Expected, MOST, Oracle};
use crate::rng;

/// How often meters connect anew until a first list comes. Real ones repeat their enrolment only once a minute.
const IMPATIENCE_SECONDS: u64 = 3;

/// What becomes of something that a meter publishes.
#[derive(Debug)]
pub enum Fate {
    Sent,
    Lost,
    Twice,
    Instead(Vec<u8>),
}

/// What a meter is about to publish.
#[derive(Debug)]
pub struct Outgoing<'a> {
    pub meter: usize,
    pub channel: MeterChannel,
    /// 0 unless it is a reading or a reveal.
    pub slot: Slot,
    pub attempt: u8,
    pub payload: &'a [u8],
}

/// Publishes a payload on a topic.
pub type Publish = Box<dyn Fn(&str, &[u8]) + Send>;

/// How a fleet talks to its broker, and what time it is there.
pub struct Link {
    pub publish: Publish,
    pub events: UnboundedReceiver<Event>,
    pub clock: Box<dyn Fn() -> Timestamp + Send>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    /// A connection over MQTT, and the system's clock.
    fn mqtt(access: &Access, id: &str, filters: &[String]) -> Self {
        let (client, events) = Client::connect(access.options(id), filters);
        let publish = Box::new(move |topic: &str, payload: &[u8]| client.publish(topic, payload, false));
        Self { publish, events, clock: Box::new(wall) }
    }
}

/// The meters of a cluster. They run until this is dropped.
#[derive(Debug)]
pub struct Fleet {
    state: Arc<Mutex<State>>,
    driving: JoinHandle<()>,
}

impl Fleet {
    /// Connects meters that never fail to a broker.
    pub fn start(identities: &Identities, access: &Access, cluster: &str, meters: usize) -> Self {
        Self::with_faults(identities, access, cluster, meters, |_| Fate::Sent)
    }

    /// Connects meters whose packets meet the fate that `fate` decides on.
    pub fn with_faults(
        identities: &Identities,
        access: &Access,
        cluster: &str,
        meters: usize,
        fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static,
    ) -> Self {
        let link = Link::mqtt(access, &Self::client_id(cluster), &Self::filters(cluster));
        Self::over(link, identities, cluster, meters, fate)
    }

    /// Returns the id of a fleet's connection.
    pub fn client_id(cluster: &str) -> String {
        format!("fleet-{cluster}")
    }

    /// Returns what a fleet subscribes to: lists whole, which serve every meter in both schemes, requests and retries.
    pub fn filters(cluster: &str) -> [String; 3] {
        let cluster = ClusterId::new(cluster).unwrap();
        let channels = [GatewayChannel::FullMembership, GatewayChannel::Recovery, GatewayChannel::Retry];
        channels.map(|channel| channel.topic(&cluster))
    }

    /// Puts meters on any connection that has subscribed to [`Fleet::filters`].
    pub fn over(
        link: Link,
        identities: &Identities,
        cluster: &str,
        meters: usize,
        fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static,
    ) -> Self {
        assert!(meters <= MOST, "sums of more than {MOST} meters do not say who is in them");
        let cluster = ClusterId::new(cluster).unwrap();
        let node = |meter: usize| {
            let config = identities.meter(&meter_name(&cluster, meter), &cluster);
            MeterNode::new(config, without_noise(), rng(rand::random()))
        };
        let nodes = (0..meters).map(node).collect();
        let Link { publish, events, clock } = link;
        let connect_again = clock().plus_secs(IMPATIENCE_SECONDS);
        let state = Arc::new(Mutex::new(State {
            oracle: Oracle::default(),
            cluster,
            authorities: identities.pki.authorities(),
            nodes,
            newest: None,
            publish,
            clock,
            fate: Box::new(fate),
            sent: BTreeMap::new(),
            connect_again,
        }));
        let driving = tokio::spawn(drive(state.clone(), events));
        Self { state, driving }
    }

    /// Replaces the faults from now on.
    pub fn set_faults(&self, fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static) {
        self.state().fate = Box::new(fate);
    }

    /// Cuts a meter's power for a moment: it goes on from its records.
    pub fn restart(&self, identities: &Identities, meter: usize) {
        self.restart_as(identities, meter, without_noise());
    }

    /// The same for a meter that breaks rules from then on.
    pub fn restart_as(&self, identities: &Identities, meter: usize, simulation: Simulation) {
        let mut state = self.state();
        let config = identities.meter(&meter_name(&state.cluster, meter), &state.cluster);
        let now = (state.clock)();
        state.nodes[meter].restart(config, simulation);
        let packets = state.nodes[meter].handle(Input::Connected, now);
        state.send(meter, packets);
    }

    /// Returns what the gateway must find for a slot, if it has asked for it.
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        self.state().oracle.expected_of(slot, |meter, slot| oracle::reading(meter_of(meter), slot))
    }

    /// Returns whose reading of a slot went out, in any attempt.
    pub fn reported(&self, slot: Slot) -> BTreeSet<MeterId> {
        self.state().sent.get(&slot).cloned().unwrap_or_default()
    }

    /// Returns how often the gateway has signed two different requests or retries for one attempt.
    pub fn contradictions(&self) -> usize {
        self.state().oracle.contradictions()
    }

    /// Returns all lists that came, by epoch.
    pub fn lists(&self) -> BTreeMap<u64, Arc<MembershipList>> {
        self.state().oracle.lists().map(|list| (list.epoch(), list.clone())).collect()
    }

    /// Waits for the first list, the second one, and so on, counted from 1.
    pub async fn list(&self, number: usize) -> Arc<MembershipList> {
        let find = || self.lists().into_values().nth(number - 1);
        until_some(&format!("list {number} comes"), find).await
    }

    /// Returns everything that meters have noticed so far.
    pub fn notices(&self) -> Vec<(usize, Notice)> {
        let state = self.state();
        let nodes = state.nodes.iter().enumerate();
        nodes.flat_map(|(meter, node)| node.notices.iter().map(move |notice| (meter, notice.clone()))).collect()
    }

    /// Returns proof that the gateway has lied, as meters see it.
    pub fn equivocations(&self) -> Vec<(usize, Refusal)> {
        let refusal = |(meter, notice): (usize, Notice)| Some((meter, notice.refusal()?.clone()));
        let refusals = self.notices().into_iter().filter_map(refusal);
        refusals.filter(|(_, refusal)| refusal.status() == Some(StatusCode::Equivocation)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

struct State {
    cluster: ClusterId,
    authorities: Authorities,
    nodes: Vec<MeterNode>,
    oracle: Oracle,
    /// The last list that came, verified once for all.
    newest: Option<Arc<MembershipList>>,
    publish: Publish,
    clock: Box<dyn Fn() -> Timestamp + Send>,
    fate: Box<dyn FnMut(&Outgoing<'_>) -> Fate + Send>,
    sent: BTreeMap<Slot, BTreeSet<MeterId>>,
    connect_again: Timestamp,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

async fn drive(state: Arc<Mutex<State>>, mut events: UnboundedReceiver<Event>) {
    loop {
        let wait = state.lock().unwrap().wait();
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => state.lock().unwrap().take(&event),
                None => return,
            },
            () = tokio::time::sleep(wait) => {}
        }
        state.lock().unwrap().advance();
    }
}

impl State {
    /// Returns how long it is until something is due.
    fn wait(&self) -> Duration {
        let due = self.nodes.iter().filter_map(MeterNode::deadline).min();
        let millis = due.map_or(1000, |due| due.millis_since((self.clock)()));
        Duration::from_millis(millis.clamp(1, 1000))
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Subscriptions(Answer::Granted) => self.tell_all(&Input::Connected),
            Event::Subscriptions(Answer::Refused | Answer::Disconnected) => {}
            Event::Message(Message { topic, payload, .. }) => {
                let raw = Input::Message { topic, payload };
                match Topic::parse(topic) {
                    Ok(Topic::Gateway { channel: GatewayChannel::FullMembership, .. }) => {
                        let input = self.verify(payload).map_or(raw, Input::List);
                        self.tell_all(&input);
                    }
                    Ok(Topic::Gateway { channel: GatewayChannel::Recovery | GatewayChannel::Retry, .. }) => {
                        self.oracle.note_recovery(payload);
                        self.tell_all(&raw);
                    }
                    Ok(_) | Err(_) => panic!("nobody subscribed to {topic}"),
                }
            }
        }
    }

    fn verify(&mut self, payload: &[u8]) -> Option<Arc<MembershipList>> {
        if let Some(known) = self.newest.as_ref().filter(|known| **known.bytes() == *payload) {
            return Some(known.clone());
        }
        let list = MembershipList::verify(payload, &self.cluster, &self.authorities).ok()?;
        self.oracle.note_list(&list);
        self.newest = Some(list.clone());
        Some(list)
    }

    fn tell_all(&mut self, input: &Input<'_>) {
        let now = (self.clock)();
        for meter in 0..self.nodes.len() {
            let packets = self.nodes[meter].handle(input.clone(), now);
            self.send(meter, packets);
        }
    }

    fn advance(&mut self) {
        let now = (self.clock)();
        if self.newest.is_none() && self.connect_again <= now {
            self.connect_again = now.plus_secs(IMPATIENCE_SECONDS);
            self.tell_all(&Input::Connected);
        }
        for meter in 0..self.nodes.len() {
            let packets = self.nodes[meter].advance(now, |slot| Some(oracle::reading(meter, slot)));
            self.send(meter, packets);
        }
    }

    fn send(&mut self, meter: usize, packets: Vec<Packet>) {
        for Packet { topic, about, payload } in packets {
            let Ok(Topic::Meter { channel, .. }) = Topic::parse(&topic) else { panic!("no meter's topic: {topic}") };
            let About { slot, attempt } = about.unwrap_or(About { slot: Slot(0), attempt: 0 });
            let fate = (self.fate)(&Outgoing { meter, channel, slot, attempt, payload: &payload });
            let sent: &[&[u8]] = match &fate {
                Fate::Sent => &[&payload],
                Fate::Lost => &[],
                Fate::Twice => &[&payload, &payload],
                Fate::Instead(other) => &[other],
            };
            sent.iter().for_each(|payload| (self.publish)(&topic, payload));
            if channel == MeterChannel::Reading && matches!(fate, Fate::Sent | Fate::Twice) {
                self.sent.entry(slot).or_default().insert(self.nodes[meter].meter.id().clone());
            }
        }
    }
}

/// So that a sum is what the readings add up to.
fn without_noise() -> Simulation {
    Simulation { share: Some(0), ..Simulation::default() }
}

fn meter_name(cluster: &ClusterId, meter: usize) -> String {
    format!("{cluster}-{meter:02}")
}

/// Returns which of a cluster's meters has this name.
fn meter_of(name: &MeterId) -> usize {
    name.as_str().rsplit_once('-').unwrap().1.parse().unwrap()
}
