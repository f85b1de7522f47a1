//! The verdict on a run: every slot compared with the right sum, and whether anything was wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use dream_testkit::oracle;
use serde::{Deserialize, Serialize};

/// A closed slot as the gateway publishes it: the fields that are needed here.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Aggregate {
    pub cluster: String,
    pub slot: u64,
    pub start: String,
    pub outcome: String,
    pub load_watts: Option<i64>,
    pub band95_watts: Option<u64>,
    pub members: u16,
    pub responders: u16,
    pub missing: u16,
    pub attempts: u8,
}

/// What the gateway should have decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The sum without noise.
    pub truth: i64,
    /// The sum with the noise that the meters added: what unmasking must give, to the watt.
    pub noisy: i64,
    pub responders: usize,
}

impl From<oracle::Expected> for Expected {
    fn from(oracle::Expected { truth, noisy, responders, .. }: oracle::Expected) -> Self {
        Self { truth, noisy, responders: responders.len() }
    }
}

/// One slot beside the truth.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub aggregate: Aggregate,
    /// `None` if not everything is known: meters of another process took part, or this one was restarted.
    pub expected: Option<Expected>,
}

impl Row {
    /// How far the published sum is from the true one.
    pub fn error(&self) -> Option<i64> {
        Some(self.aggregate.load_watts? - self.expected?.truth)
    }

    fn within_band(&self) -> Option<bool> {
        Some(self.error()?.unsigned_abs() <= self.aggregate.band95_watts?)
    }

    fn is_exact(&self) -> Option<bool> {
        Some(self.aggregate.load_watts? == self.expected?.noisy)
    }
}

/// What was done on purpose, and therefore is not wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Injected {
    /// Readings are lost on purpose.
    pub faults: bool,
    /// Meters vanish before they reveal.
    pub vanishing: bool,
    /// Meters shift the sum.
    pub shifted: bool,
}

/// What the meters report, beside what was published.
#[derive(Debug, Clone, Default)]
pub struct FromMeters {
    /// In their words, and how often.
    pub refusals: BTreeMap<String, usize>,
    /// How often they caught the gateway at something that no honest one does.
    pub accusations: usize,
    /// Slots that they reported and that nobody heard of again.
    pub unpublished: usize,
}

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    pub slots: usize,
    pub decoded: usize,
    /// Decoded slots whose sum could be compared with what the meters hid, and how many were the same to the watt.
    pub comparable: usize,
    pub exact: usize,
    /// How many of them were within the 95 % band of the truth.
    pub within_band: usize,
    pub failures: BTreeMap<String, usize>,
    /// What meters refused, in their words, and how often.
    pub refusals: BTreeMap<String, usize>,
    /// What should not have happened, in words. Empty means that all is well.
    pub wrong: Vec<String>,
}

/// A probability so small that it is not chance.
const IMPOSSIBLE: f64 = 1e-6;

impl Verdict {
    pub fn of(rows: &[Row], meters: FromMeters, injected: Injected) -> Self {
        let FromMeters { refusals, accusations, unpublished } = meters;
        let mut verdict = Self { slots: rows.len(), refusals, ..Self::default() };
        if accusations > 0 {
            verdict.wrong.push(format!("meters caught the gateway breaking a rule, {accusations} times"));
        }
        if unpublished > 0 {
            verdict.wrong.push(format!("{unpublished} slots were reported, and no outcome was published"));
        }
        for row in rows {
            if row.aggregate.load_watts.is_none() {
                *verdict.failures.entry(row.aggregate.outcome.clone()).or_default() += 1;
                continue;
            }
            verdict.decoded += 1;
            let Some(exact) = row.is_exact() else { continue };
            verdict.comparable += 1;
            verdict.exact += usize::from(exact);
            verdict.within_band += usize::from(row.within_band() == Some(true));
        }
        verdict.judge(injected);
        verdict
    }

