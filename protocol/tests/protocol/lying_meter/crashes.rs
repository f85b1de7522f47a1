//! A gateway that stops after any one of its outputs and goes on from its store, while the members carry on.

use std::collections::{BTreeMap, VecDeque};

use dream_protocol::aggregate::{Failure, SlotOutcome};
use dream_protocol::cluster::{Cluster, Forget, Input, Key, Output, Record, SlotEntry};
use dream_protocol::meter;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{ListStatement, RecoveryMessage, ShortList, Sign1};

use crate::support::liar::{NO_NOISE, on, reveal_in};
use crate::support::pki::Pki;
use crate::support::world::{ClusterNode, MeterNode, Packet};
use crate::support::{START, at, cluster_config, meter_config, meter_name, rng};

const MEMBERS: usize = 5;

#[test]
fn a_crash_after_any_output_never_makes_a_gateway_ask_twice_or_decode_wrong() {
    let whole = run(usize::MAX, 0);
    let decoded: Vec<_> = whole.outcomes().iter().map(|outcome| (outcome.result.is_ok(), outcome.attempts)).collect();
    assert_eq!(decoded, [(true, 2), (true, 1)], "undisturbed: a lost reveal, a retry, and a slot with one missing");
    assert!(whole.outputs > 60, "{}", whole.outputs);
    let mut decoded = 0;
    for cut in 0..whole.outputs {
        for away in [0, 20] {
            let gateway = run(cut, away);
            gateway.check(&format!("cut after {cut} outputs, {away} s away"));
            decoded += gateway.outcomes().iter().filter(|outcome| outcome.result.is_ok()).count();
        }
    }
    assert!(decoded > 3 * whole.outputs, "most crashes cost no slot: {decoded} of {}", 4 * whole.outputs);
}

#[test]
fn a_slot_whose_outcome_is_recorded_never_reopens() {
    // The crash that matters: the outcome is durable, the slot's entries are not erased yet, and a reveal is still due.
    let mut gateway = Gateway::new(usize::MAX, 0);
    gateway.keep_entries = true;
    // Another member in each attempt, since the first is left out of the second.
    let failed = simulate(gateway, &|meter, attempt| meter == 2 + usize::from(attempt));
    let outcomes = failed.outcomes();
    assert_eq!(outcomes[0].result, Err(Failure::RevealMissing));
    assert!(failed.node.store.keys().any(|key| matches!(key, Key::Slot(_, _, SlotEntry::Request))));
    let mut resumed = Cluster::resume(failed.node.config.clone(), failed.node.records(), failed.now).unwrap();
    resumed.handle(Input::Connected, failed.now, &mut rng(5));
    let mut forgotten = Vec::new();
    while let Some(output) = resumed.poll() {
        assert!(!matches!(output, Output::Closed(_)), "{output:?}");
        assert!(!matches!(output, Output::Publish { channel: GatewayChannel::Recovery, .. }), "asks again");
        if let Output::Forget(Forget::Slot(slot)) = output {
            forgotten.push(slot);
        }
    }
    assert_eq!(forgotten, outcomes.iter().map(|outcome| outcome.slot).collect::<Vec<_>>());
}

/// Two slots of a cluster in which the second member's first reveal is lost and the last member sleeps later on.
fn run(cut: usize, away: u64) -> Gateway {
    simulate(Gateway::new(cut, away), &|meter, attempt| meter == 2 && attempt == 0)
}

/// Carries messages at once, and lets everybody wake when they want to; `lost` drops reveals of the first slot.
fn simulate(mut gateway: Gateway, lost: &dyn Fn(usize, u8) -> bool) -> Gateway {
    let mut meters: Vec<MeterNode> = (0..MEMBERS)
        .map(|index| {
            let config = meter_config(&gateway.pki, &meter_name(index));
            MeterNode::new(config, NO_NOISE, rng(1000 + index as u64))
        })
        .collect();
    let mut network = VecDeque::from(gateway.handle(Input::Connected, at(START), &mut meters));
    for node in &mut meters {
        network.extend(node.handle(meter::Input::Connected, at(START)));
    }
    let mut now = at(START);
    let first = Timestamp::from_secs(START + 3 * 600);
    while now < first.plus_secs(1190) {
        while let Some(packet) = network.pop_front() {
            let dropped = on(MeterChannel::Reveal, std::slice::from_ref(&packet)).iter().any(|packet| {
                let meter = packet.topic.as_bytes()[packet.topic.len() - 1] - b'0';
                now < first.plus_secs(590) && lost(meter.into(), reveal_in(packet).attempt)
            });
            if !dropped {
                network.extend(gateway.receive(&packet, now, &mut meters));
            }
        }
        let wakes = meters.iter().filter_map(MeterNode::deadline).chain(gateway.node.cluster.deadline());
        now = wakes.filter(|wake| *wake > now).min().expect("the next slot is ahead");
        for (index, node) in meters.iter_mut().enumerate() {
            let asleep = index == MEMBERS - 1 && now > first;
            network.extend(node.advance(now, |_| (!asleep).then_some(100 << index)));
        }
        network.extend(gateway.tick(now, &mut meters));
    }
    gateway.now = now;
    gateway
}

/// A gateway whose power fails once, after `left` outputs, and comes back after `away` seconds.
struct Gateway {
    pki: Pki,
    node: ClusterNode,
    left: usize,
    away: u64,
    back_at: Option<Timestamp>,
    /// Whether a slot's entries stay when they should be erased.
    keep_entries: bool,
    outputs: usize,
    published: Vec<Packet>,
    now: Timestamp,
}

