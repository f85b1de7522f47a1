//! What the gateway's filter gets out of released sums, day after day, beside the sums themselves and a plain filter.

mod cases;

use dream_filter::{Filter, Filtered, Release};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::accuracy::{Alpha, ClusterSlot, Shares};
use super::dataset::{Dataset, FIRST_DAY};
use super::section::{Axis, Cell, Figure, Section, Series, Stroke, Table};
use super::settings::Settings;
use dream_homes::slots::SECONDS_PER_DAY;
use dream_homes::street::{all_cores, in_parallel};

const CLUSTERS: usize = 8;
/// Simulated days; of a file, all it has up to a year.
const DAYS: u32 = 21;
const MOST_DAYS: u32 = 366;
/// How many days the mean of the last days is over.
const WEEK: usize = 7;
/// Keeps the chance of this part apart from that of homes, whose streams begin far above, and of other parts.
const STREAM: u64 = 3 << 24;

/// What filtering gains, with two seeds. Says what is missing if the data has less than two whole days.
pub(crate) fn section(data: &Dataset, settings: &Settings, seed: u64) -> Result<Section, String> {
    let most_days = if data.is_model() { DAYS } else { MOST_DAYS };
    let mut weeks = Vec::new();
    let (mut first, mut hard) = (None, Vec::new());
    for seed in [seed, seed.wrapping_add(1)] {
        let other = data.seed().is_some_and(|own| own != seed).then(|| data.with_seed(seed));
        let drawn = Drawn::new(other.as_ref().unwrap_or(data), settings, seed, CLUSTERS, most_days)?;
        let clusters = drawn.observe(settings.alpha());
        let step = Level::best_step(&clusters);
        let days = scores(&clusters, step);
        weeks.push((settings.alpha(), seed, last_week(&days)));
        if settings.alpha() != Alpha::NONE {
            weeks.push((Alpha::NONE, seed, last_week(&scores(&drawn.observe(Alpha::NONE), step))));
        }
        let weekend = |day: usize| u32::try_from(day).is_ok_and(|day| data.weekend(day));
        hard.extend(cases::rows(seed, &clusters, weekend));
        first.get_or_insert((clusters, days));
    }
    let (clusters, days) = first.expect("there are two seeds");
    let tables = vec![table(&days), last_week_table(&weeks), cases::table(hard)];
    Ok(Section { tables, figures: vec![day_figure(&clusters[0]), days_figure(&days)] })
}

/// A cluster over some days.
#[derive(Debug)]
struct Cluster {
    members: u16,
    /// How long a slot is.
    slot_millis: u64,
    /// Of the noise.
    variance: f64,
    days: Vec<Vec<Observed>>,
}

/// A slot of it, in watts.
#[derive(Debug, Clone, Copy)]
struct Observed {
    /// When it ends, in hours from the day's begin.
    until: f64,
    /// The load of all members, if those who are silent use as much as the others.
    truth: f64,
    /// What errors are shares of.
    base: f64,
    /// What is left of it when readings are clipped.
    clipped: f64,
    released: f64,
    filtered: Filtered,
}

/// Clusters by lot, before noise: `clusters[cluster][day][slot]`.
#[derive(Debug)]
struct Drawn<'a> {
    settings: &'a Settings,
    data: &'a Dataset,
    seed: u64,
    size: u16,
    clusters: Vec<(u64, Vec<Vec<ClusterSlot>>)>,
}

impl<'a> Drawn<'a> {
    fn new(data: &'a Dataset, settings: &'a Settings, seed: u64, clusters: usize, days: u32) -> Result<Self, String> {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        chance.set_stream(STREAM);
        let size = settings.size().min(data.homes());
        let clusters = clusters.min(data.homes() / size);
        let homes = rand::seq::index::sample(&mut chance, data.homes(), clusters * size).into_vec();
        let range = settings.range(data);
        let everybody: Vec<usize> = (0..size).collect();
        let cluster = |members: &[usize]| -> Vec<Vec<ClusterSlot>> {
            data.days(members, days).iter().map(|loads| ClusterSlot::of(loads, &everybody, range)).collect()
        };
        let clusters: Vec<(u64, Vec<Vec<ClusterSlot>>)> = (1..).zip(homes.chunks_exact(size).map(cluster)).collect();
        if clusters.iter().any(|(_, days)| days.len() < 2) {
            return Err("It needs at least two whole days of slots.".to_owned());
        }
        Ok(Self {
            settings,
            data,
            seed,
            size: u16::try_from(size).map_err(|_| "It needs a --size of 65535 or less.")?,
            clusters,
        })
    }

