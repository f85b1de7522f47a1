//! How far sums would be off.

use dream_edge::HomeKind;
use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::Params;
use serde::Serialize;

use super::numbers::real;

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

/// What the gateway's filter makes of sums: the mean error in per cent of the mean load, of the sums and of the filtered load, for 100
/// simulated homes of a kind in slots of ten minutes. The table `headline` of docs/study.md has them.
const MEASURED_FILTER: [(HomeKind, f64, f64); 3] =
    [(HomeKind::House, 11.0, 7.2), (HomeKind::House, 19.8, 9.1), (HomeKind::ElectricHeat, 28.6, 10.0)];

/// What the filter was measured to do in the case that is nearest to a plan.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct MeasuredFilter {
    kind: &'static str,
    pub(super) raw_percent: f64,
    pub(super) filtered_percent: f64,
    /// Whether the plan's homes, slots and errors are like those that were measured.
    pub(super) applies: bool,
}

impl MeasuredFilter {
    pub(super) fn nearest(kind: HomeKind, slot_seconds: u64, raw_percent: f64) -> Self {
        let distance = |(_, raw, _): &(HomeKind, f64, f64)| (raw_percent / raw).ln().abs();
        let of_kind = MEASURED_FILTER.into_iter().filter(|(measured, ..)| *measured == kind);
        let nearest = of_kind.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        let found = nearest.unwrap_or(MEASURED_FILTER[0]);
        let applies = nearest.is_some() && slot_seconds == 600 && distance(&found) < 0.15;
        Self { kind: found.0.as_str(), raw_percent: found.1, filtered_percent: found.2, applies }
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

impl DayEnergy {
    pub(super) fn new(params: &Params, mean_load_watts: u64) -> Self {
        let hours = real(params.terms().slot_seconds) / 3600.0;
        let slots = u32::try_from(params.slots_of_a_day()).expect("at most one a second");
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
    pub(super) fn of(kind: HomeKind, slot: &Deviation) -> Self {
        // The largest error of sums at which the filter was measured, and left no more than a tenth of the load.
        let of_kind = MEASURED_FILTER.iter().filter(|(measured, ..)| *measured == kind).map(|(_, raw, _)| *raw);
        let filtered = of_kind.fold(MEASURED_FILTER[0].1, f64::max);
        match slot {
            Deviation { band95_percent: ..=USEFUL_PERCENT, .. } => Self::Useful,
            slot if slot.mean_percent <= filtered => Self::UsefulFiltered,
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
