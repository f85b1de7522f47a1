//! The verdict on a run: every slot compared with the right sum, and whether anything was wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use dream_virtual::oracle;
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
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<u64>,
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

    /// The true load of all members, in watts. Nobody measured the silent ones: they count as the others do on average.
    pub fn truth_of_all(&self) -> Option<f64> {
        let Aggregate { members, responders, .. } = self.aggregate;
        (responders > 0).then_some(self.expected?.truth as f64 * f64::from(members) / f64::from(responders))
    }

    /// How far the filtered load is from the true one of all members.
    pub fn filtered_error(&self) -> Option<f64> {
        Some(self.aggregate.load_filtered_watts? as f64 - self.truth_of_all()?)
    }

    fn within_band(&self) -> Option<bool> {
        Some(self.error()?.unsigned_abs() <= self.aggregate.band95_watts?)
    }

    fn is_exact(&self) -> Option<bool> {
        Some(self.aggregate.load_watts? == self.expected?.noisy)
    }
}

/// What was done on purpose, and therefore is not wrong.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Injected {
    /// Readings are lost on purpose.
    pub faults: bool,
    /// Meters vanish before they reveal.
    pub vanishing: bool,
    /// All noise is left out.
    pub exact: bool,
    /// How many members of a cluster shift its sum, and by how many watts together.
    pub shifting: usize,
    pub shift_watts: i64,
    /// How many members of a cluster leave out their noise.
    pub noiseless: usize,
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
    /// For how many slots each dishonest one has lied.
    pub lying: Vec<u64>,
    /// How many of these the gateway has found.
    pub found: usize,
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
    /// How far the sums and the filtered loads were off on average, in watts, and what the true sums were.
    pub mean_error_watts: Option<f64>,
    pub mean_filtered_error_watts: Option<f64>,
    pub mean_true_watts: Option<f64>,
    /// The mean of the true sums without their signs: what errors are shares of, also where homes feed in.
    pub mean_true_size_watts: Option<f64>,
    pub failures: BTreeMap<String, usize>,
    /// What meters refused, in their words, and how often.
    pub refusals: BTreeMap<String, usize>,
    /// How many meters lied to spoil slots, and how many of these the gateway has found.
    pub liars: usize,
    pub liars_found: usize,
    /// What was done on purpose.
    pub on_purpose: Injected,
    /// What should not have happened, in words. Empty means that all is well.
    pub wrong: Vec<String>,
}

/// A probability so small that it is not chance.
const IMPOSSIBLE: f64 = 1e-6;

/// Within so many slots a gateway finds all of so many liars, in more than 95 of 100 runs (`protocol-gateway.md 4b`).
const fn found_within(liars: usize) -> u64 {
    match liars {
        0 | 1 => 30,
        2 => 60,
        _ => 240,
    }
}

