//! An audit of a whole day, from outside: whether the sums of a UTC day tell two days of a home apart no better than E allows.
//!
//! The two days differ as much as days can: in one the home draws all it may in the first half, in the other in the second.
//! With its account, the meter reports one slot of either, and E is what tells the two apart. Without it, all four slots do.
//! What to look for is fixed beforehand, as for a slot: sums that are as high as the home could make them where one day has
//! it, and as low as without it where the other has.

use super::cluster::{MEMBERS, Participants, RANGE, Role, Run, SLOTS_OF_A_DAY, day_terms};
use super::event::Evidence;
use super::{RISK, Table, all_cores, in_parallel, row, verdict};

type Day = [i64; SLOTS_OF_A_DAY];

/// The highest reading.
const HIGH: i64 = {
    assert!(RANGE == 2);
    2
};

/// The two days.
const MORNING: Day = [HIGH, HIGH, 0, 0];
const EVENING: Day = [0, 0, HIGH, HIGH];

/// The slots that are looked at: the ones that an account leaves, and all.
const LOOKED_AT: [[bool; SLOTS_OF_A_DAY]; 2] = [[true, false, true, false], [true; SLOTS_OF_A_DAY]];

/// How many days run with one enrolment, which would be renewed in its 21st.
const DAYS_OF_A_CLUSTER: u32 = 18;

/// One question to the software: how well can two days be told apart?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayTrial {
    /// Whether meters keep the account.
    pub account: bool,
    /// How many clusters are run with each of the two days, for 18 days each.
    pub clusters: u32,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct DayFinding {
    pub trial: DayTrial,
    /// The epsilon that explains best what was counted.
    pub epsilon_seen: f64,
    /// The least one that explains it, sure but for one in a hundred.
    pub epsilon_at_least: f64,
}

impl DayTrial {
    /// E, the claim: half of it is one slot at the highest reading, of epsilon 1.
    pub const CLAIM: f64 = 2.0;

    /// With the account, and without it.
    pub fn all() -> [Self; 2] {
        [true, false].map(|account| Self { account, clusters: 400 })
    }

    /// Runs everything on all cores; the same seed gives the same again.
    pub fn run(self, seed: u64) -> DayFinding {
        self.run_with(seed, &|| ())
    }

    pub(super) fn run_with(self, seed: u64, each: &(dyn Fn() + Sync)) -> DayFinding {
        let participants = Participants::new();
        let of = |home: Day| (0..self.clusters).map(move |number| (home, number));
        let clusters: Vec<(Day, u32)> = of(MORNING).chain(of(EVENING)).collect();
        let days = in_parallel(all_cores(), &clusters, |&(home, number)| {
            let days = self.days(&participants, home, number, seed);
            each();
            days
        });
        let (morning, evening) = days.split_at(days.len() / 2);
        self.judge(&morning.concat(), &evening.concat())
    }

    fn days(self, participants: &Participants, home: Day, number: u32, seed: u64) -> Vec<Day> {
        let seed = format!("{seed}/audit of days/{}/{home:?}/{number}", self.account);
        let role = |noise| Role { watts: Some(0), noise, account: self.account };
        // Four whose shares make up the noise, one that leaves its own out, and one that is silent.
        let silent = Role { watts: None, ..role(false) };
        let roles: [Role; MEMBERS as usize] = [role(true), role(true), role(true), role(true), role(false), silent];
        let mut run = Run::new(participants, day_terms(2_000_000), &roles, &seed);
        (0..DAYS_OF_A_CLUSTER).map(|_| run.next_day(home)).collect()
    }

    /// Takes what tells most: either set of slots, for either day. Each may be wrong with a quarter of the risk.
    fn judge(self, morning: &[Day], evening: &[Day]) -> DayFinding {
        let findings = LOOKED_AT.into_iter().flat_map(|slots| {
            [(MORNING, morning, evening), (EVENING, evening, morning)].map(|(home, likely, unlikely)| {
                let hits = |days: &[Day]| days.iter().filter(|day| looks_like(day, home, slots)).count() as u64;
                let runs = likely.len() as u64;
                let evidence = Evidence { likely: hits(likely), unlikely: hits(unlikely), runs };
                let (epsilon_seen, epsilon_at_least) = (evidence.epsilon_seen(), evidence.epsilon_at_least(RISK / 4.0));
                DayFinding { trial: self, epsilon_seen, epsilon_at_least }
            })
        });
        findings.max_by(|one, other| one.epsilon_at_least.total_cmp(&other.epsilon_at_least)).expect("four")
    }
}

/// Whether the sums of a day are, in the slots that are looked at, at least as high as this home can make them, or at most as
/// low as without it.
fn looks_like(sums: &Day, home: Day, slots: [bool; SLOTS_OF_A_DAY]) -> bool {
    sums.iter().zip(home).zip(slots).all(|((&sum, watts), looked_at)| match watts {
        _ if !looked_at => true,
        0 => sum <= 0,
        most => sum >= most,
    })
}

impl DayFinding {
    /// Whether the claim is refuted.
    pub fn exceeds_claim(&self) -> bool {
        self.epsilon_at_least > DayTrial::CLAIM
    }
}

pub(super) fn table(findings: &[DayFinding]) -> Table {
    let row = |finding: &DayFinding| {
        let DayTrial { account, clusters } = finding.trial;
        let (account, days) = (if account { "kept" } else { "switched off" }, clusters * DAYS_OF_A_CLUSTER);
        let epsilons = [finding.epsilon_seen, finding.epsilon_at_least];
        row![DayTrial::CLAIM, account, days; epsilons; [verdict(finding.exceeds_claim())]]
    };
    let columns = "epsilon_claimed account days_per_input epsilon_seen epsilon_lower_bound verdict";
    Table::new("audit_day", columns, findings.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_looks_like_the_home_that_explains_it() {
        let all = LOOKED_AT[1];
        assert!(looks_like(&[2, 5, 0, -3], MORNING, all) && !looks_like(&[2, 5, 0, -3], EVENING, all));
        assert!(
            looks_like(&[2, -9, 0, 9], MORNING, LOOKED_AT[0]) && !looks_like(&[1, -9, 0, 9], MORNING, LOOKED_AT[0])
        );
    }

    #[test]
    fn a_bound_above_the_claim_refutes_it() {
        let days = |likely: usize| -> Vec<Day> {
            (0..1000).map(|run| if run < likely { [2, 2, 0, 0] } else { [0, 0, 2, 2] }).collect()
        };
        let trial = DayTrial { account: true, clusters: 1 };
        assert!(trial.judge(&days(900), &days(20)).exceeds_claim());
        assert!(!trial.judge(&days(500), &days(100)).exceeds_claim());
    }
}
