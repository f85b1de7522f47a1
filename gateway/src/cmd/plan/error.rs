//! How far sums would be off.

use dream_edge::HomeKind;
use dream_edge::cut_off::CutOffDay;
use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::Params;
use serde::Serialize;

use super::numbers::real;
use crate::history::NORMAL95;

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

/// How far the energy of one or more whole days may be off, when all answer in every slot: noise, and what is not known of what meters
/// cut off.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Energy {
    pub(super) days: u32,
    pub(super) slots: u32,
    pub(super) band95_watt_hours: f64,
    pub(super) band95_percent: f64,
}

/// Whether the load of a slot can be read, with the gateway's filter if need be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// 95 % of the sums are within a tenth of the mean load.
    Useful,
    /// The filtered load is useful, a single sum says little.
    UsefulFiltered,
    /// No study has shown that the filter makes this useful.
    TooNoisy,
}

/// The percentage of the mean load up to which a 95 % band of sums is useful.
pub(super) const USEFUL_PERCENT: f64 = 10.0;

/// What the gateway's filter makes of sums of simulated homes of a kind, in slots of ten minutes: how many homes, and the mean error
/// in per cent of the mean load, of the sums and of the filtered load. The table "By size" of docs/study.md has them.
const MEASURED_FILTER: [(HomeKind, u16, f64, f64); 8] = [
    (HomeKind::House, 100, 35.0, 11.0),
    (HomeKind::House, 300, 11.8, 5.9),
    (HomeKind::House, 300, 27.7, 7.7),
    (HomeKind::House, 1000, 3.8, 2.8),
    (HomeKind::House, 1000, 8.4, 4.1),
    (HomeKind::ElectricHeat, 100, 118.9, 15.9),
    (HomeKind::ElectricHeat, 300, 39.9, 8.8),
    (HomeKind::ElectricHeat, 1000, 30.0, 6.9),
];

/// The percentage of the mean load up to which a filtered load is useful by its mean error, or that of sums where no filter was measured.
const USEFUL_FILTERED_PERCENT: f64 = 10.0;

/// How much more noise than was measured is still like it: the load of a season differs from that of a year by as much.
const ALIKE: f64 = 1.15;

/// What the filter was measured to do where it had a harder task than in a plan: no more homes, and no less noise.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct MeasuredFilter {
    pub(super) homes: u16,
    pub(super) raw_percent: f64,
    pub(super) filtered_percent: f64,
}

impl MeasuredFilter {
    /// Returns the best of what was measured; `None` if nothing was that the plan's homes, slots and errors could be compared with.
    pub(super) fn of(kind: HomeKind, slot_seconds: u64, slot: &Deviation) -> Option<Self> {
        let harder = MEASURED_FILTER.into_iter().filter(|&(measured, homes, raw_percent, filtered_percent)| {
            measured == kind
                && slot_seconds == 600
                && homes <= slot.responders
                && slot.mean_percent <= ALIKE * raw_percent
                && filtered_percent < slot.mean_percent
        });
        let best = harder.min_by(|(.., one), (.., other)| one.total_cmp(other));
        best.map(|(_, homes, raw_percent, filtered_percent)| Self { homes, raw_percent, filtered_percent })
    }
}

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

impl Energy {
    pub(super) fn new(params: &Params, mean_load_watts: u64, days: u32, cut_off: Option<CutOffDay>) -> Self {
        let hours = real(params.terms().slot_seconds) / 3600.0;
        let of_a_day = u32::try_from(params.slots_of_a_day()).expect("at most one a second");
        let slots = days * of_a_day;
        // The noise of days is independent, and nearly normal: their bands add in quadrature.
        let noise = hours * real(over(params, of_a_day).half_width(Confidence::P95)) * f64::from(days).sqrt();
        let energy = f64::from(slots) * hours * real(mean_load_watts);
        let unknown = cut_off.map_or(0.0, |cut_off| {
            let (share, lasting, daily) = cut_off.of_a_year(params.members());
            lasting.hypot(daily / f64::from(days).sqrt()) / (1.0 + share)
        });
        let band95_watt_hours = noise.hypot(NORMAL95 * unknown * energy);
        Self { days, slots, band95_watt_hours, band95_percent: 100.0 * band95_watt_hours / energy }
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
    pub(super) fn of(slot: &Deviation, filter: Option<&MeasuredFilter>) -> Self {
        let filtered = filter.map_or(slot.mean_percent, |measured| measured.filtered_percent);
        match slot {
            Deviation { band95_percent: ..=USEFUL_PERCENT, .. } => Self::Useful,
            _ if filtered <= USEFUL_FILTERED_PERCENT => Self::UsefulFiltered,
            _ => Self::TooNoisy,
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Useful => "Useful: single sums can be read.",
            Self::UsefulFiltered => "Useful filtered: read the filtered load; a single sum says little.",
            Self::TooNoisy => {
                "WARNING: too noisy; no study shows that the filter makes it useful. More homes or longer slots help."
            }
        }
    }
}
