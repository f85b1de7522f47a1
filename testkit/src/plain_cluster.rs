//! A gateway's cluster with members that do as little as a gateway can notice: they add no noise and no masks, and deal the same
//! to every holder, so that days of large clusters take seconds. Some of them lie.
//!
//! What masks hide, and that they cancel, is not tested here; a gateway cannot tell them from masks that do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{ClusterConfig, Input, Notice};
use dream_protocol::derive;
use dream_protocol::enrolment::MAX_ENROLMENT_SECONDS;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, MacKey, StreamKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{
    Answer, DealtReading, MaskedReading, Message as _, RecoveryMessage, RecoveryRequest, Reveal, Sign1,
};
use sha2::{Digest, Sha256};

use crate::example::{START, at, cluster_id, enrol, meter_name};
use crate::node::{ClusterNode, Packet};
use crate::pki::{Issued, Pki};
use crate::rng;
use crate::simulation::Dice;

/// How a member behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    Honest,
    /// Says nothing at all.
    Off,
    /// Sends readings and no reveal.
    NeverReveals,
    /// Takes turns with the others of its kind: in each first attempt one of those who are asked does not reveal, the one that
    /// was silent least often.
    SilentInTurn,
    /// Reveals after the window has closed.
    RevealsLate,
    /// Reveals nonsense, or sends it as a reading to a committee.
    Nonsense,
    /// Does so in so many of a hundred attempts.
    NowAndThen(u64),
    /// Reveals nonsense only if this member is in the sum as well, so that it seems to be the one; in a committee it answers
    /// nonsense then.
    Frames(usize),
    /// Reveals nonsense only if nobody is left out.
    WhenUnwatched,
    /// Answers nonsense as a holder.
    WrongAnswers,
    /// Deals nonsense to so many holders of a committee, the last ones.
    WrongDealing(usize),
}

/// A closed slot, and who was asked to reveal in each of its attempts.
#[derive(Debug, Clone)]
pub struct Closed {
    pub outcome: SlotOutcome,
    /// S of the last attempt, by the members' numbers.
    pub missing: Vec<usize>,
    /// The members of its list.
    pub members: Vec<usize>,
}

/// A gateway and its members.
#[derive(Debug)]
pub struct PlainCluster {
    pub gateway: ClusterNode,
    pub conducts: Vec<Conduct>,
    pub notices: Vec<(Slot, Notice)>,
    /// In so many of a hundred attempts a member is not heard.
    pub faults: u64,
    secrets: Vec<AgreementSecret>,
    lists: BTreeMap<u64, Keys>,
    slot: Slot,
    /// How often each member that takes turns was silent.
    turns: Vec<u64>,
    dice: Dice,
    late: Vec<Packet>,
}

/// A list, and what each of its members shares with the gateway under it.
#[derive(Debug)]
struct Keys {
    list: Arc<MembershipList>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    number: usize,
    id: MeterId,
    stream: StreamKey,
    mac: MacKey,
}

impl PlainCluster {
    /// Enrols members that behave like this; the gateway's list starts two slots later.
    pub fn new(config: ClusterConfig, conducts: Vec<Conduct>, seed: u64) -> Self {
        let gateway = ClusterNode::new(config, at(START), rng(seed));
        let mut random = rng(!seed);
        let secrets = conducts.iter().map(|_| AgreementSecret::generate(&mut random)).collect();
        let (lists, slot, turns) = (BTreeMap::new(), Slot(START / 600), vec![0; conducts.len()]);
        let (dice, notices, late) = (Dice::new(seed), Vec::new(), Vec::new());
        let mut cluster = Self { gateway, conducts, notices, faults: 0, secrets, lists, slot, turns, dice, late };
        (0..cluster.conducts.len()).for_each(|number| cluster.enrol(number, at(START)));
        cluster
    }

