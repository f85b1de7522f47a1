//! The gateway's side of one cluster, as a state machine without input or output of its own.
//!
//! Feed it with [`Cluster::handle`], drain [`Cluster::poll`] after every call, and call again with [`Input::Tick`] when
//! [`Cluster::deadline`] is reached. Outputs come in the order in which they must take effect: what [`Output::Persist`]
//! names is durable before anything that follows it is published, and before the message that caused it is acknowledged.
//!
//! The gateway is trusted to compute, not with privacy: nothing here protects a home, and nothing here can open less than
//! a whole cluster.

mod allowance;
mod holders;
mod lists;
mod offenders;
mod open_slot;
mod record;
mod rejection;
mod reports;
mod retries;
mod roster;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand_core::CryptoRng;
use thiserror::Error;

pub use holders::HoldersReport;
pub use offenders::{Event, Limits, Offence, Offender, Offenders, Outcome, Search};
pub use record::{Forget, Key, ListRecord, Record, SlotEntry};
pub use rejection::Rejection;
pub use retries::Retries;
pub use roster::RosterRules;

use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::certificate::{Authorities, Certificate, CertificateError};
use crate::enrolment::{Enrolment, EnrolmentError, MAX_AHEAD_SECONDS};
use crate::evidence::{self, Contradiction, EvidenceError, Verdict};
use crate::ids::{ClusterId, GatewayId, MeterId};
use crate::keys::{IdentityKey, ListHash};
use crate::membership::{ListError, MembershipList};
use crate::params::{ParamsError, Share, Terms};
use crate::policy::{Budget, Floors};
use crate::protection::Protection;
use crate::scheme::SchemeChoice;
use crate::scheme::committee::{Committee, NoCommittee};
use crate::time::{Slot, Timestamp};
use crate::topic::{GatewayChannel, MeterChannel, Topic, TopicError};
use crate::wire::{
    self, Answer, DealtReading, EnrolmentStatement, EvidenceStatement, Mac0, MaskedReading, Message as _, Reveal,
    Sign1, Status, StatusCode,
};
use allowance::Allowance;
use holders::Watch;
use lists::{OwnList, TakeOver};
use open_slot::{Attempt, Judges, OpenSlot, Step};
use reports::Reports;
use roster::Roster;
use timers::{Timer, Timers};

/// How long after connecting a retained list may take to arrive. Until then nothing is published that it could contradict.
const RETAINED_SECONDS: u64 = 3;

/// How many pieces of evidence are kept.
const EVIDENCE_KEPT: u8 = 16;

/// How late a deadline is handled before the gateway counts as having been away.
const STALL_SECONDS: u64 = 2;

/// What a gateway is told about a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    pub cluster: ClusterId,
    pub identity: Arc<IdentityKey>,
    /// The gateway's certificate, in DER.
    pub certificate: Arc<[u8]>,
    pub authorities: Authorities,
    /// The terms of every list; `max_missing` and `max_malicious` follow from the shares below and the members.
    pub terms: Terms,
    /// Which schemes lists are formed in. `terms` has the parameters of the pairwise one.
    pub scheme: SchemeChoice,
    /// How many attempts a slot has in the committee scheme, where losses cost none.
    pub committee_attempts: u64,
    /// Whether the holders of large lists may be drawn: not if meters want to see the certificate of every member.
    pub may_draw: bool,
    pub missing_share: Share,
    pub malicious_share: Share,
    /// How small a list its meters accept. T is never below theirs.
    pub floors: Floors,
    /// How much its meters spend. A slot is not tried again where that would leave too little for those that follow.
    pub budget: Budget,
    pub roster: RosterRules,
    /// How early, by the gateway's clock, a reading may come because a meter's clock is ahead.
    pub clock_skew_seconds: u64,
}

/// Why a configuration cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error("the gateway's own certificate is refused: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the certificate is for another key than the gateway's identity key")]
    OtherKey,
    #[error("a cluster of `min_members` cannot be formed: {0}")]
    Params(#[from] ParamsError),
}

/// What happens to a cluster.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The broker accepted a connection, and the cluster's topics are subscribed: what may have been lost is said again.
    Connected,
    /// The connection is lost.
    Disconnected,
    /// A message arrived.
    Message { topic: &'a str, payload: &'a [u8] },
    /// Time has passed.
    Tick,
}

