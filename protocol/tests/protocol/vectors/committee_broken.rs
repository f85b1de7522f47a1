//! `committee_broken.json`: messages and lists of the committee scheme that must be refused, each with one defect, and sound
//! ones beside them that must not.

use std::collections::BTreeMap;

use dream_protocol::cluster::{self, Rejection};
use dream_protocol::ids::ClusterId;
use dream_protocol::meter::{self, MeterConfig};
use dream_protocol::params::Terms;
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::committee::field::{Element, MODULUS};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{
    Answer, EnrolmentStatement, FullList, ListHashes, ListHeader, ListStatement, Message as _, RecoveryRequest,
    ShortList, Sign1,
};
use dream_testkit::node::{ClusterNode, MeterNode, Packet};
use sha2::{Digest, Sha256};

use super::broken::{Case, Reason, reason, refusal};
use super::committee::WATTS;
use super::homes::{ELLIPTIC, Homes, UNWILLING, drawn_holders};
use super::json::{Json, list, object};
use crate::support::messages::Seal;
use crate::support::pki::{Issued, Pki};
use crate::support::{START, at, cluster_id, enrol, envelope, raw, rng};

const SHORT: &str = "dream/v1/north/membership";
const FULL: &str = "dream/v1/north/membership/full";
const RECOVERY: &str = "dream/v1/north/recovery";
const RETRY: &str = "dream/v1/north/retry";

/// Whose reading does not arrive; a holder.
const MISSING: usize = 6;

type GatewayRecords = BTreeMap<cluster::Key, Vec<u8>>;
type MeterRecords = BTreeMap<meter::Key, Vec<u8>>;

/// Those who judge, in the states in which they do.
pub(crate) struct Bench {
    every: Homes,
    drawn: Homes,
    /// The gateway before the first reading, and after it has asked.
    collecting: GatewayRecords,
    asked: GatewayRecords,
    /// The request that was asked, and its answer by the first holder.
    request: Packet,
    answer: Packet,
    /// The first holder after it has answered, without the record of what.
    forgetful: MeterRecords,
    /// A drawn holder that has the short list alone.
    hasty: (usize, MeterRecords),
}

impl Bench {
    fn new() -> Self {
        let (mut every, mut drawn) = (Homes::every(), Homes::drawn());
        let end = every.slot_end();
        let readings = every.measure(&WATTS);
        let collecting = every.gateway.store.clone();
        for (_, packet) in readings.iter().enumerate().filter(|(index, _)| *index != MISSING) {
            every.gateway_receives(packet, end.plus_secs(31));
        }
        let request = every.gateway.tick_until(end.plus_secs(60)).pop().expect("a request is due");
        let asked = every.gateway.store.clone();
        let config = every.credentials.meter_config(0);
        let mut holder = node(config, every.meters[0].meter.store.clone());
        // A meter that starts again sends its reading again; what follows is the answer.
        holder.handle(meter::Input::Tick, end.plus_secs(61));
        let mut answers = holder.receive(&request, end.plus_secs(61)).into_iter();
        let answer = answers.find(|packet| packet.topic.contains("/reveal/")).expect("an answer");
        let mut forgetful = holder.store;
        forgetful.retain(|key, _| !matches!(key, meter::Key::Answer(_)));

        let first = drawn.holders()[0];
        let (slot, end) = (drawn.slot(), drawn.slot_end());
        let mut hasty = node(drawn.credentials.meter_config(first), drawn.meters[first].enrolled.clone());
        hasty.receive(&Packet::new(SHORT.to_owned(), drawn.list.shortened()), at(START + 6));
        hasty.handle(meter::Input::Measured { slot, watts: 230 }, end);
        hasty.handle(meter::Input::Tick, end.plus_secs(30));
        let hasty = (first, hasty.store);
        drawn.measure(&WATTS);
        Self { every, drawn, collecting, asked, request, answer, forgetful, hasty }
    }