    /// Has the gateway's filter follow each of them.
    fn observe(&self, alpha: Alpha) -> Vec<Cluster> {
        in_parallel(all_cores(), &self.clusters, |(number, days)| {
            let mut chance = ChaCha8Rng::seed_from_u64(self.seed);
            chance.set_stream(STREAM + number);
            self.follow(days, alpha, &mut chance)
        })
    }

    /// Releases each slot's sum of clipped readings with noise, and filters it as the gateway does. A slot that more than half of
    /// alpha are silent in has no sum, and is left out.
    fn follow(&self, days: &[Vec<ClusterSlot>], alpha: Alpha, chance: &mut ChaCha8Rng) -> Cluster {
        let scale = self.settings.scale(self.settings.range(self.data));
        let members = self.size;
        let shares = |responders: u16| {
            // Shares are exact in hundredths of members.
            Shares::new(scale, u32::from(members) * alpha.honest_of_hundred(), 100 * u32::from(responders))
        };
        let everybody = shares(members);
        let mut filter = Filter::default();
        let mut end_millis = FIRST_DAY * 1000 * u64::from(SECONDS_PER_DAY);
        let mut slot = |cluster: &ClusterSlot, until: f64, seconds: u64| {
            let start_millis = end_millis;
            end_millis += 1000 * seconds;
            let responders = u16::try_from(cluster.responders).expect("at most all members");
            if 200 * u32::from(members - responders) > u32::from(members) * alpha.percent() {
                return None;
            }
            let shares = if responders == members { everybody } else { shares(responders) };
            let clipped = cluster.load - cluster.excess;
            let (watts, variance) = (clipped.round() + shares.draw(chance), shares.variance());
            let local = self.data.local_time(start_millis.midpoint(end_millis));
            let release = Release { start_millis, end_millis, local, watts, variance, responders, members };
            let filtered = filter.observe(&release).expect("somebody responds in every slot, one after the other");
            let all = f64::from(members) / f64::from(responders);
            let (truth, clipped, released) = (all * cluster.load, all * clipped, all * watts);
            Some(Observed { until, truth, base: all * cluster.base(), clipped, released, filtered })
        };
        let mut day = |slots: &Vec<ClusterSlot>| {
            let seconds = u64::from(SECONDS_PER_DAY) / slots.len() as u64;
            let until = |number: usize| (number + 1) as f64 * seconds as f64 / 3600.0;
            slots.iter().enumerate().filter_map(|(at, cluster)| slot(cluster, until(at), seconds)).collect()
        };
        let slot_millis = 1000 * u64::from(SECONDS_PER_DAY) / days[0].len() as u64;
        Cluster { members, slot_millis, variance: everybody.variance(), days: days.iter().map(&mut day).collect() }
    }
}

impl Cluster {
    /// The days as a local-level filter sees them.
    fn levels(&self, step: f64) -> Vec<Vec<f64>> {
        let mut level = Level { step: step * f64::from(self.members), variance: self.variance, last: None };
        self.days.iter().map(|day| day.iter().map(|slot| level.observe(slot.released)).collect()).collect()
    }
}

/// The plain filter to compare with: the load goes anywhere, by steps of the same size at all times.
#[derive(Debug)]
struct Level {
    /// The deviation of a step from slot to slot, in watts.
    step: f64,
    /// The noise's.
    variance: f64,
    /// Mean and variance.
    last: Option<(f64, f64)>,
}

