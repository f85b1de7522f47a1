//! What the protocol costs, each beside the least that it could cost. `scripts/bench-ratios` prints the ratios, which are
//! what counts: both sides of each are measured in one run.

#[path = "../tests/support/pki.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests, which use more of it")]
mod pki;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aes::Aes128Enc;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Output, RosterRules};
use dream_protocol::derive;
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, MacKey, PairKey};
use dream_protocol::mask::Masks;
use dream_protocol::membership::MembershipList;
use dream_protocol::noise::{Sampler, Scale};
use dream_protocol::params::{Share, Terms};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{EnrolmentStatement, ListStatement, MaskedReading, Sign1};
use hmac::{Hmac, Mac};
use pki::{Issued, Pki};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    targets = masks, reading, share, list
}
criterion_main!(benches);

/// A week of ten-minute slots: what a meter computes ahead at once.
const BATCH: usize = 1008;
const START: u64 = 2_980_000 * 600;

/// A meter's masks of a batch of slots, and the AES blocks of the same batch under ready key schedules.
fn masks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("masks");
    for members in [1_000u16, 10_000] {
        let key = |other: u16| PairKey::from_bytes(std::array::from_fn(|i| other.to_be_bytes()[i % 2] ^ i as u8));
        let keys = (0..members).map(|other| (other != members / 2).then(|| key(other))).collect();
        let masks = Masks::new(keys, None);
        group.throughput(Throughput::Elements(BATCH as u64));
        group.bench_function(BenchmarkId::new("batch", members), |bencher| {
            bencher.iter(|| masks.batch(black_box(Slot(2_980_000)), BATCH));
        });
        let ciphers: Vec<Aes128Enc> = (1..members).map(|other| Aes128Enc::new(key(other).expose().into())).collect();
        let mut blocks = vec![Block::<Aes128Enc>::default(); BATCH / 2];
        group.bench_function(BenchmarkId::new("bare_blocks", members), |bencher| {
            bencher.iter(|| {
                for cipher in &ciphers {
                    cipher.encrypt_blocks(black_box(&mut blocks));
                }
            });
        });
    }
    group.finish();
}

/// The gateway accepting readings of a cluster of 10,000, and the HMAC of the same bytes.
fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reading");
    let mut hall = Hall::new(10_000);
    group.bench_function("accept", |bencher| bencher.iter_custom(|iterations| hall.time_readings(iterations)));
    let packets = hall.readings(hall.next);
    let keys = hall.members.iter().map(|(_, mac)| mac);
    let signed: Vec<(Vec<u8>, &MacKey)> =
        packets.iter().map(|(topic, bytes)| mac_structure(topic, bytes)).zip(keys).collect();
    let mut next = signed.iter().cycle();
    group.bench_function("bare_hmac", |bencher| {
        bencher.iter(|| {
            let (bytes, key) = next.next().expect("endless");
            let mut mac = Hmac::<Sha256>::new_from_slice(key.expose()).expect("any length");
            mac.update(black_box(bytes));
            mac.finalize().into_bytes()
        });
    });
    group.finish();
}

fn share(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("share");
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for honest in [10, 20, 80, 800, 8_000] {
        let sampler = Sampler::new(honest, Scale::new(9000, 1));
        group.bench_function(BenchmarkId::from_parameter(honest), |bencher| bencher.iter(|| sampler.sample(&mut rng)));
    }
    group.finish();
}

/// Verifying a list of 1,000 members, and its 2,002 signatures alone.
fn list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list");
    group.sample_size(10);
    let hall = Hall::new(1_000);
    let list = hall.cluster.newest_list().expect("formed").bytes().clone();
    let authorities = hall.pki.authorities();
    group.bench_function("verify", |bencher| {
        bencher.iter(|| MembershipList::verify(black_box(&list), &hall.cluster_id, &authorities).expect("sound"));
    });
    let checks = Signatures::of(&list, &hall.pki);
    group.bench_function("bare_signatures", |bencher| bencher.iter(|| checks.all_verify()));
    group.finish();
}

/// A gateway's cluster with members whose keys the benchmark knows.
struct Hall {
    pki: Pki,
    cluster_id: ClusterId,
    cluster: Cluster,
    /// Every member but the first, with its key under the list; the first stays silent, so that slots stay open.
    members: Vec<(String, MacKey)>,
    rng: ChaCha20Rng,
    next: Slot,
}