impl Verdict {
    pub fn of(rows: &[Row], meters: FromMeters, injected: Injected) -> Self {
        let FromMeters { refusals, accusations, unpublished, lying, found } = meters;
        let mut verdict = Self {
            slots: rows.len(),
            liars: lying.len(),
            liars_found: found.min(lying.len()),
            refusals,
            on_purpose: injected,
            mean_error_watts: mean(rows, |row| row.error().map(|watts| watts.abs() as f64)),
            mean_filtered_error_watts: mean(rows, |row| row.filtered_error().map(f64::abs)),
            mean_true_watts: mean(rows, |row| row.error().and(row.expected).map(|expected| expected.truth as f64)),
            mean_true_size_watts: mean(rows, |row| {
                row.error().and(row.expected).map(|expected| expected.truth.abs() as f64)
            }),
            ..Self::default()
        };
        if accusations > 0 {
            verdict.wrong.push(format!("meters caught the gateway breaking a rule, {accusations} times"));
        }
        let within = found_within(lying.len());
        if found < lying.iter().filter(|slots| **slots > within).count() {
            verdict
                .wrong
                .push(format!("a meter has lied for more than {within} slots, and the gateway has not found it"));
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
        verdict.judge();
        verdict
    }

    fn judge(&mut self) {
        let injected = self.on_purpose;
        if self.decoded == 0 {
            self.wrong.push("no slot was decoded".to_owned());
        }
        let inexact = self.comparable - self.exact;
        if inexact > 0 {
            self.wrong.push(format!("{inexact} sums differ from what the meters masked"));
        }
        let outside = self.comparable - self.within_band;
        if injected.shifting == 0 && tail(self.comparable, outside) < IMPOSSIBLE {
            self.wrong.push(format!("{outside} of {} sums are outside their 95 % band", self.comparable));
        }
        for (reason, count) in &self.failures {
            let meant = match reason.as_str() {
                "too_many_missing" => injected.faults,
                "reveal_missing" => injected.faults || injected.vanishing || self.liars > 0,
                "unmask_failed" => self.liars > 0,
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

/// The mean over the rows that have such a number.
fn mean(rows: &[Row], number: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
    let (sum, count) =
        rows.iter().filter_map(number).fold((0.0, 0u32), |(sum, count), number| (sum + number, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} slots gave a sum.", self.decoded, self.slots)?;
        for (reason, count) in &self.failures {
            writeln!(f, "  {count} did not: {}.", reason.replace('_', " "))?;
        }
        for (rule, count) in &self.refusals {
            writeln!(f, "Refused {count} times by meters: {rule}.")?;
        }
        if self.comparable > 0 {
            self.write_errors(f)?;
        }
        self.write_cheats(f)?;
        if !self.wrong.is_empty() {
            write!(f, "Verdict: SOMETHING IS WRONG.")?;
            return self.wrong.iter().try_for_each(|wrong| write!(f, "\n  {wrong}"));
        }
        let gave = format!("{} of {} slots gave a sum", self.decoded, self.slots);
        match (self.liars, self.liars - self.liars_found) {
            (0, _) if self.decoded == self.slots => write!(f, "Verdict: all is well."),
            (0, _) => write!(f, "Verdict: {gave}; the others failed because of injected faults."),
            (1, 0) => write!(f, "Verdict: {gave}; the dishonest meter is found."),
            (2, 0) => write!(f, "Verdict: {gave}; both dishonest meters are found."),
            (all, 0) => write!(f, "Verdict: {gave}; all {all} dishonest meters are found."),
            (_, 1) => write!(f, "Verdict: {gave}; one dishonest meter is not found yet."),
            (_, free) => write!(f, "Verdict: {gave}; {free} dishonest meters are not found yet."),
        }
    }
}

impl Verdict {
    fn write_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { comparable, exact, within_band, .. } = *self;
        if exact == comparable {
            writeln!(f, "Sums:   every sum equals what the meters masked, to the watt.")?;
        } else {
            writeln!(f, "Sums:   {exact} of {comparable} sums equal what the meters masked.")?;
        }
        let off = |watts: f64| {
            let share = self.mean_true_size_watts.filter(|load| *load > 0.0).map(|load| 100.0 * watts / load);
            format!(
                "{}{}",
                kilowatts(watts),
                share.map_or_else(String::new, |share| format!(", {share:.1} % of the load"))
            )
        };
        match self.mean_error_watts {
            Some(_) if self.on_purpose.exact => {
                writeln!(f, "Noise:  none, as requested: sums are exact.")?;
            }
            Some(watts) => writeln!(
                f,
                "Noise:  a sum was off by {} on average; {within_band} of {comparable} were within their 95 % band.",
                off(watts)
            )?,
            None => {}
        }
        match self.mean_filtered_error_watts {
            Some(watts) => {
                writeln!(f, "Filter: using earlier sums, the load was off by {} on average.", off(watts))
            }
            None => Ok(()),
        }
    }

    fn write_cheats(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Injected { shifting, shift_watts, noiseless, .. } = self.on_purpose;
        if self.liars > 0 {
            let (liars, found) = (members(self.liars, "spoil"), self.liars_found);
            writeln!(
                f,
                "Cheats: {liars} slots: the gateway has found {found} of {} and excludes those it has found.",
                self.liars
            )?;
        }
        if shifting > 0 {
            let shift = kilowatts(shift_watts as f64);
            writeln!(f, "Cheats: {} every sum by {shift}: the protocol cannot see this.", members(shifting, "shift"))?;
        }
        if noiseless > 0 {
            let leave = members(noiseless, "leave");
            writeln!(
                f,
                "Cheats: {leave} out their noise: the protocol cannot see this. It stays private as long as no more than \
                 `max_malicious` do."
            )?;
        }
        Ok(())
    }
}

/// So many members of a cluster, with what they do.
fn members(count: usize, verb: &str) -> String {
    if count == 1 { format!("one member {verb}s") } else { format!("{count} members {verb}") }
}

/// Watts as people read them.
pub(crate) fn kilowatts(watts: f64) -> String {
    format!("{:.1} kW", watts / 1000.0)
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
            load_filtered_watts: load,
            band95_filtered_watts: load.map(|_| 50),
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
            !Verdict::of(
                &rows,
                FromMeters::default(),
                Injected { faults: true, vanishing: true, shifting: 1, ..Injected::default() }
            )
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
        assert!(Verdict::of(&many, FromMeters::default(), Injected { shifting: 1, ..Injected::default() }).is_good());
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
    fn a_liar_explains_sums_that_fail_until_it_should_have_been_found() {
        let rows = [row("decoded", Some(1), None), row("unmask_failed", None, None), row("reveal_missing", None, None)];
        let good = |lying: Vec<u64>, found: usize| {
            Verdict::of(&rows, FromMeters { lying, found, ..FromMeters::default() }, Injected::default()).is_good()
        };
        assert!(!good(vec![], 0), "nobody lied");
        assert!(good(vec![found_within(1)], 0) && good(vec![100], 1) && good(vec![100, 100, 3], 1));
        assert!(!good(vec![found_within(1) + 1], 0) && !good(vec![100, 100], 1) && !good(vec![300, 300, 3], 1));
    }

    #[test]
    fn a_verdict_says_what_was_seen() {
        let rows = [vec![row("decoded", Some(1), None); 30], vec![row("unmask_failed", None, None); 18]].concat();
        let told = |lying: usize, found: usize| {
            let meters = FromMeters { lying: vec![9; lying], found, ..FromMeters::default() };
            Verdict::of(&rows, meters, Injected::default()).to_string()
        };
        let ends = |told: &str, how: &str| assert!(told.ends_with(how), "{told}");
        ends(&told(2, 1), "Verdict: 30 of 48 slots gave a sum; one dishonest meter is not found yet.");
        ends(&told(2, 0), "Verdict: 30 of 48 slots gave a sum; 2 dishonest meters are not found yet.");
        ends(&told(1, 1), "Verdict: 30 of 48 slots gave a sum; the dishonest meter is found.");
        ends(&told(2, 2), "Verdict: 30 of 48 slots gave a sum; both dishonest meters are found.");
        let faulty = [row("decoded", Some(1), None), row("too_many_missing", None, None)];
        let injected = Injected { faults: true, ..Injected::default() };
        let verdict = Verdict::of(&faulty, FromMeters::default(), injected).to_string();
        ends(&verdict, "Verdict: 1 of 2 slots gave a sum; the others failed because of injected faults.");
    }

    #[test]
    fn nothing_at_all_is_wrong() {
        assert!(!Verdict::of(&[], FromMeters::default(), Injected::default()).is_good());
        let failed = [row("too_many_missing", None, None)];
        assert!(
            !Verdict::of(&failed, FromMeters::default(), Injected { faults: true, ..Injected::default() }).is_good()
        );
    }

    #[test]
    fn a_verdict_is_told_in_words() {
        let rows = vec![row("decoded", Some(101_500), Some((100_000, 101_500))); 20];
        let told = |injected| Verdict::of(&rows, FromMeters::default(), injected).to_string();
        let honest = told(Injected { shifting: 0, faults: true, ..Injected::default() });
        assert!(
            honest.starts_with("20 of 20 slots gave a sum.\nSums:   every sum equals what the meters masked"),
            "{honest}"
        );
        assert!(honest.contains("off by 1.5 kW, 1.5 % of the load on average; 0 of 20 were within"), "{honest}");
        assert!(honest.contains("using earlier sums, the load was off by 1.5 kW, 1.5 %"), "{honest}");
        let shifted = told(Injected { shifting: 3, shift_watts: 15_000, ..Injected::default() });
        assert!(shifted.contains("3 members shift every sum by 15.0 kW: the protocol cannot see this."), "{shifted}");
        assert!(shifted.ends_with("Verdict: all is well."), "{shifted}");
        let silent = told(Injected { noiseless: 1, shifting: 1, ..Injected::default() });
        assert!(silent.contains("one member leaves out their noise"), "{silent}");
        let exact = told(Injected { exact: true, shifting: 1, ..Injected::default() });
        assert!(exact.contains("none, as requested"), "{exact}");
    }

    #[test]
    fn errors_are_shares_of_what_is_drawn_or_fed_in() {
        // As much is fed in by day as is drawn at night: the mean is nothing, the load is not.
        let (day, night) = ((-100_000, -98_500), (100_000, 101_500));
        let rows = [day, night].map(|(truth, noisy)| row("decoded", Some(noisy), Some((truth, noisy))));
        let verdict = Verdict::of(&rows, FromMeters::default(), Injected { shifting: 1, ..Injected::default() });
        assert_eq!((verdict.mean_true_watts, verdict.mean_true_size_watts), (Some(0.0), Some(100_000.0)));
        let told = verdict.to_string();
        assert!(told.contains("off by 1.5 kW, 1.5 % of the load on average"), "{told}");
    }

    #[test]
    fn a_filtered_load_is_held_against_the_load_of_all_members() {
        let mut row = row("decoded", Some(900), Some((900, 900)));
        (row.aggregate.responders, row.aggregate.load_filtered_watts) = (9, Some(1010));
        assert_eq!((row.truth_of_all(), row.filtered_error()), (Some(1000.0), Some(10.0)));
    }
}
