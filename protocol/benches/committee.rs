//! What a committee of 10,000 members costs the gateway and its members, each beside what it is compared with, measured in one
//! run: readings that are accepted, a sum that is released, lists that are verified, and memory.
//!
//! The members are known to the gateway by their keys; what they deal to each other comes from a hash instead of 1.6 million key
//! agreements, which the gateway cannot tell apart.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark measures time, and tells it")]

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Output, RosterRules};
use dream_protocol::derive;
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, MacKey, StreamKey};
use dream_protocol::membership::MembershipList;
use dream_protocol::params::{Share, Terms};
use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::{Kind, SchemeChoice};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{Answer, DealtReading, Message as _, RecoveryRequest, Sign1};
use dream_testkit::example::{START, TERMS, at, cluster_config, cluster_id, enrol};
use dream_testkit::pki::Pki;
use dream_testkit::rng;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand_chacha::ChaCha20Rng;
use sha2::{Digest as _, Sha256};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEMBERS: u16 = 10_000;
const READING: i64 = 250;

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let members = if std::env::args().any(|arg| arg == "--bench") { MEMBERS } else { 300 };
    println!("a committee of {members} members");
    let mut scene = Scene::new(members);
    scene.lists();
    scene.slot();
    scene.memory();
}

struct Member {
    id: MeterId,
    secret: AgreementSecret,
    keys: Option<(StreamKey, MacKey)>,
}

struct Scene {
    pki: Pki,
    cluster: Cluster,
    rng: ChaCha20Rng,
    members: Vec<Member>,
    list: Arc<MembershipList>,
    short: Arc<[u8]>,
    /// The bytes on the heap that the cluster took, with its list and no slot.
    bytes: usize,
}

impl Scene {
    /// Enrols everybody, and lets the list be formed.
    fn new(count: u16) -> Self {
        let pki = Pki::new();
        let config = config(&pki, count);
        let mut members = Vec::new();
        let mut enrolments = Vec::new();
        let mut random = rng(1);
        for index in 0..count {
            let id = MeterId::new(&format!("m-{index:05}")).expect("a plain name");
            let secret = AgreementSecret::generate(&mut random);
            let bytes = enrol(id.as_str(), &pki.meter(id.as_str()), |statement| {
                (statement.agreement, statement.holds) = (secret.public(), 10_000);
                statement.not_after = START + MAX_ENROLMENT_SECONDS;
            });
            enrolments.push((MeterChannel::Enrol.topic(&cluster_id(), &id), bytes));
            members.push(Member { id, secret, keys: None });
        }
        let mut rng = rng(2);
        let region = Region::new(ALLOCATOR);
        let mut cluster = Cluster::resume(config, [], at(START)).expect("a sound configuration");
        cluster.handle(Input::Connected, at(START), &mut rng);
        for (topic, payload) in &enrolments {
            cluster.handle(Input::Message { topic, payload }, at(START), &mut rng);
            while cluster.poll().is_some() {}
        }
        cluster.handle(Input::Tick, at(START + 5), &mut rng);
        let mut short = None;
        while let Some(output) = cluster.poll() {
            if let Output::Publish { channel: GatewayChannel::Membership, payload } = output {
                short = Some(payload);
            }
        }
        let list = cluster.newest_list().expect("everybody has enrolled").clone();
        let change = region.change();
        for member in &mut members {
            let shared = member.secret.agree(list.gateway_agreement()).expect("a sound key");
            member.keys = Some(derive::gateway_keys(list.hash(), &shared, list.cluster(), &member.id));
        }
        let bytes = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        Self { pki, cluster, rng, members, list, short: short.expect("published with the list"), bytes }
    }

    /// Verifies the list in both forms.
    fn lists(&self) {
        let (cluster, authorities) = (cluster_id(), self.pki.authorities());
        let full = fastest(2, || drop(black_box(MembershipList::verify(self.list.bytes(), &cluster, &authorities))));
        let short = fastest(5, || drop(black_box(MembershipList::verify_short(&self.short, &cluster, &authorities))));
        let committee = self.list.params().terms().scheme.committee().expect("a committee");
        println!("K = {}, q = {}, {} may vanish", committee.holders, committee.needed, committee.spare());
        println!("full list: {} bytes, verified in {full:?}", self.list.bytes().len());
        println!("short list: {} bytes, verified in {short:?}, ratio {:.4}", self.short.len(), ratio(short, full));
        let holders = committee.holders as f64;
        let (members, short) = (self.members.len() as f64, self.short.len() as f64);
        let traffic = members * short + holders * self.list.bytes().len() as f64;
        println!("one new list for everybody: {:.2} GB", traffic / 1e9);
    }

