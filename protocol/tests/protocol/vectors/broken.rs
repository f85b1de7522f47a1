//! `broken.json`: messages that must be refused, each with one defect, and sound ones beside them that must not.

use std::collections::BTreeMap;

use dream_protocol::cluster::{self, Rejection};
use dream_protocol::code::Coded;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementPublic, AgreementSecret, ListHash, MacKey};
use dream_protocol::meter::{self, MeterConfig, Refusal};
use dream_protocol::params::Terms;
use dream_protocol::scheme::Scheme;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{
    EnrolmentStatement, EvidenceStatement, FullList, ListHeader, ListStatement, Message as _, RecoveryRequest, Retry,
    ShortList, Sign1, Status,
};
use dream_testkit::node::{ClusterNode, MeterNode, Packet};
use ed25519_dalek::{Signer as _, SigningKey};
use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};
use sha2::{Digest, Sha256};

use super::cluster::WATTS;
use super::json::{Json, hex, list, object};
use super::keys;
use super::scene::Scene;
use crate::support::messages::Seal;
use crate::support::pki::{Issued, Pki};
use crate::support::{START, at, cluster_id, envelope, raw, rng};

const RECOVERY: &str = "dream/v1/north/recovery";
const RETRY: &str = "dream/v1/north/retry";

/// When lists are judged, in Unix seconds.
const JUDGED_AT: u64 = START + 6;

/// Something to be judged, by the first meter of the cluster or by its gateway.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) judge: &'static str,
    /// What comes before it and is accepted: topics and messages.
    pub(crate) before: Vec<(String, Vec<u8>)>,
    pub(crate) topic: String,
    pub(crate) bytes: Vec<u8>,
}

impl Case {
    pub(crate) fn new(judge: &'static str, name: &str, topic: &str, bytes: Vec<u8>) -> Self {
        Self { name: format!("{judge}: {name}"), judge, before: Vec::new(), topic: topic.to_owned(), bytes }
    }

    pub(crate) fn after(mut self, (topic, bytes): (&str, &[u8])) -> Self {
        self.before.push((topic.to_owned(), bytes.to_vec()));
        self
    }

    /// The case with the reason for which it is refused, if it is.
    pub(crate) fn json(&self, reason: Option<Reason>) -> Json {
        let (refusal, detail) = reason.map_or((Json::Null, None), |(refusal, detail)| (refusal.into(), detail));
        let before = |(topic, bytes): &(String, Vec<u8>)| object! { "topic": topic.as_str(), "bytes": hex(bytes) };
        let mut fields = vec![("name", Json::from(self.name.as_str())), ("judge", self.judge.into())];
        if !self.before.is_empty() {
            fields.push(("before", list(&self.before, before)));
        }
        if !self.topic.is_empty() {
            fields.push(("topic", self.topic.as_str().into()));
        }
        fields.extend([("bytes", hex(&self.bytes)), ("refusal", refusal)]);
        fields.extend(detail.map(|detail| ("detail", detail.into())));
        Json::Object(fields)
    }
}

/// Why a case is refused: the rule, and for what does not decode, what the decoder in particular said.
pub(crate) type Reason = (String, Option<String>);

/// Returns how an error of the crate reads in a vector.
pub(crate) fn reason(error: &dyn Coded) -> Reason {
    let path = error.code_path();
    match path.split_once("malformed/") {
        Some((outer, detail)) => (format!("{outer}malformed"), Some(detail.to_owned())),
        None => (path, None),
    }
}

pub(crate) fn json(scene: &Scene, cases: &[Case]) -> Json {
    object! {
        "comment": "protocol.md 3, 4, 7, 8 and 9: what must be refused, with the rule that refuses it (`malformed` for whatever \
                    does not decode; what exactly is wrong then is this implementation's `detail`). Cases without a refusal \
                    must be accepted. All concern the cluster of membership.json: readings, reveals, statuses, enrolments and \
                    certificates are judged by the gateway as those of its first meter; lists (of three) by the first meter, which \
                    holds none yet, six seconds after its enrolment; recovery messages by the same meter 61 s after the slot of \
                    slot.json, when its reading of attempt 0 is sent. `before` has been accepted already.",
        "cases": list(cases, |case| case.json(judge(scene, case))),
    }
}

/// Returns why a case is refused, or `None` if it is not.
pub(crate) fn judge(scene: &Scene, case: &Case) -> Option<Reason> {
    match case.judge {
        "reading" | "status" => by_the_gateway(scene, case).map(|rejection| reason(&rejection)),
        // Nothing was asked yet, which the gateway says of a reveal that is sound.
        "reveal" => match by_the_gateway(scene, case) {
            Some(Rejection::NotAsked) => None,
            rejection => Some(reason(&rejection.expect("not asked"))),
        },
        "enrolment" => {
            let rejection = by_a_new_gateway(scene, case)?;
            Some(if let Rejection::Enrolment(error) = rejection { reason(&error) } else { reason(&rejection) })
        }
        "certificate" => scene.credentials.authorities().verify_meter(&case.bytes).err().map(|error| reason(&error)),
        "list" => by_the_meter(scene, &scene.meters[0].enrolled, case, JUDGED_AT),
        "recovery" => by_the_meter(scene, &scene.meters[0].meter.store, case, scene.slot_end().as_secs() + 61),
        other => panic!("{other}"),
    }
}

/// Returns why the gateway, in the slot's reading window, does not use a message.
fn by_the_gateway(scene: &Scene, case: &Case) -> Option<Rejection> {
    let ClusterNode { store, config, .. } = &scene.gateway;
    let now = scene.slot_end().plus_secs(31);
    rejection(ClusterNode::from_store(store.clone(), config.clone(), now, rng(5)), case, now)
}

/// Returns why a gateway that knows nobody does not use a message.
fn by_a_new_gateway(scene: &Scene, case: &Case) -> Option<Rejection> {
    rejection(ClusterNode::new(scene.gateway.config.clone(), at(START), rng(5)), case, at(START))
}

fn rejection(mut gateway: ClusterNode, case: &Case, now: Timestamp) -> Option<Rejection> {
    gateway.handle(cluster::Input::Tick, now);
    gateway.receive(&Packet::new(case.topic.clone(), case.bytes.as_slice()), now);
    assert!(gateway.rejections.len() <= 1, "{}", case.name);
    gateway.rejections.pop()
}

/// Returns why the first meter, as these records left it, refuses a message.
fn by_the_meter(scene: &Scene, records: &BTreeMap<meter::Key, Vec<u8>>, case: &Case, seconds: u64) -> Option<Reason> {
    let slot = (scene.slot(), scene.slot_end());
    refusal(scene.credentials.meter_config(0), records, case, at(seconds), slot)
}

/// Returns why a meter, as these records left it, refuses a message. After a list that is refused it reports nothing of a slot.
pub(crate) fn refusal(
    config: MeterConfig,
    records: &BTreeMap<meter::Key, Vec<u8>>,
    case: &Case,
    now: Timestamp,
    (slot, slot_end): (Slot, Timestamp),
) -> Option<Reason> {
    let mut meter = MeterNode::from_store(records.clone(), config, Simulation::default(), rng(5)).unwrap();
    for (topic, bytes) in &case.before {
        meter.receive(&Packet::new(topic.clone(), bytes.as_slice()), now);
        assert_eq!(meter.refusals(), [], "{}: what comes before is accepted", case.name);
    }
    // What is due by then is sent before, so that what follows is an answer.
    meter.handle(meter::Input::Tick, now);
    let before = kept(&meter);
    let sent = meter.receive(&Packet::new(case.topic.clone(), case.bytes.as_slice()), now);
    let refusals = meter.refusals();
    let [refusal] = refusals.as_slice() else {
        assert_eq!(refusals, [], "{}", case.name);
        return None;
    };
    let statuses = sent.iter().map(|packet| {
        assert_eq!(packet.topic, meter.meter.topic(MeterChannel::Status), "{}: only a status is sent", case.name);
        Status::decode(Sign1::decode(&packet.payload).unwrap().payload()).unwrap().code
    });
    assert_eq!(statuses.collect::<Vec<_>>(), Vec::from_iter(refusal.status()), "{}", case.name);
    assert_eq!(kept(&meter), before, "{}: nothing but evidence is written", case.name);
    if case.judge.ends_with("list") && case.before.is_empty() && now < slot_end {
        let sent = meter.handle(meter::Input::Measured { slot, watts: 100 }, slot_end);
        assert_eq!(meter.refusals(), [Refusal::NoList], "{}: a refused list is in force for nothing", case.name);
        assert!(sent.iter().all(|packet| packet.about.is_none()), "{}: no reading follows", case.name);
    }
    Some(reason(refusal))
}

/// Returns what a refused message must not change.
fn kept(meter: &MeterNode) -> BTreeMap<meter::Key, Vec<u8>> {
    let mut store = meter.store.clone();
    store.retain(|key, _| !matches!(key, meter::Key::Evidence(_) | meter::Key::Account));
    store
}

