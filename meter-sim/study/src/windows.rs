//! Privacy over windows of several slots: what epsilon 1 in every slot adds up to.
//!
//! Epsilons of slots add up. A home that draws a part of its cluster's peak spends that part of 1 in the slot, and over a
//! window the sum of these parts.

use super::accuracy::{Range, feed_in_text};
use super::dataset::{Dataset, Loads};
use super::grouping::{PAPERS_SIZE, name};
use super::paper;
use super::peaks::Peaks;
use super::section::{Axis, Block, Cell, Figure, Section, Series, Stroke, Table};
use super::spread::Spread;
use super::usage;
use dream_homes::clustering::{Clustering, shuffle};
use dream_homes::slots::SlotLength;
use dream_homes::street::{all_cores, in_parallel};

/// In minutes.
const WINDOWS: [u32; 8] = [10, 30, 60, 120, 240, 480, 720, 1440];
const CLUSTER_SIZES: [usize; 5] = [10, 30, 100, 300, 1000];

pub(crate) fn section(data: &Dataset, seed: u64) -> Option<Section> {
    let loads = data.loads(SlotLength::new(600).ok()?).or_else(|| data.loads(data.slot()))?;
    let shown = Shown { active: active(data), loads, range: Range::product(data) };
    let found = shown.all_clusters(seed);
    let mut blocks = shown.words(&feed_in_text(data));
    blocks.push(Block::Table(shown.summary(&found)));
    blocks.push(Block::Figure(figure(
        "windows",
        "What a home spends in its worst window, on average over homes, against the size of its cluster (all of its load, \
         homes that use about the same together, noise scaled by the largest load)",
        Of::All,
        &found,
    )));
    if shown.active.is_some() {
        blocks.push(Block::Figure(figure(
            "windows_active",
            "The same of active appliances alone: what tells that somebody is at home",
            Of::Active,
            &found,
        )));
    }
    blocks.push(Block::Table(every(&found)));
    Some(Section { title: "Privacy over windows of several slots", blocks })
}

/// The largest sum of so many slots in a row; of all, if there are not as many.
pub(super) fn worst(epsilons: &[f64], slots: usize) -> f64 {
    sums(epsilons, slots).into_iter().fold(0.0, f64::max)
}

/// The sums of so many slots in a row, wherever they begin.
fn sums(epsilons: &[f64], slots: usize) -> Vec<f64> {
    let slots = slots.min(epsilons.len());
    let mut until = vec![0.0];
    epsilons.iter().for_each(|epsilon| until.push(until[until.len() - 1] + epsilon));
    until[slots..].iter().zip(&until).map(|(end, begin)| end - begin).collect()
}

/// What the appliances drew that tell that somebody is at home; standby is not among it. A file does not tell.
fn active(data: &Dataset) -> Option<Vec<Vec<f64>>> {
    data.each_day(|day| {
        let uses = usage::uses(day);
        let active = uses.iter().filter(|used| !paper::is_passive(used.device));
        active.fold(vec![0.0; data.slot().per_day()], |mut sum, used| {
            sum.iter_mut().zip(&used.watts).for_each(|(sum, watts)| *sum += watts);
            sum
        })
    })
}

/// The loads that are looked at.
struct Shown {
    loads: Loads,
    active: Option<Vec<Vec<f64>>>,
    range: Range,
}

/// Which loads of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    All,
    Active,
}

/// What homes spend in windows of one length, in clusters of one kind.
#[derive(Debug)]
struct Found {
    clustering: Clustering,
    /// Of clusters on average; the homes do not always divide by the size that was wanted.
    size: usize,
    of: Of,
    minutes: u32,
    slots: usize,
    /// Over homes, each in its worst window.
    worst: Spread,
    /// Over homes and all of their windows.
    mean: f64,
}

