//! What the gateway's filter gets out of released sums, day after day, beside the sums themselves and a plain filter.

mod cases;

use dream_filter::Filtered;

use super::accuracy::Alpha;
use super::cluster::{Drawn, Observed, Sums, reported};
use super::dataset::Dataset;
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use super::settings::Settings;
use super::spread::with_mean_and_spread;

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
        let drawn = draw(other.as_ref().unwrap_or(data), settings, seed, CLUSTERS, most_days)?;
        let clusters = observe(&drawn, settings, settings.alpha());
        let step = Level::best_step(&clusters);
        let days = scores(&clusters, step);
        weeks.push((settings.alpha(), seed, last_week(&days)));
        if settings.alpha() != Alpha::NONE {
            weeks.push((Alpha::NONE, seed, last_week(&scores(&observe(&drawn, settings, Alpha::NONE), step))));
        }
        let weekend = |day: usize| u32::try_from(day).is_ok_and(|day| data.weekend(day));
        hard.extend(cases::rows(seed, &clusters, weekend));
        first.get_or_insert((clusters, days));
    }
    let (clusters, days) = first.expect("there are two seeds");
    let Score { raw, filtered, covered, .. } = last_week(&days);
    let finding = format!(
        "the filter takes the error of {} homes from {raw:.3} to {filtered:.3}; its 95 % band held {:.1} % of slots",
        clusters[0].members,
        100.0 * covered
    );
    let tables = [table(&days), last_week_table(&weeks), cases::table(hard)];
    Ok(Section::new(tables, [day_figure(&clusters[0]), days_figure(&days)]).finding(finding))
}

/// A cluster over some days, filtered.
#[derive(Debug)]
struct Cluster {
    members: u16,
    /// Of the noise.
    variance: f64,
    days: Vec<Vec<Observed>>,
}

/// What the gateway makes of each cluster, without an account of the day. Half of alpha may be silent.
fn observe(drawn: &Drawn<'_>, settings: &Settings, alpha: Alpha) -> Vec<Cluster> {
    let range = settings.range(drawn.data);
    let members = u16::try_from(drawn.size).expect("checked");
    let most = u32::from(members) * alpha.percent() / 200;
    let max_missing = u16::try_from(most).expect("less than all");
    let (scale, honest) = (settings.scale(range), u32::from(members) * alpha.honest_of_hundred());
    let sums = Sums { members, max_missing, scale, honest, each: 100 };
    let clusters = drawn.follow(&sums, |days| reported(range.ends(), None, days));
    let variance = sums.shares(members).variance();
    clusters.into_iter().map(|days| Cluster { members, variance, days }).collect()
}

fn draw<'a>(
    data: &'a Dataset,
    settings: &Settings,
    seed: u64,
    clusters: usize,
    days: u32,
) -> Result<Drawn<'a>, String> {
    let size = settings.size().min(data.homes());
    if size > u16::MAX.into() {
        return Err("It needs a --size of 65535 or less.".to_owned());
    }
    Drawn::new(data, (seed, STREAM), (size, clusters), 2..=days)
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
        let Observed { reported, released, .. } = *slot;
        let (truth, base, clipped, Filtered { watts, band95 }) =
            (reported.truth, reported.base, reported.told(), filtered(slot));
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

fn filtered(slot: &Observed) -> Filtered {
    slot.filtered.expect("somebody responds in every slot, one after the other")
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
    // A sum is known when its slot ends.
    let length = 24.0 * day.windows(2).map(|pair| pair[1].at - pair[0].at).fold(1.0, f64::min);
    let points = |watts: fn(&Observed) -> f64| -> Vec<(f64, f64)> {
        day.iter().map(|slot| (24.0 * slot.at + length, watts(slot) / 1000.0)).collect()
    };
    let upper = points(|slot| filtered(slot).watts + filtered(slot).band95);
    let lower = points(|slot| filtered(slot).watts - filtered(slot).band95);
    Figure::new(
        "filtering_day",
        format!("Day {} of one cluster of {} homes.", cluster.days.len(), cluster.members),
        (Axis::hours("hour of the day"), Axis::linear("load (kW)")),
        [
            Stroke::Band.through("band of the filter, 95 %", upper.into_iter().chain(lower.into_iter().rev())),
            Stroke::Dots.through("released sum", points(|slot| slot.released)),
            Stroke::Solid.through("true load", points(|slot| slot.reported.truth)),
            Stroke::Solid.through("filtered", points(|slot| filtered(slot).watts)),
        ],
    )
}

