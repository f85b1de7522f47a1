//! Knows the right answers: watches everything that takes effect in a run, and fails it when a rule is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::aggregate::{Failure, SlotOutcome};
use dream_protocol::cluster::{self, ClusterConfig, Rejection};
use dream_protocol::code::Coded;
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter;
use dream_protocol::scheme::Scheme;
use dream_protocol::simulation::Hidden;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{Message as _, RecoveryMessage, RecoveryRequest, Sign1};

use super::fixture::{HIGHEST, MIDNIGHT, SLOT_SECONDS};
use super::scenario::{Scenario, Timer};
use super::tally::Tally;
use super::witness::{Attempt, Witness, answer_of, check_refusal, reading_of};
use crate::example::at;
use crate::node::{MeterNode, Packet};

/// A meter's reading of a slot: a random number, the same whenever it is asked for.
pub fn watts(slot: Slot, meter: usize) -> i64 {
    let mut x = slot.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (meter as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) % HIGHEST.cast_unsigned()).cast_signed()
}

/// The number in a meter's name.
pub fn index_of(name: &str) -> usize {
    name.trim_start_matches("m-").parse().unwrap()
}

#[derive(Debug)]
pub struct Referee {
    scenario: Scenario,
    skew: u64,
    clocks_jump: bool,
    /// Later slots are watched, but count for nothing.
    measured_until: Timestamp,
    lists: BTreeMap<u64, Arc<MembershipList>>,
    newest_published: Option<Timestamp>,
    /// The last epoch whose keys the gateway has lost.
    lost_lists: u64,
    meters: Vec<Witness>,
    /// How often a meter lost its store.
    lost_stores: BTreeMap<usize, u16>,
    /// Who is in the sum, by the gateway's own durable records.
    accepted: BTreeMap<Attempt, BTreeMap<u16, u64>>,
    revealed: BTreeMap<Attempt, BTreeMap<u16, u64>>,
    requests: BTreeMap<Attempt, Arc<[u8]>>,
    retries: BTreeMap<Attempt, Arc<[u8]>>,
    /// Reveals that reached the gateway, used or not.
    reached: BTreeSet<(Slot, u8, usize)>,
    outcomes: BTreeMap<Slot, SlotOutcome>,
    announced: BTreeSet<Slot>,
    /// When the gateway was not there, or could not be reached.
    away: Vec<(Timestamp, Timestamp)>,
    away_since: Option<Timestamp>,
    /// Whether the input at hand is forged: it may be refused for any reason.
    forgery: bool,
    tally: Tally,
}

impl Referee {
    pub fn new(scenario: &Scenario, config: &ClusterConfig, measured_until: Timestamp) -> Self {
        Self {
            scenario: scenario.clone(),
            skew: config.clock_skew_seconds,
            clocks_jump: scenario.plan.iter().any(|(_, timer)| matches!(timer, Timer::Step { .. })),
            measured_until,
            lists: BTreeMap::new(),
            newest_published: None,
            lost_lists: 0,
            meters: (0..scenario.all_meters).map(|_| Witness::default()).collect(),
            lost_stores: BTreeMap::new(),
            accepted: BTreeMap::new(),
            revealed: BTreeMap::new(),
            requests: BTreeMap::new(),
            retries: BTreeMap::new(),
            reached: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            announced: BTreeSet::new(),
            away: Vec::new(),
            away_since: None,
            forgery: false,
            tally: Tally { runs: 1, ..Tally::default() },
        }
    }

    /// Says whether the inputs that follow are forged.
    pub fn expect_forgery(&mut self, forgery: bool) {
        self.forgery = forgery;
    }

    pub fn gateway_is_away(&mut self, now: Timestamp) {
        self.away_since.get_or_insert(now);
    }

    pub fn gateway_is_back(&mut self, now: Timestamp) {
        self.away.extend(self.away_since.take().map(|since| (since, now)));
    }

    /// The keys of all lists so far are gone with it, and nothing of their slots can be opened any more.
    pub fn gateway_lost_its_store(&mut self) {
        self.lost_lists = self.lists.last_key_value().map_or(0, |(epoch, _)| *epoch);
    }

