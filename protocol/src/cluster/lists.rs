//! The lists a gateway publishes: when a new one is formed, of whom, and the keys it holds under each.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rand_core::CryptoRng;

use super::offenders::Limits;
use super::{CannotForm, Cluster, ClusterConfig, Forget, ListRecord, Notice, Output, Record, Rejection};
use crate::certificate::Signatures;
use crate::derive::{self, sha256};
use crate::enrolment::{Enrolment, MAX_AHEAD_SECONDS};
use crate::ids::MeterId;
use crate::keys::{AgreementSecret, ListHash, MacKey, StreamKey};
use crate::membership::{self, ListError, MAX_LIST_AHEAD_SECONDS, MembershipList, fewest_of};
use crate::params::{Params, ParamsError, Share, Terms};
use crate::policy::Floors;
use crate::protection::{GATEWAY_PERIOD, Protection};
use crate::scheme::committee::{self, NoCommittee};
use crate::scheme::{COMMITTEE_FROM, Kind, Scheme, SchemeChoice};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::{FullList, ListStatement, Mac0};

/// How many slots before its first one a list is published.
const LEAD_SLOTS: u64 = 2;

/// The least time between two publications of one list: somebody else may publish on its topic, and go on doing so.
const RESTORE_SECONDS: u64 = 60;

/// What a message on the membership topic turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakeOver {
    /// The newest list, as it was published here.
    Ours,
    /// A list that is ahead, and was taken over.
    Ahead,
    /// An earlier list of this gateway's.
    Behind,
}

/// A published list with the gateway's keys under it.
pub(super) struct OwnList {
    pub(super) list: Arc<MembershipList>,
    /// What members get that need the holders only.
    pub(super) short: Arc<[u8]>,
    published_at: Timestamp,
    keys: Vec<(StreamKey, MacKey)>,
}

impl OwnList {
    /// `None` if an X25519 result is not contributory, which a sound list rules out.
    fn new(list: Arc<MembershipList>, secret: &AgreementSecret, published_at: Timestamp) -> Option<Self> {
        let keys = list.members().iter().map(|member| {
            let shared = secret.agree(member.agreement())?;
            Some(derive::gateway_keys(list.hash(), &shared, list.cluster(), member.id()))
        });
        Some(Self { keys: keys.collect::<Option<_>>()?, short: list.shortened().into(), list, published_at })
    }

    /// S_i and A_i of a member of this list.
    pub(super) fn member_keys(&self, member: u16) -> (&StreamKey, &MacKey) {
        let (stream, mac) = &self.keys[usize::from(member)];
        (stream, mac)
    }

    /// The member who made a message, if its list and its tag are right.
    pub(super) fn authenticate(
        &self,
        envelope: &Mac0<'_>,
        topic: &str,
        meter: &str,
        list: &[u8; 8],
    ) -> Result<u16, Rejection> {
        if *list != self.list.hash().prefix() {
            return Err(Rejection::OtherList);
        }
        let member = self.list.index_of(meter).ok_or(Rejection::NotAMember)?;
        let (_, mac) = self.member_keys(member);
        if envelope.verifies(mac, topic) { Ok(member) } else { Err(Rejection::BadMac) }
    }

    /// A list is renewed in the last quarter of its life, and in time for the next to be published ahead. One that could
    /// not be renewed is tried again when the members change.
    fn renewal(&self) -> Timestamp {
        let (from, to) = (self.list.from_slot(), self.list.to_slot());
        let early = ((to.0 - from.0 + 1) / 4).max(LEAD_SLOTS + 1);
        self.list.params().slot_start(Slot((to.0 + 1).saturating_sub(early)))
    }

    fn starts(&self) -> Timestamp {
        self.list.params().slot_start(self.list.from_slot())
    }

    fn ends(&self) -> Timestamp {
        self.list.params().slot_end(self.list.to_slot())
    }
}

impl fmt::Debug for OwnList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnList").field("epoch", &self.list.epoch()).finish_non_exhaustive()
    }
}

