//! One day as a table: a row a slot, a column a home or an appliance.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use dream_homes::home::{Day, DayTrace, Device, Home, MINUTES_PER_DAY};
use dream_homes::slots::SlotLength;
use dream_homes::street::in_parallel;
use indicatif::ProgressBar;

/// Sums over homes may exceed what one home can draw.
type Sums = [i64; MINUTES_PER_DAY];

/// The column of what panels generate, which is negative.
const PANELS: &str = "pv";

#[derive(Debug)]
pub(super) struct Sheet {
    names: Vec<String>,
    columns: Vec<Vec<i64>>,
    /// What each home used, in watt minutes.
    energies: Vec<i64>,
}

impl Sheet {
    pub(super) fn by_home(
        homes: &[Home],
        day: Day,
        slot: SlotLength,
        threads: NonZeroUsize,
        progress: &ProgressBar,
    ) -> Self {
        let results = in_parallel(threads, homes, |home| {
            let total = home.day(day).total();
            progress.inc(1);
            (slot.means(&total), energy(&total))
        });
        let (columns, energies) = results.into_iter().unzip();
        Self { names: homes.iter().map(|home| format!("home_{}", home.number())).collect(), columns, energies }
    }

    pub(super) fn by_appliance(
        homes: &[Home],
        day: Day,
        slot: SlotLength,
        threads: NonZeroUsize,
        progress: &ProgressBar,
    ) -> Self {
        // Sums are large and traces larger: a few homes are added up at once, so that neither piles up.
        let groups: Vec<&[Home]> = homes.chunks(32).collect();
        let results = in_parallel(threads, &groups, |homes| {
            let mut group = Group::default();
            for home in *homes {
                group.add(&home.day(day));
                progress.inc(1);
            }
            group
        });
        let mut all = Group::default();
        results.into_iter().for_each(|group| all.merge(group));
        let mut columns: Vec<_> = all.sums.iter().map(|sums| slot.means(sums)).collect();
        let mut names: Vec<_> = Device::all().map(|device| device.name().to_owned()).collect();
        if homes.iter().any(|home| home.rooftop().is_some()) {
            names.push(PANELS.to_owned());
            columns.push(slot.means(&all.panels));
        }
        Self { names, columns, energies: all.energies }
    }

    pub(super) fn energies(&self) -> &[i64] {
        &self.energies
    }

    /// The sum of all columns in each slot.
    pub(super) fn totals(&self) -> Vec<i64> {
        let slots = self.columns.first().map_or(0, Vec::len);
        (0..slots).map(|slot| self.columns.iter().map(|column| column[slot]).sum()).collect()
    }

    pub(super) fn write_header(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "time,{}", self.names.join(","))
    }

    pub(super) fn write_rows(&self, day: u32, slot: SlotLength, out: &mut impl Write) -> io::Result<()> {
        for row in 0..slot.per_day() {
            write!(out, "{}", time(day, row, slot))?;
            for column in &self.columns {
                write!(out, ",{}", column[row])?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// When a slot begins. Days have numbers, as they belong to no year.
pub(super) fn time(day: u32, slot: usize, length: SlotLength) -> String {
    let second = slot * length.seconds() as usize;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    if length.seconds().is_multiple_of(60) {
        format!("day {day} {hour:02}:{minute:02}")
    } else {
        format!("day {day} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Some homes, added up by device.
#[derive(Debug)]
struct Group {
    sums: Vec<Sums>,
    panels: Box<Sums>,
    energies: Vec<i64>,
}

impl Default for Group {
    fn default() -> Self {
        let panels = Box::new([0; MINUTES_PER_DAY]);
        Self { sums: vec![[0; MINUTES_PER_DAY]; Device::COUNT], panels, energies: Vec::new() }
    }
}

impl Group {
    fn add(&mut self, day: &DayTrace) {
        for load in &day.loads {
            let sums = &mut self.sums[load.device.index()];
            sums.iter_mut().zip(load.watts.iter()).for_each(|(sum, watts)| *sum += i64::from(*watts));
        }
        if let Some(generation) = &day.generation {
            self.panels.iter_mut().zip(generation.iter()).for_each(|(sum, watts)| *sum -= i64::from(*watts));
        }
        self.energies.push(energy(&day.total()));
    }

    fn merge(&mut self, other: Self) {
        for (sums, others) in self.sums.iter_mut().zip(&other.sums) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        self.panels.iter_mut().zip(other.panels.iter()).for_each(|(sum, other)| *sum += other);
        self.energies.extend(other.energies);
    }
}

fn energy(minutes: &[i32; MINUTES_PER_DAY]) -> i64 {
    minutes.iter().copied().map(i64::from).sum()
}
