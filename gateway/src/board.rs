//! What may be shown of the clusters as they stand: the driver writes the board; HTTP and metrics read it.
//!
//! There is nothing on it about a single meter, and loads only as [`ClosedSlot`]s: a reader of
//! the board cannot show more than the protocol released.

pub mod csv;
pub mod day_epsilon;
pub mod energy;
pub mod evidence;
pub mod gateway_view;
pub mod group;
pub mod holders;
pub mod named;
pub mod offenders;
pub mod readiness;
pub mod running;
pub mod slot_json;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::params::Params;
use dream_protocol::policy::Profile;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::wire::StatusCode;
use tokio::sync::watch;

use crate::board::energy::EnergyView;
use crate::board::evidence::EvidenceView;
use crate::board::gateway_view::GatewayView;
use crate::board::group::{GroupView, Shown};
use crate::board::holders::HoldersView;
use crate::board::offenders::OffenderCounts;
use crate::config::{Group, GroupId};
use crate::history::ClosedSlot;

/// Everything that may be shown, with a version that grows with every change.
#[derive(Debug, Default)]
pub struct Board {
    clusters: RwLock<BTreeMap<ClusterId, Shown>>,
    /// Also those with clusters that are served elsewhere.
    groups: RwLock<BTreeMap<GroupId, Arc<Group>>>,
    gateway: RwLock<GatewayView>,
    version: watch::Sender<u64>,
}

/// One cluster as it stands.
#[derive(Debug, Clone)]
pub struct ClusterView {
    pub cluster: ClusterId,
    /// How long its slots are by configuration, in seconds.
    pub slot_seconds: u64,
    /// How many members a list needs at least.
    pub min_members: u16,
    /// Which policy its meters have, by configuration.
    pub profile: Profile,
    /// How many meters are enrolled and could be in the next list.
    pub candidates: usize,
    /// How many of them have an enrolment that ends within [`ENDING_SECONDS`].
    pub ending: usize,
    /// The list in force, or else the newest one published.
    pub list: Option<ListView>,
    /// The list after that one, if it is published already.
    pub next_list: Option<ListView>,
    /// How many members of the list in force are denied by now, and stay until a list without them begins.
    pub denied: usize,
    /// What members have proven against the cluster's gateways.
    pub evidence: Arc<[EvidenceView]>,
    /// Why members are silent, as far as they said so.
    pub statuses: Vec<StatusCount>,
    /// How many members spoil slots.
    pub offenders: OffenderCounts,
    /// How the holders answered when they were last asked, if the list has a committee.
    pub holders: Option<HoldersView>,
    /// Why the list has no committee, if one was preferred.
    pub no_committee: Option<String>,
    /// Why no list can be formed, if that is so.
    pub cannot_form: Option<String>,
    /// The last slot that closed.
    pub last: Option<ClosedSlot>,
    /// The last slot that gave an aggregate.
    pub last_decoded: Option<ClosedSlot>,
    /// The energy so far of the hour, the day and the month of the last slot.
    pub energy: Option<EnergyView>,
    /// What the slots of the current UTC day have cost each participant so far.
    pub spent: Spent,
    /// When something is due next: a slot's end, the end of a window, a new list.
    pub next_deadline: Option<Timestamp>,
    /// Since when the gateway serves the cluster: a cluster that has closed nothing yet is measured from here.
    pub since: Timestamp,
}

/// A membership list, without its members.
#[derive(Debug, Clone)]
pub struct ListView {
    pub epoch: u64,
    pub params: Params,
    pub from_slot: Slot,
    pub to_slot: Slot,
    /// The signed list as it was published.
    pub bytes: Arc<[u8]>,
}

impl From<&MembershipList> for ListView {
    fn from(list: &MembershipList) -> Self {
        Self {
            epoch: list.epoch(),
            params: *list.params(),
            from_slot: list.from_slot(),
            to_slot: list.to_slot(),
            bytes: list.bytes().clone(),
        }
    }
}

