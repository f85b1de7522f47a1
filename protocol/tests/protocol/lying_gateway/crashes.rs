//! A meter that stops after any one of its outputs and goes on from its records.

use std::collections::{BTreeMap, BTreeSet};

use dream_protocol::keys::ListHash;
use dream_protocol::meter::{Input, Key, Notice, Refusal};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{MeterChannel, Topic};
use dream_protocol::wire::{Message as _, RecoveryRequest, Sign1};

use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, on, reading_in, reveal_in};
use crate::support::world::{MeterNode, Packet};
use crate::support::{START, at, now, rng};

const WATTS: [i64; 2] = [4000, 5000];

#[test]
fn a_crash_after_any_output_never_makes_a_meter_say_two_things() {
    let scene = Scene::new();
    let whole = scene.run(usize::MAX, true);
    assert_eq!(whole.check(&scene), 3, "undisturbed, all three attempts decode");
    assert!(whole.outputs > 25, "{}", whole.outputs);
    let mut decoded = 0;
    for cut in 0..whole.outputs {
        for redelivered in [true, false] {
            decoded += scene.run(cut, redelivered).check(&scene);
        }
    }
    assert!(decoded > whole.outputs * 3, "most crashes cost nothing: {decoded}");
}

#[test]
fn a_crash_while_enrolling_never_publishes_a_key_that_is_not_kept() {
    let meters = Liar::enrolled(1, |_| {}, NO_NOISE);
    for cut in 0..6 {
        let mut device = Device::new(&meters, BTreeMap::new(), cut);
        device.handle(&Event::Connected, at(START), true);
        device.handle(&Event::Connected, at(START + 100), true);
        let said = on(MeterChannel::Enrol, &device.published);
        let kept: Vec<Vec<u8>> = device.node.store.values().cloned().collect();
        let last = said.last().expect("it enrols in the end");
        assert!(kept.iter().any(|record| record.windows(last.payload.len()).any(|part| part == &*last.payload)));
    }
}

#[test]
fn a_list_recorded_before_a_crash_counts_as_accepted_after_it() {
    let mut meters = Liar::enrolled(5, |_| {}, NO_NOISE);
    let accepted = meters.draft();
    let other = Draft { to_slot: accepted.to_slot.plus(1), ..accepted.clone() };
    let account = meters.meters[0].store[&Key::Account].clone();
    assert_eq!(meters.tell(0, &accepted.sign(&meters.identity), at(LISTED)).1, []);
    // Of the two records that accepting wrote, only the first became durable.
    meters.meters[0].store.insert(Key::Account, account);
    meters.restart(0, |_| true);
    meters.refused(0, &other.sign(&meters.identity), at(LISTED + 1), &Refusal::TwoListsOfAnEpoch(1));
    assert_eq!(meters.tell(0, &accepted.sign(&meters.identity), at(LISTED + 2)), (vec![], vec![]));
}

#[test]
fn evidence_recorded_before_a_crash_is_not_overwritten_after_it() {
    let mut meters = Liar::new(5, 1, 1);
    let account = meters.meters[0].store[&Key::Account].clone();
    let lie = |epoch_two: u8| Draft { previous: ListHash([epoch_two; 32]), ..meters.next_draft() };
    let (first, second) = (lie(1).sign(&meters.identity), lie(2).sign(&meters.identity));
    meters.refused(0, &first, at(LISTED + 1), &Refusal::BrokenChain(2));
    meters.meters[0].store.insert(Key::Account, account);
    meters.restart(0, |_| true);
    meters.refused(0, &second, at(LISTED + 2), &Refusal::BrokenChain(2));
    let kept = meters.meters[0].store.keys().filter(|key| matches!(key, Key::Evidence(_))).count();
    assert_eq!(kept, 2);
}

/// Five meters, of which the first is about to crash, and everything that is said to it.
struct Scene {
    meters: Liar,
    store: BTreeMap<Key, Vec<u8>>,
    script: Vec<(Timestamp, Event)>,
    /// By the start of a request's hash: what the others' answers to it add up to, and their true sum.
    others: BTreeMap<[u8; 8], (u64, i64)>,
}

#[derive(Clone)]
enum Event {
    Connected,
    Measured(Slot, i64),
    Message(Packet),
    Tick,
}

impl Scene {
    fn new() -> Self {
        let mut meters = Liar::enrolled(5, |_| {}, NO_NOISE);
        let mut draft = meters.draft();
        draft.terms.max_missing = 1;
        let store = meters.meters[0].store.clone();
        meters.publish(&draft);
        let list = draft.sign(&meters.identity);
        let second = FIRST.plus(1);
        let (end, next_end) = (meters.slot_end(FIRST), meters.slot_end(second));
        let requests = [meters.request(FIRST, 0, &[]), meters.request(FIRST, 1, &[2]), meters.request(second, 0, &[])];
        let retried_at = end.plus_secs(100);
        let retry = meters.retry(FIRST, 1, retried_at);
        let script = vec![
            (at(LISTED), Event::Message(list)),
            (at(FIRST.0 * 600), Event::Tick),
            (end, Event::Measured(FIRST, WATTS[0])),
            (end.plus_secs(30), Event::Tick),
            (end.plus_secs(61), Event::Message(requests[0].clone())),
            (retried_at, Event::Message(retry.clone())),
            (retried_at.plus_secs(10), Event::Message(retry.clone())),
            (retried_at.plus_secs(30), Event::Tick),
            (retried_at.plus_secs(40), Event::Message(requests[1].clone())),
            (retried_at.plus_secs(50), Event::Message(meters.request(FIRST, 1, &[3]))),
            (next_end, Event::Measured(second, WATTS[1])),
            (next_end.plus_secs(30), Event::Tick),
            (next_end.plus_secs(61), Event::Message(requests[2].clone())),
            (next_end.plus_secs(62), Event::Message(meters.request(second, 0, &[1]))),
            (next_end.plus_secs(63), Event::Message(meters.next_draft().sign(&meters.identity))),
        ];
        let mut others = BTreeMap::new();
        for (request, skipped) in requests.iter().zip([None, Some(2), None]) {
            let mut sum = (0u64, 0);
            let mut hash = [0; 8];
            for meter in (1..5).filter(|meter| Some(*meter) != skipped) {
                let (reading, reveal) = answers(&mut meters, meter, request, &retry);
                hash = reveal_in(&reveal).request;
                sum.0 = sum.0.wrapping_add(meters.open(meter, &reading, Some(&reveal)));
                sum.1 += 100;
            }
            others.insert(hash, sum);
        }
        Self { meters, store, script, others }
    }

