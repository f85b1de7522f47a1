//! An audit of a whole day, from outside: whether the sums of a UTC day tell two days of a home apart no better than rho allows.
//!
//! The two days differ as much as days can. Where readings are not negative, the home draws all it may in the first half of one
//! and in the second half of the other; where they may be, it draws in one what it feeds in in the other. With its account, the
//! meter reports a part of that, and rho bounds what tells the two apart: by the pure epsilon of few slots, and at a delta where
//! there are many. Without the account, or at half its price, all of it does.
//!
//! What to look for is fixed beforehand, as for a slot: sums that are nearer to one of the two days than to the other, in so many
//! of the slots that are looked at; where there are many slots, sums that are so much likelier on one of the days, which tells them
//! apart best (Neyman and Pearson). What meters report of either day follows from public rules, and so whoever audits knows it.

use dream_protocol::noise::{epsilon_of_rho, pure_epsilon_of_rho};
use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::{Accounting, DayAccount};
use dream_protocol::time::Slot;

use super::cluster::{MEMBERS, Participants, Role, Run};
use super::event::Evidence;
use super::{RISK, Table, all_cores, in_parallel, row, verdict};

/// How many days run with one enrolment, which would be renewed in its 21st.
const DAYS_OF_A_CLUSTER: u32 = 18;

/// What may happen to whoever is audited without an explanation.
const DELTA: f64 = 0.05;

/// Two days, and the terms under which they are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// Two slots, whose readings are not negative.
    Halves,
    /// Two slots, whose readings may be negative.
    Signs,
    /// As many slots as a day has hours, whose readings may be negative.
    SignsOfHours,
}

/// One question to the software: how well can two days be told apart?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayTrial {
    pub pair: Pair,
    /// What readings cost the account of their day.
    pub account: Accounting,
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

/// What is looked for.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Sums that are nearer to one of the days, in at least so many of the slots that are looked at.
    Nearer { looked_at: fn(usize) -> bool, least: usize },
    /// Sums of a day that are at least so much likelier on one of them, as a logarithm.
    Likelier(f64),
}

impl Pair {
    fn slots(self) -> usize {
        match self {
            Self::Halves | Self::Signs => 2,
            Self::SignsOfHours => 24,
        }
    }

    /// Lambda is 2 W where there are two slots, and the account holds one reading of 1 W: at a rho of 1/4, or 1/2 if it may be
    /// negative. Where there are many, lambda is 64 W.
    fn terms(self) -> Terms {
        let (lo, hi, epsilon, day_micro_rho) = match self {
            Self::Halves => (0, 2, (1, 1), 250_000),
            Self::Signs => (-1, 1, (1, 1), 500_000),
            Self::SignsOfHours => (-9, 9, (9, 32), 500_000),
        };
        let (epsilon_numerator, epsilon_denominator) = epsilon;
        let slots = Terms::with_slots_of(86_400 / self.slots() as u64);
        Terms { lo, hi, epsilon_numerator, epsilon_denominator, day_micro_rho, attempts: 1, ..slots }
    }

    /// What the home draws on one of the days, and on the other.
    fn days(self) -> [Vec<i64>; 2] {
        let (slots, hi) = (self.slots(), self.terms().hi);
        let first_half = |slot| if slot < slots / 2 { hi } else { 0 };
        match self {
            Self::Halves => {
                [(0..slots).map(first_half).collect(), (0..slots).map(|slot| hi - first_half(slot)).collect()]
            }
            Self::Signs | Self::SignsOfHours => [vec![hi; slots], vec![-hi; slots]],
        }
    }

    /// With the account a reading of each half is left, or the first of two; without it, all are.
    fn events(self) -> Vec<Event> {
        let all = |least| Event::Nearer { looked_at: |_| true, least };
        match self {
            Self::Halves => vec![all(2)],
            Self::Signs => vec![Event::Nearer { looked_at: |slot| slot < 1, least: 1 }, all(2)],
            // Rho allows 2.04, and Gaussian noise of the same rho would come to 1.57.
            Self::SignsOfHours => vec![Event::Likelier(1.2)],
        }
    }

    /// The parameters of a list with one silent and one malicious member, as in [`Run`].
    fn params(self) -> Params {
        let terms = Terms { max_missing: 1, max_malicious: 1, ..self.terms() };
        Params::new(MEMBERS.into(), terms).expect("terms of a list")
    }

    /// What the home's meter reports of each day, by the protocol's own account.
    fn reported(self) -> [Vec<i64>; 2] {
        let params = self.params();
        self.days().map(|day| {
            let mut account = DayAccount::default();
            (0..).zip(day).map(|(slot, watts)| account.report(&params, Slot(slot), watts)).collect()
        })
    }

