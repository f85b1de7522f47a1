//! The energy of a cluster in the running hour, day and month, and hours and days of the past, as they are written for others.

use dream_protocol::time::Timestamp;
use serde::Serialize;

use crate::board::slot_json::of_micro;
use crate::clock::{Period, rfc3339};
use crate::history::{Extent, Rollup};

/// The energy so far of the hour, the day and the month of the last slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnergyView {
    pub hour: Rollup,
    pub day: Rollup,
    pub month: Rollup,
    /// From when to when the cluster had slots.
    pub extent: Extent,
}

impl EnergyView {
    /// Returns each period with its energy, unless it is over by `now` and none of its successor's slots has closed.
    pub fn running(&self, now: Timestamp) -> impl Iterator<Item = (Period, Rollup)> + use<> {
        self.all().into_iter().filter(move |(_, rollup)| now < rollup.end)
    }

    /// Returns the period of this length, if it is running.
    pub fn running_period(&self, wanted: Period, now: Timestamp) -> Option<Rollup> {
        self.running(now).find(|(period, _)| *period == wanted).map(|(_, rollup)| rollup)
    }

    const fn all(&self) -> [(Period, Rollup); 3] {
        [(Period::Hour, self.hour), (Period::Day, self.day), (Period::Month, self.month)]
    }

    fn json(&self, (period, rollup): (Period, Rollup)) -> (Period, EnergyJson) {
        (period, EnergyJson::new(&rollup, self.extent))
    }
}

/// Returns the word for a period in metrics and JSON.
pub const fn label(period: Period) -> &'static str {
    match period {
        Period::Hour => "hour",
        Period::Day => "day",
        Period::Month => "month",
    }
}

/// The energy of a period so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct EnergyJson {
    /// RFC 3339, UTC. The period is one of the configured time zone.
    pub start: String,
    pub end: String,
    /// Of all members, silent ones included.
    pub energy_watt_hours: i64,
    /// Half the width of the band that holds it with 95 % confidence.
    pub band95_energy_watt_hours: u64,
    /// Time of slots that gave a sum, and of slots whose load was filled in.
    pub measured_seconds: u64,
    pub filled_seconds: u64,
    /// Time that is in no energy, since the period or the cluster began and until the last slot ended.
    pub missing_seconds: u64,
    /// The filled part of the time that is in the energy.
    pub filled_share: f64,
    /// The share of the energy that is estimated, because meters cut high readings off.
    pub cut_off_share: f64,
}

impl EnergyJson {
    pub fn new(rollup: &Rollup, extent: Extent) -> Self {
        Self { missing_seconds: rollup.missing_millis(extent) / 1000, ..Self::of(rollup) }
    }

    /// Returns what is known without knowing what is missing.
    pub(crate) fn of(rollup: &Rollup) -> Self {
        Self {
            start: rfc3339(rollup.start),
            end: rfc3339(rollup.end),
            energy_watt_hours: nearest(rollup.energy_watt_hours()),
            band95_energy_watt_hours: upwards(rollup.band95_watt_hours()),
            measured_seconds: rollup.measured_millis / 1000,
            filled_seconds: rollup.filled_millis / 1000,
            missing_seconds: 0,
            filled_share: (rollup.filled_share() * 1e4).round() / 1e4,
            cut_off_share: (rollup.cut_off_share() * 1e5).round() / 1e5,
        }
    }
}

/// The running periods; `null` for one that no slot of it has closed in yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeriodsJson<E = EnergyJson> {
    pub hour: Option<E>,
    pub day: Option<E>,
    pub month: Option<E>,
}

impl<E> Default for PeriodsJson<E> {
    fn default() -> Self {
        Self { hour: None, day: None, month: None }
    }
}

impl<E> FromIterator<(Period, E)> for PeriodsJson<E> {
    fn from_iter<I: IntoIterator<Item = (Period, E)>>(periods: I) -> Self {
        let mut all = Self::default();
        for (period, energy) in periods {
            *match period {
                Period::Hour => &mut all.hour,
                Period::Day => &mut all.day,
                Period::Month => &mut all.month,
            } = Some(energy);
        }
        all
    }
}

impl PeriodsJson {
    /// Returns those that run at `now`.
    pub fn running(view: Option<&EnergyView>, now: Timestamp) -> Self {
        view.into_iter().flat_map(|view| view.running(now).map(|period| view.json(period))).collect()
    }

    /// Returns those of the last slot.
    pub fn of_last_slot(view: &EnergyView) -> Self {
        view.all().into_iter().map(|period| view.json(period)).collect()
    }
}