impl Level {
    /// In watts per member.
    const STEPS: [f64; 7] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0];

    fn observe(&mut self, released: f64) -> f64 {
        let (mean, variance) = self.last.map_or((released, self.variance), |(mean, variance)| {
            let predicted = variance + self.step * self.step;
            let gain = predicted / (predicted + self.variance);
            (mean + gain * (released - mean), (1.0 - gain) * predicted)
        });
        self.last = Some((mean, variance));
        mean
    }

    /// The step with the least error in hindsight, which only a simulation can know.
    fn best_step(clusters: &[Cluster]) -> f64 {
        let error = |step: f64| scores(clusters, step).iter().map(|day| day.level).sum::<f64>();
        Self::STEPS.into_iter().min_by(|a, b| error(*a).total_cmp(&error(*b))).expect("there are steps")
    }
}

/// A day's means over clusters and slots. Errors are shares of the load.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    raw: f64,
    level: f64,
    filtered: f64,
    /// How often the band held the load.
    covered: f64,
    /// How often it held the sum of clipped readings, which is all that the filter can know of.
    covered_clipped: f64,
    /// Half its width, as a share of the load.
    band: f64,
    /// Errors of sums and of the filter, and the load that they are shares of, in watts.
    raw_watts: f64,
    filtered_watts: f64,
    load: f64,
}

impl Score {
    const FIELDS: [fn(&mut Self) -> &mut f64; 9] = [
        |s| &mut s.raw,
        |s| &mut s.level,
        |s| &mut s.filtered,
        |s| &mut s.covered,
        |s| &mut s.covered_clipped,
        |s| &mut s.band,
        |s| &mut s.raw_watts,
        |s| &mut s.filtered_watts,
        |s| &mut s.load,
    ];

    fn of(slot: &Observed, level: f64) -> Self {
        let Observed { truth, base, clipped, released, filtered: Filtered { watts, band95 }, .. } = *slot;
        let error = |estimate: f64| (estimate - truth).abs() / base;
        let held = |load: f64| f64::from(u8::from((watts - load).abs() <= band95));
        Self {
            raw: error(released),
            level: error(level),
            filtered: error(watts),
            covered: held(truth),
            covered_clipped: held(clipped),
            band: band95 / base,
            raw_watts: (released - truth).abs(),
            filtered_watts: (watts - truth).abs(),
            load: truth.abs(),
        }
    }

    fn numbers(&self) -> [f64; 8] {
        let Self { raw, level, filtered, covered, covered_clipped, band, raw_watts, filtered_watts, load } = *self;
        [raw, level, filtered, covered, covered_clipped, band, raw_watts / load, filtered_watts / load]
    }

    fn cells(&self) -> Vec<Cell> {
        self.numbers().map(Cell::Number).into()
    }

    fn mean(scores: impl IntoIterator<Item = Self>) -> Self {
        let (mut mean, mut count) = (Self::default(), 0.0);
        for mut score in scores {
            Self::FIELDS.iter().for_each(|field| *field(&mut mean) += *field(&mut score));
            count += 1.0;
        }
        Self::FIELDS.iter().for_each(|field| *field(&mut mean) /= count);
        mean
    }
}

fn scores(clusters: &[Cluster], step: f64) -> Vec<Score> {
    let levels: Vec<Vec<Vec<f64>>> = clusters.iter().map(|cluster| cluster.levels(step)).collect();
    let day = |day: usize| {
        let both = clusters.iter().zip(&levels);
        let slots = both.flat_map(|(cluster, levels)| cluster.days[day].iter().zip(&levels[day]));
        Score::mean(slots.map(|(slot, level)| Score::of(slot, *level)))
    };
    (0..clusters[0].days.len()).map(day).collect()
}

/// The mean of the last days, without the first.
fn last_week(days: &[Score]) -> Score {
    Score::mean(days[days.len().saturating_sub(WEEK).max(1)..].iter().copied())
}