/// Makes every case.
pub(crate) struct Workshop<'a> {
    scene: &'a Scene,
    pki: Pki,
    cases: Vec<Case>,
}

/// The cluster with the first attempt's readings sent, and every case.
pub(crate) fn cases() -> (Scene, Vec<Case>) {
    let mut scene = Scene::new();
    scene.measure(&WATTS);
    let mut workshop = Workshop { scene: &scene, pki: Pki::new(), cases: Vec::new() };
    workshop.readings();
    workshop.reveals();
    workshop.statuses();
    workshop.requests();
    workshop.retries();
    workshop.enrolments();
    workshop.certificates();
    workshop.lists();
    let cases = workshop.cases;
    (scene, cases)
}

impl Workshop<'_> {
    fn add(&mut self, judge: &'static str, name: &str, topic: &str, bytes: Vec<u8>) {
        self.cases.push(Case::new(judge, name, topic, bytes));
    }

    /// Adds a case with one message before it, on its own topic.
    fn after(&mut self, judge: &'static str, name: &str, before: (&str, &[u8]), topic: &str, bytes: Vec<u8>) {
        self.cases.push(Case::new(judge, name, topic, bytes).after(before));
    }

    fn topic(&self, channel: MeterChannel) -> String {
        channel.topic(&cluster_id(), &self.scene.meters[0].id)
    }

    /// Payload and envelope of readings: every defect that any message could have.
    fn readings(&mut self) {
        let topic = self.topic(MeterChannel::Reading);
        let key = *self.scene.gateway_keys(0).1.expose();
        let hash = self.scene.list.hash().prefix();
        let slot = self.scene.slot().0;
        let ct = [0x2a; 8];
        let good = [raw::uint(1), raw::bytes(&hash), raw::uint(slot), raw::uint(0), raw::bytes(&ct)];
        let payload = raw::array(&good);
        let sealed = |payload: &[u8]| envelope::seal(&Seal::Mac(key), payload, &topic);
        self.add("reading", "sound", &topic, sealed(&payload));

        let with = |at: usize, item: Vec<u8>| {
            let mut items = good.to_vec();
            items[at] = item;
            raw::array(&items)
        };
        let nine = [ct.as_slice(), &[0]].concat();
        let defects = [
            ("attempt not in its shortest form", with(3, vec![0x18, 0])),
            ("slot in eight bytes", with(2, raw::long_head(0, slot))),
            ("length of ct in eight bytes", with(4, [raw::long_head(2, 8), ct.to_vec()].concat())),
            ("kind not in its shortest form", with(0, vec![0x18, 1])),
            ("payload of indefinite length", raw::indefinite(4, &good)),
            ("ct of indefinite length", with(4, raw::indefinite(2, &[raw::bytes(&ct)]))),
            ("byte after the payload's end", [payload.as_slice(), &[0]].concat()),
            ("payload cut short", payload[..payload.len() - 1].to_vec()),
            ("empty payload", vec![]),
            ("payload that is a map", vec![0xa0]),
            ("list hash of 7 bytes", with(1, raw::bytes(&hash[..7]))),
            ("list hash of 32 bytes", with(1, raw::bytes(&self.scene.list.hash().0))),
            ("list hash as text", with(1, raw::text("12345678"))),
            ("ct of 7 bytes", with(4, raw::bytes(&ct[..7]))),
            ("ct of 9 bytes", with(4, raw::bytes(&nine))),
            ("ct as a number", with(4, raw::uint(u64::MAX))),
            ("slot as a float", with(2, vec![0xfb, 0x41, 0x46, 0xbc, 0x31, 0, 0, 0, 0])),
            ("negative slot", with(2, raw::negative(-1))),
            ("slot as a bignum", with(2, vec![0xc2, 0x41, 7])),
            ("tagged slot", with(2, [vec![0xc1], raw::uint(slot)].concat())),
            ("attempt 256", with(3, raw::uint(256))),
            ("kind of a reveal", with(0, raw::uint(3))),
            ("unknown kind", with(0, raw::uint(12))),
            ("extra field", raw::array(&[good.to_vec(), vec![raw::uint(0)]].concat())),
            ("missing field", raw::array(&good[..4])),
        ];
        for (name, payload) in defects {
            self.add("reading", name, &topic, sealed(&payload));
        }

        let tag = |protected: &[u8], topic: &str, key: &[u8; 32]| {
            let structure =
                [raw::text("MAC0"), raw::bytes(protected), raw::bytes(topic.as_bytes()), raw::bytes(&payload)];
            envelope::hmac_256_64(key, &raw::array(&structure))
        };
        let mac0 = |protected: &[u8], header: &[u8], payload: Vec<u8>, tag: &[u8]| {
            raw::array(&[raw::bytes(protected), header.to_vec(), payload, raw::bytes(tag)])
        };
        let alg = [0xa1, 1, 4];
        let good_tag = tag(&alg, &topic, &key);
        let whole = mac0(&alg, &[0xa0], raw::bytes(&payload), &good_tag);
        assert_eq!(whole, sealed(&payload));
        let parts = [raw::bytes(&alg), vec![0xa0], raw::bytes(&payload), raw::bytes(&good_tag)];
        let hmac_256 = [0xa1, 1, 5];
        let long_alg = [0xa1, 1, 0x18, 4];
        let with_kid = [0xa2, 1, 4, 4, 0x41, 7];
        let long_payload = [raw::long_head(2, payload.len() as u64), payload.clone()].concat();
        let kid = [0xa1, 4, 0x41, 7];
        let mut flipped = good_tag.clone();
        flipped[7] ^= 1;
        let elsewhere = MeterChannel::Reveal.topic(&cluster_id(), &self.scene.meters[0].id);
        let defects = [
            (
                "HMAC 256/256 as algorithm",
                mac0(&hmac_256, &[0xa0], raw::bytes(&payload), &tag(&hmac_256, &topic, &key)),
            ),
            (
                "algorithm not in its shortest form",
                mac0(&long_alg, &[0xa0], raw::bytes(&payload), &tag(&long_alg, &topic, &key)),
            ),
            (
                "key id in the protected header",
                mac0(&with_kid, &[0xa0], raw::bytes(&payload), &tag(&with_kid, &topic, &key)),
            ),
            ("empty protected header", mac0(&[], &[0xa0], raw::bytes(&payload), &tag(&[], &topic, &key))),
            ("algorithm in the unprotected header", mac0(&[], &alg, raw::bytes(&payload), &tag(&[], &topic, &key))),
            ("key id in the unprotected header", mac0(&alg, &kid, raw::bytes(&payload), &good_tag)),
            ("unprotected header of indefinite length", mac0(&alg, &[0xbf, 0xff], raw::bytes(&payload), &good_tag)),
            ("length of the payload in eight bytes", mac0(&alg, &[0xa0], long_payload, &good_tag)),
            ("detached payload", mac0(&alg, &[0xa0], vec![0xf6], &good_tag)),
            ("tag of 7 bytes", mac0(&alg, &[0xa0], raw::bytes(&payload), &good_tag[..7])),
            ("tag of 32 bytes", mac0(&alg, &[0xa0], raw::bytes(&payload), &[0; 32])),
            ("envelope of indefinite length", raw::indefinite(4, &parts)),
            ("COSE tag 17 before the envelope", [&[0xd1], whole.as_slice()].concat()),
            ("byte after the envelope's end", [whole.as_slice(), &[0]].concat()),
            ("envelope cut short", whole[..whole.len() - 1].to_vec()),
            ("empty message", vec![]),
            ("fifth part of the envelope", raw::array(&[parts.to_vec(), vec![vec![0xf6]]].concat())),
            ("altered tag", mac0(&alg, &[0xa0], raw::bytes(&payload), &flipped)),
            ("made for another topic", envelope::seal(&Seal::Mac(key), &payload, &elsewhere)),
            ("made for no topic", envelope::seal(&Seal::Mac(key), &payload, "")),
            (
                "another meter's key",
                envelope::seal(&Seal::Mac(*self.scene.gateway_keys(1).1.expose()), &payload, &topic),
            ),
            ("signed instead", envelope::seal(&Seal::Sign(self.scene.credentials.meters[0].1.seed), &payload, &topic)),
        ];
        for (name, bytes) in defects {
            self.add("reading", name, &topic, bytes);
        }
    }

    fn reveals(&mut self) {
        let topic = self.topic(MeterChannel::Reveal);
        let key: MacKey = self.scene.gateway_keys(0).1;
        let (hash, slot) = (self.scene.list.hash().prefix(), self.scene.slot().0);
        let good = [
            raw::uint(3),
            raw::bytes(&hash),
            raw::uint(slot),
            raw::uint(0),
            raw::bytes(&[0x2b; 8]),
            raw::bytes(&[0x2c; 8]),
        ];
        let cases = [
            ("sound", 0, raw::uint(3)),
            ("kind of a reading", 0, raw::uint(1)),
            ("list hash of 9 bytes", 1, raw::bytes(&[1; 9])),
            ("R of 7 bytes", 4, raw::bytes(&[1; 7])),
            ("request hash of 32 bytes", 5, raw::bytes(&[1; 32])),
            ("request hash of no bytes", 5, raw::bytes(&[])),
        ];
        for (name, at, item) in cases {
            let mut items = good.to_vec();
            items[at] = item;
            let bytes = envelope::seal(&Seal::Mac(*key.expose()), &raw::array(&items), &topic);
            self.add("reveal", name, &topic, bytes);
        }
    }

    fn statuses(&mut self) {
        let topic = self.topic(MeterChannel::Status);
        let seal = Seal::Sign(self.scene.credentials.meters[0].1.seed);
        let gateway = &self.scene.credentials.gateway;
        let asked = |signer: &Issued, cluster: &str, missing: u8| {
            let (list, missing) = (*self.scene.list.hash(), vec![missing]);
            let request = RecoveryRequest { list, slot: self.scene.slot(), attempt: 0, missing, deadline: START };
            request.seal(&signer.identity(), &format!("dream/v1/{cluster}/recovery"))
        };
        let evidence = |cluster: &str, first: Vec<u8>, second: Vec<u8>| {
            let (cluster, certificate) = (ClusterId::new(cluster).unwrap(), gateway.der.clone());
            raw::bytes(&EvidenceStatement { cluster, certificate, first, second }.encode())
        };
        let two = |cluster: &str| evidence(cluster, asked(gateway, cluster, 0x80), asked(gateway, cluster, 0x40));
        let same = evidence("north", asked(gateway, "north", 0x80), asked(gateway, "north", 0x80));
        let forged = {
            let other = self.pki.gateway("gw-2");
            evidence("north", asked(gateway, "north", 0x80), asked(&other, "north", 0x40))
        };
        let headers = {
            let mut other = ListStatement::decode(self.scene.list.bytes()).unwrap();
            other.to_slot = other.to_slot.plus(1);
            let signer = self.pki.gateway("gw-2");
            let list = other.seal((&signer.identity(), &signer.der), "dream/v1/north/membership");
            let (cluster, certificate) = (cluster_id(), Vec::new());
            let (first, second) = (self.scene.list.header().to_vec(), FullList::decode(&list).unwrap().header.to_vec());
            raw::bytes(&EvidenceStatement { cluster, certificate, first, second }.encode())
        };
        let lies = [
            ("two requests", two("north")),
            ("equivocation without evidence", raw::bytes(&[])),
            ("evidence that does not decode", raw::bytes(&[0x80])),
            ("evidence of one request twice", same),
            ("evidence of another cluster", two("south")),
            ("evidence that somebody else signed", forged),
            ("headers of two gateways", headers),
        ];
        let good = [
            raw::uint(6),
            raw::text("north"),
            raw::bytes(&[]),
            raw::uint(0),
            raw::uint(1),
            raw::uint(0),
            raw::uint(0),
            raw::bytes(&[]),
        ];
        let lies: Vec<_> = lies
            .into_iter()
            .map(|(name, evidence)| {
                let mut items = good.to_vec();
                (items[4], items[7]) = (raw::uint(8), evidence);
                (name, envelope::seal(&seal, &raw::array(&items), &topic))
            })
            .collect();
        let earlier = envelope::seal(&seal, &raw::array(&[&good[..6], &good[7..]].concat()), &topic);
        for (name, bytes) in lies.into_iter().chain([("of the earlier format", earlier)]) {
            self.add("status", name, &topic, bytes);
        }
        let cases = [
            ("sound", 0, raw::uint(6)),
            ("code 0", 4, raw::uint(0)),
            ("code 9", 4, raw::uint(9)),
            ("code 10", 4, raw::uint(10)),
            ("evidence where none belongs", 7, raw::bytes(&[0x80])),
            ("T of 10,000", 6, raw::uint(10_000)),
            ("T of 10,001", 6, raw::uint(10_001)),
            ("T as bytes", 6, raw::bytes(&[1])),
            ("epoch as bytes", 5, raw::bytes(&[1])),
            ("list hash of 7 bytes", 2, raw::bytes(&[1; 7])),
            ("list hash of 32 bytes", 2, raw::bytes(&[1; 32])),
            ("no list as null", 2, vec![0xf6]),
            ("cluster in capitals", 1, raw::text("North")),
            ("empty cluster", 1, raw::text("")),
            ("cluster of 65 characters", 1, raw::text(&"n".repeat(65))),
            ("reserved cluster", 1, raw::text("gateway")),
            ("cluster as bytes", 1, raw::bytes(b"north")),
            ("cluster that is not UTF-8", 1, vec![0x61, 0xff]),
        ];
        for (name, at, item) in cases {
            let mut items = good.to_vec();
            items[at] = item;
            let bytes = envelope::seal(&seal, &raw::array(&items), &topic);
            self.add("status", name, &topic, bytes);
        }
        let payload = raw::array(&good);
        let certified = Seal::Certified(self.scene.credentials.meters[0].1.clone());
        self.add("status", "certificate where none belongs", &topic, envelope::seal(&certified, &payload, &topic));
        let other = Seal::Sign(self.scene.credentials.meters[1].1.seed);
        self.add("status", "another meter's signature", &topic, envelope::seal(&other, &payload, &topic));
        let mut altered = envelope::seal(&seal, &payload, &topic);
        *altered.last_mut().unwrap() ^= 1;
        self.add("status", "altered signature", &topic, altered);
        let mut large = envelope::seal(&seal, &payload, &topic);
        let at = large.len() - 32;
        add_group_order(&mut large[at..]);
        self.add("status", "signature whose S is not below the group order", &topic, large);
    }

    fn requests(&mut self) {
        const TOPIC: &str = RECOVERY;
        let gateway = &self.scene.credentials.gateway;
        let good = RecoveryRequest {
            list: *self.scene.list.hash(),
            slot: self.scene.slot(),
            attempt: 0,
            missing: vec![0x10],
            deadline: self.scene.slot_end().as_secs() + 90,
        };
        let signed = |request: &RecoveryRequest| request.seal(&gateway.identity(), TOPIC);
        let mut flipped = signed(&good);
        *flipped.last_mut().unwrap() ^= 1;
        let mut other_list = good.list;
        other_list.0[31] ^= 1;
        let items = [
            raw::uint(2),
            raw::bytes(&good.list.0),
            raw::uint(good.slot.0),
            raw::uint(0),
            raw::bytes(&[0x10]),
            raw::uint(good.deadline),
        ];
        let with = |at: usize, item: Vec<u8>| {
            let mut items = items.to_vec();
            items[at] = item;
            envelope::seal(&Seal::Sign(gateway.seed), &raw::array(&items), TOPIC)
        };
        let missing = |bits: &[u8]| signed(&RecoveryRequest { missing: bits.to_vec(), ..good.clone() });
        let cases = vec![
            ("sound", signed(&good)),
            ("nobody missing", missing(&[0])),
            ("no bitmap", missing(&[])),
            ("bitmap of two bytes for five members", missing(&[0x10, 0])),
            ("spare bit set", missing(&[0x14])),
            ("two missing where one may be", missing(&[0x18])),
            ("this meter missing", missing(&[0x80])),
            ("list hash of 8 bytes", with(1, raw::bytes(&good.list.prefix()))),
            ("bitmap as a number", with(4, raw::uint(0x10))),
            ("unknown kind", with(0, raw::uint(12))),
            ("kind of a retry", with(0, raw::uint(7))),
            ("deadline as a float", with(5, vec![0xf9, 0, 0])),
            ("another list", signed(&RecoveryRequest { list: other_list, ..good.clone() })),
            ("slot that was not reported", signed(&RecoveryRequest { slot: good.slot.plus(1), ..good.clone() })),
            ("attempt that was not made", signed(&RecoveryRequest { attempt: 1, ..good.clone() })),
            ("altered signature", flipped),
            ("signed by a member", good.seal(&self.scene.credentials.meters[1].1.identity(), TOPIC)),
            ("signed by another gateway", good.seal(&self.pki.gateway("gw-2").identity(), TOPIC)),
            ("signed for the membership topic", good.seal(&gateway.identity(), "dream/v1/north/membership")),
            ("signed for another cluster", good.seal(&gateway.identity(), "dream/v1/south/recovery")),
            ("signed for the topic of retries", good.seal(&gateway.identity(), RETRY)),
            (
                "certificate where none belongs",
                envelope::seal(&Seal::Certified(gateway.clone()), &good.payload(), TOPIC),
            ),
            ("tagged slot inside", with(2, [vec![0xc0], raw::uint(good.slot.0)].concat())),
        ];
        for (name, bytes) in cases {
            self.add("recovery", &format!("request, {name}"), TOPIC, bytes);
        }
        let first = signed(&good);
        let answered = (TOPIC, first.as_slice());
        self.after("recovery", "request, the same again", answered, TOPIC, first.clone());
        let second = missing(&[0x08]);
        self.after("recovery", "request, another for an answered attempt", answered, TOPIC, second);
        let later = signed(&RecoveryRequest { deadline: good.deadline + 1, ..good.clone() });
        self.after("recovery", "request, another that differs in its deadline", answered, TOPIC, later);
        self.add("recovery", "request, on the topic of retries", RETRY, good.seal(&gateway.identity(), RETRY));
    }

    fn retries(&mut self) {
        const TOPIC: &str = RETRY;
        let gateway = &self.scene.credentials.gateway;
        let end = self.scene.slot_end().as_secs();
        let good = Retry { list: *self.scene.list.hash(), slot: self.scene.slot(), attempt: 1, deadline: end + 150 };
        let signed = |retry: Retry| retry.seal(&gateway.identity(), TOPIC);
        let request =
            RecoveryRequest { list: good.list, slot: good.slot, attempt: 0, missing: vec![0], deadline: end + 90 };
        let request = request.seal(&gateway.identity(), RECOVERY);
        let cases = [
            ("sound", signed(good)),
            ("to the first attempt", signed(Retry { attempt: 0, ..good })),
            ("attempt 255", signed(Retry { attempt: 255, ..good })),
            ("more attempts than the list allows", signed(Retry { attempt: 2, ..good })),
            ("deadline that has passed", signed(Retry { deadline: end + 60, ..good })),
            ("signed by a member", good.seal(&self.scene.credentials.meters[1].1.identity(), TOPIC)),
            ("signed for the topic of requests", good.seal(&gateway.identity(), RECOVERY)),
            ("slot that was not reported", signed(Retry { slot: good.slot.plus(1), ..good })),
        ];
        for (name, bytes) in cases {
            self.add("recovery", &format!("retry, {name}"), TOPIC, bytes);
        }
        let opened = signed(good);
        let opened = (TOPIC, opened.as_slice());
        self.after("recovery", "retry, the same again", opened, TOPIC, signed(good));
        let later = signed(Retry { deadline: good.deadline + 1, ..good });
        self.after("recovery", "retry, another for the same attempt", opened, TOPIC, later);
        self.after("recovery", "request, for an attempt that a retry closed", opened, RECOVERY, request);
        self.add("recovery", "retry, on the topic of requests", RECOVERY, good.seal(&gateway.identity(), RECOVERY));
    }

    /// An enrolment of `id` with its own X25519 key, and whatever `change` does to it.
    fn enrol(&self, id: &str, issued: &Issued, change: impl FnOnce(&mut EnrolmentStatement)) -> Vec<u8> {
        let mut statement = EnrolmentStatement {
            cluster: cluster_id(),
            certificate: Sha256::digest(&issued.der).into(),
            agreement: AgreementSecret::from_bytes(keys::bytes(&format!("agreement of {id}"))).public(),
            not_before: START,
            not_after: START + 35 * 86_400,
            seq: START,
            holds: 0,
        };
        change(&mut statement);
        let topic = MeterChannel::Enrol.topic(&statement.cluster, &MeterId::new(id).unwrap());
        statement.seal((&issued.identity(), &issued.der), &topic)
    }

    fn enrolments(&mut self) {
        let topic = self.topic(MeterChannel::Enrol);
        let (id, issued) = &self.scene.credentials.meters[0];
        let id = id.as_str();
        let of = |change: &dyn Fn(&mut EnrolmentStatement)| self.enrol(id, issued, |statement| change(statement));
        let p_minus_one = AgreementPublic(std::array::from_fn(|i| match i {
            0 => 0xec,
            31 => 0x7f,
            _ => 0xff,
        }));
        let good = of(&|_| {});
        let payload = Sign1::decode_certified(&good).unwrap().0.payload().to_vec();
        let statement = EnrolmentStatement::decode(&payload).unwrap();
        let items = [
            raw::uint(4),
            raw::text("north"),
            raw::bytes(&statement.certificate),
            raw::bytes(&statement.agreement.0),
            raw::uint(START),
            raw::uint(START + 35 * 86_400),
            raw::uint(START),
            raw::uint(0),
        ];
        let with = |at: usize, item: Vec<u8>| {
            let mut items = items.to_vec();
            items[at] = item;
            envelope::seal(&Seal::Certified(issued.clone()), &raw::array(&items), &topic)
        };
        let chain = |header: Vec<u8>| {
            let signature = good[good.len() - 64..].to_vec();
            raw::array(&[raw::bytes(&[0xa1, 1, 0x27]), header, raw::bytes(&payload), raw::bytes(&signature)])
        };
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let other_topic = MeterChannel::Enrol.topic(&cluster_id(), &self.scene.meters[1].id);
        let gateway = self.pki.issue_for(id, "gateway", issued.seed, |_| {});
        let foreign = Pki::named("another authority").meter(id);
        let certified = |urn: &str| {
            let name = SanType::URI(urn.try_into().unwrap());
            self.pki.issue_for(id, "meter", issued.seed, |params| params.subject_alt_names.push(name))
        };
        let der = raw::bytes(&issued.der);
        let es256 = raw::array(&[
            raw::bytes(&[0xa1, 1, 0x26]),
            [vec![0xa1, 0x18, 33], der.clone()].concat(),
            raw::bytes(&payload),
            raw::bytes(&good[good.len() - 64..]),
        ]);
        let cases = vec![
            ("sound", good.clone()),
            ("one second long", of(&|s| s.not_after = s.not_before + 1)),
            ("ends as it begins", of(&|s| s.not_after = s.not_before)),
            ("ends before it begins", of(&|s| s.not_after = s.not_before - 1)),
            ("a second longer than 35 days", of(&|s| s.not_after += 1)),
            ("for all time", of(&|s| (s.not_before, s.not_after) = (0, u64::MAX))),
            ("another cluster", of(&|s| s.cluster = ClusterId::new("south").unwrap())),
            ("another certificate's hash", of(&|s| s.certificate[0] ^= 1)),
            ("key of small order: 0", of(&|s| s.agreement = AgreementPublic([0; 32]))),
            ("key of small order: p - 1", of(&|s| s.agreement = p_minus_one)),
            (
                "key of small order: 0 with bit 255",
                of(&|s| s.agreement = AgreementPublic(std::array::from_fn(|i| if i == 31 { 0x80 } else { 0 }))),
            ),
            ("altered signature", flipped),
            (
                "signed for another meter's topic",
                envelope::seal(&Seal::Certified(issued.clone()), &payload, &other_topic),
            ),
            ("key and signature of small order", self.neutral_enrolment(id, &statement)),
            ("no certificate", chain(vec![0xa0])),
            ("certificates as an array", chain([vec![0xa1, 0x18, 33, 0x81], der.clone()].concat())),
            ("certificate under another header", chain([vec![0xa1, 0x18, 34], der.clone()].concat())),
            ("key id beside the certificate", chain([vec![0xa2, 4, 0x41, 7, 0x18, 33], der].concat())),
            ("ES256 as algorithm", es256),
            ("certificate hash of 31 bytes", with(2, raw::bytes(&statement.certificate[..31]))),
            ("key of 31 bytes", with(3, raw::bytes(&statement.agreement.0[..31]))),
            ("key of 33 bytes", with(3, raw::bytes(&[1; 33]))),
            ("cluster that is no id", with(1, raw::text("no/rth"))),
            ("negative beginning", with(4, raw::negative(-1))),
            ("holds shares of 10,000", of(&|s| s.holds = 10_000)),
            ("holds shares of more than a list can have", with(7, raw::uint(10_001))),
            (
                "of the earlier format",
                envelope::seal(&Seal::Certified(issued.clone()), &raw::array(&items[..7]), &topic),
            ),
            ("gateway's certificate", self.enrol(id, &gateway, |_| {})),
            ("certificate of an unknown authority", self.enrol(id, &foreign, |_| {})),
            (
                "certificate of the gateways' authority",
                self.enrol(id, &self.pki.swapped().issue_for(id, "meter", issued.seed, |_| {}), |_| {}),
            ),
            ("certificate for its cluster", self.enrol(id, &certified("urn:dream:cluster:north:5"), |_| {})),
            ("certificate for another cluster", self.enrol(id, &certified("urn:dream:cluster:south:5"), |_| {})),
        ];
        for (name, bytes) in cases {
            self.add("enrolment", name, &topic, bytes);
        }
        self.add("enrolment", "on another meter's topic", &other_topic, good);
    }

    /// An enrolment that verifies wherever keys of small order are let through: the neutral point signs anything with
    /// itself and zero.
    fn neutral_enrolment(&self, id: &str, good: &EnrolmentStatement) -> Vec<u8> {
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, id);
        params.subject_alt_names = vec![SanType::URI(format!("urn:dream:meter:{id}").try_into().unwrap())];
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2028, 1, 1);
        let der = self.pki.sign(&params, &Ed25519Point(neutral));
        let statement = EnrolmentStatement { certificate: Sha256::digest(&der).into(), ..good.clone() };
        raw::array(&[
            raw::bytes(&[0xa1, 1, 0x27]),
            [vec![0xa1, 0x18, 33], raw::bytes(&der)].concat(),
            raw::bytes(&statement.payload()),
            raw::bytes(&[neutral, [0; 32]].concat()),
        ])
    }

    fn certificates(&mut self) {
        let id = self.scene.meters[0].id.as_str().to_owned();
        let seed = self.scene.credentials.meters[0].1.seed;
        let of = |change: &dyn Fn(&mut CertificateParams)| {
            self.pki.issue_for(&id, "meter", seed, |params| change(params)).der
        };
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let common = |name: &str| {
            let mut names = DistinguishedName::new();
            names.push(DnType::CommonName, name);
            names
        };
        let urn = format!("urn:dream:meter:{id}");
        let extension = |critical: bool| {
            let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
            extension.set_criticality(critical);
            extension
        };
        let good = of(&|_| {});
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        // 30 82 xx xx: a sequence whose length takes two bytes; 03 41 00: a bit string without unused bits.
        let long = [&[0x30, 0x83, 0], &good[2..]].concat();
        let mut unused = good.clone();
        let at = good.len() - 65;
        unused[at] = 1;
        let p256 = KeyPair::try_from(hex::decode(P256).unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = common(&id);
        params.subject_alt_names = vec![uri(&urn)];
        let also = |name: &str| of(&|p| p.subject_alt_names.push(uri(name)));
        let swapped = self.pki.swapped();
        let draw = uri("urn:dream:draw:00112233445566778899aabbccddeeff");
        let drawn_by = |values: &[&str]| {
            let draws = values.iter().map(|value| uri(&format!("urn:dream:draw:{value}")));
            of(&|p| p.subject_alt_names = std::iter::once(uri(&urn)).chain(draws.clone()).collect())
        };
        let of_type = |value: DnValue| {
            of(&|p| {
                p.distinguished_name = DistinguishedName::new();
                p.distinguished_name.push(DnType::CommonName, value.clone());
            })
        };
        let raw_extension = |last_arc: u64, content: &[u8]| {
            of(&|p| {
                p.key_usages.clear();
                let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, last_arc], content.to_vec());
                extension.set_criticality(true);
                p.custom_extensions = vec![extension];
            })
        };
        let keyed = |first: u8, rest: u8, last: u8| {
            let point = std::array::from_fn(|i| match i {
                0 => first,
                31 => last,
                _ => rest,
            });
            self.pki.sign(&params, &Ed25519Point(point))
        };
        let cases = vec![
            ("sound", good.clone()),
            ("for a cluster", also("urn:dream:cluster:north")),
            ("for a cluster of some size", also("urn:dream:cluster:north:10000")),
            ("for a cluster that is no id", also("urn:dream:cluster:North")),
            ("for a cluster of the reserved name", also("urn:dream:cluster:gateway")),
            ("for a cluster of size 0", also("urn:dream:cluster:north:0")),
            ("for a cluster of 10,001", also("urn:dream:cluster:north:10001")),
            ("for a cluster whose size has a leading zero", also("urn:dream:cluster:north:0100")),
            ("for a cluster of no size", also("urn:dream:cluster:north:")),
            ("for a cluster with more after its size", also("urn:dream:cluster:north:100:1")),
            (
                "for two clusters",
                of(&|p| {
                    let names = ["urn:dream:cluster:north", "urn:dream:cluster:south"].map(uri);
                    p.subject_alt_names.extend(names);
                }),
            ),
            ("for a cluster, and no meter", of(&|p| p.subject_alt_names = vec![uri("urn:dream:cluster:north")])),
            (
                "gateway's for a cluster",
                self.pki
                    .issue_for(&id, "gateway", seed, |p| p.subject_alt_names.push(uri("urn:dream:cluster:north")))
                    .der,
            ),
            (
                "common name as PrintableString",
                of_type(DnValue::PrintableString(PrintableString::try_from(id.as_str()).unwrap())),
            ),
            ("common name as IA5String", of_type(DnValue::Ia5String(Ia5String::try_from(id.as_str()).unwrap()))),
            (
                "common name as TeletexString",
                of_type(DnValue::TeletexString(TeletexString::try_from(id.as_str()).unwrap())),
            ),
            ("common name as BMPString", of_type(DnValue::BmpString(BmpString::try_from(id.as_str()).unwrap()))),
            (
                "extension that says that it is not critical",
                with_explicit_default(&drawn_by(&[]), &self.scene.credentials.meter_authority.seed),
            ),
            ("basicConstraints of nobody's CA", raw_extension(19, &[0x30, 0])),
            ("basicConstraints with an explicit FALSE", raw_extension(19, &[0x30, 3, 1, 1, 0])),
            ("basicConstraints with a path length and no CA", raw_extension(19, &[0x30, 3, 2, 1, 0])),
            ("KeyUsage with a bit of its second byte", raw_extension(15, &[3, 3, 7, 0x88, 0x80])),
            ("KeyUsage with a trailing zero bit", raw_extension(15, &[3, 2, 0, 0x80])),
            ("KeyUsage with an unused bit set", raw_extension(15, &[3, 2, 7, 0x81])),
            ("key with a small y", keyed(3, 0, 0)),
            ("key of small order: 1", keyed(1, 0, 0)),
            ("key of small order: p - 1", keyed(0xec, 0xff, 0x7f)),
            ("key that is no point", keyed(2, 0, 0)),
            ("key that is not reduced: p + 3", keyed(0xf0, 0xff, 0x7f)),
            ("unknown extension that is not critical", of(&|p| p.custom_extensions = vec![extension(false)])),
            ("no KeyUsage", of(&|p| p.key_usages.clear())),
            ("other names beside its own", of(&|p| p.subject_alt_names.push(uri("https://example.org/")))),
            ("byte after its end", [good.as_slice(), &[0]].concat()),
            ("cut short", good[..good.len() - 1].to_vec()),
            ("length not in its shortest form", long),
            ("signature with an unused bit", unused),
            ("altered signature", flipped),
            ("unknown authority", Pki::named("another authority").meter(&id).der),
            ("key that is not Ed25519", self.pki.sign(&params, &p256)),
            ("CA", of(&|p| p.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)))),
            ("KeyUsage without digitalSignature", of(&|p| p.key_usages = vec![KeyUsagePurpose::KeyEncipherment])),
            ("unknown critical extension", of(&|p| p.custom_extensions = vec![extension(true)])),
            ("no common name", of(&|p| p.distinguished_name = DistinguishedName::new())),
            ("two common names", of(&|p| p.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "another"))),
            ("no dream name", of(&|p| p.subject_alt_names = vec![uri("https://example.org/")])),
            ("no names", of(&|p| p.subject_alt_names.clear())),
            ("two dream names", of(&|p| p.subject_alt_names.push(uri("urn:dream:meter:another")))),
            ("dream name of an unknown role", of(&|p| p.subject_alt_names = vec![uri("urn:dream:broker:cellar-2")])),
            ("dream name of another id", of(&|p| p.subject_alt_names = vec![uri("urn:dream:meter:cellar2")])),
            ("id in capitals", self.pki.issue_for("Cellar-2", "meter", seed, |_| {}).der),
            ("gateway's", self.pki.issue_for(&id, "gateway", seed, |_| {}).der),
            ("gateway's, of the meters' authority", swapped.issue_for(&id, "gateway", seed, |_| {}).der),
            ("meter's, of the gateways' authority", swapped.issue_for(&id, "meter", seed, |_| {}).der),
            (
                "gateway's with a draw value",
                swapped.issue_for(&id, "gateway", seed, |p| p.subject_alt_names.push(draw)).der,
            ),
            ("without a draw value", drawn_by(&[])),
            ("draw value of zeros", drawn_by(&["00000000000000000000000000000000"])),
            ("draw value twice", drawn_by(&["00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff"])),
            ("two draw values", drawn_by(&["00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"])),
            ("draw value of 15 bytes", drawn_by(&["00112233445566778899aabbccddee"])),
            ("draw value of 17 bytes", drawn_by(&["00112233445566778899aabbccddeeff00"])),
            ("draw value of 31 digits", drawn_by(&["00112233445566778899aabbccddeef"])),
            ("draw value in capitals", drawn_by(&["00112233445566778899AABBCCDDEEFF"])),
            ("draw value that is not hexadecimal", drawn_by(&["00112233445566778899aabbccddeefg"])),
            ("empty draw value", drawn_by(&[""])),
        ];
        for (name, der) in cases {
            self.add("certificate", name, "", der);
        }
    }

    fn lists(&mut self) {
        const TOPIC: &str = "dream/v1/north/membership";
        let scene = self.scene;
        let gateway = &scene.credentials.gateway;
        const FULL: &str = "dream/v1/north/membership/full";
        // Three members are enough here, and keep the file small.
        let all = ListStatement::decode(scene.list.bytes()).unwrap();
        let e = all.enrolments.clone();
        let good = ListStatement { terms: Terms { max_missing: 0, ..all.terms }, enrolments: e[..3].to_vec(), ..all };
        let signed = |statement: &ListStatement<'_>| statement.seal((&gateway.identity(), &gateway.der), TOPIC);
        let of = |change: &dyn Fn(&mut ListStatement<'_>)| {
            let mut statement = good.clone();
            change(&mut statement);
            signed(&statement)
        };
        let entries = |entries: &[&[u8]]| signed(&ListStatement { enrolments: entries.to_vec(), ..good.clone() });
        let terms = |change: &dyn Fn(&mut Terms)| {
            let mut statement = good.clone();
            change(&mut statement.terms);
            signed(&statement)
        };
        // The third entry is the one that is replaced.
        let (third, issued) = &scene.credentials.meters[2];
        let third = third.as_str();
        let instead = |bytes: &[u8]| entries(&[e[0], e[1], bytes]);
        let enrolled = |change: &dyn Fn(&mut EnrolmentStatement)| instead(&self.enrol(third, issued, |s| change(s)));
        let certified = |change: &dyn Fn(&mut CertificateParams)| {
            let issued = self.pki.issue_for(third, "meter", issued.seed, |params| change(params));
            instead(&self.enrol(third, &issued, |_| {}))
        };
        let twin = |bytes: [u8; 32]| {
            let mut twin = bytes;
            twin[31] |= 0x80;
            AgreementPublic(twin)
        };
        // Only u below 19 has a second representative below 2^255; 9 is the base point, so a colluder knows both.
        let nine = AgreementPublic(std::array::from_fn(|i| if i == 0 { 9 } else { 0 }));
        let p_plus_nine = AgreementPublic(std::array::from_fn(|i| match i {
            0 => 0xed + 9,
            31 => 0x7f,
            _ => 0xff,
        }));
        let (fourth, fourth_issued) = &scene.credentials.meters[3];
        let both = |one: AgreementPublic, other: AgreementPublic| {
            let third = self.enrol(third, issued, |s| s.agreement = one);
            let fourth = self.enrol(fourth.as_str(), fourth_issued, |s| s.agreement = other);
            entries(&[e[0], &third, &fourth])
        };
        let first_key = *scene.list.members()[0].agreement();
        let (first, first_issued) = &scene.credentials.meters[0];
        let other_enrolment = self.enrol(first.as_str(), first_issued, |s| s.seq += 1);
        let second = self.pki.issue_for(first.as_str(), "meter", [5; 32], |_| {});
        let second_certificate = self.enrol(first.as_str(), &second, |_| {});
        let resigned = |header: &ListHeader, change: &dyn Fn(&mut Vec<u8>)| {
            let mut envelope = envelope::seal(&Seal::Certified(gateway.clone()), &header.payload(), TOPIC);
            change(&mut envelope);
            FullList { header: &envelope, enrolments: good.enrolments.clone() }.encode()
        };
        let mut altered_entry = e[2].to_vec();
        *altered_entry.last_mut().unwrap() ^= 1;
        let same_key = self.pki.issue_for(third, "meter", scene.credentials.meters[1].1.seed, |_| {});
        let gateways_key = self.pki.issue_for(third, "meter", gateway.seed, |_| {});
        let flipped = resigned(&good.header(&gateway.der), &|envelope| *envelope.last_mut().unwrap() ^= 1);
        let expired = self.pki.issue_for("gw", "gateway", gateway.seed, |p| p.not_after = date_time_ymd(2026, 8, 28));
        let late = self.pki.issue_for("gw", "gateway", gateway.seed, |p| p.not_before = date_time_ymd(2026, 8, 30));
        let foreign = Pki::named("another authority").gateway("gw");
        let namesake = Pki::with_key("test authority", "another");
        let ends_meanwhile =
            self.pki.issue_for("gw", "gateway", gateway.seed, |p| p.not_after = date_time_ymd(2026, 8, 29));
        let other_gateway = self.pki.gateway("gw-2");
        let sorted = |mut fingerprints: [[u8; 32]; 2]| {
            fingerprints.sort_unstable();
            fingerprints.to_vec()
        };
        let by = |issued: &Issued| good.seal((&issued.identity(), &issued.der), TOPIC);
        let topic = |topic: &str| good.seal((&gateway.identity(), &gateway.der), topic);
        let body = |header: &[u8], entries: Vec<u8>| raw::array(&[raw::bytes(header), entries]);
        let all_entries: Vec<Vec<u8>> = e[..3].iter().map(|entry| raw::bytes(entry)).collect();
        let raw_items = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let header = good.header(&gateway.der);
            let (t, hashes) = (&good.terms, &header.hashes);
            let mut items = vec![
                raw::uint(10),
                raw::text("north"),
                raw::uint(good.epoch),
                raw::uint(good.previous_epoch),
                raw::bytes(&good.previous.0),
                raw::bytes(&header.certificate),
                raw::bytes(&good.gateway.0),
                raw::bytes(&good.meter_authorities.concat()),
                raw::bytes(&good.gateway_authority),
                raw::uint(good.from_slot.0),
                raw::uint(good.to_slot.0),
            ];
            items.extend([t.slot_seconds, t.reading_seconds, t.reveal_seconds, 0].map(raw::uint));
            items.extend([t.max_missing, t.max_malicious, t.scheme.partners(), 0, 0, 5000].map(raw::uint));
            items.extend(
                [t.epsilon_numerator, t.epsilon_denominator, 2, t.day_micro_rho, t.attempts, 3, 0].map(raw::uint),
            );
            items.extend([hashes.entries, hashes.digests, hashes.holders].map(|hash| raw::bytes(&hash)));
            change(&mut items);
            let header = envelope::seal(&Seal::Certified(gateway.clone()), &raw::array(&items), TOPIC);
            body(&header, raw::array(&all_entries))
        };
        assert_eq!(raw_items(&|_| {}), signed(&good));
        let header_with = |change: &dyn Fn(&mut ListHeader)| {
            let mut header = good.header(&gateway.der);
            change(&mut header);
            resigned(&header, &|_| {})
        };
        let good_header = FullList::decode(&signed(&good)).unwrap().header.to_vec();
        let end = (good.to_slot.0 + 1) * 600;
        let start = good.from_slot.0 * 600;
        let ahead = Slot((JUDGED_AT + 2 * 86_400) / 600);
        let cases = vec![
            ("sound", signed(&good)),
            ("previous list hash of 31 bytes", raw_items(&|items| items[4] = raw::bytes(&[0; 31]))),
            ("gateway's key of 33 bytes", raw_items(&|items| items[6] = raw::bytes(&[1; 33]))),
            ("no authority", raw_items(&|items| items[7] = raw::bytes(&[]))),
            ("authority of 31 bytes", raw_items(&|items| items[7] = raw::bytes(&[1; 31]))),
            (
                "authority of 33 bytes",
                raw_items(&|items| items[7] = raw::bytes(&[&good.meter_authorities.concat()[..], &[1]].concat())),
            ),
            (
                "an authority twice",
                raw_items(&|items| items[7] = raw::bytes(&good.meter_authorities.repeat(2).concat())),
            ),
            ("authority of the gateway of 31 bytes", raw_items(&|items| items[8] = raw::bytes(&[1; 31]))),
            ("no authority of the gateway", raw_items(&|items| items[8] = raw::bytes(&[]))),
            ("no account with a rho", raw_items(&|items| items[23] = raw::uint(0))),
            ("account 1, which was of energy", raw_items(&|items| items[23] = raw::uint(1))),
            ("account 3, which nobody keeps yet", raw_items(&|items| items[23] = raw::uint(3))),
            ("an account without a rho", raw_items(&|items| items[24] = raw::uint(0))),
            (
                "header of the earlier format",
                raw_items(&|items| {
                    items.remove(23);
                    items.remove(8);
                }),
            ),
            ("lo not in its shortest form", raw_items(&|items| items[19] = vec![0x38, 0x00])),
            ("lo of more than 64 bits", raw_items(&|items| items[19] = raw::long_head(1, u64::MAX))),
            ("hi of more than 63 bits", raw_items(&|items| items[20] = raw::uint(1 << 63))),
            ("negative M", raw_items(&|items| items[15] = raw::negative(-1))),
            ("entries of indefinite length", body(&good_header, raw::indefinite(4, &all_entries))),
            ("entry that is an array", body(&good_header, raw::array(&[&all_entries[..2], &[e[2].to_vec()]].concat()))),
            ("missing field", raw_items(&|items| drop(items.remove(18)))),
            ("extra field", raw_items(&|items| items.push(raw::uint(0)))),
            ("kind of an enrolment", raw_items(&|items| items[0] = raw::uint(4))),
            ("header alone", good_header.clone()),
            ("header without entries", raw::array(&[raw::bytes(&good_header)])),
            ("part after the entries", raw::array(&[raw::bytes(&good_header), raw::array(&all_entries), raw::uint(0)])),
            ("more members in the header than follow", header_with(&|h| h.members = 4)),
            ("fewer members in the header than follow", header_with(&|h| h.members = 2)),
            (
                "an entry that the header does not name",
                body(&good_header, raw::array(&[&all_entries[..2], &[raw::bytes(e[3])]].concat())),
            ),
            ("another hash of the entries", header_with(&|h| h.hashes.entries[0] ^= 1)),
            ("another hash of the digests", header_with(&|h| h.hashes.digests[0] ^= 1)),
            ("another hash of the holders", header_with(&|h| h.hashes.holders[0] ^= 1)),
            ("another certificate's hash in the header", header_with(&|h| h.certificate[0] ^= 1)),
            ("unknown scheme", raw_items(&|items| items[14] = raw::uint(2))),
            ("committee without holders", raw_items(&|items| items[14] = raw::uint(1))),
            ("quorum in the pairwise scheme", raw_items(&|items| items[18] = raw::uint(1))),
            ("holders in the pairwise scheme", raw_items(&|items| items[27] = raw::uint(1))),
            (
                "authority that is not configured",
                of(&|s| s.meter_authorities = sorted([s.meter_authorities[0], [7; 32]])),
            ),
            ("another authority than its certificates'", of(&|s| s.meter_authorities = vec![[7; 32]])),
            ("authority of the gateway that is not configured", of(&|s| s.gateway_authority = [7; 32])),
            ("the gateways' authority as one of meters", of(&|s| s.meter_authorities = vec![s.gateway_authority])),
            (
                "the gateways' authority as one of meters too",
                of(&|s| s.meter_authorities = sorted([s.meter_authorities[0], s.gateway_authority])),
            ),
            ("the meters' authority as that of the gateway", of(&|s| s.gateway_authority = s.meter_authorities[0])),
            (
                "authorities in each other's place",
                of(&|s| {
                    (s.meter_authorities, s.gateway_authority) = (vec![s.gateway_authority], s.meter_authorities[0])
                }),
            ),
            ("byte after its end", [signed(&good).as_slice(), &[0]].concat()),
            ("altered signature", flipped),
            ("signed by another key than the certificate's", by(&Issued { seed: [6; 32], ..gateway.clone() })),
            ("signed for another cluster's topic", topic("dream/v1/south/membership")),
            ("signed for another version's topic", topic("dream/v2/north/membership")),
            ("signed for no topic", topic("")),
            ("signed for the recovery topic", topic("dream/v1/north/recovery")),
            (
                "no certificate",
                body(
                    &envelope::seal(&Seal::Sign(gateway.seed), &good.header(&gateway.der).payload(), TOPIC),
                    raw::array(&all_entries),
                ),
            ),
            ("another cluster", of(&|s| s.cluster = ClusterId::new("south").unwrap())),
            ("signed by a member", by(&scene.credentials.meters[1].1)),
            ("signed by a meter of the gateway's name", by(&self.pki.meter("gw"))),
            ("gateway of an unknown authority", by(&foreign)),
            (
                "gateway of the meters' authority",
                by(&self.pki.swapped().issue_for("gw", "gateway", gateway.seed, |_| {})),
            ),
            ("gateway of an authority with the known one's name", by(&namesake.gateway("gw"))),
            ("gateway that the policy does not name", by(&other_gateway)),
            ("gateway's certificate ends before the list", by(&expired)),
            ("gateway's certificate ends before the list does", by(&ends_meanwhile)),
            ("gateway's certificate begins after the list", by(&late)),
            ("no members", entries(&[])),
            ("entries not sorted", entries(&[e[0], e[2], e[1]])),
            ("entry twice", entries(&[e[0], e[1], e[1]])),
            ("this meter twice", entries(&[e[0], e[0], e[1]])),
            ("this meter not listed", entries(&[e[1], e[2], e[3]])),
            ("this meter's id with another's certificate", entries(&[&second_certificate, e[1], e[2]])),
            ("this meter with a key that it does not hold", entries(&[&other_enrolment, e[1], e[2]])),
            ("entry with an altered signature", instead(&altered_entry)),
            (
                "entry signed by another key",
                instead(&self.enrol(third, &Issued { seed: [6; 32], ..issued.clone() }, |_| {})),
            ),
            ("entry signed for another meter's topic", instead(&self.enrol("m-0001", issued, |_| {}))),
            ("entry cut short", instead(&e[2][..e[2].len() - 1])),
            ("entry for another cluster", enrolled(&|s| s.cluster = ClusterId::new("south").unwrap())),
            ("entry that names another certificate", enrolled(&|s| s.certificate[31] ^= 1)),
            ("entry of more than 35 days", enrolled(&|s| s.not_after += 1)),
            ("entry of small order", enrolled(&|s| s.agreement = AgreementPublic([0; 32]))),
            ("entry that ends a second too early", enrolled(&|s| s.not_after = end - 1)),
            ("entry that ends with the list", enrolled(&|s| s.not_after = end)),
            (
                "entry that begins a second too late",
                enrolled(&|s| {
                    s.not_before = start + 1;
                }),
            ),
            ("entry that begins with the list", enrolled(&|s| s.not_before = start)),
            ("entry with another meter's X25519 key", enrolled(&|s| s.agreement = first_key)),
            ("entry with the twin of another's X25519 key", enrolled(&|s| s.agreement = twin(first_key.0))),
            ("entry with the gateway's X25519 key", enrolled(&|s| s.agreement = good.gateway)),
            ("entries with the keys 9 and p + 9", both(nine, p_plus_nine)),
            ("entries with the keys 9 and p + 9 with bit 255", both(nine, twin(p_plus_nine.0))),
            ("gateway's key that is a member's", of(&|s| s.gateway = first_key)),
            ("gateway's key that is the twin of a member's", of(&|s| s.gateway = twin(first_key.0))),
            ("entry with another meter's identity key", instead(&self.enrol(third, &same_key, |_| {}))),
            ("entry with the gateway's identity key", instead(&self.enrol(third, &gateways_key, |_| {}))),
            ("entry whose certificate ends before the list", certified(&|p| p.not_after = date_time_ymd(2026, 8, 28))),
            (
                "entry whose certificate ends before the list does",
                certified(&|p| p.not_after = date_time_ymd(2026, 8, 29)),
            ),
            (
                "entry whose certificate begins after the list",
                certified(&|p| p.not_before = date_time_ymd(2026, 8, 30)),
            ),
            (
                "entry of an unknown authority",
                instead(&self.enrol(third, &Pki::named("another authority").meter(third), |_| {})),
            ),
            (
                "entry of the gateways' authority",
                instead(&self.enrol(third, &self.pki.swapped().issue_for(third, "meter", issued.seed, |_| {}), |_| {})),
            ),
            (
                "entry of an authority with the known one's name",
                instead(&self.enrol(third, &namesake.meter(third), |_| {})),
            ),
            (
                "entry of a gateway",
                instead(&self.enrol(third, &self.pki.issue_for(third, "gateway", issued.seed, |_| {}), |_| {})),
            ),
            (
                "entry certified for a cluster of five",
                certified(&|p| p.subject_alt_names.push(SanType::URI("urn:dream:cluster:north:5".try_into().unwrap()))),
            ),
            (
                "entry certified for a cluster of four",
                certified(&|p| p.subject_alt_names.push(SanType::URI("urn:dream:cluster:north:4".try_into().unwrap()))),
            ),
            (
                "entry certified for another cluster",
                certified(&|p| p.subject_alt_names.push(SanType::URI("urn:dream:cluster:south".try_into().unwrap()))),
            ),
            ("gateway's key of small order", of(&|s| s.gateway = AgreementPublic([0; 32]))),
            ("ends before it begins", of(&|s| s.to_slot = Slot(s.from_slot.0 - 1))),
            ("one slot long", of(&|s| s.to_slot = s.from_slot)),
            ("slot 2^40", of(&|s| s.to_slot = Slot(1 << 40))),
            ("epoch 2^40", of(&|s| s.epoch = 1 << 40)),
            ("epoch of its first slot", of(&|s| s.epoch = start)),
            ("epoch after its first slot", of(&|s| s.epoch = start + 1)),
            ("epoch of the list before", of(&|s| s.previous_epoch = s.epoch)),
            ("no epoch before it, and a list", of(&|s| s.previous = ListHash([7; 32]))),
            ("begins two days ahead", of(&|s| (s.from_slot, s.to_slot) = (ahead, ahead))),
            ("begins more than two days ahead", of(&|s| (s.from_slot, s.to_slot) = (ahead.plus(1), ahead.plus(1)))),
            ("more than a fifth may be silent", terms(&|t| t.max_missing = 1)),
            ("fewer than a tenth may be malicious", terms(&|t| t.max_malicious = 0)),
            ("nobody honest", terms(&|t| t.max_malicious = 3)),
            ("range without zero", terms(&|t| t.lo = 1)),
            ("empty range", terms(&|t| t.hi = 0)),
            ("epsilon 0", terms(&|t| t.epsilon_numerator = 0)),
            ("epsilon's denominator above a million", terms(&|t| t.epsilon_denominator = 1_000_001)),
            ("rho of a day 2^40", terms(&|t| t.day_micro_rho = 1 << 40)),
            ("sums that could reach 2^40", terms(&|t| (t.hi, t.epsilon_denominator) = (6000, 1_000_000))),
            ("windows that do not fit the slot", terms(&|t| t.reading_seconds = 271)),
            ("too few partners", terms(&|t| t.scheme = Scheme::Pairwise { partners: 1 })),
            ("as many partners as other members", terms(&|t| t.scheme = Scheme::Pairwise { partners: 2 })),
            ("range that ends above the policy's", terms(&|t| t.hi = 15_001)),
            ("range that begins below the policy's", terms(&|t| t.lo = -10_001)),
            ("range as wide as the policy's", terms(&|t| (t.lo, t.hi) = (-10_000, 15_000))),
            ("less noise than the policy's", terms(&|t| t.hi = 1999)),
            ("as little noise as the policy's", terms(&|t| t.hi = 2000)),
            (
                "as little noise as the policy's, of a smaller range",
                terms(&|t| (t.hi, t.epsilon_numerator, t.epsilon_denominator) = (1900, 19, 20)),
            ),
            ("rho of a day above the policy's", terms(&|t| t.day_micro_rho = 72_000_001)),
            ("rho of a day below the policy's", terms(&|t| t.day_micro_rho = 71_999_999)),
            ("rho of a day with noise of less than a watt", terms(&|t| (t.hi, t.epsilon_numerator) = (7, 8))),
            ("no rho, and slots that cost more", terms(&|t| t.day_micro_rho = 0)),
            (
                "no rho, and slots that cost less",
                terms(&|t| (t.day_micro_rho, t.epsilon_numerator, t.epsilon_denominator) = (0, 2, 3)),
            ),
            (
                "epsilon above the policy's",
                terms(&|t| (t.epsilon_numerator, t.epsilon_denominator) = (1_000_000, 999_999)),
            ),
            ("epsilon twice the policy's", terms(&|t| t.epsilon_numerator = 2)),
            (
                "slots shorter than the policy's",
                of(&|s| {
                    (s.from_slot, s.to_slot) = (Slot(start / 59 + 1), Slot(start / 59 + 10));
                    (s.terms.slot_seconds, s.terms.reading_seconds, s.terms.reveal_seconds) = (59, 10, 10);
                }),
            ),
            ("more attempts than the policy's", terms(&|t| t.attempts = 3)),
            ("fewer honest shares than the policy's", terms(&|t| t.max_malicious = 2)),
            ("fewer members than the policy's", entries(&e[..2])),
        ];
        for (name, bytes) in cases {
            self.add("list", name, FULL, bytes);
        }
        self.add("list", "an erased one", FULL, Vec::new());
        self.add("list", "a whole one on the topic of short ones", TOPIC, signed(&good));
        let short = |holders: Vec<&[u8]>, digests: &[u8]| ShortList { header: &good_header, holders, digests }.encode();
        let digests: Vec<u8> = e[..3].iter().flat_map(|entry| Sha256::digest(entry)[..8].to_vec()).collect();
        self.add("list", "its header alone, on the topic of short ones", TOPIC, short(vec![], &[]));
        self.add("list", "short one with a holder, where all are needed", TOPIC, short(vec![e[0]], &[]));
        self.add("list", "short one with digests, where all are needed", TOPIC, short(vec![], &digests));
        self.add("list", "short one on the topic of whole ones", FULL, short(vec![], &[]));

        // This meter accepted the good list before.
        let accepted = signed(&good);
        let hash = ListHash(Sha256::digest(good.header(&gateway.der).payload()).into());
        let next = |change: &dyn Fn(&mut ListStatement<'_>)| {
            of(&|s| {
                (s.epoch, s.previous_epoch, s.previous) = (s.epoch + 60, s.epoch, hash);
                change(s);
            })
        };
        let cases = vec![
            ("the next list", next(&|_| {})),
            ("the next list after another one", next(&|s| s.previous.0[0] ^= 1)),
            ("the next list after one that its gateway does not know", next(&|s| s.previous = ListHash::NONE)),
            ("a list after others", next(&|s| (s.previous_epoch, s.previous.0) = (s.previous_epoch + 1, [7; 32]))),
            (
                "a list after others that its gateway does not know",
                next(&|s| (s.previous_epoch, s.previous) = (s.previous_epoch + 1, ListHash::NONE)),
            ),
            ("a list that says that there was none", next(&|s| (s.previous_epoch, s.previous) = (0, ListHash::NONE))),
            (
                "a list that skips this one",
                next(&|s| (s.previous_epoch, s.previous.0) = (s.previous_epoch - 1, [7; 32])),
            ),
            ("the same again", signed(&good)),
            ("another list of the same epoch", of(&|s| s.to_slot = s.to_slot.plus(1))),
            ("an epoch before", of(&|s| s.epoch -= 1)),
        ];
        // Five members, of whom three may be malicious: then two may be, but not one.
        let five = ListStatement {
            terms: Terms { max_malicious: 3, ..good.terms },
            enrolments: e[..5].to_vec(),
            ..good.clone()
        };
        let before = signed(&five);
        let then = |malicious: u64| {
            let previous = ListHash(Sha256::digest(five.header(&gateway.der).payload()).into());
            let (epoch, previous_epoch) = (five.epoch + 1, five.epoch);
            let terms = Terms { max_malicious: malicious, ..five.terms };
            signed(&ListStatement { epoch, previous_epoch, previous, terms, ..five.clone() })
        };
        let falls = [("T that falls by a step", then(2)), ("T that falls by more than a step", then(1))];
        for (name, bytes) in falls {
            self.after("list", name, (FULL, &before), FULL, bytes);
        }
        for (name, bytes) in cases {
            self.after("list", name, (FULL, &accepted), FULL, bytes);
        }
    }
}