impl ClusterConfig {
    /// The terms of a list of so many members.
    pub(super) fn params_for(&self, members: u16) -> Result<Params, ParamsError> {
        self.terms.for_members(members, self.missing_share, self.malicious_share, self.floors.malicious)
    }

    /// The terms of a list of so many members that allows for at least so many malicious ones, as far as enough honest ones are
    /// left.
    fn params_keeping(&self, members: u16, malicious: u16) -> Result<Params, ParamsError> {
        let params = self.params_for(members)?;
        let most = members.saturating_sub(params.max_missing()).saturating_sub(self.floors.honest);
        let kept = malicious.min(most);
        if kept <= params.max_malicious() {
            return Ok(params);
        }
        Params::new(members.into(), Terms { max_malicious: kept.into(), ..*params.terms() })
    }

    /// Returns the parameters of a list of these members from a slot on, and who of them are holders. Where a committee was
    /// preferred and cannot be formed, says why.
    fn params_of(
        &self,
        members: &[Enrolment],
        malicious: u16,
        from_slot: Slot,
    ) -> Result<(Params, Vec<u16>, Option<NoCommittee>), CannotForm> {
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let pairwise = || Ok((self.params_keeping(count, malicious)?, Vec::new(), None));
        match self.scheme {
            SchemeChoice::Only(Kind::Pairwise) => pairwise(),
            SchemeChoice::Auto if count < COMMITTEE_FROM => pairwise(),
            SchemeChoice::Only(Kind::Committee) => {
                let (params, holders) =
                    self.committee_of(members, self.params_keeping(count, malicious)?, from_slot)?;
                Ok((params, holders, None))
            }
            SchemeChoice::Auto => match self.committee_of(members, self.params_keeping(count, malicious)?, from_slot) {
                Ok((params, holders)) => Ok((params, holders, None)),
                Err(CannotForm::Committee(reason)) => {
                    Ok((self.params_keeping(count, malicious)?, Vec::new(), Some(reason)))
                }
                Err(CannotForm::Params(_)) => pairwise(),
                Err(other) => Err(other),
            },
        }
    }

    /// Whether a list with these parameters says what this gateway would say, whose parameters are those in the pairwise
    /// scheme. A committee is drawn anew with the next list, not before.
    fn would_say(&self, pairwise: &Params, found: &Params) -> bool {
        let kind = found.terms().scheme.kind();
        let expected = match kind {
            Kind::Pairwise => *pairwise.terms(),
            Kind::Committee => {
                Terms { scheme: found.terms().scheme, attempts: self.committee_attempts, ..*pairwise.terms() }
            }
        };
        let allowed = self.scheme == SchemeChoice::Auto || self.scheme == SchemeChoice::Only(kind);
        allowed && expected == *found.terms()
    }

    /// Draws the committee of a list of these members, whose parameters are those in the pairwise scheme.
    fn committee_of(
        &self,
        members: &[Enrolment],
        pairwise: Params,
        from_slot: Slot,
    ) -> Result<(Params, Vec<u16>), CannotForm> {
        let count = pairwise.members();
        let day = committee::day_of(pairwise.slot_start(from_slot).as_secs());
        let willing = members.iter().filter(|member| member.is_willing(count));
        let draws: Vec<Option<u64>> = willing.map(|member| member.sigma(day)).collect();
        let committee = committee::choose(count, pairwise.max_malicious(), &draws, self.may_draw)?.committee;
        let terms =
            Terms { scheme: Scheme::Committee(committee), attempts: self.committee_attempts, ..*pairwise.terms() };
        let params = Params::new(count.into(), terms)?;
        Ok((params, membership::holders_of(&params, from_slot, members)))
    }

    /// Whether a list of so many members, which allows for so many malicious ones, is one that this gateway forms and its meters
    /// accept. `size` is the largest number of meters that a member's certificate says the cluster has.
    pub(super) fn allows(&self, members: u16, malicious: u16, size: Option<u16>) -> bool {
        let sound = |params: Params| params.max_malicious() >= malicious && self.floors.allow(&params);
        members >= self.roster.min_members
            && members >= size.map_or(0, fewest_of)
            && self.params_keeping(members, malicious).is_ok_and(sound)
    }
}

