//! The error of a cluster's load against the size of the cluster: by clustering, alpha, length of slots and range.

mod output;
mod overlap;

use super::accuracy::{Alpha, ClusterSlot, Noise, Range};
use super::dataset::{Dataset, Loads};
use super::grouping::{clusters, differ, sizes_and, usual_size};
use super::section::Section;
use super::settings::Settings;
use super::spread::Spread;
use dream_homes::clustering::Clustering;
use dream_homes::slots::SlotLength;
use dream_homes::street::{all_cores, in_parallel};

const CLUSTERINGS: [Clustering; 2] = [Clustering::Random, Clustering::Consumption];
/// The lengths of slots to look at, in seconds.
const SLOTS: [u32; 4] = [300, 600, 900, 1800];

/// The error that one gets: of the paper's noise on all homes, as in the paper, and of the product's on houses, which its
/// range is for. Says what is missing if there are too few homes for a cluster.
pub(crate) fn section(data: &Dataset, houses: &Dataset, settings: &Settings, seed: u64) -> Result<Section, String> {
    let usual = usual_size(houses.homes(), settings.asked_size()).ok_or("It needs at least ten homes.")?;
    let alphas = Alpha::all_and(settings.alpha());
    let noises: Vec<_> = alphas.iter().map(|&alpha| (alpha, Noise::new(alpha, settings.epsilon()))).collect();
    let range = settings.range(houses);
    let mut rows = Vec::new();
    for (all, houses) in all_loads(data).iter().zip(&all_loads(houses)) {
        rows.extend(errors(all, Follows::Highest, &noises, usual, seed));
        rows.extend(errors(houses, Follows::Range(range), &noises, usual, seed));
    }
    let papers = data.is_model() && settings.epsilon() == Default::default();
    let found = Found { rows, usual, slot: data.slot(), alphas, range, papers };
    let mut section = found.section();
    section.tables.extend(overlap::table(data, houses, range, &noises[0].1, seed));
    Ok(section)
}

/// What the noise follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// The highest reading of the slot: the paper's lambda(t), which is not private.
    Highest,
    /// A range that is the same for ever, to which readings are clipped.
    Range(Range),
}

impl Follows {
    fn name(self) -> &'static str {
        match self {
            Self::Highest => "highest_reading",
            Self::Range(_) => "constant_range",
        }
    }

    /// The range, if it is the same for ever.
    fn constant(self) -> Option<Range> {
        match self {
            Self::Highest => None,
            Self::Range(range) => Some(range),
        }
    }

    /// What is clipped.
    fn range(self) -> Range {
        self.constant().unwrap_or(Range::EVERYTHING)
    }

    /// The error of a slot, in watts.
    fn watts(self, slot: &ClusterSlot, noise: &Noise) -> f64 {
        match self {
            Self::Highest => slot.papers_watts(noise),
            Self::Range(range) => slot.watts(noise, range),
        }
    }
}

/// The errors of many clusters that are alike.
#[derive(Debug)]
struct Row {
    clustering: Clustering,
    follows: Follows,
    slot: SlotLength,
    alpha: Alpha,
    homes: usize,
    size: ErrorSize,
    /// What the mean would be without clipping, and what it would be without noise.
    noise_alone: f64,
    clipping_alone: f64,
}

/// How large the errors of many clusters are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ErrorSize {
    /// Over slots, then over clusters.
    mean: f64,
    /// The mean error in watts over the mean load, over clusters.
    absolute: f64,
    /// Nothing if clusters are nearly the same.
    differences: Option<Differences>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Differences {
    /// Of clusters, each with its mean over slots.
    deviation: f64,
    /// In each slot of the cluster that is worst in it, then the mean over slots: the paper's worst case.
    maximum: f64,
    /// Of the cluster that is worst over all slots.
    worst_cluster: f64,
}

