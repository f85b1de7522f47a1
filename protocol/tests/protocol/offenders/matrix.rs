//! The search for members that spoil sums, over days of clusters of up to a thousand: the search itself, and a model of what
//! sums come to in place of keys and messages.
//!
//! `DREAM_SIM_RUNS=2000` runs the whole matrix, with as many runs of each row as `protocol-gateway.md 4b` states; `--no-capture`
//! shows it as the table there. `DREAM_MATRIX='200 committee'` runs the rows that begin like this.

mod foresight;
mod framers;
mod model;

use model::{Case, Lies, Report, play};

/// How long a run is, in slots: two days and a bit, and three where liars lie at times.
const SLOTS: u64 = 300;
const MORE_SLOTS: u64 = 432;

/// What runs of one case came to: median and 95th percentile.
struct Row {
    case: Case,
    reports: Vec<Report>,
}

impl Row {
    fn new(case: Case, runs: u64) -> Self {
        // The last of several who begin one after the other begins 90 slots after the one before at the latest.
        let later = if case.successive { 90 * (case.liars as u64 - 1) } else { 0 };
        let slots = later + if case.lies == Lies::Always { SLOTS } else { MORE_SLOTS };
        Self { case, reports: (1000..1000 + runs).map(|seed| play(&case, slots, seed)).collect() }
    }

    /// Median and 95th percentile.
    fn quantiles(&self, of: impl Fn(&Report) -> Option<u64>) -> [Option<u64>; 2] {
        let mut all: Vec<u64> = self.reports.iter().map(|report| of(report).unwrap_or(u64::MAX)).collect();
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent).div_ceil(100).saturating_sub(1)];
        [at(50), at(95)].map(|value| Some(value).filter(|value| *value < u64::MAX))
    }

    fn line(&self) -> String {
        let pair = |values: [Option<u64>; 2]| {
            values.map(|value| value.map_or_else(|| "-".to_owned(), |value| value.to_string())).join("/")
        };
        let columns = [
            self.case.members.to_string(),
            self.case.scheme().to_owned(),
            self.case.liars.to_string(),
            self.case.words(),
            pair(self.quantiles(|report| report.found)),
            pair(self.quantiles(|report| Some(report.lost))),
            pair(self.quantiles(|report| Some(report.longest_blind))),
            pair(self.quantiles(|report| Some(report.honest_kept))),
            pair(self.quantiles(|report| Some(report.longest_kept))),
            pair(self.quantiles(|report| report.convicted)),
            self.reports.len().to_string(),
        ];
        format!("| {} |", columns.join(" | "))
    }

    /// The bars that the row is above, in words.
    fn broken(&self) -> Vec<String> {
        let Case { members, liars, successive, lies, pairwise } = self.case;
        let bar = match (lies, liars, successive) {
            (Lies::Always, 1, _) => [Some(15), Some(25)],
            (Lies::Always, 2, true) => [Some(20), None],
            (Lies::Always, 2, false) => [Some(40), None],
            (Lies::Rate, 1, _) if members <= 200 => [Some(120), None],
            // Pairwise lists leave nobody out, and five are hardly ever in one fifth of the members.
            (Lies::Always, 5, false) if members == 600 && !pairwise => [Some(150), None],
            _ => [None, None],
        };
        let blind = (lies == Lies::Always && liars <= 2 && members >= 200).then_some(40);
        let above = |value: Option<u64>, bar: Option<u64>| bar.is_some_and(|bar| value.is_none_or(|value| value > bar));
        let [median, late] = self.quantiles(|report| report.found);
        let [_, longest] = self.quantiles(|report| Some(report.longest_blind));
        let [_, released] = self.quantiles(|report| Some(report.released));
        let stays = (lies == Lies::Always && liars <= 2).then_some(10);
        let convicted = self.reports.iter().any(|report| report.honest_convicted > 0);
        let checks = [
            (above(median, bar[0]), "found too late"),
            (above(late, bar[1]), "some found too late"),
            (above(longest, blind), "too long without a sum"),
            (above(released, stays), "a liar that was found took part again"),
            (convicted, "an honest member is convicted"),
        ];
        checks.iter().filter(|(is_broken, _)| *is_broken).map(|(_, bar)| format!("{bar}: {}", self.line())).collect()
    }
}

const HEAD: &str = "| N | scheme | liars | lie | found after | slots lost | longest without a sum | honest kept out | longest | \
                    convicted after | runs |\n|---|---|---|---|---|---|---|---|---|---|---|";

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment chooses which rows to run")]
fn liars_are_found_within_the_slots_that_the_documentation_states() {
    let rows = std::env::var("DREAM_MATRIX").unwrap_or_default();
    said(HEAD);
    let mut broken = Vec::new();
    for case in cases().filter(|case| case.to_string().starts_with(&rows)) {
        if let Some(runs) = runs(&case) {
            let row = Row::new(case, runs);
            said(&row.line());
            broken.extend(row.broken());
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn cases() -> impl Iterator<Item = Case> {
    let kinds = [Lies::Always, Lies::Rate, Lies::Evenings].into_iter();
    let kinds = kinds.flat_map(|lies| [60, 200, 600, 1000].map(|members| (members, lies)));
    let all = kinds.flat_map(|kind| [1, 2, 3, 5].map(|liars| (kind, liars)));
    let all = all.flat_map(|case| [false, true].map(|successive| (case, successive)));
    let all = all.flat_map(|case| [false, true].map(|pairwise| (case, pairwise)));
    all.map(|((((members, lies), liars), successive), pairwise)| Case { members, liars, successive, lies, pairwise })
        .filter(|case| case.liars > 1 || !case.successive)
}

/// How many runs of a case there are: of those with bars at the smaller sizes always some.
fn runs(case: &Case) -> Option<u64> {
    match long_runs() {
        None => match case.lies {
            Lies::Always => case.liars <= 2 && case.members <= 200,
            Lies::Rate => case.liars == 1 && case.members == 60,
            Lies::Evenings => false,
        }
        .then_some(20),
        Some(runs) => Some((runs / if case.members <= 200 { 50 } else { 100 }).max(1)),
    }
}

fn long_runs() -> Option<u64> {
    crate::simulation::variable("DREAM_SIM_RUNS").filter(|runs| *runs >= 1000)
}

#[expect(clippy::print_stdout, reason = "the table, for a run with --no-capture")]
fn said(line: &str) {
    println!("{line}");
}
