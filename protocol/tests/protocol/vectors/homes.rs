//! A cluster of fourteen homes in the committee scheme, run by the real machines: with every eligible member as a holder, and
//! with holders that are drawn.

use std::sync::Arc;

use dream_protocol::certificate::{Anchors, Authorities, Certificate};
use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::derive;
use dream_protocol::enrolment::Enrolment;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::keys::{AgreementSecret, MacKey, SelfKey, StreamKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, MeterConfig};
use dream_protocol::policy::{Floors, Policy};
use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::committee::{self, Committee};
use dream_protocol::scheme::{Kind, Scheme, SchemeChoice};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{DealtReading, EnrolmentStatement, ListStatement, Mac0, Message as _, Sign1};
use dream_testkit::node::{ClusterNode, Packet};

use super::credentials::GATEWAY;
use super::scene::{Node, byte_string, fields, integer, measure};
use super::{dealing, keys};
use crate::support::pki::{Issued, Pki};
use crate::support::{SMALL, START, at, cluster_config, cluster_id, raw, rng};

pub(crate) const HOMES: usize = 14;

/// Willing to be a holder among thirteen, which is one too few.
pub(crate) const UNWILLING: usize = 3;

/// Willing to be a holder among fourteen, and no more.
const JUST_WILLING: usize = 5;

/// Whose certificate is signed with ECDSA and states no draw value: a holder only where all willing members are.
pub(crate) const ELLIPTIC: usize = 8;

/// k of the list whose holders are drawn.
const DRAWN: u64 = 10;

pub(crate) struct Credentials {
    /// One that signs with Ed25519, and one that signs with ECDSA.
    pub(crate) meter_authorities: [Vec<u8>; 2],
    pub(crate) gateway_authority: Vec<u8>,
    pub(crate) gateway: Issued,
    pub(crate) meters: Vec<(MeterId, Issued)>,
}

impl Credentials {
    pub(crate) fn new() -> Self {
        if super::blessing() { Self::make() } else { Self::read() }
    }

    fn make() -> Self {
        let pki = Pki::new();
        let elliptic = Issued { der: hex::decode(CERTIFICATE).unwrap(), seed: keys::bytes("identity of home-08") };
        let meters = (0..HOMES).map(|index| {
            let id = format!("home-{index:02}");
            let issued = if index == ELLIPTIC { elliptic.clone() } else { pki.meter(&id) };
            (MeterId::new(&id).unwrap(), issued)
        });
        Self {
            meters: meters.collect(),
            gateway: pki.gateway(GATEWAY),
            meter_authorities: [pki.meter_authority().to_vec(), hex::decode(AUTHORITY).unwrap()],
            gateway_authority: pki.gateway_authority().to_vec(),
        }
    }

    fn read() -> Self {
        let file: serde_json::Value = serde_json::from_str(&super::read("committee.json")).unwrap();
        let bytes = |value: &serde_json::Value| hex::decode(value.as_str().unwrap()).unwrap();
        let issued = |value: &serde_json::Value| Issued {
            der: bytes(&value["certificate"]),
            seed: bytes(&value["identity_private"]).try_into().unwrap(),
        };
        let meter = |value: &serde_json::Value| (MeterId::new(value["id"].as_str().unwrap()).unwrap(), issued(value));
        Self {
            meter_authorities: [0, 1].map(|at| bytes(&file["meter_authorities"][at])),
            gateway_authority: bytes(&file["gateway_authority"]),
            gateway: issued(&file["gateway"]),
            meters: file["meters"].as_array().unwrap().iter().map(meter).collect(),
        }
    }

    pub(crate) fn authorities(&self) -> Authorities {
        let meters = Anchors::new(self.meter_authorities.iter().map(Vec::as_slice)).unwrap();
        Authorities::new(meters, Anchors::new([&*self.gateway_authority]).unwrap()).unwrap()
    }