fn days_figure(days: &[Score]) -> Figure {
    let points = |error: fn(&Score) -> f64| (1..).map(f64::from).zip(days.iter().map(error));
    Figure::new(
        "filtering_days",
        "Mean relative error, day after day since the filter began.",
        (Axis::linear("day"), Axis::linear("mean relative error")),
        [
            Stroke::Solid.through("released sum", points(|day| day.raw)),
            Stroke::Solid.through("local level", points(|day| day.level)),
            Stroke::Solid.through("filtered", points(|day| day.filtered)),
        ],
    )
}

fn table(days: &[Score]) -> Table {
    const COLUMNS: &str = "day error_raw error_local_level error_filtered band95_coverage band95_coverage_of_clipped \
                           band95_half_width absolute_error_over_mean_load absolute_error_filtered";
    let rows = (1_usize..).zip(days).map(|(number, day)| row![number; day.numbers()]);
    Table::new("filtering", COLUMNS, rows)
}

/// A row for each seed, one for their mean, and one for how far they are apart.
fn last_week_table(weeks: &[(Alpha, u64, Score)]) -> Table {
    const COLUMNS: &str = "alpha seed error_raw error_local_level error_filtered band95_coverage \
                           band95_coverage_of_clipped band95_half_width absolute_error_over_mean_load \
                           absolute_error_filtered";
    let alphas = weeks.iter().filter(|(_, seed, _)| *seed == weeks[0].1).map(|(alpha, ..)| *alpha);
    let rows = alphas.flat_map(|alpha| {
        let seeds = weeks.iter().filter(|(of, ..)| *of == alpha).map(|(_, seed, score)| (*seed, score.numbers()));
        let seeds: Vec<_> = seeds.collect();
        let rows = with_mean_and_spread(&seeds);
        rows.map(|(seed, numbers)| row![alpha.share(), seed; numbers]).collect::<Vec<_>>()
    });
    Table::new("filtering_last_week", COLUMNS, rows)
}

#[cfg(test)]
mod tests {
    use super::super::accuracy::Noise;
    use super::super::cluster::Reported;
    use super::*;
    use dream_homes::home::ActivityModel;

    /// Two clusters over sixteen days.
    pub(super) fn followed() -> Vec<Cluster> {
        observed(&model(), 2, 16)
    }

    fn observed(data: &Dataset, clusters: usize, days: u32) -> Vec<Cluster> {
        let settings = Settings::asking("0..5000", "1", None);
        observe(&draw(data, &settings, 1, clusters, days).unwrap(), &settings, Alpha::PRODUCT)
    }

    pub(super) fn model() -> Dataset {
        Dataset::model(1, 230, ActivityModel::Crest).houses()
    }

