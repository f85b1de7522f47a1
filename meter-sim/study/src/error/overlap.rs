//! Whether it matters that the two hundred clusters of a size have homes in common: the same for clusters that have none.

use super::{CLUSTERINGS, ClusterSlot, ErrorSize, Follows};
use crate::accuracy::{Noise, Range};
use crate::dataset::{Dataset, Loads};
use crate::grouping::{CLUSTERS, clusters, disjoint, name, sizes};
use crate::section::{Cell, Table, row};
use dream_homes::clustering::Clustering;
use dream_homes::street::{all_cores, in_parallel};

/// So few clusters do not tell how clusters differ.
const FEWEST: usize = 10;

/// Without tolerance, of all sizes of which there are enough clusters side by side; nothing if there is none.
///
/// The maximum grows with the number of clusters that it is taken over, whatever they share. So clusters that have no home
/// in common are held against as many of those that do.
pub(super) fn table(data: &Dataset, houses: &Dataset, range: Range, noise: &Noise, seed: u64) -> Option<Table> {
    let mut rows = Vec::new();
    for (data, follows) in [(data, Follows::Highest), (houses, Follows::Range(range))] {
        let loads = data.loads(data.slot())?;
        for clustering in CLUSTERINGS {
            let sizes = sizes(loads.homes()).filter(|size| loads.homes() / size >= FEWEST);
            rows.extend(sizes.map(|size| row(&loads, follows, clustering, size, noise, seed)));
        }
    }
    (!rows.is_empty()).then(|| Table::new("error_overlap", COLUMNS, rows))
}

const COLUMNS: &str = "noise_follows clustering homes clusters mean_of_200 mean_of_as_many mean_disjoint \
                       deviation_of_200 deviation_of_as_many deviation_disjoint maximum_of_200 maximum_of_as_many \
                       maximum_disjoint";

fn row(loads: &Loads, follows: Follows, clustering: Clustering, size: usize, noise: &Noise, seed: u64) -> Vec<Cell> {
    let overlapping = clusters(loads, clustering, size, seed);
    let apart = disjoint(loads, clustering, size, seed);
    let as_many = spread_over(&overlapping, apart.len());
    let [all, as_many, apart_errors] = [&overlapping, &as_many, &apart].map(|clusters| {
        let clipped = |members: &Vec<usize>| ClusterSlot::of(loads, members, follows.range());
        let slots = in_parallel(all_cores(), clusters, clipped);
        ErrorSize::of(&slots, |slot| follows.watts(slot, noise), true)
    });
    let three = |value: fn(&ErrorSize) -> Option<f64>| [&all, &as_many, &apart_errors].map(value);
    let means = three(|size| Some(size.mean));
    let deviations = three(|size| Some(size.differences?.deviation));
    let maxima = three(|size| Some(size.differences?.maximum));
    row![follows.name(), name(clustering), size, apart.len(); means; deviations; maxima]
}

/// So many of the clusters, evenly chosen, the first and the last among them.
fn spread_over(clusters: &[Vec<usize>], count: usize) -> Vec<Vec<usize>> {
    let count = count.min(CLUSTERS);
    (0..count).map(|number| clusters[number * (clusters.len() - 1) / (count - 1).max(1)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::Alpha;
    use dream_edge::HomeKind;
    use dream_homes::home::ActivityModel;

    #[test]
    fn overlaps_leave_means_and_deviations_alone_and_fewer_clusters_have_a_lower_maximum() {
        let data = Dataset::model(1, 1500, ActivityModel::Crest);
        let noise = Noise::new(Alpha::NONE, Default::default());
        let table = table(&data, &data.houses(), Range::of(HomeKind::House), &noise, 1).unwrap();
        let number = |row: &[Cell], column: &str| {
            let at = table.header.iter().position(|name| *name == column).unwrap();
            row[at].csv().parse::<f64>().unwrap()
        };
        let random = |row: &&Vec<Cell>| row[0].csv() == "highest_reading" && row[1].csv() == "random";
        for row in table.rows.iter().filter(random) {
            let of = |column| number(row, column);
            // Within four standard errors of so few clusters.
            let off = (of("mean_disjoint") - of("mean_of_200")).abs();
            assert!(off < 4.0 * of("deviation_of_200") / of("clusters").sqrt(), "{row:?}");
            let off = (of("deviation_disjoint") / of("deviation_of_200") - 1.0).abs();
            assert!(off < 4.0 / (2.0 * of("clusters")).sqrt(), "{row:?}");
            assert!(of("maximum_disjoint") <= of("maximum_of_200") + 1e-9 || of("clusters") >= 150.0, "{row:?}");
            assert!((of("maximum_disjoint") / of("maximum_of_as_many") - 1.0).abs() < 0.15, "{row:?}");
        }
        assert_eq!(table.rows.iter().filter(random).count(), 6, "10, 20, 30, 50, 70 and 100 homes");
    }

    #[test]
    fn some_of_many_clusters_reach_from_the_first_to_the_last() {
        let clusters: Vec<Vec<usize>> = (0..200).map(|number| vec![number]).collect();
        assert_eq!(spread_over(&clusters, 3), [[0], [99], [199]]);
        assert_eq!(spread_over(&clusters, 200), clusters);
        assert_eq!(spread_over(&clusters, 300).len(), 200);
    }
}
