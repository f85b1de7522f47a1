//! What the gateway's filter gets out of released sums, day after day, beside the sums themselves and a plain filter.

mod cases;

use dream_filter::{Filter, Filtered, LocalTime, Release};
use dream_protocol::noise::{Sampler, Spread};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::accuracy::{Alpha, ClusterSlot, Range};
use super::dataset::Dataset;
use super::grouping::PAPERS_SIZE;
use super::section::{Axis, Cell, Figure, Section, Series, Stroke, Table};
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

/// What filtering gains. Nothing if the data has less than two whole days.
pub(crate) fn section(data: &Dataset, seed: u64) -> Option<Section> {
    let most_days = if data.is_model() { DAYS } else { MOST_DAYS };
    let clusters = observe(data, seed, CLUSTERS, most_days, Alpha::PRODUCT)?;
    let step = Level::best_step(&clusters);
    let days = scores(&clusters, step);
    let intolerant = scores(&observe(data, seed, CLUSTERS, most_days, Alpha::NONE)?, step);
    let weeks = [(Alpha::PRODUCT, last_week(&days)), (Alpha::NONE, last_week(&intolerant))];
    let weekend = |day: usize| u32::try_from(day).is_ok_and(|day| data.weekend(day));
    let cases = cases::table(cases::rows(seed, &clusters, weekend));
    let tables = vec![table(&days), last_week_table(&weeks), cases];
    Some(Section { tables, figures: vec![day_figure(&clusters[0]), days_figure(&days)] })
}

/// A cluster over some days.
#[derive(Debug)]
struct Cluster {
    members: u16,
    /// Of the noise.
    variance: f64,
    days: Vec<Vec<Observed>>,
}

/// A slot of it, in watts.
#[derive(Debug, Clone, Copy)]
struct Observed {
    truth: f64,
    /// What errors are shares of.
    base: f64,
    /// What is left of it when readings are clipped.
    clipped: f64,
    released: f64,
    filtered: Filtered,
}

/// Puts homes into clusters by lot and has the gateway's filter follow each of them.
fn observe(data: &Dataset, seed: u64, clusters: usize, days: u32, alpha: Alpha) -> Option<Vec<Cluster>> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    chance.set_stream(STREAM);
    let size = PAPERS_SIZE.min(data.homes());
    let clusters = clusters.min(data.homes() / size);
    let homes = rand::seq::index::sample(&mut chance, data.homes(), clusters * size).into_vec();
    let range = Range::product(data);
    let everybody: Vec<usize> = (0..size).collect();
    let cluster = |members: &[usize]| -> Vec<Vec<ClusterSlot>> {
        data.days(members, days).iter().map(|loads| ClusterSlot::of(loads, &everybody, range)).collect()
    };
    let clusters: Vec<(u64, Vec<Vec<ClusterSlot>>)> = (1..).zip(homes.chunks_exact(size).map(cluster)).collect();
    let enough = clusters.iter().all(|(_, days)| days.len() >= 2);
    let follow = |(number, days): &(u64, Vec<Vec<ClusterSlot>>)| {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        chance.set_stream(STREAM + number);
        Cluster::follow(data, days, u16::try_from(size).expect("at most a hundred"), range, alpha, &mut chance)
    };
    enough.then(|| in_parallel(all_cores(), &clusters, follow))
}

