//! A cluster as the API tells it.

use dream_protocol::time::Timestamp;
use serde::Serialize;

use super::reasons::{Reason, reasons};
use crate::board::energy::PeriodsJson;
use crate::board::evidence::EvidenceView;
use crate::board::holders::HoldersView;
use crate::board::offenders::OffenderCounts;
use crate::board::slot_json::{SlotJson, of_micro};
use crate::board::{ClusterView, ListView, day_epsilon};
use crate::clock::rfc3339;

/// One cluster as the API tells it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterJson {
    pub id: String,
    pub state: ClusterState,
    pub slot_seconds: u64,
    /// How many members a list needs at least.
    pub min_members: u16,
    /// How many meters are enrolled and could be in the next list.
    pub candidates: usize,
    /// How many members spoil slots, and what is done about it.
    pub offenders: OffenderCounts,
    /// How the holders answered when they were last asked; `None` without a committee.
    pub holders: Option<HoldersJson>,
    /// Why the list has no committee, if one was preferred.
    pub no_committee: Option<String>,
    /// Why no list can be formed, if that is so.
    pub cannot_form: Option<String>,
    /// What needs a look, in the page's words.
    pub reasons: Vec<ReasonJson>,
    /// The list in force, or else the newest one published.
    pub list: Option<ListJson>,
    /// What the slots of the current UTC day have cost each participant so far.
    pub epsilon_day: f64,
    pub micro_epsilon_day: u64,
    /// The energy so far of the running hour, day and month.
    pub energy: PeriodsJson,
    pub last: Option<SlotJson>,
    pub last_decoded: Option<SlotJson>,
    /// How long ago the slot of `last_decoded` ended.
    pub load_age_seconds: Option<u64>,
    /// Whether its load is too old to stand for the present.
    pub load_stale: bool,
    /// When something is due next.
    pub next_deadline: Option<String>,
    /// Since when the gateway serves the cluster.
    pub since: String,
}

/// What a cluster is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// Too few meters are enrolled for a list.
    WaitingForMembers,
    /// There are meters, but no list can be formed of them.
    CannotForm,
    /// There is a list, and none of its slots has closed.
    WaitingForFirstSlot,
    Running,
    /// Slots have closed, or should have, and none did for several slot lengths.
    Stalled,
}

impl ClusterState {
    pub fn of(view: &ClusterView, now: Timestamp) -> Self {
        match (&view.list, &view.last) {
            _ if view.is_stalled(now) => Self::Stalled,
            (None, _) if view.cannot_form.is_some() => Self::CannotForm,
            (None, _) => Self::WaitingForMembers,
            (Some(_), None) => Self::WaitingForFirstSlot,
            (Some(_), Some(_)) => Self::Running,
        }
    }
}

/// Why a cluster needs a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonJson {
    pub text: String,
    /// Whether it costs sums now.
    pub urgent: bool,
}

impl From<Reason> for ReasonJson {
    fn from(Reason { text, urgent, link: _ }: Reason) -> Self {
        Self { text, urgent }
    }
}

/// A membership list without its members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListJson {
    pub epoch: u64,
    pub from_slot: u64,
    pub to_slot: u64,
    /// When the first slot begins and the last one ends.
    pub start: String,
    pub end: String,
    pub members: u16,
    pub honest: u16,
    pub max_missing: u16,
    pub max_malicious: u16,
    pub min_watts: i64,
    pub max_watts: i64,
    /// How often a slot may be tried.
    pub attempts: u8,
    /// Epsilon of one attempt.
    pub epsilon: f64,
    pub micro_epsilon: u64,
    /// Rho of all slots of a UTC day together, reserved by every member; none if the list states none.
    pub day_rho: Option<f64>,
    pub day_micro_rho: Option<u64>,
    /// The root mean square of a day's readings that a meter can report under rho.
    pub day_rms_watts: Option<u64>,
    /// Epsilon of a UTC day, of thirty and of 365, each but for a probability of `day_delta`.
    pub day_epsilon: f64,
    pub month_epsilon: f64,
    pub year_epsilon: f64,
    pub day_delta: f64,
    /// Epsilon of a UTC day, without exception.
    pub day_epsilon_pure: f64,
    pub noise_scale_watts: f64,
    /// `pairwise` or `committee`.
    pub scheme: &'static str,
    /// K and q of a committee.
    pub holders: Option<u64>,
    pub holders_needed: Option<u64>,
}