/// The loads of a period on average.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MeanLoadsJson {
    /// The energy over its time: the mean load of all members, and its band.
    pub load_estimated_watts: Option<i64>,
    pub band95_estimated_watts: Option<u64>,
    /// The mean of the filtered loads, and of their bands.
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<u64>,
}

impl MeanLoadsJson {
    /// Rounds loads and their bands, the bands upwards.
    pub(crate) fn new(load: Option<(f64, f64)>, filtered: Option<(f64, f64)>) -> Self {
        Self {
            load_estimated_watts: load.map(|(watts, _)| nearest(watts)),
            band95_estimated_watts: load.map(|(_, band95)| upwards(band95)),
            load_filtered_watts: filtered.map(|(watts, _)| nearest(watts)),
            band95_filtered_watts: filtered.map(|(_, band95)| upwards(band95)),
        }
    }
}

/// An hour or a day of the past.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RollupJson {
    #[serde(flatten)]
    pub energy: EnergyJson,
    #[serde(flatten)]
    pub loads: MeanLoadsJson,
    /// Slots that began in it, and those of them that gave a sum.
    pub slots: u64,
    pub decoded: u64,
    /// Means over these slots.
    pub members: Option<f64>,
    pub responders: Option<f64>,
    /// What they cost a home that took part in all of them.
    pub epsilon: f64,
    pub micro_epsilon: u64,
}

impl RollupJson {
    pub fn new(rollup: &Rollup, extent: Extent) -> Self {
        let mean = |sum: u64| (rollup.slots > 0).then(|| (10.0 * sum as f64 / rollup.slots as f64).round() / 10.0);
        Self {
            energy: EnergyJson::new(rollup, extent),
            loads: MeanLoadsJson::new(rollup.mean_load(), rollup.mean_filtered()),
            slots: rollup.slots,
            decoded: rollup.decoded,
            members: mean(rollup.members),
            responders: mean(rollup.responders),
            epsilon: of_micro(rollup.micro_epsilon),
            micro_epsilon: rollup.micro_epsilon,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
fn upwards(value: f64) -> u64 {
    value.ceil() as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use dream_testkit::outcomes::Slotted;

    use super::*;
    use crate::history::{ClosedSlot, FilteredLoad};

    fn hour() -> (Rollup, Extent) {
        let (begun, until) = (Timestamp::from_secs(0), Timestamp::from_secs(3000));
        let mut hour = Rollup::new(begun..Timestamp::from_secs(3600));
        for slot in 0..4 {
            let outcome = Slotted::new(slot).decoded(54_000, 90);
            let filtered = Some(FilteredLoad { watts: 58_000, band95: 4000 });
            hour.add(&ClosedSlot { filtered, ..outcome.into() });
        }
        let predicted = Some(FilteredLoad { watts: 30_000, band95: 9000 });
        hour.add(&ClosedSlot { predicted, ..Slotted::new(4).failed("interrupted", 0).into() });
        (hour, Extent { begun, until })
    }

    #[test]
    fn an_hour_is_told_with_its_band_and_what_was_filled_in() {
        let (hour, extent) = hour();
        let json = RollupJson::new(&hour, extent);
        // Four slots of 60 kW for all and one of 30 kW, of ten minutes each.
        assert_eq!(json.energy.energy_watt_hours, 45_000);
        assert_eq!((json.loads.load_estimated_watts, json.loads.load_filtered_watts), (Some(54_000), Some(58_000)));
        assert_eq!(
            (json.energy.measured_seconds, json.energy.filled_seconds, json.energy.missing_seconds),
            (2400, 600, 0)
        );
        assert_eq!((json.energy.filled_share, json.slots, json.decoded), (0.2, 5, 4));
        assert_eq!((json.members, json.responders, json.micro_epsilon), (Some(100.0), Some(72.0), 4_000_000));
    }

    #[test]
    fn a_period_that_is_over_is_not_running_any_more() {
        let (hour, extent) = hour();
        let mut day = hour;
        day.end = Timestamp::from_secs(86_400);
        let view = EnergyView { hour, day, month: day, extent };
        let running = |seconds| PeriodsJson::running(Some(&view), Timestamp::from_secs(seconds));
        assert!(running(3599).hour.is_some() && running(3600).hour.is_none());
        assert_eq!(running(3600).day, PeriodsJson::of_last_slot(&view).day);
        assert_eq!(running(86_400), PeriodsJson::default());
        assert_eq!(PeriodsJson::running(None, extent.begun), PeriodsJson::default());
    }
}