/// The last day of one cluster.
fn day_figure(cluster: &Cluster) -> Figure {
    let day = cluster.days.last().expect("two days or more");
    let points = |watts: fn(&Observed) -> f64| -> Vec<(f64, f64)> {
        day.iter().map(|slot| (slot.until, watts(slot) / 1000.0)).collect()
    };
    let series = |label: &str, stroke, watts| Series { label: label.to_owned(), points: points(watts), stroke };
    let upper = points(|slot| slot.filtered.watts + slot.filtered.band95);
    let lower = points(|slot| slot.filtered.watts - slot.filtered.band95);
    let band = upper.into_iter().chain(lower.into_iter().rev()).collect();
    Figure {
        name: "filtering_day",
        title: format!("Day {} of one cluster of {} homes.", cluster.days.len(), cluster.members),
        x: Axis::hours("hour of the day"),
        y: Axis::linear("load (kW)"),
        series: vec![
            Series { label: "band of the filter, 95 %".to_owned(), points: band, stroke: Stroke::Band },
            series("released sum", Stroke::Dots, |slot| slot.released),
            series("true load", Stroke::Solid, |slot| slot.truth),
            series("filtered", Stroke::Solid, |slot| slot.filtered.watts),
        ],
    }
}

fn days_figure(days: &[Score]) -> Figure {
    let series = |label: &str, error: fn(&Score) -> f64| Series {
        label: label.to_owned(),
        points: (1..).map(f64::from).zip(days.iter().map(error)).collect(),
        stroke: Stroke::Solid,
    };
    Figure {
        name: "filtering_days",
        title: "Mean relative error, day after day since the filter began.".to_owned(),
        x: Axis::linear("day"),
        y: Axis::linear("mean relative error"),
        series: vec![
            series("released sum", |day| day.raw),
            series("local level", |day| day.level),
            series("filtered", |day| day.filtered),
        ],
    }
}

fn table(days: &[Score]) -> Table {
    let row = |(number, day): (usize, &Score)| [vec![Cell::from(number)], day.cells()].concat();
    Table {
        name: "filtering",
        header: &[
            "day",
            "error_raw",
            "error_local_level",
            "error_filtered",
            "band95_coverage",
            "band95_coverage_of_clipped",
            "band95_half_width",
            "absolute_error_over_mean_load",
            "absolute_error_filtered",
        ],
        rows: (1..).zip(days).map(row).collect(),
    }
}

