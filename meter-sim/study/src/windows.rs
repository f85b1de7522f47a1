//! Privacy over windows of several slots: what epsilon 1 in every slot adds up to.
//!
//! Epsilons of slots add up. A home that draws a part of its cluster's peak spends that part of 1 in the slot, and over a
//! window the sum of these parts.

use super::accuracy::Range;
use super::dataset::{Dataset, Loads};
use super::grouping::{PAPERS_SIZE, name};
use super::paper;
use super::peaks::Peaks;
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use super::settings::{Epsilon, Settings};
use super::spread::Spread;
use super::usage;
use dream_homes::clustering::{Clustering, shuffle};
use dream_homes::slots::SlotLength;
use dream_homes::street::{all_cores, in_parallel};

/// In minutes.
const WINDOWS: [u32; 8] = [10, 30, 60, 120, 240, 480, 720, 1440];
const CLUSTER_SIZES: [usize; 5] = [10, 30, 100, 300, 1000];

pub(crate) fn section(data: &Dataset, settings: &Settings, seed: u64) -> Result<Section, String> {
    let ten_minutes = SlotLength::new(600).expect("divides a day");
    let loads = data.loads(ten_minutes).or_else(|| data.loads(data.slot())).ok_or("It needs a slot.")?;
    let shown = Shown { active: active(data), loads, range: settings.range(data), epsilon: settings.epsilon() };
    let found = shown.all_clusters(seed);
    let title = "What a home spends in its worst window, on average over homes, against the size of its cluster";
    let mut figures = vec![figure("windows", title, Of::All, &found)];
    if shown.active.is_some() {
        figures.push(figure("windows_active", "The same for active appliances alone", Of::Active, &found));
    }
    let finding = shown.windows().last().and_then(|(minutes, slots)| {
        let (spent, counted) = (shown.of_range(slots)?.mean, slots as f64 * shown.epsilon.as_f64());
        Some(format!(
            "over {} a home spends epsilon {spent:.1} of the {counted} that its meter counts",
            in_words(minutes)
        ))
    });
    Ok(Section::new([shown.summary(&found), every(&found)], figures).finding(finding.unwrap_or_default()))
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
    /// Of a slot, with the constant range.
    epsilon: Epsilon,
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
        let part = |watts: &f64| self.epsilon.as_f64() * self.range.clip(*watts).abs() / self.range.width();
        let epsilons: Vec<Vec<f64>> = self.loads.watts.iter().map(|watts| watts.iter().map(part).collect()).collect();
        Some(spent(&epsilons, slots)?.0)
    }

    /// The windows of the clusters that are nearest to the usual size.
    fn summary(&self, found: &[Found]) -> Table {
        let sizes = found.iter().map(|one| one.size);
        let size = sizes.min_by_key(|size| size.abs_diff(PAPERS_SIZE)).unwrap_or(PAPERS_SIZE);
        let worst = |of, minutes| {
            let mut found = found.iter().filter(|one| one.clustering == Clustering::Consumption && one.size == size);
            found.find(|one| one.of == of && one.minutes == minutes).map(|one| one.worst)
        };
        let rows = self.windows().map(|(minutes, slots)| {
            let spreads = [worst(Of::All, minutes), worst(Of::Active, minutes), self.of_range(slots)];
            let numbers = spreads.map(|spread| [spread.map(|spread| spread.mean), spread.map(|spread| spread.max)]);
            row![minutes, slots; numbers.concat(); [slots as f64 * self.epsilon.as_f64()]]
        });
        const COLUMNS: &str = "window_min slots all_mean all_max active_mean active_max range_spent_mean \
                               range_spent_max range_guaranteed";
        Table::new("windows_summary", COLUMNS, rows)
    }
}

/// What homes spend in their worst windows of so many slots, and on average in all windows.
fn spent(epsilons: &[Vec<f64>], slots: usize) -> Option<(Spread, f64)> {
    let worst: Vec<f64> = epsilons.iter().map(|home| worst(home, slots)).collect();
    let means = epsilons.iter().map(|home| Spread::of(&sums(home, slots)).map(|windows| windows.mean));
    let means: Vec<f64> = means.collect::<Option<_>>()?;
    Some((Spread::of(&worst)?, Spread::of(&means)?.mean))
}

/// Of homes that use about the same.
fn figure(name: &'static str, title: &str, of: Of, found: &[Found]) -> Figure {
    let of_window = |minutes: u32| {
        let found = found.iter().filter(|one| one.clustering == Clustering::Consumption && one.of == of);
        let found = found.filter(|one| one.minutes == minutes);
        let points: Vec<(f64, f64)> = found.map(|one| (one.size as f64, one.worst.mean)).collect();
        (!points.is_empty()).then(|| Stroke::Solid.through(in_words(minutes), points))
    };
    let axes = (Axis::logarithmic("homes in a cluster"), Axis::logarithmic("epsilon over the window"));
    Figure::new(name, title, axes, WINDOWS.into_iter().filter_map(of_window))
}

fn every(found: &[Found]) -> Table {
    const COLUMNS: &str = "clustering cluster_size appliances window_min slots epsilon_s_mean epsilon_s_dev \
                           epsilon_s_max epsilon_s_mean_of_all_windows";
    let row = |one: &Found| {
        let of = match one.of {
            Of::All => "all",
            Of::Active => "active",
        };
        let Spread { mean, deviation, max } = one.worst;
        row![name(one.clustering), one.size, of, one.minutes, one.slots, mean, deviation, max, one.mean]
    };
    Table::new("windows_all", COLUMNS, found.iter().map(row))
}

fn in_words(minutes: u32) -> String {
    if minutes < 60 { format!("{minutes} min") } else { format!("{} h", minutes / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::ActivityModel;

    fn own(text: &str, minutes: u32) -> Dataset {
        Dataset::of_text(text, 60 * minutes)
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
            epsilon: Epsilon::default(),
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
        let (loads, range) = (data.loads(data.slot()).unwrap(), Settings::default().range(&data));
        let shown = Shown { loads, active: None, range, epsilon: "0.5".parse().unwrap() };
        let spent = shown.of_range(2).unwrap();
        let whole = 900.0 / 16_000.0 + 0.5;
        assert!((spent.max - whole / 2.0).abs() < 1e-12, "{spent:?}: of 16 kW, and never more than half of them");
    }

    #[test]
    fn more_homes_hide_each_other_and_nobody_spends_more_than_one_a_slot() {
        let data = Dataset::model(1, 300, ActivityModel::Crest);
        let (loads, range) = (data.loads(data.slot()).unwrap(), Settings::default().range(&data));
        let shown = Shown { active: active(&data), loads, range, epsilon: Epsilon::default() };
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
        let section = section(&own(&rows, 15), &Settings::default(), 1).unwrap();
        assert_eq!(section.figures.len(), 1);
        let summary = section.tables.iter().find(|table| table.name == "windows_summary").map(|table| &table.rows);
        let windows: Vec<String> = summary.unwrap().iter().map(|row| row[0].csv()).collect();
        assert_eq!(windows, ["30", "60", "120"]);
        assert_eq!(summary.unwrap()[0][2].csv(), "1.1", "0.1 to 1.0, twice");
    }
}