    fn judge(&mut self, injected: Injected) {
        if self.decoded == 0 {
            self.wrong.push("no slot was decoded".to_owned());
        }
        let inexact = self.comparable - self.exact;
        if inexact > 0 {
            self.wrong.push(format!("{inexact} sums differ from what the meters masked"));
        }
        let outside = self.comparable - self.within_band;
        if !injected.shifted && tail(self.comparable, outside) < IMPOSSIBLE {
            self.wrong.push(format!("{outside} of {} sums are outside their 95 % band", self.comparable));
        }
        for (reason, count) in &self.failures {
            let meant = match reason.as_str() {
                // Who vanishes is missing in the next attempt.
                "too_many_missing" | "reveal_missing" => injected.faults || injected.vanishing,
                _ => false,
            };
            if !meant {
                self.wrong.push(format!("{count} slots failed with `{reason}`, which nothing here explains"));
            }
        }
    }

    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    pub fn exit_code(&self) -> ExitCode {
        if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A bound, by Chernoff, on the probability that at least `outside` of `count` sums lie outside a band that holds 95 % of
/// them.
fn tail(count: usize, outside: usize) -> f64 {
    const OUTSIDE: f64 = 0.05;
    let share = outside as f64 / count.max(1) as f64;
    if share <= OUTSIDE {
        return 1.0;
    }
    let inside = if share < 1.0 { (1.0 - share) * ((1.0 - share) / (1.0 - OUTSIDE)).ln() } else { 0.0 };
    (-(count as f64) * (share * (share / OUTSIDE).ln() + inside)).exp()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} slots decoded", self.decoded, self.slots)?;
        for (reason, count) in &self.failures {
            writeln!(f, "  {count} not: {}", reason.replace('_', " "))?;
        }
        for (rule, count) in &self.refusals {
            writeln!(f, "refused {count} times by meters: {rule}")?;
        }
        writeln!(
            f,
            "masks: {} of {} comparable sums are what the meters masked, to the watt",
            self.exact, self.comparable
        )?;
        writeln!(f, "noise: {} of {} sums are within their 95 % band of the truth", self.within_band, self.comparable)?;
        if self.wrong.is_empty() {
            return write!(f, "verdict: nothing was wrong");
        }
        write!(f, "verdict: WRONG")?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\n  {wrong}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: &str, load: Option<i64>, expected: Option<(i64, i64)>) -> Row {
        let aggregate = Aggregate {
            cluster: "north".to_owned(),
            slot: 1,
            start: String::new(),
            outcome: outcome.to_owned(),
            load_watts: load,
            band95_watts: load.map(|_| 100),
            members: 10,
            responders: 10,
            missing: 0,
            attempts: 1,
        };
        Row { aggregate, expected: expected.map(|(truth, noisy)| Expected { truth, noisy, responders: 10 }) }
    }

    #[test]
    fn a_good_run_is_good() {
        let rows = vec![row("decoded", Some(1050), Some((1000, 1050))); 20];
        let verdict = Verdict::of(&rows, FromMeters::default(), Injected::default());
        assert!(verdict.is_good(), "{verdict}");
        assert_eq!((verdict.decoded, verdict.exact, verdict.within_band), (20, 20, 20));
    }

    #[test]
    fn a_sum_that_is_not_what_was_masked_is_wrong() {
        let rows = [row("decoded", Some(1051), Some((1000, 1050)))];
        assert!(!Verdict::of(&rows, FromMeters::default(), Injected::default()).is_good());
    }

    #[test]
    fn failures_are_wrong_unless_they_were_meant() {
        let rows = [row("decoded", Some(1), None), row("too_many_missing", None, None)];
        assert!(!Verdict::of(&rows, FromMeters::default(), Injected::default()).is_good());
        assert!(Verdict::of(&rows, FromMeters::default(), Injected { faults: true, ..Injected::default() }).is_good());
        let rows = [row("decoded", Some(1), None), row("interrupted", None, None)];
        assert!(
            !Verdict::of(&rows, FromMeters::default(), Injected { faults: true, vanishing: true, shifted: true })
                .is_good()
        );
    }

    #[test]
    fn bands_may_be_missed_as_often_as_they_promise() {
        let outside = |count: usize| vec![row("decoded", Some(1200), Some((1000, 1200))); count];
        let inside = |count: usize| vec![row("decoded", Some(1000), Some((1000, 1000))); count];
        let few = [outside(2), inside(18)].concat();
        assert!(Verdict::of(&few, FromMeters::default(), Injected::default()).is_good());
        let many = [outside(10), inside(10)].concat();
        assert!(!Verdict::of(&many, FromMeters::default(), Injected::default()).is_good());
        assert!(Verdict::of(&many, FromMeters::default(), Injected { shifted: true, ..Injected::default() }).is_good());
    }

    #[test]
    fn long_runs_may_miss_one_band_in_twenty_and_not_one_in_ten() {
        assert!(tail(100_000, 5_200) > IMPOSSIBLE);
        assert!(tail(100_000, 10_000) < IMPOSSIBLE);
        assert!(tail(5, 5) < 1e-6 && tail(1, 1) > IMPOSSIBLE, "all of them, if they are enough");
    }

    #[test]
    fn what_meters_hold_against_the_gateway_is_wrong() {
        let rows = [row("decoded", Some(1), None)];
        let accused = FromMeters { accusations: 1, ..FromMeters::default() };
        assert!(!Verdict::of(&rows, accused, Injected::default()).is_good());
        let silent = FromMeters { unpublished: 1, ..FromMeters::default() };
        assert!(!Verdict::of(&rows, silent, Injected::default()).is_good());
    }

    #[test]
    fn nothing_at_all_is_wrong() {
        assert!(!Verdict::of(&[], FromMeters::default(), Injected::default()).is_good());
        let failed = [row("too_many_missing", None, None)];
        assert!(
            !Verdict::of(&failed, FromMeters::default(), Injected { faults: true, ..Injected::default() }).is_good()
        );
    }
}
