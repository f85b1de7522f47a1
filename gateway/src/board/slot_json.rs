//! A closed slot as it is written for others: one JSON object for the API, the aggregate topic and, as a CSV row, for downloads and
//! the `export` command.

use serde::Serialize;

use crate::clock::rfc3339;
use crate::history::{Best, ClosedSlot, FilteredLoad, Load};

/// What may be published about a closed slot. Fields about the load are absent (`null`) in a slot that gave none.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SlotJson {
    pub slot: u64,
    /// RFC 3339, UTC.
    pub start: String,
    pub end: String,
    /// Of the list that it was under; 0 if it was under none.
    pub epoch: u64,
    /// `decoded`, or why not.
    pub outcome: &'static str,
    #[serde(flatten)]
    pub loads: LoadsJson,
    /// The mean absolute error of `load_watts`.
    pub mean_error_watts: Option<f64>,
    /// The filtered load with what the slots of the hour after it tell; absent until then.
    pub load_smoothed_watts: Option<i64>,
    pub band95_smoothed_watts: Option<u64>,
    pub members: u16,
    pub responders: u16,
    pub missing: u16,
    pub honest: u16,
    pub attempts: u8,
    /// Epsilon of one attempt.
    pub epsilon: f64,
    /// The same, exact, in millionths.
    pub micro_epsilon: u64,
    pub noise_scale_watts: f64,
}

/// The loads of a slot of a cluster or a group, each with half the width of its bands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LoadsJson {
    /// The noisy sum over the responders. Its bands hold the true sum with 95 and 99 % confidence.
    pub load_watts: Option<i64>,
    pub band95_watts: Option<u64>,
    pub band99_watts: Option<u64>,
    /// The sum scaled by members over responders, with what meters are expected to have cut off: an estimate for all members,
    /// silent ones included. The bands hold the noise and what is not known of that, not what silent meters really used.
    pub load_estimated_watts: Option<i64>,
    pub band95_estimated_watts: Option<u64>,
    pub band99_estimated_watts: Option<u64>,
    /// What the slots before tell about the load of all members now, and its band: less noise, but by a model.
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<u64>,
    /// Which of these two tells the load best: `filtered` or `estimated`; and why.
    pub load_best: Option<&'static str>,
    pub load_best_because: Option<&'static str>,
    /// How much of the estimate stands for what meters cut off of high readings.
    pub cut_off_watts: Option<i64>,
}

impl LoadsJson {
    pub(crate) fn new(
        sum: Option<Load>,
        estimate: Option<Load>,
        filtered: Option<FilteredLoad>,
        cut_off: Option<f64>,
    ) -> Self {
        let best = estimate.map(|estimate| Best::of(estimate, filtered));
        Self {
            load_watts: sum.map(|load| load.watts),
            band95_watts: sum.map(|load| load.band95),
            band99_watts: sum.map(|load| load.band99),
            load_estimated_watts: estimate.map(|load| load.watts),
            band95_estimated_watts: estimate.map(|load| load.band95),
            band99_estimated_watts: estimate.map(|load| load.band99),
            load_filtered_watts: filtered.map(|load| load.watts),
            band95_filtered_watts: filtered.map(|load| load.band95),
            load_best: best.map(Best::as_str),
            load_best_because: best.map(Best::because),
            cut_off_watts: estimate.map(|load| part(load.watts, cut_off)),
        }
    }
}

/// Returns a share of a load; nothing if the share is not known.
#[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
fn part(watts: i64, share: Option<f64>) -> i64 {
    (watts as f64 * share.unwrap_or(0.0)).round() as i64
}

impl From<&ClosedSlot> for SlotJson {
    fn from(closed: &ClosedSlot) -> Self {
        let outcome = &closed.outcome;
        Self {
            slot: outcome.slot.0,
            start: rfc3339(outcome.start),
            end: rfc3339(outcome.end),
            epoch: outcome.epoch,
            outcome: closed.label(),
            loads: LoadsJson::new(closed.sum(), closed.estimate(), closed.filtered, closed.cut_off_share()),
            mean_error_watts: closed.mean_error().map(|watts| (watts * 10.0).round() / 10.0),
            load_smoothed_watts: closed.smoothed.map(|load| load.watts),
            band95_smoothed_watts: closed.smoothed.map(|load| load.band95),
            members: outcome.members,
            responders: outcome.responders,
            missing: outcome.missing(),
            honest: outcome.honest,
            attempts: outcome.attempts,
            epsilon: of_micro(outcome.micro_epsilon),
            micro_epsilon: outcome.micro_epsilon,
            noise_scale_watts: outcome.noise_scale.as_f64(),
        }
    }
}

/// Returns epsilon as a number, from millionths.
pub fn of_micro(micro_epsilon: u64) -> f64 {
    micro_epsilon as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_testkit::outcomes::Slotted;

    #[test]
    fn a_failed_slot_tells_no_load_and_no_band() {
        let view = SlotJson::from(&ClosedSlot::from(Slotted::new(7).failed("too_many_missing", 60)));
        assert_eq!(view.outcome, "too_many_missing");
        assert_eq!((view.loads, view.mean_error_watts), (LoadsJson::default(), None));
        assert_eq!((view.responders, view.missing), (60, 40));
    }
}
