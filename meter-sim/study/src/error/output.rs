//! The errors as tables and figures.

use super::{CLUSTERINGS, Differences, ErrorSize, Follows, Found, Row};
use crate::accuracy::Alpha;
use crate::grouping::{CLUSTERS, name};
use crate::section::{Axis, Figure, Section, Series, Stroke, Table, row};
use dream_homes::clustering::Clustering;

/// The paper's mean error of clusters of a hundred homes without tolerance, in slots of ten minutes.
const PAPERS_MEANS: [(Clustering, f64); 2] = [(Clustering::Random, 0.13), (Clustering::Consumption, 0.07)];

impl Found {
    pub(super) fn section(&self) -> Section {
        let figures = [self.clustering_figure(), self.deviation_figure(), self.alpha_figure(), self.range_figure()];
        let mut section = Section::new([self.usual_table(), self.gain_table(), self.table()], figures);
        let error = |clustering, follows| self.usual(clustering, follows, Alpha::NONE).mean;
        let [paper, range] = self.both();
        section.finding = format!(
            "{} homes by lot err by {:.3} of the load with the paper's noise, alike ones by {:.3}; within {} by {:.3} (alpha 0)",
            self.usual,
            error(Clustering::Random, paper),
            error(Clustering::Consumption, paper),
            self.range,
            error(Clustering::Random, range)
        );
        if self.rows.iter().any(|row| row.slot != self.rows[0].slot) {
            section.tables.push(self.slots_table());
            section.figures.push(self.slots_figure());
        }
        section
    }

    fn papers_mean(&self, clustering: Clustering, follows: Follows, alpha: Alpha) -> Option<f64> {
        let told = self.papers && self.usual == 100 && follows == Follows::Highest && alpha == Alpha::NONE;
        PAPERS_MEANS.into_iter().find(|(of, _)| told && *of == clustering).map(|(_, mean)| mean)
    }

    fn usual_table(&self) -> Table {
        const COLUMNS: &str = "noise_follows range_watts clustering alpha error_mean absolute_error_over_mean_load \
                               error_deviation error_maximum worst_cluster paper_mean";
        let row = |follows: Follows, clustering, alpha: Alpha| {
            let range = follows.constant().map(|range| range.to_string().trim_end_matches(" W").to_owned());
            let paper = [self.papers_mean(clustering, follows, alpha)];
            let size = numbers(self.usual(clustering, follows, alpha));
            row![follows.name(), range, name(clustering), alpha.share(); size; paper]
        };
        let both = self.both().into_iter().flat_map(|follows| CLUSTERINGS.map(|clustering| (follows, clustering)));
        let rows = both.flat_map(|(follows, clustering)| self.alphas.iter().map(move |a| row(follows, clustering, *a)));
        Table::new("error_usual", COLUMNS, rows)
    }

    fn slots_table(&self) -> Table {
        let rows = self.rows.iter().filter(|row| row.homes == self.usual && row.alpha == Alpha::NONE);
        let row = |row: &Row| {
            let (follows, clustering) = (row.follows.name(), name(row.clustering));
            row![row.slot.seconds(), follows, clustering, row.size.mean, row.size.absolute]
        };
        let columns = "slot_seconds noise_follows clustering error_mean absolute_error_over_mean_load";
        Table::new("error_slots", columns, rows.map(row))
    }

    /// What it gains, with the paper's noise, to put homes of like consumption together.
    fn gain_table(&self) -> Table {
        let [random, alike] = CLUSTERINGS.map(|clustering| self.rows(clustering, Follows::Highest, Alpha::NONE));
        let rows = random.zip(alike).map(|(random, alike)| {
            let (homes, random, alike) = (random.homes, random.size.mean, alike.size.mean);
            row![homes, random, alike, random - alike, 1.0 - alike / random]
        });
        Table::new("error_gain", "homes random consumption difference difference_as_share", rows)
    }

    fn table(&self) -> Table {
        const COLUMNS: &str = "clustering noise_follows slot_seconds alpha homes error_mean absolute_error_over_mean_load \
                               error_deviation error_maximum worst_cluster noise_alone clipping_alone";
        let row = |row: &Row| {
            let (clustering, follows) = (name(row.clustering), row.follows.name());
            let alone = [row.noise_alone, row.clipping_alone];
            row![clustering, follows, row.slot.seconds(), row.alpha.share(), row.homes; numbers(row.size); alone]
        };
        Table::new("error", COLUMNS, self.rows.iter().map(row))
    }

