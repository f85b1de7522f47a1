//! A cluster that this gateway serves: its state machine, and what may be shown of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dream_filter::Profile;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{Cluster, ClusterConfig, ClusterError, Key, Notice, Record};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::membership::MembershipList;
use dream_protocol::time::Timestamp;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::board::energy::EnergyView;
use crate::board::evidence::EvidenceView;
use crate::board::holders::{HolderJson, HoldersView};
use crate::board::offenders::OffenderCounts;
use crate::board::{ClusterView, ENDING_SECONDS, ListView, Spent};
use crate::clock::Zone;
use crate::config::ClusterSettings;
use crate::config::secrets::GatewayIdentity;
use crate::engine::cluster_filter::ClusterFilter;
use crate::engine::energy::RunningEnergy;
use crate::engine::holders::HolderTally;
use crate::engine::parts::Parts;
use crate::engine::statuses::Statuses;
use crate::history::{ClosedSlot, HistoryError};
use crate::store::{Change, Store, StoreError};

/// Why a cluster cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("the cluster `{cluster}` cannot be served: {error}")]
    Cluster { cluster: ClusterId, error: ClusterError },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// A cluster with its state machine, its filter, and what the board shows of it.
#[derive(Debug)]
pub struct ServedCluster {
    pub id: ClusterId,
    pub settings: ClusterSettings,
    pub machine: Cluster,
    /// When to tick next; stored because it is also the key in the driver's queue.
    pub next_tick: Timestamp,
    /// Whom the records name, for the driver's index to take.
    pub meters: Vec<MeterId>,
    /// Whether something happened since the board was last written.
    pub changed: bool,
    /// Whether a message was handled since `next_tick` was worked out.
    pub touched: bool,
    /// Whether a foreign list was met, which is logged once.
    pub foreign_list: bool,
    /// Whether a message of an earlier format was met, which is logged once.
    pub earlier_format: bool,
    pub last: Option<ClosedSlot>,
    last_decoded: Option<ClosedSlot>,
    spent: Spent,
    pub filter: ClusterFilter,
    energy: RunningEnergy,
    cannot_form: Option<String>,
    /// How the holders answered when they were last asked, and who did not.
    holders: Option<HoldersView>,
    tally: HolderTally,
    /// Why a list has no committee, by its epoch.
    no_committee: Option<(u64, Option<String>)>,
    statuses: Statuses,
    candidates: usize,
    evidence: Arc<[EvidenceView]>,
    /// Since when the cluster is served here.
    pub since: Timestamp,
}

