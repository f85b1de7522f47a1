//! The figures that a decision rests on: with and without storage heaters, under the ranges that suit them and under
//! others, with two seeds and their spread; and month by month.

use dream_edge::HomeKind;
use dream_protocol::params::Terms;

use super::score::Score;
use super::terms::under;
use super::{CLUSTERS_OF_A_YEAR, WEEK, Watched, epsilon_of_day, terms};
use crate::dataset::Dataset;
use crate::section::{Table, row};
use crate::settings::Settings;
use crate::spread::with_mean_and_spread;
use dream_homes::home::{Calendar, Month};

/// What the product had before ranges suited homes, and what most figures about it rest on.
const FORMER_HI: i64 = 9000;

/// What is told of each case.
const NUMBERS: [fn(&Score) -> f64; 6] = [
    |score| score.raw,
    |score| score.absolute,
    |score| score.filtered,
    |score| score.absolute_filtered,
    Score::bias,
    |score| score.covered_filtered,
];

/// Homes and terms that are looked at with every seed.
#[derive(Debug, Clone, PartialEq)]
struct Case {
    heaters: &'static str,
    terms: Terms,
}

/// What was found with one seed.
type Numbers = (u64, [f64; NUMBERS.len()]);

/// What was found in each case, seed by seed.
#[derive(Debug, Default)]
pub(super) struct Headline {
    found: Vec<(Case, Vec<Numbers>)>,
}

impl Headline {
    /// Looks at one seed's homes.
    pub(super) fn add(
        &mut self,
        alike: &Watched<'_>,
        mixed: &Watched<'_>,
        settings: &Settings,
        seed: u64,
    ) -> Result<(), String> {
        let with = cases(mixed, settings).into_iter().map(|case| (mixed, case));
        // Without simulated heaters, there is one set of homes.
        let without = mixed.heaters.then(|| cases(alike, settings).into_iter().map(|case| (alike, case)));
        for (watched, case) in without.into_iter().flatten().chain(with) {
            let score = watched.last_week_under(case.terms, settings)?.all();
            let numbers = (seed, NUMBERS.map(|number| number(&score)));
            match self.found.iter_mut().find(|(same, _)| *same == case) {
                Some((_, seeds)) => seeds.push(numbers),
                None => self.found.push((case, vec![numbers])),
            }
        }
        Ok(())
    }

    /// The first case: what is told first, raw and filtered, with each seed.
    pub(super) fn first(&self) -> Vec<(u64, f64, f64)> {
        let seeds = self.found.first().map(|(_, seeds)| seeds.iter());
        seeds.into_iter().flatten().map(|(seed, numbers)| (*seed, numbers[0], numbers[2])).collect()
    }

    /// A row for each seed, one for their mean, and one for how far they are apart.
    pub(super) fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (case, seeds) in &self.found {
            let Terms { lo, hi, .. } = case.terms;
            let (range, day) = (format!("{lo} to {hi}"), epsilon_of_day(&case.terms));
            let head = row![case.heaters, range, day];
            rows.extend(with_mean_and_spread(seeds).map(|(seed, numbers)| row![; head.clone(); [seed]; numbers]));
        }
        const COLUMNS: &str = "storage_heaters range_watts epsilon_of_a_day seed error_raw absolute_error_over_mean_load \
                               error_filtered absolute_error_filtered bias band95_coverage_filtered";
        Table::new("headline", COLUMNS, rows)
    }
}

/// The range of the kind, and others that one might take; if one was asked for, that alone.
fn cases(watched: &Watched<'_>, settings: &Settings) -> Vec<Case> {
    let heaters = if watched.heaters { "with" } else { "without" };
    let of = |kind: HomeKind| Case { heaters, terms: terms(kind, settings, watched.slot_seconds) };
    // As much of a day as the kind's own range would let them report.
    let under =
        |kind: HomeKind, hi: i64| Case { heaters, terms: under(kind, settings, Terms { hi, ..of(kind).terms }) };
    let suits = match (watched.feeds_in, watched.heaters) {
        (true, _) => return vec![of(HomeKind::Pv)],
        (false, true) => HomeKind::ElectricHeat,
        (false, false) => HomeKind::House,
    };
    if settings.asked_range().is_some() {
        return vec![of(suits)];
    }
    let former = under(suits, FORMER_HI);
    if watched.heaters { vec![of(HomeKind::House), former, of(suits)] } else { vec![of(suits), former] }
}

