//! A gateway's cluster and its meters in one process: the machines that ship, which exchange the bytes that they would
//! exchange over a broker, at moments that nobody waits for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::certificate::Authorities;
use dream_protocol::cluster::{self, Cluster, ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::meter::{self, Meter, MeterConfig};
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Now, Slot, Timestamp};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};

use crate::provision::{Authority, Issued, TEST_AUTHORITY};
use crate::run::lenient;

/// N: four whose shares make up the noise, one that may be silent and one that may be malicious.
pub(super) const MEMBERS: u16 = 6;

/// n, the honest shares that the claim counts on.
pub(super) const HONEST: u16 = 4;

/// D: readings are from 0 to this, in watts.
pub(super) const RANGE: u32 = 2;

const SLOT_SECONDS: u64 = 60;
const WINDOW_SECONDS: u64 = 6;

/// Certificates for all, made once.
#[derive(Debug)]
pub(super) struct Cast {
    authorities: Authorities,
    gateway: Issued,
    meters: Vec<Issued>,
    /// When every run begins: the start of a slot at which all certificates hold.
    start: Timestamp,
}

/// What one member does in every slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// What it measures; a member without it enrols and is off from then on.
    pub(super) watts: Option<i64>,
    /// Whether it adds its share of the noise.
    pub(super) noise: bool,
}

/// A cluster in virtual time.
#[derive(Debug)]
pub(super) struct VirtualCluster {
    id: ClusterId,
    gateway: Cluster,
    gateway_rng: ChaCha20Rng,
    members: Vec<Member>,
    now: Timestamp,
    /// Messages under way, in the order in which they were sent.
    packets: VecDeque<Packet>,
    closed: VecDeque<SlotOutcome>,
}

#[derive(Debug)]
struct Member {
    meter: Meter,
    rng: ChaCha20Rng,
    watts: Option<i64>,
    /// The slot that is being measured, and its end.
    measuring: Option<(Slot, Timestamp)>,
}

#[derive(Debug)]
enum Packet {
    ToGateway { topic: String, payload: Arc<[u8]> },
    ToMeters { topic: String, payload: Arc<[u8]> },
}

impl Cast {
    pub(super) fn new() -> Self {
        let authority = Authority::new(TEST_AUTHORITY, 30);
        let authorities = authority.authorities();
        let gateway = authority.gateway(&gateway_id());
        let meters =
            (1..=MEMBERS).map(|number| authority.meter(&MeterId::new(&format!("m-{number}")).expect("a plain name")));
        let meters = meters.collect();
        let begins = authorities.verify(&gateway.der).expect("just issued").not_before();
        let start = Timestamp::from_secs(begins.next_multiple_of(SLOT_SECONDS));
        Self { authorities, gateway, meters, start }
    }

    /// A test policy: it accepts a small cluster and range, and any number of slots a day.
    fn policy(&self) -> Policy {
        Policy { range: (0, RANGE.into()), ..lenient(Policy::new(self.authorities.clone(), [gateway_id()])) }
    }
}

impl VirtualCluster {
    /// Starts everybody; all chance follows from the seed.
    pub(super) fn new(cast: &Cast, epsilon: (u64, u64), parts: &[Part], seed: &str) -> Self {
        let id = ClusterId::new("audit").expect("a plain name");
        let config = ClusterConfig {
            cluster: id.clone(),
            identity: Arc::new(cast.gateway.identity()),
            certificate: cast.gateway.der.clone().into(),
            authorities: cast.authorities.clone(),
            terms: terms(epsilon),
            missing_share: one_member(),
            malicious_share: one_member(),
            roster: RosterRules {
                min_members: MEMBERS,
                settle_seconds: 5,
                list_slots: 1000,
                drop_after_slots: 0,
                min_interval_seconds: 600,
                allow: None,
                deny: BTreeSet::new(),
            },
            clock_skew_seconds: 0,
        };
        let policy = cast.policy();
        let member = |(number, (issued, part)): (usize, (&Issued, &Part))| {
            let config = MeterConfig {
                identity: issued.identity(),
                certificate: issued.der.clone(),
                cluster: id.clone(),
                policy: policy.clone(),
            };
            let mut meter = Meter::resume(config, []).expect("certificates are in order");
            meter.simulate(Simulation { share: (!part.noise).then_some(0), ..Simulation::default() });
            Member { meter, rng: rng(seed, &format!("meter {number}")), watts: part.watts, measuring: None }
        };
        let mut cluster = Self {
            gateway: Cluster::resume(config, [], cast.start).expect("terms and certificates are in order"),
            gateway_rng: rng(seed, "gateway"),
            members: cast.meters.iter().zip(parts).enumerate().map(member).collect(),
            id,
            now: cast.start,
            packets: VecDeque::new(),
            closed: VecDeque::new(),
        };
        cluster.tell_gateway(cluster::Input::Connected);
        (0..cluster.members.len()).for_each(|member| cluster.tell_meter(member, meter::Input::Connected));
        cluster.members.retain(|member| member.watts.is_some());
        cluster.deliver();
        cluster
    }

    /// Lets time pass until a slot closes.
    pub(super) fn next_outcome(&mut self) -> SlotOutcome {
        loop {
            if let Some(outcome) = self.closed.pop_front() {
                return outcome;
            }
            self.advance();
        }
    }

