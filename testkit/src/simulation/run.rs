//! One simulated run: meters and a gateway on a [`Network`], crashing, starting again from what they wrote, and watched
//! by a [`Referee`].

mod attacks;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::keys::{AgreementPublic, SharedSecret};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::scheme::SchemeChoice;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use rand_chacha::ChaCha20Rng;

use super::fixture::{Fixture, SLOT_SECONDS, START};
use super::network::{Dice, Event, Link, Network, Node};
use super::referee::{Referee, index_of, watts};
use super::scenario::{Enrolments, Faults, Scenario, Timer};
use super::tally::Tally;
use crate::example::at;
use crate::node::{ClusterNode, MeterNode, Packet};
use crate::rng;

/// A node whose process may be away, with what outlives it.
#[derive(Debug)]
struct Process<N, K> {
    /// The node while its process is there; it then holds its own store and generator.
    node: Option<N>,
    store: BTreeMap<K, Vec<u8>>,
    rng: ChaCha20Rng,
    down_until: Timestamp,
    /// The next wake that is waited for.
    wake: Option<Timestamp>,
}

impl<N, K> Process<N, K> {
    fn new(store: BTreeMap<K, Vec<u8>>, seed: u64) -> Self {
        Self { node: None, store, rng: rng(seed), down_until: at(0), wake: None }
    }
}

impl Process<ClusterNode, cluster::Key> {
    fn stop(&mut self) {
        if let Some(node) = self.node.take() {
            (self.store, self.rng) = (node.store, node.rng);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.node.as_ref().and_then(|node| node.cluster.deadline())
    }
}

impl Process<MeterNode, meter::Key> {
    fn stop(&mut self) {
        if let Some(node) = self.node.take() {
            (self.store, self.rng) = (node.store, node.rng);
        }
    }

    /// Returns the machine's own deadline; what is measured is waited for apart from it.
    fn deadline(&self) -> Option<Timestamp> {
        self.node.as_ref().and_then(|node| node.meter.deadline())
    }
}

#[derive(Debug)]
struct MeterProcess {
    process: Process<MeterNode, meter::Key>,
    /// How far the wall clock is off, in milliseconds.
    offset: i64,
    usual_offset: i64,
    /// The last slot that the meter was asked to measure.
    measuring: Option<Slot>,
    /// X25519 results with the others, known before the first start.
    agreements: &'static [(AgreementPublic, SharedSecret)],
}

/// One run: a gateway and its meters, what carries their messages, and who watches them.
#[derive(Debug)]
pub struct Run {
    scenario: Scenario,
    network: Network<Timer>,
    gateway: Process<ClusterNode, cluster::Key>,
    config: ClusterConfig,
    meters: Vec<MeterProcess>,
    /// Lists by their bytes: verified once, as by a process that hosts many meters.
    verified: BTreeMap<Arc<[u8]>, Arc<MembershipList>>,
    /// No slot that ends later is measured.
    last_end: Timestamp,
    no_vanishing_until: Timestamp,
    referee: Referee,
}

impl Run {
    /// Makes a run that follows from its scenario and its seed.
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Self::with_dice(scenario, Dice::new(seed), seed)
    }

    /// Makes a run whose network is decided by these dice; the machines draw from generators of this seed.
    pub fn with_dice(scenario: Scenario, dice: Dice, seed: u64) -> Self {
        let nodes = (0..scenario.all_meters).map(Node::Meter).chain([Node::Gateway]);
        let mut network = Network::new(nodes, scenario.link, at(START), dice);
        let enrolled = scenario.enrolments.stores(scenario.meters);
        let meters = (0..scenario.all_meters).map(|index| {
            let known = enrolled.filter(|_| index < scenario.meters);
            let store = known.map(|known| known.meters[index].clone()).unwrap_or_default();
            let agreements = known.map_or(&[][..], |known| &known.agreements[index]);
            let offset = network.dice.between((0, 2 * scenario.skew)).cast_signed() - scenario.skew.cast_signed();
            let process = Process::new(store, seed ^ ((index as u64 + 1) << 48));
            MeterProcess { process, offset, usual_offset: offset, measuring: None, agreements }
        });
        let meters: Vec<MeterProcess> = meters.collect();
        let config = ClusterConfig {
            terms: scenario.terms,
            scheme: SchemeChoice::Only(scenario.scheme),
            committee_attempts: scenario.committee_attempts,
            roster: scenario.roster.clone(),
            ..Fixture::get().gateway()
        };
        let mut store = enrolled.map(|enrolled| enrolled.gateway.clone()).unwrap_or_default();
        store.retain(|key, _| matches!(key, cluster::Key::Enrolment(id) if index_of(id.as_str()) < scenario.meters));
        for node in (0..scenario.meters).map(Node::Meter).chain([Node::Gateway]) {
            let delay = network.dice.between((0, 2000));
            network.wait_millis(delay, Timer::Start(node));
        }
        for (millis, timer) in &scenario.plan {
            network.wait_millis(*millis, *timer);
        }
        network.wait_millis(scenario.slots * SLOT_SECONDS * 1000, Timer::Heal);
        let last_end = at(START + (scenario.slots + scenario.quiet_slots) * SLOT_SECONDS);
        Self {
            network,
            gateway: Process::new(store, seed ^ (0xff << 48)),
            referee: Referee::new(&scenario, &config, last_end),
            config,
            meters,
            verified: BTreeMap::new(),
            last_end,
            no_vanishing_until: at(0),
            scenario,
        }
    }

