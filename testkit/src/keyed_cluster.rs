//! A gateway's cluster whose members are known by their keys only, so that there can be as many as one likes: for
//! measurements of time and memory.

use dream_protocol::cluster::{self, ClusterConfig, RosterRules};
use dream_protocol::derive;
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, MacKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::params::{Share, Terms};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{MaskedReading, Message as _};

use crate::example::{SMALL, START, TERMS, at, cluster_config, cluster_id, enrol};
use crate::node::{ClusterNode, Packet};
use crate::pki::Pki;
use crate::rng;

/// The gateway's side of a cluster, and its members' keys.
#[derive(Debug)]
pub struct KeyedCluster {
    pub pki: Pki,
    pub cluster_id: ClusterId,
    pub gateway: ClusterNode,
    /// The topic and the key of every member but the first, which stays silent, so that slots stay open.
    pub members: Vec<(String, MacKey)>,
    /// The slot that [`KeyedCluster::open_next_slot`] opens.
    pub next: Slot,
}

impl KeyedCluster {
    pub fn new(count: u16) -> Self {
        let pki = Pki::new();
        let cluster_id = cluster_id();
        let mut random = rng(1);
        let now = at(START);
        let mut gateway = ClusterNode::new(config(&pki, count), now, rng(2));
        let mut members = Vec::new();
        for index in 0..count {
            let id = MeterId::new(&format!("m-{index:05}")).unwrap();
            let secret = AgreementSecret::generate(&mut random);
            let enrolment = enrol(id.as_str(), &pki.meter(id.as_str()), |statement| {
                (statement.agreement, statement.not_after) = (secret.public(), START + MAX_ENROLMENT_SECONDS);
            });
            gateway.receive(&Packet::new(MeterChannel::Enrol.topic(&cluster_id, &id), enrolment), now);
            members.push((id, secret));
        }
        gateway.handle(cluster::Input::Tick, now.plus_secs(3));
        let list = gateway.cluster.newest_list().expect("all have enrolled");
        let keyed = members.iter().skip(1).map(|(id, secret)| {
            let shared = secret.agree(list.gateway_agreement()).unwrap();
            let (_, mac) = derive::gateway_keys(list.hash(), &shared, &cluster_id, id);
            (MeterChannel::Reading.topic(&cluster_id, id), mac)
        });
        let (members, next) = (keyed.collect(), list.from_slot());
        Self { pki, cluster_id, gateway, members, next }
    }

    /// Returns one reading of every member with a key.
    pub fn readings(&self, slot: Slot) -> Vec<(String, Vec<u8>)> {
        let list = self.list().hash().prefix();
        let sealed = self.members.iter().map(|(topic, mac)| {
            let reading = MaskedReading { list, slot, attempt: 0, ciphertext: 7 };
            (topic.clone(), reading.seal(mac, topic))
        });
        sealed.collect()
    }

    /// Opens the next slot; returns the moment from which its readings are accepted.
    pub fn open_next_slot(&mut self) -> Timestamp {
        let now = self.list().params().slot_end(self.next);
        self.gateway.handle(cluster::Input::Tick, now);
        self.next = self.next.plus(1);
        now
    }

    pub fn list(&self) -> &MembershipList {
        self.gateway.cluster.newest_list().expect("formed when the cluster was made")
    }

    /// Handles a message without carrying out what follows; returns how many entries it would write.
    pub fn receive(&mut self, topic: &str, payload: &[u8], now: Timestamp) -> u64 {
        let ClusterNode { cluster, rng, .. } = &mut self.gateway;
        cluster.handle(cluster::Input::Message { topic, payload }, now, rng);
        let mut persisted = 0;
        while let Some(output) = cluster.poll() {
            persisted += u64::from(matches!(output, cluster::Output::Persist(_)));
        }
        persisted
    }
}

/// Returns a configuration with one attempt a slot, whose first list lasts as long as enrolments do.
fn config(pki: &Pki, members: u16) -> ClusterConfig {
    let tenth = Share::new(1, 10).unwrap();
    ClusterConfig {
        terms: Terms { attempts: 1, ..TERMS },
        missing_share: tenth,
        malicious_share: tenth,
        floors: SMALL,
        roster: RosterRules {
            min_members: members,
            settle_seconds: 1,
            list_slots: 5_000,
            drop_after_slots: 1_000_000,
            min_interval_seconds: 600,
            ..RosterRules::default()
        },
        ..cluster_config(pki, members)
    }
}
