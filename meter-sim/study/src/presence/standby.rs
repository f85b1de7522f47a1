//! What of an appliance's draw counts as its use: all that it draws while it is on, only what it then draws beyond standby, or
//! standby as well. The paper does not say; this holds all three against its Table 1.

use super::WINDOWS;
use crate::dataset::Dataset;
use crate::paper;
use crate::section::{Cell, Table, row};
use crate::spread::Spread;
use crate::usage::{self, Usage};
use crate::windows::worst;
use dream_homes::home::{DayTrace, Device, Load};

/// What counts of a minute's watts, given those of standby: as in Table 1, without standby's part, and with all of standby.
const WAYS: [fn(i32, i32) -> i32; 3] =
    [|watts, standby| if watts == standby { 0 } else { watts }, |watts, standby| watts - standby, |watts, _| watts];

/// What one home's device drew, slot by slot, in each way.
type Ways = [Vec<f64>; WAYS.len()];

/// Of devices that have a standby and that the paper tells of, with each model of activities.
pub(super) fn table(models: &[(&str, &Dataset, &Usage)]) -> Option<Table> {
    const COLUMNS: &str = "activities appliance standby_watts window while_on beyond_standby with_standby paper_mean";
    let mut rows = Vec::new();
    for (model, data, usage) in models {
        let homes = data.each_single_day(draws)?;
        rows.extend(Device::all().filter_map(|device| rows_of(model, device, &homes, usage)).flatten());
    }
    Some(Table::new("presence_standby", COLUMNS, rows))
}

/// What a home's devices with a standby drew, if they were switched on.
fn draws(day: &DayTrace) -> Vec<(Device, i32, Ways)> {
    let used = day.loads.iter().filter(|load| load.starts > 0 && load.standby > 0);
    let of = |load: &Load| (load.device, load.standby, WAYS.map(|way| usage::means(load, way)));
    used.map(of).collect()
}

fn rows_of(model: &str, device: Device, homes: &[Vec<(Device, i32, Ways)>], usage: &Usage) -> Option<Vec<Vec<Cell>>> {
    let printed = paper::presence(device)?;
    let of_device = |devices: &'_ [(Device, i32, Ways)]| devices.iter().position(|(of, ..)| *of == device);
    let users = homes.iter().enumerate();
    let users: Vec<_> = users.filter_map(|(home, devices)| Some((home, &devices[of_device(devices)?]))).collect();
    let (_, (_, standby, _)) = users.first()?;
    let row = |(window, (name, slots)): (usize, (&str, usize))| {
        let mean = |way: usize| {
            let worst = users.iter().map(|(home, (.., ways))| worst(&usage.peaks.epsilons(*home, &ways[way]), slots));
            Spread::of(&worst.collect::<Vec<f64>>()).map(|spread| spread.mean)
        };
        let printed = [Some(printed.windows[window].mean)];
        row![model, device.name(), standby.unsigned_abs(), name; [0, 1, 2].map(mean); printed]
    };
    Some(WINDOWS.into_iter().enumerate().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::{ActivityModel, MINUTES_PER_DAY};

    #[test]
    fn a_receiver_draws_27_watts_of_which_12_are_use() {
        let mut watts = Box::new([15; MINUTES_PER_DAY]);
        watts[20..30].fill(27);
        let load = Load { device: Device::named("receiver").unwrap(), starts: 1, standby: 15, watts };
        let third_slot = WAYS.map(|way| usage::means(&load, way)[2]);
        let fourth = WAYS.map(|way| usage::means(&load, way)[3]);
        assert_eq!((third_slot, fourth), ([27.0, 12.0, 27.0], [0.0, 0.0, 15.0]));
    }

    #[test]
    fn the_papers_receiver_counts_all_it_draws_while_it_is_on() {
        let data = Dataset::model(1, 600, ActivityModel::Pooled);
        let usage = Usage::of(&data).unwrap();
        let table = table(&[("pooled", &data, &usage)]).unwrap();
        let day = |row: &&Vec<Cell>| row[1] == "receiver".into() && row[3] == "24 h".into();
        let row = table.rows.iter().find(day).unwrap();
        let numbers: Vec<f64> = row[4..].iter().map(|cell| cell.csv().parse().unwrap()).collect();
        let [on, beyond, with, paper] = numbers[..] else { panic!("{row:?}") };
        assert!((beyond / on - 11.82 / 26.82).abs() < 0.02, "{row:?}");
        // 15 W all day: several times as much, and far from what the paper has.
        assert!(with > 3.0 * on, "{row:?}");
        assert!((on - paper).abs() < (beyond - paper).abs() && (on - paper).abs() < (with - paper).abs(), "{row:?}");
    }
}
