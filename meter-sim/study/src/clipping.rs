//! Choosing the range that readings are clipped to: a narrow one needs less noise and cuts off more.

use super::accuracy::{ClusterSlot, Noise, Range};
use super::dataset::{Dataset, Loads};
use super::grouping::{clusters, sizes_and, usual_size};
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use super::settings::Settings;
use dream_homes::clustering::Clustering;
use dream_homes::street::{all_cores, in_parallel};

/// The greatest readings to try, in watts.
const WATTS: [u32; 20] = [
    500, 750, 1000, 1250, 1500, 1750, 2000, 2500, 3000, 3500, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 12_000,
    15_000, 20_000,
];

/// What ranges cost houses. Says what is missing if there are too few homes for a cluster.
pub(crate) fn section(data: &Dataset, settings: &Settings, seed: u64) -> Result<Section, String> {
    let usual = usual_size(data.homes(), settings.asked_size()).ok_or("It needs at least ten homes.")?;
    let loads = data.loads(data.slot()).ok_or("It needs a slot.")?;
    let noise = settings.noise();
    let product = settings.range(data);
    let clipped = in_parallel(all_cores(), &ranges(data, product), |&range| Clipped::new(&loads, range));
    let of_size = |homes| {
        let members = clusters(&loads, Clustering::Random, homes, seed);
        let sums = Sums::of(&loads, &members);
        (homes, in_parallel(all_cores(), &clipped, |clipped| Row::new(&sums, clipped, &noise)))
    };
    let all: Vec<(usize, Vec<Row>)> = sizes_and(data.homes(), usual).into_iter().map(of_size).collect();
    let (_, rows) = all.iter().find(|(homes, _)| *homes == usual).expect("among the sizes");
    let (least, own) = (best(rows), of_range(rows, product));
    let finding = format!(
        "{usual} homes err least within {} W, which cuts off {:.1} % of the energy; {product} cuts off {:.1} %",
        least.watts(),
        100.0 * least.bias,
        100.0 * own.bias
    );
    Ok(Section::new([table(rows), best_table(&all, product)], [figure(rows)]).finding(finding))
}

/// The ranges to try, and the one that is used, from the narrowest to the widest.
fn ranges(data: &Dataset, product: Range) -> Vec<Range> {
    let mut ranges: Vec<Range> = WATTS.iter().map(|&watts| Range::up_to(watts, data.feed_in())).collect();
    ranges.extend((!ranges.contains(&product)).then_some(product));
    ranges.sort_by_key(|range| (range.watts(), range.above()));
    ranges
}

/// What one range takes from each home.
#[derive(Debug)]
struct Clipped {
    range: Range,
    /// The readings beyond the range, as slots with what is beyond: `excesses[home]`.
    excesses: Vec<Vec<(usize, f64)>>,
}

impl Clipped {
    fn new(loads: &Loads, range: Range) -> Self {
        let of_home = |watts: &Vec<f64>| {
            let slots = watts.iter().map(|reading| range.excess(*reading)).enumerate();
            slots.filter(|(_, excess)| *excess != 0.0).collect()
        };
        Self { range, excesses: loads.watts.iter().map(of_home).collect() }
    }
}

/// Clusters before anything is clipped.
#[derive(Debug)]
struct Sums<'a> {
    members: &'a [Vec<usize>],
    /// `slots[cluster][slot]`
    slots: Vec<Vec<ClusterSlot>>,
}

impl<'a> Sums<'a> {
    fn of(loads: &Loads, members: &'a [Vec<usize>]) -> Self {
        let slots = in_parallel(all_cores(), members, |members| ClusterSlot::of(loads, members, Range::EVERYTHING));
        Self { members, slots }
    }

    /// The same clusters, clipped.
    fn clip(&self, clipped: &Clipped) -> Vec<Vec<ClusterSlot>> {
        let mut clusters = self.slots.clone();
        for (slots, members) in clusters.iter_mut().zip(self.members) {
            let excesses = members.iter().flat_map(|home| &clipped.excesses[*home]);
            excesses.for_each(|(slot, excess)| slots[*slot].excess += excess);
        }
        clusters
    }
}