impl Cluster {
    /// Releases each slot's sum of clipped readings with noise, and filters it as the gateway does.
    ///
    /// With the product's tolerance, four fifths of the members make up the full noise. Five shares for four honest meters
    /// then have the distribution of the sum of all members' shares when all of them respond: the noise comes from the
    /// meters' own sampler, in five draws instead of one for each member.
    fn follow(
        data: &Dataset,
        days: &[Vec<ClusterSlot>],
        members: u16,
        range: Range,
        alpha: Alpha,
        chance: &mut ChaCha8Rng,
    ) -> Self {
        let honest = alpha.honest_of_hundred();
        let sampler = Sampler::new(honest / 20, range.scale());
        let variance = Spread::new(range.scale(), honest, 100).variance();
        let mut filter = Filter::default();
        let mut end_millis = 0;
        let mut slot = |cluster: &ClusterSlot, seconds: u64| {
            let start_millis = end_millis;
            end_millis += 1000 * seconds;
            let clipped = cluster.load - cluster.excess;
            let noise: i64 = (0..100 / 20).map(|_| sampler.sample(chance)).sum();
            let released = clipped.round() + noise as f64;
            let day = u32::try_from(start_millis / 1000 / u64::from(SECONDS_PER_DAY)).unwrap_or(u32::MAX);
            let local = LocalTime { weekend: data.weekend(day), ..LocalTime::utc(start_millis.midpoint(end_millis)) };
            let (watts, responders) = (released, members);
            let release = Release { start_millis, end_millis, local, watts, variance, responders, members };
            let filtered = filter.observe(&release).expect("somebody responds in every slot, one after the other");
            Observed { truth: cluster.load, base: cluster.base(), clipped, released, filtered }
        };
        let mut day = |slots: &Vec<ClusterSlot>| {
            let seconds = u64::from(SECONDS_PER_DAY) / slots.len() as u64;
            slots.iter().map(|cluster| slot(cluster, seconds)).collect()
        };
        Self { members, variance, days: days.iter().map(&mut day).collect() }
    }

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
}

impl Score {
    const FIELDS: [fn(&mut Self) -> &mut f64; 6] = [
        |s| &mut s.raw,
        |s| &mut s.level,
        |s| &mut s.filtered,
        |s| &mut s.covered,
        |s| &mut s.covered_clipped,
        |s| &mut s.band,
    ];

