use dream_protocol::cluster::{ClusterConfig, RosterRules};
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::meter::MeterConfig;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::{self, SchemeChoice};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{Message as _, Retry};

use super::*;
use crate::example::SMALL;
use crate::node::MeterNode;
use crate::pki::Pki;
use crate::rng;
use crate::virtual_cluster::VirtualCluster;

const SLOT: Slot = Slot(7);

#[test]
fn the_last_request_says_who_is_in_the_sum() {
    let gateway = Gateway::new();
    let mut oracle = gateway.oracle();
    assert_eq!(oracle.expected_of(SLOT, watts), None, "nothing was asked yet");
    oracle.note_recovery(&gateway.request(0, &[1]));
    oracle.note_recovery(&gateway.retry(1));
    let first = oracle.expected_of(SLOT, watts).unwrap();
    assert_eq!((first.epoch, first.members, first.attempts, first.truth), (gateway.list.epoch(), 4, 1, 0b1101));
    oracle.note_recovery(&gateway.request(1, &[0, 3]));
    let second = oracle.expected_of(SLOT, watts).unwrap();
    assert_eq!((second.attempts, second.truth, second.noisy), (2, 0b0110, 0b0110));
    assert_eq!(second.responders, ["m-1", "m-2"].map(id).into());
    assert_eq!(oracle.contradictions(), 0);
}

#[test]
fn what_meters_hid_in_that_attempt_makes_the_sum() {
    let gateway = Gateway::new();
    let mut oracle = gateway.oracle();
    oracle.note_recovery(&gateway.request(0, &[]));
    oracle.note_recovery(&gateway.request(1, &[3]));
    let mut hide = |meter: &str, attempt, share| {
        let watts = watts(&id(meter), SLOT);
        oracle.note_hidden(&id(meter), Hidden { slot: SLOT, attempt, watts, share });
        oracle.expected(SLOT)
    };
    for meter in ["m-0", "m-1", "m-2", "m-3"] {
        assert_eq!(hide(meter, 0, 1000), None, "another attempt's");
    }
    assert_eq!((hide("m-0", 1, 10), hide("m-1", 1, -3)), (None, None), "one is not known");
    let expected = hide("m-2", 1, 5).unwrap();
    assert_eq!((expected.truth, expected.noisy, expected.responders.len()), (0b0111, 0b0111 + 12, 3));
}

#[test]
fn a_gateway_that_says_two_things_contradicts_itself() {
    let gateway = Gateway::new();
    let mut oracle = gateway.oracle();
    let (first, other) = (gateway.request(0, &[1]), gateway.request(0, &[2]));
    for message in [&first, &first, &gateway.retry(1), &gateway.retry(1)] {
        oracle.note_recovery(message);
    }
    assert_eq!((oracle.contradictions(), oracle.messages.len()), (0, 2), "a retry counts on its own topic");
    for message in [&other, &other, &first] {
        oracle.note_recovery(message);
    }
    assert_eq!(oracle.contradictions(), 1);
}

#[test]
fn what_others_say_on_the_topic_counts_for_nothing() {
    let gateway = Gateway::new();
    let mut oracle = gateway.oracle();
    let forged = gateway.request_by(&IdentityKey::from_seed(&[7; 32]), 0, &[1]);
    oracle.note_recovery(&forged);
    oracle.note_recovery(b"rubbish");
    assert_eq!(oracle.expected_of(SLOT, watts), None);
    let mut without_list = Oracle::default();
    without_list.note_recovery(&gateway.request(0, &[1]));
    assert!(without_list.messages.is_empty(), "nobody knows whose request it is");
    oracle.note_recovery(&gateway.request(0, &[2]));
    assert_eq!((oracle.contradictions(), oracle.expected_of(SLOT, watts).unwrap().truth), (0, 0b1011));
}