    fn curve(
        &self,
        clustering: Clustering,
        follows: Follows,
        alpha: Alpha,
        value: fn(&ErrorSize) -> Option<f64>,
    ) -> impl Iterator<Item = (f64, f64)> {
        let point = move |row: &Row| Some((row.homes as f64, value(&row.size)?));
        self.rows(clustering, follows, alpha).filter_map(point)
    }

    fn clustering_figure(&self) -> Figure {
        let series = |clustering, label: &str, value, stroke: Stroke| {
            let points = self.curve(clustering, Follows::Highest, Alpha::NONE, value);
            stroke.through(format!("{}, {label}", name(clustering)), points)
        };
        let means = CLUSTERINGS.map(|clustering| series(clustering, "mean", |size| Some(size.mean), Stroke::Solid));
        let maximum: fn(&ErrorSize) -> Option<f64> = |size| Some(size.differences?.maximum);
        let maxima = CLUSTERINGS.map(|clustering| series(clustering, "maximum", maximum, Stroke::Dashed));
        let papers = PAPERS_MEANS.into_iter().filter(|_| self.papers);
        let papers = papers.map(|(of, mean)| Stroke::Dots.through(format!("{}, paper", name(of)), [(100.0, mean)]));
        let title = "Error of random and of consumption-based clusters, with the paper's noise and alpha 0";
        figure("error_clustering", title, "error", means.into_iter().chain(maxima).chain(papers))
    }

    fn deviation_figure(&self) -> Figure {
        let deviation: fn(&ErrorSize) -> Option<f64> = |size| Some(size.differences?.deviation);
        let curve = |clustering| self.curve(clustering, Follows::Highest, Alpha::NONE, deviation);
        let series = CLUSTERINGS.map(|clustering| Stroke::Solid.through(name(clustering), curve(clustering)));
        let title =
            format!("Standard deviation of the error of {CLUSTERS} clusters, with the paper's noise and alpha 0");
        figure("error_deviation", title, "deviation of the error", series)
    }

    fn alpha_figure(&self) -> Figure {
        let strokes = CLUSTERINGS.into_iter().zip([Stroke::Solid, Stroke::Dashed]);
        let series = strokes.flat_map(|(clustering, stroke)| {
            Alpha::PAPERS.map(|alpha| {
                let label = format!("{}, alpha {}", name(clustering), alpha.share());
                stroke.through(label, self.curve(clustering, Follows::Highest, alpha, |size| Some(size.mean)))
            })
        });
        figure("error_alpha", "Error by alpha, with the paper's noise", "error", series)
    }

    fn range_figure(&self) -> Figure {
        let both = self.both().into_iter().zip([("highest", Stroke::Dashed), ("range", Stroke::Solid)]);
        let series = both.flat_map(|(follows, (label, stroke))| {
            CLUSTERINGS.map(|clustering| {
                let points = self.curve(clustering, follows, Alpha::NONE, |size| Some(size.mean));
                stroke.through(format!("{}, {label}", name(clustering)), points)
            })
        });
        let title = "Error with the paper's noise and with that of a constant range, alpha 0";
        figure("error_range", title, "error", series)
    }

    fn slots_figure(&self) -> Figure {
        let mut series: Vec<Series> = Vec::new();
        for row in self.rows.iter().filter(|row| (row.clustering, row.alpha) == (Clustering::Random, Alpha::NONE)) {
            let (label, stroke) = match row.follows {
                Follows::Highest => (format!("{} s, highest reading", row.slot), Stroke::Dashed),
                Follows::Range(_) => (format!("{} s, constant range", row.slot), Stroke::Solid),
            };
            let point = (row.homes as f64, row.size.mean);
            match series.iter_mut().find(|series| series.label == label) {
                Some(series) => series.points.push(point),
                None => series.push(stroke.through(label, [point])),
            }
        }
        figure("error_slots_curve", "Error of random clusters by the length of slots, alpha 0", "error", series)
    }
}

fn numbers(size: ErrorSize) -> [Option<f64>; 5] {
    let of = |value: fn(Differences) -> f64| size.differences.map(value);
    let [deviation, maximum, worst] = [of(|of| of.deviation), of(|of| of.maximum), of(|of| of.worst_cluster)];
    [Some(size.mean), Some(size.absolute), deviation, maximum, worst]
}

fn figure(
    name: &'static str,
    title: impl Into<String>,
    y: &'static str,
    series: impl IntoIterator<Item = Series>,
) -> Figure {
    Figure::new(name, title, (Axis::logarithmic("homes in a cluster"), Axis::logarithmic(y)), series)
}