impl ErrorSize {
    /// Of `clusters[cluster][slot]`, if a slot errs by so many watts. A slot in which everybody is silent has no error.
    fn of(clusters: &[Vec<ClusterSlot>], watts: impl Fn(&ClusterSlot) -> f64, differ: bool) -> Self {
        let error = |slot: &ClusterSlot| (slot.responders > 0).then(|| watts(slot) / slot.base());
        let errors: Vec<Vec<Option<f64>>> = clusters.iter().map(|slots| slots.iter().map(error).collect()).collect();
        let means: Vec<f64> = errors.iter().map(|slots| mean(slots.iter().flatten())).collect();
        let means = Spread::of(&means).expect("there are clusters");
        // A sum is scaled to all members, and its error with it.
        let all =
            |slot: &ClusterSlot, watts: f64| if slot.responders > 0 { watts / slot.responders as f64 } else { 0.0 };
        let absolute = |slots: &Vec<ClusterSlot>| {
            let load: f64 = slots.iter().map(|slot| all(slot, slot.load.abs())).sum();
            slots.iter().map(|slot| all(slot, watts(slot))).sum::<f64>() / load
        };
        let absolutes: Vec<f64> = clusters.iter().map(absolute).collect();
        let differences = || {
            let highest = |slot: usize| errors.iter().filter_map(|cluster| cluster[slot]).fold(0.0, f64::max);
            let highest: Vec<f64> = (0..errors[0].len()).map(highest).collect();
            Differences { deviation: means.deviation, maximum: mean(&highest), worst_cluster: means.max }
        };
        Self { mean: means.mean, absolute: mean(&absolutes), differences: differ.then(differences) }
    }
}

fn mean<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// The data in slots of all lengths that it has.
fn all_loads(data: &Dataset) -> Vec<Loads> {
    let own = data.slot().seconds();
    let mut lengths: Vec<u32> = SLOTS.into_iter().chain((!SLOTS.contains(&own)).then_some(own)).collect();
    lengths.sort_unstable();
    let loads = |seconds| SlotLength::new(seconds).ok().and_then(|slot| data.loads(slot));
    lengths.into_iter().filter_map(loads).collect()
}

/// All that slots of one length tell.
fn errors(loads: &Loads, follows: Follows, noises: &[(Alpha, Noise)], usual: usize, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for clustering in CLUSTERINGS {
        for homes in sizes_and(loads.homes(), usual) {
            let members = clusters(loads, clustering, homes, seed);
            let clipped = |members: &Vec<usize>| ClusterSlot::of(loads, members, follows.range());
            let slots = in_parallel(all_cores(), &members, clipped);
            let answered = || slots.iter().flatten().filter(|slot| slot.responders > 0);
            let mean_of = |value: fn(&ClusterSlot) -> f64| mean(&answered().map(value).collect::<Vec<_>>());
            let watt = mean_of(|slot| slot.base().recip());
            let clipping = mean_of(|slot| slot.excess.abs() / slot.base());
            rows.extend(noises.iter().map(|(alpha, noise)| {
                let differ = differ(homes, loads.homes());
                let size = ErrorSize::of(&slots, |slot| follows.watts(slot, noise), differ);
                let (noise_alone, clipping_alone) = match follows {
                    Follows::Highest => (size.mean, 0.0),
                    Follows::Range(range) => (noise.mean_distance(range.width(), 0.0) * watt, clipping),
                };
                let (slot, alpha) = (loads.slot, *alpha);
                Row { clustering, follows, slot, alpha, homes, size, noise_alone, clipping_alone }
            }));
        }
    }
    rows
}

/// All errors, and the usual size and slot that the smaller tables are about.
#[derive(Debug)]
struct Found {
    rows: Vec<Row>,
    usual: usize,
    slot: SlotLength,
    alphas: Vec<Alpha>,
    range: Range,
    /// Whether these are the paper's homes, and its epsilon.
    papers: bool,
}

impl Found {
    fn both(&self) -> [Follows; 2] {
        [Follows::Highest, Follows::Range(self.range)]
    }