    /// Goes to the next moment at which something is due, and does it.
    fn advance(&mut self) {
        let gateway_due = self.gateway.deadline();
        let members_due: Vec<Option<Timestamp>> = self.members.iter().map(Member::due).collect();
        let due = members_due.iter().copied().chain([gateway_due]).flatten().min();
        self.now = due.expect("the next slot, or the next enrolment, is always ahead");
        if gateway_due == due {
            self.tell_gateway(cluster::Input::Tick);
        }
        for (member, _) in members_due.iter().enumerate().filter(|(_, member_due)| **member_due == due) {
            let ended = self.members[member].ended(self.now);
            self.tell_meter(member, ended.unwrap_or(meter::Input::Tick));
        }
        self.deliver();
    }

    /// Carries messages until none is under way.
    fn deliver(&mut self) {
        while let Some(packet) = self.packets.pop_front() {
            match packet {
                Packet::ToGateway { topic, payload } => {
                    self.tell_gateway(cluster::Input::Message { topic: &topic, payload: &payload });
                }
                Packet::ToMeters { topic, payload } => {
                    for member in 0..self.members.len() {
                        self.tell_meter(member, meter::Input::Message { topic: &topic, payload: &payload });
                    }
                }
            }
        }
    }

    fn tell_gateway(&mut self, input: cluster::Input<'_>) {
        self.gateway.handle(input, self.now, &mut self.gateway_rng);
        while let Some(output) = self.gateway.poll() {
            match output {
                cluster::Output::Publish { channel, payload } => {
                    self.packets.push_back(Packet::ToMeters { topic: channel.topic(&self.id), payload });
                }
                cluster::Output::Closed(outcome) => self.closed.push_back(outcome),
                // Nobody restarts here.
                cluster::Output::Persist(_) | cluster::Output::Forget(_) => {}
                cluster::Output::Reject { .. } | cluster::Output::Notice(_) => {}
            }
        }
    }

    fn tell_meter(&mut self, member: usize, input: meter::Input<'_>) {
        let now = Now { wall: self.now, monotonic_millis: self.now.as_millis() };
        let member = &mut self.members[member];
        member.meter.handle(input, now, &mut member.rng);
        while let Some(output) = member.meter.poll() {
            match output {
                meter::Output::Publish { topic, payload } => {
                    self.packets.push_back(Packet::ToGateway { topic, payload });
                }
                meter::Output::Persist(_) | meter::Output::Erase(_) | meter::Output::Notice(_) => {}
            }
        }
    }
}

impl Member {
    fn due(&self) -> Option<Timestamp> {
        self.meter.deadline().into_iter().chain(self.measuring.map(|(_, end)| end)).min()
    }

    /// The slot that has just ended, measured, and the one that begins.
    fn ended(&mut self, now: Timestamp) -> Option<meter::Input<'static>> {
        let ended = self.measuring.filter(|(_, end)| *end <= now);
        if ended.is_some() || self.measuring.is_none() {
            self.measuring = self.meter.measuring(now).map(|(slot, _, end)| (slot, end));
        }
        let ((slot, _), watts) = ended.zip(self.watts)?;
        Some(meter::Input::Measured { slot, watts })
    }
}

fn terms((epsilon_numerator, epsilon_denominator): (u64, u64)) -> Terms {
    Terms {
        slot_seconds: SLOT_SECONDS,
        reading_seconds: WINDOW_SECONDS,
        reveal_seconds: WINDOW_SECONDS,
        // These two follow from the cluster's shares.
        max_missing: 0,
        max_malicious: 0,
        partners: 0,
        lo: 0,
        hi: RANGE.into(),
        epsilon_numerator,
        epsilon_denominator,
        attempts: 1,
    }
}

fn one_member() -> Share {
    Share::new(1, MEMBERS.into()).expect("one of some")
}

fn gateway_id() -> GatewayId {
    GatewayId::new("gw-1").expect("a plain name")
}

fn rng(seed: &str, whose: &str) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(Sha256::digest(format!("{seed}/{whose}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Part = Part { watts: Some(1), noise: false };
    const SILENT: Part = Part { watts: None, noise: false };
    const NOISY: Part = Part { noise: true, ..EXACT };

    #[test]
    fn masks_cancel_though_one_member_is_silent_and_lists_are_renewed() {
        let mut cluster =
            VirtualCluster::new(&Cast::new(), (1, 1), &[EXACT, EXACT, EXACT, EXACT, EXACT, SILENT], "exact");
        let outcomes: Vec<SlotOutcome> = (0..1100).map(|_| cluster.next_outcome()).collect();
        assert!(outcomes.iter().all(|outcome| outcome.result.unwrap().watts() == 5));
        assert!(outcomes.iter().all(|outcome| (outcome.members, outcome.honest, outcome.responders) == (6, 4, 5)));
        assert!(outcomes.windows(2).all(|pair| pair[1].slot == pair[0].slot.plus(1)));
        assert_eq!((outcomes[0].epoch, outcomes[1099].epoch), (1, 2));
    }

    #[test]
    fn chance_follows_from_the_seed_alone() {
        let sums = |seed| {
            let parts = [NOISY, NOISY, NOISY, NOISY, EXACT, SILENT];
            let mut cluster = VirtualCluster::new(&Cast::new(), (1, 2), &parts, seed);
            (0..50).map(|_| cluster.next_outcome().result.unwrap().watts()).collect::<Vec<i64>>()
        };
        assert_eq!(sums("one"), sums("one"));
        assert_ne!(sums("one"), sums("another"));
    }
}