    fn of(slot: &Observed, level: f64) -> Self {
        let Observed { truth, base, clipped, released, filtered: Filtered { watts, band95 } } = *slot;
        let error = |estimate: f64| (estimate - truth).abs() / base;
        let held = |load: f64| f64::from(u8::from((watts - load).abs() <= band95));
        Self {
            raw: error(released),
            level: error(level),
            filtered: error(watts),
            covered: held(truth),
            covered_clipped: held(clipped),
            band: band95 / base,
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let Self { raw, level, filtered, covered, covered_clipped, band } = *self;
        [raw, level, filtered, covered, covered_clipped, band].map(Cell::Number).into()
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
    let hours = 24.0 / day.len() as f64;
    let series = |label: &str, stroke, watts: fn(&Observed) -> f64| Series {
        label: label.to_owned(),
        points: (0..).zip(day).map(|(slot, seen)| (hours * (f64::from(slot) + 0.5), watts(seen) / 1000.0)).collect(),
        stroke,
    };
    Figure {
        name: "filtering_day",
        title: format!("Day {} of one cluster of {} homes.", cluster.days.len(), cluster.members),
        x: Axis::linear("hour of the day"),
        y: Axis::linear("load (kW)"),
        series: vec![
            series("true load", Stroke::Solid, |slot| slot.truth),
            series("filtered", Stroke::Solid, |slot| slot.filtered.watts),
            series("released sum", Stroke::Dots, |slot| slot.released),
            series("band 95 %, upper", Stroke::Dashed, |slot| slot.filtered.watts + slot.filtered.band95),
            series("band 95 %, lower", Stroke::Dashed, |slot| slot.filtered.watts - slot.filtered.band95),
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
        ],
        rows: (1..).zip(days).map(row).collect(),
    }
}

fn last_week_table(weeks: &[(Alpha, Score)]) -> Table {
    let row = |(alpha, score): &(Alpha, Score)| [vec![Cell::Number(alpha.share())], score.cells()].concat();
    Table {
        name: "filtering_last_week",
        header: &[
            "alpha",
            "error_raw",
            "error_local_level",
            "error_filtered",
            "band95_coverage",
            "band95_coverage_of_clipped",
            "band95_half_width",
        ],
        rows: weeks.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::accuracy::Noise;
    use super::super::dataset::{FeedIn, Loads};
    use super::*;
    use dream_homes::home::ActivityModel;
    use dream_homes::readings::Readings;
    use dream_homes::slots::SlotLength;

    /// Two clusters over sixteen days.
    pub(super) fn followed() -> Vec<Cluster> {
        observe(&model(), 1, 2, 16, Alpha::PRODUCT).unwrap()
    }

    pub(super) fn model() -> Dataset {
        Dataset::model(1, 200, ActivityModel::Crest)
    }

    #[test]
    fn a_learned_profile_beats_a_local_level_and_both_beat_the_sums() {
        let clusters = observe(&model(), 1, 2, 10, Alpha::PRODUCT).unwrap();
        let days = scores(&clusters, Level::best_step(&clusters));
        let learned = Score::mean(days[6..].iter().copied());
        // As the error part has it, from the distribution of the noise instead of draws.
        let noise = Noise::new(Alpha::PRODUCT);
        let error = |slot: &Observed| noise.mean_distance(9000.0, slot.truth - slot.clipped) / (slot.truth + 1.0);
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
    fn two_homes(watts: [f64; 2], days: usize, range: Range) -> Vec<Observed> {
        let slot = SlotLength::new(900).unwrap();
        let loads = Loads { slot, watts: watts.map(|watts| vec![watts; slot.per_day()]).into() };
        let days = vec![ClusterSlot::of(&loads, &[0, 1], range); days];
        let cluster = Cluster::follow(&model(), &days, 2, range, Alpha::PRODUCT, &mut ChaCha8Rng::seed_from_u64(1));
        cluster.days.concat()
    }

    #[test]
    fn released_sums_are_of_clipped_readings_with_the_products_noise() {
        let slots = two_homes([12_000.0, 100.0], 60, Range::up_to(9000, None));
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
        let slot = Observed { truth: -399.0, base: 400.0, clipped: -300.0, released: -199.0, filtered };
        let score = Score::of(&slot, -299.0);
        assert_eq!((score.raw, score.level, score.filtered, score.band), (0.5, 0.25, 0.1225, 0.15));
        assert_eq!((score.covered, score.covered_clipped), (1.0, 1.0));
        let near = Score::of(&Observed { filtered: Filtered { band95: 49.5, ..filtered }, ..slot }, 0.0);
        assert_eq!((near.covered, near.covered_clipped), (1.0, 0.0));

        let range = Range::up_to(9000, Some(FeedIn { readings: 1, lowest: -12_000 }));
        let slots = two_homes([-12_000.0, 100.0], 10, range);
        assert!(slots.iter().all(|slot| (slot.truth, slot.clipped) == (-11_900.0, -8900.0)));
        let noise = slots.iter().map(|slot| (slot.released - slot.clipped).abs()).sum::<f64>() / slots.len() as f64;
        assert!((noise / 18_000.0 - 1.1441).abs() < 0.11, "{noise}: the range is twice as wide");
    }

    #[test]
    fn the_section_shows_a_day_and_all_days() {
        let section = section(&model(), 1).unwrap();
        assert_eq!(section.figures[0].series[0].points.len(), 144);
        assert_eq!(section.figures[1].series[0].points.len(), 21);
        let table = &section.tables[0];
        assert!(table.rows.len() == 21 && table.rows.iter().all(|row| row.len() == table.header.len()));
    }

    #[test]
    fn a_file_has_to_have_two_days() {
        let own = |hours: u32| {
            let row = |hour: u32| format!("{}\n", vec![(300 + 10 * (hour % 24)).to_string(); 12].join(","));
            let text: String = (0..hours).map(row).collect();
            Dataset::own(Readings::parse(&text, "own.csv".as_ref()).unwrap(), SlotLength::new(3600).unwrap())
        };
        assert!(section(&own(47), 1).is_none());
        let clusters = observe(&own(24 * 3 + 5), 1, CLUSTERS, MOST_DAYS, Alpha::PRODUCT).unwrap();
        assert_eq!((clusters.len(), clusters[0].members, clusters[0].days.len()), (1, 12, 3));
        assert!(section(&own(48), 1).is_some());
    }
}