    /// Delivers a member's enrolment, as a broker does again when the gateway subscribes.
    pub fn enrol(&mut self, number: usize, now: Timestamp) {
        let enrolment = enrol(&meter_name(number), &certificate(number), |statement| {
            (statement.agreement, statement.not_after) = (self.secrets[number].public(), START + MAX_ENROLMENT_SECONDS);
            statement.holds = 10_000;
        });
        let topic = MeterChannel::Enrol.topic(&cluster_id(), &id(number));
        self.gateway.receive(&Packet::new(topic, enrolment), now);
    }

    /// Lets time pass until there is a list, and returns it.
    pub fn first_list(&mut self) -> Arc<MembershipList> {
        loop {
            if let Some((_, keys)) = self.lists.first_key_value() {
                return keys.list.clone();
            }
            self.slot = self.slot.plus(1);
            let published = self.gateway.tick_until(at(self.slot.0 * 600));
            self.take_lists(&published);
        }
    }

    /// Lets slots pass until one closes.
    pub fn next_slot(&mut self) -> Closed {
        loop {
            let slot = self.slot;
            self.slot = slot.plus(1);
            let end = at((slot.0 + 1) * 600);
            let published = self.gateway.tick_until(end);
            self.take_lists(&published);
            let Some(list) = self.gateway.cluster.list_at(at(slot.0 * 600)) else { continue };
            let epoch = list.epoch();
            if slot < list.from_slot() {
                continue;
            }
            return self.run(slot, epoch, end);
        }
    }

    fn run(&mut self, slot: Slot, epoch: u64, end: Timestamp) -> Closed {
        let closed_before = self.gateway.outcomes.len();
        let mut now = end.plus_secs(1);
        let mut sending = self.readings(slot, 0, epoch);
        let mut asked = None;
        loop {
            let mut published = Vec::new();
            for packet in sending.drain(..) {
                published.extend(self.gateway.receive(&packet, now));
            }
            if published.is_empty() && self.gateway.outcomes.len() == closed_before {
                now = self.gateway.cluster.deadline().expect("an open slot has a deadline").max(now);
                published = self.gateway.handle(Input::Tick, now);
            }
            self.take_lists(&published);
            for packet in published.iter().filter(|packet| !packet.topic.contains("/membership")) {
                let message = RecoveryMessage::decode(Sign1::decode(&packet.payload).unwrap().payload()).unwrap();
                match message {
                    RecoveryMessage::Request(request) if asked.as_ref() != Some(&request) => {
                        sending.extend(self.answers(&request, epoch));
                        asked = Some(request);
                    }
                    RecoveryMessage::Retry(retry) => {
                        sending.append(&mut self.late);
                        sending.extend(self.readings(slot, retry.attempt, epoch));
                    }
                    RecoveryMessage::Request(_) => {}
                }
            }
            if self.gateway.outcomes.len() > closed_before {
                break;
            }
        }
        for packet in std::mem::take(&mut self.late) {
            self.gateway.receive(&packet, now);
        }
        self.notices.extend(std::mem::take(&mut self.gateway.notices).into_iter().map(|notice| (slot, notice)));
        self.closed(asked.as_ref(), epoch)
    }

    fn closed(&self, asked: Option<&RecoveryRequest>, epoch: u64) -> Closed {
        let keys = &self.lists[&epoch];
        let outcome = *self.gateway.outcomes.last().unwrap();
        let missing = asked.map(|request| missing_in(request, &keys.list));
        let members: Vec<usize> = keys.members.iter().map(|member| member.number).collect();
        let named = |set: MemberSet| set.iter().map(|index| members[usize::from(index)]).collect();
        Closed { outcome, missing: missing.map(named).unwrap_or_default(), members }
    }

    /// Stops the gateway and starts it again from its records, with this configuration.
    pub fn restart(&mut self, config: ClusterConfig) {
        self.gateway.config = config;
        let now = at(self.slot.0 * 600 + 300);
        let published = self.gateway.restart(now);
        self.take_lists(&published);
    }