    /// Returns why a case is refused, or `None` if it is not.
    pub(crate) fn judge(&self, case: &Case) -> Option<Reason> {
        let end = self.every.slot_end();
        let holder = &self.every.meters[0];
        let first = |records: &MeterRecords, at: Timestamp| self.by_a_meter(0, records, case, at);
        match case.judge {
            "dealt reading" | "early answer" => self.by_the_gateway(&self.collecting, case, end.plus_secs(31)),
            "answer" => self.by_the_gateway(&self.asked, case, end.plus_secs(62)),
            "recovery" => first(&holder.meter.store, end.plus_secs(61)),
            "recovery after the next slot" => first(&holder.meter.store, end.plus_secs(601)),
            "recovery without the record of an answer" => first(&self.forgetful, end.plus_secs(62)),
            "recovery by a member" => {
                self.by_a_meter(UNWILLING, &self.every.meters[UNWILLING].meter.store, case, end.plus_secs(61))
            }
            "recovery with a short list" => self.by_a_meter(self.hasty.0, &self.hasty.1, case, end.plus_secs(61)),
            "list" => first(&holder.enrolled, at(START + 6)),
            "short list" => self.by_a_meter(ELLIPTIC, &self.every.meters[ELLIPTIC].enrolled, case, at(START + 6)),
            other => panic!("{other}"),
        }
    }

    fn by_the_gateway(&self, records: &GatewayRecords, case: &Case, now: Timestamp) -> Option<Reason> {
        let config = self.every.gateway.config.clone();
        let mut gateway = ClusterNode::from_store(records.clone(), config, now, rng(5));
        gateway.handle(cluster::Input::Tick, now);
        for (topic, bytes) in &case.before {
            gateway.receive(&Packet::new(topic.clone(), bytes.as_slice()), now);
            assert_eq!(gateway.rejections, [], "{}: what comes before is accepted", case.name);
        }
        gateway.receive(&Packet::new(case.topic.clone(), case.bytes.as_slice()), now);
        assert!(gateway.rejections.len() <= 1, "{}", case.name);
        gateway.rejections.pop().map(|rejection: Rejection| reason(&rejection))
    }

    fn by_a_meter(&self, index: usize, records: &MeterRecords, case: &Case, now: Timestamp) -> Option<Reason> {
        let slot = (self.every.slot(), self.every.slot_end());
        refusal(self.every.credentials.meter_config(index), records, case, now, slot)
    }
}

fn node(config: MeterConfig, records: MeterRecords) -> MeterNode {
    MeterNode::from_store(records, config, Simulation::default(), rng(5)).unwrap()
}

pub(crate) fn json(bench: &Bench, cases: &[Case]) -> Json {
    object! {
        "comment": "protocol.md 4a, 7, 8 and 9: as broken.json, for the cluster of committee.json and its list `every` where nothing \
                    else is said. Readings are judged by the gateway 31 s after the list's first slot, early answers too; \
                    answers after it has sent the request of the first case of committee_slot.json. Requests are judged by home-00, \
                    a holder, 61 s after the slot, unless the judge says otherwise: a second after the next slot; home-00 after it \
                    has answered that request, without its record of the answer; home-03, which is no holder; the first \
                    holder of `drawn`, who has the short list alone. Lists are judged by home-00, and short lists by home-08, \
                    which is no holder; both hold none yet, six seconds after their enrolments.",
        "cases": list(cases, |case| case.json(bench.judge(case))),
    }
}

/// Makes every case.
struct Workshop<'a> {
    bench: &'a Bench,
    pki: Pki,
    cases: Vec<Case>,
}

pub(crate) fn cases() -> (Bench, Vec<Case>) {
    let bench = Bench::new();
    let mut workshop = Workshop { bench: &bench, pki: Pki::new(), cases: Vec::new() };
    workshop.readings();
    workshop.answers();
    workshop.requests();
    workshop.lists();
    workshop.short_lists();
    let cases = workshop.cases;
    (bench, cases)
}

