//! The error of a cluster's load against the size of the cluster: by clustering, alpha, length of slots and range.

mod output;

use super::accuracy::{Alpha, ClusterSlot, Noise, Range};
use super::dataset::{Dataset, Loads};
use super::grouping::{clusters, differ, sizes, usual_size};
use super::section::Section;
use super::spread::Spread;
use dream_homes::clustering::Clustering;
use dream_homes::slots::SlotLength;
use dream_homes::street::{all_cores, in_parallel};

const CLUSTERINGS: [Clustering; 2] = [Clustering::Random, Clustering::Consumption];
/// The lengths of slots to look at, in seconds.
const SLOTS: [u32; 4] = [300, 600, 900, 1800];

/// The error that one gets. Nothing if there are too few homes for a cluster.
pub(crate) fn section(data: &Dataset, seed: u64) -> Option<Section> {
    let usual = usual_size(data.homes())?;
    let noises = Alpha::ALL.map(|alpha| (alpha, Noise::new(alpha)));
    let range = Range::product(data);
    let rows = all_loads(data).iter().flat_map(|loads| errors(loads, range, &noises, seed)).collect();
    Some(Found { rows, usual, slot: data.slot(), model: data.is_model() }.section())
}

/// What the noise follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// The highest reading of the slot: the paper's lambda(t), which is not private.
    Highest,
    /// A range that is the same for ever, to which readings are clipped.
    Range,
}

impl Follows {
    const ALL: [Self; 2] = [Self::Highest, Self::Range];

