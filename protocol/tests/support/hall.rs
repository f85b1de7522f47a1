//! A gateway's cluster with as many members as one likes, of which only the keys are known: for what costs time or memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Output, RosterRules};
use dream_protocol::derive;
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, MacKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::params::{Share, Terms};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{EnrolmentStatement, MaskedReading};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

use super::pki::{Issued, Pki};

const START: u64 = 2_980_000 * 600;

/// The gateway's side of a cluster, and its members' keys.
pub struct Hall {
    pub pki: Pki,
    pub cluster_id: ClusterId,
    pub cluster: Cluster,
    /// Every member but the first, with its key under the list; the first stays silent, so that slots stay open.
    pub members: Vec<(String, MacKey)>,
    rng: ChaCha20Rng,
    pub next: Slot,
}

impl Hall {
    pub fn new(count: u16) -> Self {
        let pki = Pki::new();
        let cluster_id = ClusterId::new("north").expect("an id");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let now = Timestamp::from_secs(START);
        let mut cluster = Cluster::resume(config(&pki, &cluster_id, count), [], now).expect("a good configuration");
        cluster.handle(Input::Connected, now, &mut rng);
        let mut members = Vec::new();
        for index in 0..count {
            let id = MeterId::new(&format!("m-{index:05}")).expect("an id");
            let secret = AgreementSecret::generate(&mut rng);
            let (topic, payload) = enrolment(&pki.meter(id.as_str()), &cluster_id, &id, &secret);
            cluster.handle(Input::Message { topic: &topic, payload: &payload }, now, &mut rng);
            members.push((id, secret));
        }
        cluster.handle(Input::Tick, now.plus_secs(3), &mut rng);
        while cluster.poll().is_some() {}
        let list = cluster.newest_list().expect("formed");
        let keyed = members.iter().skip(1).map(|(id, secret)| {
            let shared = secret.agree(list.gateway_agreement()).expect("contributory");
            let (_, mac) = derive::gateway_keys(list.hash(), &shared, &cluster_id, id);
            (MeterChannel::Reading.topic(&cluster_id, id), mac)
        });
        let (members, next) = (keyed.collect(), list.from_slot());
        Self { pki, cluster_id, cluster, members, rng, next }
    }

    /// One reading of every member.
    pub fn readings(&self, slot: Slot) -> Vec<(String, Vec<u8>)> {
        let list = self.list().hash().prefix();
        let sealed = self.members.iter().map(|(topic, mac)| {
            let reading = MaskedReading { list, slot, attempt: 0, ciphertext: 7 };
            (topic.clone(), reading.seal(mac, topic))
        });
        sealed.collect()
    }

    /// Moves on to the next slot and opens it; its readings are accepted from now on.
    pub fn open_next_slot(&mut self) -> Timestamp {
        let now = self.list().params().slot_end(self.next);
        self.cluster.handle(Input::Tick, now, &mut self.rng);
        while self.cluster.poll().is_some() {}
        self.next = self.next.plus(1);
        now
    }

    pub fn list(&self) -> &MembershipList {
        self.cluster.newest_list().expect("formed")
    }

    /// Handles a message; says how many entries it made persist.
    pub fn receive(&mut self, topic: &str, payload: &[u8], now: Timestamp) -> u64 {
        self.cluster.handle(Input::Message { topic, payload }, now, &mut self.rng);
        let mut persisted = 0;
        while let Some(output) = self.cluster.poll() {
            persisted += u64::from(matches!(output, Output::Persist(_)));
        }
        persisted
    }
}

fn config(pki: &Pki, cluster: &ClusterId, members: u16) -> ClusterConfig {
    let gateway = pki.gateway("gw");
    ClusterConfig {
        cluster: cluster.clone(),
        identity: Arc::new(gateway.identity()),
        certificate: gateway.der.clone().into(),
        authorities: pki.authorities(),
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
        missing_share: Share::new(1, 10).expect("a tenth"),
        malicious_share: Share::new(1, 10).expect("a tenth"),
        roster: RosterRules {
            min_members: members,
            settle_seconds: 1,
            list_slots: 5_000,
            drop_after_slots: 1_000_000,
            min_interval_seconds: 600,
            allow: None,
            deny: BTreeSet::new(),
        },
        clock_skew_seconds: 5,
    }
}

fn enrolment(issued: &Issued, cluster: &ClusterId, id: &MeterId, secret: &AgreementSecret) -> (String, Vec<u8>) {
    let statement = EnrolmentStatement {
        cluster: cluster.clone(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: secret.public(),
        not_before: START,
        not_after: START + MAX_ENROLMENT_SECONDS,
        seq: START,
    };
    let topic = MeterChannel::Enrol.topic(cluster, id);
    let bytes = statement.sign(&issued.identity(), &topic, &issued.der);
    (topic, bytes)
}
