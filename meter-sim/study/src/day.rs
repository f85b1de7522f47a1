//! What range and energy account of a kind of home cost its cluster's sums: error, energy that is lost, bias, and how often the
//! band holds the load, over whole days, in the evening when accounts run out, and on the days of highest load.

use dream_filter::{Filter, LocalTime, Release};
use dream_protocol::kind::Kind;
use dream_protocol::noise::{Confidence, Sampler, Spread};
use dream_protocol::params::{Params, Share, Terms};
use dream_protocol::simulation::EnergyAccount;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::dataset::{Dataset, Loads};
use super::section::{Cell, Section, Table};
use dream_homes::home::ActivityModel;
use dream_homes::street::{all_cores, in_parallel};

/// What the study looks at of homes that heat with electricity, and of those that do not.
const HEATER: &str = "storage_heater";

/// Keeps the chance of this part apart from that of other parts.
const STREAM: u64 = 5 << 24;

/// Clusters of a hundred homes, and their days. The last week counts, as in the part about filtering: the filter learns before.
const CLUSTERS: usize = 8;
const SIZE: usize = 100;
const DAYS: u32 = 21;
const WEEK: usize = 7;

/// The large cluster, and how many of its homes are simulated so that enough have no heaters.
const MANY: usize = 10_000;
const CANDIDATES: u32 = 10_800;
const DAYS_OF_MANY: u32 = 2;

/// How long after the start of the study's first day its slots are numbered from: day 20,000 of the epoch.
const FIRST_DAY: u64 = 20_000;

/// What the kinds of homes come to. Nothing if the data has too few homes or days.
pub(crate) fn section(data: &Dataset, seed: u64) -> Option<Section> {
    let every: Vec<usize> = (0..data.homes()).collect();
    let mut rows = Vec::new();
    let groups = [(Kind::House, data.without(HEATER)), (Kind::ElectricHeat, every)];
    for (kind, homes) in groups {
        let scores = hundreds(data, seed, kind, &homes, CLUSTERS, DAYS)?;
        rows.extend(scores.rows(kind, SIZE));
    }
    if data.is_model() {
        let scores = thousands(seed, MANY, CANDIDATES, DAYS_OF_MANY);
        rows.extend(scores.rows(Kind::House, MANY));
    }
    let table = Table { name: "day", header: &HEADER, rows };
    Some(Section { tables: vec![table], figures: Vec::new() })
}

const HEADER: [&str; 13] = [
    "kind",
    "homes",
    "epsilon",
    "epsilon_of_a_day",
    "when",
    "error_raw",
    "error_filtered",
    "absolute_error_over_mean_load",
    "lost_to_range",
    "lost_to_account",
    "bias",
    "band95_coverage",
    "band95_coverage_filtered",
];

/// Clusters of a hundred homes of a kind, at epsilon 1, with the gateway's filter.
fn hundreds(data: &Dataset, seed: u64, kind: Kind, homes: &[usize], clusters: usize, days: u32) -> Option<Scores> {
    let slot_seconds = data.slot().seconds().into();
    let params = params(SIZE, kind.terms(Terms::with_slots_of(slot_seconds)))?;
    let mut chance = chance(seed, 0);
    let clusters = clusters.min(homes.len() / SIZE);
    let chosen = rand::seq::index::sample(&mut chance, homes.len(), clusters * SIZE).into_vec();
    let chosen: Vec<usize> = chosen.into_iter().map(|at| homes[at]).collect();
    let members: Vec<(u64, &[usize])> = (1..).zip(chosen.chunks_exact(SIZE)).collect();
    let observed: Vec<Vec<Vec<Observed>>> = members
        .iter()
        .map(|(number, members)| {
            let days = reported(&params, &data.days(members, days));
            follow(&params, &days, &mut self::chance(seed, *number), true)
        })
        .collect();
    let enough = clusters > 0 && observed.iter().all(|days| days.len() > WEEK);
    let last_week = |days: Vec<Vec<Observed>>| days[days.len() - WEEK..].to_vec();
    enough.then(|| Scores { params, clusters: observed.into_iter().map(last_week).collect() })
}

/// One cluster of thousands, whose day costs epsilon 4, without a filter.
fn thousands(seed: u64, size: usize, candidates: u32, days: u32) -> Scores {
    let data = Dataset::model(seed, candidates, ActivityModel::Crest);
    let members: Vec<usize> = data.without(HEATER).into_iter().take(size).collect();
    // 30 kWh of ten-minute slots: E/2 * lambda / 6 h, hence lambda = 90 kW, and 5 kW of it are epsilon 1/18.
    let terms = Terms { epsilon_denominator: 18, ..Terms::DEFAULT }.with_day_watt_hours(Kind::House.day_watt_hours());
    let params = params(members.len(), terms).expect("terms that any list may have");
    let days = reported(&params, &data.days(&members, days));
    Scores { params, clusters: vec![follow(&params, &days, &mut chance(seed, 1 << 20), false)] }
}

