//! What a trace amounts to, in two lines, or three if homes feed in.

use std::fmt;

use super::sheet::{Sheet, time};
use dream_homes::slots::SlotLength;

#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Of every home on every day, in watt minutes.
    energies: Vec<i64>,
    /// How many homes there are.
    homes: usize,
    /// The greatest load of all homes together in a slot, in watts, and when.
    peak: Option<(i64, String)>,
    /// The least, and when.
    least: Option<(i64, String)>,
}

impl Summary {
    pub(super) fn add(&mut self, day: u32, length: SlotLength, sheet: &Sheet) {
        self.homes = sheet.energies().len();
        self.energies.extend(sheet.energies());
        for (slot, total) in sheet.totals().into_iter().enumerate() {
            if self.peak.as_ref().is_none_or(|(peak, _)| *peak < total) {
                self.peak = Some((total, time(day, slot, length)));
            }
            if self.least.as_ref().is_none_or(|(least, _)| total < *least) {
                self.least = Some((total, time(day, slot, length)));
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut energies: Vec<f64> = self.energies.iter().copied().map(kilowatt_hours).collect();
        energies.sort_by(f64::total_cmp);
        let (Some(least), Some(most), Some((watts, time))) = (energies.first(), energies.last(), &self.peak) else {
            return write!(f, "no homes");
        };
        let mean = energies.iter().sum::<f64>() / energies.len() as f64;
        let median = energies[energies.len() / 2];
        let peak = *watts as f64 / 1000.0;
        writeln!(f, "energy a day: mean {mean:.1} kWh a home, median {median:.1}, from {least:.1} to {most:.1}")?;
        write!(f, "peak: {peak:.1} kW at {time}, {:.2} kW a home", peak / self.homes as f64)?;
        match &self.least {
            Some((watts, time)) if *watts < 0 => {
                write!(f, "\nmost fed in: {:.1} kW at {time}", -*watts as f64 / 1000.0)
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn kilowatt_hours(watt_minutes: i64) -> f64 {
    watt_minutes as f64 / 60_000.0
}
