//! What those say who hold keys: a message of a real slot, with any payload, under a right tag or signature.
//!
//! An envelope keeps outsiders out, and a fuzzer too. Here it is made anew around each payload, so that what lies behind is reached:
//! the machines' own rules. Each run begins at a moment of an honest slot, from the records that the machine had written then.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::derive;
use dream_protocol::keys::MacKey;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, About, MeterConfig};
use dream_protocol::policy::Policy;
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{FullList, Mac0, Message as _, Retry, Seal as _, ShortList, Sign1, Status, StatusCode};

use crate::example::{START, at, cluster_config, cluster_id, meter_name, policy};
use crate::node::{ClusterNode, MeterNode, Packet};
use crate::pki::{Issued, Pki};
use crate::rng;

/// How many meters a scene has.
const METERS: usize = 10;

/// For how long a machine is watched after the message: the slot it is about is closed by then, and the next one too.
const WATCHED_SECONDS: u64 = 1300;

/// One honest slot of one scheme, and the moments at which somebody speaks.
struct Scene {
    gateway: ClusterConfig,
    meters: Vec<Issued>,
    policy: Policy,
    moments: Vec<Moment>,
}

/// A message on its way to a machine.
struct Moment {
    wall: Timestamp,
    to: Recipient,
    topic: String,
    payload: Vec<u8>,
    envelope: Envelope,
}

/// A machine by what it has written so far.
enum Recipient {
    Gateway(BTreeMap<cluster::Key, Vec<u8>>),
    /// The first meter.
    Meter(BTreeMap<meter::Key, Vec<u8>>),
}

/// What the sender has.
enum Envelope {
    Mac(MacKey),
    Signed(Issued),
    Certified(Issued),
    /// The header of a list is signed; the rest of the message follows it as it was.
    Header {
        issued: Issued,
        list: Arc<[u8]>,
    },
}

static SCENES: LazyLock<[Scene; 2]> = LazyLock::new(|| [Kind::Pairwise, Kind::Committee].map(Scene::new));

/// Returns the honest messages, as [`run`] takes them.
pub fn seeds() -> Vec<Vec<u8>> {
    let payloads = moments().map(|(_, moment)| &moment.payload);
    let orders = |(which, payload): (u8, &Vec<u8>)| [0, 1].map(|order| [&[which, order], &payload[..]].concat());
    (0u8..).zip(payloads).flat_map(orders).collect()
}

/// Lets somebody say something: the first byte chooses the message, the second one whether the honest one is heard as well, and the
/// rest is its payload.
///
/// # Panics
///
/// If a machine panics, says two things about one slot and attempt, closes a slot twice, or cannot go on from what it has written.
pub fn run(data: &[u8]) {
    run_with(data, Simulation::default());
}

/// The same, with meters that may break rules.
///
/// # Panics
///
/// As [`run`].
pub fn run_with(data: &[u8], meters: Simulation) {
    let [which, order, payload @ ..] = data else { return };
    let which = usize::from(*which) % moments().count();
    let (scene, moment) = moments().nth(which).expect("one of them");
    let (honest, changed) = (moment.packet(&moment.payload), moment.packet(payload));
    let packets = match order % 4 {
        0 => vec![changed],
        1 => vec![changed, honest],
        2 => vec![honest, changed],
        _ => vec![changed.clone(), changed],
    };
    match &moment.to {
        Recipient::Gateway(store) => scene.tell_gateway(store.clone(), &packets, moment.wall),
        Recipient::Meter(store) => scene.tell_meter(store.clone(), meters, &packets, moment.wall),
    }
}

fn moments() -> impl Iterator<Item = (&'static Scene, &'static Moment)> {
    SCENES.iter().flat_map(|scene| scene.moments.iter().map(move |moment| (scene, moment)))
}