fn params(members: usize, terms: Terms) -> Option<Params> {
    let tenth = Share::new(1, 10).expect("less than all");
    terms.for_members(u16::try_from(members).ok()?, tenth, tenth, 10).ok()
}

fn chance(seed: u64, number: u64) -> ChaCha8Rng {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    chance.set_stream(STREAM + number);
    chance
}

/// A cluster's slot before noise, in watts: its load, and what range and account leave out of it.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    truth: f64,
    lost_to_range: f64,
    lost_to_account: f64,
}

/// Lets every home's meter report its days; returns the cluster's.
fn reported(params: &Params, days: &[Loads]) -> Vec<Vec<Reported>> {
    let terms = params.terms();
    let per_day = 86_400 / terms.slot_seconds;
    let of_day = |(number, loads): &(u64, &Loads)| {
        let mut slots = vec![Reported::default(); loads.slots()];
        for home in &loads.watts {
            let mut account = EnergyAccount::default();
            for ((slot, &watts), at) in slots.iter_mut().zip(home).zip(number * per_day..) {
                let measured = watts.round();
                #[expect(clippy::cast_possible_truncation, reason = "a home's watts")]
                let told = account.report(params, Slot(at), measured as i64) as f64;
                let clipped = measured.clamp(terms.lo as f64, terms.hi as f64);
                slot.truth += measured;
                slot.lost_to_range += measured - clipped;
                slot.lost_to_account += clipped - told;
            }
        }
        slots
    };
    let numbered: Vec<(u64, &Loads)> = (FIRST_DAY..).zip(days).collect();
    in_parallel(all_cores(), &numbered, of_day)
}

/// A slot as everybody sees it.
#[derive(Debug, Clone, Copy)]
struct Observed {
    reported: Reported,
    released: f64,
    /// Load and half its band.
    filtered: Option<(f64, f64)>,
}

/// Adds the noise of all members' shares, and filters the sums as the gateway does.
fn follow(params: &Params, days: &[Vec<Reported>], chance: &mut ChaCha8Rng, filtered: bool) -> Vec<Vec<Observed>> {
    let sampler = Sampler::new(params.honest().into(), params.noise_scale());
    let variance = Spread::new(params.noise_scale(), params.honest().into(), params.members().into()).variance();
    let members = params.members();
    let mut filter = filtered.then(Filter::default);
    let mut end_millis = 0;
    let mut slot = |reported: &Reported| {
        let start_millis = end_millis;
        end_millis += 1000 * params.terms().slot_seconds;
        let noise: i64 = (0..members).map(|_| sampler.sample(chance)).sum();
        let watts = reported.truth - reported.lost_to_range - reported.lost_to_account + noise as f64;
        // These days are all weekdays.
        let local = LocalTime { weekend: false, ..LocalTime::utc(start_millis.midpoint(end_millis)) };
        let release = Release { start_millis, end_millis, local, watts, variance, responders: members, members };
        let filtered = filter.as_mut().and_then(|filter| filter.observe(&release));
        let filtered = filtered.map(|filtered| (filtered.watts, filtered.band95));
        Observed { reported: *reported, released: watts, filtered }
    };
    days.iter().map(|day| day.iter().map(&mut slot).collect()).collect()
}

/// What clusters of one kind come to: `clusters[cluster][day][slot]`.
#[derive(Debug)]
struct Scores {
    params: Params,
    clusters: Vec<Vec<Vec<Observed>>>,
}

impl Scores {
    fn rows(&self, kind: Kind, homes: usize) -> Vec<Vec<Cell>> {
        let terms = self.params.terms();
        let head = [
            kind.as_str().into(),
            Cell::from(homes),
            Cell::Number(terms.epsilon_numerator as f64 / terms.epsilon_denominator as f64),
            Cell::Number(terms.day_micro_epsilon as f64 / 1e6),
        ];
        let row = |(when, score): (&str, Score)| [head.to_vec(), vec![when.into()], score.cells()].concat();
        [("all", self.all()), ("17 to 24 h", self.evenings()), ("days of highest load", self.highest_days())]
            .map(row)
            .into()
    }

    fn all(&self) -> Score {
        self.score(self.clusters.iter().flatten().flatten())
    }

    fn evenings(&self) -> Score {
        let evening = |day: &Vec<Observed>| day.len() * 17 / 24;
        self.score(self.clusters.iter().flatten().flat_map(|day| &day[evening(day)..]))
    }

    /// A tenth of each cluster's days: the coldest, where homes heat with electricity.
    fn highest_days(&self) -> Score {
        let load = |day: &Vec<Observed>| day.iter().map(|slot| slot.reported.truth).sum::<f64>();
        let slots = self.clusters.iter().flat_map(|days| {
            let mut days: Vec<&Vec<Observed>> = days.iter().collect();
            days.sort_by(|one, other| load(other).total_cmp(&load(one)));
            days.truncate(days.len().div_ceil(10));
            days.into_iter().flatten()
        });
        self.score(slots)
    }