    /// Rows by what they are about; the length of slots is the usual one.
    fn rows(&self, clustering: Clustering, follows: Follows, alpha: Alpha) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| {
            (row.clustering, row.follows, row.alpha, row.slot) == (clustering, follows, alpha, self.slot)
        })
    }

    /// The errors of clusters of the usual size.
    fn usual(&self, clustering: Clustering, follows: Follows, alpha: Alpha) -> ErrorSize {
        let found = self.rows(clustering, follows, alpha).find(|row| row.homes == self.usual);
        found.expect("every size that the homes can make").size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Cell;
    use crate::settings::Epsilon;
    use dream_homes::home::ActivityModel;

    fn own(rows: usize, homes: usize, seconds: u32) -> Dataset {
        let row = |row: usize| (0..homes).map(|home| (100 * home + row).to_string()).collect::<Vec<_>>().join(",");
        let text = (0..rows).map(row).collect::<Vec<_>>().join("\n");
        Dataset::of_text(&text, seconds)
    }

    fn no_tolerance() -> (Alpha, Noise) {
        (Alpha::NONE, Noise::new(Alpha::NONE, Epsilon::default()))
    }

    fn narrow() -> Range {
        "0..5000".parse().expect("a range")
    }

    #[test]
    fn sizes_of_errors_are_over_slots_then_over_clusters() {
        // One home of 9 W, then 99 W, so that errors of 10 and 500 W are shares of 1 and 5.
        let slots = |watts: [f64; 2]| {
            let loads = Loads::new(SlotLength::new(43_200).unwrap(), vec![vec![9.0, 99.0]]);
            let mut slots = ClusterSlot::of(&loads, &[0], Range::EVERYTHING);
            slots.iter_mut().zip(watts).for_each(|(slot, watts)| slot.excess = watts);
            slots
        };
        let clusters = [slots([10.0, 500.0]), slots([30.0, 300.0]), slots([20.0, 1000.0])];
        let differences = Differences { deviation: 2.0f64.sqrt(), maximum: 6.5, worst_cluster: 6.0 };
        let absolute = (510.0 + 330.0 + 1020.0) / 3.0 / 108.0;
        let size = ErrorSize { mean: 4.0, absolute, differences: Some(differences) };
        let watts = |slot: &ClusterSlot| slot.excess;
        let found = ErrorSize::of(&clusters, watts, true);
        assert!((found.absolute - absolute).abs() < 1e-12, "{found:?}");
        assert_eq!(ErrorSize { absolute, ..found }, size, "the maximum is of 3 and 10, the worst cluster the third");
        assert_eq!(ErrorSize::of(&clusters, watts, false).differences, None);
    }

    #[test]
    fn a_slot_in_which_everybody_is_silent_has_no_error() {
        let data = Dataset::of_text("100,300\n,\n100,\n", 600);
        let slots = ClusterSlot::of(&data.loads(data.slot()).unwrap(), &[0, 1], narrow());
        let size = ErrorSize::of(&[slots], |slot| slot.watts(&no_tolerance().1, narrow()), false);
        // 5 kW over the load of those who answered.
        assert!((size.mean / f64::midpoint(5000.0 / 401.0, 5000.0 / 101.0) - 1.0).abs() < 1e-6, "{size:?}");
        // A sum of one is scaled to two, and so is its error.
        assert!((size.absolute / (15_000.0 / 600.0) - 1.0).abs() < 1e-6, "{size:?}");
    }

    #[test]
    fn the_papers_numbers_are_met() {
        let data = Dataset::model(1, 3000, ActivityModel::Crest);
        let noises = [Alpha::NONE, Alpha::PRODUCT].map(|alpha| (alpha, Noise::new(alpha, Epsilon::default())));
        let mut rows = Vec::new();
        for (data, follows) in [(&data, Follows::Highest), (&data.houses(), Follows::Range(narrow()))] {
            rows.extend(errors(&data.loads(data.slot()).unwrap(), follows, &noises, 100, 1));
        }
        let alphas = noises.iter().map(|(alpha, _)| *alpha).collect();
        let found = Found { rows, usual: 100, slot: data.slot(), alphas, range: narrow(), papers: true };
        let random = found.usual(Clustering::Random, Follows::Highest, Alpha::NONE);
        let consumption = found.usual(Clustering::Consumption, Follows::Highest, Alpha::NONE);
        assert!((random.mean - 0.13).abs() < 0.02, "{random:?}");
        assert!((consumption.mean - 0.07).abs() < 0.01, "{consumption:?}");
        let [by_lot, alike] = [random, consumption].map(|size| size.differences.unwrap());
        assert!(by_lot.deviation > 2.0 * alike.deviation && by_lot.maximum > alike.maximum);
        let tolerant = found.usual(Clustering::Random, Follows::Highest, Alpha::PRODUCT);
        assert!((tolerant.mean / random.mean - 1.1441).abs() < 1e-3, "{tolerant:?}");
        let of = |homes, clustering, follows| {
            found.rows(clustering, follows, Alpha::NONE).find(|row| row.homes == homes).unwrap()
        };
        let deviation = |clustering| of(10, clustering, Follows::Highest).size.differences.unwrap().deviation;
        let ratio = deviation(Clustering::Random) / deviation(Clustering::Consumption);
        assert!((ratio - 2.73).abs() < 0.05, "{ratio}");
        // Every part: noise alone, clipping alone, both.
        let largest = of(1000, Clustering::Random, Follows::Range(narrow()));
        assert!((largest.noise_alone - 0.0153).abs() < 0.0003, "{largest:?}");
        assert!(
            (largest.clipping_alone - 0.0027).abs() < 0.0002 && (largest.size.mean - 0.0160).abs() < 0.0003,
            "{largest:?}"
        );
        // 5000 W over about 45 kW by day and 25 kW at night; the mean load counts the day for more.
        let constant = found.usual(Clustering::Random, Follows::Range(narrow()), Alpha::NONE);
        assert!((0.14..0.18).contains(&constant.mean), "{constant:?}");
        assert!((0.08..0.12).contains(&constant.absolute), "{constant:?}");
    }

    #[test]
    fn errors_by_hand_of_a_cluster_of_everybody() {
        let data = own(2, 10, 600);
        let loads = data.loads(data.slot()).unwrap();
        let highest = (f64::midpoint(900.0 / 4501.0, 901.0 / 4511.0), 1801.0 / 9010.0);
        let constant = (f64::midpoint(5000.0 / 4501.0, 5000.0 / 4511.0), 10_000.0 / 9010.0);
        for (follows, (mean, absolute)) in [(Follows::Highest, highest), (Follows::Range(narrow()), constant)] {
            let rows = errors(&loads, follows, &[no_tolerance()], 10, 1);
            assert_eq!(rows.len(), 2, "either clustering");
            for row in &rows {
                assert!((row.size.mean / mean - 1.0).abs() < 1e-6 && row.size.differences.is_none(), "{row:?}");
                assert!((row.size.absolute / absolute - 1.0).abs() < 1e-6, "{row:?}");
                assert!((row.noise_alone / mean - 1.0).abs() < 1e-6 && row.clipping_alone == 0.0, "{row:?}");
            }
        }
    }

    #[test]
    fn a_file_is_looked_at_in_the_slots_that_it_has() {
        let lengths = |data| all_loads(&data).iter().map(|loads| loads.slot.seconds()).collect::<Vec<_>>();
        assert_eq!(lengths(own(8, 12, 900)), [900, 1800]);
        assert_eq!(lengths(own(8, 12, 3600)), [3600]);
        assert_eq!(lengths(own(1, 12, 900)), [900]);
        let section = |data: &Dataset| section(data, data, &Settings::default(), 1);
        assert!(section(&own(2, 9, 600)).is_err(), "no cluster of ten");
        let section = section(&own(3, 65, 3600)).unwrap();
        let usual = section.tables.iter().find(|table| table.name == "error_usual").unwrap();
        let paper = usual.header.iter().position(|column| *column == "paper_mean").unwrap();
        assert!(usual.rows.iter().all(|row| row[paper] == Cell::Empty), "the paper says nothing of these homes");
        let numbers = usual.rows.iter().flatten();
        assert!(!numbers.into_iter().any(|cell| cell.csv().contains("NaN")));
    }

    #[test]
    fn clusters_of_most_homes_do_not_tell_how_clusters_differ() {
        let data = own(2, 30, 600);
        let rows = errors(&data.loads(data.slot()).unwrap(), Follows::Highest, &[no_tolerance()], 25, 1);
        for row in &rows {
            assert_eq!(row.size.differences.is_some(), row.homes == 10, "{row:?}");
        }
        assert_eq!(rows.len(), 4 * 2, "10, 20, 30, and 25 as was asked for");
    }

    #[test]
    fn one_reading_below_0_widens_the_range_at_all_lengths_of_slots() {
        let text = format!("-1{}\n9{}\n", ",5".repeat(19), ",5".repeat(19));
        let data = Dataset::of_text(&text, 300);
        let follows = Follows::Range(Settings::default().range(&data));
        let all = all_loads(&data);
        assert_eq!(all.len(), 2);
        for loads in &all {
            let rows = errors(loads, follows, &[no_tolerance()], 20, 1);
            let everybody = rows.iter().find(|row| row.homes == 20).unwrap();
            assert!(everybody.size.mean > 16_000.0 / 105.0, "{everybody:?}");
        }
    }
}
