//! The same seed gives the same messages, to the byte: meters and a gateway's machine in time that is only told to them.

use std::sync::Arc;

use dream_gateway::clock::{Clock as _, SystemClock};
use dream_protocol::cluster::{self, Cluster, ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::meter::Input;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Now, Timestamp};
use dream_protocol::topic::GatewayChannel;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::homes::Homes;
use super::member::{Member, Packet, Setup};
use crate::access::Access;
use crate::home::{ActivityModel, DayKind, Month, Residents};
use crate::provision::{Authority, Issued};
use crate::run::lenient;
use crate::source::Source;
use crate::street;

#[test]
fn the_same_seed_gives_the_same_messages() {
    let stage = Stage::new();
    let (sent, decoded) = stage.play(7);
    assert!(decoded >= 2, "slots, so that there is something to compare: {decoded}");
    let kinds = ["/enrol/", "/reading/", "/reveal/"];
    assert!(kinds.iter().all(|kind| sent.iter().any(|(topic, _)| topic.contains(kind))));
    assert_eq!(stage.play(7).0, sent);
    let (other, _) = stage.play(8);
    let common = sent.iter().filter(|message| other.contains(message)).count();
    assert_eq!(common, 0, "another seed gives other keys, noise and homes");
}

/// Who plays, again and again.
struct Stage {
    authority: Authority,
    gateway: (GatewayId, Issued),
    meters: Vec<(MeterId, Issued)>,
    cluster: ClusterId,
    /// The begin of a slot, now: certificates are not valid before.
    start: Timestamp,
}

type Sent = Vec<(String, Arc<[u8]>)>;

impl Stage {
    fn new() -> Self {
        let authority = Authority::new("an authority", 3650);
        let gateway = GatewayId::new("gw-1").unwrap();
        let meters = (0..6).map(|number| MeterId::new(&format!("m-{number}")).unwrap());
        let meters = meters.map(|id| (id.clone(), authority.meter(&id))).collect();
        let cluster = ClusterId::new("north").unwrap();
        let start = Timestamp::from_secs(SystemClock.now().as_millis() / 8000 * 8);
        Self { gateway: (gateway.clone(), authority.gateway(&gateway)), meters, authority, cluster, start }
    }

    /// What the meters send in some seconds, and how many slots are decoded from it.
    fn play(&self, seed: u64) -> (Sent, usize) {
        let homes = street::homes(seed, 6, Residents::exactly(2).unwrap(), ActivityModel::Crest);
        let source = Source::Model { homes, month: Month::new(11).unwrap(), kind: DayKind::Weekday };
        let mut homes = Homes::new((0..6).collect());
        let mut members: Vec<Member> = self.meters.iter().map(|meter| self.member(meter, seed)).collect();
        let mut cluster = Cluster::resume(self.config(), [], self.start).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (mut sent, mut waiting, mut decoded) = (Sent::new(), Vec::new(), 0);
        cluster.handle(cluster::Input::Connected, self.start, &mut rng);
        for tick in 0..400u64 {
            let now = Now { wall: self.start.plus_millis(tick * 100), monotonic_millis: tick * 100 };
            let from_gateway: Vec<(GatewayChannel, Arc<[u8]>)> = std::mem::take(&mut waiting);
            for (index, member) in members.iter_mut().enumerate() {
                let mut packets = if tick == 0 { member.handle(Input::Connected, now).packets } else { Vec::new() };
                for (channel, payload) in &from_gateway {
                    let topic = channel.topic(&self.cluster);
                    packets.extend(member.handle(Input::Message { topic: &topic, payload }, now).packets);
                }
                if let Some((slot, begin, end)) = member.ended(now) {
                    let watts = homes.watts(&source, 150.0, index, slot, (begin, end));
                    packets.extend(member.handle(Input::Measured { slot, watts }, now).packets);
                }
                packets.extend(member.handle(Input::Tick, now).packets);
                for Packet { topic, payload, .. } in packets {
                    cluster.handle(cluster::Input::Message { topic: &topic, payload: &payload }, now.wall, &mut rng);
                    sent.push((topic, payload));
                }
            }
            cluster.handle(cluster::Input::Tick, now.wall, &mut rng);
            while let Some(output) = cluster.poll() {
                match output {
                    cluster::Output::Publish { channel, payload } => waiting.push((channel, payload)),
                    cluster::Output::Closed(closed) => decoded += usize::from(closed.result.is_ok()),
                    cluster::Output::Persist(_)
                    | cluster::Output::Forget(_)
                    | cluster::Output::Reject { .. }
                    | cluster::Output::Notice(_) => {}
                }
            }
        }
        (sent, decoded)
    }

    fn member(&self, (id, issued): &(MeterId, Issued), seed: u64) -> Member {
        let setup = Setup {
            id: id.clone(),
            issued: issued.clone(),
            access: Access::open("nowhere", 1),
            simulation: Simulation::default(),
        };
        let policy = lenient(Policy::new(self.authority.authorities(), [self.gateway.0.clone()]));
        Member::resume(setup, &self.cluster, &policy, Vec::new(), seed).unwrap()
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
            roster: RosterRules { min_members: 6, settle_seconds: 1, list_slots: 100, ..RosterRules::default() },
            clock_skew_seconds: 1,
        }
    }
}