    pub(crate) fn meter_config(&self, index: usize) -> MeterConfig {
        let issued = &self.meters[index].1;
        let holds = match index {
            UNWILLING => 13,
            JUST_WILLING => 14,
            _ => 10_000,
        };
        let policy = Policy::new(self.authorities(), [GatewayId::new(GATEWAY).unwrap()]);
        MeterConfig {
            identity: issued.identity(),
            certificate: issued.der.clone(),
            cluster: cluster_id(),
            policy: Policy { floors: Floors { members: 3, ..SMALL }, day_micro_rho: 72_000_000, holds, ..policy },
        }
    }

    fn cluster_config(&self) -> ClusterConfig {
        ClusterConfig {
            identity: self.gateway.identity().into(),
            certificate: self.gateway.der.clone().into(),
            authorities: self.authorities(),
            scheme: SchemeChoice::Only(Kind::Committee),
            ..cluster_config(&Pki::new(), u16::try_from(HOMES).unwrap())
        }
    }
}

/// The authority that signs with ECDSA. Its signatures are different every time, so that these two were made once.
const AUTHORITY: &str = "\
    3082014e3081f5a003020102020101300a06082a8648ce3d040302301d311b301906035504030c12656c6c69707469632061757468\
    6f72697479301e170d3230303130313030303030305a170d3439303130313030303030305a301d311b301906035504030c12656c6c\
    697074696320617574686f726974793059301306072a8648ce3d020106082a8648ce3d0301070342000448c8d270cae3abc55c21ec\
    9f422746c1f1ef149e18f2d5c86175204417fffd27251ba874b2e7673adc25b36e4674938f1b63a48f1977bdb23135cd34e0a27f23\
    a326302430120603551d130101ff040830060101ff020100300e0603551d0f0101ff040403020204300a06082a8648ce3d04030203\
    48003045022100842d45e93368211fe6aa4a6e3a70d1c51d93e930ba39890eeeda05930ccd2ff4022052a7ead5dc1db32de3b9134d\
    80bd269484cc1d9ef8a277984a7af9606b1d7813";

/// What it issued to `home-08`.
const CERTIFICATE: &str = "\
    308201243081cba003020102020108300a06082a8648ce3d040302301d311b301906035504030c12656c6c69707469632061757468\
    6f72697479301e170d3236303130313030303030305a170d3238303130313030303030305a30123110300e06035504030c07686f6d\
    652d3038302a300506032b657003210051e47ea70dc4fb163fa24dd6b3a3c4044bc3ac5fd4f72b17e842638bb192bc17a336303430\
    0e0603551d0f0101ff04040302078030220603551d11041b3019861775726e3a647265616d3a6d657465723a686f6d652d3038300a\
    06082a8648ce3d0403020348003045022009f932e597827090fba073a32496e9d6cfc327986ef0715020471ce5c7c63e380221009c\
    58a79642be2398bfe8603be0217e617f7fb3d6b95bbcb65e1afa8677d17694";

/// A cluster, with one list.
pub(crate) struct Homes {
    pub(crate) credentials: Credentials,
    pub(crate) gateway: ClusterNode,
    /// The gateway's X25519 key of the list.
    pub(crate) gateway_agreement: [u8; 32],
    pub(crate) meters: Vec<Node>,
    pub(crate) list: Arc<MembershipList>,
}

/// Everything of one member's attempt.
pub(crate) struct Dealt {
    pub(crate) reading: i64,
    pub(crate) noisy: i64,
    pub(crate) stream: Element,
    pub(crate) dealt: Vec<Element>,
    pub(crate) secret: Element,
    pub(crate) ciphertext: Element,
    pub(crate) corrections: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) envelope: Arc<[u8]>,
}

impl Homes {
    /// Everyone enrols, and the gateway forms a list in which every eligible member is a holder; all accept it.
    pub(crate) fn every() -> Self {
        let mut homes = Self::formed();
        homes.deliver();
        homes
    }