    /// Returns what the members send in an attempt under the list of this epoch.
    pub fn readings(&mut self, slot: Slot, attempt: u8, epoch: u64) -> Vec<Packet> {
        let Keys { list, members } = &self.lists[&epoch];
        let mut readings = Vec::new();
        for member in members {
            let conduct = self.conducts[member.number];
            if conduct == Conduct::Off || self.dice.chance(self.faults, 100) {
                continue;
            }
            let topic = MeterChannel::Reading.topic(&cluster_id(), &member.id);
            let (watts, secret) = (watts(member.number, slot), secret(member.number, slot, attempt));
            let payload = match list.params().terms().scheme {
                Scheme::Pairwise { .. } => {
                    let value = watts.cast_unsigned().wrapping_add(secret);
                    let ciphertext = value.wrapping_add(derive::stream(&member.stream, slot, attempt));
                    MaskedReading { list: list.hash().prefix(), slot, attempt, ciphertext }.seal(&member.mac, &topic)
                }
                Scheme::Committee(committee) => {
                    let lies = conduct == Conduct::Nonsense
                        || matches!(conduct, Conduct::NowAndThen(percent) if self.dice.chance(percent, 100));
                    let nonsense = if lies { self.dice.between((1 << 50, 1 << 59)) } else { 0 };
                    let stream = Element::from_block(derive::stream_block(&member.stream, slot, attempt));
                    let ciphertext = Element::from_signed(watts) + dealt(secret) + dealt(nonsense) + stream;
                    // The polynomial is constant.
                    let mut corrections = vec![0; usize::try_from(committee.spare()).unwrap() * 8];
                    if let Conduct::WrongDealing(holders) = conduct {
                        let first = corrections.len().saturating_sub(8 * holders);
                        corrections[first..].chunks_mut(8).for_each(|correction| correction[7] = 1);
                    }
                    let corrections = corrections.as_slice();
                    let list = list.hash().prefix();
                    DealtReading { list, slot, attempt, ciphertext, corrections }.seal(&member.mac, &topic)
                }
            };
            readings.push(Packet::new(topic, payload));
        }
        readings
    }

    fn answers(&mut self, request: &RecoveryRequest, epoch: u64) -> Vec<Packet> {
        let Keys { list, members } = &self.lists[&epoch];
        if let Scheme::Pairwise { .. } = list.params().terms().scheme {
            return self.reveals(request, epoch);
        }
        let missing = missing_in(request, list);
        let left_out = |number: usize| list.index_of(&meter_name(number)).is_none_or(|index| missing.contains(index));
        let hash = Sha256::digest(request.payload());
        let secrets = members.iter().filter(|member| !left_out(member.number));
        let sum: Element = secrets.map(|member| dealt(secret(member.number, request.slot, request.attempt))).sum();
        let holders = list.holders().filter_map(|holder| members.iter().find(|member| member.id == *holder.id()));
        let mut answers = Vec::new();
        for member in holders.filter(|member| self.conducts[member.number] != Conduct::Off) {
            let conduct = self.conducts[member.number];
            let frames = matches!(conduct, Conduct::Frames(victim) if !left_out(victim));
            let lies = conduct == Conduct::WrongAnswers || frames;
            let nonsense = if lies { self.dice.between((1, 1 << 59)) } else { 0 };
            let topic = MeterChannel::Reveal.topic(&cluster_id(), &member.id);
            let answer = Answer {
                list: list.hash().prefix(),
                slot: request.slot,
                attempt: request.attempt,
                sum: sum + dealt(nonsense),
                request: std::array::from_fn(|i| hash[i]),
            };
            let payload = answer.seal(&member.mac, &topic);
            answers.push(Packet::new(topic, payload));
        }
        answers
    }

