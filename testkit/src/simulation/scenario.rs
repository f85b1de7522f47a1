//! What a run is made of: the cluster, what goes wrong, and when.

use dream_protocol::cluster::RosterRules;
use dream_protocol::params::Terms;
use dream_protocol::scheme::Kind;
use dream_protocol::time::{Slot, Timestamp};

use super::fixture::{Enrolled, Fixture, SLOT_TERMS};
use super::network::{Dice, Link, Node};
use super::referee::QUIET_SLOTS;

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
    pub(super) fn stores(self, meters: usize) -> Option<&'static Enrolled> {
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
    /// The scheme of all lists, and how many attempts a slot has in a committee.
    pub scheme: Kind,
    pub committee_attempts: u64,
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
    /// How many in a thousand deliveries are preceded by a forged message.
    pub forged: u64,
    /// How many in a thousand starts are tried with damaged records first.
    pub damaged: u64,
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
            scheme: Kind::Pairwise,
            committee_attempts: 1,
            roster,
            daily_micro_epsilon: u64::MAX,
            link: Link::GOOD,
            meter_faults: Faults::default(),
            gateway_faults: Faults::default(),
            vanish: 0,
            vanish_down: (6_000, 20_000),
            vanish_pause: 0,
            forged: 0,
            damaged: 0,
            skew: 3_000,
            slots,
            quiet_slots: 0,
            expected: meters,
            plan: Vec::new(),
        }
    }

    /// Returns a cluster in which everything goes wrong that can go wrong by itself.
    pub fn everything(dice: &mut Dice) -> Self {
        let (meters, all_meters) = (10, 10 + dice.below(5));
        let mut scenario = Self { all_meters, expected: all_meters, ..Self::calm(meters, 8) };
        scenario.roster.list_slots = [6, 12, 30][dice.below(3)];
        scenario.link = if dice.one_in(2) { Link::LIGHT } else { Link::HEAVY };
        let (crash, offline) = (dice.between((2, 50)), dice.between((2, 50)));
        scenario.meter_faults = Faults { crash, offline, down: (100, 30_000), ..Faults::default() };
        let (crash, stall) = (dice.between((2, 60)), dice.between((2, 60)));
        scenario.gateway_faults = Faults { crash, stall, offline: stall, down: (100, 25_000), ..Faults::default() };
        scenario.vanish = dice.between((0, 30));
        scenario.plan = scenario.clock_steps(dice);
        let mut join = |meter| (dice.between((0, 400_000)), Timer::Start(Node::Meter(meter)));
        scenario.plan.extend((meters..all_meters).map(&mut join));
        scenario.recovering(dice)
    }

    /// Returns a cluster in which, beside everything else, messages are forged and records are damaged.
    pub fn hostile(dice: &mut Dice) -> Self {
        let slots = 3 + dice.between((0, 3));
        Self { slots, forged: dice.between((0, 300)), damaged: 500, ..Self::everything(dice) }
    }

    /// Returns jumps of some meters' clocks, ahead or back, by little or much; each is set right a while later.
    pub fn clock_steps(&self, dice: &mut Dice) -> Vec<(u64, Timer)> {
        let mut plan = Vec::new();
        for _ in 0..dice.below(5) {
            let meter = dice.below(self.all_meters);
            let far = [5_000, 59_000, 90_000, 3_600_000][dice.below(4)];
            let by = dice.between((0, far)).cast_signed() * if dice.one_in(2) { 1 } else { -1 };
            let jumps = dice.between((60_000, 360_000));
            plan.push((jumps, Timer::Step { meter, by }));
            plan.push((jumps + dice.between((1_000, 100_000)), Timer::SetClock { meter }));
        }
        plan
    }

    /// Returns the same cluster in the committee scheme, with one attempt or two.
    pub fn in_committee(self, dice: &mut Dice) -> Self {
        Self { scheme: Kind::Committee, committee_attempts: dice.between((1, 2)), ..self }
    }

    /// Lets a quarter of the runs go on without faults until all must be well again.
    pub fn recovering(self, dice: &mut Dice) -> Self {
        let quiet_slots = if dice.one_in(4) { QUIET_SLOTS } else { 0 };
        Self { quiet_slots, ..self }
    }
}
