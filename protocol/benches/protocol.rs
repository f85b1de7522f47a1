//! What the protocol costs, each beside the least that it could cost. `scripts/bench-ratios` prints the ratios, which are
//! what counts: both sides of each are measured in one run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aes::Aes128Enc;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dream_protocol::cluster::{ClusterConfig, Input, RosterRules};
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::keys::PairKey;
use dream_protocol::membership::MembershipList;
use dream_protocol::noise::{Sampler, Scale};
use dream_protocol::params::{Share, Terms};
use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::decoding;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::time::Slot;
use dream_protocol::wire::{FullList, ListStatement, Mac0, Sign1};
use dream_testkit::example::{self, TERMS, cluster_config, cluster_id};
use dream_testkit::pki::Pki;
use dream_testkit::plain_cluster::{Conduct, PlainCluster};
use hmac::{Hmac, Mac};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::Sha256;
use x509_parser::prelude::{FromDer, X509Certificate};

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    targets = masks, committee, reading, share, list
}
criterion_main!(benches);

/// A week of ten-minute slots: what a meter computes ahead at once.
const BATCH: usize = 1008;

/// A meter's masks of a batch of slots, and the AES blocks of the same batch under ready key schedules.
fn masks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("masks");
    for members in [1_000u16, 10_000] {
        let key = |other: u16| PairKey::from_bytes(std::array::from_fn(|i| other.to_be_bytes()[i % 2]));
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

/// A committee for 10,000 members: the holders, and how many of their answers are needed.
const HOLDERS: u16 = 160;
const NEEDED: u16 = 129;

/// What a member computes for a slot, by both ways of dealing and beside its AES blocks under ready key schedules; and the
/// decoding of all answers, right, with wrong ones, and with as many missing as may be.
fn committee(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("committee");
    let (holders, needed) = (usize::from(HOLDERS), usize::from(NEEDED));
    let key = |holder: u16| PairKey::from_bytes(std::array::from_fn(|i| holder.to_be_bytes()[i % 2]));
    let ciphers: Vec<Aes128Enc> = (0..HOLDERS).map(|holder| Aes128Enc::new(key(holder).expose().into())).collect();
    group.bench_function("bare_blocks", |bencher| bencher.iter(|| dealt(&ciphers, black_box(2_980_000))));
    for (name, dealer) in [("matrix", Dealer::new(holders, needed)), ("differences", Dealer::small(holders, needed))] {
        group.bench_function(BenchmarkId::new("member", name), |bencher| {
            bencher.iter(|| dealer.deal(&dealt(&ciphers, black_box(2_980_000))));
        });
    }
    group.bench_function("new_matrix", |bencher| bencher.iter(|| Dealer::new(black_box(holders), needed)));

    let dealt = dealt(&ciphers, 2_980_000);
    let dealing = Dealer::new(holders, needed).deal(&dealt);
    let corrections = std::iter::repeat_n(&Element::ZERO, needed).chain(dealing.corrections());
    let answers: Vec<(u16, Element)> =
        (1..).zip(dealt.iter().zip(corrections).map(|(dealt, correction)| *dealt + *correction)).collect();
    for wrong in [0, 1, 15] {
        let mut answers = answers.clone();
        answers.iter_mut().step_by(10).take(wrong).for_each(|(_, value)| *value += Element::ONE);
        group.bench_function(BenchmarkId::new("decode", wrong), |bencher| {
            bencher.iter(|| {
                let decoded = decoding::decode(needed, black_box(&answers)).expect("few wrong ones");
                assert_eq!((decoded.secret, decoded.wrong.len()), (dealing.secret(), wrong));
            });
        });
    }
    group.bench_function("decode_fewest", |bencher| {
        bencher.iter(|| decoding::decode(needed, black_box(&answers[holders - needed..])).expect("enough"));
    });
    group.finish();
}

/// What a member deals to all holders in a slot.
fn dealt(ciphers: &[Aes128Enc], slot: u64) -> Vec<Element> {
    let mut input = [0; 16];
    input[0] = 4;
    input[8..].copy_from_slice(&slot.to_be_bytes());
    let block = |cipher: &Aes128Enc| {
        let mut block = input.into();
        cipher.encrypt_block(&mut block);
        Element::from_block(block.into())
    };
    ciphers.iter().map(block).collect()
}

/// The gateway accepting readings, and the HMAC of the same bytes.
fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reading");
    // Each slot takes a reading of every member, and a list has only so many slots.
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for members in [1_000, 10_000] {
        let mut cluster = plain_cluster(members);
        let list = cluster.first_list();
        let mut next = list.from_slot();
        group.bench_function(BenchmarkId::new("accept", members), |bencher| {
            bencher.iter_custom(|iterations| time_readings(&mut cluster, &list, &mut next, iterations));
        });
        let packets = cluster.readings(next, 0, list.epoch());
        let keys = (0..).map(|member: u64| std::array::from_fn(|i| member.to_be_bytes()[i % 8]));
        let signed: Vec<(Vec<u8>, [u8; 32])> =
            packets.iter().map(|packet| mac_structure(&packet.topic, &packet.payload)).zip(keys).collect();
        let mut next = signed.iter().cycle();
        group.bench_function(BenchmarkId::new("bare_hmac", members), |bencher| {
            bencher.iter(|| {
                let (bytes, key) = next.next().expect("endless");
                let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
                mac.update(black_box(bytes));
                mac.finalize().into_bytes()
            });
        });
    }
    group.finish();
}

