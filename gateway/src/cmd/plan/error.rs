//! How far sums would be off.

use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::Params;
use serde::Serialize;

use super::numbers::real;
use crate::board::day_epsilon;

/// How far a sum of so many readings may be off.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Deviation {
    pub(super) responders: u16,
    pub(super) mean_watts: f64,
    pub(super) band95_watts: u64,
    pub(super) band99_watts: u64,
    pub(super) mean_percent: f64,
    pub(super) band95_percent: f64,
    pub(super) band99_percent: f64,
}

/// How far the mean load of an hour's slots may be off, when all answer. The noise of slots is independent.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct HourMean {
    pub(super) slots: u32,
    pub(super) band95_percent: f64,
}

/// How far the energy of a whole day may be off, when all answer in every slot.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct DayEnergy {
    pub(super) slots: u32,
    pub(super) band95_watt_hours: f64,
    pub(super) band95_percent: f64,
}

/// Whether a slot's sum is worth showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// 95 % of the sums are within a tenth of the mean load.
    Useful,
    /// Within three tenths: the shape of a day shows, a single slot says little.
    Coarse,
    /// Beyond that the noise hides the load.
    TooNoisy,
}

/// The percentage of the mean load up to which a 95 % band is useful, and coarse.
pub(super) const USEFUL_PERCENT: f64 = 10.0;
const COARSE_PERCENT: f64 = 30.0;

impl Deviation {
    /// Returns the mean size of the noise in per cent of the mean load, when all answer: the error that a plan is asked for.
    pub(super) fn mean_percent(params: &Params, mean_load_watts: u64) -> f64 {
        100.0 * spread(params, params.members().into()).mean_error() / real(mean_load_watts)
    }

    pub(super) fn new(params: &Params, responders: u16, mean_load_watts: u64) -> Self {
        let spread = spread(params, responders.into());
        let percent = |watts: f64| 100.0 * watts / real(mean_load_watts);
        let mean_watts = spread.mean_error();
        let [band95_watts, band99_watts] = [Confidence::P95, Confidence::P99].map(|level| spread.half_width(level));
        Self {
            responders,
            mean_watts,
            band95_watts,
            band99_watts,
            mean_percent: percent(mean_watts),
            band95_percent: percent(real(band95_watts)),
            band99_percent: percent(real(band99_watts)),
        }
    }
}

impl HourMean {
    /// `None` if there is no second slot in an hour.
    pub(super) fn new(params: &Params, mean_load_watts: u64) -> Option<Self> {
        let slots = u32::try_from(3600 / params.terms().slot_seconds).ok().filter(|&slots| slots > 1)?;
        let band = real(over(params, slots).half_width(Confidence::P95)) / f64::from(slots);
        Some(Self { slots, band95_percent: 100.0 * band / real(mean_load_watts) })
    }
}

impl DayEnergy {
    pub(super) fn new(params: &Params, mean_load_watts: u64) -> Self {
        let hours = real(params.terms().slot_seconds) / 3600.0;
        let slots = u32::try_from(day_epsilon::slots(params)).expect("at most one a second");
        let band95_watt_hours = hours * real(over(params, slots).half_width(Confidence::P95));
        let energy = f64::from(slots) * hours * real(mean_load_watts);
        Self { slots, band95_watt_hours, band95_percent: 100.0 * band95_watt_hours / energy }
    }
}

/// Returns the noise of the sum of a slot.
fn spread(params: &Params, shares: u32) -> Spread {
    Spread::new(params.noise_scale(), params.honest().into(), shares)
}

/// Returns the noise of the sums of several slots together, when all answer. It is independent: that of k slots is that of k times the
/// shares.
fn over(params: &Params, slots: u32) -> Spread {
    spread(params, slots * u32::from(params.members()))
}

impl Verdict {
    pub(super) fn of(band95_percent: f64) -> Self {
        match band95_percent {
            ..=USEFUL_PERCENT => Self::Useful,
            ..=COARSE_PERCENT => Self::Coarse,
            _ => Self::TooNoisy,
        }
    }
}
