//! A closed slot as it is written for others: one JSON object for the API and the aggregate topic, one CSV row for
//! downloads and the `export` command.

use std::io;

use dream_protocol::ids::ClusterId;
use serde::Serialize;

use crate::clock::rfc3339;
use crate::history::ClosedSlot;

/// What may be told about a closed slot. Fields about the load are absent (`null`) in a slot that gave none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotJson {
    pub slot: u64,
    /// RFC 3339, UTC.
    pub start: String,
    pub end: String,
    /// Of the list that it was under; 0 if it was under none.
    pub epoch: u64,
    /// `decoded`, or why not.
    pub outcome: &'static str,
    /// The noisy sum over the responders.
    pub load_watts: Option<i64>,
    /// Half the width of the band around `load_watts` that holds the true sum with 95 and 99 % confidence.
    pub band95_watts: Option<u64>,
    pub band99_watts: Option<u64>,
    /// The mean absolute error of `load_watts`.
    pub mean_error_watts: Option<f64>,
    /// `load_watts` scaled by members over responders: an estimate for all members, silent ones included.
    pub load_estimated_watts: Option<i64>,
    /// The bands, scaled alike: they hold the noise, not what silent meters really used.
    pub band95_estimated_watts: Option<u64>,
    pub band99_estimated_watts: Option<u64>,
    /// What the slots before tell about the load of all members now, and its band: less noise, but by a model.
    pub load_filtered_watts: Option<i64>,
    pub band95_filtered_watts: Option<u64>,
    /// The same with what the slots of the hour after it tell; absent until then.
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

impl From<&ClosedSlot> for SlotJson {
    fn from(closed: &ClosedSlot) -> Self {
        let outcome = &closed.outcome;
        let (sum, estimate) = (closed.sum(), closed.estimate());
        let (filtered, smoothed) = (closed.filtered, closed.smoothed);
        Self {
            slot: outcome.slot.0,
            start: rfc3339(outcome.start),
            end: rfc3339(outcome.end),
            epoch: outcome.epoch,
            outcome: closed.label(),
            load_watts: sum.map(|load| load.watts),
            band95_watts: sum.map(|load| load.band95),
            band99_watts: sum.map(|load| load.band99),
            mean_error_watts: closed.mean_error().map(|watts| (watts * 10.0).round() / 10.0),
            load_estimated_watts: estimate.map(|load| load.watts),
            band95_estimated_watts: estimate.map(|load| load.band95),
            band99_estimated_watts: estimate.map(|load| load.band99),
            load_filtered_watts: filtered.map(|load| load.watts),
            band95_filtered_watts: filtered.map(|load| load.band95),
            load_smoothed_watts: smoothed.map(|load| load.watts),
            band95_smoothed_watts: smoothed.map(|load| load.band95),
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

/// The first line of a CSV file of slots.
pub const CSV_HEADER: &str = "cluster,slot,start,end,epoch,outcome,load_watts,band95_watts,band99_watts,\
    mean_error_watts,load_estimated_watts,band95_estimated_watts,band99_estimated_watts,load_filtered_watts,\
    band95_filtered_watts,load_smoothed_watts,band95_smoothed_watts,members,responders,missing,honest,attempts,\
    epsilon,micro_epsilon,noise_scale_watts";

impl SlotJson {
    /// Writes the slot as a line under [`CSV_HEADER`]. Nothing needs quotes: ids and words have neither commas nor any.
    pub fn write_csv(&self, cluster: &ClusterId, out: &mut impl io::Write) -> io::Result<()> {
        writeln!(
            out,
            "{cluster},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            self.slot,
            self.start,
            self.end,
            self.epoch,
            self.outcome,
            cell(self.load_watts),
            cell(self.band95_watts),
            cell(self.band99_watts),
            cell(self.mean_error_watts),
            cell(self.load_estimated_watts),
            cell(self.band95_estimated_watts),
            cell(self.band99_estimated_watts),
            cell(self.load_filtered_watts),
            cell(self.band95_filtered_watts),
            cell(self.load_smoothed_watts),
            cell(self.band95_smoothed_watts),
            self.members,
            self.responders,
            self.missing,
            self.honest,
            self.attempts,
            self.epsilon,
            self.micro_epsilon,
            self.noise_scale_watts,
        )
    }
}

/// Empty where there is nothing to tell.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns epsilon as a number, from millionths.
pub fn of_micro(micro_epsilon: u64) -> f64 {
    micro_epsilon as f64 / 1e6
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use dream_testkit::outcomes::Slotted;

    #[test]
    fn a_failed_slot_tells_no_load_and_no_band() {
        let view = SlotJson::from(&ClosedSlot::from(Slotted::new(7).failed("too_many_missing", 60)));
        assert_eq!(view.outcome, "too_many_missing");
        assert_eq!((view.load_watts, view.band95_watts, view.mean_error_watts), (None, None, None));
        assert_eq!((view.load_estimated_watts, view.band99_estimated_watts), (None, None));
        assert_eq!((view.responders, view.missing), (60, 40));
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_header() {
        let cluster = ClusterId::new("north").unwrap();
        for outcome in [Slotted::new(7).decoded(1234, 95), Slotted::new(8).failed("interrupted", 0)] {
            let mut row = Vec::new();
            SlotJson::from(&ClosedSlot::from(outcome)).write_csv(&cluster, &mut row).unwrap();
            let row = String::from_utf8(row).unwrap();
            assert_eq!(row.matches(',').count(), CSV_HEADER.matches(',').count(), "{row}");
        }
    }

    #[test]
    fn columns_are_the_fields_of_the_json() {
        let view = SlotJson::from(&ClosedSlot::from(Slotted::new(7).decoded(1234, 95)));
        let json = serde_json::to_string(&view).unwrap();
        let at = |column: &str| json.find(&format!("\"{column}\":")).unwrap_or_else(|| panic!("{column} is no field"));
        let places: Vec<_> = CSV_HEADER.split(',').skip(1).map(at).collect();
        assert!(places.is_sorted());
        assert_eq!(places.len(), json.matches("\":").count());
    }
}
