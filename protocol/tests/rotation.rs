//! Authorities come and go, and a cluster's epochs go on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/pki.rs"]
mod pki;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::certificate::Authorities;
use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Key, Output, Record, RosterRules};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::AgreementSecret;
use dream_protocol::params::{Share, Terms};
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::EnrolmentStatement;
use pki::Pki;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

const START: Timestamp = Timestamp::from_secs(2_980_000 * 600);

/// A cluster whose records are kept, as a gateway keeps them.
struct Gateway {
    cluster: Cluster,
    records: BTreeMap<Key, Vec<u8>>,
    rng: ChaCha20Rng,
}

impl Gateway {
    fn resume(config: ClusterConfig, records: BTreeMap<Key, Vec<u8>>, now: Timestamp) -> Self {
        let replayed: Vec<Record> = records.values().map(|bytes| Record::decode(bytes).unwrap()).collect();
        let cluster = Cluster::resume(config, replayed, now).unwrap();
        let mut gateway = Self { cluster, records, rng: ChaCha20Rng::seed_from_u64(now.as_secs()) };
        gateway.handle(Input::Connected, now);
        gateway
    }

    fn handle(&mut self, input: Input<'_>, now: Timestamp) {
        self.cluster.handle(input, now, &mut self.rng);
        while let Some(output) = self.cluster.poll() {
            match output {
                Output::Persist(record) => drop(self.records.insert(record.key(), record.encode().to_vec())),
                Output::Forget(forget) => self.records.retain(|key, _| !names(&forget, key)),
                Output::Publish { .. } | Output::Reject { .. } | Output::Closed(_) | Output::Notice(_) => {}
            }
        }
    }

    fn enrol(&mut self, pki: &Pki, id: &str, now: Timestamp) {
        let issued = pki.meter(id);
        let statement = EnrolmentStatement {
            cluster: north(),
            certificate: Sha256::digest(&issued.der).into(),
            agreement: AgreementSecret::generate(&mut self.rng).public(),
            not_before: now.as_secs(),
            not_after: now.as_secs() + 86_400,
            seq: now.as_secs(),
        };
        let topic = MeterChannel::Enrol.topic(&north(), &MeterId::new(id).unwrap());
        let payload = statement.sign(&issued.identity(), &topic, &issued.der);
        self.handle(Input::Message { topic: &topic, payload: &payload }, now);
    }

    fn newest(&self) -> Option<(u64, usize)> {
        self.cluster.newest_list().map(|list| (list.epoch(), list.members().len()))
    }
}

fn names(forget: &dream_protocol::cluster::Forget, key: &Key) -> bool {
    use dream_protocol::cluster::Forget;
    match (forget, key) {
        (Forget::Enrolment(meter), Key::Enrolment(known)) => meter == known,
        (Forget::List(epoch), Key::List(known)) => epoch == known,
        (Forget::Slot(slot), Key::Slot(known, ..)) => slot == known,
        (Forget::Enrolment(_) | Forget::List(_) | Forget::Slot(_), _) => false,
    }
}

fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

fn config(gateways: &Pki, authorities: Authorities) -> ClusterConfig {
    let gateway = gateways.gateway("gw");
    ClusterConfig {
        cluster: north(),
        identity: Arc::new(gateway.identity()),
        certificate: gateway.der.clone().into(),
        authorities,
        terms: Terms {
            slot_seconds: 600,
            reading_seconds: 60,
            reveal_seconds: 30,
            max_missing: 0,
            max_malicious: 0,
            partners: 0,
            lo: 0,
            hi: 9000,
            epsilon_numerator: 1,
            epsilon_denominator: 1,
            attempts: 1,
        },
        missing_share: Share::new(1, 10).unwrap(),
        malicious_share: Share::new(1, 10).unwrap(),
        roster: RosterRules {
            min_members: 5,
            settle_seconds: 1,
            list_slots: 100,
            drop_after_slots: 0,
            min_interval_seconds: 0,
            allow: None,
            deny: BTreeSet::new(),
        },
        clock_skew_seconds: 5,
    }
}

#[test]
fn a_list_with_members_of_a_removed_authority_is_continued_and_not_started_over() {
    let (staying, leaving) = (Pki::named("staying"), Pki::named("leaving"));
    let both = Authorities::new([staying.authority(), leaving.authority()]).unwrap();
    let mut gateway = Gateway::resume(config(&staying, both), BTreeMap::new(), START);
    for number in 0..6 {
        gateway.enrol(&staying, &format!("m-{number}"), START);
    }
    gateway.enrol(&leaving, "guest", START);
    gateway.handle(Input::Tick, START.plus_secs(5));
    assert_eq!(gateway.newest(), Some((1, 7)));

    // The authority is removed: its meter's entry in the list can no longer be read, nor the list with it.
    let later = START.plus_secs(60);
    let mut gateway = Gateway::resume(config(&staying, staying.authorities()), gateway.records, later);
    gateway.handle(Input::Tick, later.plus_secs(5));
    assert_eq!(gateway.newest(), Some((2, 6)));

    // And again after another restart.
    let last = later.plus_secs(60);
    let mut gateway = Gateway::resume(config(&staying, staying.authorities()), gateway.records, last);
    gateway.enrol(&staying, "m-9", last);
    gateway.handle(Input::Tick, last.plus_secs(5));
    assert_eq!(gateway.newest(), Some((3, 7)));
}

#[test]
fn an_epoch_is_never_used_again_even_if_no_list_could_follow_for_a_while() {
    let (staying, leaving) = (Pki::named("staying"), Pki::named("leaving"));
    let both = Authorities::new([staying.authority(), leaving.authority()]).unwrap();
    let mut gateway = Gateway::resume(config(&staying, both), BTreeMap::new(), START);
    for number in 0..6 {
        gateway.enrol(&leaving, &format!("m-{number}"), START);
    }
    gateway.handle(Input::Tick, START.plus_secs(5));
    assert_eq!(gateway.newest(), Some((1, 6)));
    let mut records = gateway.records;
    let mut now = START;
    for _ in 0..3 {
        now = now.plus_secs(60);
        let mut gateway = Gateway::resume(config(&staying, staying.authorities()), records, now);
        gateway.handle(Input::Tick, now.plus_secs(5));
        assert_eq!(gateway.newest(), None);
        records = gateway.records;
    }
    now = now.plus_secs(60);
    let mut gateway = Gateway::resume(config(&staying, staying.authorities()), records, now);
    for number in 10..16 {
        gateway.enrol(&staying, &format!("m-{number}"), now);
    }
    gateway.handle(Input::Tick, now.plus_secs(5));
    assert_eq!(gateway.newest(), Some((2, 6)));
}