impl ClusterConfig {
    /// The configuration for a list of so many, of whom as many may be missing as any scheme allows, while a search for several
    /// liars goes on. T is that of a list of everybody.
    fn widened(&self, members: u16, malicious: u16) -> Option<Self> {
        let count = u32::from(members);
        let most = (count / 5).min(count.saturating_sub(u32::from(malicious) + 1) / 4);
        let usual = self.params_for(members).map_or(0, |params| params.max_missing().into());
        let floors = Floors { malicious: malicious.max(self.floors.malicious), ..self.floors };
        Some(Self { missing_share: Share::new(most.max(usual), count)?, floors, ..self.clone() })
    }

    /// Returns what lists may do for a search in the cluster of a list and of those who are away from it.
    pub(super) fn search_limits(&self, list: &MembershipList, away: usize) -> Limits {
        let listed = list.params().members();
        let everybody = listed.saturating_add(u16::try_from(away).unwrap_or(u16::MAX));
        let Ok(all) = self.params_for(everybody) else { return Limits { max_missing: 0, away: 0 } };
        if list.params().terms().scheme.kind() == Kind::Pairwise {
            return Limits { max_missing: all.max_missing(), away: 0 };
        }
        let malicious = all.max_malicious().max(list.params().max_malicious());
        let willing = list.members().iter().filter(|member| member.is_willing(everybody)).count();
        let size = list.members().iter().filter_map(Enrolment::certified_size).max();
        let works = |members: u16| {
            let willing = (willing * usize::from(members) / usize::from(listed).max(1)) as u64;
            let spread = |place: u64| u64::try_from((u128::from(2 * place + 1) << 64) / u128::from(2 * willing.max(1)));
            let draws: Vec<Option<u64>> = (0..willing).map(|place| spread(place).ok()).collect();
            let forms = committee::choose(members, malicious, &draws, self.may_draw).is_ok();
            forms && self.widened(members, malicious).is_some_and(|config| config.allows(members, malicious, size))
        };
        let (mut shortest, mut too_short) = (everybody, everybody / 2);
        while shortest > too_short + 1 {
            let middle = u16::midpoint(shortest, too_short);
            *(if works(middle) { &mut shortest } else { &mut too_short }) = middle;
        }
        Limits { max_missing: all.max_missing(), away: (everybody - shortest).into() }
    }
}

impl Cluster {
    /// The list in force at an instant: the highest epoch that covers it.
    pub(super) fn in_force_at(&self, at: Timestamp) -> Option<&Arc<OwnList>> {
        self.lists.values().rev().find(|own| own.starts() <= at && at < own.ends())
    }

    /// The next slot to open, its list, and the moment: its end, less the tolerated clock skew.
    pub(super) fn next_slot(&self) -> Option<(Slot, Arc<OwnList>, Timestamp)> {
        let next = self.lists.values().filter_map(|own| {
            let params = own.list.params();
            let reached = params.slot_at(self.opened_until.plus_secs(params.terms().slot_seconds - 1));
            let slot = reached.max(own.list.from_slot());
            let start = params.slot_start(slot);
            let in_force = self.in_force_at(start).is_some_and(|force| Arc::ptr_eq(force, own));
            let skew = self.config.clock_skew_seconds.min(params.terms().slot_seconds / 2);
            let opens = Timestamp::from_secs(params.slot_end(slot).as_secs() - skew);
            (in_force && own.list.covers(slot)).then(|| (slot, own.clone(), opens))
        });
        next.min_by_key(|(_, _, opens)| *opens)
    }

