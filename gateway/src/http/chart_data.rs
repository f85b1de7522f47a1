//! What a chart shows, as JSON beside it: for the script that tells values where the reader points, and for tests.

use dream_protocol::time::Timestamp;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::series::{Clusters, Failed, Point, Series, Within};
use crate::history::Step;

/// Columns of points; the names are those of the API. Times are in Unix seconds.
#[derive(Debug, Serialize)]
pub(super) struct ChartData {
    from: f64,
    to: f64,
    /// Watts at the foot and at the head of the chart.
    low: f64,
    high: f64,
    slots_per_point: u64,
    /// What points are made of: `slot`, `hour` or `day`.
    step: &'static str,
    start: Vec<f64>,
    end: Vec<f64>,
    /// How many slots each point is the mean of.
    slots: Vec<usize>,
    load_watts: Vec<f64>,
    band95_watts: Vec<f64>,
    load_estimated_watts: Vec<f64>,
    band95_estimated_watts: Vec<f64>,
    load_filtered_watts: Vec<Option<f64>>,
    band95_filtered_watts: Vec<Option<f64>>,
    /// How many clusters of how many a point is of, if not of all.
    clusters: Vec<Option<String>>,
    /// What the load beside the filtered one is called: `load` with this and `_watts`.
    unfiltered: &'static str,
    failures: Vec<FailedJson>,
}

#[derive(Debug, Serialize)]
struct FailedJson {
    start: f64,
    end: f64,
    slots: usize,
    reason: &'static str,
}

impl ChartData {
    pub(super) fn new(series: &Series, low: f64, high: f64) -> Self {
        fn column<T>(series: &Series, value: impl Fn(&Point) -> T) -> Vec<T> {
            series.points().map(value).collect()
        }
        let filtered = |part: fn(&Within) -> f64| column(series, |point| point.filtered.map(|it| rounded(part(&it))));
        Self {
            from: seconds(series.from),
            to: seconds(series.to),
            low,
            high,
            slots_per_point: series.slots_per_point,
            step: series.step.map_or("slot", Step::as_str),
            start: column(series, |point| seconds(point.start)),
            end: column(series, |point| seconds(point.end)),
            slots: column(series, |point| point.slots),
            load_watts: column(series, |point| rounded(point.load.watts)),
            band95_watts: column(series, |point| rounded(point.load.band95)),
            load_estimated_watts: column(series, |point| rounded(point.estimate.watts)),
            band95_estimated_watts: column(series, |point| rounded(point.estimate.band95)),
            load_filtered_watts: filtered(|it| it.watts),
            band95_filtered_watts: filtered(|it| it.band95),
            clusters: column(series, |point| {
                let Clusters { added, of } = point.clusters;
                point.clusters.is_partial().then(|| format!("{added} of {of} clusters"))
            }),
            unfiltered: series.unfiltered_name(),
            failures: series.failures.iter().map(FailedJson::from).collect(),
        }
    }

    /// Not a script that runs: the content security policy lets it be.
    pub(super) fn script(&self) -> Markup {
        // Nothing but numbers and our own words, but no text may end the element early.
        let json = serde_json::to_string(self).expect("columns can be written as JSON").replace('<', "\\u003c");
        html! { script type="application/json" { (PreEscaped(json)) } }
    }
}

impl From<&Failed> for FailedJson {
    fn from(failed: &Failed) -> Self {
        let (start, end) = (seconds(failed.start), seconds(failed.end));
        Self { start, end, slots: failed.slots, reason: failed.reason }
    }
}

/// To a tenth of a watt, which no mean is exact to.
fn rounded(watts: f64) -> f64 {
    (10.0 * watts).round() / 10.0
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millis() as f64 / 1000.0
}
