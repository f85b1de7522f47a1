//! An audit of what ships, from outside: whether the sums that leave a gateway tell two inputs apart no better than epsilon
//! allows.
//!
//! Meters and gateway are the protocol's own machines (`cluster`). The same slot is run many times with one home
//! at the low end of the range, and many times with it at the high end, everything else being equal. What to look for is fixed
//! beforehand (`event`): a sum that is not above the true one of the lower input, or not below that of the higher. How often
//! it is seen bounds how probable it is (`binomial`). If it is more than e^epsilon times as probable for one input as for the
//! other, the claim is false.
//!
//! With all shares in a sum these events are e^epsilon times as probable, exactly: no others come nearer to refuting the
//! claim. With shares missing, the noise is steepest where they begin.

mod binomial;
mod cluster;
pub mod day;
mod event;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use self::cluster::{HONEST, MEMBERS, Participants, RANGE, Role, Run, slot_terms};
use self::day::DayTrial;
pub use self::event::Event;
use self::event::Released;
use super::section::{Cell, Section, Table, row};
use super::shortfall::Claim;
use dream_homes::street::{all_cores, in_parallel};
use dream_protocol::simulation::Accounting;

/// How probably a bound is wrong, at most.
const RISK: f64 = 0.01;

/// How many slots run with one enrolment.
const SLOTS_OF_A_CLUSTER: u32 = 1000;

/// One question to the software: how well can its sums be told apart?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// What is claimed, as a fraction.
    pub epsilon: (u64, u64),
    /// Whether one of the shares is left out that the claim counts on.
    pub left_out: bool,
    /// How many slots are run with each input, in thousands.
    pub thousands: u32,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct Finding {
    pub trial: Trial,
    /// What was looked for.
    pub event: Event,
    /// The epsilon that explains best what was counted.
    pub epsilon_seen: f64,
    /// The least one that explains it, sure but for one in a hundred.
    pub epsilon_at_least: f64,
}

/// Runs everything; `step` gets the share of the clusters that are done, in per cent.
pub(crate) fn section(seed: u64, step: &(dyn Fn(u32) + Sync)) -> Section {
    let clusters = Trial::all().map(|trial| 2 * trial.thousands).chain(DayTrial::ALL.map(|trial| 2 * trial.clusters));
    let (all, done) = (clusters.sum::<u32>(), AtomicU32::new(0));
    let each = || step(100 * (done.fetch_add(1, Ordering::Relaxed) + 1) / all);
    let findings: Vec<Finding> = Trial::all().map(|trial| trial.run_with(seed, &each)).collect();
    let days = DayTrial::ALL.map(|trial| trial.run_with(seed, &each));
    let kept = |refuted: bool| if refuted { "REFUTED" } else { "not refuted" };
    let honest = findings.iter().any(|finding| !finding.trial.left_out && finding.exceeds_claim());
    let broken = findings.iter().all(|finding| !finding.trial.left_out || finding.exceeds_claim());
    let finding = format!(
        "epsilon as claimed is {} by the software's own sums; with a share left out, or no whole account of a day, it {} refuted",
        kept(honest || days.iter().any(|day| day.trial.is_right() && day.exceeds_claim())),
        if broken && days.iter().all(|day| day.trial.is_right() || day.exceeds_claim()) { "is" } else { "is NOT" }
    );
    Section::new([table(&findings), day::table(&days)], []).finding(finding)
}

fn table(findings: &[Finding]) -> Table {
    const COLUMNS: &str = "epsilon_claimed shares_present runs_per_input event epsilon_seen epsilon_lower_bound \
                           epsilon_exact verdict";
    Table::new("audit", COLUMNS, findings.iter().map(Finding::row))
}

impl Trial {
    /// Every claim, kept and broken. A small epsilon takes the most runs: it makes the smallest difference.
    pub fn all() -> impl Iterator<Item = Self> {
        let claims = [((1, 10), 40), ((1, 2), 6), ((1, 1), 6)];
        claims
            .into_iter()
            .flat_map(|(epsilon, thousands)| [false, true].map(|left_out| Self { epsilon, left_out, thousands }))
    }

    pub fn claim(&self) -> f64 {
        self.epsilon.0 as f64 / self.epsilon.1 as f64
    }

    /// How many honest shares are in a sum.
    fn shares(self) -> u32 {
        u32::from(HONEST) - u32::from(self.left_out)
    }

    /// Runs everything on all cores; the same seed gives the same again.
    pub fn run(self, seed: u64) -> Finding {
        self.run_with(seed, &|| ())
    }

