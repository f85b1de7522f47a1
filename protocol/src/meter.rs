//! The meter's side of the protocol, as a state machine without input or output of its own.
//!
//! Feed it with [`Meter::handle`], drain [`Meter::poll`] after every call, and call again with [`Input::Tick`] when
//! [`Meter::deadline`] is reached. Outputs come in the order in which they must take effect: an entry that
//! [`Output::Persist`] names is durable before anything that follows it is sent.
//!
//! The gateway is treated as the adversary. What it may learn is bounded by rules that only this machine enforces: one
//! answer per slot and attempt, at most M missing members, a list that it has checked itself, a budget per day, and time
//! that is never reported twice.

mod clock;
mod conduct;
mod days;
mod enrolling;
mod enrolments;
mod holding;
mod lists;
mod record;
mod refusal;
pub mod simulation;
mod slots;
mod statuses;

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use rand_core::CryptoRng;
use thiserror::Error;

pub use conduct::{Conduct, Honest};
pub use record::{AcceptedList, Account, AnswerRecord, Evidence, Key, OwnEnrolment, Record, SlotRecord};
pub use refusal::Refusal;

use crate::certificate::{Certificate, CertificateError};
use crate::day::{DayCost, Days};
use crate::ids::{ClusterId, MeterId};
use crate::keys::IdentityKey;
use crate::ledger::Ledger;
use crate::membership::MembershipList;
use crate::policy::Policy;
use crate::time::{Now, Slot, Timestamp};
use crate::topic::{self, GatewayChannel, MeterChannel, Topic, TopicError};
use crate::wire::{EvidenceStatement, Message as _, RecoveryMessage, Sign1, Status, StatusCode};
use clock::Clock;
use conduct::sealed::Sealed as _;
use enrolments::{Enrolments, Listing};
use lists::HeldLists;
use slots::Slots;
use statuses::{Proofs, Statuses};

/// How many pieces of evidence are kept; later ones replace the oldest.
const EVIDENCE_KEPT: u64 = 16;

/// Who a meter is and what it accepts.
#[derive(Debug)]
pub struct MeterConfig {
    pub identity: IdentityKey,
    /// The meter's own certificate, in DER.
    pub certificate: Vec<u8>,
    pub cluster: ClusterId,
    pub policy: Policy,
}

/// Why a configuration cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MeterError {
    #[error("the meter's own certificate is refused: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the certificate is for another key than the meter's identity key")]
    OtherKey,
    #[error("the meter's own certificate is for cluster `{certified}`, and it is to join `{configured}`")]
    OtherCluster { certified: ClusterId, configured: ClusterId },
    #[error("the policy demands certificates that say how many meters the cluster has, and the meter's own does not")]
    NoCertifiedSize,
}

/// What happens to a meter.
#[derive(Clone)]
pub enum Input<'a> {
    /// The broker accepted a connection: what may have been lost is said again.
    Connected,
    /// A message arrived.
    Message { topic: &'a str, payload: &'a [u8] },
    /// A list that this process has verified already, whole or short, with the policy's authorities.
    List(Arc<MembershipList>),
    /// A slot that was to be measured ([`Output::Measure`]) has ended with this mean power, in whole watts.
    Measured { slot: Slot, watts: i64 },
    /// The wall clock was checked against a trusted source and is right.
    TimeConfirmed,
    /// Time has passed.
    Tick,
}

impl fmt::Debug for Input<'_> {
    /// Names the input and says nothing of a reading.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("Connected"),
            Self::Message { topic, payload } => write!(f, "Message({topic}, {} bytes)", payload.len()),
            Self::List(list) => write!(f, "List({})", list.epoch()),
            Self::Measured { slot, .. } => write!(f, "Measured({slot})"),
            Self::TimeConfirmed => f.write_str("TimeConfirmed"),
            Self::Tick => f.write_str("Tick"),
        }
    }
}