impl ServedCluster {
    /// Rebuilds a cluster from the store, and what the store does not have from the one `before`, if it was served already.
    pub fn resume(
        id: &ClusterId,
        settings: &ClusterSettings,
        identity: &GatewayIdentity,
        clock_skew_seconds: u64,
        zone: &Zone,
        store: &dyn Store,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Result<Self, ServeError> {
        let config = ClusterConfig {
            cluster: id.clone(),
            identity: identity.key.clone(),
            certificate: identity.certificate.clone(),
            authorities: identity.authorities.clone(),
            terms: settings.terms,
            scheme: settings.scheme,
            committee_attempts: settings.committee_attempts,
            may_draw: !settings.profile.rules().certified_size,
            missing_share: settings.missing_share,
            malicious_share: settings.malicious_share,
            floors: settings.profile.floors(),
            budget: settings.profile.budget(),
            roster: settings.roster.clone(),
            clock_skew_seconds,
        };
        let records = store.records(id)?;
        let meter = |record: &Record| match record.key() {
            Key::Enrolment(meter) => Some(meter),
            Key::List(_) | Key::Slot(..) | Key::Outcome(_) | Key::Offenders | Key::Retries | Key::Evidence(_) => None,
        };
        let mut meters: Vec<MeterId> = records.iter().filter_map(meter).collect();
        let machine = Cluster::resume(config, records, now)
            .map_err(|error| ServeError::Cluster { cluster: id.clone(), error })?;
        // A list that was taken over may name others.
        let listed = machine.list_at(now).into_iter().chain(machine.newest_list());
        meters.extend(listed.flat_map(|list| list.members()).map(|member| member.id().clone()));
        let mut served = Self {
            id: id.clone(),
            meters,
            settings: settings.clone(),
            next_tick: machine.deadline().unwrap_or(NEVER),
            candidates: machine.candidates(),
            machine,
            changed: true,
            touched: false,
            foreign_list: false,
            earlier_format: false,
            last: None,
            last_decoded: None,
            spent: Spent::default(),
            filter: before.map_or_else(|| ClusterFilter::new(zone, &[]), |before| before.filter.clone()),
            energy: RunningEnergy::resume(store, id, zone)?,
            cannot_form: None,
            holders: before.and_then(|before| before.holders),
            tally: before.map(|before| before.tally.clone()).unwrap_or_default(),
            no_committee: None,
            statuses: before.map(|before| before.statuses.clone()).unwrap_or_default(),
            evidence: Arc::default(),
            since: before.map_or(now, |before| before.since),
        };
        // A crash may have come between an outcome and its announcement; it is announced from the store.
        let today = Timestamp::from_secs(now.utc_day() * 86_400);
        let of_today = store.slots(id, today.min(now)..NEVER, usize::MAX)?;
        of_today.iter().filter(|closed| closed.is_of_a_list()).for_each(|closed| served.spent.add(&closed.outcome));
        let recent = store.slots(id, Timestamp::from_millis(0)..NEVER, RECENT_SLOTS)?;
        served.last = recent.last().filter(|closed| closed.is_of_a_list()).copied();
        served.last_decoded = recent.iter().rfind(|closed| closed.is_decoded()).copied();
        if before.is_none() {
            let rows = served.energy.catch_up(store, &replayed(store, id, now)?, &mut served.filter)?;
            if !rows.is_empty() {
                tracing::info!(cluster = %id, rows = rows.len(), "rebuilt hours and days from the stored slots");
                store.commit(&rows)?;
            }
        }
        Ok(served)
    }

    /// Lets the filter of a cluster that knows little of its own days begin again, with what the others learned.
    pub fn begin_filter(
        &mut self,
        profiles: &[Profile],
        zone: &Zone,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<(), HistoryError> {
        if self.filter.is_new() && !profiles.is_empty() {
            self.filter = ClusterFilter::new(zone, profiles);
            self.filter.replay(&replayed(store, &self.id, now)?, |_, _| {});
        }
        Ok(())
    }

    /// Notes a closed slot, and returns it with its filtered load. What belongs to its outcome is added to `changes`: what the
    /// filter makes of it and of slots before it, its hour and its day.
    pub fn note_closed(&mut self, outcome: SlotOutcome, changes: &mut Vec<Change>) -> ClosedSlot {
        if let Some(list) = self.machine.list_at(outcome.start) {
            self.filter.expect_cut_off(self.settings.cut_off(list.params()));
        }
        let closed = self.filter.close(&self.id, outcome, changes);
        changes.extend(self.energy.close(&closed));
        self.changed = true;
        self.spent.add(&outcome);
        self.last = Some(closed);
        if outcome.result.is_ok() {
            self.last_decoded = Some(closed);
        }
        closed
    }

    /// Notes what the machine says.
    pub fn note(&mut self, notice: &Notice, now: Timestamp) {
        match notice {
            Notice::ListPublished { .. } => (self.cannot_form, self.changed) = (None, true),
            Notice::CannotForm { members, reason } => {
                self.cannot_form = Some(format!("{members} meters are enrolled, but {reason}"));
                self.changed = true;
            }
            Notice::MeterStatus { meter, code, epoch, .. } => {
                self.changed |= self.statuses.note(meter, *code, *epoch);
            }
            Notice::Holders(report) => {
                self.holders = Some(HoldersView::new(report, now));
                self.tally.note(report, now);
                self.changed = true;
            }
            Notice::Quarantined { .. }
            | Notice::Released { .. }
            | Notice::LeftOutOfLists { .. }
            | Notice::SearchStarted { .. }
            | Notice::SearchesByLists { .. }
            | Notice::Convicted { .. }
            | Notice::AtOdds { .. }
            | Notice::CannotBeFound
            | Notice::NoCommittee(_)
            | Notice::Proven { .. } => self.changed = true,
            Notice::Requested { .. }
            | Notice::TakenOver { .. }
            | Notice::Dropped { .. }
            | Notice::Readmitted { .. }
            | Notice::ListOverwritten { .. } => {}
        }
    }

    /// Notes that a reading of a meter was accepted.
    pub fn heard(&mut self, meter: &str, now: Timestamp) {
        if !self.statuses.is_empty() {
            let epoch = self.machine.list_at(now).map(|list| list.epoch());
            self.changed |= self.statuses.heard(meter, epoch);
        }
    }

    /// Returns which holders dropped out or contradicted others.
    pub fn named_holders(&self) -> Vec<HolderJson> {
        self.tally.named(&self.id)
    }

    /// Returns the energy so far of the hour, the day and the month of the last slot.
    pub fn energy(&self) -> Option<EnergyView> {
        self.energy.view()
    }

    /// Returns why a list has no committee although it is large enough for one, found out once for each list.
    fn why_no_committee(&mut self, list: &MembershipList) -> Option<String> {
        if let Some((epoch, known)) = &self.no_committee
            && *epoch == list.epoch()
        {
            return known.clone();
        }
        let why = self.settings.why_no_committee(list);
        self.no_committee = Some((list.epoch(), why.clone()));
        why
    }

    /// Returns what the board is to show, if that has changed since the last call.
    pub fn take_view(&mut self, now: Timestamp) -> Option<ClusterView> {
        let candidates = self.machine.candidates();
        if !std::mem::take(&mut self.changed) && candidates == self.candidates {
            return None;
        }
        self.candidates = candidates;
        if self.evidence.len() != self.machine.evidence().len() {
            self.evidence = EvidenceView::all(self.machine.evidence());
        }
        let newest = self.machine.newest_list();
        let list = self.machine.list_at(now).or(newest);
        let no_committee = list.cloned().and_then(|list| self.why_no_committee(&list));
        let newest = self.machine.newest_list();
        let list = self.machine.list_at(now).or(newest);
        let next = newest.filter(|newest| list.is_some_and(|list| newest.epoch() > list.epoch()));
        let about = list.map(|list| (list, true)).into_iter().chain(next.map(|next| (next, false)));
        let statuses = about.flat_map(|(list, current)| self.statuses.count(list, current)).collect();
        Some(ClusterView {
            cluster: self.id.clone(),
            slot_seconds: self.settings.terms.slot_seconds,
            min_members: self.settings.roster.min_members,
            profile: self.settings.profile,
            candidates,
            ending: self.machine.enrolments_ending_before(now.plus_secs(ENDING_SECONDS)),
            list: list.map(|list| ListView::from(&**list)),
            next_list: next.map(|next| ListView::from(&**next)),
            denied: self.machine.denied_members(now),
            evidence: self.evidence.clone(),
            statuses,
            offenders: OffenderCounts::of(&self.machine),
            holders: self.holders.filter(|_| list.is_some_and(|list| has_committee(list))),
            no_committee,
            cannot_form: self.cannot_form.clone(),
            last: self.last,
            last_decoded: self.last_decoded,
            energy: self.energy.view(),
            spent: self.spent,
            next_deadline: self.machine.deadline(),
            since: self.since,
        })
    }
}

/// Returns whether a list has holders.
fn has_committee(list: &MembershipList) -> bool {
    list.params().terms().scheme.committee().is_some()
}

/// Later than anything.
pub const NEVER: Timestamp = Timestamp::from_millis(u64::MAX);

/// How many closed slots are looked at to find the last decoded one.
const RECENT_SLOTS: usize = 100;

/// How far back, and over how many slots at most, the filter looks again after a restart. That is two weeks of slots of
/// five minutes or more, and less of shorter ones: what a slot costs (see [`dream_filter`]) holds up the start, on one of
/// all cores.
const REPLAYED_SECONDS: u64 = 14 * 86_400;
const REPLAYED_SLOTS: usize = 4032;

/// Returns the slots of a cluster that its filter looks at again after a restart.
fn replayed(store: &dyn Store, cluster: &ClusterId, now: Timestamp) -> Result<Vec<ClosedSlot>, HistoryError> {
    let since = Timestamp::from_secs(now.as_secs().saturating_sub(REPLAYED_SECONDS));
    store.slots(cluster, since..NEVER, REPLAYED_SLOTS)
}

/// Rebuilds clusters from the store, on all cores: most of the time goes into agreeing on keys with members.
pub fn resume_all(
    all: &[(&ClusterId, &ClusterSettings)],
    identity: &GatewayIdentity,
    clock_skew_seconds: u64,
    zone: &Zone,
    store: &dyn Store,
    before: &HashMap<ClusterId, ServedCluster>,
    now: Timestamp,
) -> Result<Vec<ServedCluster>, ServeError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || -> Result<Vec<ServedCluster>, ServeError> {
        let mut mine = Vec::new();
        while let Some((id, settings)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (skew, before) = (clock_skew_seconds, before.get(*id));
            mine.push(ServedCluster::resume(id, settings, identity, skew, zone, store, before, now)?);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(100) {
                tracing::info!(done, of = all.len(), "rebuilding clusters from the store");
            }
        }
        Ok(mine)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len().max(1));
    let mut served = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut served = Vec::with_capacity(all.len());
        for worker in workers {
            served.extend(worker.join().expect("rebuilding a cluster does not panic")?);
        }
        Ok::<_, ServeError>(served)
    })?;
    let others = before.iter().filter(|(id, _)| !all.iter().any(|(rebuilt, _)| rebuilt == id)).map(|(_, other)| other);
    let profiles = profiles(served.iter().chain(others));
    for new in served.iter_mut().filter(|served| !before.contains_key(&served.id)) {
        new.begin_filter(&profiles, zone, store, now)?;
    }
    Ok(served)
}