/// A public key that nobody needs to hold.
struct Ed25519Point([u8; 32]);

impl PublicKeyData for Ed25519Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

/// Writes `critical FALSE`, the default, into the subjectAltName of a certificate without a draw value, and signs it again.
fn with_explicit_default(der: &[u8], authority: &[u8; 32]) -> Vec<u8> {
    // 30 82 xx xx, then what is signed: 30 81 xx. After it come the algorithm, 7 bytes, and the signature, 67.
    assert_eq!([&der[..2], &der[4..6]], [[0x30, 0x82], [0x30, 0x81]]);
    let mut signed = der[4..der.len() - 74].to_vec();
    let grow = |bytes: &mut Vec<u8>, at: usize| bytes[at] += 3;
    let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|found| found == part).unwrap();
    let name = find(&signed, &[0x06, 3, 0x55, 0x1d, 0x11]);
    let end = signed.len();
    let all = (0..end).find(|&at| signed[at] == 0xa3 && usize::from(signed[at + 1]) == end - at - 2).unwrap();
    // The extension, all of them, their tag, and the whole: each has a length of one byte, or its low one.
    for at in [name - 1, all + 3, all + 1, 2] {
        grow(&mut signed, at);
    }
    signed.splice(name + 5..name + 5, [0x01, 0x01, 0x00]);
    let signature = SigningKey::from_bytes(authority).sign(&signed).to_bytes();
    let mut whole = [&der[..4], &signed, &der[der.len() - 74..der.len() - 64], &signature].concat();
    grow(&mut whole, 3);
    whole
}

/// Adds the order of the group to a scalar: an Ed25519 signature that a lax verifier takes for the same.
fn add_group_order(scalar: &mut [u8]) {
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut carry = 0u16;
    for (byte, more) in scalar.iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(more) + carry;
        carry = sum >> 8;
        *byte = sum.to_be_bytes()[1];
    }
}

/// A P-256 key as PKCS#8.
const P256: &str = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b02010104201f401ea93a2db93fbb5ba61567f5d7d691\
                    0b1ac76a1ae9f55f809550fc60137aa144034200040e458dc594182a1531159e5f0f443de3aca7edd0c852f5bea74f69cae8ed8291\
                    5440415abe0b034791dd1991f6b018d59ade4b540ca4d44c38aa456e56b5dfe1";
