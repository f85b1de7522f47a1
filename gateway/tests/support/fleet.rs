//! The meters of a cluster over real MQTT, all on one connection, with faults as a test wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dream_protocol::certificate::Authorities;
use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, Notice, Refusal};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Reveal, StatusCode};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::broker::Access;
use super::client::{Client, Event, Message};
use super::identities::Identities;
use super::node::{Node, Packet};
use super::oracle::{self, Expected, MOST, Oracle};
use super::{until_some, wall};

/// How often meters connect anew until a first list comes. Real ones repeat their enrolment only once a minute.
const IMPATIENCE_SECONDS: u64 = 3;

/// What becomes of something that a meter publishes.
pub enum Fate {
    Sent,
    Lost,
    Twice,
    Instead(Vec<u8>),
}

/// What a meter is about to publish.
pub struct Outgoing<'a> {
    pub meter: usize,
    pub channel: MeterChannel,
    /// 0 unless it is a reading or a reveal.
    pub slot: Slot,
    pub attempt: u8,
    pub payload: &'a [u8],
}

pub struct Fleet {
    state: Arc<Mutex<State>>,
    driving: JoinHandle<()>,
}

impl Fleet {
    /// Meters that never fail.
    pub fn start(identities: &Identities, access: &Access, cluster: &str, meters: usize) -> Self {
        Self::with_faults(identities, access, cluster, meters, |_| Fate::Sent)
    }