    fn name(self) -> &'static str {
        match self {
            Self::Highest => "highest_reading",
            Self::Range => "constant_range",
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
    /// Of `errors[cluster][slot]`.
    fn of(errors: &[Vec<f64>], differ: bool) -> Self {
        let means: Vec<f64> = errors.iter().map(|slots| mean(slots)).collect();
        let means = Spread::of(&means).expect("there are clusters");
        let differences = || {
            let highest = |slot: usize| errors.iter().map(|cluster| cluster[slot]).fold(0.0, f64::max);
            let highest: Vec<f64> = (0..errors[0].len()).map(highest).collect();
            Differences { deviation: means.deviation, maximum: mean(&highest), worst_cluster: means.max }
        };
        Self { mean: means.mean, differences: differ.then(differences) }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
fn errors(loads: &Loads, range: Range, noises: &[(Alpha, Noise)], seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for clustering in CLUSTERINGS {
        for homes in sizes(loads.homes()) {
            let members = clusters(loads, clustering, homes, seed);
            let slots = in_parallel(all_cores(), &members, |members| ClusterSlot::of(loads, members, range));
            let mean_of = |value: fn(&ClusterSlot) -> f64| mean(&slots.iter().flatten().map(value).collect::<Vec<_>>());
            let watt = mean_of(|slot| slot.base().recip());
            let clipping = mean_of(|slot| slot.excess.abs() / slot.base());
            for follows in Follows::ALL {
                rows.extend(noises.iter().map(|(alpha, noise)| {
                    let error = |slot: &ClusterSlot| match follows {
                        Follows::Highest => slot.papers_error(noise),
                        Follows::Range => slot.error(noise, range),
                    };
                    let errors: Vec<Vec<f64>> = slots.iter().map(|slots| slots.iter().map(error).collect()).collect();
                    let size = ErrorSize::of(&errors, differ(homes, loads.homes()));
                    let (noise_alone, clipping_alone) = match follows {
                        Follows::Highest => (size.mean, 0.0),
                        Follows::Range => (noise.mean_distance(range.width(), 0.0) * watt, clipping),
                    };
                    let (slot, alpha) = (loads.slot, *alpha);
                    Row { clustering, follows, slot, alpha, homes, size, noise_alone, clipping_alone }
                }));
            }
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
    /// Whether these are the paper's homes.
    model: bool,
}

impl Found {
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
    use dream_homes::home::ActivityModel;
    use dream_homes::readings::Readings;

    fn own(rows: usize, homes: usize, seconds: u32) -> Dataset {
        let row = |row: usize| (0..homes).map(|home| (100 * home + row).to_string()).collect::<Vec<_>>().join(",");
        let text = (0..rows).map(row).collect::<Vec<_>>().join("\n");
        Dataset::own(Readings::parse(&text, "own.csv".as_ref()).unwrap(), SlotLength::new(seconds).unwrap())
    }

    fn no_tolerance() -> (Alpha, Noise) {
        (Alpha::NONE, Noise::new(Alpha::NONE))
    }

    #[test]
    fn sizes_of_errors_are_over_slots_then_over_clusters() {
        let errors = [vec![1.0, 5.0], vec![3.0, 3.0], vec![2.0, 10.0]];
        let differences = Differences { deviation: 2.0f64.sqrt(), maximum: 6.5, worst_cluster: 6.0 };
        let size = ErrorSize { mean: 4.0, differences: Some(differences) };
        assert_eq!(ErrorSize::of(&errors, true), size, "the maximum is of 3 and 10, the worst cluster the third");
        assert_eq!(ErrorSize::of(&errors, false), ErrorSize { differences: None, ..size });
    }

    #[test]
    fn the_papers_numbers_are_met() {
        let data = Dataset::model(1, 3000, ActivityModel::Crest);
        let noises = [Alpha::NONE, Alpha::PRODUCT].map(|alpha| (alpha, Noise::new(alpha)));
        let loads = data.loads(data.slot()).unwrap();
        let range = Range::product(&data);
        let rows = errors(&loads, range, &noises, 1);
        let found = Found { rows, usual: 100, slot: data.slot(), model: true };
        let random = found.usual(Clustering::Random, Follows::Highest, Alpha::NONE);
        let consumption = found.usual(Clustering::Consumption, Follows::Highest, Alpha::NONE);
        assert!((random.mean - 0.13).abs() < 0.02, "{random:?}");
        assert!((consumption.mean - 0.07).abs() < 0.01, "{consumption:?}");
        let [by_lot, alike] = [random, consumption].map(|size| size.differences.unwrap());
        assert!(by_lot.deviation > 2.0 * alike.deviation && by_lot.maximum > alike.maximum);
        let apart = loads.by_consumption();
        let apart = apart.chunks(100).map(|members| ClusterSlot::of(&loads, members, range));
        let apart = apart.map(|slots| slots.iter().map(|slot| slot.papers_error(&noises[0].1)).collect());
        let apart = ErrorSize::of(&apart.collect::<Vec<_>>(), true);
        assert!((apart.mean - 0.07).abs() < 0.01, "{apart:?}: nor do overlaps matter");
        let tolerant = found.usual(Clustering::Random, Follows::Highest, Alpha::PRODUCT);
        assert!((tolerant.mean / random.mean - 1.1441).abs() < 1e-3, "{tolerant:?}");
        let of = |homes, clustering, follows| {
            found.rows(clustering, follows, Alpha::NONE).find(|row| row.homes == homes).unwrap()
        };
        let deviation = |clustering| of(10, clustering, Follows::Highest).size.differences.unwrap().deviation;
        let ratio = deviation(Clustering::Random) / deviation(Clustering::Consumption);
        assert!((ratio - 3.1).abs() < 0.05, "{ratio}");
        let largest = of(1000, Clustering::Random, Follows::Range);
        let parts = [largest.noise_alone, largest.clipping_alone, largest.size.mean].map(|error| format!("{error:.3}"));
        assert_eq!(parts, ["0.018", "0.024", "0.036"]);
        // 9000 W over about 45 kW, and clipping; by the highest reading it would be 0.12.
        let constant = found.usual(Clustering::Random, Follows::Range, Alpha::NONE);
        assert!((0.17..0.23).contains(&constant.mean), "{constant:?}");
    }

    #[test]
    fn errors_by_hand_of_a_cluster_of_everybody() {
        let data = own(2, 10, 600);
        let rows = errors(&data.loads(data.slot()).unwrap(), Range::product(&data), &[no_tolerance()], 1);
        let expected = f64::midpoint(900.0 / 4501.0, 901.0 / 4511.0);
        let constant = f64::midpoint(9000.0 / 4501.0, 9000.0 / 4511.0);
        for (row, expected) in rows.iter().zip([expected, constant, expected, constant]) {
            assert!((row.size.mean / expected - 1.0).abs() < 1e-6 && row.size.differences.is_none(), "{row:?}");
            assert!((row.noise_alone / expected - 1.0).abs() < 1e-6 && row.clipping_alone == 0.0, "{row:?}");
        }
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn a_file_is_looked_at_in_the_slots_that_it_has() {
        let lengths = |data| all_loads(&data).iter().map(|loads| loads.slot.seconds()).collect::<Vec<_>>();
        assert_eq!(lengths(own(8, 12, 900)), [900, 1800]);
        assert_eq!(lengths(own(8, 12, 3600)), [3600]);
        assert_eq!(lengths(own(1, 12, 900)), [900]);
        assert!(section(&own(2, 9, 600), 1).is_none(), "no cluster of ten");
        let section = section(&own(3, 65, 3600), 1).unwrap();
        let usual = section.tables.iter().find(|table| table.name == "error_usual").unwrap();
        let paper = usual.header.iter().position(|column| *column == "paper_mean").unwrap();
        assert!(usual.rows.iter().all(|row| row[paper] == Cell::Empty), "the paper says nothing of these homes");
        let numbers = usual.rows.iter().flatten();
        assert!(!numbers.into_iter().any(|cell| cell.csv().contains("NaN")));
    }

    #[test]
    fn clusters_of_most_homes_do_not_tell_how_clusters_differ() {
        let data = own(2, 30, 600);
        let rows = errors(&data.loads(data.slot()).unwrap(), Range::product(&data), &[no_tolerance()], 1);
        for row in &rows {
            assert_eq!(row.size.differences.is_some(), row.homes == 10, "{row:?}");
        }
        assert_eq!(rows.len(), 3 * 4);
    }

    #[test]
    fn one_reading_below_0_widens_the_range_at_all_lengths_of_slots() {
        let text = format!("-1{}\n9{}\n", ",5".repeat(19), ",5".repeat(19));
        let data = Dataset::own(Readings::parse(&text, "own.csv".as_ref()).unwrap(), SlotLength::new(300).unwrap());
        let range = Range::product(&data);
        let all = all_loads(&data);
        assert_eq!(all.len(), 2);
        for loads in &all {
            let rows = errors(loads, range, &[no_tolerance()], 1);
            let everybody = rows.iter().find(|row| row.homes == 20 && row.follows == Follows::Range).unwrap();
            assert!(everybody.size.mean > 18_000.0 / 105.0, "{everybody:?}");
        }
    }
}
