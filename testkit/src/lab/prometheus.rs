//! Prometheus's text format, read back.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of one scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(BTreeMap<Series, f64>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
}

impl Samples {
    /// Reads a scrape.
    ///
    /// # Panics
    /// If a line is not of the format, or a series is there twice.
    pub fn parse(text: &str) -> Self {
        let mut samples = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (series, value) = sample(line).unwrap_or_else(|| panic!("not a sample: {line}"));
            assert!(samples.0.insert(series, value).is_none(), "there twice: {line}");
        }
        samples
    }

    /// Returns the sample with exactly these labels.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|&(label, value)| (label.to_owned(), value.to_owned())).collect();
        self.0.get(&Series { name: name.to_owned(), labels }).copied()
    }

    /// Returns the sum of all samples with at least these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let of = |series: &Series| {
            series.name == name
                && labels.iter().all(|&(label, value)| series.labels.get(label).is_some_and(|found| found == value))
        };
        self.0.iter().filter(|(series, _)| of(series)).map(|(_, value)| value).sum()
    }

    /// Returns all values of a label, under whatever name.
    pub fn values_of(&self, label: &str) -> BTreeSet<&str> {
        self.0.keys().filter_map(|series| series.labels.get(label)).map(String::as_str).collect()
    }

    /// Returns the names of all series.
    pub fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(|series| series.name.as_str()).collect()
    }
}

fn sample(line: &str) -> Option<(Series, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, mut rest) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"")?;
        // No label of ours holds a quote.
        let (value, after) = after.split_once('"')?;
        labels.insert(label.to_owned(), value.to_owned());
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some((Series { name: name.to_owned(), labels }, value.parse().ok()?))
}