#[test]
fn an_oracle_of_a_long_run_forgets_old_slots() {
    let gateway = Gateway::new();
    let mut oracle = Oracle::remembering(2);
    oracle.note_list(&gateway.list);
    for attempt in 0..3 {
        oracle.note_recovery(&gateway.request_for(Slot(u64::from(attempt)), attempt, &[]));
        oracle.note_hidden(&id("m-0"), Hidden { slot: Slot(u64::from(attempt)), attempt, watts: 1, share: 0 });
    }
    let known = (0..3).filter(|slot| oracle.expected_of(Slot(*slot), watts).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(oracle.hidden.len(), 2);
}

/// Whatever is left out of a sum, or is in it twice, and whichever slot it is of: the sum tells.
#[test]
fn sums_of_readings_tell_who_is_in_them_and_which_slot_it_is() {
    let mut sums = BTreeSet::new();
    for slot in 0..4 {
        // Each of five meters is in the sum never, once or twice.
        for case in 0..3u32.pow(5) {
            let times = |meter: usize| case / 3u32.pow(u32::try_from(meter).unwrap()) % 3;
            let sum: i64 = (0..5).map(|meter| i64::from(times(meter)) * reading(meter, Slot(slot))).sum();
            assert!(sum == 0 || sums.insert(sum), "slot {slot}, case {case}");
        }
    }
}

/// Meter k measures 2^k watts.
fn watts(meter: &MeterId, _: Slot) -> i64 {
    1 << meter.as_str().strip_prefix("m-").unwrap().parse::<u32>().unwrap()
}

fn id(name: &str) -> MeterId {
    MeterId::new(name).unwrap()
}

/// A gateway with a list of four members.
struct Gateway {
    identity: IdentityKey,
    list: Arc<MembershipList>,
}

impl Gateway {
    fn new() -> Self {
        let pki = Pki::new();
        let (gateway, cluster) = (pki.gateway("gw"), ClusterId::new("north").unwrap());
        let policy = Policy { floors: SMALL, ..Policy::new(pki.authorities(), [GatewayId::new("gw").unwrap()]) };
        let meters = (0..4).map(|number| {
            let issued = pki.meter(&format!("m-{number}"));
            let config = MeterConfig {
                identity: issued.identity(),
                certificate: issued.der,
                cluster: cluster.clone(),
                policy: policy.clone(),
            };
            MeterNode::new(config, Simulation::default(), rng(number))
        });
        let config = ClusterConfig {
            cluster: cluster.clone(),
            identity: Arc::new(gateway.identity()),
            certificate: gateway.der.clone().into(),
            authorities: pki.authorities(),
            terms: Terms::with_slots_of(600),
            missing_share: Share::new(0, 1).unwrap(),
            malicious_share: Share::new(1, 4).unwrap(),
            floors: SMALL,
            budget: Profile::Strict.budget(),
            roster: RosterRules { min_members: 4, settle_seconds: 5, ..RosterRules::default() },
            clock_skew_seconds: 0,
            scheme: SchemeChoice::Only(scheme::Kind::Pairwise),
            committee_attempts: 1,
            may_draw: true,
        };
        // 15 January 2027.
        let mut cluster = VirtualCluster::new(config, meters, Timestamp::from_secs(1_800_000_000), rng(9));
        while cluster.list().is_none() {
            cluster.advance(|_, _| None);
        }
        Self { identity: gateway.identity(), list: cluster.list().unwrap().clone() }
    }

    fn oracle(&self) -> Oracle {
        let mut oracle = Oracle::default();
        oracle.note_list(&self.list);
        oracle
    }

    fn request(&self, attempt: u8, missing: &[u16]) -> Vec<u8> {
        self.request_for(SLOT, attempt, missing)
    }

    fn request_for(&self, slot: Slot, attempt: u8, missing: &[u16]) -> Vec<u8> {
        self.request_signed(&self.identity, slot, attempt, missing)
    }

    fn request_by(&self, key: &IdentityKey, attempt: u8, missing: &[u16]) -> Vec<u8> {
        self.request_signed(key, SLOT, attempt, missing)
    }

    fn request_signed(&self, key: &IdentityKey, slot: Slot, attempt: u8, missing: &[u16]) -> Vec<u8> {
        let missing = MemberSet::from_members(4, missing.iter().copied()).as_bytes().to_vec();
        let topic = GatewayChannel::Recovery.topic(self.list.cluster());
        RecoveryRequest { list: *self.list.hash(), slot, attempt, missing, deadline: 1 }.seal(key, &topic)
    }

    fn retry(&self, attempt: u8) -> Vec<u8> {
        let topic = GatewayChannel::Retry.topic(self.list.cluster());
        Retry { list: *self.list.hash(), slot: SLOT, attempt, deadline: 1 }.seal(&self.identity, &topic)
    }
}
