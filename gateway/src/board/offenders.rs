//! Members that spoil slots: how many there are, for everybody, and who they are, for the operator alone.
//!
//! Names are served to operators alone.

use dream_protocol::cluster::{Cluster, Offence, Offender};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::{Slot, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::rfc3339;

/// The path of the names, which operators alone may ask for.
pub const PATH: &str = "/api/v1/offenders";

const DAY_SECONDS: u64 = 86_400;

/// How many members of a cluster spoil its slots, and what is done about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OffenderCounts {
    /// Sent readings and then did not reveal.
    pub silent: usize,
    /// Were shown to spoil sums, by bets on secret coins.
    pub spoils_sums: usize,
    /// Sums fail with them and decode without them, as far as can be seen; others may make it look so.
    pub suspected: usize,
    /// Contradict more holders, or as holders more members, than can lie.
    pub at_odds: usize,
    /// Are left out of sums until their next trial.
    pub quarantined: usize,
    /// Are left out of lists for some days.
    pub left_out_of_lists: usize,
    /// Whether groups of members are left out to find who spoils sums.
    pub searching: bool,
    /// How many members lists are formed without for some slots, because several spoil sums.
    pub left_out_to_search: usize,
    /// Whether the last sums all failed: there are more who spoil sums than can be found in a cluster of this size.
    pub cannot_be_found: bool,
}

impl OffenderCounts {
    /// Counts the offenders of a cluster.
    pub fn of(machine: &Cluster) -> Self {
        let mut counts = Self {
            searching: machine.is_searching(),
            left_out_to_search: machine.left_out_to_search(),
            cannot_be_found: machine.cannot_be_found(),
            ..Self::default()
        };
        for (_, offender) in machine.offenders() {
            *match offender.offence {
                Offence::Silent => &mut counts.silent,
                Offence::SpoilsSums => &mut counts.spoils_sums,
                Offence::Suspected => &mut counts.suspected,
                Offence::AtOdds => &mut counts.at_odds,
            } += 1;
            counts.quarantined += usize::from(offender.left_out);
            counts.left_out_of_lists += usize::from(offender.excluded_until.is_some());
        }
        counts
    }

    /// Returns the counts by the label of the offence.
    pub fn by_offence(&self) -> [(&'static str, usize); 4] {
        let Self { silent, spoils_sums, suspected, at_odds, .. } = *self;
        [("silent", silent), ("spoils_sums", spoils_sums), ("suspected", suspected), ("at_odds", at_odds)]
    }
}

/// An offender as the operator sees it. When it was heard is given in whole days: anything finer would reveal when somebody
/// was at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffenderJson {
    pub cluster: String,
    pub meter: String,
    /// `silent`, `spoils_sums`, `suspected` or `at_odds`.
    pub offence: String,
    /// How many slots it spoiled.
    pub spoiled_slots: u32,
    pub first_offence_days_ago: u64,
    pub last_offence_days_ago: u64,
    /// Whether it is left out of sums, until it passes a trial. Nothing says when that is: a meter that knows it can lie
    /// accordingly.
    pub left_out_of_sums: bool,
    /// Until when it is left out of lists.
    pub left_out_of_lists_until: Option<String>,
}

impl OffenderJson {
    fn new(
        cluster: &ClusterId,
        meter: &MeterId,
        offender: Offender,
        start: impl Fn(Slot) -> Timestamp,
        now: Timestamp,
    ) -> Self {
        let offence = match offender.offence {
            Offence::Silent => "silent",
            Offence::SpoilsSums => "spoils_sums",
            Offence::Suspected => "suspected",
            Offence::AtOdds => "at_odds",
        };
        let days_ago = |slot: Slot| now.as_secs().saturating_sub(start(slot).as_secs()) / DAY_SECONDS;
        Self {
            cluster: cluster.to_string(),
            meter: meter.to_string(),
            offence: offence.to_owned(),
            spoiled_slots: offender.failures,
            first_offence_days_ago: days_ago(offender.since),
            last_offence_days_ago: days_ago(offender.last),
            left_out_of_sums: offender.left_out,
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