impl Workshop<'_> {
    fn add(&mut self, judge: &'static str, name: &str, topic: &str, bytes: Vec<u8>) {
        self.cases.push(Case::new(judge, name, topic, bytes));
    }

    fn after(&mut self, judge: &'static str, name: &str, before: (&str, &[u8]), topic: &str, bytes: Vec<u8>) {
        self.cases.push(Case::new(judge, name, topic, bytes).after(before));
    }

    fn topic(&self, channel: MeterChannel, index: usize) -> String {
        channel.topic(&cluster_id(), &self.bench.every.meters[index].id)
    }

    fn readings(&mut self) {
        let homes = &self.bench.every;
        let topic = self.topic(MeterChannel::Reading, 0);
        let seal = Seal::Mac(*homes.gateway_keys(0).1.expose());
        let (hash, slot) = (homes.list.hash().prefix(), homes.slot().0);
        let width = usize::try_from(homes.committee().spare()).unwrap();
        let numbers =
            |values: &[u64]| raw::bytes(&values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<_>>());
        let fine = vec![7; width];
        let number = |value: u64| raw::bytes(&value.to_be_bytes());
        let good = [raw::uint(8), raw::bytes(&hash), raw::uint(slot), raw::uint(0), number(5), numbers(&fine)];
        let sealed = |payload: &[u8]| envelope::seal(&seal, payload, &topic);
        let with = |at: usize, item: Vec<u8>| {
            let mut items = good.to_vec();
            items[at] = item;
            sealed(&raw::array(&items))
        };
        let last = |value: u64| numbers(&[&fine[1..], &[value]].concat());
        let sound = sealed(&raw::array(&good));
        let mut flipped = sound.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let other = *homes.gateway_keys(1).1.expose();
        let mut other_list = hash;
        other_list[7] ^= 1;
        let pairwise = [raw::uint(1), raw::bytes(&hash), raw::uint(slot), raw::uint(0), number(5)];
        let cases = vec![
            ("sound", sound.clone()),
            ("largest numbers", with(5, numbers(&vec![MODULUS - 1; width]))),
            ("ct of p", with(4, number(MODULUS))),
            ("ct of 2^61", with(4, number(1 << 61))),
            ("ct of 2^64 - 1", with(4, number(u64::MAX))),
            ("ct of 7 bytes", with(4, raw::bytes(&[1; 7]))),
            ("ct as a number", with(4, raw::uint(5))),
            ("first correction of p", with(5, numbers(&[&[MODULUS], &fine[1..]].concat()))),
            ("last correction of p", with(5, last(MODULUS))),
            ("last correction of 2^64 - 1", with(5, last(u64::MAX))),
            ("corrections of half a number", with(5, raw::bytes(&vec![1; 8 * width - 4]))),
            ("a correction too few", with(5, numbers(&fine[1..]))),
            ("a correction too many", with(5, numbers(&[&fine[..], &[7]].concat()))),
            ("no corrections", with(5, numbers(&[]))),
            ("corrections as an array", with(5, raw::array(&vec![number(7); width]))),
            ("corrections as text", with(5, raw::text(&"7".repeat(8 * width)))),
            ("without the corrections", sealed(&raw::array(&good[..5]))),
            ("extra field", sealed(&raw::array(&[good.to_vec(), vec![raw::uint(0)]].concat()))),
            ("byte after the payload's end", sealed(&[raw::array(&good), vec![0]].concat())),
            ("of the pairwise scheme", sealed(&raw::array(&pairwise))),
            ("kind of an answer", with(0, raw::uint(9))),
            ("kind of a reading, with corrections", with(0, raw::uint(1))),
            ("another list", with(1, raw::bytes(&other_list))),
            ("attempt that was not opened", with(3, raw::uint(1))),
            ("slot that has not ended", with(2, raw::uint(slot + 1))),
            ("altered tag", flipped),
            ("another meter's key", envelope::seal(&Seal::Mac(other), &raw::array(&good), &topic)),
            (
                "made for the topic of answers",
                envelope::seal(&seal, &raw::array(&good), &self.topic(MeterChannel::Reveal, 0)),
            ),
        ];
        let different = with(5, last(8));
        let different_ct = with(4, number(6));
        for (name, bytes) in cases {
            self.add("dealt reading", name, &topic, bytes);
        }
        self.after("dealt reading", "the same again", (&topic, &sound), &topic, sound.clone());
        self.after("dealt reading", "another ct in the same attempt", (&topic, &sound), &topic, different_ct);
        self.after("dealt reading", "another correction in the same attempt", (&topic, &sound), &topic, different);
    }

    fn answers(&mut self) {
        let homes = &self.bench.every;
        let topic = self.topic(MeterChannel::Reveal, 0);
        let sound = self.bench.answer.payload.to_vec();
        let asked = Sign1::decode(&self.bench.request.payload).unwrap().payload().to_vec();
        let hash = Sha256::digest(&asked);
        let request: [u8; 8] = std::array::from_fn(|i| hash[i]);
        let good =
            Answer { list: homes.list.hash().prefix(), slot: homes.slot(), attempt: 0, sum: Element::ONE, request };
        let of = |index: usize, answer: &Answer| {
            answer.seal(&homes.gateway_keys(index).1, &self.topic(MeterChannel::Reveal, index))
        };
        let key = *homes.gateway_keys(0).1.expose();
        let items = [
            raw::uint(9),
            raw::bytes(&good.list),
            raw::uint(good.slot.0),
            raw::uint(0),
            raw::bytes(&[0, 0, 0, 0, 0, 0, 0, 1]),
            raw::bytes(&request),
        ];
        let sealed = |items: &[Vec<u8>]| envelope::seal(&Seal::Mac(key), &raw::array(items), &topic);
        let with = |at: usize, item: Vec<u8>| {
            let mut items = items.to_vec();
            items[at] = item;
            sealed(&items)
        };
        let number = |value: u64| raw::bytes(&value.to_be_bytes());
        let mut flipped = sound.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut other_list = good.list;
        other_list[0] ^= 1;
        let reading_topic = self.topic(MeterChannel::Reading, 0);
        let cases = vec![
            ("sound", sound.clone()),
            ("a wrong sum, which shows later", sealed(&items)),
            ("sum of p", with(4, number(MODULUS))),
            ("sum of 2^64 - 1", with(4, number(u64::MAX))),
            ("sum of 7 bytes", with(4, raw::bytes(&[1; 7]))),
            ("sum as a number", with(4, raw::uint(1))),
            ("request hash of 32 bytes", with(5, raw::bytes(&[1; 32]))),
            ("to another request", of(0, &Answer { request: [7; 8], ..good })),
            ("attempt that was not opened", of(0, &Answer { attempt: 1, ..good })),
            ("slot that has not ended", of(0, &Answer { slot: good.slot.plus(1), ..good })),
            ("another list", of(0, &Answer { list: other_list, ..good })),
            ("kind of a reveal", with(0, raw::uint(3))),
            ("kind of a reading", with(0, raw::uint(8))),
            ("extra field", sealed(&[items.to_vec(), vec![raw::uint(0)]].concat())),
            ("missing field", sealed(&items[..5])),
            ("altered tag", flipped),
            ("made for the topic of readings", good.seal(&homes.gateway_keys(0).1, &reading_topic)),
            (
                "another holder's key",
                envelope::seal(&Seal::Mac(*homes.gateway_keys(1).1.expose()), &good.payload(), &topic),
            ),
        ];
        let (of_missing, of_member) = (of(MISSING, &good), of(UNWILLING, &good));
        let (other, again) = (with(4, number(2)), sound.clone());
        for (name, bytes) in cases {
            self.add("answer", name, &topic, bytes);
        }
        let of = |index| self.topic(MeterChannel::Reveal, index);
        let (missing, member) = (of(MISSING), of(UNWILLING));
        self.add("answer", "of a holder whose reading is missing", &missing, of_missing);
        self.add("answer", "of a member that is no holder", &member, of_member);
        self.after("answer", "the same again", (&topic, &sound), &topic, again);
        self.after("answer", "another of the same holder", (&topic, &sound), &topic, other);
        self.add("early answer", "before anything was asked", &topic, sound);
    }

    fn requests(&mut self) {
        let homes = &self.bench.every;
        let gateway = &homes.credentials.gateway;
        let end = homes.slot_end().as_secs();
        let good = RecoveryRequest {
            list: *homes.list.hash(),
            slot: homes.slot(),
            attempt: 0,
            missing: vec![0x02, 0x00],
            deadline: end + 90,
        };
        let signed = |request: &RecoveryRequest| request.seal(&gateway.identity(), RECOVERY);
        let missing = |bits: &[u8]| signed(&RecoveryRequest { missing: bits.to_vec(), ..good.clone() });
        let mut flipped = signed(&good);
        *flipped.last_mut().unwrap() ^= 1;
        let mut other_list = good.list;
        other_list.0[31] ^= 1;
        let sound = signed(&good);
        let cases = vec![
            ("sound", sound.clone()),
            ("nobody missing", missing(&[0, 0])),
            ("this holder missing, which answers all the same", missing(&[0x80, 0])),
            ("two missing", missing(&[0x03, 0])),
            ("three missing where two may be", missing(&[0x03, 0x80])),
            ("bitmap of one byte for 14 members", missing(&[0x02])),
            ("spare bit set", missing(&[0x02, 0x02])),
            ("attempt that the list does not allow", signed(&RecoveryRequest { attempt: 1, ..good.clone() })),
            ("slot that has not ended", signed(&RecoveryRequest { slot: good.slot.plus(1), ..good.clone() })),
            ("slot that no list covers", signed(&RecoveryRequest { slot: Slot(good.slot.0 - 1), ..good.clone() })),
            ("another list", signed(&RecoveryRequest { list: other_list, ..good.clone() })),
            ("altered signature", flipped),
            ("signed by a member", good.seal(&homes.credentials.meters[1].1.identity(), RECOVERY)),
            ("signed for the topic of retries", good.seal(&gateway.identity(), RETRY)),
        ];
        for (name, bytes) in cases {
            self.add("recovery", &format!("request, {name}"), RECOVERY, bytes);
        }
        let first = (RECOVERY, sound.as_slice());
        self.after("recovery", "request, the same again", first, RECOVERY, sound.clone());
        self.after("recovery", "request, a second one for the attempt", first, RECOVERY, missing(&[0x01, 0]));
        let later = signed(&RecoveryRequest { deadline: good.deadline + 1, ..good.clone() });
        self.after("recovery", "request, a second one that differs in its deadline", first, RECOVERY, later);
        self.add("recovery after the next slot", "request, sound a slot ago", RECOVERY, sound.clone());
        let lost = "recovery without the record of an answer";
        self.add(lost, "request, the one that was answered", RECOVERY, self.bench.request.payload.to_vec());
        self.add(lost, "request, another one", RECOVERY, missing(&[0x01, 0]));
        self.add("recovery by a member", "request, sound for a holder", RECOVERY, sound);
        let drawn = RecoveryRequest { list: *self.bench.drawn.list.hash(), ..good.clone() };
        self.add("recovery with a short list", "request, sound for who has the whole list", RECOVERY, signed(&drawn));
    }

    fn lists(&mut self) {
        let (every, drawn) = (Forge::new(&self.bench.every), Forge::new(&self.bench.drawn));
        let replaced = |forge: &Forge<'_>, gone: usize, instead: usize| {
            forge.full(|s| {
                let holders =
                    s.holders.iter().map(|&index| if usize::from(index) == gone { narrow(instead) } else { index });
                s.holders = holders.collect();
                s.holders.sort_unstable();
            })
        };
        let undrawn = drawn.undrawn();
        let as_many = |k: &u64| drawn_holders(&drawn.statement, *k).len() == drawn.statement.holders.len();
        let other_k = (1..=13).rev().find(|k| !as_many(k)).expect("another k draws others");
        let sorted = |mut fingerprints: Vec<[u8; 32]>| {
            fingerprints.sort_unstable();
            fingerprints
        };
        let only_first = self.pki.authorities().meters().fingerprints();
        let cases = vec![
            ("sound, with every eligible member as a holder", every.full(|_| {})),
            ("sound, with drawn holders", drawn.full(|_| {})),
            (
                "a holder left out",
                every.full(|s| {
                    s.holders.remove(0);
                    committee(s).holders -= 1;
                }),
            ),
            (
                "a holder twice",
                every.full(|s| {
                    s.holders.insert(0, s.holders[0]);
                    committee(s).holders += 1;
                }),
            ),
            (
                "a holder that is not willing",
                every.full(|s| {
                    s.holders.push(narrow(UNWILLING));
                    s.holders.sort_unstable();
                    committee(s).holders += 1;
                }),
            ),
            ("a member that is not willing in place of a holder", replaced(&every, 4, UNWILLING)),
            (
                "a member without a draw value in place of a holder",
                replaced(&drawn, drawn.homes.holders()[0], ELLIPTIC),
            ),
            ("a member that is not drawn in place of a holder", replaced(&drawn, drawn.homes.holders()[0], undrawn)),
            ("a holder fewer in the header than there are", every.with_header(|h| scheme(h).holders -= 1)),
            ("another hash of the holders", every.with_header(|h| h.hashes.holders[0] ^= 1)),
            ("the hash of no holders", every.with_header(|h| h.hashes.holders = ListHashes::of_holders([]))),
            ("all eligible members as holders where they are drawn", drawn.with_header(|h| scheme(h).drawn = 0)),
            ("another draw than the header's", drawn.with_header(|h| scheme(h).drawn = other_k)),
            ("2q below K + f", every.with_header(|h| scheme(h).needed = 8)),
            ("q above K", every.with_header(|h| scheme(h).needed = 14)),
            ("k = N", drawn.with_header(|h| scheme(h).drawn = 14)),
            ("no holders", every.with_header(|h| (scheme(h).holders, scheme(h).needed) = (0, 0))),
            ("one of two authorities alone", every.full(|s| s.meter_authorities = only_first.clone())),
            (
                "an authority that is not configured",
                every.full(|s| {
                    s.meter_authorities = sorted([&s.meter_authorities[..], &[[7; 32]]].concat());
                }),
            ),
        ];
        let short = drawn.homes.list.shortened();
        let (whole, other) = (drawn.full(|_| {}), drawn.full(|s| s.to_slot = s.to_slot.plus(1)));
        let mut entries = drawn.entries();
        entries.swap(0, 1);
        let swapped = FullList { header: drawn.homes.list.header(), enrolments: entries }.encode();
        for (name, bytes) in cases {
            self.add("list", name, FULL, bytes);
        }
        self.after("list", "the whole of a list whose short form is held", (SHORT, &short), FULL, whole);
        self.after("list", "another one of the epoch of a short one", (SHORT, &short), FULL, other);
        self.after("list", "the whole with other entries than the short one's", (SHORT, &short), FULL, swapped);
    }

    fn short_lists(&mut self) {
        let (every, drawn) = (Forge::new(&self.bench.every), Forge::new(&self.bench.drawn));
        let homes = drawn.homes;
        let (entries, places) = (drawn.entries(), homes.holders());
        let holders: Vec<&[u8]> = places.iter().map(|&place| entries[place]).collect();
        let digests = digests(&entries);
        let header = homes.list.header();
        // With the header as it is.
        let plain =
            |holders: &[&[u8]], digests: &[u8]| ShortList { header, holders: holders.to_vec(), digests }.encode();
        let (end, first) = ((homes.list.to_slot().0 + 1) * 600, places[0]);
        let (id, issued) = &homes.credentials.meters[first];
        let instead = |bytes: &[u8]| {
            let mut entries = entries.clone();
            entries[first] = bytes;
            let holders: Vec<&[u8]> = places.iter().map(|&place| entries[place]).collect();
            drawn.short(&holders, &self::digests(&entries), |_| {})
        };
        let enrolled = |change: &dyn Fn(&mut EnrolmentStatement)| {
            instead(&enrol(id.as_str(), issued, |statement| {
                (statement.holds, statement.not_after) = (10_000, START + 35 * 86_400);
                change(statement);
            }))
        };
        let mut altered = entries[first].to_vec();
        *altered.last_mut().unwrap() ^= 1;
        let foreign = Pki::named("another authority").meter(id.as_str());
        let foreign = enrol(id.as_str(), &foreign, |statement| statement.holds = 10_000);
        let joined = |place: usize| {
            let mut places = [&places[..], &[place]].concat();
            places.sort_unstable();
            let holders: Vec<&[u8]> = places.iter().map(|&place| entries[place]).collect();
            drawn.short(&holders, &digests, |_| {})
        };
        let without = |place: usize| {
            let mut digests = digests.clone();
            digests[8 * place..][..8].fill(0);
            drawn.short(&holders, &digests, |_| {})
        };
        // A holder that is followed by a member that is none, in whose place its digest can be there twice.
        let doubled =
            (0..places.len()).find(|&at| ![ELLIPTIC, places[(at + 1) % places.len()]].contains(&(places[at] + 1)));
        let doubled = doubled.expect("somebody is no holder");
        let mut twice = holders.clone();
        twice.insert(doubled, holders[doubled]);
        let mut twice_among = digests.clone();
        let at = 8 * places[doubled];
        twice_among.copy_within(at..at + 8, at + 8);
        let mut swapped = holders.clone();
        swapped.swap(0, 1);
        let mut flipped = digests.clone();
        flipped[0] ^= 1;
        let whole = homes.list.bytes().to_vec();
        let sound = homes.list.shortened();
        let empty: &[u8] = &[];
        let every_header = every.homes.list.header();
        let of_every =
            |holders: Vec<&[u8]>, digests: &[u8]| ShortList { header: every_header, holders, digests }.encode();
        let signed_by = |issued: &Issued, topic: &str| {
            let header = drawn.statement.header(&issued.der);
            let header = envelope::seal(&Seal::Certified(issued.clone()), &header.payload(), topic);
            ShortList { header: &header, holders: holders.clone(), digests: &digests }.encode()
        };
        let gateway = &homes.credentials.gateway;
        let cases = vec![
            ("sound", sound.clone()),
            ("a header alone where every eligible member is a holder", every.homes.list.shortened()),
            ("holders where every member needs the whole list", of_every(holders.clone(), empty)),
            ("digests where every member needs the whole list", of_every(vec![], &digests)),
            ("a header alone where holders are drawn", plain(&[], empty)),
            ("no digests", plain(&holders, empty)),
            ("no holders", plain(&[], &digests)),
            ("a holder fewer than the header says", plain(&holders[1..], &digests)),
            ("another member in place of a holder", plain(&[&[entries[UNWILLING]], &holders[1..]].concat(), &digests)),
            ("a holder twice, as the header says", drawn.short(&twice, &digests, |_| {})),
            ("a holder twice, in the digests too", drawn.short(&twice, &twice_among, |_| {})),
            ("holders not sorted", drawn.short(&swapped, &digests, |_| {})),
            ("a holder that is not willing", joined(UNWILLING)),
            ("a holder that is not drawn", joined(drawn.undrawn())),
            ("a holder without a draw value", joined(ELLIPTIC)),
            ("another digest than the header's", plain(&holders, &flipped)),
            ("a digest too few", plain(&holders, &digests[8..])),
            ("a digest of seven bytes", plain(&holders, &digests[1..])),
            ("more members in the header than digests", drawn.short(&holders, &digests, |h| h.members += 1)),
            ("another hash of the digests", drawn.short(&holders, &digests, |h| h.hashes.digests[0] ^= 1)),
            ("another hash of the holders", drawn.short(&holders, &digests, |h| h.hashes.holders[0] ^= 1)),
            (
                "another hash of the entries, which nobody can check here",
                drawn.short(&holders, &digests, |h| h.hashes.entries[0] ^= 1),
            ),
            ("a holder that is not among the digests", without(first)),
            ("this meter not among the digests", without(ELLIPTIC)),
            ("another member not among the digests", without(UNWILLING)),
            ("a holder with another enrolment", enrolled(&|_| {})),
            ("a holder with an altered signature", instead(&altered)),
            ("a holder of another cluster", enrolled(&|s| s.cluster = ClusterId::new("south").unwrap())),
            ("a holder whose enrolment ends a second too early", enrolled(&|s| s.not_after = end - 1)),
            ("a holder with a key of small order", enrolled(&|s| s.agreement.0 = [0; 32])),
            ("a holder that is willing among 13", enrolled(&|s| s.holds = 13)),
            ("a holder of an unknown authority", instead(&foreign)),
            (
                "an authority that is not configured",
                drawn.short(&holders, &digests, |h| {
                    h.meter_authorities.push([0xff; 32]);
                }),
            ),
            (
                "2q = K + f",
                drawn.short(&holders, &digests, |h| {
                    let colluding = 2 * h.terms.max_malicious;
                    scheme(h).needed = usize::midpoint(holders.len(), usize::try_from(colluding).unwrap()) as u64;
                }),
            ),
            (
                "range that is not the policy's",
                drawn.short(&holders, &digests, |h| h.terms = Terms { hi: 9001, ..h.terms }),
            ),
            ("signed for the topic of whole lists", signed_by(gateway, FULL)),
            ("signed by a gateway that the policy does not name", signed_by(&self.pki.gateway("gw-2"), SHORT)),
            ("signed by a member", signed_by(&homes.credentials.meters[1].1, SHORT)),
            ("a whole list", whole),
            ("a fourth part", [&[0x84], &sound[1..], &[0]].concat()),
            ("a byte after its end", [&sound[..], &[0]].concat()),
            (
                "257 holders",
                raw::array(&[raw::bytes(header), raw::array(&vec![raw::bytes(&[]); 257]), raw::bytes(&digests)]),
            ),
            ("digests as an array", raw::array(&[raw::bytes(header), raw::array(&[]), raw::array(&[])])),
        ];
        let other = drawn.short(&holders, &digests, |h| h.to_slot = h.to_slot.plus(1));
        let later = drawn.short(&holders, &digests, |h| h.epoch += 60);
        for (name, bytes) in cases {
            self.add("short list", name, SHORT, bytes);
        }
        self.after("short list", "the same again", (SHORT, &sound), SHORT, sound.clone());
        self.after("short list", "another one of the same epoch", (SHORT, &sound), SHORT, other);
        self.after("short list", "a later one that says that there was none", (SHORT, &sound), SHORT, later);
    }
}

