//! What goes to a receiver: the samples of closed slots, as Prometheus's remote write 1.0 has them.

use std::collections::BTreeMap;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use prost::Message as _;

use crate::history::{ClosedSlot, Rollup};

/// `prometheus.WriteRequest`, as far as it is used.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries {
    /// Sorted by name.
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    /// Sorted by time.
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// In Unix milliseconds.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Samples of one cluster, by their series: a name, and an outcome if it has one.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    cluster: &'a ClusterId,
    labels: &'a BTreeMap<String, String>,
    series: BTreeMap<(&'static str, Option<&'static str>), Vec<Sample>>,
}

impl<'a> Samples<'a> {
    pub(super) const fn new(cluster: &'a ClusterId, labels: &'a BTreeMap<String, String>) -> Self {
        Self { cluster, labels, series: BTreeMap::new() }
    }

    /// Adds a slot, at its end.
    #[expect(clippy::cast_precision_loss, reason = "a load of 2^53 W is not plausible")]
    pub(super) fn add_slot(&mut self, closed: &ClosedSlot) {
        let end = closed.outcome.end;
        if let Some(sum) = closed.sum() {
            self.add("dream_slot_load_watts", end, sum.watts as f64);
            self.add("dream_slot_load_band95_watts", end, sum.band95 as f64);
        }
        if let Some(estimate) = closed.estimate() {
            self.add("dream_slot_load_estimated_watts", end, estimate.watts as f64);
        }
        if let Some(filtered) = closed.filtered {
            self.add("dream_slot_load_filtered_watts", end, filtered.watts as f64);
            self.add("dream_slot_load_filtered_band95_watts", end, filtered.band95 as f64);
        }
        self.add("dream_slot_members", end, closed.outcome.members.into());
        self.add("dream_slot_responders", end, closed.outcome.responders.into());
        let outcome = self.series.entry(("dream_slot_outcome", Some(closed.label()))).or_default();
        outcome.push(sample(end, 1.0));
    }

    /// Adds an hour that is over, at its end.
    pub(super) fn add_hour(&mut self, hour: &Rollup) {
        self.add("dream_hour_energy_watt_hours", hour.end, hour.energy_watt_hours());
        self.add("dream_hour_energy_band95_watt_hours", hour.end, hour.band95_watt_hours());
    }

    fn add(&mut self, name: &'static str, at: Timestamp, value: f64) {
        self.series.entry((name, None)).or_default().push(sample(at, value));
    }

    pub(super) fn count(&self) -> u64 {
        self.series.values().map(|samples| samples.len() as u64).sum()
    }

    /// Returns the body of a request.
    pub(super) fn encode(&self) -> Vec<u8> {
        let series = self.series.iter().map(|((name, outcome), samples)| {
            let mut labels: BTreeMap<&str, &str> =
                self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            labels.extend([("__name__", *name), ("cluster", self.cluster.as_str())]);
            labels.extend(outcome.map(|outcome| ("outcome", outcome)));
            let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
            TimeSeries { labels: labels.into_iter().map(label).collect(), samples: samples.clone() }
        });
        let request = WriteRequest { timeseries: series.collect() }.encode_to_vec();
        snap::raw::Encoder::new().compress_vec(&request).expect("a request is smaller than 4 GiB")
    }
}

fn sample(at: Timestamp, value: f64) -> Sample {
    Sample { value, timestamp: i64::try_from(at.as_millis()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
impl WriteRequest {
    /// Returns the times of the samples under a name.
    pub(super) fn times(&self, name: &str) -> Vec<i64> {
        let named =
            |series: &&TimeSeries| series.labels.iter().any(|label| label.name == "__name__" && label.value == name);
        self.timeseries.iter().filter(named).flat_map(|series| &series.samples).map(|sample| sample.timestamp).collect()
    }
}