/// What to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Make an entry durable before anything that follows.
    Persist(Record),
    /// Erase an entry, overwriting it.
    Erase(Key),
    /// Measure the mean power from one instant to the other, and report it with [`Input::Measured`] when that is over.
    /// Asked once for each slot, when it begins, and again after a restart.
    Measure { slot: Slot, from: Timestamp, to: Timestamp },
    /// Publish with QoS 1, not retained, on the meter's topic for the channel: see [`Meter::topic`].
    Publish { channel: MeterChannel, about: Option<About>, payload: Arc<[u8]> },
    /// Subscribe to a topic of the gateway's from now on, with QoS 1: [`Meter::subscriptions`] names it too.
    Subscribe(GatewayChannel),
    /// Do not subscribe to a topic of the gateway's any more.
    Unsubscribe(GatewayChannel),
    /// Worth a log line.
    Notice(Notice),
}

/// The slot and attempt of a reading or a reveal that is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct About {
    pub slot: Slot,
    pub attempt: u8,
}

/// What an owner or a test may want to know. Never says anything of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Enrolled {
        seq: u64,
    },
    /// A list was accepted; whether lists between this one and the last were missed.
    ListAccepted {
        epoch: u64,
        skipped: bool,
    },
    Refused(Refusal),
    /// The attempt's epsilon was charged and its reading recorded.
    Charged {
        slot: Slot,
        attempt: u8,
    },
    /// An answer was recorded.
    Answered {
        slot: Slot,
        attempt: u8,
    },
}

impl Notice {
    /// Returns the rule by which something was refused, if this is about a refusal.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Enrolled { .. } | Self::ListAccepted { .. } | Self::Charged { .. } | Self::Answered { .. } => None,
        }
    }
}

/// One meter. Real ones are [`Honest`]; simulators make others with [`Meter::simulated`].
#[derive(Debug)]
pub struct Meter<C: Conduct = Honest> {
    config: MeterConfig,
    id: MeterId,
    certificate: Certificate,
    account: Account,
    enrolments: Enrolments,
    lists: HeldLists,
    slots: Slots,
    clock: Clock,
    statuses: Statuses,
    proofs: Proofs,
    outputs: VecDeque<Output>,
    conduct: C,
}

impl Meter {
    /// Rebuilds a meter from its records. Without records, or without the account among them, it starts anew: with a new
    /// key, and silent until a list names it.
    pub fn resume(config: MeterConfig, records: impl IntoIterator<Item = Record>) -> Result<Self, MeterError> {
        Honest.resume(config, records.into_iter().collect())
    }
}

impl<C: Conduct> Meter<C> {
    fn with_conduct(config: MeterConfig, records: Vec<Record>, conduct: C) -> Result<Self, MeterError> {
        let certificate = config.policy.authorities.verify_meter(&config.certificate)?;
        if *certificate.key() != config.identity.public() {
            return Err(MeterError::OtherKey);
        }
        if let Some(certified) = certificate.cluster().filter(|certified| certified.id != config.cluster) {
            let (certified, configured) = (certified.id.clone(), config.cluster.clone());
            return Err(MeterError::OtherCluster { certified, configured });
        }
        if config.policy.certified_size && certificate.cluster().is_none_or(|certified| certified.size.is_none()) {
            return Err(MeterError::NoCertifiedSize);
        }
        let account = Account {
            cluster: config.cluster.clone(),
            ledger: Ledger::default(),
            days: Days::default(),
            high_water: 0,
            seq: 0,
            newest_list: None,
            protection: None,
            evidence: 0,
            answered: (0, 0),
        };
        let mut meter = Self {
            id: certificate.meter()?.clone(),
            config,
            certificate,
            account,
            enrolments: Enrolments::new(),
            lists: HeldLists::default(),
            slots: Slots::default(),
            clock: Clock::default(),
            statuses: Statuses::default(),
            proofs: Proofs::default(),
            outputs: VecDeque::new(),
            conduct,
        };
        meter.restore(records);
        meter.lists.told = meter.lists.wanted();
        Ok(meter)
    }

    pub const fn id(&self) -> &MeterId {
        &self.id
    }

    /// Handles one input. Never fails and never blocks: what is refused comes out as a notice.
    ///
    /// `rng` is best the operating system's or the device's own generator. One that could be rewound from its state
    /// would give back what is drawn here after it was erased.
    pub fn handle(&mut self, input: Input<'_>, now: Now, mut rng: &mut (impl CryptoRng + ?Sized)) {
        C::handle(self, input, now, &mut rng);
    }