/// What to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Make an entry durable before anything that follows, and before acknowledging what caused it.
    Persist(Record),
    Forget(Forget),
    /// Publish with QoS 1 on the cluster's topic for the channel, retained if [`GatewayChannel::is_retained`] says so.
    Publish {
        channel: GatewayChannel,
        payload: Arc<[u8]>,
    },
    /// A message was not used. It is acknowledged all the same, or it would come back for ever.
    Reject {
        meter: Option<MeterId>,
        reason: Rejection,
    },
    /// A slot closed for good.
    Closed(SlotOutcome),
    Notice(Notice),
}

/// What an operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A new list was published.
    ListPublished { epoch: u64, members: u16, from_slot: Slot, to_slot: Slot },
    /// The members of an attempt were asked to reveal, for the first time; the slot's measurement had `ended`.
    Requested { slot: Slot, attempt: u8, ended: Timestamp },
    /// No list can be formed of the members there are.
    CannotForm { members: u16, reason: CannotForm },
    /// A retained list was taken over: another gateway served the cluster, or the store was restored from a back-up.
    TakenOver { epoch: u64 },
    /// Members were dropped because they stayed silent.
    Dropped { members: u16 },
    /// A member is left out of sums for its offences, until its trial.
    Quarantined { meter: MeterId, offence: Offence },
    /// A member takes part again.
    Released { meter: MeterId },
    /// A member failed one trial after the other: lists are formed without it, if that leaves enough members.
    LeftOutOfLists { meter: MeterId, until: Timestamp },
    /// A sum failed and nobody known is in it: groups of members are left out to find who spoils sums.
    SearchStarted { slot: Slot },
    /// Several members spoil sums: the next list leaves so many out to find them, and lets more be missing if it is wide.
    SearchesByLists { left_out: u16, wide: bool },
    /// Bets on secret coins have shown that a member spoils sums.
    Convicted { meter: MeterId },
    /// A holder's answers are wrong if a member is in the sum, and right otherwise: one of the two lies.
    AtOdds { member: MeterId, holder: MeterId },
    /// Sum after sum fails: who spoils them cannot be found in a cluster of this size, or only by chance.
    CannotBeFound,
    /// Dropped members were heard again, and may be in the next list.
    Readmitted { members: u16 },
    /// Somebody replaced the newest list on the broker, or erased it; it is published again.
    ListOverwritten { epoch: u64, erased: bool },
    /// Members have shown that a gateway signed two messages that contradict each other.
    Proven { gateway: GatewayId, contradiction: Contradiction },
    /// How the holders of a closed slot answered.
    Holders(Box<HoldersReport>),
    /// A list is formed in the pairwise scheme, because no committee can be formed.
    NoCommittee(NoCommittee),
    /// A meter says why it is silent, or what it has seen. The epoch is that of the list it speaks of, if it is one of ours.
    MeterStatus { meter: MeterId, code: StatusCode, epoch: Option<u64>, slot: Slot },
}

/// Why no list can be formed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CannotForm {
    #[error("at least {least} members are needed")]
    TooFew { least: u16 },
    #[error(transparent)]
    Params(#[from] ParamsError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Committee(#[from] NoCommittee),
}

/// The gateway's side of one cluster.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    certificate: Certificate,
    roster: Roster,
    /// Published lists with an open or future slot, by epoch.
    lists: BTreeMap<u64, Arc<OwnList>>,
    /// The highest epoch ever published or taken over, and its list's hash.
    newest: Option<(u64, ListHash)>,
    newest_published: Option<Timestamp>,
    reports: Reports,
    /// The T that the cluster's lists have allowed for, and the least that members say they accept.
    protection: Option<Protection>,
    asked: BTreeMap<MeterId, u16>,
    /// Proof that this gateway's name signed messages that contradict each other, as members have sent it.
    evidence: Vec<(Contradiction, Arc<[u8]>)>,
    /// How many pieces of evidence are stored, those included that prove nothing any more.
    evidence_records: u8,
    /// From when the retained list must have been seen; `None` without a connection.
    listening: Option<Timestamp>,
    /// Whether the newest list, published here, was not seen on the broker since the last loss of the connection. The
    /// retained list may come before the word that the topics are subscribed.
    unseen: bool,
    /// The same of its short form.
    short_unseen: bool,
    short_confirmed: bool,
    /// Whether the newest list came back from the broker since it was published: what comes after it has replaced it.
    confirmed: bool,
    /// When the newest list was last published, again or for the first time.
    last_sent: Timestamp,
    allowance: Allowance,
    /// The epoch that could not be renewed: tried again when the members change.
    renewal_failed: Option<u64>,
    /// Members that spoil slots.
    offenders: Offenders,
    retries: Retries,
    /// Whether the next list does not wait for the interval: the newest names a member that has been denied since, or others
    /// are left out of lists to find who spoils sums.
    list_is_urgent: bool,
    slots: BTreeMap<Slot, OpenSlot>,
    /// Closed slots of committees, while answers still come.
    watched: BTreeMap<Slot, Watch>,
    /// The end of the last slot that was opened: no time is opened twice.
    opened_until: Timestamp,
    /// Kept, so that a message that changes nothing costs no search for the next deadline.
    timers: Timers,
    outputs: VecDeque<Output>,
}

