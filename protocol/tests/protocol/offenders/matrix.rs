//! The search for members that spoil sums, over days of clusters of up to a thousand: the search itself, and a model of what
//! sums come to in place of keys and messages. `DREAM_SIM_RUNS=2000` runs the whole matrix; `--no-capture` shows it as the table
//! of `protocol.md`.

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
    fn new(case: Case, runs: u64, slots: u64) -> Self {
        let seeds = 1000..1000 + runs;
        Self { case, reports: seeds.map(|seed| play(&case, slots, seed)).collect() }
    }

    /// Median and 95th percentile.
    fn quantiles(&self, of: impl Fn(&Report) -> Option<u64>) -> [Option<u64>; 2] {
        let mut all: Vec<u64> = self.reports.iter().map(|report| of(report).unwrap_or(u64::MAX)).collect();
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent).div_ceil(100).saturating_sub(1)];
        [at(50), at(95)].map(|value| Some(value).filter(|value| *value < u64::MAX))
    }

    fn found(&self) -> [Option<u64>; 2] {
        self.quantiles(|report| report.found)
    }

    fn blind(&self) -> [Option<u64>; 2] {
        self.quantiles(|report| Some(report.longest_blind))
    }

    fn line(&self) -> String {
        let pair = |values: [Option<u64>; 2]| {
            values.map(|value| value.map_or_else(|| "-".to_owned(), |value| value.to_string())).join("/")
        };
        let Case { members, liars, .. } = self.case;
        let columns = [
            members.to_string(),
            self.case.scheme().to_owned(),
            liars.to_string(),
            self.case.words(),
            pair(self.found()),
            pair(self.quantiles(|report| Some(report.lost))),
            pair(self.blind()),
            pair(self.quantiles(|report| Some(report.honest_kept))),
            pair(self.quantiles(|report| Some(report.longest_kept))),
            pair(self.quantiles(|report| report.convicted)),
            self.reports.len().to_string(),
        ];
        format!("| {} |", columns.join(" | "))
    }
}

const HEAD: &str = "| N | scheme | liars | lie | found after | slots lost | longest without a sum | honest kept out | longest | \
                    convicted after | runs |\n|---|---|---|---|---|---|---|---|---|---|---|";

const ALWAYS: Case = Case { members: 60, liars: 1, successive: false, lies: Lies::Always, pairwise: false };

#[test]
fn liars_are_found_within_the_slots_that_the_specification_states() {
    let long = is_long();
    let sizes: &[usize] = if long { &[60, 200, 600, 1000] } else { &[60, 200] };
    said(HEAD);
    for &members in sizes {
        let runs = match (long, members) {
            (false, _) => 9,
            (true, ..=200) => 60,
            (true, _) => 20,
        };
        let row = |case: Case| {
            let more = if case.successive { 90 * (case.liars as u64 - 1) } else { 0 };
            let row = Row::new(Case { members, ..case }, runs, SLOTS + more);
            said(&row.line());
            assert!(row.reports.iter().all(|report| report.honest_convicted == 0));
            row
        };
        for pairwise in [false, true] {
            let one = row(Case { pairwise, ..ALWAYS });
            bars(&one, 15, Some(25));
            let two = row(Case { liars: 2, pairwise, ..ALWAYS });
            bars(&two, 40, None);
            let successive = row(Case { liars: 2, successive: true, pairwise, ..ALWAYS });
            bars(&successive, 20, None);
            // Pairwise lists leave nobody out, so that two liars can only be left out by chance: a fifth of the members at a time.
            if members >= 200 && !pairwise {
                let blind = [&one, &two].map(|row| row.blind()[1]);
                assert!(blind.iter().all(|slots| slots.is_some_and(|slots| slots <= 40)), "{members}: {blind:?}");
            }
        }
        if !long {
            continue;
        }
        for successive in [false, true] {
            row(Case { liars: 3, successive, ..ALWAYS });
            let five = row(Case { liars: 5, successive, ..ALWAYS });
            if members == 600 && !successive {
                bars(&five, 150, None);
            }
        }
        row(Case { liars: 3, pairwise: true, ..ALWAYS });
    }
}

#[test]
fn liars_that_lie_at_times_are_reported() {
    let long = is_long();
    let sizes: &[usize] = if long { &[60, 200, 600, 1000] } else { &[60] };
    said(HEAD);
    for &members in sizes {
        for (liars, lies) in [1, 2, 3, 5].into_iter().flat_map(|liars| [(liars, Lies::Rate), (liars, Lies::Evenings)]) {
            if !long && liars > 1 {
                continue;
            }
            for pairwise in [false, true] {
                let case = Case { members, liars, lies, pairwise, successive: false };
                let runs = match (long, members) {
                    (false, _) => 5,
                    (true, ..=200) => 24,
                    (true, _) => 8,
                };
                let row = Row::new(case, runs, MORE_SLOTS);
                said(&row.line());
                assert!(row.reports.iter().all(|report| report.honest_convicted == 0));
                if liars == 1 {
                    assert!(row.found()[0].is_some_and(|slots| slots <= 150), "{}", row.line());
                }
            }
        }
    }
}

/// Checks the median and, if it has a bar, the 95th percentile.
fn bars(row: &Row, median: u64, most: Option<u64>) {
    let [found, late] = row.found();
    assert!(found.is_some_and(|slots| slots <= median), "{}", row.line());
    assert!(most.is_none_or(|most| late.is_some_and(|slots| slots <= most)), "{}", row.line());
}

fn is_long() -> bool {
    crate::simulation::variable("DREAM_SIM_RUNS").is_some_and(|runs| runs >= 1000)
}

#[expect(clippy::print_stdout, reason = "the table, for a run with --no-capture")]
fn said(line: &str) {
    println!("{line}");
}