impl Shown {
    /// Both ways to make clusters, in all sizes for which there are enough homes.
    fn all_clusters(&self, seed: u64) -> Vec<Found> {
        let mut by_lot: Vec<usize> = (0..self.loads.homes()).collect();
        shuffle(&mut by_lot, seed);
        let orders = [(Clustering::Consumption, self.loads.by_consumption()), (Clustering::Random, by_lot)];
        let sizes = || CLUSTER_SIZES.into_iter().filter(|size| *size <= self.loads.homes());
        let jobs: Vec<_> = orders.iter().flat_map(|order| sizes().map(move |size| (order, size))).collect();
        let found = in_parallel(all_cores(), &jobs, |((clustering, order), size)| {
            let peaks = Peaks::of(&self.loads, order, *size);
            let active = self.active.as_ref().map(|watts| (Of::Active, watts));
            let both = [(Of::All, &self.loads.watts)].into_iter().chain(active);
            both.flat_map(|(of, watts)| self.spent(*clustering, of, &peaks, watts)).collect::<Vec<_>>()
        });
        found.into_iter().flatten().collect()
    }

    fn spent(&self, clustering: Clustering, of: Of, peaks: &Peaks, watts: &[Vec<f64>]) -> impl Iterator<Item = Found> {
        let epsilons = watts.iter().enumerate().map(|(home, watts)| peaks.epsilons(home, watts));
        let (epsilons, size): (Vec<Vec<f64>>, usize) = (epsilons.collect(), peaks.size());
        self.windows().filter_map(move |(minutes, slots)| {
            let (worst, mean) = spent(&epsilons, slots)?;
            Some(Found { clustering, size, of, minutes, slots, worst, mean })
        })
    }

    /// Windows that are whole numbers of slots and not longer than the data, in minutes and in slots.
    fn windows(&self) -> impl Iterator<Item = (u32, usize)> + use<> {
        let (slot, most) = (self.loads.slot.seconds(), self.loads.slots());
        let whole = WINDOWS.into_iter().filter(move |minutes| (minutes * 60).is_multiple_of(slot));
        whole.map(move |minutes| (minutes, (minutes * 60 / slot) as usize)).filter(move |(_, slots)| *slots <= most)
    }

    /// What a constant range comes to: each load, drawn or fed in, as a part of the range instead of the peak.
    fn of_range(&self, slots: usize) -> Option<Spread> {
        let part = |watts: &f64| self.range.clip(*watts).abs() / self.range.width();
        let epsilons: Vec<Vec<f64>> = self.loads.watts.iter().map(|watts| watts.iter().map(part).collect()).collect();
        Some(spent(&epsilons, slots)?.0)
    }

    /// The windows of the clusters that are nearest to the usual size.
    fn summary(&self, found: &[Found]) -> Table {
        let sizes = found.iter().map(|one| one.size);
        let size = sizes.min_by_key(|size| size.abs_diff(PAPERS_SIZE)).unwrap_or(PAPERS_SIZE);
        let cells = |of, minutes| {
            let mut found = found.iter().filter(|one| one.clustering == Clustering::Consumption && one.size == size);
            let one = found.find(|one| one.of == of && one.minutes == minutes);
            one.map_or([Cell::Empty, Cell::Empty], |one| mean_and_max(one.worst))
        };
        let rows = self.windows().map(|(minutes, slots)| {
            let mut row = vec![Cell::Count(minutes.into()), slots.into()];
            row.extend(cells(Of::All, minutes));
            row.extend(cells(Of::Active, minutes));
            row.extend(self.of_range(slots).map_or([Cell::Empty, Cell::Empty], mean_and_max));
            row.push(slots.into());
            row
        });
        Table {
            name: "windows_summary",
            caption: format!(
                "epsilon_s of a home in its worst window, in clusters of {size} homes that use about the same: with noise \
                 scaled by the largest load (all of the load, active appliances alone), and with the constant range of {} \
                 at epsilon 1 a slot (what homes spend, and what counts)",
                self.range
            ),
            header: &[
                "window_min",
                "slots",
                "all_mean",
                "all_max",
                "active_mean",
                "active_max",
                "range_spent_mean",
                "range_spent_max",
                "range_guaranteed",
            ],
            rows: rows.collect(),
            shown: true,
        }
    }