    /// Erases lists, and with them keys, after their last slot or once later ones cover all the rest. Of the newest, the
    /// list itself stays: the next one continues it.
    pub(super) fn forget_lists(&mut self, now: Timestamp) {
        let over = |(&epoch, own): (&u64, &Arc<OwnList>)| {
            let mut later = self.lists.range(epoch + 1..).map(|(_, later)| later);
            let replaced = later.any(|later| later.ends() >= own.ends() && later.starts() <= self.opened_until);
            let expired = own.list.params().slot_expiry(own.list.to_slot()) <= now;
            let open = self.slots.values().any(|slot| slot.epoch() == epoch);
            ((replaced || expired) && !open).then_some(epoch)
        };
        let ended: Vec<u64> = self.lists.iter().filter_map(over).collect();
        for epoch in ended {
            let Some(own) = self.lists.remove(&epoch) else { continue };
            self.outputs.push_back(match self.newest {
                Some((newest, _)) if newest == epoch => {
                    let bytes = own.list.bytes().clone();
                    Output::Persist(Record::List(ListRecord {
                        epoch,
                        published_at: own.published_at,
                        bytes,
                        secret: None,
                        protection: self.protection,
                    }))
                }
                Some(_) | None => Output::Forget(Forget::List(epoch)),
            });
        }
    }

    /// When a list should be formed, because members changed or the newest one runs out, or published again, because the
    /// broker has lost it. Never without a connection, nor before the retained list was seen.
    pub(super) fn list_deadline(&self) -> Option<Timestamp> {
        let listening = self.listening?;
        let again = (self.unseen || self.short_unseen).then_some(listening);
        self.forming_due().into_iter().chain(again).min().map(|due| due.max(listening))
    }

    fn forming_due(&self) -> Option<Timestamp> {
        let interval = if self.list_is_urgent { 0 } else { self.config.roster.min_interval_seconds };
        let change = self
            .roster
            .list_wanted()
            .map(|wanted| self.newest_published.map_or(wanted, |published| wanted.max(published.plus_secs(interval))));
        let renewal = self.lists.values().next_back().filter(|own| self.renewal_failed != Some(own.list.epoch()));
        change.into_iter().chain(renewal.map(|own| own.renewal())).min()
    }

    /// Forms a list if one is due, and publishes the newest again if the broker has lost it.
    pub(super) fn publish_lists(&mut self, now: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        if self.forming_due().is_some_and(|due| due <= now) {
            self.form_list(now, rng);
        }
        if std::mem::take(&mut self.short_unseen)
            && let Some(own) = self.newest_own()
        {
            let payload = own.short.clone();
            self.outputs.push_back(Output::Publish { channel: GatewayChannel::Membership, payload });
            self.last_sent = now;
        }
        if std::mem::take(&mut self.unseen)
            && let Some(own) = self.newest_own()
        {
            let payload = own.list.bytes().clone();
            self.outputs.push_back(Output::Publish { channel: GatewayChannel::FullMembership, payload });
            self.last_sent = now;
        }
    }

    /// Looks at the retained short list. It says nothing that the whole one does not say: anything but our own is replaced.
    pub(super) fn check_short_list(&mut self, found: &[u8], now: Timestamp) {
        let Some((own, (epoch, _))) = self.newest_own().zip(self.newest) else { return };
        if *own.short == *found {
            (self.short_unseen, self.short_confirmed) = (false, true);
        } else if self.listening.is_some() && std::mem::take(&mut self.short_confirmed) {
            self.short_unseen = true;
            self.listening = Some(now.max(self.last_sent.plus_secs(RESTORE_SECONDS)));
            self.outputs.push_back(Output::Notice(Notice::ListOverwritten { epoch, erased: found.is_empty() }));
        }
    }

    /// Publishes the newest list again when it turns out that somebody replaced it on the broker, or erased it. What comes
    /// before the list itself has come back is older than the list.
    pub(super) fn restore_retained(&mut self, found: &[u8], now: Timestamp) {
        let Some((epoch, _)) = self.newest.filter(|_| self.newest_own().is_some()) else { return };
        if self.listening.is_none() || !std::mem::take(&mut self.confirmed) {
            return;
        }
        self.unseen = true;
        self.listening = Some(now.max(self.last_sent.plus_secs(RESTORE_SECONDS)));
        self.outputs.push_back(Output::Notice(Notice::ListOverwritten { epoch, erased: found.is_empty() }));
    }