    pub fn meter_lost_its_store(&mut self, meter: usize) {
        *self.lost_stores.entry(meter).or_default() += 1;
        self.meters[meter].lost_its_store();
    }

    /// A message was handled by the gateway and everything it caused took effect.
    pub fn gateway_handled(&mut self, packet: &Packet) {
        if let Ok(Topic::Meter { channel: MeterChannel::Reveal, meter, .. }) = Topic::parse(&packet.topic) {
            let (slot, attempt) = answer_of(&packet.payload).unwrap();
            self.reached.insert((slot, attempt, index_of(meter)));
        }
    }

    pub fn list_published(&mut self, list: &Arc<MembershipList>, now: Timestamp) {
        if let Some((&epoch, before)) = self.lists.last_key_value() {
            assert_eq!((list.previous_epoch(), list.previous()), (epoch, before.hash()), "lists form a chain");
            let steady = self.scenario.gateway_faults.crash == 0 && self.away.is_empty();
            let length = before.to_slot().0 + 1 - before.from_slot().0;
            let renewal = before.to_slot().0 + 1 - (length / 4).max(3);
            let ran_out = now >= at(renewal * SLOT_SECONDS);
            let since = now.millis_since(self.newest_published.unwrap_or_else(|| at(0)));
            let waited = since >= self.scenario.roster.min_interval_seconds * 1000;
            assert!(!steady || ran_out || waited, "two lists within {since} ms");
        }
        assert!(
            list.params().slot_start(list.from_slot()).as_secs() > now.as_secs() + SLOT_SECONDS
                || !self.away.is_empty(),
            "a list starts at least two slots ahead"
        );
        self.tally.lists += 1;
        self.newest_published = Some(now);
        self.lists.insert(list.epoch(), list.clone());
    }

    /// What a meter did of all that it wanted to do: the first `kept` outputs.
    pub fn meter_outputs(&mut self, meter: usize, outputs: &[meter::Output], kept: usize, hidden: Option<Hidden>) {
        let terms = &self.scenario.terms;
        let reported = hidden.map(|hidden| (watts(hidden.slot, meter), hidden.watts));
        self.tally.in_part += u64::from(self.meters[meter].watch(outputs, kept, reported, terms));
        for output in &outputs[..kept] {
            if let meter::Output::Notice(meter::Notice::Refused(refusal)) = output {
                if !self.forgery {
                    check_refusal(refusal, self.clocks_jump);
                }
                *self.tally.refusals.entry(refusal.code()).or_default() += 1;
            }
        }
    }

    /// Something of the gateway's took effect.
    pub fn gateway_output(&mut self, output: &cluster::Output, input: cluster::Input<'_>, now: Timestamp) {
        match output {
            cluster::Output::Persist(record) => self.gateway_persisted(record, now),
            cluster::Output::Publish { channel: GatewayChannel::Recovery | GatewayChannel::Retry, payload } => {
                let message = RecoveryMessage::decode(Sign1::decode(payload).unwrap().payload()).unwrap();
                let durable = match &message {
                    RecoveryMessage::Request(request) => self.requests.get(&(request.slot, request.attempt)),
                    RecoveryMessage::Retry(retry) => self.retries.get(&(retry.slot, retry.attempt)),
                };
                assert_eq!(durable, Some(payload), "what is broadcast was made durable, and is the same every time");
            }
            cluster::Output::Closed(outcome) => {
                assert_eq!(self.outcomes.get(&outcome.slot), Some(outcome), "an outcome is durable before it is seen");
                let later = self.announced.last().is_none_or(|last| *last < outcome.slot);
                assert!(later, "slot {} closes after {:?}", outcome.slot, self.announced.last());
                self.announced.insert(outcome.slot);
            }
            cluster::Output::Reject { reason, .. } => {
                if !self.forgery {
                    self.check_rejection(reason, input, now);
                }
                *self.tally.rejections.entry(reason.as_str()).or_default() += 1;
            }
            cluster::Output::Publish { .. } | cluster::Output::Forget(_) | cluster::Output::Notice(_) => {}
        }
    }

