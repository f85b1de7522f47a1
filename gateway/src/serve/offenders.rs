//! Members that spoil slots: how many there are, for everybody, and who they are, for the operator alone.
//!
//! Names are served on the [operator's address](super::operator) alone.

use dream_protocol::cluster::{Cluster, Offence, Offender};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::{Slot, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::rfc3339;

/// The path of the names on the operator's address.
pub const PATH: &str = "/api/v1/offenders";

const DAY_SECONDS: u64 = 86_400;

/// How many members of a cluster spoil its slots, and what is done about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OffenderCounts {
    /// Sent readings and then did not reveal.
    pub silent: usize,
    /// Were found to spoil sums.
    pub spoils_sums: usize,
    /// One of two members spoils sums, and nothing tells which.
    pub suspected: usize,
    /// Are left out of sums until their next trial.
    pub quarantined: usize,
    /// Are left out of lists for some days.
    pub left_out_of_lists: usize,
    /// Whether groups of members are left out to find who spoils sums.
    pub searching: bool,
    /// How many members lists are formed without for some slots, because several spoil sums.
    pub left_out_to_search: usize,
    /// Among how many members all those are who spoil sums, if several do; 0 as long as no sum shows it.
    pub suspects: usize,
    /// Whether somebody spoils sums who cannot be found, because too few members may be left out.
    pub cannot_be_found: bool,
}

impl OffenderCounts {
    /// Counts the offenders of a cluster.
    pub fn of(machine: &Cluster) -> Self {
        let mut counts = Self {
            searching: machine.is_searching(),
            left_out_to_search: machine.left_out_to_search(),
            suspects: machine.suspects(),
            cannot_be_found: machine.is_search_given_up(),
            ..Self::default()
        };
        for (_, offender) in machine.offenders() {
            *match offender.offence {
                Offence::Silent => &mut counts.silent,
                Offence::SpoilsSums => &mut counts.spoils_sums,
                Offence::SuspectedWith(_) => &mut counts.suspected,
            } += 1;
            counts.quarantined += usize::from(offender.next_trial.is_some());
            counts.left_out_of_lists += usize::from(offender.excluded_until.is_some());
        }
        counts
    }

    /// Returns the counts by the label of the offence.
    pub fn by_offence(&self) -> [(&'static str, usize); 3] {
        [("silent", self.silent), ("spoils_sums", self.spoils_sums), ("suspected", self.suspected)]
    }
}

/// An offender as the operator sees it. When it was heard is told in whole days: anything finer would tell when somebody
/// was at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffenderJson {
    pub cluster: String,
    pub meter: String,
    /// `silent`, `spoils_sums` or `suspected`.
    pub offence: String,
    /// The other member, if one of the two spoils sums.
    pub suspected_with: Option<String>,
    /// How many slots it spoiled.
    pub spoiled_slots: u32,
    pub first_offence_days_ago: u64,
    pub last_offence_days_ago: u64,
    /// When it may take part again, on trial, while it is left out of sums.
    pub next_trial: Option<String>,
    /// Until when it is left out of lists.
    pub left_out_of_lists_until: Option<String>,
}

impl OffenderJson {
    fn new(
        cluster: &ClusterId,
        meter: &MeterId,
        offender: &Offender,
        start: impl Fn(Slot) -> Timestamp,
        now: Timestamp,
    ) -> Self {
        let (offence, with) = match &offender.offence {
            Offence::Silent => ("silent", None),
            Offence::SpoilsSums => ("spoils_sums", None),
            Offence::SuspectedWith(other) => ("suspected", Some(other.to_string())),
        };
        let days_ago = |slot: Slot| now.as_secs().saturating_sub(start(slot).as_secs()) / DAY_SECONDS;
        Self {
            cluster: cluster.to_string(),
            meter: meter.to_string(),
            offence: offence.to_owned(),
            suspected_with: with,
            spoiled_slots: offender.failures,
            first_offence_days_ago: days_ago(offender.since),
            last_offence_days_ago: days_ago(offender.last),
            next_trial: offender.next_trial.map(|slot| rfc3339(start(slot))),
            left_out_of_lists_until: offender.excluded_until.map(rfc3339),
        }
    }
}

/// The offenders of a cluster, by name.
pub fn named(cluster: &ClusterId, machine: &Cluster, now: Timestamp) -> Vec<OffenderJson> {
    let Some(list) = machine.list_at(now).or_else(|| machine.newest_list()) else { return Vec::new() };
    let start = |slot| list.params().slot_start(slot);
    machine.offenders().map(|(meter, offender)| OffenderJson::new(cluster, meter, offender, start, now)).collect()
}