/// How many members of a list say the same about it, or about their silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusCount {
    pub code: StatusCode,
    /// Of the list.
    pub epoch: u64,
    pub meters: usize,
    /// How many members the list has.
    pub of: usize,
}

/// Privacy spent in one UTC day, in millionths of epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub day: u64,
    pub micro_epsilon: u64,
}

impl Spent {
    /// Adds what a slot's attempts cost to the day in which the slot began. Earlier days are over. An attempt of which no
    /// reading came has cost nothing, as far as the gateway can know.
    pub fn add(&mut self, outcome: &SlotOutcome) {
        let (day, cost) = (outcome.start.utc_day(), u64::from(outcome.attempts_answered()) * outcome.micro_epsilon);
        match day.cmp(&self.day) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => self.micro_epsilon += cost,
            std::cmp::Ordering::Greater => *self = Self { day, micro_epsilon: cost },
        }
    }

    /// Returns what the day of `now` has cost.
    pub fn at(&self, now: Timestamp) -> u64 {
        if now.utc_day() == self.day { self.micro_epsilon } else { 0 }
    }
}

/// How close the end of an enrolment is worth an operator's look. Meters renew at two thirds of an enrolment's life, which is
/// at most 35 days: one with less than a week left is overdue.
pub const ENDING_SECONDS: u64 = 7 * 86_400;

/// For how many slot lengths a cluster may close nothing before it counts as stalled.
pub const STALLED_SLOTS: u64 = 3;

/// For how many slot lengths a load stands for the present: the next slot has ended by then, and its windows are over.
const FRESH_SLOTS: u64 = 2;

/// Returns whether a slot ended lately enough to stand for the present.
pub fn is_recent(closed: &ClosedSlot, slot_seconds: u64, now: Timestamp) -> bool {
    now <= closed.outcome.end.plus_secs(FRESH_SLOTS * slot_seconds)
}

impl ClusterView {
    /// Returns the last slot, unless it is too old: an old load must not look like a new one.
    pub fn recent(&self, now: Timestamp) -> Option<&ClosedSlot> {
        self.last.as_ref().filter(|closed| is_recent(closed, self.slot_seconds, now))
    }

    /// Returns the last slot that gave a sum, unless it is too old to stand for the present.
    pub fn recent_decoded(&self, now: Timestamp) -> Option<&ClosedSlot> {
        self.last_decoded.as_ref().filter(|closed| is_recent(closed, self.slot_seconds, now))
    }

    /// Returns how long ago the last slot ended that gave a sum, in seconds.
    pub fn load_age(&self, now: Timestamp) -> Option<u64> {
        self.last_decoded.map(|closed| now.millis_since(closed.outcome.end) / 1000)
    }

    /// Returns how the holders answered, unless that is too old to stand for the present.
    pub fn recent_holders(&self, now: Timestamp) -> Option<&HoldersView> {
        self.holders.as_ref().filter(|holders| now <= holders.told.plus_secs(STALLED_SLOTS * self.slot_seconds))
    }

    /// Returns whether the cluster has closed slots before, or has a list, but has closed none for so long that something must
    /// be wrong. One that still waits for its first members is not stalled. What lies in the future, because a clock was ahead,
    /// says nothing of the present; a list begins a few slots after it was published at most.
    pub fn is_stalled(&self, now: Timestamp) -> bool {
        let begins = self.list.as_ref().map(|list| list.params.slot_end(list.from_slot));
        let closed = self.last.map(|closed| closed.outcome.end);
        if begins.is_none() && closed.is_none() {
            return false;
        }
        let patience = STALLED_SLOTS * self.slot_seconds;
        let begins = begins.filter(|begins| *begins <= now.plus_secs(patience + self.slot_seconds));
        let past = [closed, Some(self.since)].into_iter().flatten().filter(|at| *at <= now);
        past.chain(begins).max().is_none_or(|last| last.plus_secs(patience) < now)
    }
}

impl Board {
    /// Returns all clusters, by id, with the version they stand for.
    pub fn clusters(&self) -> (u64, Vec<Arc<ClusterView>>) {
        let clusters = read(&self.clusters);
        (*self.version.borrow(), clusters.values().map(|shown| shown.view.clone()).collect())
    }

