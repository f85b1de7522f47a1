//! Members of clusters: real enrolments and keys, and no masks, which would cancel anyway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dream_gateway::config::secrets::GatewayIdentity;
use dream_gateway::config::{ClusterSettings, Config};
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Output, Record};
use dream_protocol::derive;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, MacKey, StreamKey};
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{EnrolmentStatement, MaskedReading, Message as _, Reveal, Sign1};
use dream_testkit::lab::identities::{Identities, valid_for_decades};
use dream_testkit::pki::Issued;
use sha2::{Digest, Sha256};

/// What every member measures.
pub const WATTS: u64 = 500;

/// A message to be published.
pub type Message = (String, Vec<u8>);

/// The members of one cluster under its list.
pub struct Members {
    pub cluster: ClusterId,
    list: [u8; 8],
    members: Vec<Member>,
}

struct Member {
    id: MeterId,
    stream: StreamKey,
    mac: MacKey,
}

impl Members {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// One reading of every member.
    pub fn readings(&self, slot: Slot) -> Vec<Message> {
        let reading = |(index, member): (u64, &Member)| {
            let stream = derive::stream(&member.stream, slot, 0);
            let ciphertext = WATTS.wrapping_add(stream).wrapping_add(secret(index));
            let topic = MeterChannel::Reading.topic(&self.cluster, &member.id);
            let payload = MaskedReading { list: self.list, slot, attempt: 0, ciphertext }.seal(&member.mac, &topic);
            (topic, payload)
        };
        (0..).zip(&self.members).map(reading).collect()
    }

    /// What every member answers to a request.
    pub fn reveals(&self, slot: Slot, request: &[u8]) -> Vec<Message> {
        let hash = Sha256::digest(Sign1::decode(request).unwrap().payload());
        let request = std::array::from_fn(|i| hash[i]);
        let reveal = |(index, member): (u64, &Member)| {
            let topic = MeterChannel::Reveal.topic(&self.cluster, &member.id);
            let reveal = Reveal { list: self.list, slot, attempt: 0, revealed: secret(index), request };
            let payload = reveal.seal(&member.mac, &topic);
            (topic, payload)
        };
        (0..).zip(&self.members).map(reveal).collect()
    }
}

/// C_i: anything that only the member knows.
fn secret(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

/// Fills a store with clusters whose lists were published a while ago, and gives their members.
///
/// A gateway would come to the same store if all members had enrolled through the broker; this way it takes seconds.
pub fn enrol(
    config: &Config,
    identities: &Identities,
    members: usize,
    then: Timestamp,
    store: &FileStore,
) -> Vec<Members> {
    let gateway = GatewayIdentity::load(&config.identity, &config.id, then).unwrap();
    // A meter has one certificate, and here belongs to every cluster: that takes no less memory, and less time to make.
    let issue = |index: usize| {
        let id = MeterId::new(&format!("meter-{index:05}")).unwrap();
        let issued = identities.pki.issue(id.as_str(), "meter", valid_for_decades);
        (id, issued)
    };
    let certified: Vec<(MeterId, Issued)> = in_parallel(members, issue);
    let clusters: Vec<(&ClusterId, &ClusterSettings)> = config.clusters.iter().collect();
    let skew = config.clock_skew_seconds;
    in_parallel(clusters.len(), |at| {
        let (id, settings) = clusters[at];
        let (changes, members) = form(id, cluster_config(id, settings, &gateway, skew), &certified, then);
        store.commit(&changes).unwrap();
        members
    })
}

/// One cluster's records, and its members' keys.
fn form(
    id: &ClusterId,
    config: ClusterConfig,
    meters: &[(MeterId, Issued)],
    then: Timestamp,
) -> (Vec<Change>, Members) {
    let secrets: Vec<AgreementSecret> = meters
        .iter()
        .map(|(meter, _)| AgreementSecret::from_bytes(Sha256::digest(format!("{id}/{meter}")).into()))
        .collect();
    let enrolments = meters.iter().zip(&secrets).map(|((meter, issued), secret)| Record::Enrolment {
        meter: meter.clone(),
        bytes: enrolment(id, meter, issued, secret, then).into(),
    });
    let enrolments: Vec<Record> = enrolments.collect();
    let settle = config.roster.settle_seconds.max(3);
    let mut cluster = Cluster::resume(config, enrolments.iter().cloned(), then).unwrap();
    cluster.handle(Input::Connected, then, &mut rand::rng());
    cluster.handle(Input::Tick, then.plus_secs(settle), &mut rand::rng());
    let mut records = enrolments;
    while let Some(output) = cluster.poll() {
        if let Output::Persist(record) = output {
            records.push(record);
        }
    }
    let list = cluster.newest_list().expect("all members are there");
    let of_id: BTreeMap<&MeterId, &AgreementSecret> = meters.iter().map(|(meter, _)| meter).zip(&secrets).collect();
    let members = list.members().iter().map(|member| {
        let shared = of_id[member.id()].agree(list.gateway_agreement()).unwrap();
        let (stream, mac) = derive::gateway_keys(list.hash(), &shared, id, member.id());
        Member { id: member.id().clone(), stream, mac }
    });
    let members = Members { cluster: id.clone(), list: list.hash().prefix(), members: members.collect() };
    (records.into_iter().map(|record| Change::Put(id.clone(), record)).collect(), members)
}

fn enrolment(cluster: &ClusterId, id: &MeterId, issued: &Issued, secret: &AgreementSecret, then: Timestamp) -> Vec<u8> {
    let then = then.as_secs();
    let statement = EnrolmentStatement {
        cluster: cluster.clone(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: secret.public(),
        not_before: then - 3600,
        not_after: then + 30 * 86_400,
        seq: then,
        holds: 0,
    };
    statement.seal((&issued.identity(), &issued.der), &MeterChannel::Enrol.topic(cluster, id))
}

fn cluster_config(id: &ClusterId, settings: &ClusterSettings, gateway: &GatewayIdentity, skew: u64) -> ClusterConfig {
    ClusterConfig {
        cluster: id.clone(),
        identity: gateway.key.clone(),
        certificate: Arc::clone(&gateway.certificate),
        authorities: gateway.authorities.clone(),
        terms: settings.terms,
        scheme: SchemeChoice::Only(Kind::Pairwise),
        committee_attempts: settings.committee_attempts,
        may_draw: true,
        missing_share: settings.missing_share,
        malicious_share: settings.malicious_share,
        floors: settings.profile.floors(),
        budget: settings.profile.budget(),
        roster: settings.roster.clone(),
        clock_skew_seconds: skew,
    }
}

/// The results for `0..count`, in order, from all cores.
fn in_parallel<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let ours = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < count));
        ours.map(|at| (at, make(at))).collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut made: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}