    fn delta(self) -> f64 {
        match self {
            Self::Halves | Self::Signs => 0.0,
            Self::SignsOfHours => DELTA,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Halves => "not negative, 2 slots",
            Self::Signs => "may be negative, 2 slots",
            Self::SignsOfHours => "may be negative, 24 slots",
        }
    }
}

impl DayTrial {
    /// With the account, without it, and at half its price.
    pub const ALL: [Self; 6] = [
        Self::of(Pair::Halves, Accounting::Right),
        Self::of(Pair::Halves, Accounting::Off),
        Self::of(Pair::Signs, Accounting::Right),
        Self::of(Pair::Signs, Accounting::SignedAtHalf),
        Self::of(Pair::Signs, Accounting::Off),
        Self::of(Pair::SignsOfHours, Accounting::Right),
    ];

    const fn of(pair: Pair, account: Accounting) -> Self {
        Self { pair, account, clusters: 400 }
    }

    /// What rho allows at the audit's own delta: the smaller of what it means for any sums, and of what it means for so many with
    /// Laplace noise.
    pub fn claim(&self) -> f64 {
        let rho = self.pair.terms().day_micro_rho as f64 / 1e6;
        let pure = pure_epsilon_of_rho(rho, self.pair.slots() as u64);
        let delta = self.pair.delta();
        if delta > 0.0 { pure.min(epsilon_of_rho(rho, delta)) } else { pure }
    }

    pub fn is_right(&self) -> bool {
        self.account == Accounting::Right
    }

    /// Runs everything on all cores; the same seed gives the same again.
    pub fn run(self, seed: u64) -> DayFinding {
        self.run_with(seed, &|| ())
    }

    pub(super) fn run_with(self, seed: u64, each: &(dyn Fn() + Sync)) -> DayFinding {
        let participants = Participants::new();
        let homes = self.pair.days();
        let of = |home: usize| (0..self.clusters).map(move |number| (home, number));
        let clusters: Vec<(usize, u32)> = of(0).chain(of(1)).collect();
        let days = in_parallel(all_cores(), &clusters, |&(home, number)| {
            let days = self.days(&participants, &homes[home], number, seed);
            each();
            days
        });
        let (one, other) = days.split_at(days.len() / 2);
        self.judge(&one.concat(), &other.concat())
    }

    fn days(self, participants: &Participants, home: &[i64], number: u32, seed: u64) -> Vec<Vec<i64>> {
        let seed = format!("{seed}/audit of days/{:?}/{:?}/{home:?}/{number}", self.pair, self.account);
        let role = |noise| Role { watts: Some(0), noise, account: self.account };
        // Four whose shares make up the noise, one that leaves its own out, and one that is silent.
        let silent = Role { watts: None, ..role(false) };
        let roles: [Role; MEMBERS as usize] = [role(true), role(true), role(true), role(true), role(false), silent];
        let mut run = Run::new(participants, self.pair.terms(), &roles, &seed);
        (0..DAYS_OF_A_CLUSTER).map(|_| run.next_day(home)).collect()
    }

    /// Takes what tells most: any event, for either day. Each may be wrong with its part of the risk.
    fn judge(self, one: &[Vec<i64>], other: &[Vec<i64>]) -> DayFinding {
        let ([first, second], delta) = (self.pair.days(), self.pair.delta());
        let events = self.pair.events();
        let reported = self.pair.reported();
        let lambda = self.pair.params().noise_scale().as_f64();
        let risk = RISK / (2 * events.len()) as f64;
        let findings = events.into_iter().flat_map(|event| {
            let [of_first, of_second] = &reported;
            [
                ((&first, &second), (of_first, of_second), one, other),
                ((&second, &first), (of_second, of_first), other, one),
            ]
            .map(|((home, rival), (told, other), likely, unlikely)| {
                let includes = |day: &[i64]| match event {
                    Event::Nearer { looked_at, least } => nearer(day, home, rival, looked_at) >= least,
                    Event::Likelier(least) => likelihood(day, told, other, lambda) >= least,
                };
                let hits = |days: &[Vec<i64>]| days.iter().filter(|day| includes(day)).count() as u64;
                let evidence = Evidence { likely: hits(likely), unlikely: hits(unlikely), runs: likely.len() as u64 };
                let epsilon_at_least = evidence.epsilon_at_least(delta, risk);
                DayFinding { trial: self, epsilon_seen: evidence.epsilon_seen(delta), epsilon_at_least }
            })
        });
        findings.max_by(|one, other| one.epsilon_at_least.total_cmp(&other.epsilon_at_least)).expect("an event")
    }
}

/// In how many of the slots that are looked at the sums of a day are nearer to this home's day than to the rival one.
fn nearer(sums: &[i64], home: &[i64], rival: &[i64], looked_at: fn(usize) -> bool) -> usize {
    let slots = sums.iter().zip(home.iter().zip(rival)).enumerate();
    let looked_at = slots.filter(|(slot, _)| looked_at(*slot));
    let nearer = looked_at.filter(|(_, (sum, (home, rival)))| {
        let from_middle = 2 * **sum - **home - **rival;
        from_middle * (**home - **rival) > 0
    });
    nearer.count()
}

