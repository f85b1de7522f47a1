//! Who used which appliance on the paper's day, slot by slot, and beside how large a peak of their cluster. The day is a single
//! one that begins with everything off, as the paper simulated it.

use super::dataset::{Dataset, Loads, as_f64};
use super::grouping::PAPERS_SIZE;
use super::peaks::Peaks;
use dream_homes::home::{DayTrace, Device, Load};

/// The slots of the model are ten minutes long.
const MINUTES: usize = 10;

/// A device that was switched on.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) device: Device,
    /// What it drew in each slot while it was on. Standby counts as nothing: it tells nobody that it was used.
    pub(super) watts: Vec<f64>,
}

/// A street on one day, in clusters of homes that use about the same.
#[derive(Debug)]
pub(super) struct Usage {
    /// What each home switched on.
    pub(super) homes: Vec<Vec<Use>>,
    pub(super) peaks: Peaks,
}

impl Usage {
    /// None if the data does not tell appliances apart.
    pub(super) fn of(data: &Dataset) -> Option<Self> {
        let slot = data.slot();
        let days = data.each_single_day(|day| (uses(day), slot.means(&day.total())))?;
        let (homes, totals): (Vec<_>, Vec<_>) = days.into_iter().unzip();
        let loads = Loads::new(slot, totals.iter().map(|watts| as_f64(watts)).collect());
        Some(Self { homes, peaks: Peaks::of(&loads, &loads.by_consumption(), PAPERS_SIZE) })
    }

    /// The homes that switched this device on, with what it drew.
    pub(super) fn users(&self, device: Device) -> impl Iterator<Item = (usize, &[f64])> {
        let used = move |uses: &'_ [Use]| uses.iter().position(|used| used.device == device);
        self.homes.iter().enumerate().filter_map(move |(home, uses)| Some((home, &*uses[used(uses)?].watts)))
    }
}

/// What was switched on in a home on one day.
pub(super) fn uses(day: &DayTrace) -> Vec<Use> {
    let used = day.loads.iter().filter(|load| load.starts > 0);
    used.map(|load| Use { device: load.device, watts: while_on(load) }).collect()
}

fn while_on(load: &Load) -> Vec<f64> {
    means(load, |watts, standby| if watts == standby { 0 } else { watts })
}

/// The mean of what counts of each minute's watts, given those of standby, slot by slot.
pub(super) fn means(load: &Load, counts: impl Fn(i32, i32) -> i32) -> Vec<f64> {
    let sum = |slot: &[i32]| slot.iter().map(|watts| f64::from(counts(*watts, load.standby))).sum::<f64>();
    load.watts.chunks_exact(MINUTES).map(|slot| sum(slot) / MINUTES as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::{ActivityModel, MINUTES_PER_DAY};

    #[test]
    fn standby_counts_as_nothing() {
        let mut watts = Box::new([15; MINUTES_PER_DAY]);
        watts[25..35].fill(27);
        let load = Load { device: Device::named("receiver").unwrap(), starts: 1, standby: 15, watts };
        assert_eq!(while_on(&load)[1..5], [0.0, 13.5, 13.5, 0.0]);
    }

    #[test]
    fn users_are_those_who_switched_a_device_on() {
        let data = Dataset::model(3, 150, ActivityModel::Crest);
        let usage = Usage::of(&data).unwrap();
        let days = data.each_single_day(DayTrace::clone).unwrap();
        for device in ["kettle", "clock", "hob"].map(|name| Device::named(name).unwrap()) {
            let on = |day: &DayTrace| day.load(device).is_some_and(|load| load.starts > 0);
            let expected: Vec<usize> = (0..150).filter(|home| on(&days[*home])).collect();
            let users: Vec<usize> = usage.users(device).map(|(home, _)| home).collect();
            assert_eq!(users, expected, "{device}");
        }
    }
}