    fn run(&self, cut: usize, redelivered: bool) -> Device<'_> {
        let mut device = Device::new(&self.meters, self.store.clone(), cut);
        for (wall, event) in &self.script {
            device.handle(event, *wall, redelivered);
        }
        device
    }
}

/// What an undisturbed meter of 100 W says to a request, and the reading it belongs to.
fn answers(meters: &mut Liar, meter: usize, request: &Packet, retry: &Packet) -> (Packet, Packet) {
    let of = RecoveryRequest::decode(Sign1::decode(&request.payload).unwrap().payload()).unwrap();
    let end = meters.slot_end(of.slot);
    let (reading, asked_at) = if of.attempt == 0 {
        (meters.measure(meter, of.slot, 100), end.plus_secs(61))
    } else {
        meters.tell(meter, retry, end.plus_secs(100));
        let sent = meters.meters[meter].handle(Input::Tick, end.plus_secs(130));
        (on(MeterChannel::Reading, &sent)[0].clone(), end.plus_secs(140))
    };
    let (sent, _) = meters.tell(meter, request, asked_at);
    (reading, on(MeterChannel::Reveal, &sent)[0].clone())
}

/// A meter whose power fails once, after `left` outputs.
struct Device<'a> {
    meters: &'a Liar,
    node: MeterNode,
    left: Option<usize>,
    outputs: usize,
    published: Vec<Packet>,
    answered: BTreeSet<(Slot, u8)>,
}

impl<'a> Device<'a> {
    fn new(meters: &'a Liar, store: BTreeMap<Key, Vec<u8>>, cut: usize) -> Self {
        let node = MeterNode::from_store(store, meters.config(0), NO_NOISE, rng(77)).unwrap();
        Self { meters, node, left: Some(cut), outputs: 0, published: Vec::new(), answered: BTreeSet::new() }
    }

    fn handle(&mut self, event: &Event, wall: Timestamp, redelivered: bool) {
        let input = match event {
            Event::Connected => Input::Connected,
            Event::Measured(slot, watts) => Input::Measured { slot: *slot, watts: *watts },
            Event::Message(packet) => Input::Message { topic: &packet.topic, payload: &packet.payload },
            Event::Tick => Input::Tick,
        };
        self.node.meter.handle(input, now(wall), &mut self.node.rng);
        while let Some(output) = self.node.meter.poll() {
            if self.left == Some(0) {
                // Whatever was still to come is lost, and so is the state of the random source.
                self.left = None;
                self.node.rng = rng(78);
                self.node.restart(self.meters.config(0), NO_NOISE);
                self.handle(&Event::Connected, wall, false);
                if redelivered {
                    self.handle(event, wall, false);
                }
                return;
            }
            self.left = self.left.map(|left| left - 1);
            self.outputs += 1;
            self.published.extend(self.node.carry_out(output));
            for notice in self.node.notices.drain(..) {
                if let Notice::Answered { slot, attempt } = notice {
                    assert!(self.answered.insert((slot, attempt)), "{slot} {attempt} answered twice");
                }
            }
        }
    }

    /// Checks everything that was ever said; returns how many attempts decode.
    fn check(&self, scene: &Scene) -> usize {
        let mut readings: BTreeMap<(Slot, u8), Packet> = BTreeMap::new();
        let mut reveals: BTreeMap<(Slot, u8), Packet> = BTreeMap::new();
        for packet in &self.published {
            let Ok(Topic::Meter { channel, .. }) = Topic::parse(&packet.topic) else { panic!("{}", packet.topic) };
            let (said, of) = match channel {
                MeterChannel::Reading => {
                    let reading = reading_in(packet);
                    (&mut readings, (reading.slot, reading.attempt))
                }
                MeterChannel::Reveal => {
                    let reveal = reveal_in(packet);
                    (&mut reveals, (reveal.slot, reveal.attempt))
                }
                MeterChannel::Enrol | MeterChannel::Status => continue,
            };
            let first = said.entry(of).or_insert_with(|| packet.clone());
            assert_eq!(first, packet, "after {} outputs: two things said about {of:?}", self.outputs);
        }
        let spent = self.node.meter.spent(scene.meters.slot_end(FIRST));
        assert!(spent >= 1_000_000 * readings.len() as u64, "{} readings for {spent}", readings.len());
        assert!(spent <= 5_000_000, "a crash costs at most the attempts it interrupts");
        let mut decoded = 0;
        for (of, reveal) in &reveals {
            let Some((others, truth)) = scene.others.get(&reveal_in(reveal).request) else { continue };
            let Some(reading) = readings.get(of) else { continue };
            let sum = others.wrapping_add(scene.meters.open(0, reading, Some(reveal))).cast_signed();
            assert_eq!(sum, truth + WATTS[usize::from(of.0 != FIRST)], "after {} outputs", self.outputs);
            decoded += 1;
        }
        decoded
    }
}