    fn score<'a>(&self, slots: impl Iterator<Item = &'a Observed>) -> Score {
        let spread = self.params.noise_scale();
        let spread = Spread::new(spread, self.params.honest().into(), self.params.members().into());
        let band = spread.half_width(Confidence::P95) as f64;
        let (mut score, mut count, mut load) = (Score::default(), 0.0, 0.0);
        for Observed { reported: Reported { truth, lost_to_range, lost_to_account }, released, filtered } in slots {
            let within = |watts: f64, band: f64| f64::from(u8::from((watts - truth).abs() <= band));
            score.raw += (released - truth).abs() / base(*truth);
            score.absolute += (released - truth).abs();
            score.lost_to_range += lost_to_range;
            score.lost_to_account += lost_to_account;
            score.covered += within(*released, band);
            if let Some((watts, band)) = filtered {
                score.filtered += (watts - truth).abs() / base(*truth);
                score.covered_filtered += within(*watts, *band);
                score.is_filtered = true;
            }
            count += 1.0;
            load += truth;
        }
        Score {
            raw: score.raw / count,
            filtered: score.filtered / count,
            absolute: score.absolute / load,
            lost_to_range: score.lost_to_range / load,
            lost_to_account: score.lost_to_account / load,
            covered: score.covered / count,
            covered_filtered: score.covered_filtered / count,
            is_filtered: score.is_filtered,
        }
    }
}

/// What the paper divides the errors of a load by.
fn base(load: f64) -> f64 {
    load.abs() + 1.0
}

/// Means over slots; what is lost, and the absolute error, are shares of the energy.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    raw: f64,
    filtered: f64,
    absolute: f64,
    lost_to_range: f64,
    lost_to_account: f64,
    covered: f64,
    covered_filtered: f64,
    is_filtered: bool,
}

impl Score {
    /// Range and account only ever take away, where homes do not feed in.
    fn bias(&self) -> f64 {
        -(self.lost_to_range + self.lost_to_account)
    }

    fn cells(&self) -> Vec<Cell> {
        let filtered = |value: f64| if self.is_filtered { Cell::Number(value) } else { Cell::Empty };
        vec![
            Cell::Number(self.raw),
            filtered(self.filtered),
            Cell::Number(self.absolute),
            Cell::Number(self.lost_to_range),
            Cell::Number(self.lost_to_account),
            Cell::Number(self.bias()),
            Cell::Number(self.covered),
            filtered(self.covered_filtered),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::slots::SlotLength;

    /// Two of eight clusters, and fewer days to learn from than in the study.
    #[test]
    fn a_hundred_houses_err_by_a_fifth_and_filtering_halves_it_nearly() {
        for seed in [1, 2] {
            let data = Dataset::model(seed, 230, ActivityModel::Crest);
            let scores = hundreds(&data, seed, Kind::House, &data.without(HEATER), 2, 12).unwrap();
            assert_eq!(scores.params.terms().day_micro_epsilon, 72_000_000);
            let all = scores.all();
            assert!(all.raw <= 0.20 && all.filtered <= 0.6 * all.raw, "{all:?}");
            assert!(all.lost_to_range < 0.01 && all.lost_to_account < 0.01, "{all:?}");
        }
    }

    #[test]
    fn ten_thousand_houses_err_by_three_in_a_hundred_while_a_day_costs_four() {
        // The error is the noise's, and it falls with the number of homes: a tenth of them shows it in a tenth of the time.
        for seed in [1, 2] {
            let scores = thousands(seed, 1000, 1100, 1);
            assert_eq!(scores.params.terms().day_micro_epsilon, 4_000_000);
            let all = scores.all();
            assert!(all.absolute / 10.0 <= 0.03, "{all:?}");
        }
    }

    #[test]
    fn range_and_account_take_what_they_must() {
        let slot = SlotLength::new(600).unwrap();
        let watts = vec![vec![7000.0; 144], vec![100.0; 144]];
        let params = params(100, Terms::DEFAULT).unwrap();
        let days = reported(&params, &[Loads { slot, watts }]);
        let sum = |part: fn(&Reported) -> f64| days[0].iter().map(part).sum::<f64>();
        assert_eq!(sum(|slot| slot.truth), 7100.0 * 144.0);
        assert_eq!(sum(|slot| slot.lost_to_range), 2000.0 * 144.0);
        assert_eq!(sum(|slot| slot.lost_to_account), 5000.0 * (144.0 - 36.0), "30 kWh are told");
    }

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../docs/study.md");
        let line = page.lines().find(|line| line.starts_with("| `day.csv` |")).unwrap();
        assert!(HEADER.iter().all(|column| line.contains(&format!("`{column}`"))), "{line}");
    }
}