impl Hall {
    fn new(count: u16) -> Self {
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
    fn readings(&self, slot: Slot) -> Vec<(&str, Vec<u8>)> {
        let list = self.cluster.newest_list().expect("formed").hash().prefix();
        let sealed = self.members.iter().map(|(topic, mac)| {
            let reading = MaskedReading { list, slot, attempt: 0, ciphertext: 7 };
            (topic.as_str(), reading.seal(mac, topic))
        });
        sealed.collect()
    }

    /// Times the acceptance of so many readings, by whole slots.
    fn time_readings(&mut self, iterations: u64) -> Duration {
        let (mut accepted, mut total) = (0u64, Duration::ZERO);
        while accepted < iterations {
            let packets: Vec<(String, Vec<u8>)> =
                self.readings(self.next).into_iter().map(|(topic, bytes)| (topic.to_owned(), bytes)).collect();
            let now = self.cluster.newest_list().expect("formed").params().slot_end(self.next);
            self.cluster.handle(Input::Tick, now, &mut self.rng);
            while self.cluster.poll().is_some() {}
            let before = accepted;
            let begun = Instant::now();
            for (topic, payload) in &packets {
                self.cluster.handle(Input::Message { topic, payload }, now, &mut self.rng);
                while let Some(output) = self.cluster.poll() {
                    accepted += u64::from(matches!(output, Output::Persist(_)));
                }
            }
            total += begun.elapsed();
            assert_eq!(accepted - before, packets.len() as u64, "every reading is accepted");
            self.next = self.next.plus(1);
        }
        total.mul_f64(iterations as f64 / accepted as f64)
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
            list_slots: 3_000,
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

/// What HMAC covers: `["MAC0", protected, topic, payload]`.
fn mac_structure(topic: &str, envelope: &[u8]) -> Vec<u8> {
    let payload = dream_protocol::wire::Mac0::decode(envelope).expect("just sealed").payload();
    let mut bytes = Vec::new();
    let mut encoder = minicbor::Encoder::new(&mut bytes);
    let written =
        encoder.array(4).and_then(|e| e.str("MAC0")?.bytes(&[0xa1, 1, 4])?.bytes(topic.as_bytes())?.bytes(payload));
    written.expect("writing to a Vec cannot fail");
    bytes
}

/// The signatures of a list, ready to be checked by the primitives that the crate uses: certificates by `ring`, through
/// x509-parser, and messages by `ed25519-dalek`.
struct Signatures {
    certificates: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    messages: Vec<(ed25519_dalek::VerifyingKey, Vec<u8>, ed25519_dalek::Signature)>,
}

impl Signatures {
    fn of(list: &[u8], pki: &Pki) -> Self {
        let (_, authority) = X509Certificate::from_der(pki.authority()).expect("a certificate");
        let authority = authority.public_key().subject_public_key.data.to_vec();
        let mut found = Self { certificates: Vec::new(), messages: Vec::new() };
        found.add(list, "dream/v1/north/membership", &authority);
        let (envelope, _) = Sign1::decode_certified(list).expect("sound");
        for enrolment in ListStatement::decode(envelope.payload()).expect("sound").enrolments {
            found.add(enrolment, "", &authority);
        }
        found
    }

    fn add(&mut self, bytes: &[u8], topic: &str, authority: &[u8]) {
        let (envelope, der) = Sign1::decode_certified(bytes).expect("sound");
        let (_, certificate) = X509Certificate::from_der(der).expect("a certificate");
        let name = certificate.subject().iter_common_name().next().expect("named").as_str().expect("text");
        let topic = if topic.is_empty() { format!("dream/v1/north/enrol/{name}") } else { topic.to_owned() };
        let mut message = Vec::new();
        let mut encoder = minicbor::Encoder::new(&mut message);
        encoder
            .array(4)
            .and_then(|e| {
                e.str("Signature1")?.bytes(&[0xa1, 1, 0x27])?.bytes(topic.as_bytes())?.bytes(envelope.payload())
            })
            .expect("writing to a Vec cannot fail");
        let key: [u8; 32] = certificate.public_key().subject_public_key.data.as_ref().try_into().expect("Ed25519");
        let key = ed25519_dalek::VerifyingKey::from_bytes(&key).expect("a point");
        let signature = bytes[bytes.len() - 64..].try_into().expect("64 bytes");
        self.messages.push((key, message, ed25519_dalek::Signature::from_bytes(&signature)));
        let tbs = certificate.tbs_certificate.as_ref().to_vec();
        self.certificates.push((authority.to_vec(), tbs, certificate.signature_value.data.to_vec()));
    }

    fn all_verify(&self) {
        for (authority, tbs, signature) in &self.certificates {
            UnparsedPublicKey::new(&ED25519, authority).verify(tbs, signature).expect("sound");
        }
        for (key, message, signature) in &self.messages {
            key.verify_strict(message, signature).expect("sound");
        }
    }
}
