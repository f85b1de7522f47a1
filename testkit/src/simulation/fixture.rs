//! What all simulated runs of a process share: certificates, and stores of meters that are enrolled already. Making them
//! costs more than a run.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dream_protocol::certificate::Authorities;
use dream_protocol::cluster::{self, ClusterConfig};
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::keys::{AgreementPublic, SharedSecret};
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, MeterConfig};
use dream_protocol::params::Terms;
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;
use rcgen::date_time_ymd;

use crate::example::{TERMS, at, cluster_config, cluster_id, meter_name, policy};
use crate::node::{ClusterNode, MeterNode};
use crate::pki::{Issued, Pki};
use crate::rng;

/// Midnight of 2026-08-30. Runs cross it, so that every ledger has two days.
pub(super) const MIDNIGHT: u64 = 20_695 * 86_400;

pub(super) const SLOT_SECONDS: u64 = 60;

/// Readings go up to 2^30, and a day's account holds one for each of its slots: large random numbers, so that no lost or doubled one can hide in a sum.
pub(super) const HIGHEST: i64 = 1 << 30;

pub(super) const SLOT_TERMS: Terms = Terms {
    slot_seconds: SLOT_SECONDS,
    reading_seconds: 15,
    reveal_seconds: 5,
    hi: HIGHEST,
    day_micro_rho: 1_440_000_000,
    ..TERMS
};

/// How many meters small runs share, and how many there are in all.
const FEW_METERS: usize = 14;
const MOST_METERS: usize = 60;

pub(super) struct Fixture {
    policy: Policy,
    gateway: ClusterConfig,
    meters: Vec<Issued>,
    /// Certificates that end soon, one after the other.
    short_lived: Vec<Issued>,
}

/// What enrolled meters and their gateway have written, and the X25519 results of every pair.
pub(super) struct Enrolled {
    pub meters: Vec<BTreeMap<meter::Key, Vec<u8>>>,
    pub gateway: BTreeMap<cluster::Key, Vec<u8>>,
    pub agreements: Vec<Vec<(AgreementPublic, SharedSecret)>>,
}

impl Fixture {
    pub(super) fn get() -> &'static Self {
        static FIXTURE: OnceLock<Fixture> = OnceLock::new();
        FIXTURE.get_or_init(|| {
            let pki = Pki::new();
            let short_lived = |index: usize| {
                let midnight = date_time_ymd(2026, 8, 30);
                let slots = 8 + 2 * u64::try_from(index).unwrap();
                let ends = midnight + Duration::from_secs(slots * SLOT_SECONDS + 7);
                pki.issue(&meter_name(index), "meter", |params| params.not_after = ends)
            };
            Self {
                policy: Policy { range: (0, HIGHEST), partial_masks: true, ..policy(&pki) },
                gateway: ClusterConfig { terms: SLOT_TERMS, ..cluster_config(&pki, 10) },
                meters: (0..MOST_METERS).map(|index| pki.meter(&meter_name(index))).collect(),
                short_lived: (0..FEW_METERS).map(short_lived).collect(),
            }
        })
    }

    pub(super) fn authorities(&self) -> &Authorities {
        &self.policy.authorities
    }

    pub(super) fn gateway(&self) -> ClusterConfig {
        self.gateway.clone()
    }

    pub(super) fn meter(&self, index: usize, short_lived: bool, daily_micro_epsilon: u64) -> MeterConfig {
        let issued = if short_lived { &self.short_lived[index] } else { &self.meters[index] };
        MeterConfig {
            identity: issued.identity(),
            certificate: issued.der.clone(),
            cluster: cluster_id(),
            policy: Policy { daily_micro_epsilon, ..self.policy.clone() },
        }
    }

    /// Stores of at least so many meters that enrolled shortly before `START`; nothing else has happened.
    pub(super) fn enrolled(meters: usize) -> &'static Enrolled {
        static FEW: OnceLock<Enrolled> = OnceLock::new();
        static MOST: OnceLock<Enrolled> = OnceLock::new();
        let (stores, count) = if meters <= FEW_METERS { (&FEW, FEW_METERS) } else { (&MOST, MOST_METERS) };
        stores.get_or_init(|| enrol(Self::get(), count, |_| at(START - 30)))
    }

    /// Stores of meters that enrolled so long ago that they renew during a run, one after the other.
    pub(super) fn aged() -> &'static Enrolled {
        static AGED: OnceLock<Enrolled> = OnceLock::new();
        let renewal = MAX_ENROLMENT_SECONDS * 2 / 3;
        AGED.get_or_init(|| enrol(Self::get(), FEW_METERS, |index| at(START - renewal + 100 + 30 * index as u64)))
    }
}

/// When runs begin.
pub(super) const START: u64 = MIDNIGHT - 6 * SLOT_SECONDS;

fn enrol(fixture: &Fixture, count: usize, when: impl Fn(usize) -> Timestamp) -> Enrolled {
    let mut gateway = ClusterNode::new(fixture.gateway(), when(0), rng(1));
    let meter = |index: usize| {
        let config = fixture.meter(index, false, u64::MAX);
        MeterNode::new(config, Simulation::default(), rng(1000 + index as u64))
    };
    let mut nodes: Vec<MeterNode> = (0..count).map(meter).collect();
    let mut admit = |node: &mut MeterNode, now| {
        for packet in node.handle(meter::Input::Connected, now) {
            let lists = gateway.receive(&packet, now);
            assert_eq!(lists, [], "no list yet");
        }
    };
    nodes.iter_mut().enumerate().for_each(|(index, node)| admit(node, when(index)));
    let now = when(count);
    let meters = nodes.iter().map(|node| node.store.clone()).collect();
    let store = gateway.store.clone();
    let list = gateway.handle(cluster::Input::Tick, now.plus_secs(5)).pop().expect("a list is due");
    let list: Arc<MembershipList> =
        MembershipList::verify(&list.payload, &cluster_id(), fixture.authorities()).unwrap();
    let agreements = nodes.iter_mut().map(|node| {
        node.handle(meter::Input::List(list.clone()), now.plus_secs(6));
        node.meter.agreements().map(|(with, shared)| (*with, shared.clone())).collect()
    });
    Enrolled { agreements: agreements.collect(), meters, gateway: store }
}