impl Scene {
    /// Plays a slot, and keeps what is said in it.
    fn new(kind: Kind) -> Self {
        let pki = Pki::new();
        let members = u16::try_from(METERS).expect("few");
        let config = ClusterConfig { scheme: SchemeChoice::Only(kind), ..cluster_config(&pki, members) };
        let meters = (0..METERS).map(|index| pki.meter(&meter_name(index))).collect();
        let mut scene = Self { gateway: config, meters, policy: policy(&pki), moments: Vec::new() };
        let identity = pki.gateway("gw");

        let mut gateway = ClusterNode::new(scene.gateway.clone(), at(START), rng(1));
        let mut meters: Vec<MeterNode> =
            (0..METERS).map(|index| scene.meter(index, BTreeMap::new(), Simulation::default())).collect();
        for (index, meter) in meters.iter_mut().enumerate() {
            for packet in meter.handle(meter::Input::Connected, at(START)) {
                if index == METERS - 1 {
                    let (envelope, _) = Sign1::decode_certified(&packet.payload).expect("an enrolment");
                    let sender = Envelope::Certified(scene.meters[index].clone());
                    scene.keep_for_gateway(&gateway, at(START), &packet.topic, envelope.payload(), sender);
                }
                gateway.receive(&packet, at(START));
            }
        }
        let lists = gateway.handle(cluster::Input::Tick, at(START + 5));
        let whole = lists
            .iter()
            .find_map(|packet| MembershipList::verify(&packet.payload, &cluster_id(), &scene.gateway.authorities).ok());
        let list = whole.expect("a list is due");
        for packet in &lists {
            let is_full = packet.topic == GatewayChannel::FullMembership.topic(&cluster_id());
            let found =
                if is_full { FullList::header_of(&packet.payload) } else { ShortList::header_of(&packet.payload) };
            let payload = found.expect("a header").0.payload().to_vec();
            let sender = Envelope::Header { issued: identity.clone(), list: packet.payload.clone() };
            scene.keep_for_meter(&meters[0], at(START + 6), &packet.topic, payload, sender);
            for meter in &mut meters {
                meter.receive(packet, at(START + 6));
            }
        }

        let slot = list.from_slot();
        let end = list.params().slot_end(slot);
        let mut sent = Vec::new();
        for meter in &mut meters {
            sent.extend(meter.handle(meter::Input::Measured { slot, watts: 1000 }, end));
            sent.extend(meter.handle(meter::Input::Tick, end.plus_secs(30)));
        }
        gateway.tick_until(end.plus_secs(31));
        scene.keep_last(&gateway, &meters, &list, &sent, end.plus_secs(31));
        // All have reported: the gateway asks at once.
        let mut requests = Vec::new();
        for packet in &sent {
            requests.extend(gateway.receive(packet, end.plus_secs(31)));
        }
        let asked = end.plus_secs(32);
        requests.extend(gateway.tick_until(asked));
        scene.keep_status(&gateway, &list, slot, asked);

        let mut answers = Vec::new();
        for request in requests.iter().filter(|request| request.topic == GatewayChannel::Recovery.topic(&cluster_id()))
        {
            let payload = Sign1::decode(&request.payload).expect("a request").payload().to_vec();
            scene.keep_for_meter(&meters[0], asked, &request.topic, payload, Envelope::Signed(identity.clone()));
            let retry = Retry { list: *list.hash(), slot, attempt: 1, deadline: asked.plus_secs(60).as_secs() };
            let topic = GatewayChannel::Retry.topic(&cluster_id());
            scene.keep_for_meter(&meters[0], asked, &topic, retry.payload(), Envelope::Signed(identity.clone()));
            answers.extend(meters.iter_mut().flat_map(|meter| meter.receive(request, asked)));
        }
        scene.keep_last(&gateway, &meters, &list, &answers, asked.plus_secs(1));
        for packet in &answers {
            gateway.receive(packet, asked.plus_secs(1));
        }
        gateway.tick_until(end.plus_secs(600));
        let is_whole = gateway.outcomes.iter().any(|outcome| outcome.slot == slot && outcome.result.is_ok());
        assert!(is_whole, "{kind:?}: {:?} {:?}", gateway.outcomes, gateway.rejections);
        scene
    }

    /// Keeps the last member's message under its MAC.
    fn keep_last(
        &mut self,
        gateway: &ClusterNode,
        meters: &[MeterNode],
        list: &MembershipList,
        sent: &[Packet],
        wall: Timestamp,
    ) {
        let packet = sent.last().expect("everybody speaks");
        let payload = Mac0::decode(&packet.payload).expect("a tagged message").payload();
        let shared = meters[METERS - 1].meter.agree_with(list.gateway_agreement()).expect("it is enrolled");
        let id = list.members()[METERS - 1].id();
        let (_, mac) = derive::gateway_keys(list.hash(), &shared, list.cluster(), id);
        self.keep_for_gateway(gateway, wall, &packet.topic, payload, Envelope::Mac(mac));
    }

    fn keep_status(&mut self, gateway: &ClusterNode, list: &MembershipList, slot: Slot, wall: Timestamp) {
        let status = Status {
            cluster: cluster_id(),
            list: Some(list.hash().prefix()),
            slot,
            code: StatusCode::NoList,
            newest_epoch: list.epoch(),
            least_malicious: 1,
            evidence: Vec::new(),
        };
        let topic = MeterChannel::Status.topic(&cluster_id(), list.members()[0].id());
        self.keep_for_gateway(gateway, wall, &topic, &status.payload(), Envelope::Signed(self.meters[0].clone()));
    }