    fn step(&mut self, input: Input<'_>, now: Now, rng: &mut dyn CryptoRng) {
        self.clock.observe(now, matches!(input, Input::TimeConfirmed));
        let at = now.wall;
        if self.clock.doubtful {
            if !matches!(input, Input::Tick | Input::Connected) {
                self.refuse(&Refusal::ClockDoubtful, None, Slot(0));
            }
            return;
        }
        self.close_what_is_over(at, rng);
        self.close_days(at);
        match input {
            Input::Connected => self.say_again(at),
            Input::Message { topic, payload } => self.message(topic, payload, at, rng),
            Input::List(list) => self.consider(&list, at),
            Input::Measured { slot, watts } => self.measured(slot, watts, at, rng),
            Input::TimeConfirmed => self.statuses.forget(StatusCode::ClockDoubtful),
            Input::Tick => {}
        }
        self.enrol_when_due(at, rng);
        self.publish_what_is_due(at);
        self.prepare(at, rng);
        self.tell_subscriptions();
    }

    /// The next thing to do; drain after every [`Meter::handle`].
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call with [`Input::Tick`] if nothing else happens before.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.clock.doubtful {
            return None;
        }
        let next_start = self.clock.last.and_then(|at| self.lists.next_start(at));
        let own = [self.enrolment_deadline(), next_start, self.days_deadline()];
        let held = [self.slots.deadline(&self.lists), self.lists.deadline()];
        own.into_iter().chain(held).flatten().min()
    }

    /// Returns the topics to subscribe to with every connection: what the gateway says to this meter, as far as it is for
    /// it now, and whether gateways are online. Without the last one, a meter that no list names takes up to 75 seconds to
    /// enrol with a new gateway. [`Output::Subscribe`] and [`Output::Unsubscribe`] tell of changes.
    pub fn subscriptions(&self) -> Vec<String> {
        let cluster = self.lists.told.iter().map(|channel| channel.topic(&self.config.cluster));
        cluster.chain([topic::ANY_GATEWAY_STATUS.to_owned()]).collect()
    }

    /// Returns the topic of the gateway's channel in this meter's cluster.
    pub fn gateway_topic(&self, channel: GatewayChannel) -> String {
        channel.topic(&self.config.cluster)
    }

    /// Returns the meter's own topic for a channel.
    pub fn topic(&self, channel: MeterChannel) -> String {
        channel.topic(&self.config.cluster, &self.id)
    }

    /// What has been spent on slots that start in the 24 hours up to `at`, in millionths of epsilon.
    pub fn spent(&self, at: Timestamp) -> u64 {
        self.account.ledger.spent(at)
    }

    /// What the UTC day of `at` costs as far as it was reported: never what its readings used.
    pub fn day_cost(&self, at: Timestamp) -> DayCost {
        self.account.days.cost(at)
    }

    /// The same of every UTC day that is not closed yet, by its number since 1970.
    pub fn day_costs(&self) -> impl Iterator<Item = (u64, DayCost)> {
        self.account.days.costs()
    }

    fn message(&mut self, topic: &str, payload: &[u8], at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let cluster = &self.config.cluster;
        if let Some(replica) = topic::replica_of_status(topic) {
            let known = self.config.policy.gateways.iter().any(|gateway| topic::is_replica_of(replica, gateway));
            // Anything else, such as `offline`, changes nothing.
            if known && payload == b"online" {
                self.gateway_online(at, rng);
            }
            return;
        }
        match Topic::parse(topic) {
            Ok(Topic::Gateway { cluster: name, channel }) if name == cluster.as_str() => match channel {
                // The retained list comes again with every connection; to verify it once is enough.
                GatewayChannel::Membership | GatewayChannel::FullMembership
                    if self.lists.held.values().any(|held| **held.list.bytes() == *payload) => {}
                // An erased list says nothing.
                GatewayChannel::Membership | GatewayChannel::FullMembership if payload.is_empty() => {}
                GatewayChannel::Membership => self.short_list(payload, at),
                GatewayChannel::FullMembership => {
                    let known = self.lists.held.values().map(|held| &*held.list);
                    match MembershipList::verify_after(known, payload, cluster, &self.config.policy.authorities) {
                        Ok(list) => self.consider(&list, at),
                        Err(error) => self.refuse(&error.into(), None, Slot(0)),
                    }
                }
                GatewayChannel::Recovery | GatewayChannel::Retry => self.recovery(channel, payload, at, rng),
                GatewayChannel::Aggregate => self.refuse(&TopicError::UnknownChannel.into(), None, Slot(0)),
            },
            Ok(_) => self.refuse(&TopicError::UnknownChannel.into(), None, Slot(0)),
            Err(error) => self.refuse(&error.into(), None, Slot(0)),
        }
    }

    /// A request or a retry. Cheap checks come before the signature; nothing is believed before it.
    fn recovery(
        &mut self,
        channel: GatewayChannel,
        payload: &[u8],
        at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) {
        let decoded =
            Sign1::decode(payload).and_then(|envelope| Ok((envelope, RecoveryMessage::decode(envelope.payload())?)));
        let (envelope, message) = match decoded {
            Ok((_, message)) if message.channel() != channel => {
                return self.refuse(&TopicError::UnknownChannel.into(), None, Slot(0));
            }
            Ok(decoded) => decoded,
            Err(error) => return self.refuse(&error.into(), None, Slot(0)),
        };
        let slot = message.slot();
        // What was reported is asked for under its list; a holder is also asked for what it did not report itself.
        let reported = self.slots.reported.get(&slot).and_then(|record| self.lists.get(&record.list));
        let Some(held) = reported.or_else(|| self.lists.in_force(slot).filter(|held| held.role.holder().is_some()))
        else {
            return self.refuse(&Refusal::UnknownSlot, None, slot);
        };
        let named = *held.list.hash();
        let holds = held.role.holder().is_some();
        // A gateway repeats its request until all have answered; what was answered was verified.
        let answered = self.slots.reported.get(&slot).is_some_and(|record| record.answered(payload))
            || self.slots.answers.get(&slot).is_some_and(|record| *record.request == *payload);
        let topic = channel.topic(&self.config.cluster);
        let verified = answered || envelope.verifies(held.list.gateway_identity(), &topic);
        if verified {
            self.slots.asked.insert(slot);
        }
        let outcome = match message {
            _ if !verified => Err(Refusal::BadSignature),
            _ if named != message.list() => Err(Refusal::OtherList),
            RecoveryMessage::Request(request) if holds => self.answer_as_holder(&request, payload, at),
            RecoveryMessage::Request(request) => self.answer(&request, payload, at),
            RecoveryMessage::Retry(retry) => self.retry(retry, payload, at, rng),
        };
        if let Err(refusal) = outcome {
            self.refuse(&refusal, Some(named.prefix()), slot);
        }
    }

    /// Says again what a new connection may have lost. Always the same bytes.
    fn say_again(&mut self, at: Timestamp) {
        if self.enrolments.listing != Listing::Listed {
            self.enrolments.offer_again = at;
        }
        let open: Vec<Slot> =
            self.slots.reported.keys().copied().filter(|slot| !self.slots.unpublished.contains_key(slot)).collect();
        for slot in open {
            self.publish_slot(slot, at);
        }
        let answered: Vec<Slot> = self.slots.answers.keys().copied().collect();
        for slot in answered {
            self.publish_answer(slot, at);
        }
    }

    fn persist(&mut self, record: Record) {
        self.outputs.push_back(Output::Persist(record));
    }

    fn erase(&mut self, key: Key) {
        self.outputs.push_back(Output::Erase(key));
    }

    fn persist_account(&mut self) {
        self.persist(Record::Account(self.account.clone()));
    }

    fn publish(&mut self, channel: MeterChannel, about: Option<About>, payload: Arc<[u8]>) {
        self.outputs.push_back(Output::Publish { channel, about, payload });
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    /// Notes a refusal and, where the operator can do something about it, says so.
    fn refuse(&mut self, refusal: &Refusal, list: Option<[u8; 8]>, slot: Slot) {
        self.notice(Notice::Refused(refusal.clone()));
        if let Some(code) = refusal.status() {
            self.say(code, list, slot);
        }
    }

    /// Sends a status, once for each list and slot, and not more than once a minute.
    fn say(&mut self, code: StatusCode, list: Option<[u8; 8]>, slot: Slot) {
        let Some(at) = self.clock.last else { return };
        // Taken, so that a later contradiction does not go with the evidence of this one.
        let evidence = if code == StatusCode::Equivocation { self.proofs.newest.take() } else { None };
        // A contradiction of which nothing is in hand would have to be believed.
        if code == StatusCode::Equivocation && evidence.is_none() || !self.statuses.note(code, list, slot, at) {
            return;
        }
        let status = Status {
            cluster: self.config.cluster.clone(),
            list,
            slot,
            code,
            newest_epoch: self.account.newest_list.map_or(0, |(epoch, _)| epoch),
            least_malicious: self.least_malicious(at),
            evidence: evidence.as_deref().unwrap_or_default().to_vec(),
        };
        let topic = self.topic(MeterChannel::Status);
        let payload = status.seal(&self.config.identity, &topic);
        self.publish(MeterChannel::Status, None, payload.into());
    }

    /// Keeps two signed messages that contradict each other, once. The certificate is that of requests and retries.
    fn keep_evidence(&mut self, certificate: Vec<u8>, first: Vec<u8>, second: Vec<u8>) {
        let number = self.account.evidence;
        let statement = EvidenceStatement { cluster: self.config.cluster.clone(), certificate, first, second };
        let evidence = Evidence { number, bytes: statement.encode().into() };
        if !self.proofs.note(&evidence) {
            return;
        }
        self.account.evidence += 1;
        self.persist(Record::Evidence(evidence));
        if let Some(oldest) = number.checked_sub(EVIDENCE_KEPT) {
            self.proofs.forget(oldest);
            self.erase(Key::Evidence(oldest));
        }
        self.persist_account();
    }

    /// Rebuilds the machine. What belongs to another cluster is erased, except for what must never go back.
    fn restore(&mut self, records: Vec<Record>) {
        let account = records.iter().find_map(|record| match record {
            Record::Account(account) => Some(account.clone()),
            Record::Enrolment(_) | Record::List(_) | Record::Slot(_) | Record::Answer(_) | Record::Evidence(_) => None,
        });
        let same_cluster = account.as_ref().is_some_and(|account| account.cluster == self.config.cluster);
        if let Some(account) = account {
            let newest_list = account.newest_list.filter(|_| same_cluster);
            let protection = account.protection.filter(|_| same_cluster);
            self.account = Account { cluster: self.config.cluster.clone(), newest_list, protection, ..account };
        }
        let mut lists = Vec::new();
        let mut slots = Vec::new();
        let mut answers = Vec::new();
        for record in records {
            let key = record.key();
            match record {
                Record::Account(_) => {}
                // Evidence outlives everything, also the account that counts it.
                Record::Evidence(kept) => {
                    self.account.evidence = self.account.evidence.max(kept.number + 1);
                    self.proofs.reopen(&kept);
                }
                Record::Enrolment(own) if same_cluster => {
                    self.enrolments.own.insert(own.seq, own);
                }
                Record::List(list) if same_cluster => lists.push(list),
                Record::Slot(slot) if same_cluster => slots.push(slot),
                Record::Answer(answer) if same_cluster => answers.push(answer),
                Record::Enrolment(_) | Record::List(_) | Record::Slot(_) | Record::Answer(_) => {
                    self.erase(key);
                }
            }
        }
        lists.sort_by_key(|list| list.epoch);
        lists.into_iter().for_each(|list| self.reopen_list(&list));
        slots.into_iter().for_each(|slot| self.reopen_slot(slot));
        for answer in answers {
            // The account is written first; one that was rolled back alone still does not answer again.
            if let Some(held) = self.lists.get(&answer.list) {
                let mark = (held.list.params().slot_end(answer.slot).as_secs(), answer.attempt);
                self.account.answered = self.account.answered.max(mark);
            }
            self.slots.answers.insert(answer.slot, answer);
        }
        self.enrolments.listing = match self.lists.newest().map(|newest| newest.enrolment) {
            None => Listing::Unlisted,
            newest if newest == self.enrolments.newest_seq() => Listing::Listed,
            Some(_) => Listing::Renewing,
        };
    }
}