    /// The same with a list whose holders are drawn. No gateway of ours draws among so few: it is resumed with that list.
    pub(crate) fn drawn() -> Self {
        let mut homes = Self::formed();
        let every = homes.list.clone();
        let mut statement = ListStatement::decode(every.bytes()).unwrap();
        statement.holders = drawn_holders(&statement, DRAWN);
        let (members, holders) = (statement.enrolments.len() as u64, statement.holders.len() as u64);
        let colluding = Committee::colluding(DRAWN, members, statement.terms.max_malicious).unwrap();
        let needed = Committee::needed_of(holders, colluding);
        statement.terms.scheme = Scheme::Committee(Committee { drawn: DRAWN, needed, holders });
        let signer = &homes.credentials.gateway;
        let topic = GatewayChannel::Membership.topic(&cluster_id());
        let bytes = statement.seal((&signer.identity(), &signer.der), &topic);
        homes.list = MembershipList::verify(&bytes, &cluster_id(), &homes.credentials.authorities()).unwrap();
        let numbers = [2, every.epoch(), at(START + 5).as_millis()].map(raw::uint);
        let record =
            [&numbers[..], &[raw::bytes(&bytes), raw::bytes(&homes.gateway_agreement), raw::uint(0), raw::uint(0)]]
                .concat();
        homes.gateway.store.insert(cluster::Key::List(every.epoch()), raw::array(&record));
        homes.gateway.restart(at(START + 6));
        homes.deliver();
        homes
    }

    /// The gateway has formed its list, and nobody has seen it.
    fn formed() -> Self {
        let credentials = Credentials::new();
        let mut gateway = ClusterNode::new(credentials.cluster_config(), at(START), rng(1));
        let meters: Vec<Node> = (0..HOMES)
            .map(|index| Node::new(&credentials.meters[index].0, credentials.meter_config(index), 2000 + index as u64))
            .collect();
        for node in &meters {
            let topic = format!("dream/v1/{}/enrol/{}", cluster_id(), node.id);
            gateway.receive(&Packet::new(topic, node.enrolment.clone()), at(START));
        }
        let published = gateway.handle(cluster::Input::Tick, at(START + 5));
        let full = GatewayChannel::FullMembership.topic(&cluster_id());
        let full = published.iter().find(|packet| packet.topic == full).expect("a list is due");
        let record = fields(&gateway.store[&cluster::Key::List(START + 5)]);
        let gateway_agreement = byte_string(&record[4]).try_into().unwrap();
        let list = MembershipList::verify(&full.payload, &cluster_id(), &credentials.authorities()).unwrap();
        let short = GatewayChannel::Membership.topic(&cluster_id());
        let short = published.iter().find(|packet| packet.topic == short).expect("every list has a short form");
        assert_eq!(*short.payload, list.shortened());
        Self { credentials, gateway, gateway_agreement, meters, list }
    }

    /// Every meter gets the short form of the list, and those who need it the whole one.
    fn deliver(&mut self) {
        let short = Packet::new(GatewayChannel::Membership.topic(&cluster_id()), self.list.shortened());
        let full = Packet::new(GatewayChannel::FullMembership.topic(&cluster_id()), self.list.bytes().clone());
        let drawn = self.committee().drawn > 0;
        for node in &mut self.meters {
            assert!(node.receive(&short, at(START + 6)).is_empty(), "an accepted list needs no answer");
            let holder = self.list.holders().any(|holder| *holder.id() == node.id);
            if holder || !drawn {
                assert!(node.receive(&full, at(START + 6)).is_empty(), "an accepted list needs no answer");
            }
        }
    }

    pub(crate) fn committee(&self) -> Committee {
        self.list.params().terms().scheme.committee().expect("a list of a committee")
    }

    /// The holders' places among the members.
    pub(crate) fn holders(&self) -> Vec<usize> {
        let index = |id: &MeterId| self.meters.iter().position(|node| node.id == *id).expect("a member");
        self.list.holders().map(|holder| index(holder.id())).collect()
    }

    pub(crate) fn slot(&self) -> Slot {
        self.list.from_slot()
    }