    fn form_list(&mut self, now: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        for meter in self.roster.expire(now) {
            self.outputs.push_back(Output::Forget(Forget::Enrolment(meter)));
        }
        self.roster.settled();
        match self.try_form_list(now, rng) {
            Ok(()) => self.renewal_failed = None,
            Err((members, reason)) => {
                self.renewal_failed = self.lists.keys().next_back().copied();
                self.outputs.push_back(Output::Notice(Notice::CannotForm { members, reason }));
            }
        }
    }

    fn try_form_list(&mut self, now: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) -> Result<(), (u16, CannotForm)> {
        let terms = &self.config.terms;
        let (previous_epoch, previous) = self.predecessor();
        let epoch = now.as_secs().max(previous_epoch + 1);
        // An epoch is never after the list's first slot: meters refuse lists that are too far ahead, and so no epoch is.
        let soonest = Slot(now.as_secs() / terms.slot_seconds).plus(LEAD_SLOTS);
        let from_slot = soonest.max(Slot(epoch.div_ceil(terms.slot_seconds)));
        let wanted = from_slot.plus(self.config.roster.list_slots.max(LEAD_SLOTS + 2) - 1);
        // In the last days of the gateway's certificate lists are as long as it lives.
        let to_slot = wanted.min(Slot((self.certificate.not_after() / terms.slot_seconds).saturating_sub(1)));
        let unsized_params =
            self.config.params_for(self.config.roster.min_members).map_err(|error| (0, error.into()))?;
        let eligible: Vec<Enrolment> =
            self.roster.eligible().filter(|known| known.covers(&unsized_params, from_slot, to_slot)).cloned().collect();
        let everybody = u16::try_from(eligible.len()).unwrap_or(u16::MAX);
        let malicious = self.malicious_of(everybody, now);
        let eligible = self.without_excluded(eligible, malicious);
        let (config, members) = self.for_search(eligible, malicious, from_slot);
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let denies = self.agreed_epoch().is_some();
        let unchanged = self.unchanged(&config, &members, malicious);
        if !denies && unchanged && self.newest_own().is_some_and(|own| now < own.renewal()) {
            return Ok(());
        }
        let certified = members.iter().filter_map(Enrolment::certified_size).max().map_or(0, fewest_of);
        let least = self.config.roster.min_members.max(certified);
        if count < least {
            return Err((count, CannotForm::TooFew { least }));
        }
        let (params, holders, no_committee) =
            config.params_of(&members, malicious, from_slot).map_err(|error| (count, error))?;
        let issuers: BTreeSet<_> = members.iter().map(|member| *member.authority()).collect();
        let secret = Arc::new(AgreementSecret::generate(rng));
        let statement = ListStatement {
            cluster: self.config.cluster.clone(),
            epoch,
            previous_epoch,
            previous,
            gateway: secret.public(),
            meter_authorities: issuers.into_iter().collect(),
            gateway_authority: self.certificate.authority,
            from_slot,
            to_slot,
            terms: *params.terms(),
            enrolments: members.iter().map(Enrolment::bytes).collect(),
            holders,
        };
        let topic = GatewayChannel::Membership.topic(&self.config.cluster);
        let bytes: Arc<[u8]> = statement.seal((&self.config.identity, &self.config.certificate), &topic).into();
        let protection = Some(self.protection_after(params.max_malicious(), now));
        let record = ListRecord { epoch, published_at: now, bytes: bytes.clone(), secret: Some(secret), protection };
        let before = self.newest.map(|(epoch, _)| epoch).filter(|epoch| !self.lists.contains_key(epoch));
        self.open_list(&record).map_err(|error| (count, error.into()))?;
        self.outputs.push_back(Output::Persist(Record::List(record)));
        self.outputs.extend(before.map(|epoch| Output::Forget(Forget::List(epoch))));
        if let Some(own) = self.newest_own() {
            let payload = own.short.clone();
            self.outputs.push_back(Output::Publish { channel: GatewayChannel::Membership, payload });
        }
        self.outputs.push_back(Output::Publish { channel: GatewayChannel::FullMembership, payload: bytes });
        self.reports.settle(denies, |reported| previous_epoch < reported && reported != epoch, now);
        self.list_is_urgent = false;
        self.asked.clear();
        (self.unseen, self.confirmed, self.last_sent) = (false, false, now);
        (self.short_unseen, self.short_confirmed) = (false, false);
        self.outputs.extend(no_committee.map(|reason| Output::Notice(Notice::NoCommittee(reason))));
        self.outputs.push_back(Output::Notice(Notice::ListPublished { epoch, members: count, from_slot, to_slot }));
        Ok(())
    }

