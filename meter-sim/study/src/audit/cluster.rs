//! The cluster that is audited: who takes part, and the roles they play, on the machines that ship.

use std::sync::Arc;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::certificate::Authorities;
use dream_protocol::cluster::{ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::meter::MeterConfig;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Floors, Policy, Profile};
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::simulation::{Accounting, Simulation};
use dream_protocol::time::{Slot, Timestamp};
use dream_virtual::node::MeterNode;
use dream_virtual::pki::{Issued, Pki};
use dream_virtual::virtual_cluster::VirtualCluster;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};

/// N: four whose shares make up the noise, one that may be silent and one that may be malicious.
pub(super) const MEMBERS: u16 = 6;

/// n, the honest shares that the claim counts on.
pub(super) const HONEST: u16 = 4;

/// How small a cluster may be here: just as small as it is.
const FLOORS: Floors = Floors { members: MEMBERS, malicious: 1, honest: HONEST };

/// D: readings are from 0 to this, in watts.
pub(super) const RANGE: u32 = 2;

const SLOT_SECONDS: u64 = 60;

/// Certificates for all, made once.
#[derive(Debug)]
pub(super) struct Participants {
    authorities: Authorities,
    gateway: Issued,
    meters: Vec<Issued>,
    /// From when on all certificates hold, in Unix seconds.
    begins: u64,
}

/// What one member does in every slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    /// What it measures; a member without it enrols and is off from then on.
    pub(super) watts: Option<i64>,
    /// Whether it adds its share of the noise.
    pub(super) noise: bool,
    /// What its readings cost the account of their day.
    pub(super) account: Accounting,
}

/// A cluster whose members play their roles in virtual time.
#[derive(Debug)]
pub(super) struct Run {
    cluster: VirtualCluster,
    roles: Vec<Role>,
}

impl Participants {
    pub(super) fn new() -> Self {
        let pki = Pki::new();
        let authorities = pki.authorities();
        let gateway = pki.gateway(gateway_id().as_str());
        let meters = (1..=MEMBERS).map(|number| pki.meter(&format!("m-{number}"))).collect();
        let begins = authorities.verify_gateway(&gateway.der).expect("just issued").not_before();
        Self { authorities, gateway, meters, begins }
    }

    /// A test policy: it accepts a small cluster, little noise, and any number of slots a day.
    fn policy(&self) -> Policy {
        Policy {
            floors: FLOORS,
            min_noise_watts: 0,
            daily_micro_epsilon: u64::MAX,
            day_micro_epsilon: u64::MAX,
            day_micro_rho: u64::MAX,
            ..Policy::new(self.authorities.clone(), [gateway_id()])
        }
    }
}

impl Run {
    /// Starts everybody; all chance follows from the seed.
    pub(super) fn new(participants: &Participants, terms: Terms, roles: &[Role], seed: &str) -> Self {
        let id = ClusterId::new("audit").expect("a plain name");
        let config = ClusterConfig {
            cluster: id.clone(),
            identity: Arc::new(participants.gateway.identity()),
            certificate: participants.gateway.der.clone().into(),
            authorities: participants.authorities.clone(),
            terms,
            scheme: SchemeChoice::Only(Kind::Pairwise),
            committee_attempts: 1,
            may_draw: true,
            missing_share: one_member(),
            malicious_share: one_member(),
            floors: FLOORS,
            budget: Profile::Strict.budget(),
            roster: RosterRules {
                min_members: MEMBERS,
                settle_seconds: 5,
                // Members must be enrolled for all of a list; twenty days leave room.
                list_slots: (20 * 86_400 / terms.slot_seconds).min(1000),
                drop_after_slots: 0,
                ..RosterRules::default()
            },
            clock_skew_seconds: 0,
        };
        let policy = participants.policy();
        let start = Timestamp::from_secs(participants.begins.next_multiple_of(terms.slot_seconds));
        let meter = |(number, (issued, part)): (usize, (&Issued, &Role))| {
            let config = MeterConfig {
                identity: issued.identity(),
                certificate: issued.der.clone(),
                cluster: id.clone(),
                policy: policy.clone(),
            };
            let simulation = if part.noise { Simulation::default() } else { Simulation::NOISELESS };
            let simulation = Simulation { day_account: part.account, ..simulation };
            MeterNode::new(config, simulation, rng(seed, &format!("meter {number}")))
        };
        let meters = participants.meters.iter().zip(roles).enumerate().map(meter);
        let mut cluster = VirtualCluster::new(config, meters, start, rng(seed, "gateway"));
        for (meter, part) in cluster.meters.iter_mut().zip(roles) {
            if part.watts.is_none() {
                *meter = None;
            }
        }
        Self { cluster, roles: roles.to_vec() }
    }