impl Cluster {
    /// A cluster as its records left it. A slot whose windows still allow it goes on; a frozen request is the same bytes.
    pub fn resume(
        config: ClusterConfig,
        records: impl IntoIterator<Item = Record>,
        now: Timestamp,
    ) -> Result<Self, ClusterError> {
        let certificate = config.authorities.verify_gateway(&config.certificate)?;
        if *certificate.key() != config.identity.public() {
            return Err(ClusterError::OtherKey);
        }
        config.params_for(config.roster.min_members)?;
        let mut cluster = Self {
            roster: Roster::new(config.roster.clone(), now),
            config,
            certificate,
            lists: BTreeMap::new(),
            newest: None,
            newest_published: None,
            reports: Reports::default(),
            protection: None,
            asked: BTreeMap::new(),
            evidence: Vec::new(),
            evidence_records: 0,
            listening: None,
            unseen: true,
            short_unseen: true,
            short_confirmed: false,
            confirmed: false,
            last_sent: Timestamp::from_millis(0),
            allowance: Allowance::new(),
            renewal_failed: None,
            offenders: Offenders::default(),
            retries: Retries::default(),
            list_is_urgent: false,
            slots: BTreeMap::new(),
            watched: BTreeMap::new(),
            opened_until: Timestamp::from_millis(0),
            timers: Timers::default(),
            outputs: VecDeque::new(),
        };
        cluster.restore(records.into_iter().collect(), now);
        cluster.set_timers();
        Ok(cluster)
    }