    /// Lets everything happen, and three slots more in which nothing is measured; then everything must be closed.
    pub fn finish(mut self) -> Tally {
        while let Some(event) = self.network.next(self.last_end.plus_secs(3 * SLOT_SECONDS)) {
            match event {
                Event::Timer(timer) => self.timer(timer),
                Event::Broken(node) => self.go_offline(node),
                Event::Delivery { to, packet } => self.delivery(to, packet),
                Event::AtBroker { .. } => unreachable!("the broker's own"),
            }
        }
        for (index, meter) in self.meters.iter().enumerate() {
            if let Some(node) = &meter.process.node {
                self.referee.check_meter_at_end(index, node);
            }
        }
        self.gateway.stop();
        self.referee.check_at_end(&self.gateway.store)
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Wake(node) => self.wake(node),
            Timer::Start(node) => self.start(node),
            Timer::Reconnect(node) => self.reconnect(node),
            Timer::Crash { node, down } => self.crash(node, down),
            Timer::LoseStore { down } => {
                self.crash(Node::Gateway, down);
                self.gateway.store.clear();
                self.referee.gateway_lost_its_store();
            }
            Timer::Measure { meter, slot, end } => self.measure(meter, slot, end),
            Timer::Step { meter, by } => {
                self.meters[meter].offset += by;
                self.expect_wake(Node::Meter(meter));
            }
            Timer::SetClock { meter } => {
                self.meters[meter].offset = self.meters[meter].usual_offset;
                self.handle_meter(meter, meter::Input::TimeConfirmed);
            }
            Timer::Heal => {
                self.network.link = Link::GOOD;
                (self.scenario.meter_faults, self.scenario.gateway_faults) = (Faults::default(), Faults::default());
                (self.scenario.vanish, self.scenario.forged) = (0, 0);
            }
        }
    }

    fn delivery(&mut self, to: Node, packet: Packet) {
        if self.network.dice.chance(self.scenario.forged, 1000) {
            self.forge(to, &packet);
        }
        let survived = match to {
            Node::Gateway => {
                let survived =
                    self.handle_gateway(cluster::Input::Message { topic: &packet.topic, payload: &packet.payload });
                if survived {
                    self.referee.gateway_handled(&packet);
                }
                survived
            }
            Node::Meter(meter) => {
                let subscribed = |node: &MeterNode| node.meter.subscriptions().contains(&packet.topic);
                if !self.meters[meter].process.node.as_ref().is_none_or(subscribed) {
                    return;
                }
                let channels = [GatewayChannel::Recovery, GatewayChannel::Retry];
                let recovery = channels.iter().any(|channel| packet.topic.ends_with(channel.as_str()));
                let may_vanish = recovery && self.no_vanishing_until <= self.network.now();
                if may_vanish && self.network.dice.chance(self.scenario.vanish, 1000) {
                    self.no_vanishing_until = self.network.now().plus_millis(self.scenario.vanish_pause);
                    let down = self.network.dice.between(self.scenario.vanish_down);
                    self.crash(to, down);
                    false
                } else {
                    match self.verified.get(&packet.payload) {
                        Some(list) => self.handle_meter(meter, meter::Input::List(list.clone())),
                        None => self.handle_meter(
                            meter,
                            meter::Input::Message { topic: &packet.topic, payload: &packet.payload },
                        ),
                    }
                }
            }
        };
        if !survived {
            self.network.not_acknowledged(to, packet);
        }
    }

    fn wake(&mut self, node: Node) {
        let now = self.network.now();
        match node {
            Node::Gateway => {
                self.gateway.wake = None;
                let due = self.gateway.deadline().is_some_and(|due| due <= now);
                if due && self.gateway.down_until <= now && self.handle_gateway(cluster::Input::Tick) {
                    let next = self.gateway.deadline();
                    assert!(next.is_none_or(|next| now < next), "the gateway spins: {next:?} at {now:?}");
                }
            }
            Node::Meter(meter) => {
                let wall = self.wall(meter);
                let process = &mut self.meters[meter].process;
                process.wake = None;
                let due = process.deadline().is_some_and(|due| due <= wall);
                if due && process.down_until <= now && self.handle_meter(meter, meter::Input::Tick) {
                    let next = self.meters[meter].process.deadline();
                    assert!(next.is_none_or(|next| wall < next), "meter {meter} spins: {next:?} at {wall:?}");
                }
            }
        }
        self.expect_wake(node);
    }

    fn start(&mut self, node: Node) {
        let now = self.network.now();
        match node {
            Node::Gateway if self.gateway.down_until <= now => {
                if self.gateway.node.is_none() {
                    self.try_damaged_gateway();
                    let store = std::mem::take(&mut self.gateway.store);
                    let node = ClusterNode::from_store(store, self.config.clone(), now, self.gateway.rng.clone());
                    self.gateway.node = Some(node);
                }
            }
            Node::Meter(meter) if self.meters[meter].process.down_until <= now => {
                if self.meters[meter].process.node.is_none() {
                    self.start_meter(meter);
                }
            }
            Node::Gateway | Node::Meter(_) => return,
        }
        let delay = self.network.dice.between((0, 1500));
        self.network.wait_millis(delay, Timer::Reconnect(node));
        self.expect_wake(node);
    }

    fn start_meter(&mut self, index: usize) {
        let Scenario { enrolments, daily_micro_epsilon, .. } = self.scenario;
        let short_lived = enrolments == Enrolments::ShortLived;
        self.try_damaged_meter(index);
        let config = Fixture::get().meter(index, short_lived, daily_micro_epsilon);
        let MeterProcess { process, agreements, .. } = &mut self.meters[index];
        let store = std::mem::take(&mut process.store);
        let mut node = MeterNode::from_store(store, config, Simulation::NOISELESS, process.rng.clone()).unwrap();
        for (with, shared) in std::mem::take(agreements) {
            node.meter.offer_agreement(*with, shared.clone());
        }
        process.node = Some(node);
        // The register of a meter survives; what it showed at the end of the last slot is reported late, if at all.
        let measured = Slot(self.wall(index).as_secs() / SLOT_SECONDS - 1);
        let late = self.meters[index].measuring.take().is_some_and(|slot| slot <= measured);
        if late && self.network.dice.one_in(2) {
            let (meter, end) = (index, at((measured.0 + 1) * SLOT_SECONDS));
            self.network.wait_millis(0, Timer::Measure { meter, slot: measured, end });
        }
    }

    fn reconnect(&mut self, node: Node) {
        if self.network.is_connected(node) {
            return;
        }
        let (up, down_until) = match node {
            Node::Gateway => (self.gateway.node.is_some(), self.gateway.down_until),
            Node::Meter(meter) => {
                let process = &self.meters[meter].process;
                (process.node.is_some(), process.down_until)
            }
        };
        if !up || self.network.now() < down_until {
            return;
        }
        self.network.connect(node);
        match node {
            Node::Gateway => {
                self.referee.gateway_is_back(self.network.now());
                // One that hung learns only now that its connection was lost.
                if self.handle_gateway(cluster::Input::Disconnected) && self.network.is_connected(node) {
                    self.handle_gateway(cluster::Input::Connected);
                }
            }
            Node::Meter(meter) => {
                self.handle_meter(meter, meter::Input::Connected);
            }
        }
    }

    /// Ends a process; the caller has carried out what took effect before.
    fn crash(&mut self, node: Node, down: u64) {
        let until = self.network.now().plus_millis(down);
        let loses_store = self.network.dice.chance(self.scenario.meter_faults.loses_store, 1000);
        match node {
            Node::Gateway => {
                self.gateway.stop();
                self.gateway.down_until = until;
                self.referee.gateway_is_away(self.network.now());
            }
            Node::Meter(meter) => {
                let process = &mut self.meters[meter].process;
                process.stop();
                process.down_until = until;
                if loses_store {
                    process.store.clear();
                    self.referee.meter_lost_its_store(meter);
                }
            }
        }
        self.network.disconnect(node);
        self.network.forget_outbox(node);
        self.network.wait(until, Timer::Start(node));
    }

    fn go_offline(&mut self, node: Node) {
        if !self.network.is_connected(node) {
            return;
        }
        self.network.disconnect(node);
        let faults = if node == Node::Gateway { self.scenario.gateway_faults } else { self.scenario.meter_faults };
        let down = self.network.dice.between(if faults.down.1 > 0 { faults.down } else { (300, 5_000) });
        self.network.wait_millis(down, Timer::Reconnect(node));
        if node == Node::Gateway {
            self.referee.gateway_is_away(self.network.now());
            self.handle_gateway(cluster::Input::Disconnected);
        }
    }

    /// The process hangs: it handles nothing, and goes on later.
    fn stall(&mut self, down: u64) {
        self.gateway.down_until = self.network.now().plus_millis(down);
        self.referee.gateway_is_away(self.network.now());
        self.network.disconnect(Node::Gateway);
        self.network.wait(self.gateway.down_until, Timer::Start(Node::Gateway));
    }

    fn measure(&mut self, meter: usize, slot: Slot, end: Timestamp) {
        let wall = self.wall(meter);
        if self.meters[meter].process.node.is_none() || self.last_end < end {
            return;
        }
        if wall < end {
            self.network.wait_millis(end.millis_since(wall), Timer::Measure { meter, slot, end });
            return;
        }
        self.handle_meter(meter, meter::Input::Measured { slot, watts: watts(slot, meter) });
    }

    fn wall(&self, meter: usize) -> Timestamp {
        let millis = self.network.now().as_millis().checked_add_signed(self.meters[meter].offset);
        Timestamp::from_millis(millis.unwrap())
    }
}