    /// Lets time pass until a slot closes.
    pub(super) fn next_outcome(&mut self) -> SlotOutcome {
        self.cluster.next_outcome(|meter, _| self.roles[meter].watts)
    }

    /// Lets days pass until one is over, and returns its sums. The first home draws what `home` says of each slot of a day.
    pub(super) fn next_day(&mut self, home: &[i64]) -> Vec<i64> {
        let of_day = |slot: Slot| usize::try_from(slot.0 % home.len() as u64).expect("few");
        let mut sums = Vec::new();
        while sums.len() < home.len() {
            let outcome = self.cluster.next_outcome(|meter, slot| match meter {
                0 => home.get(of_day(slot)).copied(),
                other => self.roles[other].watts,
            });
            // A list may begin in the middle of a day.
            if of_day(outcome.slot) == 0 || !sums.is_empty() {
                sums.push(outcome.result.expect("nothing disturbs a slot here").watts());
            }
        }
        sums
    }
}

/// One slot after the other, each for itself: nothing is stated for a day.
pub(super) fn slot_terms((epsilon_numerator, epsilon_denominator): (u64, u64)) -> Terms {
    Terms {
        hi: RANGE.into(),
        epsilon_numerator,
        epsilon_denominator,
        day_micro_rho: 0,
        attempts: 1,
        ..Terms::with_slots_of(SLOT_SECONDS)
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

    const EXACT: Role = Role { watts: Some(1), noise: false, account: Accounting::Right };
    const SILENT: Role = Role { watts: None, ..EXACT };
    const NOISY: Role = Role { noise: true, ..EXACT };

    #[test]
    fn masks_cancel_though_one_member_is_silent_and_lists_are_renewed() {
        let mut cluster =
            Run::new(&Participants::new(), slot_terms((1, 1)), &[EXACT, EXACT, EXACT, EXACT, EXACT, SILENT], "exact");
        let outcomes: Vec<SlotOutcome> = (0..1100).map(|_| cluster.next_outcome()).collect();
        assert!(outcomes.iter().all(|outcome| outcome.result.unwrap().watts() == 5));
        assert!(outcomes.iter().all(|outcome| (outcome.members, outcome.honest, outcome.responders) == (6, 4, 5)));
        assert!(outcomes.windows(2).all(|pair| pair[1].slot == pair[0].slot.plus(1)));
        let epochs: std::collections::BTreeSet<u64> = outcomes.iter().map(|outcome| outcome.epoch).collect();
        assert_eq!(epochs.len(), 2);
    }

    #[test]
    fn chance_follows_from_the_seed_alone() {
        let sums = |seed| {
            let roles = [NOISY, NOISY, NOISY, NOISY, EXACT, SILENT];
            let mut cluster = Run::new(&Participants::new(), slot_terms((1, 2)), &roles, seed);
            (0..50).map(|_| cluster.next_outcome().result.unwrap().watts()).collect::<Vec<i64>>()
        };
        assert_eq!(sums("one"), sums("one"));
        assert_ne!(sums("one"), sums("another"));
    }
}