    fn keep_for_gateway(
        &mut self,
        gateway: &ClusterNode,
        wall: Timestamp,
        topic: &str,
        payload: &[u8],
        envelope: Envelope,
    ) {
        let to = Recipient::Gateway(gateway.store.clone());
        self.moments.push(Moment { wall, to, topic: topic.to_owned(), payload: payload.to_vec(), envelope });
    }

    fn keep_for_meter(
        &mut self,
        meter: &MeterNode,
        wall: Timestamp,
        topic: &str,
        payload: Vec<u8>,
        envelope: Envelope,
    ) {
        let to = Recipient::Meter(meter.store.clone());
        self.moments.push(Moment { wall, to, topic: topic.to_owned(), payload, envelope });
    }

    fn meter(&self, index: usize, store: BTreeMap<meter::Key, Vec<u8>>, conduct: Simulation) -> MeterNode {
        MeterNode::from_store(store, self.meter_config(index), conduct, rng(1000 + index as u64)).unwrap()
    }

    fn meter_config(&self, index: usize) -> MeterConfig {
        let issued = &self.meters[index];
        let policy = self.policy.clone();
        MeterConfig { identity: issued.identity(), certificate: issued.der.clone(), cluster: cluster_id(), policy }
    }

    /// Lets a gateway hear messages; afterwards no slot is closed twice, before a restart or after it.
    fn tell_gateway(&self, store: BTreeMap<cluster::Key, Vec<u8>>, packets: &[Packet], wall: Timestamp) {
        let mut gateway = ClusterNode::from_store(store, self.gateway.clone(), wall, rng(2));
        gateway.handle(cluster::Input::Connected, wall);
        for packet in packets {
            gateway.receive(packet, wall);
        }
        gateway.tick_until(wall.plus_secs(WATCHED_SECONDS / 2));
        gateway.restart(wall.plus_secs(WATCHED_SECONDS / 2));
        gateway.tick_until(wall.plus_secs(WATCHED_SECONDS));
        let mut closed: Vec<Slot> = gateway.outcomes.iter().map(|outcome| outcome.slot).collect();
        let all = closed.len();
        closed.sort_unstable();
        closed.dedup();
        assert_eq!(closed.len(), all, "a slot is closed once");
    }

    /// Lets a meter hear messages; afterwards it has said one thing about each slot and attempt, before a restart and after it.
    fn tell_meter(
        &self,
        store: BTreeMap<meter::Key, Vec<u8>>,
        conduct: Simulation,
        packets: &[Packet],
        wall: Timestamp,
    ) {
        let mut meter = self.meter(0, store, conduct);
        let mut said = meter.handle(meter::Input::Connected, wall);
        for packet in packets {
            said.extend(meter.receive(packet, wall));
        }
        let (middle, end) = (wall.plus_secs(WATCHED_SECONDS / 2), wall.plus_secs(WATCHED_SECONDS));
        said.extend(pass(&mut meter, middle));
        meter.restart(self.meter_config(0), conduct);
        said.extend(meter.handle(meter::Input::Connected, middle));
        said.extend(pass(&mut meter, end));
        let about = |packet: Packet| packet.about.map(|about| (packet.topic, about, packet.payload));
        let said: Vec<(String, About, Arc<[u8]>)> = said.into_iter().filter_map(about).collect();
        for (number, (topic, about, payload)) in said.iter().enumerate() {
            let again = said[..number].iter().filter(|(other, of, _)| (other, of) == (topic, about));
            assert!(again.into_iter().all(|(.., other)| other == payload), "{topic}: one thing about {about:?}");
        }
    }
}

/// Lets time pass for a meter whose home always uses the same.
fn pass(meter: &mut MeterNode, until: Timestamp) -> Vec<Packet> {
    let mut said = Vec::new();
    while let Some(due) = meter.deadline().filter(|due| *due <= until) {
        said.extend(meter.advance(due, |_| Some(1000)));
        assert_ne!(meter.deadline(), Some(due), "a handled deadline moves or disappears");
    }
    said
}

impl Moment {
    fn packet(&self, payload: &[u8]) -> Packet {
        let sealed = match &self.envelope {
            Envelope::Mac(key) => key.envelope(payload, &self.topic),
            Envelope::Signed(issued) => issued.identity().envelope(payload, &self.topic),
            Envelope::Certified(issued) => (&issued.identity(), &issued.der[..]).envelope(payload, &self.topic),
            Envelope::Header { issued, list } => {
                let topic = GatewayChannel::Membership.topic(&cluster_id());
                let header = (&issued.identity(), &issued.der[..]).envelope(payload, &topic);
                match FullList::decode(list) {
                    Ok(full) => FullList { header: &header, ..full }.encode(),
                    Err(_) => ShortList { header: &header, ..ShortList::decode(list).expect("a list") }.encode(),
                }
            }
        };
        Packet::new(self.topic.clone(), sealed)
    }
}