/// Changes lists, and signs them again.
struct Forge<'a> {
    homes: &'a Homes,
    statement: ListStatement<'a>,
}

impl<'a> Forge<'a> {
    fn new(homes: &'a Homes) -> Self {
        Self { homes, statement: ListStatement::decode(homes.list.bytes()).unwrap() }
    }

    fn entries(&self) -> Vec<&'a [u8]> {
        self.statement.enrolments.clone()
    }

    /// An eligible member that is not drawn.
    fn undrawn(&self) -> usize {
        let eligible = |index: &usize| ![UNWILLING, ELLIPTIC].contains(index);
        let holders = self.homes.holders();
        (0..self.statement.enrolments.len())
            .filter(eligible)
            .find(|index| !holders.contains(index))
            .expect("somebody is not drawn")
    }

    /// A whole list whose header follows from what it says.
    fn full(&self, change: impl FnOnce(&mut ListStatement<'a>)) -> Vec<u8> {
        let mut statement = self.statement.clone();
        change(&mut statement);
        let gateway = &self.homes.credentials.gateway;
        statement.seal((&gateway.identity(), &gateway.der), SHORT)
    }

    /// A whole list with another header.
    fn with_header(&self, change: impl FnOnce(&mut ListHeader)) -> Vec<u8> {
        let header = self.header(change);
        FullList { header: &header, enrolments: self.entries() }.encode()
    }

    /// A short list with these parts, whose header names them, and with whatever `change` does to it.
    fn short(&self, holders: &[&[u8]], digests: &[u8], change: impl FnOnce(&mut ListHeader)) -> Vec<u8> {
        let hashes: Vec<[u8; 32]> = holders.iter().map(|entry| Sha256::digest(entry).into()).collect();
        let header = self.header(|header| {
            let count = holders.len() as u64;
            let colluding = 2 * header.terms.max_malicious;
            *scheme(header) =
                Committee { needed: Committee::needed_of(count, colluding), holders: count, ..*scheme(header) };
            header.hashes.holders = ListHashes::of_holders(&hashes);
            header.hashes.digests = Sha256::digest(digests).into();
            change(header);
        });
        ShortList { header: &header, holders: holders.to_vec(), digests }.encode()
    }

    fn header(&self, change: impl FnOnce(&mut ListHeader)) -> Vec<u8> {
        let gateway = &self.homes.credentials.gateway;
        let mut header = self.statement.header(&gateway.der);
        change(&mut header);
        envelope::seal(&Seal::Certified(gateway.clone()), &header.payload(), SHORT)
    }
}

fn digests(entries: &[&[u8]]) -> Vec<u8> {
    entries.iter().flat_map(|entry| Sha256::digest(entry)[..8].to_vec()).collect()
}

fn scheme(header: &mut ListHeader) -> &mut Committee {
    of_terms(&mut header.terms)
}

fn committee<'a>(statement: &'a mut ListStatement<'_>) -> &'a mut Committee {
    of_terms(&mut statement.terms)
}

fn of_terms(terms: &mut Terms) -> &mut Committee {
    match &mut terms.scheme {
        Scheme::Committee(committee) => committee,
        Scheme::Pairwise { .. } => panic!("a list of a committee"),
    }
}

fn narrow(index: usize) -> u16 {
    u16::try_from(index).unwrap()
}