    /// Returns one cluster, if it is served here.
    pub fn cluster(&self, cluster: &str) -> Option<Arc<ClusterView>> {
        let clusters = read(&self.clusters);
        clusters.get(cluster).map(|shown| shown.view.clone())
    }

    /// Returns all groups, by id, with the version they stand for.
    pub fn groups(&self) -> (u64, Vec<GroupView>) {
        let clusters = read(&self.clusters);
        let groups = read(&self.groups);
        let view = |(id, group): (&GroupId, &Arc<Group>)| GroupView::new(id, group, |cluster| clusters.get(cluster));
        (*self.version.borrow(), groups.iter().map(view).collect())
    }

    /// Returns one group, if it is in the configuration.
    pub fn group(&self, group: &str) -> Option<GroupView> {
        let clusters = read(&self.clusters);
        let groups = read(&self.groups);
        let (id, group) = groups.get_key_value(group)?;
        Some(GroupView::new(id, group, |cluster| clusters.get(cluster)))
    }

    /// Puts the groups of the configuration on the board, in place of those before.
    pub fn set_groups(&self, groups: &BTreeMap<GroupId, Group>) {
        let groups = groups.iter().map(|(id, group)| (id.clone(), Arc::new(group.clone()))).collect();
        *write(&self.groups) = groups;
        self.version.send_modify(|version| *version += 1);
    }

    /// Puts clusters on the board, as one change.
    pub fn show(&self, views: impl IntoIterator<Item = ClusterView>) {
        let mut clusters = write(&self.clusters);
        for view in views {
            let slot = |last: Option<ClosedSlot>| last.map(|closed| closed.outcome.slot);
            let before = clusters.get(&view.cluster).and_then(|shown| {
                let last = shown.view.last;
                if slot(last) == slot(view.last) { shown.before } else { last }
            });
            clusters.insert(view.cluster.clone(), Shown { view: Arc::new(view), before });
        }
        self.version.send_modify(|version| *version += 1);
    }

    /// The gateway itself.
    pub fn gateway(&self) -> GatewayView {
        read(&self.gateway).clone()
    }

    /// Changes what is shown of the gateway itself.
    pub fn update_gateway(&self, change: impl FnOnce(&mut GatewayView)) {
        let mut gateway = write(&self.gateway);
        let before = gateway.clone();
        change(&mut gateway);
        if *gateway != before {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Takes a cluster off the board.
    pub fn remove(&self, cluster: &ClusterId) {
        write(&self.clusters).remove(cluster);
        self.version.send_modify(|version| *version += 1);
    }

    /// Returns a receiver that wakes when the board changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect("nobody panics while writing to the board")
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect("nobody panics while writing to the board")
}

#[cfg(test)]
mod tests {
    use dream_testkit::outcomes::Slotted;

    use super::*;

    #[test]
    fn a_day_costs_what_was_spent_in_it_and_not_attempts_that_nobody_answered() {
        let slot = |slot| Slotted { micro_epsilon: 500_000, ..Slotted::new(slot) };
        let mut spent = Spent::default();
        spent.add(&slot(0).decoded(1, 95));
        spent.add(&slot(1).failed("too_many_missing", 40));
        spent.add(&Slotted { attempts: 2, ..slot(2) }.failed("reveal_missing", 95));
        assert_eq!(spent.at(Timestamp::from_secs(600)), 2_000_000);
        // All refuse the list, or the gateway was away.
        spent.add(&slot(3).failed("too_many_missing", 0));
        spent.add(&slot(4).failed("interrupted", 0));
        assert_eq!(spent.at(Timestamp::from_secs(600)), 2_000_000);
        // The first attempt was answered, the second was not.
        spent.add(&Slotted { attempts: 2, ..slot(5) }.failed("too_many_missing", 0));
        assert_eq!(spent.at(Timestamp::from_secs(600)), 2_500_000);
        assert_eq!(spent.at(Timestamp::from_secs(86_400)), 0);
    }
}