    fn words(&self, feed_in: &str) -> Vec<Block> {
        let mut texts = vec![
            "Epsilon 1 protects what happens in one slot. Whoever looks at several slots in a row learns more, because \
             their epsilons add up: a window of s slots has an epsilon_s of s at worst. The paper scales its noise by the \
             largest load of the cluster in each slot; a home that draws half of that spends 0.5 in the slot, so that most \
             homes stay below s. In larger clusters the largest load is larger, hence the noise, and each home spends less. \
             The table takes each home's worst window of exactly s slots, and then the mean and the maximum over homes. \
             The paper does not say how it averages over windows, nor which clusters its figures show, and prints no \
             numbers with them; the file has random clusters and the mean over all windows as well."
                .to_owned(),
            format!(
                "The largest load is not known beforehand, and to reveal it says something about the home that has it. The \
                 product therefore uses a constant range of {}.{feed_in} Its guarantee is epsilon times the number of \
                 slots, whatever a home draws: that is what a meter counts against its budget, and what should be quoted. \
                 What its load spends, as part of the range, is less, but it depends on the load and is not a promise.",
                self.range
            ),
        ];
        if self.active.is_some() {
            texts.push(
                "Active appliances are those that somebody uses: all but fridges, freezers, storage and space heaters and \
                 hot-water tanks, and without anything's standby. They alone give away whether anybody is at home. The \
                 paper sees no considerable difference between them and all of the load. That holds for short windows; \
                 over a day, what runs by itself and standby add up to a large part."
                    .to_owned(),
            );
        }
        texts.into_iter().map(Block::Text).collect()
    }
}

/// What homes spend in their worst windows of so many slots, and on average in all windows.
fn spent(epsilons: &[Vec<f64>], slots: usize) -> Option<(Spread, f64)> {
    let worst: Vec<f64> = epsilons.iter().map(|home| worst(home, slots)).collect();
    let means = epsilons.iter().map(|home| Spread::of(&sums(home, slots)).map(|windows| windows.mean));
    let means: Vec<f64> = means.collect::<Option<_>>()?;
    Some((Spread::of(&worst)?, Spread::of(&means)?.mean))
}

fn mean_and_max(spread: Spread) -> [Cell; 2] {
    [Cell::Number(spread.mean, 2), Cell::Number(spread.max, 2)]
}

/// Of homes that use about the same.
fn figure(name: &'static str, caption: &str, of: Of, found: &[Found]) -> Figure {
    let of_window = |minutes: u32| {
        let found = found.iter().filter(|one| one.clustering == Clustering::Consumption && one.of == of);
        let found = found.filter(|one| one.minutes == minutes);
        let points: Vec<(f64, f64)> = found.map(|one| (one.size as f64, one.worst.mean)).collect();
        (!points.is_empty()).then(|| Series { label: in_words(minutes), points, stroke: Stroke::Solid })
    };
    Figure {
        name,
        caption: caption.to_owned(),
        x: Axis::logarithmic("homes in a cluster"),
        y: Axis::logarithmic("epsilon over the window"),
        series: WINDOWS.into_iter().filter_map(of_window).collect(),
    }
}

fn every(found: &[Found]) -> Table {
    let row = |one: &Found| {
        vec![
            name(one.clustering).into(),
            one.size.into(),
            match one.of {
                Of::All => "all".into(),
                Of::Active => "active".into(),
            },
            Cell::Count(one.minutes.into()),
            one.slots.into(),
            Cell::Number(one.worst.mean, 3),
            Cell::Number(one.worst.deviation, 3),
            Cell::Number(one.worst.max, 3),
            Cell::Number(one.mean, 3),
        ]
    };
    Table {
        name: "windows_all",
        caption: "epsilon_s for every cluster size, both ways to make clusters and all windows".to_owned(),
        header: &[
            "clustering",
            "cluster_size",
            "appliances",
            "window_min",
            "slots",
            "epsilon_s_mean",
            "epsilon_s_dev",
            "epsilon_s_max",
            "epsilon_s_mean_of_all_windows",
        ],
        rows: found.iter().map(row).collect(),
        shown: false,
    }
}

