//! The gateway's own machine, the meters, and between them a broker that keeps requests back until it is told whom to ask.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::ids::GatewayId;
use dream_protocol::keys::IdentityKey;
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, Key, MeterConfig, Notice};
use dream_protocol::params::Share;
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{Message as _, RecoveryRequest, Sign1};
use dream_virtual::example::{START, at, cluster_config, cluster_id, meter_config, meter_name};
use dream_virtual::node::{ClusterNode, MeterNode, Packet};
use dream_virtual::pki::Pki;
use dream_virtual::rng;

use super::super::dishonest_gateway::Response;
use super::super::participants::watts;

pub(super) struct Scene {
    pub(super) pki: Pki,
    gateway: ClusterNode,
    pub(super) meters: Vec<MeterNode>,
    /// The meters that are holders of the list, by their index.
    pub(super) holders: Vec<usize>,
    simulation: Simulation,
    now: Timestamp,
    /// The newest list, whole.
    list: Option<Arc<MembershipList>>,
    accepted: usize,
    /// The newest request, which nobody has seen; the gateway repeats it until its slot is closed.
    request: Option<Request>,
    /// The slot of the last one that was used.
    used: Slot,
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) slot: Slot,
    bytes: Vec<u8>,
}

/// What a meter made of a message, and what it sent.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) response: Response,
    sent: Vec<Packet>,
}

impl Scene {
    /// Meters that have enrolled. The last one is not willing to be a holder.
    pub(super) fn new(meters: usize, simulation: Simulation) -> Self {
        let pki = Pki::new();
        let now = at(START);
        let count = u16::try_from(meters).expect("a hundred at most");
        let config = ClusterConfig {
            missing_share: Share::new(1, 10).expect("a share"),
            floors: Profile::Strict.floors(),
            scheme: SchemeChoice::Only(Kind::Committee),
            ..cluster_config(&pki, count)
        };
        let nodes = (0..meters)
            .map(|number| MeterNode::new(config_of(&pki, number, meters), simulation, rng(2000 + number as u64)));
        let mut scene = Self {
            gateway: ClusterNode::new(config, now, rng(2)),
            meters: nodes.collect(),
            pki,
            holders: Vec::new(),
            simulation,
            now,
            list: None,
            accepted: 0,
            request: None,
            used: Slot(0),
        };
        for number in 0..meters {
            let sent = scene.meters[number].handle(Input::Connected, now);
            scene.hand_to_gateway(sent);
        }
        scene
    }

    pub(super) fn identity(&self) -> IdentityKey {
        self.pki.gateway("gw").identity()
    }

    pub(super) fn list(&self) -> &Arc<MembershipList> {
        self.list.as_ref().expect("the scene begins with a list")
    }

    /// How many meters have accepted it.
    pub(super) const fn accepted(&self) -> usize {
        self.accepted
    }

    /// q, and f.
    pub(super) fn committee(&self) -> (usize, usize) {
        let params = self.list().params();
        let Committee { drawn, needed, .. } = params.terms().scheme.committee().expect("a committee");
        let (members, malicious) = (params.members().into(), params.max_malicious().into());
        let colluding = Committee::colluding(drawn, members, malicious).expect("a sound list");
        let count = |number: u64| usize::try_from(number).expect("at most 256");
        (count(needed), count(colluding))
    }

    pub(super) fn run_until_listed(&mut self) {
        while self.list.is_none() {
            self.step();
        }
        let holder = |id: &str| self.meters.iter().position(|meter| meter.meter.id().as_str() == id);
        self.holders = self.list().holders().filter_map(|enrolment| holder(enrolment.id().as_str())).collect();
    }

    /// Lets time pass until the gateway asks for a slot that nobody has heard of yet.
    pub(super) fn next_request(&mut self) -> Request {
        loop {
            self.step();
            if let Some(request) = self.request.take_if(|request| self.used < request.slot) {
                self.used = request.slot;
                return request;
            }
        }
    }

    /// Lets time pass until a slot is closed for meters.
    pub(super) fn run_past(&mut self, slot: Slot) {
        let over = self.list().params().slot_expiry(slot);
        while self.now < over {
            self.step();
        }
    }

    /// Returns a request for the same slot that leaves somebody else out.
    pub(super) fn another_request(&self, first: &Request) -> Request {
        let envelope = Sign1::decode(&first.bytes).expect("the gateway's own");
        let mut request = RecoveryRequest::decode(envelope.payload()).expect("the gateway's own");
        request.missing = MemberSet::from_members(self.list().params().members(), [0]).as_bytes().to_vec();
        let bytes = request.seal(&self.identity(), &GatewayChannel::Recovery.topic(&cluster_id()));
        Request { slot: first.slot, bytes }
    }

    /// Shows a request to some holders, by their place in the list.
    pub(super) fn ask(&mut self, request: &Request, holders: Range<usize>) -> Vec<Reaction> {
        let asked: Vec<usize> = self.holders[holders].to_vec();
        asked.into_iter().map(|number| self.tell(number, GatewayChannel::Recovery, &request.bytes)).collect()
    }