    /// The epoch and hash that the next list names as those of the list before it. Where members know a later list than this
    /// gateway does, it names an epoch after that, of a list that it does not know: none of them can say that it is wrong.
    fn predecessor(&self) -> (u64, ListHash) {
        let (newest, hash) = self.newest.unwrap_or((0, ListHash::NONE));
        match self.agreed_epoch() {
            Some(reported) if reported > newest => (reported + 1, ListHash::NONE),
            Some(_) | None => (newest, hash),
        }
    }

    /// The newest epoch that enough members say they know, and that the newest list here denies.
    fn agreed_epoch(&self) -> Option<u64> {
        self.reports.agreed(self.roster.candidates())
    }

    /// Takes note of the newest epoch that a member knows. If the newest list here says that there was no such list, because
    /// this gateway lost its records, members refuse it: once enough of them say so another list follows, which they accept.
    pub(super) fn note_epoch(&mut self, meter: &MeterId, epoch: u64, now: Timestamp) {
        let newest = self.newest.map_or(0, |(newest, _)| newest);
        let previous = self.newest_own().map_or(newest, |own| own.list.previous_epoch());
        let ahead = epoch > now.as_secs().saturating_add(MAX_AHEAD_SECONDS);
        if epoch <= previous || epoch == newest || ahead {
            return;
        }
        self.reports.note(meter, epoch, now);
        if self.newest.is_some() && self.agreed_epoch().is_some() && self.roster.list_wanted().is_none() {
            self.roster.change(now);
        }
    }

    /// Returns the T of lists while so many members could be listed, some of whom a list may leave out. It is that of all of
    /// them, and no less than members accept after what the cluster had.
    fn malicious_of(&self, members: u16, now: Timestamp) -> u16 {
        let share = self.config.params_for(members).map_or(0, |params| params.max_malicious());
        let remembered = self.protection.map_or(0, |memory| memory.lowered(now, GATEWAY_PERIOD).least());
        share.max(remembered).max(self.asked_malicious())
    }

    /// The T that more than a tenth of the members, and at least three, ask for: fewer could be liars that want more noise.
    fn asked_malicious(&self) -> u16 {
        let mut asked: Vec<u16> = self.asked.values().copied().collect();
        asked.sort_unstable_by_key(|&malicious| std::cmp::Reverse(malicious));
        asked.get((self.roster.candidates() / 10).max(2)).copied().unwrap_or(0)
    }

    /// Returns what lists have allowed for after one with this T. Members that ask for it remember a step more.
    fn protection_after(&self, malicious: u16, now: Timestamp) -> Protection {
        let memory = self.protection.map(|memory| memory.lowered(now, GATEWAY_PERIOD).after(malicious, now));
        let memory = memory.unwrap_or_else(|| Protection::new(malicious, now));
        let asked = self.asked_malicious().min(malicious);
        if memory.least() < asked { Protection::of_least(asked, now) } else { memory }
    }

    /// Takes note of the least T that a member accepts. A gateway that lost its records states less, and members refuse that:
    /// another list follows once enough of them have said so.
    pub(super) fn note_malicious(&mut self, meter: MeterId, malicious: u16, now: Timestamp) {
        self.asked.insert(meter, malicious);
        let Some(newest) = self.newest_own().map(|own| *own.list.params()) else { return };
        let wanted = self.config.params_keeping(newest.members(), self.asked_malicious());
        if wanted.is_ok_and(|wanted| wanted.max_malicious() > newest.max_malicious()) {
            self.roster.change(now);
        }
    }