    fn gateway_persisted(&mut self, record: &cluster::Record, now: Timestamp) {
        match record {
            cluster::Record::Reading { slot, attempt, member, ciphertext } => {
                let before = self.accepted.entry((*slot, *attempt)).or_default().insert(*member, *ciphertext);
                assert!(before.is_none_or(|before| before == *ciphertext), "one reading of a member counts");
                assert!(!self.requests.contains_key(&(*slot, *attempt)), "nothing joins a frozen attempt");
            }
            cluster::Record::Reveal { slot, attempt, member, revealed } => {
                let before = self.revealed.entry((*slot, *attempt)).or_default().insert(*member, *revealed);
                assert!(before.is_none_or(|before| before == *revealed), "one reveal of a member counts");
            }
            cluster::Record::Dealt { slot, attempt, member, ciphertext, .. } => {
                let accepted = self.accepted.entry((*slot, *attempt)).or_default();
                let before = accepted.insert(*member, ciphertext.to_canonical());
                assert!(
                    before.is_none_or(|before| before == ciphertext.to_canonical()),
                    "one reading of a member counts"
                );
                assert!(!self.requests.contains_key(&(*slot, *attempt)), "nothing joins a frozen attempt");
            }
            cluster::Record::Answer { slot, attempt, member, sum } => {
                let before = self.revealed.entry((*slot, *attempt)).or_default().insert(*member, sum.to_canonical());
                assert!(before.is_none_or(|before| before == sum.to_canonical()), "one answer of a holder counts");
            }
            cluster::Record::Request { slot, attempt, bytes } => {
                let before = self.requests.insert((*slot, *attempt), bytes.clone());
                assert!(before.is_none(), "a second request for {slot}/{attempt}");
            }
            cluster::Record::Retry { slot, attempt, bytes } => {
                let before = self.retries.insert((*slot, *attempt), bytes.clone());
                assert!(before.is_none(), "a second retry for {slot}/{attempt}");
            }
            cluster::Record::Outcome(outcome) => self.closed(outcome, now),
            cluster::Record::Evidence { .. } => panic!("an honest gateway contradicts itself"),
            cluster::Record::Enrolment { .. }
            | cluster::Record::List(_)
            | cluster::Record::Offenders(_)
            | cluster::Record::Retries(_) => {}
        }
    }

