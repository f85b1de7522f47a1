//! What a run is made of: the cluster, what goes wrong, and when.

use dream_protocol::cluster::RosterRules;
use dream_protocol::params::Terms;
use dream_protocol::time::{Slot, Timestamp};

use crate::fixture::{Enrolled, Fixture, SLOT_TERMS};
use crate::network::{Link, Node};

/// What goes wrong with a kind of node; chances are per ten thousand handled inputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The process ends with only the first few of its outputs carried out.
    pub crash: u64,
    /// Of a thousand crashes, how many take the store with them.
    pub loses_store: u64,
    /// The connection is away; the process goes on.
    pub offline: u64,
    /// The process hangs, and goes on where it was.
    pub stall: u64,
    /// Milliseconds until the end of any of these.
    pub down: (u64, u64),
}

/// How meters come into a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enrolments {
    /// Enrolled just before.
    Fresh,
    /// Enrolled weeks ago: they renew during the run, one after the other.
    Aged,
    /// Not enrolled yet, with certificates that end during the run, one after the other.
    ShortLived,
}

impl Enrolments {
    /// What was written before the run.
    pub fn stores(self, meters: usize) -> Option<&'static Enrolled> {
        match self {
            Self::Fresh => Some(Fixture::enrolled(meters)),
            Self::Aged => Some(Fixture::aged()),
            Self::ShortLived => None,
        }
    }
}

/// What is to be simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Those that are there from the start, and enrolled; further ones come with the plan.
    pub meters: usize,
    pub all_meters: usize,
    pub enrolments: Enrolments,
    pub terms: Terms,
    pub roster: RosterRules,
    pub daily_micro_epsilon: u64,
    pub link: Link,
    pub meter_faults: Faults,
    pub gateway_faults: Faults,
    /// How many in a thousand recovery messages find their meter gone.
    pub vanish: u64,
    /// How long a meter is gone then, and how long none vanishes after it, in milliseconds.
    pub vanish_down: (u64, u64),
    pub vanish_pause: u64,
    /// How far meters' clocks are off, in milliseconds.
    pub skew: u64,
    /// How many slots pass with faults, and how many more without.
    pub slots: u64,
    pub quiet_slots: u64,
    /// How many members the cluster must have in the end, if the quiet slots are enough for it to recover.
    pub expected: usize,
    /// Milliseconds from the start.
    pub plan: Vec<(u64, Timer)>,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy)]
pub enum Timer {
    /// A machine's deadline.
    Wake(Node),
    Start(Node),
    Reconnect(Node),
    Crash {
        node: Node,
        down: u64,
    },
    /// The gateway crashes, and its store is gone.
    LoseStore {
        down: u64,
    },
    /// A meter's slot ends, at this moment of its own clock.
    Measure {
        meter: usize,
        slot: Slot,
        end: Timestamp,
    },
    /// A meter's clock jumps by so many milliseconds.
    Step {
        meter: usize,
        by: i64,
    },
    /// A meter's clock is set right.
    SetClock {
        meter: usize,
    },
    /// From here on nothing goes wrong any more.
    Heal,
}

impl Scenario {
    /// An enrolled cluster in which nothing goes wrong, but for clocks that are somewhat off.
    pub fn calm(meters: usize, slots: u64) -> Self {
        let roster = RosterRules {
            min_members: 8,
            settle_seconds: 5,
            list_slots: 30,
            drop_after_slots: 4,
            min_interval_seconds: 60,
            ..Fixture::get().gateway().roster
        };
        Self {
            meters,
            all_meters: meters,
            enrolments: Enrolments::Fresh,
            terms: SLOT_TERMS,
            roster,
            daily_micro_epsilon: u64::MAX,
            link: Link::GOOD,
            meter_faults: Faults::default(),
            gateway_faults: Faults::default(),
            vanish: 0,
            vanish_down: (6_000, 20_000),
            vanish_pause: 0,
            skew: 3_000,
            slots,
            quiet_slots: 0,
            expected: meters,
            plan: Vec::new(),
        }
    }
}