    /// Leaves out who is to be left out of lists, as long as enough members remain.
    fn without_excluded(&self, mut members: Vec<Enrolment>, malicious: u16) -> Vec<Enrolment> {
        for meter in self.offenders.excluded() {
            let fewer = u16::try_from(members.len().saturating_sub(1)).unwrap_or(u16::MAX);
            let others = members.iter().filter(|known| known.id() != meter);
            if self.config.allows(fewer, malicious, others.filter_map(Enrolment::certified_size).max()) {
                members.retain(|known| known.id() != meter);
            }
        }
        members
    }

    /// Returns what the search asks of the next list: that more of its members may be missing, and that some are left out of
    /// it, as many as leave a committee with everybody's T.
    fn for_search(&self, eligible: Vec<Enrolment>, malicious: u16, from_slot: Slot) -> (ClusterConfig, Vec<Enrolment>) {
        let search = self.offenders.search();
        let everybody = u16::try_from(eligible.len()).unwrap_or(u16::MAX);
        if !search.wants_wide_lists() {
            return (self.config.clone(), eligible);
        }
        let away: Vec<&MeterId> = search.away().collect();
        for quarters in (1..=4).rev() {
            let away: BTreeSet<&MeterId> = away.iter().take(away.len() * quarters / 4).copied().collect();
            let members: Vec<Enrolment> = eligible.iter().filter(|known| !away.contains(known.id())).cloned().collect();
            let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
            let size = members.iter().filter_map(Enrolment::certified_size).max();
            let allowed = |config: &ClusterConfig| config.allows(count, malicious, size);
            let Some(config) = self.config.widened(count, malicious).filter(allowed) else { continue };
            let formed = || config.params_of(&members, malicious, from_slot);
            let committee = || formed().is_ok_and(|(_, holders, _)| !holders.is_empty());
            if away.is_empty() || committee() {
                return (config, members);
            }
        }
        let allowed = |config: &ClusterConfig| config.allows(everybody, malicious, None);
        let config = self.config.widened(everybody, malicious).filter(allowed);
        (config.unwrap_or_else(|| self.config.clone()), eligible)
    }

    /// The newest list, if it was published here and is not over.
    pub(super) fn newest_own(&self) -> Option<&Arc<OwnList>> {
        self.newest.and_then(|(epoch, _)| self.lists.get(&epoch))
    }

    /// Whether a list of these members would say what the newest one says.
    fn unchanged(&self, config: &ClusterConfig, members: &[Enrolment], malicious: u16) -> bool {
        self.newest_own().is_some_and(|own| {
            let listed = own.list.members().iter().map(|member| (member.id(), member.seq()));
            let count = own.list.params().members();
            *own.list.gateway_identity() == self.config.identity.public()
                && config
                    .params_keeping(count, malicious)
                    .is_ok_and(|params| config.would_say(&params, own.list.params()))
                && listed.eq(members.iter().map(|known| (known.id(), known.seq())))
        })
    }

    /// Checks everything of a list but its signatures, which were checked when the members enrolled, and holds it.
    fn open_list(&mut self, record: &ListRecord) -> Result<(), ListError> {
        let ClusterConfig { cluster, authorities, .. } = &self.config;
        let list = MembershipList::read(&record.bytes, cluster, authorities, Signatures::Stored)?;
        // A record that leaves an epoch out is followed by a list that names no list before it.
        let newest = (record.epoch, if record.epoch == list.epoch() { *list.hash() } else { ListHash::NONE });
        // Requests verify under the key that signed the list: with another one its slots cannot be recovered.
        let ours = *list.gateway_identity() == self.config.identity.public();
        if let Some(secret) = record.secret.as_ref().filter(|_| ours) {
            let own = OwnList::new(list, secret, record.published_at).ok_or(ListError::LowOrder)?;
            self.roster.keep_in(&own.list);
            self.lists.insert(record.epoch, Arc::new(own));
        }
        if self.newest.is_none_or(|(epoch, _)| epoch < newest.0) {
            self.newest = Some(newest);
            self.protection = record.protection;
            // A list that was taken over cannot be opened here: its successor need not wait.
            self.newest_published = record.secret.as_ref().map(|_| record.published_at);
        }
        Ok(())
    }

