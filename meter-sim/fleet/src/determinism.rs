//! The same seed gives the same messages, to the byte: meters and a gateway's machine in virtual time.

use std::sync::Arc;

use dream_protocol::cluster::{self, ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::meter::Input;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Now, Timestamp};
use dream_virtual::node::{self, ClusterNode};

use crate::access::Access;
use crate::authority::{Issued, TestAuthorities};
use crate::homes::Homes;
use crate::meter::{MeterSetup, Packet, SimulatedMeter};
use dream_edge::clock::wall;
use dream_homes::home::{ActivityModel, Calendar, DayKind, Month, Residents};
use dream_homes::source::Source;
use dream_homes::street;

#[test]
fn the_same_seed_gives_the_same_messages() {
    compare(Kind::Pairwise);
}

#[test]
fn the_same_seed_gives_the_same_messages_with_a_committee() {
    compare(Kind::Committee);
}

fn compare(scheme: Kind) {
    let fixture = Fixture::new(scheme);
    let (sent, decoded) = fixture.run(7, Some(7));
    assert!(decoded >= 2, "slots, so that there is something to compare: {decoded}");
    let kinds = ["/enrol/", "/reading/", "/reveal/"];
    assert!(kinds.iter().all(|kind| sent.iter().any(|(topic, _)| topic.contains(kind))));
    assert_eq!(fixture.run(7, Some(7)).0, sent);
    let in_common = |other: Sent| sent.iter().filter(|message| other.contains(message)).count();
    let common = in_common(fixture.run(8, Some(8)).0);
    assert_eq!(common, 0, "another seed gives other keys, noise and homes");
    let common = in_common(fixture.run(7, None).0);
    assert_eq!(common, 0, "without a seed, keys and noise of the same homes are others");
}

/// The participants, which every run shares.
struct Fixture {
    authority: TestAuthorities,
    gateway: (GatewayId, Issued),
    meters: Vec<(MeterId, Issued)>,
    cluster: ClusterId,
    scheme: Kind,
    /// The begin of a slot, now: certificates are not valid before.
    start: Timestamp,
}

type Sent = Vec<(String, Arc<[u8]>)>;

impl Fixture {
    fn new(scheme: Kind) -> Self {
        let authority = TestAuthorities::new(3650);
        let gateway = GatewayId::new("gw-1").unwrap();
        let meters = (0..6).map(|number| MeterId::new(&format!("m-{number}")).unwrap());
        let meters = meters.map(|id| (id.clone(), authority.meter(&id))).collect();
        let cluster = ClusterId::new("north").unwrap();
        let start = Timestamp::from_secs(wall().as_millis() / 8000 * 8);
        Self { gateway: (gateway.clone(), authority.gateway(&gateway)), meters, authority, cluster, scheme, start }
    }

    /// Runs the cluster for some seconds; returns what the meters send, and how many slots are decoded from it.
    fn run(&self, seed: u64, secrets: Option<u64>) -> (Sent, usize) {
        let homes = street::homes(seed, 6, Residents::exactly(2).unwrap(), ActivityModel::Crest);
        let source = Source::Model { homes, calendar: Calendar::Same(Month::NOVEMBER, DayKind::Weekday) };
        let mut homes = Homes::new((0..6).collect());
        let mut members: Vec<SimulatedMeter> = self.meters.iter().map(|meter| self.member(meter, secrets)).collect();
        let mut gateway = ClusterNode::new(self.config(), self.start, dream_virtual::rng(1));
        let (mut sent, mut waiting) = (Sent::new(), Vec::new());
        for tick in 0..400u64 {
            let now = Now { wall: self.start.plus_millis(tick * 100), monotonic_millis: tick * 100 };
            let from_gateway = std::mem::take(&mut waiting);
            for (index, member) in members.iter_mut().enumerate() {
                let mut packets = if tick == 0 { member.handle(Input::Connected, now).packets } else { Vec::new() };
                for node::Packet { topic, payload, .. } in &from_gateway {
                    packets.extend(member.handle(Input::Message { topic, payload }, now).packets);
                }
                if let Some((slot, begin, end)) = member.ended(now) {
                    let watts = homes.watts(&source, 150.0, index, slot, (begin, end));
                    packets.extend(member.handle(Input::Measured { slot, watts }, now).packets);
                }
                packets.extend(member.handle(Input::Tick, now).packets);
                for Packet { topic, payload, .. } in packets {
                    waiting.extend(gateway.receive(&node::Packet::new(topic.clone(), payload.clone()), now.wall));
                    sent.push((topic, payload));
                }
            }
            waiting.extend(gateway.handle(cluster::Input::Tick, now.wall));
        }
        (sent, gateway.outcomes.iter().filter(|outcome| outcome.result.is_ok()).count())
    }

    fn member(&self, (id, issued): &(MeterId, Issued), secrets: Option<u64>) -> SimulatedMeter {
        let setup = MeterSetup {
            id: id.clone(),
            issued: issued.clone(),
            access: Access::open("nowhere", 1),
            simulation: Simulation::default(),
        };
        let policy = Policy::new(self.authority.authorities(), [self.gateway.0.clone()]).with_profile(Profile::Trial);
        SimulatedMeter::resume(setup, &self.cluster, &policy, Vec::new(), secrets).unwrap()
    }

    fn config(&self) -> ClusterConfig {
        ClusterConfig {
            cluster: self.cluster.clone(),
            identity: Arc::new(self.gateway.1.identity()),
            certificate: self.gateway.1.der.clone().into(),
            authorities: self.authority.authorities(),
            terms: Terms { slot_seconds: 8, reading_seconds: 2, reveal_seconds: 2, ..Terms::DEFAULT },
            missing_share: Share::new(1, 6).unwrap(),
            malicious_share: Share::new(1, 6).unwrap(),
            floors: Profile::Trial.floors(),
            budget: Profile::Trial.budget(),
            roster: RosterRules { min_members: 6, settle_seconds: 1, list_slots: 100, ..RosterRules::default() },
            clock_skew_seconds: 1,
            scheme: SchemeChoice::Only(self.scheme),
            committee_attempts: 1,
            may_draw: true,
        }
    }
}