    /// Handles one input. Never fails and never blocks: what is not used comes out as a rejection.
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, mut rng: &mut (impl CryptoRng + ?Sized)) {
        let rng: &mut dyn CryptoRng = &mut rng;
        if let Some(due) = self.timers.next().filter(|due| *due <= now) {
            self.advance(due, now, rng);
        }
        match input {
            Input::Connected => self.say_again(now, rng),
            Input::Message { topic, payload } => {
                if let Err((meter, reason)) = self.message(topic, payload, now, rng) {
                    self.outputs.push_back(Output::Reject { meter, reason });
                }
            }
            Input::Disconnected => {
                self.listening = None;
                (self.unseen, self.confirmed) = (true, false);
                (self.short_unseen, self.short_confirmed) = (true, false);
                self.set_list_timer();
            }
            Input::Tick => {}
        }
        if self.timers.is_due(Timer::List, now) {
            self.publish_lists(now, rng);
            self.set_timers();
        }
    }

    /// The next thing to do; drain after every [`Cluster::handle`].
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call with [`Input::Tick`] if nothing else happens before.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// The newest list, if it was published here.
    pub fn newest_list(&self) -> Option<&Arc<MembershipList>> {
        self.lists.values().next_back().map(|own| &own.list)
    }

    /// The list in force at an instant.
    pub fn list_at(&self, at: Timestamp) -> Option<&Arc<MembershipList>> {
        self.in_force_at(at).map(|own| &own.list)
    }

    /// Whether a meter is enrolled here, or is in a list with an open or future slot.
    pub fn holds(&self, meter: &str) -> bool {
        self.roster.get(meter).is_some() || self.lists.values().any(|own| own.list.index_of(meter).is_some())
    }

    /// How many meters are enrolled and not denied.
    pub fn candidates(&self) -> usize {
        self.roster.candidates()
    }

    /// How many of them have an enrolment that ends before an instant, unless they renew it.
    pub fn enrolments_ending_before(&self, at: Timestamp) -> usize {
        self.roster.ending_before(at)
    }

    /// Returns the members that spoiled slots, as far as the gateway can tell, by their ids.
    pub fn offenders(&self) -> impl Iterator<Item = (&MeterId, Offender)> {
        let params = self.newest_list().map(|list| list.params());
        let malicious = params.map_or(u16::MAX, |params| params.max_malicious());
        let colluding = params.and_then(|params| {
            let committee = params.terms().scheme.committee()?;
            Committee::colluding(committee.drawn, params.members().into(), malicious.into())
        });
        let colluding = colluding.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        self.offenders.iter(colluding, malicious.into())
    }

    /// Returns whether groups of members are left out to find who spoils sums.
    pub fn is_searching(&self) -> bool {
        self.offenders.search().is_searching()
    }

    /// Returns whether sum after sum fails, so that who spoils them cannot be found, or only by chance.
    pub fn cannot_be_found(&self) -> bool {
        self.offenders.search().cannot_be_found()
    }

    /// Returns how many members lists are formed without for some slots, to find who spoils sums.
    pub fn left_out_to_search(&self) -> usize {
        self.offenders.search().away().count()
    }

    /// How many members of the list in force at an instant are denied by now: they count until a list without them begins.
    pub fn denied_members(&self, at: Timestamp) -> usize {
        let members = self.list_at(at).map_or(&[][..], |list| list.members());
        members.iter().filter(|member| !self.roster.allows(member.id())).count()
    }

    fn message(
        &mut self,
        topic: &str,
        payload: &[u8],
        now: Timestamp,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), (Option<MeterId>, Rejection)> {
        let anonymous = |reason: Rejection| (None, reason);
        match Topic::parse(topic).map_err(|error| anonymous(error.into()))? {
            Topic::Meter { cluster, channel, meter } if cluster == self.config.cluster.as_str() => {
                let result = match channel {
                    MeterChannel::Reading => self.reading(topic, meter, payload),
                    MeterChannel::Reveal => self.revealed(topic, meter, payload),
                    MeterChannel::Enrol => self.enrolment(meter, payload, now).map(|()| None),
                    MeterChannel::Status => self.status(topic, meter, payload, now).map(|()| None),
                };
                if let Some(complete) = result.map_err(|reason| (MeterId::new(meter).ok(), reason))? {
                    self.step(complete, now, rng);
                }
                Ok(())
            }
            Topic::Gateway { cluster, channel: GatewayChannel::Membership }
                if cluster == self.config.cluster.as_str() =>
            {
                self.check_short_list(payload, now);
                self.set_timers();
                Ok(())
            }
            Topic::Gateway { cluster, channel: GatewayChannel::FullMembership }
                if cluster == self.config.cluster.as_str() =>
            {
                let found = self.take_over(payload, now);
                if !matches!(found, Ok(TakeOver::Ours | TakeOver::Ahead)) {
                    self.restore_retained(payload, now);
                }
                self.set_timers();
                found.map(drop).map_err(anonymous)
            }
            Topic::Meter { .. } | Topic::Gateway { .. } => Err(anonymous(TopicError::UnknownChannel.into())),
        }
    }

    /// The hot path: decode, authenticate, unstream, add. Allocates nothing but the output's place in the queue. Returns the
    /// slot if it can go on.
    fn reading(&mut self, topic: &str, meter: &str, payload: &[u8]) -> Result<Option<Slot>, Rejection> {
        let envelope = Mac0::decode(payload)?;
        if wire::kind(envelope.payload())? == DealtReading::KIND {
            return self.dealt_reading(&envelope, topic, meter);
        }
        let reading = MaskedReading::decode(envelope.payload())?;
        let slot = self.open_slot(reading.slot)?;
        let member = slot.authenticate(&envelope, topic, meter, &reading.list)?;
        slot.accept_reading(member, &reading)?;
        let complete = slot.is_complete();
        let MaskedReading { slot, attempt, ciphertext, .. } = reading;
        self.outputs.push_back(Output::Persist(Record::Reading { slot, attempt, member, ciphertext }));
        Ok(complete.then_some(slot))
    }

    fn dealt_reading(&mut self, envelope: &Mac0<'_>, topic: &str, meter: &str) -> Result<Option<Slot>, Rejection> {
        let reading = DealtReading::decode(envelope.payload())?;
        let slot = self.open_slot(reading.slot)?;
        let member = slot.authenticate(envelope, topic, meter, &reading.list)?;
        slot.accept_dealt(member, &reading)?;
        let complete = slot.is_complete();
        let DealtReading { slot, attempt, ciphertext, corrections, .. } = reading;
        let corrections = corrections.into();
        self.outputs.push_back(Output::Persist(Record::Dealt { slot, attempt, member, ciphertext, corrections }));
        Ok(complete.then_some(slot))
    }

    /// A reveal, or a holder's answer.
    fn revealed(&mut self, topic: &str, meter: &str, payload: &[u8]) -> Result<Option<Slot>, Rejection> {
        let envelope = Mac0::decode(payload)?;
        if wire::kind(envelope.payload())? == Answer::KIND {
            self.answer(&envelope, topic, meter)
        } else {
            self.reveal(&envelope, topic, meter)
        }
    }

    fn answer(&mut self, envelope: &Mac0<'_>, topic: &str, meter: &str) -> Result<Option<Slot>, Rejection> {
        let answer = Answer::decode(envelope.payload())?;
        if self.watched.contains_key(&answer.slot) {
            return self.late_answer(envelope, &answer, topic, meter).map(|()| None);
        }
        let slot = self.open_slot(answer.slot)?;
        let member = slot.authenticate(envelope, topic, meter, &answer.list)?;
        slot.accept_answer(member, &answer)?;
        let complete = slot.is_complete();
        let Answer { slot, attempt, sum, .. } = answer;
        self.outputs.push_back(Output::Persist(Record::Answer { slot, attempt, member, sum }));
        Ok(complete.then_some(slot))
    }

    fn reveal(&mut self, envelope: &Mac0<'_>, topic: &str, meter: &str) -> Result<Option<Slot>, Rejection> {
        let reveal = Reveal::decode(envelope.payload())?;
        let slot = self.open_slot(reveal.slot)?;
        let member = slot.authenticate(envelope, topic, meter, &reveal.list)?;
        slot.accept_reveal(member, &reveal)?;
        let complete = slot.is_complete();
        let Reveal { slot, attempt, revealed, .. } = reveal;
        self.outputs.push_back(Output::Persist(Record::Reveal { slot, attempt, member, revealed }));
        Ok(complete.then_some(slot))
    }

    fn enrolment(&mut self, meter: &str, payload: &[u8], now: Timestamp) -> Result<(), Rejection> {
        if self.roster.heard_again(meter, payload) {
            return Err(Rejection::Duplicate);
        }
        let (envelope, _) = Sign1::decode_certified(payload).map_err(EnrolmentError::from)?;
        let statement = EnrolmentStatement::decode(envelope.payload()).map_err(EnrolmentError::from)?;
        if statement.not_before > now.as_secs().saturating_add(MAX_AHEAD_SECONDS) {
            return Err(Rejection::DatedAhead);
        }
        self.allowance.take(meter, now)?;
        let enrolment = Enrolment::verify(payload, &self.config.cluster, &self.config.authorities)?;
        if enrolment.id().as_str() != meter {
            return Err(Rejection::BadSignature);
        }
        self.admit(enrolment, now)?;
        self.set_list_timer();
        Ok(())
    }

    pub(super) fn admit(&mut self, enrolment: Enrolment, now: Timestamp) -> Result<(), Rejection> {
        let (meter, bytes) = (enrolment.id().clone(), enrolment.bytes().into());
        self.roster.admit(enrolment, now)?;
        self.outputs.push_back(Output::Persist(Record::Enrolment { meter, bytes }));
        Ok(())
    }

    fn status(&mut self, topic: &str, meter: &str, payload: &[u8], now: Timestamp) -> Result<(), Rejection> {
        let envelope = Sign1::decode(payload)?;
        let status = Status::decode(envelope.payload())?;
        let known = self.roster.get(meter).ok_or(Rejection::Unknown)?;
        self.allowance.take(meter, now)?;
        if status.cluster != self.config.cluster || !envelope.verifies(known.identity(), topic) {
            return Err(Rejection::BadSignature);
        }
        let proof = (status.code == StatusCode::Equivocation).then_some(&status.evidence);
        let proof = proof.map(|bytes| self.judge(bytes)).transpose()?;
        let (meter, code, slot) = (known.id().clone(), status.code, status.slot);
        let asking = meter.clone();
        let named = |own: &Arc<OwnList>| status.list.is_some_and(|hash| hash == own.list.hash().prefix());
        let epoch = self.lists.iter().find(|(_, own)| named(own)).map(|(&epoch, _)| epoch);
        self.note_epoch(&meter, status.newest_epoch, now);
        self.outputs.push_back(Output::Notice(Notice::MeterStatus { meter, code, epoch, slot }));
        if let Some(verdict) = proof {
            self.keep_evidence(verdict, &status.evidence);
        }
        self.note_malicious(asking, status.least_malicious, now);
        self.set_list_timer();
        Ok(())
    }

    fn judge(&self, bytes: &[u8]) -> Result<Verdict, EvidenceError> {
        let evidence = EvidenceStatement::decode(bytes)?;
        if evidence.cluster != self.config.cluster {
            return Err(EvidenceError::NoContradiction);
        }
        evidence::judge(&evidence, &self.config.authorities)
    }

    /// Keeps evidence of what was not known yet, and tells of it. The first pieces are kept: later ones show no more.
    fn keep_evidence(&mut self, verdict: Verdict, bytes: &[u8]) {
        let Verdict { gateway, contradiction, .. } = verdict;
        let known = self.evidence.iter().any(|(known, _)| *known == contradiction);
        let number = self.evidence_records;
        if known || number == EVIDENCE_KEPT {
            return;
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.evidence_records += 1;
        self.evidence.push((contradiction, bytes.clone()));
        self.outputs.push_back(Output::Persist(Record::Evidence { number, bytes }));
        self.outputs.push_back(Output::Notice(Notice::Proven { gateway, contradiction }));
    }

    /// Returns what members have proven against this cluster's gateways, each with its evidence.
    pub fn evidence(&self) -> &[(Contradiction, Arc<[u8]>)] {
        &self.evidence
    }

    fn open_slot(&mut self, slot: Slot) -> Result<&mut OpenSlot, Rejection> {
        if !self.slots.contains_key(&slot) {
            let mut covering = self.lists.values().filter(|own| own.list.covers(slot));
            let over = covering.any(|own| own.list.params().slot_end(slot) <= self.opened_until);
            return Err(if over { Rejection::SlotClosed } else { Rejection::SlotNotOpen });
        }
        self.slots.get_mut(&slot).ok_or(Rejection::SlotNotOpen)
    }

    /// Lets time act, which should have been at `due`: moves open slots on, opens those whose readings are due, forgets what
    /// is over.
    fn advance(&mut self, due: Timestamp, now: Timestamp, rng: &mut dyn CryptoRng) {
        if due.plus_secs(STALL_SECONDS) <= now {
            self.slots.values_mut().for_each(|open| open.allow_catching_up(now));
        }
        let open: Vec<Slot> = self.slots.keys().copied().collect();
        for slot in open {
            self.step(slot, now, rng);
        }
        while let Some((slot, own, opens)) = self.next_slot()
            && opens <= now
        {
            let ended = own.list.params().slot_end(slot);
            let mut open = OpenSlot::new(slot, own);
            if ended.plus_secs(STALL_SECONDS) <= now {
                open.allow_catching_up(now);
            }
            self.opened_until = ended;
            self.slots.insert(slot, open);
            self.step(slot, now, rng);
        }
        self.report_holders(now);
        self.forget_lists(now);
        self.set_timers();
    }

    /// Sets every timer anew.
    fn set_timers(&mut self) {
        self.set_slot_timer();
        self.timers.set(Timer::NextSlot, self.next_slot().map(|(_, _, opens)| opens));
        self.set_list_timer();
    }

    fn set_slot_timer(&mut self) {
        self.timers.set(Timer::OpenSlots, self.slots.values().map(OpenSlot::deadline).min());
        self.timers.set(Timer::Holders, self.watched.values().map(|watch| watch.until).min());
    }

    fn set_list_timer(&mut self) {
        self.timers.set(Timer::List, self.list_deadline());
    }

    /// Moves one slot on as far as it goes.
    fn step(&mut self, slot: Slot, now: Timestamp, rng: &mut dyn CryptoRng) {
        while let Some(open) = self.slots.get_mut(&slot) {
            let left = self.retries.left(slot, open.list().params(), &self.config);
            let (config, roster, offenders) = (&self.config, &self.roster, &mut self.offenders);
            match open.step(now, &mut Judges { config, roster, offenders, left, rng }) {
                Step::Wait => break,
                Step::Request { attempt, bytes, notices } => {
                    let ended = open.ends();
                    // The coin that the request shows is known before it is: a bet on it is never lost.
                    self.persist_offenders();
                    self.outputs.push_back(Output::Persist(Record::Request { slot, attempt, bytes: bytes.clone() }));
                    self.broadcast(GatewayChannel::Recovery, bytes);
                    self.outputs.extend(notices.into_iter().map(Output::Notice));
                    self.outputs.push_back(Output::Notice(Notice::Requested { slot, attempt, ended }));
                }
                Step::Retry { attempt, bytes, ended } => {
                    self.outputs.push_back(Output::Persist(Record::Retry { slot, attempt, bytes: bytes.clone() }));
                    if self.retries.spend(slot, open.list().params(), &self.config) {
                        self.outputs.push_back(Output::Persist(Record::Retries(Box::new(self.retries.clone()))));
                    }
                    self.broadcast(GatewayChannel::Retry, bytes);
                    if let Some(ended) = ended {
                        self.learn(&ended, now, rng);
                    }
                }
                Step::Repeat { channel, bytes } => self.broadcast(channel, bytes),
                // Without a connection nobody could be heard.
                Step::Close(Err(Failure::TooManyMissing)) if self.listening.is_none() => {
                    self.close(slot, Err(Failure::Interrupted), now, rng);
                }
                Step::Close(result) => self.close(slot, result, now, rng),
            }
        }
        self.set_slot_timer();
    }

    fn broadcast(&mut self, channel: GatewayChannel, payload: Arc<[u8]>) {
        self.outputs.push_back(Output::Publish { channel, payload });
    }

    fn close(&mut self, slot: Slot, result: Result<Aggregate, Failure>, now: Timestamp, rng: &mut dyn CryptoRng) {
        let Some(open) = self.slots.remove(&slot) else { return };
        let outcome = open.outcome(result);
        self.outputs.push_back(Output::Persist(Record::Outcome(outcome)));
        self.outputs.push_back(Output::Forget(Forget::Slot(slot)));
        self.outputs.push_back(Output::Closed(outcome));
        // A slot that the gateway missed says nothing of the members.
        let missed = result == Err(Failure::Interrupted);
        let dropped = if missed { Vec::new() } else { self.roster.count_silence(&open, now) };
        if let Some(members) = u16::try_from(dropped.len()).ok().filter(|&members| members > 0) {
            self.outputs.extend(dropped.into_iter().map(|meter| Output::Forget(Forget::Enrolment(meter))));
            self.outputs.push_back(Output::Notice(Notice::Dropped { members }));
        }
        if !missed {
            self.readmit(&open, now);
        }
        if let Some(ended) = open.ended().filter(|_| !missed) {
            self.learn(&ended, now, rng);
        }
        if let Some(watch) = open.into_watch(now) {
            self.watched.insert(slot, watch);
            self.report_holders(now);
        }
        if self.offenders.end_exclusions(slot, now) {
            self.roster.change(now);
            self.persist_offenders();
        }
        self.set_list_timer();
    }

    /// Learns from an attempt who spoils slots. Without a connection nobody could be heard.
    fn learn(&mut self, ended: &Attempt, now: Timestamp, rng: &mut dyn CryptoRng) {
        if self.listening.is_none() {
            return;
        }
        let left = self.retries.left(ended.slot, ended.list().params(), &self.config);
        let notices = self.offenders.observe(ended, &self.config, left, now, rng);
        self.persist_offenders();
        let other_list =
            |notice: &Notice| matches!(notice, Notice::LeftOutOfLists { .. } | Notice::SearchesByLists { .. });
        if notices.iter().any(other_list) {
            self.roster.change(now);
        }
        self.list_is_urgent |= notices.iter().any(|notice| matches!(notice, Notice::SearchesByLists { .. }));
        self.outputs.extend(notices.into_iter().map(Output::Notice));
    }

    fn persist_offenders(&mut self) {
        if self.offenders.take_changed() {
            self.outputs.push_back(Output::Persist(Record::Offenders(Box::new(self.offenders.clone()))));
        }
    }

    /// Takes dropped members back that were heard in a slot, from the entries of its list: nobody else would say that they
    /// are there, because they are listed and see no reason to enrol.
    fn readmit(&mut self, slot: &OpenSlot, now: Timestamp) {
        let absent = slot.heard().zip(0..).filter(|((member, heard), _)| *heard && self.roster.may_return(member.id()));
        let absent: Vec<usize> = absent.map(|(_, index)| index).collect();
        if absent.is_empty() {
            return;
        }
        let known = slot.list().members();
        let returned = absent.into_iter().filter(|&index| self.admit(known[index].clone(), now).is_ok()).count();
        if let Some(members) = u16::try_from(returned).ok().filter(|&members| members > 0) {
            self.outputs.push_back(Output::Notice(Notice::Readmitted { members }));
        }
    }

    /// Says again what a new connection may have lost: open requests and retries now, the newest list if it turns out that
    /// the broker has lost it.
    fn say_again(&mut self, now: Timestamp, rng: &mut dyn CryptoRng) {
        self.listening = Some(now.plus_secs(RETAINED_SECONDS));
        self.set_list_timer();
        let open: Vec<Slot> = self.slots.keys().copied().collect();
        for slot in open {
            if let Some(open) = self.slots.get_mut(&slot) {
                open.broadcast_now(now);
            }
            self.step(slot, now, rng);
        }
    }

    fn restore(&mut self, mut records: Vec<Record>, now: Timestamp) {
        records.sort_by_key(Record::key);
        for record in records {
            match record {
                Record::Enrolment { meter, bytes } => self.reopen_enrolment(meter, bytes, now),
                Record::List(list) => self.reopen_list(&list),
                Record::Offenders(offenders) => self.offenders = *offenders,
                Record::Retries(retries) => self.retries = *retries,
                // One whose authority was removed proves nothing any more.
                Record::Evidence { number, bytes } => {
                    self.evidence_records = self.evidence_records.max(number.saturating_add(1)).min(EVIDENCE_KEPT);
                    self.evidence.extend(self.judge(&bytes).ok().map(|verdict| (verdict.contradiction, bytes)));
                }
                Record::Outcome(outcome) => {
                    self.opened_until = self.opened_until.max(outcome.end);
                    // It sorts after the slot's entries; a crash came before they were forgotten.
                    if self.slots.get(&outcome.slot).is_some_and(|open| open.ends() == outcome.end) {
                        self.slots.remove(&outcome.slot);
                        self.outputs.push_back(Output::Forget(Forget::Slot(outcome.slot)));
                    }
                }
                Record::Retry { slot, .. }
                | Record::Reading { slot, .. }
                | Record::Dealt { slot, .. }
                | Record::Answer { slot, .. }
                | Record::Request { slot, .. }
                | Record::Reveal { slot, .. } => self.reopen_slot(slot, &record),
            }
        }
        self.slots.values_mut().for_each(|open| open.allow_catching_up(now));
        // The configuration may have changed meanwhile.
        self.roster.change(now);
        let away: BTreeSet<&MeterId> = self.offenders.search().away().collect();
        let unwanted = |meter: &MeterId| !self.roster.allows(meter) || away.contains(meter);
        let names_one = |own: &Arc<OwnList>| own.list.members().iter().any(|member| unwanted(member.id()));
        self.list_is_urgent = self.newest_own().is_some_and(names_one);
    }

    /// Replays an entry of an open slot. One without a list cannot be opened and is forgotten.
    fn reopen_slot(&mut self, slot: Slot, record: &Record) {
        if !self.slots.contains_key(&slot) {
            let Some(own) = self.lists.values().rev().find(|own| own.list.covers(slot)).cloned() else {
                self.outputs.push_back(Output::Forget(Forget::Slot(slot)));
                return;
            };
            self.opened_until = self.opened_until.max(own.list.params().slot_end(slot));
            self.slots.insert(slot, OpenSlot::new(slot, own));
        }
        if let Some(open) = self.slots.get_mut(&slot) {
            open.replay(record);
        }
    }
}