    fn reveals(&mut self, request: &RecoveryRequest, epoch: u64) -> Vec<Packet> {
        let Keys { list, members } = &self.lists[&epoch];
        let missing = missing_in(request, list);
        let left_out = |number: usize| list.index_of(&meter_name(number)).is_none_or(|index| missing.contains(index));
        let hash = Sha256::digest(request.payload());
        let in_turn = members.iter().map(|member| member.number).filter(|&number| {
            request.attempt == 0 && self.conducts[number] == Conduct::SilentInTurn && !left_out(number)
        });
        let silent = in_turn.min_by_key(|&number| self.turns[number]);
        silent.into_iter().for_each(|number| self.turns[number] += 1);
        let mut reveals = Vec::new();
        for member in members.iter().filter(|member| !left_out(member.number)) {
            let lies = match self.conducts[member.number] {
                Conduct::Off | Conduct::NeverReveals => continue,
                Conduct::SilentInTurn if silent == Some(member.number) => continue,
                Conduct::Honest | Conduct::RevealsLate | Conduct::SilentInTurn => false,
                Conduct::WrongAnswers | Conduct::WrongDealing(_) => false,
                Conduct::Nonsense => true,
                Conduct::NowAndThen(percent) => self.dice.chance(percent, 100),
                Conduct::Frames(victim) => !left_out(victim),
                Conduct::WhenUnwatched => missing.is_empty(),
            };
            let nonsense = if lies { self.dice.between((1 << 50, 1 << 63)) } else { 0 };
            let topic = MeterChannel::Reveal.topic(&cluster_id(), &member.id);
            let reveal = Reveal {
                list: list.hash().prefix(),
                slot: request.slot,
                attempt: request.attempt,
                revealed: secret(member.number, request.slot, request.attempt).wrapping_add(nonsense),
                request: std::array::from_fn(|i| hash[i]),
            };
            let payload = reveal.seal(&member.mac, &topic);
            let packet = Packet::new(topic, payload);
            let late = self.conducts[member.number] == Conduct::RevealsLate;
            if late { self.late.push(packet) } else { reveals.push(packet) }
        }
        reveals
    }

    fn take_lists(&mut self, published: &[Packet]) {
        for packet in published.iter().filter(|packet| packet.topic.ends_with("/membership/full")) {
            let ClusterConfig { cluster, authorities, .. } = &self.gateway.config;
            let list = MembershipList::verify(&packet.payload, cluster, authorities).unwrap();
            let member = |entry: &dream_protocol::enrolment::Enrolment| {
                let number: usize = entry.id().as_str().trim_start_matches("m-").parse().unwrap();
                let shared = self.secrets[number].agree(list.gateway_agreement()).unwrap();
                let (stream, mac) = derive::gateway_keys(list.hash(), &shared, list.cluster(), entry.id());
                Member { number, id: entry.id().clone(), stream, mac }
            };
            let members = list.members().iter().map(member).collect();
            self.lists.insert(list.epoch(), Keys { list, members });
        }
    }
}

impl Closed {
    /// Checks that a sum, if there is one, is that of the members that were asked; returns whether there is one.
    pub fn check(&self) -> bool {
        let in_sum = self.members.iter().filter(|member| !self.missing.contains(member));
        let truth: i64 = in_sum.map(|&member| watts(member, self.outcome.slot)).sum();
        let found = self.outcome.result.ok().map(|sum| sum.watts());
        assert!(found.is_none_or(|found| found == truth), "a wrong sum is released: {self:?}");
        found.is_some()
    }
}

/// What a member measures.
fn watts(member: usize, slot: Slot) -> i64 {
    i64::try_from((slot.0 * 31 + member as u64 * 977) % 9000).unwrap()
}

/// What a holder is dealt of a number.
fn dealt(secret: u64) -> Element {
    Element::from_block(u128::from(secret).to_be_bytes())
}

/// C of a member.
fn secret(member: usize, slot: Slot, attempt: u8) -> u64 {
    let seed = slot.0 << 24 | (member as u64) << 8 | u64::from(attempt);
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn id(number: usize) -> MeterId {
    MeterId::new(&meter_name(number)).unwrap()
}

fn missing_in(request: &RecoveryRequest, list: &MembershipList) -> MemberSet {
    MemberSet::from_bytes(list.params().members(), &request.missing).unwrap()
}

/// The certificate of a member: issuing all of them takes longer than a day of slots.
fn certificate(number: usize) -> Issued {
    static ISSUED: Mutex<Vec<Issued>> = Mutex::new(Vec::new());
    let mut issued = ISSUED.lock().unwrap();
    let known = issued.len();
    issued.extend((known..=number).map(|index| Pki::new().meter(&meter_name(index))));
    issued[number].clone()
}