    pub(super) fn tell_all(&mut self, channel: GatewayChannel, bytes: &[u8]) -> Vec<Reaction> {
        (0..self.meters.len()).map(|number| self.tell(number, channel, bytes)).collect()
    }

    fn tell(&mut self, number: usize, channel: GatewayChannel, bytes: &[u8]) -> Reaction {
        let meter = &mut self.meters[number];
        meter.notices.clear();
        let sent = meter.receive(&Packet::new(channel.topic(&cluster_id()), bytes), self.now);
        let accepted = |notice: &Notice| matches!(notice, Notice::ListAccepted { .. } | Notice::Charged { .. });
        let reveal = meter.meter.topic(MeterChannel::Reveal);
        let complied = meter.notices.iter().any(accepted) || sent.iter().any(|packet| packet.topic == reveal);
        let refusal = meter.notices.iter().find_map(Notice::refusal).cloned();
        Reaction { response: Response { refusal, complied }, sent }
    }

    /// Hands answers to the gateway, and returns the sum if the slot opens.
    pub(super) fn open(&mut self, slot: Slot, answers: Vec<Reaction>) -> Option<i64> {
        for Reaction { sent, .. } in answers {
            self.hand_to_gateway(sent);
        }
        loop {
            if let Some(outcome) = self.gateway.outcomes.iter().find(|outcome| outcome.slot == slot) {
                return outcome.result.ok().map(|aggregate| aggregate.watts());
            }
            self.step();
        }
    }

    /// Returns what a holder has recorded.
    pub(super) fn records_of(&self, holder: usize) -> BTreeMap<Key, Vec<u8>> {
        self.meters[self.holders[holder]].store.clone()
    }

    /// Replaces what a holder has recorded, and starts it again from that.
    pub(super) fn put_back(&mut self, holder: usize, records: BTreeMap<Key, Vec<u8>>) {
        let number = self.holders[holder];
        let config = config_of(&self.pki, number, self.meters.len());
        self.meters[number].store = records;
        self.meters[number].restart(config, self.simulation);
    }

    /// Goes to the next moment at which something is due, and does it.
    fn step(&mut self) {
        let due = self.meters.iter().filter_map(MeterNode::deadline).chain(self.gateway.cluster.deadline()).min();
        self.now = due.expect("the next slot is always ahead").max(self.now);
        if self.gateway.cluster.deadline().is_some_and(|due| due <= self.now) {
            let published = self.gateway.handle(cluster::Input::Tick, self.now);
            self.carry(published);
        }
        for number in 0..self.meters.len() {
            if self.meters[number].deadline().is_some_and(|due| due <= self.now) {
                let sent = self.meters[number].advance(self.now, |_| Some(watts(number)));
                self.hand_to_gateway(sent);
            }
        }
    }

    fn hand_to_gateway(&mut self, packets: Vec<Packet>) {
        for packet in packets {
            let published = self.gateway.receive(&packet, self.now);
            self.carry(published);
        }
    }

    /// Keeps lists and requests; passes on whatever else the gateway says.
    fn carry(&mut self, packets: Vec<Packet>) {
        for Packet { topic, payload, .. } in packets {
            match Topic::parse(&topic) {
                Ok(Topic::Gateway { channel: GatewayChannel::FullMembership, .. }) => self.publish_list(&payload),
                Ok(Topic::Gateway { channel: GatewayChannel::Recovery, .. }) => {
                    let envelope = Sign1::decode(&payload).expect("the gateway's own");
                    let request = RecoveryRequest::decode(envelope.payload()).expect("the gateway's own");
                    self.request = Some(Request { slot: request.slot, bytes: payload.to_vec() });
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Verifies the gateway's list once for all, as every meter of a process would, and hands it to them.
    fn publish_list(&mut self, payload: &[u8]) {
        let list = MembershipList::verify(payload, &cluster_id(), &self.pki.authorities()).expect("the gateway's own");
        for number in 0..self.meters.len() {
            let meter = &mut self.meters[number];
            meter.notices.clear();
            let sent = meter.handle(Input::List(list.clone()), self.now);
            let accepted = meter.notices.iter().any(|notice| matches!(notice, Notice::ListAccepted { .. }));
            self.accepted += usize::from(accepted);
            self.hand_to_gateway(sent);
        }
        self.list = Some(list);
    }
}

/// A meter with the default policy; the last one is not willing to be a holder.
fn config_of(pki: &Pki, number: usize, meters: usize) -> MeterConfig {
    let gateway = GatewayId::new("gw").expect("a plain name");
    let mut policy = Policy::new(pki.authorities(), [gateway]);
    if number + 1 == meters {
        policy.holds = 0;
    }
    MeterConfig { policy, ..meter_config(pki, &meter_name(number)) }
}