fn in_words(minutes: u32) -> String {
    if minutes < 60 { format!("{minutes} min") } else { format!("{} h", minutes / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::ActivityModel;
    use dream_homes::readings::Readings;

    fn own(text: &str, minutes: u32) -> Dataset {
        let readings = Readings::parse(text, "own.csv".as_ref()).unwrap();
        Dataset::own(readings, SlotLength::new(minutes * 60).unwrap())
    }

    #[test]
    fn a_window_has_as_many_slots_as_it_says() {
        assert_eq!(sums(&[1.0, 2.0, 4.0, 1.0], 2), [3.0, 6.0, 5.0]);
        assert_eq!(worst(&[1.0, 2.0, 4.0, 1.0], 2), 6.0);
        assert_eq!(worst(&[1.0, 2.0, 4.0, 1.0], 1), 4.0);
        assert_eq!(worst(&[1.0, 2.0, 4.0, 1.0], 9), 8.0);
    }

    #[test]
    fn homes_spend_their_parts_of_the_peaks() {
        // The peaks are 100, 100 and 200: the first home spends 1, 0.5 and 0.25, the second 0.5, 1 and 1.
        let shown = Shown {
            loads: own("100,50\n50,100\n50,200\n", 10).loads(SlotLength::new(600).unwrap()).unwrap(),
            active: None,
            range: Range::up_to(9000, None),
        };
        let peaks = Peaks::of(&shown.loads, &[0, 1], 2);
        let epsilons: Vec<Vec<f64>> = (0..2).map(|home| peaks.epsilons(home, &shown.loads.watts[home])).collect();
        let (worst, mean) = spent(&epsilons, 2).unwrap();
        assert_eq!(worst, Spread { mean: 1.75, deviation: 0.25, max: 2.0 });
        assert_eq!(mean, (1.5 + 0.75 + 1.5 + 2.0) / 4.0);
        let range = shown.of_range(3).unwrap();
        assert!((range.max - 350.0 / 9000.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_fed_in_spends_its_part_of_the_range_too() {
        let data = own("-900,50\n-20000,100\n", 10);
        let (loads, range) = (data.loads(data.slot()).unwrap(), Range::product(&data));
        let shown = Shown { loads, active: None, range };
        let spent = shown.of_range(2).unwrap();
        assert!((spent.max - (0.05 + 0.5)).abs() < 1e-12, "{spent:?}: of 18 kW, and never more than half of them");
        let texts = section(&data, 1).map(|section| section.blocks).unwrap();
        let about =
            |block: &Block| matches!(block, Block::Text(text) if text.contains("range of -9000 to 9000 W. 2 readings"));
        assert!(texts.iter().any(about), "{texts:?}");
    }

    #[test]
    fn more_homes_hide_each_other_and_nobody_spends_more_than_one_a_slot() {
        let data = Dataset::model(1, 300, ActivityModel::Crest);
        let (loads, range) = (data.loads(data.slot()).unwrap(), Range::product(&data));
        let shown = Shown { active: active(&data), loads, range };
        let found = shown.all_clusters(1);
        assert_eq!(found.len(), 2 * 4 * 2 * 8, "ways to make clusters, sizes, kinds of load, windows");
        assert!(found.iter().all(|one| one.worst.max <= one.slots as f64 + 1e-9 && one.mean <= one.worst.mean));
        let mean = |clustering, size, of, minutes| {
            let same =
                |one: &&Found| (one.clustering, one.size, one.of, one.minutes) == (clustering, size, of, minutes);
            found.iter().find(same).unwrap().worst.mean
        };
        for minutes in WINDOWS {
            for clustering in [Clustering::Consumption, Clustering::Random] {
                let [ten, hundred] = [10, 100].map(|size| mean(clustering, size, Of::All, minutes));
                assert!(ten > hundred, "{clustering:?}, {minutes} min: {ten} {hundred}");
                assert!(mean(clustering, 100, Of::Active, minutes) < hundred);
            }
        }
        // Among homes that use about the same, each is a larger part of the peak.
        assert!(mean(Clustering::Consumption, 10, Of::All, 1440) > mean(Clustering::Random, 10, Of::All, 1440));
    }

    #[test]
    fn of_a_file_only_whole_loads_are_known_and_windows_that_it_holds() {
        let rows = "10,20,30,40,50,60,70,80,90,100\n".repeat(8);
        let blocks = section(&own(&rows, 15), 1).unwrap().blocks;
        let figures = blocks.iter().filter(|block| matches!(block, Block::Figure(_))).count();
        assert_eq!(figures, 1);
        let summary = blocks.iter().find_map(|block| match block {
            Block::Table(table) if table.name == "windows_summary" => Some(&table.rows),
            Block::Table(_) | Block::Text(_) | Block::Figure(_) => None,
        });
        let windows: Vec<Cell> = summary.unwrap().iter().map(|row| row[0].clone()).collect();
        assert_eq!(windows, [Cell::Count(30), Cell::Count(60), Cell::Count(120)]);
        assert_eq!(summary.unwrap()[0][2].shown(), "1.10", "0.1 to 1.0, twice");
    }
}