/// Houses over a year, month by month, after a week of learning.
pub(super) fn months(houses: &Dataset, settings: &Settings, seed: u64) -> Result<Table, String> {
    let watched = Watched::over(houses, settings, seed, CLUSTERS_OF_A_YEAR, Calendar::DAYS_OF_A_YEAR)?;
    let scores = watched.under(cases(&watched, settings)[0].terms, settings)?;
    let month_of = |day: usize| houses.month(u32::try_from(day).expect("a day of a year"));
    let row = |month: Month| {
        let score = scores.of_days(|day| day >= WEEK && month_of(day) == Some(month));
        let watts = score.mean_load / watched.drawn.size as f64;
        let numbers =
            [score.raw, score.absolute, score.filtered, score.absolute_filtered, score.covered_filtered, watts];
        row![month.to_string(); numbers]
    };
    const COLUMNS: &str = "month error_raw absolute_error_over_mean_load error_filtered absolute_error_filtered \
                           band95_coverage_filtered mean_watts_of_a_home";
    Ok(Table::new("months", COLUMNS, (1..=12).filter_map(|month| Month::new(month).ok()).map(row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::ActivityModel;

    fn homes(heaters: bool) -> Dataset {
        let data = Dataset::model(3, 120, ActivityModel::Crest);
        if heaters { data } else { data.houses() }
    }

    fn watched(data: &Dataset) -> Watched<'_> {
        Watched::over(data, &Settings::default(), 3, 1, 9).unwrap()
    }

    #[test]
    fn seeds_have_a_mean_and_a_spread() {
        let case = Case { heaters: "without", terms: Terms::DEFAULT };
        let headline = Headline { found: vec![(case, vec![(1, [0.2; 6]), (2, [0.25; 6])])] };
        let table = headline.table();
        let column: Vec<String> = table.rows.iter().map(|row| row[3].csv() + " " + &row[4].csv()).collect();
        assert_eq!(column, ["1 0.2", "2 0.25", "mean 0.225", "spread 0.05"]);
    }

    #[test]
    fn homes_are_looked_at_under_the_range_that_suits_them_and_under_others() {
        let ends = |heaters, settings: &Settings| {
            let cases = cases(&watched(&homes(heaters)), settings);
            cases.iter().map(|case| (case.terms.hi, case.terms.day_micro_rho / 1000)).collect::<Vec<_>>()
        };
        assert_eq!(ends(false, &Settings::default()), [(8000, 1722), (9000, 1361)]);
        assert_eq!(ends(true, &Settings::default()), [(8000, 1722), (9000, 5308), (15_000, 1911)]);
        assert_eq!(ends(false, &Settings::asking("0..6000", "1", None)), [(6000, 12_250)]);
    }

    #[test]
    fn without_storage_heaters_a_wider_range_errs_as_much_more_as_it_is_wider() {
        let (settings, homes) = (Settings::default(), homes(false));
        let watched = watched(&homes);
        let [narrow, wide] = [5000, 9000].map(|hi| {
            let terms = Terms { hi, ..Terms::DEFAULT }.with_day_rms(1750);
            watched.last_week_under(terms, &settings).unwrap().all()
        });
        assert!((wide.raw / narrow.raw / 1.8 - 1.0).abs() < 0.06, "{wide:?} {narrow:?}");
        assert!((wide.absolute / narrow.absolute / 1.8 - 1.0).abs() < 0.06, "{wide:?} {narrow:?}");
    }
}
