//! What is read off the board at each scrape, so that the gauges of a removed cluster are gone and those of a stalled one do not
//! pretend.

use std::borrow::Borrow;

use dream_protocol::time::Timestamp;
use prometheus::core::Collector as _;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};

use crate::board::energy;
use crate::clock::Period;
use crate::history::{FilteredLoad, Load};

/// A row of the table: a gauge with its labels, beside the name of the cluster or group, and how it is read off what is shown of
/// one.
pub(super) struct Gauge<V> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&V, Timestamp) -> Samples,
}

/// Makes a row of the table.
pub(super) const fn gauge<V>(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&V, Timestamp) -> Samples,
) -> Gauge<V> {
    Gauge { name, help, labels, read }
}

/// Numbers, each with the values of its labels; none where there is nothing to tell.
pub(super) type Samples = Vec<(Vec<&'static str>, f64)>;

/// Reads all gauges of a table off these views, which have names.
pub(super) fn collect<V>(
    table: &[Gauge<V>],
    kind: &'static str,
    views: &[(String, impl Borrow<V>)],
    now: Timestamp,
) -> Vec<MetricFamily> {
    let family = |gauge: &Gauge<V>| {
        let labels: Vec<&str> = [kind].into_iter().chain(gauge.labels.iter().copied()).collect();
        let all = GaugeVec::new(Opts::new(gauge.name, gauge.help), &labels).expect("a valid name");
        for (id, view) in views {
            for (labels, value) in (gauge.read)(view.borrow(), now) {
                let labels: Vec<&str> = [id.as_str()].into_iter().chain(labels).collect();
                all.with_label_values(&labels).set(value);
            }
        }
        all.collect().into_iter().filter(|family| !family.get_metric().is_empty())
    };
    table.iter().flat_map(family).collect()
}

/// One number, without labels of its own.
pub(super) fn one(value: impl Into<Option<f64>>) -> Samples {
    value.into().map(|value| (Vec::new(), value)).into_iter().collect()
}

/// The bands of a load, by their confidence.
pub(super) fn bands(load: Option<Load>) -> Samples {
    let both = load.map(|load| [("0.95", load.band95), ("0.99", load.band99)]);
    both.into_iter().flatten().map(|(confidence, band)| (vec![confidence], count(band))).collect()
}

/// The band of a filtered load.
pub(super) fn band95(load: Option<FilteredLoad>) -> Samples {
    load.map(|load| (vec!["0.95"], count(load.band95))).into_iter().collect()
}

/// One number for each running period.
pub(super) fn each(periods: Vec<(Period, f64)>) -> Samples {
    periods.into_iter().map(|(period, value)| (vec![energy::label(period)], value)).collect()
}

/// One band for each running period.
pub(super) fn each_band95(periods: Vec<(Period, f64)>) -> Samples {
    periods.into_iter().map(|(period, band)| (vec![energy::label(period), "0.95"], band)).collect()
}

/// Of a watt-hour. Metrics have base units.
pub(super) const JOULES: f64 = 3600.0;

/// Sums stay below 2^40, so nothing is lost.
pub(super) fn whole(watts: i64) -> f64 {
    watts as f64
}

pub(super) fn count(number: u64) -> f64 {
    number as f64
}