    /// Meters whose packets meet the fate that `fate` decides on.
    pub fn with_faults(
        identities: &Identities,
        access: &Access,
        cluster: &str,
        meters: usize,
        fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static,
    ) -> Self {
        assert!(meters <= MOST, "sums of more than {MOST} meters do not say who is in them");
        let cluster = ClusterId::new(cluster).unwrap();
        let nodes = (0..meters).map(|meter| {
            let config = identities.meter(&oracle::meter_name(&cluster, meter), &cluster);
            Node::new(config)
        });
        let nodes = nodes.collect();
        let filters = [GatewayChannel::Membership, GatewayChannel::Recovery].map(|channel| channel.topic(&cluster));
        let (client, events) = Client::connect(access, &format!("fleet-{cluster}"), &filters);
        let state = Arc::new(Mutex::new(State {
            oracle: Oracle::new(cluster.clone()),
            cluster,
            authorities: identities.pki.authorities(),
            nodes,
            newest: None,
            client,
            fate: Box::new(fate),
            sent: BTreeMap::new(),
            connect_again: wall().plus_secs(IMPATIENCE_SECONDS),
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
        let mut state = self.state();
        let config = identities.meter(&oracle::meter_name(&state.cluster, meter), &state.cluster);
        state.nodes[meter].restart(config);
        let packets = state.nodes[meter].handle(Input::Connected);
        state.publish(meter, packets);
    }

    /// What the gateway must find for a slot, if it has asked for it.
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        self.state().oracle.expected(slot)
    }

    /// Whose reading of a slot went out, in any attempt.
    pub fn reported(&self, slot: Slot) -> BTreeSet<usize> {
        self.state().sent.get(&slot).cloned().unwrap_or_default()
    }

    /// How often the gateway has signed two different requests or retries for one attempt.
    pub fn contradictions(&self) -> usize {
        self.state().oracle.contradictions()
    }

    /// All lists that came, by epoch.
    pub fn lists(&self) -> BTreeMap<u64, Arc<MembershipList>> {
        self.state().oracle.lists().map(|list| (list.epoch(), list.clone())).collect()
    }

    /// Waits for a list of at least this epoch.
    pub async fn list(&self, epoch: u64) -> Arc<MembershipList> {
        let find = || self.lists().into_iter().find(|(found, _)| *found >= epoch).map(|(_, list)| list);
        until_some(&format!("a list of epoch {epoch} or later comes"), find).await
    }

    /// Everything that meters have noticed so far.
    pub fn notices(&self) -> Vec<(usize, Notice)> {
        let state = self.state();
        let notices =
            |(meter, node): (usize, &Node)| node.notices.iter().map(move |notice| (meter, notice.clone())).collect();
        state.nodes.iter().enumerate().flat_map::<Vec<_>, _>(notices).collect()
    }

    pub fn refusals(&self) -> Vec<(usize, Refusal)> {
        let refusal = |(meter, notice)| match notice {
            Notice::Refused(refusal) => Some((meter, refusal)),
            Notice::Enrolled { .. }
            | Notice::ListAccepted { .. }
            | Notice::Charged { .. }
            | Notice::Answered { .. } => None,
        };
        self.notices().into_iter().filter_map(refusal).collect()
    }

    /// Proof that the gateway has lied, as meters see it.
    pub fn equivocations(&self) -> Vec<(usize, Refusal)> {
        let proof = |(_, refusal): &(usize, Refusal)| refusal.status() == Some(StatusCode::Equivocation);
        self.refusals().into_iter().filter(proof).collect()
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
    nodes: Vec<Node>,
    oracle: Oracle,
    /// The last list that came, verified once for all.
    newest: Option<Arc<MembershipList>>,
    client: Client,
    fate: Box<dyn FnMut(&Outgoing<'_>) -> Fate + Send>,
    sent: BTreeMap<Slot, BTreeSet<usize>>,
    connect_again: Timestamp,
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
    /// How long until something is due.
    fn wait(&self) -> Duration {
        let due = self.nodes.iter().filter_map(Node::deadline).min();
        let millis = due.map_or(1000, |due| due.millis_since(wall()));
        Duration::from_millis(millis.clamp(1, 1000))
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Subscribed => self.tell_all(&Input::Connected),
            Event::Disconnected => {}
            Event::Message(Message { topic, payload, .. }) => {
                let raw = Input::Message { topic, payload };
                match Topic::parse(topic) {
                    Ok(Topic::Gateway { channel: GatewayChannel::Membership, .. }) => {
                        let input = self.verify(payload).map_or(raw, Input::List);
                        self.tell_all(&input);
                    }
                    Ok(Topic::Gateway { channel: GatewayChannel::Recovery, .. }) => {
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
        for meter in 0..self.nodes.len() {
            let packets = self.nodes[meter].handle(input.clone());
            self.publish(meter, packets);
        }
    }

    fn advance(&mut self) {
        let at = wall();
        if self.newest.is_none() && self.connect_again <= at {
            self.connect_again = at.plus_secs(IMPATIENCE_SECONDS);
            self.tell_all(&Input::Connected);
        }
        for meter in 0..self.nodes.len() {
            let packets = self.nodes[meter].advance(at, |slot| oracle::reading(meter, slot));
            self.publish(meter, packets);
        }
    }

    fn publish(&mut self, meter: usize, packets: Vec<Packet>) {
        for Packet { topic, payload } in packets {
            let Ok(Topic::Meter { channel, .. }) = Topic::parse(&topic) else { panic!("no meter's topic: {topic}") };
            let (slot, attempt) = moment(channel, &payload);
            let fate = (self.fate)(&Outgoing { meter, channel, slot, attempt, payload: &payload });
            let sent: &[&[u8]] = match &fate {
                Fate::Sent => &[&payload],
                Fate::Lost => &[],
                Fate::Twice => &[&payload, &payload],
                Fate::Instead(other) => &[other],
            };
            sent.iter().for_each(|payload| self.client.publish(&topic, payload, false));
            if channel == MeterChannel::Reading && matches!(fate, Fate::Sent | Fate::Twice) {
                self.sent.entry(slot).or_default().insert(meter);
            }
        }
    }
}

/// The slot and attempt that a message is about.
fn moment(channel: MeterChannel, payload: &[u8]) -> (Slot, u8) {
    let inner = |payload| Mac0::decode(payload).unwrap().payload();
    match channel {
        MeterChannel::Reading => {
            let MaskedReading { slot, attempt, .. } = MaskedReading::decode(inner(payload)).unwrap();
            (slot, attempt)
        }
        MeterChannel::Reveal => {
            let Reveal { slot, attempt, .. } = Reveal::decode(inner(payload)).unwrap();
            (slot, attempt)
        }
        MeterChannel::Enrol | MeterChannel::Status => (Slot(0), 0),
    }
}