/// A row for each seed, one for their mean, and one for how far they are apart.
fn last_week_table(weeks: &[(Alpha, u64, Score)]) -> Table {
    let alphas = weeks.iter().filter(|(_, seed, _)| *seed == weeks[0].1).map(|(alpha, ..)| *alpha);
    let rows = alphas.flat_map(|alpha| {
        let seeds: Vec<_> = weeks.iter().filter(|(of, ..)| *of == alpha).collect();
        let row = |seed: Cell, numbers: Vec<Cell>| [vec![Cell::Number(alpha.share()), seed], numbers].concat();
        let mut rows: Vec<Vec<Cell>> =
            seeds.iter().map(|(_, seed, score)| row(Cell::Count(*seed), score.cells())).collect();
        let all = [&seeds[0].2, &seeds[1].2].map(Score::numbers);
        let of = |number: fn(f64, f64) -> f64| {
            all[0].iter().zip(all[1]).map(|(one, other)| Cell::Number(number(*one, other))).collect()
        };
        rows.push(row("mean".into(), of(f64::midpoint)));
        rows.push(row("spread".into(), of(|one, other| (one - other).abs())));
        rows
    });
    Table {
        name: "filtering_last_week",
        header: &[
            "alpha",
            "seed",
            "error_raw",
            "error_local_level",
            "error_filtered",
            "band95_coverage",
            "band95_coverage_of_clipped",
            "band95_half_width",
            "absolute_error_over_mean_load",
            "absolute_error_filtered",
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::accuracy::Noise;
    use super::super::dataset::Loads;
    use super::*;
    use dream_homes::home::ActivityModel;
    use dream_homes::readings::Readings;
    use dream_homes::slots::SlotLength;

    /// Two clusters over sixteen days.
    pub(super) fn followed() -> Vec<Cluster> {
        Drawn::new(&model(), &Settings::default(), 1, 2, 16).unwrap().observe(Alpha::PRODUCT)
    }

    pub(super) fn model() -> Dataset {
        Dataset::model(1, 230, ActivityModel::Crest).houses()
    }

    #[test]
    fn a_learned_profile_beats_a_local_level_and_both_beat_the_sums() {
        let (data, settings) = (model(), Settings::default());
        let clusters = Drawn::new(&data, &settings, 1, 2, 12).unwrap().observe(Alpha::PRODUCT);
        let days = scores(&clusters, Level::best_step(&clusters));
        let learned = Score::mean(days[6..].iter().copied());
        // As the error part has it, from the distribution of the noise instead of draws.
        let noise = Noise::new(Alpha::PRODUCT, settings.epsilon());
        let error = |slot: &Observed| noise.mean_distance(5000.0, slot.truth - slot.clipped) / (slot.truth + 1.0);
        let slots: Vec<f64> = clusters.iter().flat_map(|cluster| cluster.days.iter().flatten().map(error)).collect();
        let (expected, all) = (slots.iter().sum::<f64>() / slots.len() as f64, Score::mean(days.iter().copied()));
        assert!((all.raw / expected - 1.0).abs() < 0.06, "{expected}, {all:?}");
        assert!(learned.level < 0.85 * learned.raw, "{learned:?}");
        assert!(learned.filtered < 0.75 * learned.level, "{learned:?}");
        assert!(learned.filtered < 0.6 * learned.raw, "{learned:?}");
        let first = days[0];
        assert!(learned.filtered / learned.level < 0.8 * first.filtered / first.level, "{learned:?} {first:?}");
        assert!((0.92..0.99).contains(&all.covered_clipped), "{all:?}");
        assert!(all.band < 0.7 * 2.9 * all.raw, "far narrower than the noise's own band: {all:?}");
    }

    #[test]
    fn a_local_level_weighs_the_sum_by_step_and_noise() {
        let mut level = Level { step: 2.0, variance: 12.0, last: None };
        assert_eq!(level.observe(100.0), 100.0);
        // 12 + 2² = 16 against 12: the sum counts 16/28.
        assert!((level.observe(128.0) - 116.0).abs() < 1e-12);
        let (_, variance) = level.last.unwrap();
        assert!((variance - 12.0 * 16.0 / 28.0).abs() < 1e-12);
    }

    /// Two homes that use the same in each slot of some days.
    fn two_homes(watts: [f64; 2], days: usize, range: &str) -> Vec<Observed> {
        let slot = SlotLength::new(900).unwrap();
        let settings = Settings::asking(range, "1", None);
        let loads = Loads::new(slot, watts.map(|watts| vec![watts; slot.per_day()]).into());
        let days = vec![ClusterSlot::of(&loads, &[0, 1], settings.asked_range().unwrap()); days];
        let data = Dataset::own(Readings::parse("1,2\n", "own.csv".as_ref()).unwrap(), slot);
        let drawn = Drawn { settings: &settings, data: &data, seed: 1, size: 2, clusters: Vec::new() };
        drawn.follow(&days, Alpha::PRODUCT, &mut ChaCha8Rng::seed_from_u64(1)).days.concat()
    }

    #[test]
    fn released_sums_are_of_clipped_readings_with_the_products_noise() {
        let slots = two_homes([12_000.0, 100.0], 60, "0..9000");
        assert!(slots.iter().all(|slot| (slot.truth, slot.clipped) == (12_100.0, 9100.0)));
        let noise: Vec<f64> = slots.iter().map(|slot| slot.released - slot.clipped).collect();
        let of = |value: fn(&f64) -> f64| noise.iter().map(value).sum::<f64>() / noise.len() as f64;
        // Three standard errors of 5,760 draws: 1.0913 scales over 76; alpha 0 would be off by more than three times as much.
        assert!((of(|noise| noise.abs()) / 9000.0 - 1.1441).abs() < 0.043, "{}", of(|noise| noise.abs()));
        // The mean has a deviation of the root of 2.5 scales over 76.
        assert!(of(|noise| *noise).abs() / 9000.0 < 0.063, "{}", of(|noise| *noise));
    }

    #[test]
    fn errors_of_homes_that_feed_in_are_shares_of_what_they_feed_in() {
        let filtered = Filtered { watts: -350.0, band95: 60.0 };
        let slot = Observed { until: 1.0, truth: -399.0, base: 400.0, clipped: -300.0, released: -199.0, filtered };
        let score = Score::of(&slot, -299.0);
        assert_eq!((score.raw, score.level, score.filtered, score.band), (0.5, 0.25, 0.1225, 0.15));
        assert_eq!((score.covered, score.covered_clipped), (1.0, 1.0));
        let near = Score::of(&Observed { filtered: Filtered { band95: 49.5, ..filtered }, ..slot }, 0.0);
        assert_eq!((near.covered, near.covered_clipped), (1.0, 0.0));

        let slots = two_homes([-12_000.0, 100.0], 10, "-9000..9000");
        assert!(slots.iter().all(|slot| (slot.truth, slot.clipped) == (-11_900.0, -8900.0)));
        let noise = slots.iter().map(|slot| (slot.released - slot.clipped).abs()).sum::<f64>() / slots.len() as f64;
        assert!((noise / 18_000.0 - 1.1441).abs() < 0.11, "{noise}: the range is twice as wide");
    }

    #[test]
    fn the_section_shows_a_day_and_all_days() {
        let section = section(&model(), &Settings::default(), 1).unwrap();
        let points: Vec<usize> = section.figures[0].series.iter().map(|series| series.points.len()).collect();
        assert_eq!(points, [288, 144, 144, 144], "a band goes there and back");
        assert_eq!(section.figures[1].series[0].points.len(), 21);
        let [days, week] = [0, 1].map(|table| &section.tables[table]);
        assert!(days.rows.len() == 21 && days.rows.iter().all(|row| row.len() == days.header.len()));
        assert!(week.rows.len() == 8 && week.rows.iter().all(|row| row.len() == week.header.len()));
        let raw = |row: usize| week.rows[row][2].csv().parse::<f64>().unwrap();
        assert!((raw(2) - f64::midpoint(raw(0), raw(1))).abs() < 1e-5 && raw(3) < 0.05, "{:?}", week.rows);
    }

    #[test]
    fn a_file_has_to_have_two_days() {
        let own = |hours: u32| {
            let row = |hour: u32| format!("{}\n", vec![(300 + 10 * (hour % 24)).to_string(); 12].join(","));
            let text: String = (0..hours).map(row).collect();
            Dataset::own(Readings::parse(&text, "own.csv".as_ref()).unwrap(), SlotLength::new(3600).unwrap())
        };
        let settings = Settings::default();
        assert!(section(&own(47), &settings, 1).is_err());
        let (data, settings) = (own(24 * 3 + 5), Settings::default());
        let clusters = Drawn::new(&data, &settings, 1, CLUSTERS, MOST_DAYS).unwrap().observe(Alpha::PRODUCT);
        assert_eq!((clusters.len(), clusters[0].members, clusters[0].days.len()), (1, 12, 3));
        assert!(section(&own(48), &settings, 1).is_ok());
    }

    #[test]
    fn a_slot_that_too_many_are_silent_in_has_no_sum() {
        // Of twenty, two may be silent: they are in the sixth hour, three in the seventh.
        let cell = |hour: usize, home: usize| if matches!((hour, home), (5, ..2) | (6, ..3)) { "" } else { "300" };
        let row = |hour: usize| (0..20).map(|home| cell(hour, home)).collect::<Vec<_>>().join(",") + "\n";
        let text: String = (0..48).map(|hour| row(hour % 24)).collect();
        let readings = Readings::parse_with_gaps(&text, "own.csv".as_ref()).unwrap();
        let (data, settings) = (Dataset::own(readings, SlotLength::new(3600).unwrap()), Settings::default());
        let clusters = Drawn::new(&data, &settings, 1, 1, 9).unwrap().observe(Alpha::PRODUCT);
        let hours: Vec<f64> = clusters[0].days[1].iter().map(|slot| slot.until).collect();
        assert!(hours.len() == 23 && hours.contains(&6.0) && !hours.contains(&7.0), "{hours:?}");
        assert!(clusters[0].days.iter().flatten().all(|slot| (slot.truth - 6000.0).abs() < 1e-6), "scaled to all");
    }
}