/// Rebuilds clusters on all cores, those that are due first before the others, and sends each as soon as it can be served. Ends
/// when all are sent or nobody waits any more. The first of them may begin without what the last ones learned of their days.
pub fn rebuild(parts: &Parts, now: Timestamp) -> mpsc::Receiver<Result<ServedCluster, ServeError>> {
    let Parts { config, identity, store, .. } = parts;
    let mut all: Vec<_> = config.owned().map(|(id, settings)| (id.clone(), settings.clone())).collect();
    all.sort_by_key(|(_, settings)| next_request(settings, now));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len());
    let (all, next) = (Arc::new(all), Arc::new(AtomicUsize::new(0)));
    let (done, rebuilt) = mpsc::channel(1);
    for _ in 0..threads {
        let (all, next, done) = (all.clone(), next.clone(), done.clone());
        let (identity, zone, store) = (identity.clone(), config.time_zone.clone(), store.clone());
        let skew = config.clock_skew_seconds;
        // Not on a thread of its own: virtual time stands still while these run.
        tokio::task::spawn_blocking(move || {
            while let Some((id, settings)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let served = ServedCluster::resume(id, settings, &identity, skew, &zone, &*store, None, now);
                if done.blocking_send(served).is_err() {
                    return;
                }
            }
        });
    }
    rebuilt
}

/// Returns when a cluster's next request is due: when the reading window after a slot is over.
fn next_request(settings: &ClusterSettings, now: Timestamp) -> u64 {
    let terms = &settings.terms;
    let since = (now.as_secs() + terms.slot_seconds - terms.reading_seconds % terms.slot_seconds) % terms.slot_seconds;
    terms.slot_seconds - since
}

/// Returns what clusters learned of their days, in the order of their names: sums of numbers depend on it.
pub fn profiles<'a>(clusters: impl Iterator<Item = &'a ServedCluster>) -> Vec<Profile> {
    let mut clusters: Vec<_> = clusters.collect();
    clusters.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    clusters.iter().filter_map(|cluster| cluster.filter.profile()).collect()
}