/// A cluster of which one member is silent, so that slots stay open. Each slot has one attempt, and the first list lasts as long as
/// enrolments do.
fn plain_cluster(members: u16) -> PlainCluster {
    let tenth = Share::new(1, 10).expect("a share");
    let roster = RosterRules {
        min_members: members,
        settle_seconds: 1,
        list_slots: 5_000,
        drop_after_slots: 1_000_000,
        min_interval_seconds: 600,
        ..RosterRules::default()
    };
    let config = ClusterConfig {
        terms: Terms { attempts: 1, ..TERMS },
        missing_share: tenth,
        malicious_share: tenth,
        roster,
        ..cluster_config(&Pki::new(), members)
    };
    let mut conducts = vec![Conduct::Honest; members.into()];
    conducts[0] = Conduct::Off;
    PlainCluster::new(config, conducts, 1)
}

/// Times the acceptance of so many readings, by whole slots.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time_readings(cluster: &mut PlainCluster, list: &MembershipList, next: &mut Slot, iterations: u64) -> Duration {
    let (mut accepted, mut total) = (0u64, Duration::ZERO);
    while accepted < iterations {
        let packets = cluster.readings(*next, 0, list.epoch());
        let now = list.params().slot_end(*next);
        cluster.gateway.handle(Input::Tick, now);
        *next = next.plus(1);
        let begun = Instant::now();
        let persisted: u64 = packets.iter().map(|packet| cluster.gateway.count_writes(packet, now)).sum();
        total += begun.elapsed();
        assert_eq!(persisted, packets.len() as u64, "every reading is accepted");
        accepted += persisted;
    }
    total.mul_f64(iterations as f64 / accepted as f64)
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

/// Verifying a list of 1,000 members, its 2,002 signatures alone, and a list that renews one of its members.
fn list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list");
    group.sample_size(10);
    let (pki, cluster_id) = (Pki::new(), cluster_id());
    let list = plain_cluster(1_000).first_list().bytes().clone();
    let authorities = pki.authorities();
    group.bench_function("verify", |bencher| {
        bencher.iter(|| MembershipList::verify(black_box(&list), &cluster_id, &authorities).expect("sound"));
    });
    let known = MembershipList::verify(&list, &cluster_id, &authorities).expect("sound");
    let renewed = with_one_renewed(&list, &pki);
    group.bench_function("verify_renewed", |bencher| {
        bencher.iter(|| {
            MembershipList::verify_after([&*known], black_box(&renewed), &cluster_id, &authorities).expect("sound")
        });
    });
    let checks = Signatures::of(&list, &pki);
    group.bench_function("bare_signatures", |bencher| bencher.iter(|| checks.all_verify()));
    group.finish();
}

/// The same list with a new enrolment of one member.
fn with_one_renewed(list: &[u8], pki: &Pki) -> Vec<u8> {
    let mut statement = ListStatement::decode(list).expect("sound");
    let (_, certificate) = Sign1::decode_certified(statement.enrolments[500]).expect("sound");
    let (_, certificate) = X509Certificate::from_der(certificate).expect("a certificate");
    let name = certificate.subject().iter_common_name().next().expect("named").as_str().expect("text");
    let renewed = example::enrol(name, &pki.meter(name), |enrolment| {
        (enrolment.seq, enrolment.not_after) = (enrolment.seq + 1, enrolment.not_before + MAX_ENROLMENT_SECONDS);
    });
    statement.enrolments[500] = &renewed;
    statement.epoch += 1;
    let gateway = pki.gateway("gw");
    statement.seal((&gateway.identity(), &gateway.der), "dream/v1/north/membership")
}

/// What HMAC covers: `["MAC0", protected, topic, payload]`.
fn mac_structure(topic: &str, envelope: &[u8]) -> Vec<u8> {
    let payload = Mac0::decode(envelope).expect("just sealed").payload();
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
        let (_, authority) = X509Certificate::from_der(pki.meter_authority()).expect("a certificate");
        let authority = authority.public_key().subject_public_key.data.to_vec();
        let mut found = Self { certificates: Vec::new(), messages: Vec::new() };
        let list = FullList::decode(list).expect("sound");
        found.add(list.header, "dream/v1/north/membership", &authority);
        for enrolment in list.enrolments {
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