    fn closed(&mut self, outcome: &SlotOutcome, now: Timestamp) {
        let later = self.outcomes.last_key_value().is_none_or(|(last, _)| *last < outcome.slot);
        assert!(later, "slot {} closes after {:?}", outcome.slot, self.outcomes.last_key_value());
        let list = &self.lists[&outcome.epoch];
        let params = list.params();
        assert!(list.covers(outcome.slot) && params.slot_end(outcome.slot) <= now, "{outcome:?}");
        assert_eq!(Some(outcome.epoch), self.in_force(outcome.slot).map(|list| list.epoch()));
        let last = (outcome.slot, outcome.attempts - 1);
        let nobody = BTreeMap::new();
        // Who is in S is not in the sum, whether its reading came or not.
        let asked = self.requests.get(&last).map(|request| left_out(request, params.members()));
        let mut accepted = self.accepted.get(&last).unwrap_or(&nobody).clone();
        accepted.retain(|member, _| asked.as_ref().is_none_or(|missing| !missing.contains(*member)));
        let revealed = self.revealed.get(&last).unwrap_or(&nobody);
        assert_eq!(usize::from(outcome.responders), accepted.len(), "{outcome:?}");
        let meter = |member: &u16| index_of(list.members()[usize::from(*member)].id().as_str());
        let mut unmeasured = Tally::default();
        let measured = outcome.end <= self.measured_until;
        let tally = if measured { &mut self.tally } else { &mut unmeasured };
        tally.slots += 1;
        match outcome.result {
            Ok(aggregate) => {
                let sum: i64 = accepted.keys().map(|member| self.meters[meter(member)].reported(last)).sum();
                assert_eq!(aggregate.watts(), sum, "{outcome:?}");
                match params.terms().scheme {
                    Scheme::Pairwise { .. } => {
                        assert!(
                            accepted.keys().eq(revealed.keys()),
                            "every responder reveals, nobody else: {outcome:?}"
                        );
                    }
                    Scheme::Committee(committee) => {
                        assert!(revealed.len() as u64 >= committee.needed, "enough holders answer: {outcome:?}");
                        assert!(revealed.keys().all(|member| list.holder_of(*member).is_some()), "{outcome:?}");
                    }
                }
                assert!(outcome.missing() <= params.max_missing(), "{outcome:?}");
                let kind = if outcome.missing() == 0 { &mut tally.whole } else { &mut tally.recovered };
                *kind += 1;
                tally.retried += u64::from(outcome.attempts > 1);
            }
            Err(failure) => {
                *tally.failed.entry(failure).or_default() += 1;
                let window = (outcome.end.as_secs() - self.skew, params.slot_expiry(outcome.slot).as_secs());
                let in_time = now.as_secs() < window.1 + 3;
                assert!(in_time || failure == Failure::Interrupted, "nobody else's fault: {outcome:?}");
                match failure {
                    Failure::TooManyMissing => {
                        assert!(outcome.missing() > params.max_missing(), "{outcome:?}");
                        assert!(!self.requests.contains_key(&last), "nothing is asked: {outcome:?}");
                    }
                    Failure::RevealMissing => {
                        assert!(self.requests.contains_key(&last), "{outcome:?}");
                        let asked: Vec<u16> = match params.terms().scheme {
                            Scheme::Pairwise { .. } => accepted.keys().copied().collect(),
                            Scheme::Committee(committee) => {
                                assert!((revealed.len() as u64) < committee.needed, "{outcome:?}");
                                (0..params.members()).filter(|member| list.holder_of(*member).is_some()).collect()
                            }
                        };
                        let missing: Vec<u16> =
                            asked.into_iter().filter(|member| !revealed.contains_key(member)).collect();
                        assert!(!missing.is_empty(), "{outcome:?}");
                        let used = |member: &u16| !self.reached.contains(&(last.0, last.1, meter(member)));
                        assert!(missing.iter().all(used), "a reveal arrived and was not used: {outcome:?}");
                    }
                    Failure::Interrupted => {
                        let away = self.away.iter().copied().chain(self.away_since.map(|since| (since, now)));
                        let mut away = away.map(|(from, to)| (from.as_secs(), to.as_secs() + 3));
                        assert!(away.any(|(from, to)| from <= window.1 && window.0 <= to), "{outcome:?}");
                    }
                    Failure::UnmaskFailed => panic!("honest meters' masks cancel: {outcome:?}"),
                }
            }
        }
        self.outcomes.insert(outcome.slot, *outcome);
    }

    /// With honest meters only some rejections make sense, and each has its reason.
    fn check_rejection(&self, reason: &Rejection, input: cluster::Input<'_>, now: Timestamp) {
        let reading = match input {
            cluster::Input::Message { payload, .. } => reading_of(payload),
            cluster::Input::Connected | cluster::Input::Disconnected | cluster::Input::Tick => None,
        };
        match (reason, reading) {
            (Rejection::SlotNotOpen, Some((slot, _, under))) => {
                let early = now.as_secs() < (slot.0 + 1) * SLOT_SECONDS - self.skew;
                let over = self.outcomes.contains_key(&slot) || at((slot.0 + 2) * SLOT_SECONDS) <= now;
                let list = self.in_force(slot).map(|list| list.hash().prefix());
                let right = early || over || list != Some(under);
                assert!(right, "an open slot is said not to be: {slot} at {now:?}");
            }
            (Rejection::TooLate, Some((slot, attempt, _))) => {
                assert!(self.requests.contains_key(&(slot, attempt)), "{slot}/{attempt}");
            }
            (
                Rejection::Duplicate
                | Rejection::SlotNotOpen
                | Rejection::SlotClosed
                | Rejection::OtherAttempt
                | Rejection::OtherList
                | Rejection::NotAMember
                | Rejection::OldEnrolment
                | Rejection::Unknown,
                _,
            ) => {}
            (wrong, _) => panic!("the gateway rejects an honest message: {wrong:?}"),
        }
    }