    /// Takes a list from the gateway's own records. One that can no longer be used, because an authority was removed,
    /// still says which epoch and hash the next one continues: meters know them.
    pub(super) fn reopen_list(&mut self, record: &ListRecord) {
        if self.open_list(record).is_ok() {
            return;
        }
        let Ok((envelope, header)) = FullList::header_of(&record.bytes) else {
            return self.outputs.push_back(Output::Forget(Forget::List(record.epoch)));
        };
        if self.newest.is_none_or(|(epoch, _)| epoch < record.epoch) {
            let hash = ListHash(sha256(envelope.payload()));
            self.newest = Some((record.epoch, if record.epoch == header.epoch { hash } else { ListHash::NONE }));
            self.protection = record.protection;
            self.newest_published = None;
        }
        if record.secret.is_some() {
            self.outputs.push_back(Output::Persist(Record::List(ListRecord { secret: None, ..record.clone() })));
        }
    }

    /// Takes an enrolment from the gateway's own records; one that the rules no longer allow is forgotten.
    pub(super) fn reopen_enrolment(&mut self, meter: MeterId, bytes: Arc<[u8]>, now: Timestamp) {
        let ClusterConfig { cluster, authorities, .. } = &self.config;
        let known = Enrolment::own(bytes, cluster, authorities, Signatures::Stored).ok();
        if known.and_then(|known| self.roster.admit_again(known, now).ok()).is_none() {
            self.outputs.push_back(Output::Forget(Forget::Enrolment(meter)));
        }
    }

    /// Looks at the retained list. If it is ahead of our own - the cluster moved here, or the store was restored from a
    /// back-up - its epoch and its members are taken over, and the next epoch is ours.
    pub(super) fn take_over(&mut self, payload: &[u8], now: Timestamp) -> Result<TakeOver, Rejection> {
        if self.newest_own().is_some_and(|own| **own.list.bytes() == *payload) {
            (self.unseen, self.confirmed) = (false, true);
            return Ok(TakeOver::Ours);
        }
        let known = self.lists.values().map(|own| &*own.list);
        let list = MembershipList::verify_after(known, payload, &self.config.cluster, &self.config.authorities)?;
        if Some(list.gateway()) != self.certificate.gateway().ok() {
            return Err(Rejection::OtherGateway);
        }
        // Meters refuse it too: nobody is led to use up epochs.
        if now.plus_secs(MAX_LIST_AHEAD_SECONDS) < list.params().slot_start(list.from_slot()) {
            return Err(Rejection::TooFarAhead);
        }
        let (epoch, hash) = (list.epoch(), *list.hash());
        let (newest, hash) = match self.newest {
            Some((newest, ours)) if epoch < newest || (epoch == newest && hash == ours) => {
                return Ok(TakeOver::Behind);
            }
            // Two gateways with one identity made an epoch each: leave one out, so that both halves accept the next.
            Some((newest, _)) if epoch == newest => (epoch + 1, ListHash::NONE),
            Some(_) | None => (epoch, hash),
        };
        let before = self.newest.map(|(epoch, _)| epoch).filter(|epoch| !self.lists.contains_key(epoch));
        self.outputs.extend(before.map(|epoch| Output::Forget(Forget::List(epoch))));
        self.newest = Some((newest, hash));
        self.protection = Some(self.protection_after(list.params().max_malicious(), now));
        let (bytes, protection) = (list.bytes().clone(), self.protection);
        let record = ListRecord { epoch: newest, published_at: now, bytes, secret: None, protection };
        self.outputs.push_back(Output::Persist(Record::List(record)));
        for enrolment in list.members() {
            // One that is older than the known one, or denied, is rightly left out.
            self.admit(enrolment.clone(), now).ok();
        }
        self.newest_published = None;
        self.roster.change(now);
        self.outputs.push_back(Output::Notice(Notice::TakenOver { epoch }));
        Ok(TakeOver::Ahead)
    }
}
