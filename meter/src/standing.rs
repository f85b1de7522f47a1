//! The meter's state, as its owner sees it. It holds no reading, nor anything derived from one.

use std::sync::Arc;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::meter::Refusal;
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use dream_protocol::wire::{FullList, ListHeader, ShortList};
use serde::Deserialize;

use crate::invitation::Fingerprint;
use crate::oversight::Finding;
use crate::shared::Shared;

/// What the page, Home Assistant, the metrics and `dream-meter status` show.
#[derive(Debug, Clone)]
pub struct Standing {
    pub meter: MeterId,
    pub cluster: ClusterId,
    pub profile: Profile,
    /// Whether one authority certifies meters and gateway, which the owner has accepted.
    pub one_authority: bool,
    pub stage: Stage,
    /// The newest list that the meter has accepted and holds.
    pub list: Option<ListTerms>,
    /// For how many slots of this UTC day a reading was sent.
    pub sent_today: u64,
    /// Spent in the last 24 hours and allowed, in millionths of epsilon.
    pub spent_micro: u64,
    pub budget_micro: u64,
    pub load: Option<ClusterLoad>,
    /// Whether the broker lets this meter read what the gateway publishes of the cluster.
    pub load_refused: bool,
    pub last_refusal: Option<(Timestamp, Refusal)>,
    pub source: SourceState,
    /// When the certificate ends, and when the last third of its life begins, in Unix seconds.
    pub certificate_to: u64,
    pub renewable_from: u64,
    /// Whether the meter renews the certificate by itself.
    pub renews_itself: bool,
    /// The certificates in that list, if the meter needs all of it.
    pub listed: Arc<[Fingerprint]>,
    /// What the authority's register says, if there is one.
    pub register: Option<Finding>,
    pub totals: Totals,
    /// What this home gave away since its records began.
    pub shared: Shared,
}

/// How far the meter has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    WaitingForClock,
    /// The records were copied or restored; until then, in Unix seconds, nothing is sent.
    Silent {
        until: u64,
    },
    Connecting {
        trouble: Option<String>,
    },
    Connected,
}

/// Whether there was a reading for the last slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceState {
    NotAsked,
    Fine,
    /// Why there was none.
    NoReading(String),
}

/// Counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub readings: u64,
    pub refusals: u64,
    pub slots_without_reading: u64,
    pub connections_lost: u64,
}

/// The terms of a list, as its signed header states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTerms {
    pub epoch: u64,
    pub members: u64,
    pub max_missing: u64,
    pub max_malicious: u64,
    pub slot_seconds: u64,
    pub epsilon: (u64, u64),
    /// Rho of a UTC day in millionths; 0 for none.
    pub day_micro_rho: u64,
    pub range: (i64, i64),
    /// When its first slot begins and its last one ends, in Unix seconds.
    pub from: u64,
    pub to: u64,
}

impl ListTerms {
    /// Reads the terms of a list that the meter has accepted; anything else is none.
    pub fn of(list: &[u8]) -> Option<Self> {
        let header = FullList::header_of(list).or_else(|_| ShortList::header_of(list));
        header.ok().map(|(_, header)| Self::from(&header))
    }
}

impl From<&ListHeader> for ListTerms {
    fn from(header: &ListHeader) -> Self {
        let terms = &header.terms;
        Self {
            epoch: header.epoch,
            members: header.members,
            max_missing: terms.max_missing,
            max_malicious: terms.max_malicious,
            slot_seconds: terms.slot_seconds,
            epsilon: (terms.epsilon_numerator, terms.epsilon_denominator),
            day_micro_rho: terms.day_micro_rho,
            range: (terms.lo, terms.hi),
            from: header.from_slot.0.saturating_mul(terms.slot_seconds),
            to: (header.to_slot.0 + 1).saturating_mul(terms.slot_seconds),
        }
    }
}

/// The load of the whole cluster, as its gateway publishes it for everybody: of a slot, the noisy sum.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClusterLoad {
    pub end: String,
    pub load_watts: Option<i64>,
    pub band95_watts: Option<f64>,
}

impl Standing {
    /// Whether readings of this home are in the sums.
    pub fn takes_part(&self) -> bool {
        let sourced = match self.source {
            SourceState::Fine | SourceState::NotAsked => true,
            SourceState::NoReading(_) => false,
        };
        self.stage == Stage::Connected && self.list.is_some() && sourced
    }
}