/// How the holders of a committee answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HoldersJson {
    pub holders: u16,
    pub needed: u16,
    pub answered: u16,
    pub wrong: u16,
    pub vanished: u16,
    /// How many more could have dropped out.
    pub spare: u16,
}

impl From<&HoldersView> for HoldersJson {
    fn from(view: &HoldersView) -> Self {
        let HoldersView { holders, needed, answered, wrong, .. } = *view;
        Self { holders, needed, answered, wrong, vanished: view.vanished(), spare: view.spare() }
    }
}

impl From<&ListView> for ListJson {
    fn from(list: &ListView) -> Self {
        let params = &list.params;
        let (micro_epsilon, scheme) = (params.charge_micro_epsilon(), params.terms().scheme);
        let [day_epsilon, month_epsilon, year_epsilon] =
            day_epsilon::PERIODS.map(|days| day_epsilon::thousandths(day_epsilon::at_delta(params, days)));
        Self {
            epoch: list.epoch,
            from_slot: list.from_slot.0,
            to_slot: list.to_slot.0,
            start: rfc3339(params.slot_start(list.from_slot)),
            end: rfc3339(params.slot_end(list.to_slot)),
            members: params.members(),
            honest: params.honest(),
            max_missing: params.max_missing(),
            max_malicious: params.max_malicious(),
            min_watts: params.terms().lo,
            max_watts: params.terms().hi,
            attempts: params.attempts(),
            epsilon: of_micro(micro_epsilon),
            micro_epsilon,
            day_rho: day_epsilon::rho(params),
            day_micro_rho: Some(params.terms().day_micro_rho).filter(|&stated| stated > 0),
            day_rms_watts: params.day_rms_watts(),
            day_epsilon,
            month_epsilon,
            year_epsilon,
            day_delta: day_epsilon::DELTA,
            day_epsilon_pure: day_epsilon::thousandths(day_epsilon::pure(params, 1)),
            noise_scale_watts: params.noise_scale().as_f64(),
            scheme: scheme.kind().as_str(),
            holders: scheme.committee().map(|committee| committee.holders),
            holders_needed: scheme.committee().map(|committee| committee.needed),
        }
    }
}

impl ClusterJson {
    pub fn new(view: &ClusterView, now: Timestamp) -> Self {
        let micro_epsilon_day = view.spent.at(now);
        Self {
            id: view.cluster.to_string(),
            state: ClusterState::of(view, now),
            slot_seconds: view.slot_seconds,
            min_members: view.min_members,
            candidates: view.candidates,
            offenders: view.offenders,
            holders: view.recent_holders(now).map(HoldersJson::from),
            no_committee: view.no_committee.clone(),
            cannot_form: view.cannot_form.clone(),
            reasons: reasons(view, now).into_iter().map(ReasonJson::from).collect(),
            list: view.list.as_ref().map(ListJson::from),
            epsilon_day: of_micro(micro_epsilon_day),
            micro_epsilon_day,
            energy: PeriodsJson::running(view.energy.as_ref(), now),
            last: view.last.as_ref().map(SlotJson::from),
            last_decoded: view.last_decoded.as_ref().map(SlotJson::from),
            load_age_seconds: view.load_age(now),
            load_stale: view.last_decoded.is_some() && view.recent_decoded(now).is_none(),
            next_deadline: view.next_deadline.map(rfc3339),
            since: rfc3339(view.since),
        }
    }
}

/// A contradiction that members have proven, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct EvidenceJson {
    number: usize,
    gateway: String,
    shows: String,
}

impl From<&EvidenceView> for EvidenceJson {
    fn from(view: &EvidenceView) -> Self {
        let EvidenceView { number, gateway, contradiction, .. } = view;
        Self { number: *number, gateway: gateway.clone(), shows: contradiction.to_string() }
    }
}