    pub(crate) fn slot_end(&self) -> Timestamp {
        self.list.params().slot_end(self.slot())
    }

    /// Every meter measures and sends its reading, in the middle of the window.
    pub(crate) fn measure(&mut self, watts: &[i64]) -> Vec<Packet> {
        let (slot, end) = (self.slot(), self.slot_end());
        self.gateway.tick_until(end);
        measure(&mut self.meters, watts, slot, end)
    }

    /// Delivers a message that the gateway must not reject; returns what it publishes.
    pub(crate) fn gateway_receives(&mut self, packet: &Packet, at: Timestamp) -> Vec<Packet> {
        let published = self.gateway.receive(packet, at);
        assert_eq!(self.gateway.rejections, []);
        published
    }

    /// The numbers of the attempt that a meter has recorded, each checked against what makes it.
    pub(crate) fn attempt(&self, index: usize) -> Dealt {
        let record = fields(&self.meters[index].meter.store[&meter::Key::Slot(self.slot())]);
        let reading = i64::try_from(integer(&record[3])).unwrap();
        let envelope: Arc<[u8]> = byte_string(&record[7]).into();
        let payload = Mac0::decode(&envelope).unwrap().payload().to_vec();
        let DealtReading { ciphertext, corrections, .. } = DealtReading::decode(&payload).unwrap();
        let corrections = corrections.to_vec();
        let dealt = self.dealt(index);
        let Committee { holders, needed, .. } = self.committee();
        let dealing = Dealer::small(usize::try_from(holders).unwrap(), usize::try_from(needed).unwrap()).deal(&dealt);
        let secret = dealing.secret();
        let published: Vec<u8> = dealing.corrections().iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(published, corrections);
        let (stream_key, _) = self.gateway_keys(index);
        let stream = Element::from_block(derive::stream_block(&stream_key, self.slot(), 0));
        let noisy = (ciphertext - stream - secret).to_signed();
        Dealt { reading, noisy, stream, dealt, secret, ciphertext, corrections, payload, envelope }
    }

    /// What a member deals to each holder.
    fn dealt(&self, index: usize) -> Vec<Element> {
        let (node, slot, hash) = (&self.meters[index], self.slot(), self.list.hash());
        let own = AgreementSecret::from_bytes(node.agreement);
        let to = |holder: &Enrolment| {
            if *holder.id() == node.id {
                let self_key = SelfKey::from_bytes(node.self_key);
                return Element::from_block(derive::own_deal(&self_key, hash, slot, 0));
            }
            let shared = own.agree(holder.agreement()).unwrap();
            let key = derive::pair_key(hash, &shared, self.list.cluster(), &node.id, holder.id());
            dealing::deal(key.expose(), node.id < *holder.id(), slot, 0)
        };
        self.list.holders().map(to).collect()
    }

    pub(crate) fn gateway_keys(&self, index: usize) -> (StreamKey, MacKey) {
        let node = &self.meters[index];
        let shared = AgreementSecret::from_bytes(node.agreement).agree(self.list.gateway_agreement()).unwrap();
        derive::gateway_keys(self.list.hash(), &shared, self.list.cluster(), &node.id)
    }
}

/// Who is drawn for the day of a list's first slot, by what is written in the certificates.
pub(crate) fn drawn_holders(statement: &ListStatement<'_>, drawn: u64) -> Vec<u16> {
    let members = statement.enrolments.len() as u64;
    let day = committee::day_of(statement.from_slot.0 * statement.terms.slot_seconds);
    let threshold = committee::threshold(drawn, members).unwrap();
    let is_drawn = |&index: &u16| {
        let (envelope, der) = Sign1::decode_certified(statement.enrolments[usize::from(index)]).unwrap();
        let willing = EnrolmentStatement::decode(envelope.payload()).unwrap().holds >= members;
        let draw = Certificate::unverified(der).unwrap().draw();
        willing && draw.is_some_and(|draw| draw.sigma(day) < threshold)
    };
    (0..u16::try_from(members).unwrap()).filter(is_drawn).collect()
}