    #[test]
    fn a_learned_profile_beats_a_local_level_and_both_beat_the_sums() {
        let clusters = observed(&model(), 2, 12);
        let days = scores(&clusters, Level::best_step(&clusters));
        let learned = Score::mean(days[6..].iter().copied());
        // As the error part has it, from the distribution of the noise instead of draws.
        let noise = Noise::new(Alpha::PRODUCT, Default::default());
        let error = |slot: &Observed| noise.mean_distance(5000.0, slot.reported.lost_to_range) / slot.reported.base;
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

    /// Ten homes that use the same in each slot of some days.
    fn ten_homes(first: &str, days: usize, range: &str) -> Vec<Observed> {
        let data = Dataset::of_text(&format!("{first}{}\n", ",100".repeat(9)).repeat(96 * days), 900);
        let (settings, days) = (Settings::asking(range, "1", None), u32::try_from(days).unwrap());
        let drawn = Drawn::new(&data, (1, STREAM), (10, 1), 2..=days).unwrap();
        observe(&drawn, &settings, Alpha::PRODUCT).remove(0).days.concat()
    }

    #[test]
    fn released_sums_are_of_clipped_readings_with_the_products_noise() {
        let slots = ten_homes("12000", 60, "0..9000");
        let sums = |slot: &Observed| (slot.reported.truth, slot.reported.told());
        assert!(slots.iter().all(|slot| sums(slot) == (12_900.0, 9900.0)));
        let noise: Vec<f64> = slots.iter().map(|slot| slot.released - slot.reported.told()).collect();
        let of = |value: fn(&f64) -> f64| noise.iter().map(value).sum::<f64>() / noise.len() as f64;
        // Three standard errors of 5,760 draws: 1.0913 scales over 76; alpha 0 would be off by more than three times as much.
        assert!((of(|noise| noise.abs()) / 9000.0 - 1.1441).abs() < 0.043, "{}", of(|noise| noise.abs()));
        // The mean has a deviation of the root of 2.5 scales over 76.
        assert!(of(|noise| *noise).abs() / 9000.0 < 0.063, "{}", of(|noise| *noise));
    }

    #[test]
    fn errors_of_homes_that_feed_in_are_shares_of_what_they_feed_in() {
        let told = Reported { truth: -399.0, base: 400.0, lost_to_range: -99.0, ..Reported::default() };
        let seen = |band95| Some(Filtered { watts: -350.0, band95 });
        let slot = Observed { at: 0.0, reported: told, released: -199.0, filtered: seen(60.0) };
        let score = Score::of(&slot, -299.0);
        assert_eq!((score.raw, score.level, score.filtered, score.band), (0.5, 0.25, 0.1225, 0.15));
        assert_eq!((score.covered, score.covered_clipped), (1.0, 1.0));
        let near = Score::of(&Observed { filtered: seen(49.5), ..slot }, 0.0);
        assert_eq!((near.covered, near.covered_clipped), (1.0, 0.0));

        let slots = ten_homes("-12000", 10, "-9000..9000");
        assert!(slots.iter().all(|slot| (slot.reported.truth, slot.reported.told()) == (-11_100.0, -8100.0)));
        let noise = slots.iter().map(|slot| (slot.released - slot.reported.told()).abs()).sum::<f64>();
        let noise = noise / slots.len() as f64;
        assert!((noise / 18_000.0 - 1.1441).abs() < 0.11, "{noise}: the range is twice as wide");
    }

    #[test]
    fn the_section_shows_a_day_and_all_days() {
        let section = section(&model(), &Settings::default(), 1).unwrap();
        let points: Vec<usize> = section.figures[0].series.iter().map(|series| series.points.len()).collect();
        assert_eq!(points, [288, 144, 144, 144], "a band goes there and back");
        assert_eq!(section.figures[1].series[0].points.len(), 21);
        let [days, week] = [0, 1].map(|table| &section.tables[table]);
        assert_eq!((days.rows.len(), week.rows.len()), (21, 8));
        let raw = |row: usize| week.rows[row][2].csv().parse::<f64>().unwrap();
        assert!((raw(2) - f64::midpoint(raw(0), raw(1))).abs() < 1e-5 && raw(3) < 0.05, "{:?}", week.rows);
    }

    #[test]
    fn a_file_has_to_have_two_days() {
        let own = |hours: u32| {
            let row = |hour: u32| format!("{}\n", vec![(300 + 10 * (hour % 24)).to_string(); 12].join(","));
            let text: String = (0..hours).map(row).collect();
            Dataset::of_text(&text, 3600)
        };
        let settings = Settings::default();
        assert!(section(&own(47), &settings, 1).is_err());
        let clusters = observed(&own(24 * 3 + 5), CLUSTERS, MOST_DAYS);
        assert_eq!((clusters.len(), clusters[0].members, clusters[0].days.len()), (1, 12, 3));
        assert!(section(&own(48), &settings, 1).is_ok());
    }

    #[test]
    fn a_slot_that_too_many_are_silent_in_has_no_sum() {
        // Of twenty, two may be silent: they are in the sixth hour, three in the seventh.
        let cell = |hour: usize, home: usize| if matches!((hour, home), (5, ..2) | (6, ..3)) { "" } else { "300" };
        let row = |hour: usize| (0..20).map(|home| cell(hour, home)).collect::<Vec<_>>().join(",") + "\n";
        let text: String = (0..48).map(|hour| row(hour % 24)).collect();
        let clusters = observed(&Dataset::of_text(&text, 3600), 1, 9);
        let hours: Vec<f64> = clusters[0].days[1].iter().map(|slot| 24.0 * slot.at).collect();
        assert!(hours.len() == 23 && hours.contains(&5.0) && !hours.contains(&6.0), "{hours:?}");
        let scaled = |slot: &Observed| (slot.reported.truth - 6000.0).abs() < 1e-6;
        assert!(clusters[0].days.iter().flatten().all(scaled), "to all");
    }
}