/// What one range costs: means over clusters and slots.
#[derive(Debug)]
struct Row {
    range: Range,
    /// Of all readings, those that are clipped.
    clipped: f64,
    /// What sums lose, as a share of all energy.
    bias: f64,
    /// The same in the slot of a cluster's highest load.
    peak_bias: f64,
    /// The same in the slot that loses the greatest share.
    worst_bias: f64,
    /// Errors as shares of the load: of noise alone, of clipping alone, and together.
    noise_error: f64,
    bias_error: f64,
    error: f64,
    /// The mean error in watts over the mean load.
    absolute: f64,
}

impl Row {
    fn new(sums: &Sums<'_>, clipped: &Clipped, noise: &Noise) -> Self {
        let (range, clusters) = (clipped.range, sums.clip(clipped));
        let (homes, slots) = (clipped.excesses.len(), clusters[0].len());
        let all = || clusters.iter().flatten().filter(|slot| slot.responders > 0);
        let mean = |value: &dyn Fn(&ClusterSlot) -> f64| all().map(value).sum::<f64>() / all().count() as f64;
        let peaks = clusters.iter().filter_map(|slots| slots.iter().max_by(|a, b| a.load.total_cmp(&b.load)));
        let at = |slot: usize| bias(clusters.iter().map(|slots| &slots[slot]));
        Self {
            range,
            clipped: clipped.excesses.iter().map(Vec::len).sum::<usize>() as f64 / (homes * slots) as f64,
            bias: bias(all()),
            peak_bias: bias(peaks),
            worst_bias: (0..slots).map(at).fold(0.0, f64::max),
            noise_error: mean(&|slot| noise.mean_distance(range.width(), 0.0) / slot.base()),
            bias_error: mean(&|slot| slot.excess.abs() / slot.base()),
            error: mean(&|slot| slot.error(noise, range)),
            absolute: mean(&|slot| slot.watts(noise, range)) / mean(&|slot| slot.load.abs()),
        }
    }

    fn watts(&self) -> u32 {
        self.range.above()
    }
}

/// What clipping takes from all these loads together.
fn bias<'a>(slots: impl Iterator<Item = &'a ClusterSlot>) -> f64 {
    let (excess, load) =
        slots.fold((0.0, 0.0), |(excess, load), slot| (excess + slot.excess.abs(), load + slot.load.abs()));
    if load > 0.0 { excess / load } else { 0.0 }
}

/// The range of least error.
fn best(rows: &[Row]) -> &Row {
    rows.iter().min_by(|a, b| a.error.total_cmp(&b.error)).expect("some ranges were tried")
}

fn of_range(rows: &[Row], range: Range) -> &Row {
    rows.iter().find(|row| row.range == range).expect("one of those that were tried")
}

fn table(rows: &[Row]) -> Table {
    const COLUMNS: &str = "range_watts readings_clipped_percent bias_percent peak_bias_percent worst_slot_bias_percent \
                           noise_error bias_error error_mean absolute_error_over_mean_load";
    let row = |row: &Row| {
        let percents = [row.clipped, row.bias, row.peak_bias, row.worst_bias].map(|share| 100.0 * share);
        row![row.watts(); percents; [row.noise_error, row.bias_error, row.error, row.absolute]]
    };
    Table::new("clipping", COLUMNS, rows.iter().map(row))
}

fn best_table(all: &[(usize, Vec<Row>)], product: Range) -> Table {
    const COLUMNS: &str = "homes best_range_watts best_error_mean best_bias_percent product_range_watts \
                           product_error_mean product_noise_error product_bias_percent";
    let row = |(homes, rows): &(usize, Vec<Row>)| {
        let (best, product) = (best(rows), of_range(rows, product));
        let of_product = [product.error, product.noise_error, 100.0 * product.bias];
        row![*homes, best.watts(), best.error, 100.0 * best.bias, product.watts(); of_product]
    };
    Table::new("clipping_best", COLUMNS, all.iter().map(row))
}