    fn run_with(self, seed: u64, each: &(dyn Fn() + Sync)) -> Finding {
        let participants = Participants::new();
        let of = |watts: i64| (0..self.thousands).map(move |number| (watts, number));
        let clusters: Vec<(i64, u32)> = of(0).chain(of(RANGE.into())).collect();
        let sums = in_parallel(all_cores(), &clusters, |&(watts, number)| {
            let sums = self.sums(&participants, watts, number, seed);
            each();
            sums
        });
        let (low, high) = sums.split_at(sums.len() / 2);
        self.judge(&Released { low: &low.concat(), high: &high.concat() })
    }

    /// Takes the event that tells more of the two. Each may be wrong with half of the risk.
    fn judge(self, released: &Released<'_>) -> Finding {
        let [low, high] = [0, RANGE.into()].map(|watts| self.roles(watts).iter().filter_map(|part| part.watts).sum());
        let findings = [Event::AtMost(low), Event::AtLeast(high)].map(|event| {
            let evidence = event.evidence(released);
            let (epsilon_seen, epsilon_at_least) =
                (evidence.epsilon_seen(0.0), evidence.epsilon_at_least(0.0, RISK / 2.0));
            Finding { trial: self, event, epsilon_seen, epsilon_at_least }
        });
        let [at_most, at_least] = findings;
        if at_most.epsilon_at_least > at_least.epsilon_at_least { at_most } else { at_least }
    }

    /// What one enrolment's slots come to, while the first home draws so much.
    fn sums(self, participants: &Participants, watts: i64, number: u32, seed: u64) -> Vec<i64> {
        let (numerator, denominator) = self.epsilon;
        let seed = format!("{seed}/audit/{numerator}/{denominator}/{}/{watts}/{number}", self.left_out);
        let mut cluster = Run::new(participants, slot_terms(self.epsilon), &self.roles(watts), &seed);
        let sum = |_| {
            let outcome = cluster.next_outcome();
            assert_eq!((outcome.honest, outcome.responders), (HONEST, MEMBERS - 1), "as the trial was meant");
            outcome.result.expect("nothing disturbs a slot here").watts()
        };
        (0..SLOTS_OF_A_CLUSTER).map(sum).collect()
    }

    /// The claim reckons with one silent member and one malicious one, so there is one of each, and the malicious one
    /// leaves out its noise. The others add theirs, or all but one of them.
    fn roles(self, watts: i64) -> [Role; MEMBERS as usize] {
        let noisy = |watts| Role { watts: Some(watts), noise: true, account: Accounting::Right };
        let noiseless = |watts| Role { watts: Some(watts), noise: false, account: Accounting::Right };
        let fourth = if self.left_out { noiseless(1) } else { noisy(1) };
        [
            noisy(watts),
            noisy(2),
            noisy(0),
            fourth,
            noiseless(2),
            Role { watts: None, noise: false, account: Accounting::Right },
        ]
    }
}

impl Finding {
    fn row(&self) -> Vec<Cell> {
        let claim = Claim { needed: HONEST.into(), range: RANGE, epsilon: self.trial.claim() };
        let (present, runs) = (self.trial.shares(), self.trial.thousands * SLOTS_OF_A_CLUSTER);
        let epsilons = [self.epsilon_seen, self.epsilon_at_least, claim.effective_epsilon(present)];
        row![claim.epsilon, present, runs, self.event.to_string(); epsilons; [verdict(self.exceeds_claim())]]
    }

    /// Whether the claim is refuted.
    pub fn exceeds_claim(&self) -> bool {
        self.epsilon_at_least > self.trial.claim()
    }
}

fn verdict(refuted: bool) -> &'static str {
    if refuted { "refuted" } else { "not refuted" }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(threshold) => write!(f, "sum at most {threshold} W"),
            Self::AtLeast(threshold) => write!(f, "sum at least {threshold} W"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_filled_and_documented_and_a_bound_above_the_claim_refutes_it() {
        let trial = Trial { epsilon: (1, 1), left_out: true, thousands: 2 };
        let finding =
            |epsilon_at_least| Finding { trial, event: Event::AtMost(5), epsilon_seen: 1.2, epsilon_at_least };
        let table = table(&[finding(1.1), finding(0.9)]);
        let page = include_str!("../../../docs/study.md");
        let line = page.lines().find(|line| line.starts_with("| `audit.csv` |")).unwrap();
        assert!(table.header.iter().all(|column| line.contains(&format!("`{column}`"))), "{line}");
        assert!(finding(1.1).exceeds_claim() && !finding(0.9).exceeds_claim());
    }
}
