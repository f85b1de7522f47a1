//! The cluster that tests use unless they need another one: ten-minute slots, two attempts, a fifth missing at most.

use std::sync::Arc;

use dream_protocol::cluster::{ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::keys::AgreementSecret;
use dream_protocol::meter::MeterConfig;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Floors, Policy, Profile};
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{EnrolmentStatement, Message as _};
use sha2::{Digest, Sha256};

use crate::pki::{Issued, Pki};

/// The start of slot 2,980,000 of ten minutes, on 2026-08-28.
pub const START: u64 = 2_980_000 * 600;

pub const CLUSTER: &str = "north";

/// Terms of ten-minute slots with two attempts; M and T are set from the shares.
/// The account of a day holds 72 of the highest readings, so that it cuts nothing off where a test is about something else.
pub const TERMS: Terms =
    Terms { reveal_seconds: 30, hi: 5000, epsilon_denominator: 1, day_micro_rho: 72_000_000, ..Terms::DEFAULT };

pub fn cluster_id() -> ClusterId {
    ClusterId::new(CLUSTER).unwrap()
}

pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// Returns the name of a meter, such that names sort like numbers.
pub fn meter_name(index: usize) -> String {
    format!("m-{index:04}")
}

/// How small the clusters of tests may be: those of homes may not.
pub const SMALL: Floors = Profile::Trial.floors();

/// Returns a policy for small test clusters and days of any rho; everything else is the default.
pub fn policy(pki: &Pki) -> Policy {
    let policy = Policy::new(pki.authorities(), [GatewayId::new("gw").unwrap()]);
    Policy { floors: SMALL, day_micro_rho: u64::MAX, ..policy }
}

pub fn meter_config(pki: &Pki, name: &str) -> MeterConfig {
    let issued = pki.meter(name);
    MeterConfig {
        identity: issued.identity(),
        certificate: issued.der.clone(),
        cluster: cluster_id(),
        policy: policy(pki),
    }
}

/// Returns the configuration of a cluster of at least `members`, whose list is formed five seconds after all are in.
pub fn cluster_config(pki: &Pki, members: u16) -> ClusterConfig {
    let gateway = pki.gateway("gw");
    ClusterConfig {
        cluster: cluster_id(),
        identity: Arc::new(gateway.identity()),
        certificate: gateway.der.clone().into(),
        authorities: pki.authorities(),
        terms: TERMS,
        scheme: SchemeChoice::Only(Kind::Pairwise),
        committee_attempts: 1,
        may_draw: true,
        missing_share: Share::new(1, 5).unwrap(),
        malicious_share: Share::new(1, 10).unwrap(),
        floors: SMALL,
        budget: Profile::Strict.budget(),
        roster: RosterRules {
            min_members: members,
            settle_seconds: 5,
            list_slots: 144,
            drop_after_slots: 12,
            min_interval_seconds: 600,
            ..RosterRules::default()
        },
        clock_skew_seconds: 5,
    }
}

/// Returns an enrolment that can say anything, signed with the meter's own key for its own topic.
pub fn enrol(id: &str, issued: &Issued, change: impl FnOnce(&mut EnrolmentStatement)) -> Vec<u8> {
    let mut statement = EnrolmentStatement {
        cluster: cluster_id(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: AgreementSecret::from_bytes(issued.seed).public(),
        not_before: START,
        not_after: START + 30 * 86_400,
        seq: START,
        holds: 0,
    };
    change(&mut statement);
    let topic = MeterChannel::Enrol.topic(&statement.cluster, &MeterId::new(id).unwrap());
    statement.seal((&issued.identity(), &issued.der), &topic)
}