/// How much likelier sums are if this was reported and not the other, under Laplace noise, as a logarithm.
fn likelihood(sums: &[i64], told: &[i64], other: &[i64], lambda: f64) -> f64 {
    let slots = sums.iter().zip(told.iter().zip(other));
    slots.map(|(sum, (told, other))| (sum - other).abs() as f64 - (sum - told).abs() as f64).sum::<f64>() / lambda
}

impl DayFinding {
    /// Whether the claim is refuted.
    pub fn exceeds_claim(&self) -> bool {
        self.epsilon_at_least > self.trial.claim()
    }
}

pub(super) fn table(findings: &[DayFinding]) -> Table {
    let row = |finding: &DayFinding| {
        let DayTrial { pair, account, clusters } = finding.trial;
        let account = match account {
            Accounting::Right => "kept",
            Accounting::SignedAtHalf => "half the price",
            Accounting::Off => "switched off",
        };
        let rho = pair.terms().day_micro_rho as f64 / 1e6;
        let head = row![pair.name(), account, rho, pair.delta(), clusters * DAYS_OF_A_CLUSTER];
        let epsilons = [finding.trial.claim(), finding.epsilon_seen, finding.epsilon_at_least];
        row![; head; epsilons; [verdict(finding.exceeds_claim())]]
    };
    let columns = "readings account rho delta days_per_input epsilon_claimed epsilon_seen epsilon_lower_bound verdict";
    Table::new("audit_day", columns, findings.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_looks_like_the_home_that_explains_it() {
        let [morning, evening] = Pair::Halves.days();
        assert_eq!((&morning[..], &evening[..]), (&[2, 0][..], &[0, 2][..]));
        let all = |_| true;
        assert_eq!([nearer(&[5, -3], &morning, &evening, all), nearer(&[5, -3], &evening, &morning, all)], [2, 0]);
        assert_eq!(nearer(&[5, 1], &morning, &evening, all), 1, "1 W is as near to both");
        let [drawn, fed] = Pair::Signs.days();
        assert_eq!([nearer(&[-1, 0], &fed, &drawn, |slot| slot < 1), nearer(&[-1, 0], &fed, &drawn, all)], [1, 1]);
        // Beyond what was reported, a sum tells no more than its distance does.
        assert!((likelihood(&[7, 0], &[1, 0], &[-1, 0], 2.0) - 1.0).abs() < 1e-12);
        assert!((likelihood(&[0, -7], &[1, 1], &[-1, -1], 2.0) + 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_bound_above_the_claim_refutes_it() {
        let days = |likely: usize| -> Vec<Vec<i64>> {
            (0..1000).map(|run| if run < likely { vec![2, 0] } else { vec![0, 2] }).collect()
        };
        let trial = DayTrial { clusters: 1, ..DayTrial::ALL[0] };
        assert!((trial.claim() - 1.0).abs() < 1e-9);
        assert!(trial.judge(&days(950), &days(100)).exceeds_claim());
        assert!(!trial.judge(&days(500), &days(300)).exceeds_claim());
    }

    #[test]
    fn meters_report_what_their_account_allows() {
        let day = |pair: Pair, account| {
            let idle = Role { watts: Some(0), noise: false, account };
            let roles = [idle, idle, idle, idle, idle, Role { watts: None, ..idle }];
            let mut run = Run::new(&Participants::new(), pair.terms(), &roles, "a day");
            let days: Vec<Vec<i64>> =
                pair.days().iter().flat_map(|home| [run.next_day(home), run.next_day(home)]).collect();
            assert_eq!([&days[0], &days[2]], [&days[1], &days[3]]);
            [days[0].clone(), days[2].clone()]
        };
        assert_eq!(day(Pair::Halves, Accounting::Right), [[1, 0], [0, 1]]);
        assert_eq!(day(Pair::Halves, Accounting::Off), Pair::Halves.days());
        assert_eq!(day(Pair::Signs, Accounting::Right), [[1, 0], [-1, 0]]);
        assert_eq!(day(Pair::Signs, Accounting::SignedAtHalf), Pair::Signs.days());
        for pair in [Pair::Halves, Pair::Signs, Pair::SignsOfHours] {
            assert_eq!(day(pair, Accounting::Right), pair.reported(), "as whoever audits expects it");
        }
        let [drawn, _] = day(Pair::SignsOfHours, Accounting::Right);
        let squares: i64 = drawn.iter().map(|watts| watts * watts).sum();
        // Twice the squares, over 64 W squared, is 0.5.
        assert!((1000..=1024).contains(&squares), "{drawn:?}");
    }
}
