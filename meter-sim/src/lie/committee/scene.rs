//! A cluster in virtual time whose broker holds requests back until the scene says whom to ask.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use dream_protocol::cluster::ClusterConfig;
use dream_protocol::ids::GatewayId;
use dream_protocol::keys::IdentityKey;
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Key, MeterConfig, Notice};
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{Message as _, RecoveryRequest, Sign1};
use dream_virtual::example::{START, at, cluster_config, cluster_id, meter_config, meter_name};
use dream_virtual::node::{MeterNode, Packet};
use dream_virtual::pki::Pki;
use dream_virtual::rng;
use dream_virtual::virtual_cluster::VirtualCluster;

use super::super::dishonest_gateway::Response;
use super::super::participants::watts;

pub(super) struct Scene {
    pub(super) pki: Pki,
    /// Nobody sees its requests.
    cluster: VirtualCluster,
    /// The meters that are holders of the list, by their index.
    pub(super) holders: Vec<usize>,
    simulation: Simulation,
    /// The slot of the last request that was used.
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
        let count = u16::try_from(meters).expect("a hundred at most");
        let config = ClusterConfig {
            terms: Terms::DEFAULT,
            missing_share: Share::new(1, 10).expect("a share"),
            floors: Profile::Strict.floors(),
            scheme: SchemeChoice::Only(Kind::Committee),
            ..cluster_config(&pki, count)
        };
        let nodes = (0..meters)
            .map(|number| MeterNode::new(config_of(&pki, number, meters), simulation, rng(2000 + number as u64)));
        let mut cluster = VirtualCluster::new(config, nodes, at(START), rng(2));
        cluster.intercepted = Some((GatewayChannel::Recovery, Vec::new()));
        Self { cluster, pki, holders: Vec::new(), simulation, used: Slot(0) }
    }

    pub(super) fn meters(&self) -> usize {
        self.cluster.meters.len()
    }

    fn meter(&mut self, number: usize) -> &mut MeterNode {
        self.cluster.meters[number].as_mut().expect("nobody is switched off")
    }

    pub(super) fn identity(&self) -> IdentityKey {
        self.pki.gateway("gw").identity()
    }

    pub(super) fn list(&self) -> &Arc<MembershipList> {
        self.cluster.list().expect("the scene begins with a list")
    }

    /// How many meters have accepted it.
    pub(super) fn accepted(&self) -> usize {
        let accepts = |notice: &Notice| matches!(notice, Notice::ListAccepted { .. });
        self.cluster.meters.iter().flatten().filter(|meter| meter.notices.iter().any(accepts)).count()
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
        while self.cluster.list().is_none() {
            self.step();
        }
        let ids: Vec<_> = self.cluster.meters.iter().flatten().map(|meter| meter.meter.id()).collect();
        let holders = self.list().holders().filter_map(|holder| ids.iter().position(|id| *id == holder.id()));
        self.holders = holders.collect();
    }

    /// Lets time pass until the gateway asks for a slot that nobody has heard of yet.
    pub(super) fn next_request(&mut self) -> Request {
        loop {
            self.step();
            let held = self.cluster.intercepted.as_ref().and_then(|(_, held)| held.last());
            if let Some(request) = held.map(Request::new).filter(|request| self.used < request.slot) {
                self.used = request.slot;
                return request;
            }
        }
    }

    /// Lets time pass until a slot is closed for meters.
    pub(super) fn run_past(&mut self, slot: Slot) {
        let over = self.list().params().slot_expiry(slot);
        while self.cluster.now() < over {
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
        (0..self.meters()).map(|number| self.tell(number, channel, bytes)).collect()
    }

    fn tell(&mut self, number: usize, channel: GatewayChannel, bytes: &[u8]) -> Reaction {
        let now = self.cluster.now();
        let meter = self.meter(number);
        meter.notices.clear();
        let sent = meter.receive(&Packet::new(channel.topic(&cluster_id()), bytes), now);
        let accepted = |notice: &Notice| matches!(notice, Notice::ListAccepted { .. } | Notice::Charged { .. });
        let reveal = meter.meter.topic(MeterChannel::Reveal);
        let complied = meter.notices.iter().any(accepted) || sent.iter().any(|packet| packet.topic == reveal);
        let refusal = meter.notices.iter().find_map(Notice::refusal).cloned();
        Reaction { response: Response { refusal, complied }, sent }
    }

    /// Hands answers to the gateway, and returns the sum if the slot opens.
    pub(super) fn open(&mut self, slot: Slot, answers: Vec<Reaction>) -> Option<i64> {
        self.cluster.send(answers.into_iter().flat_map(|reaction| reaction.sent));
        loop {
            if let Some(outcome) = self.cluster.gateway.outcomes.iter().find(|outcome| outcome.slot == slot) {
                return outcome.result.ok().map(|aggregate| aggregate.watts());
            }
            self.step();
        }
    }

    /// Returns what a holder has recorded.
    pub(super) fn records_of(&mut self, holder: usize) -> BTreeMap<Key, Vec<u8>> {
        self.meter(self.holders[holder]).store.clone()
    }

    /// Replaces what a holder has recorded, and starts it again from that.
    pub(super) fn put_back(&mut self, holder: usize, records: BTreeMap<Key, Vec<u8>>) {
        let number = self.holders[holder];
        let (config, simulation) = (config_of(&self.pki, number, self.meters()), self.simulation);
        let meter = self.meter(number);
        meter.store = records;
        meter.restart(config, simulation);
    }

    fn step(&mut self) {
        self.cluster.advance(|meter, _| Some(watts(meter)));
    }
}

impl Request {
    fn new(packet: &Packet) -> Self {
        let envelope = Sign1::decode(&packet.payload).expect("the gateway's own");
        let request = RecoveryRequest::decode(envelope.payload()).expect("the gateway's own");
        Self { slot: request.slot, bytes: packet.payload.to_vec() }
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