fn figure(rows: &[Row]) -> Figure {
    let points = |value: fn(&Row) -> f64| rows.iter().map(move |row| (row.watts().into(), value(row)));
    Figure::new(
        "clipping_curve",
        "Error against the range that readings are clipped to",
        (Axis::logarithmic("greatest reading, in watts"), Axis::linear("error")),
        [
            Stroke::Solid.through("noise and clipping", points(|row| row.error)),
            Stroke::Dashed.through("noise alone", points(|row| row.noise_error)),
            Stroke::Dashed.through("clipping alone", points(|row| row.bias_error)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::super::accuracy::Alpha;
    use super::super::dataset::FeedIn;
    use super::*;
    use dream_homes::slots::SlotLength;

    fn loads(watts: &[&[f64]]) -> Loads {
        Loads::new(SlotLength::new(43_200).unwrap(), watts.iter().map(|home| home.to_vec()).collect())
    }

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-4 * expected, "{found}, not {expected}");
    }

    #[test]
    fn a_narrow_range_cuts_off_and_a_wide_one_needs_noise() {
        let loads = loads(&[&[100.0, 100.0], &[900.0, 300.0]]);
        let noise = Noise::new(Alpha::NONE, Default::default());
        let members = [vec![0, 1]];
        let sums = Sums::of(&loads, &members);
        let row = |watts| Row::new(&sums, &Clipped::new(&loads, Range::up_to(watts, None)), &noise);

        let narrow = row(500);
        assert_eq!((narrow.clipped, narrow.worst_bias, narrow.peak_bias), (0.25, 0.4, 0.4));
        assert_close(narrow.bias, 400.0 / 1400.0);
        assert_close(narrow.noise_error, f64::midpoint(500.0 / 1001.0, 500.0 / 401.0));
        assert_close(narrow.bias_error, 200.0 / 1001.0);
        let clipped = 400.0 + 500.0 * (-0.8f64).exp();
        assert_close(narrow.error, f64::midpoint(clipped / 1001.0, 500.0 / 401.0));
        assert_close(narrow.absolute, (clipped + 500.0) / 1400.0);

        let wide = row(2000);
        assert_eq!((wide.clipped, wide.bias, wide.bias_error), (0.0, 0.0, 0.0));
        assert_close(wide.error, 4.0 * narrow.noise_error);
    }

    #[test]
    fn the_best_range_is_between_a_narrow_and_a_wide_one_and_grows_with_the_cluster() {
        // Of ten homes one uses 6 kW now and then, so that clipping it takes a share that does not depend on their number.
        let home =
            |home: u32| (0..20).map(|slot| if home % 10 == slot % 10 { 6000 } else { 300 }).collect::<Vec<u32>>();
        let homes: Vec<Vec<u32>> = (0..300).map(home).collect();
        let row = |slot: usize| homes.iter().map(|home| home[slot].to_string()).collect::<Vec<_>>().join(",");
        let text = (0..20).map(row).collect::<Vec<_>>().join("\n");
        let data = Dataset::of_text(&text, 3600);
        let section = section(&data, &Settings::default(), 1).unwrap();
        let best: Vec<String> = section.tables[1].rows.iter().map(|row| row[1].csv()).collect();
        assert_eq!(best.last().map(String::as_str), Some("6000"), "{best:?}");
        assert_eq!(best[0], "500", "{best:?}");
    }

    #[test]
    fn homes_that_feed_in_have_a_best_range_on_both_sides_of_0() {
        let text = format!("-700{}\n", ",300".repeat(11));
        let section = section(&Dataset::of_text(&text.repeat(24), 3600), &Settings::default(), 1).unwrap();
        assert_eq!(section.tables[1].rows[0][1].csv(), "500");
    }

    #[test]
    fn clusters_that_are_built_once_are_clipped_as_if_built_anew() {
        let loads = loads(&[&[-800.0, 100.0], &[900.0, 3000.0], &[-40.0, 700.0]]);
        let members = [vec![0, 1], vec![2, 1]];
        for watts in [500, 1000] {
            let range = Range::up_to(watts, Some(FeedIn { readings: 2, lowest: -800 }));
            let anew: Vec<Vec<ClusterSlot>> =
                members.iter().map(|members| ClusterSlot::of(&loads, members, range)).collect();
            assert_eq!(Sums::of(&loads, &members).clip(&Clipped::new(&loads, range)), anew);
        }
    }

    #[test]
    fn a_range_that_is_asked_for_is_among_those_that_are_tried() {
        let data = Dataset::of_text(&["40"; 12].join(","), 900);
        let asked = ranges(&data, "-100..4500".parse().unwrap());
        assert_eq!((asked.len(), asked[11].ends()), (WATTS.len() + 1, (-100, 4500)));
        assert_eq!(ranges(&data, "0..5000".parse().unwrap()).len(), WATTS.len());
    }

    #[test]
    fn ten_homes_are_enough_and_nine_are_not() {
        let data = |homes| Dataset::of_text(&vec!["-40"; homes].join(","), 900);
        let section = |homes| section(&data(homes), &Settings::default(), 1);
        assert!(section(9).is_err());
        assert!(section(10).is_ok());
    }
}