    /// Plays one slot: accepts readings, asks, takes answers, and releases the sum.
    fn slot(&mut self) {
        let (slot, list) = (self.list.from_slot(), self.list.clone());
        let committee = list.params().terms().scheme.committee().expect("a committee");
        let [holders, needed] = [committee.holders, committee.needed].map(|count| usize::try_from(count).expect("few"));
        let dealer = Dealer::new(holders, needed);
        let mut sums = vec![Element::ZERO; holders];
        let readings: Vec<(String, Vec<u8>)> =
            self.members.iter().map(|member| reading(member, &list, &dealer, slot, &mut sums)).collect();
        let end = list.params().slot_end(slot);
        self.tick(end);

        let accepted = Instant::now();
        for (topic, payload) in &readings[..readings.len() - 1] {
            self.cluster.handle(Input::Message { topic, payload }, end, &mut self.rng);
            while self.cluster.poll().is_some() {}
        }
        let accepted = accepted.elapsed() / u32::try_from(readings.len() - 1).expect("few");
        let bare = fastest(5, || {
            for (topic, payload) in &readings {
                let mut mac = <Hmac<Sha256>>::new_from_slice(&[7; 32]).expect("any length");
                mac.update(topic.as_bytes());
                mac.update(payload);
                black_box(mac.finalize());
            }
        }) / u32::try_from(readings.len()).expect("few");
        println!(
            "reading of {} bytes accepted in {accepted:?}, ratio to a bare HMAC {:.2}",
            readings[0].1.len(),
            ratio(accepted, bare)
        );

        let (topic, payload) = readings.last().expect("some");
        let request = self.receive(topic, payload, end).expect("everybody has reported");
        let payload = Sign1::decode(&request).expect("our own").payload().to_vec();
        let asked = RecoveryRequest::decode(&payload).expect("our own");
        let hash = Sha256::digest(&payload);
        let named = std::array::from_fn(|i| hash[i]);
        let mut released = None;
        for (holder, sum) in (0u16..).zip(&sums) {
            let index = list.holder_index(holder).expect("a holder");
            let member = &self.members[usize::from(index)];
            let topic = MeterChannel::Reveal.topic(&cluster_id(), &member.id);
            let answer = Answer { list: asked.list.prefix(), slot, attempt: 0, sum: *sum, request: named };
            let bytes = answer.seal(&member.keys.as_ref().expect("agreed").1, &topic);
            let begun = Instant::now();
            self.cluster.handle(Input::Message { topic: &topic, payload: &bytes }, end.plus_secs(1), &mut self.rng);
            let mut closed = None;
            while let Some(output) = self.cluster.poll() {
                if let Output::Closed(outcome) = output {
                    closed = Some(outcome);
                }
            }
            if let Some(outcome) = closed {
                let expected = READING * i64::try_from(self.members.len()).expect("few");
                assert_eq!(outcome.result.map(|sum| sum.watts()), Ok(expected), "the sum is right");
                released = Some((holder + 1, begun.elapsed()));
                break;
            }
        }
        let (answers, time) = released.expect("the sum is released");
        println!("released with answer {answers}, {time:?} after it arrived");
    }

    fn memory(&self) {
        println!("memory: {} bytes a member with its list, {} with an open slot", self.bytes / self.members.len(), {
            let committee = self.list.params().terms().scheme.committee().expect("a committee");
            let corrections = usize::try_from(8 * committee.spare()).expect("few");
            self.bytes / self.members.len() + corrections + 8
        });
    }

    fn tick(&mut self, now: Timestamp) {
        self.cluster.handle(Input::Tick, now, &mut self.rng);
        while self.cluster.poll().is_some() {}
    }

    /// Returns the request that a message leads to.
    fn receive(&mut self, topic: &str, payload: &[u8], now: Timestamp) -> Option<Arc<[u8]>> {
        self.cluster.handle(Input::Message { topic, payload }, now, &mut self.rng);
        let mut request = None;
        while let Some(output) = self.cluster.poll() {
            if let Output::Publish { channel: GatewayChannel::Recovery, payload } = output {
                request = Some(payload);
            }
        }
        request
    }
}

/// A member's reading; what it deals is added to the holders' sums.
fn reading(
    member: &Member,
    list: &MembershipList,
    dealer: &Dealer,
    slot: Slot,
    sums: &mut [Element],
) -> (String, Vec<u8>) {
    let seed = Sha256::digest(member.id.as_str());
    let deal = |holder: usize| {
        let block = Sha256::new().chain_update(seed).chain_update(holder.to_be_bytes()).finalize();
        Element::from_block(std::array::from_fn(|i| block[i]))
    };
    let dealt: Vec<Element> = (0..sums.len()).map(deal).collect();
    sums.iter_mut().zip(&dealt).for_each(|(sum, dealt)| *sum += *dealt);
    let dealing = dealer.deal(&dealt);
    let (stream, mac) = member.keys.as_ref().expect("agreed");
    let hidden = Element::from_signed(READING) + Element::from_block(derive::stream_block(stream, slot, 0));
    let corrections: Vec<u8> = dealing.corrections().iter().flat_map(|value| value.to_be_bytes()).collect();
    let reading = DealtReading {
        list: list.hash().prefix(),
        slot,
        attempt: 0,
        ciphertext: hidden + dealing.secret(),
        corrections: &corrections,
    };
    let topic = MeterChannel::Reading.topic(&cluster_id(), &member.id);
    let bytes = reading.seal(mac, &topic);
    (topic, bytes)
}

fn config(pki: &Pki, members: u16) -> ClusterConfig {
    let tenth = Share::new(1, 10).expect("a share");
    ClusterConfig {
        terms: Terms { attempts: 1, ..TERMS },
        scheme: SchemeChoice::Only(Kind::Committee),
        missing_share: tenth,
        malicious_share: tenth,
        roster: RosterRules { min_members: members, settle_seconds: 1, ..cluster_config(pki, members).roster },
        ..cluster_config(pki, members)
    }
}

/// The shortest of some runs: the one that was disturbed least.
fn fastest(runs: u32, mut run: impl FnMut()) -> Duration {
    let times = (0..runs).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    });
    times.min().unwrap_or_default()
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