    pub fn check_meter_at_end(&self, index: usize, node: &MeterNode) {
        let open: Vec<_> =
            node.store.keys().filter(|key| matches!(key, meter::Key::Slot(_) | meter::Key::Answer(_))).collect();
        assert!(open.is_empty(), "meter {index} still holds {open:?}");
        for end in [MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 86_399].map(at) {
            let spent = node.meter.spent(end);
            let charges = self.meters[index].charges(end);
            assert_eq!(spent, charges * 1_000_000, "meter {index} accounts for every attempt");
            assert!(spent <= self.scenario.daily_micro_epsilon, "meter {index} overspends");
        }
        let before = node.meter.day_cost(at(MIDNIGHT - 1)).micro_rho;
        // A run goes on for three slots after the last one that is measured; the last slot of a day closes after one more.
        let over = at(MIDNIGHT + 2 * SLOT_SECONDS) <= self.measured_until.plus_secs(3 * SLOT_SECONDS);
        assert!(
            before == 0 || !over || self.clocks_jump,
            "meter {index} still keeps the account of a day that is over"
        );
        let today = node.meter.day_cost(at(MIDNIGHT)).micro_rho;
        assert!(today <= self.scenario.terms.day_micro_rho, "meter {index} has reserved {today}");
    }

    /// Every slot of a list in force has its outcome, unless the gateway is still away.
    pub fn check_at_end(self, store: &BTreeMap<cluster::Key, Vec<u8>>) -> Tally {
        for key in store.keys() {
            let closed = matches!(key, cluster::Key::Slot(slot, ..) if self.outcomes.contains_key(slot));
            assert!(!closed, "the gateway still holds {key:?}");
        }
        let first = self.lists.first_key_value().map_or(u64::MAX, |(_, list)| list.from_slot().0);
        for slot in (first..self.measured_until.as_secs() / SLOT_SECONDS).map(Slot) {
            let Some(list) = self.in_force(slot) else { continue };
            let away = self.away_since.is_some_and(|since| since <= list.params().slot_expiry(slot));
            assert!(self.outcomes.contains_key(&slot) || away, "slot {slot} has no outcome");
        }
        self.check_recovery(Slot(self.measured_until.as_secs() / SLOT_SECONDS - 1));
        self.tally
    }

    /// After some quiet slots all is well again.
    fn check_recovery(&self, last: Slot) {
        if self.scenario.quiet_slots < QUIET_SLOTS {
            return;
        }
        let outcome = self.outcomes.get(&last).unwrap_or_else(|| panic!("no outcome of the last quiet slot {last}"));
        assert!(outcome.result.is_ok(), "the cluster does not recover: {outcome:?}");
        // A member that enrols again gets a list of its own once in a day: who lost its store twice waits for the next one.
        let waiting = self.lost_stores.values().filter(|&&times| times > 1).count();
        assert!(usize::from(outcome.missing()) <= waiting, "every member takes part again: {outcome:?}");
        assert_eq!(usize::from(outcome.members), self.scenario.expected, "everyone is a member again: {outcome:?}");
    }

    fn in_force(&self, slot: Slot) -> Option<&Arc<MembershipList>> {
        self.lists.range(self.lost_lists + 1..).map(|(_, list)| list).rev().find(|list| list.covers(slot))
    }
}

/// The members that a request names as missing.
fn left_out(request: &[u8], members: u16) -> MemberSet {
    let request = RecoveryRequest::decode(Sign1::decode(request).unwrap().payload()).unwrap();
    MemberSet::from_bytes(members, &request.missing).unwrap()
}

/// After how many slots without faults everyone must be back: one that fell silent before them may still be dropped in the
/// first, learns of it with the next list, enrols again, and waits for a list that starts two slots ahead.
pub const QUIET_SLOTS: u64 = 9;