impl Gateway {
    fn new(cut: usize, away: u64) -> Self {
        let pki = Pki::new();
        let node = ClusterNode::from_store(BTreeMap::new(), cluster_config(&pki, 5), at(START), rng(1));
        Self {
            pki,
            node,
            left: cut,
            away,
            back_at: None,
            keep_entries: false,
            outputs: 0,
            published: Vec::new(),
            now: at(START),
        }
    }

    fn receive(&mut self, packet: &Packet, now: Timestamp, meters: &mut [MeterNode]) -> Vec<Packet> {
        self.handle(Input::Message { topic: &packet.topic, payload: &packet.payload }, now, meters)
    }

    fn tick(&mut self, now: Timestamp, meters: &mut [MeterNode]) -> Vec<Packet> {
        self.handle(Input::Tick, now, meters)
    }

    /// Handles an input, carries its outputs out until power fails, and returns what the members answer.
    fn handle(&mut self, input: Input<'_>, mut now: Timestamp, meters: &mut [MeterNode]) -> Vec<Packet> {
        // What arrives while the gateway is away waits at the broker: it is handled when it is back.
        if let Some(back) = self.back_at {
            now = now.max(back);
        }
        self.node.cluster.handle(input, now, &mut self.node.rng);
        let mut answers = Vec::new();
        while let Some(output) = self.node.cluster.poll() {
            if self.left == 0 {
                self.left = usize::MAX;
                now = now.plus_secs(self.away);
                self.back_at = Some(now);
                let (store, config) = (std::mem::take(&mut self.node.store), self.node.config.clone());
                let closed = std::mem::take(&mut self.node.outcomes);
                self.node = ClusterNode { outcomes: closed, ..ClusterNode::from_store(store, config, now, rng(2)) };
                answers.extend(self.handle(Input::Connected, now, meters));
                let retained =
                    self.published.iter().rfind(|packet| packet.topic.ends_with("/membership/full")).cloned();
                if let Some(packet) = retained {
                    answers.extend(self.receive(&packet, now, meters));
                }
                // Not acknowledged, so delivered again.
                answers.extend(self.handle(input, now, meters));
                return answers;
            }
            self.left -= 1;
            self.outputs += 1;
            answers.extend(self.carry_out(output, now, meters));
        }
        answers
    }

    fn carry_out(&mut self, output: Output, now: Timestamp, meters: &mut [MeterNode]) -> Vec<Packet> {
        if let Output::Persist(record @ Record::Outcome(_)) = &output {
            let before = self.node.store.get(&record.key());
            assert!(before.is_none_or(|before| *before == *record.encode()), "two outcomes of one slot");
        }
        if self.keep_entries && matches!(output, Output::Forget(_)) {
            return Vec::new();
        }
        let Some(packet) = self.node.carry_out(output) else { return Vec::new() };
        self.published.push(packet.clone());
        meters.iter_mut().flat_map(|node| node.receive(&packet, now)).collect()
    }

    fn outcomes(&self) -> Vec<SlotOutcome> {
        let outcome = |bytes: &Vec<u8>| match Record::decode(bytes).unwrap() {
            Record::Outcome(outcome) => Some(outcome),
            Record::Enrolment { .. }
            | Record::List(_)
            | Record::Retry { .. }
            | Record::Reading { .. }
            | Record::Dealt { .. }
            | Record::Answer { .. }
            | Record::Request { .. }
            | Record::Reveal { .. }
            | Record::Offenders(_)
            | Record::Retries(_)
            | Record::Evidence { .. } => None,
        };
        self.node.store.values().filter_map(outcome).collect()
    }

    /// One list an epoch, one request and one retry an attempt, one true outcome a slot.
    fn check(&self, when: &str) {
        let mut said: BTreeMap<String, &Packet> = BTreeMap::new();
        for packet in &self.published {
            let about = if packet.topic.ends_with("/membership/full") {
                format!("list {}", ListStatement::decode(&packet.payload).unwrap().epoch)
            } else if packet.topic.ends_with("/membership") {
                format!("short list {}", ShortList::header_of(&packet.payload).unwrap().1.epoch)
            } else {
                match RecoveryMessage::decode(Sign1::decode(&packet.payload).unwrap().payload()).unwrap() {
                    RecoveryMessage::Request(request) => format!("request {} {}", request.slot, request.attempt),
                    RecoveryMessage::Retry(retry) => format!("retry {} {}", retry.slot, retry.attempt),
                }
            };
            let first = *said.entry(about.clone()).or_insert(packet);
            assert_eq!(first, packet, "{when}: two versions of {about}");
        }
        let outcomes = self.outcomes();
        assert_eq!(outcomes.len(), 2, "{when}: {outcomes:?}");
        for outcome in &outcomes {
            match outcome.result {
                Ok(aggregate) => {
                    // Meter i measured 100 << i: the sum says whose readings are in it.
                    let members = aggregate.watts() / 100;
                    assert_eq!(aggregate.watts() % 100, 0, "{when}");
                    assert_eq!(members.count_ones(), u32::from(outcome.responders), "{when}: {outcome:?}");
                    assert!(outcome.responders >= 4 && members < 1 << MEMBERS, "{when}: {outcome:?}");
                }
                Err(failure) => {
                    assert!(matches!(failure, Failure::RevealMissing | Failure::Interrupted), "{when}: {failure}");
                }
            }
        }
        for closed in &self.node.outcomes {
            assert!(outcomes.contains(closed), "{when}: what was announced is what is stored");
        }
    }
}
