//! The errors as tables and figures.

use super::{CLUSTERINGS, Differences, ErrorSize, Follows, Found, Row};
use crate::accuracy::Alpha;
use crate::grouping::{CLUSTERS, name};
use crate::section::{Axis, Cell, Figure, Section, Series, Stroke, Table};
use dream_homes::clustering::Clustering;

/// The paper's mean error of clusters of a hundred homes without tolerance, in slots of ten minutes.
const PAPERS_MEANS: [(Clustering, f64); 2] = [(Clustering::Random, 0.13), (Clustering::Consumption, 0.07)];

impl Found {
    pub(super) fn section(&self) -> Section {
        let mut section = Section {
            tables: vec![self.usual_table(), self.gain_table(), self.table()],
            figures: vec![self.clustering_figure(), self.deviation_figure(), self.alpha_figure(), self.range_figure()],
        };
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
        let mut rows = Vec::new();
        for follows in self.both() {
            for clustering in CLUSTERINGS {
                rows.extend(self.alphas.iter().map(|&alpha| {
                    let mut row = vec![
                        follows.name().into(),
                        range_cell(follows),
                        name(clustering).into(),
                        Cell::Number(alpha.share()),
                    ];
                    row.extend(numbers(self.usual(clustering, follows, alpha)));
                    row.push(self.papers_mean(clustering, follows, alpha).map_or(Cell::Empty, Cell::Number));
                    row
                }));
            }
        }
        Table {
            name: "error_usual",
            header: &[
                "noise_follows",
                "range_watts",
                "clustering",
                "alpha",
                "error_mean",
                "absolute_error_over_mean_load",
                "error_deviation",
                "error_maximum",
                "worst_cluster",
                "paper_mean",
            ],
            rows,
        }
    }

    fn slots_table(&self) -> Table {
        let rows = self.rows.iter().filter(|row| row.homes == self.usual && row.alpha == Alpha::NONE);
        let row = |row: &Row| {
            vec![
                Cell::Count(row.slot.seconds().into()),
                row.follows.name().into(),
                name(row.clustering).into(),
                Cell::Number(row.size.mean),
                Cell::Number(row.size.absolute),
            ]
        };
        Table {
            name: "error_slots",
            header: &["slot_seconds", "noise_follows", "clustering", "error_mean", "absolute_error_over_mean_load"],
            rows: rows.map(row).collect(),
        }
    }

    /// What it gains, with the paper's noise, to put homes of like consumption together.
    fn gain_table(&self) -> Table {
        let means = |clustering| {
            let rows = self.rows(clustering, Follows::Highest, Alpha::NONE);
            rows.map(|row| (row.homes, row.size.mean)).collect::<Vec<_>>()
        };
        let [random, alike] = CLUSTERINGS.map(means);
        let row = |((homes, random), (_, alike)): (&(usize, f64), &(usize, f64))| {
            let numbers = [*random, *alike, random - alike, 1.0 - alike / random].map(Cell::Number);
            [vec![Cell::from(*homes)], numbers.into()].concat()
        };
        Table {
            name: "error_gain",
            header: &["homes", "random", "consumption", "difference", "difference_as_share"],
            rows: random.iter().zip(&alike).map(row).collect(),
        }
    }

    fn table(&self) -> Table {
        let row = |row: &Row| {
            let mut cells = vec![
                name(row.clustering).into(),
                row.follows.name().into(),
                Cell::Count(row.slot.seconds().into()),
                Cell::Number(row.alpha.share()),
                row.homes.into(),
            ];
            cells.extend(numbers(row.size));
            cells.extend([row.noise_alone, row.clipping_alone].map(Cell::Number));
            cells
        };
        Table {
            name: "error",
            header: &[
                "clustering",
                "noise_follows",
                "slot_seconds",
                "alpha",
                "homes",
                "error_mean",
                "absolute_error_over_mean_load",
                "error_deviation",
                "error_maximum",
                "worst_cluster",
                "noise_alone",
                "clipping_alone",
            ],
            rows: self.rows.iter().map(row).collect(),
        }
    }

    fn curve(
        &self,
        clustering: Clustering,
        follows: Follows,
        alpha: Alpha,
        value: fn(&ErrorSize) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let point = |row: &Row| Some((row.homes as f64, value(&row.size)?));
        self.rows(clustering, follows, alpha).filter_map(point).collect()
    }

    fn clustering_figure(&self) -> Figure {
        let series = |clustering, label: &str, value, stroke| Series {
            label: format!("{}, {label}", name(clustering)),
            points: self.curve(clustering, Follows::Highest, Alpha::NONE, value),
            stroke,
        };
        let mut all: Vec<Series> =
            CLUSTERINGS.map(|clustering| series(clustering, "mean", |size| Some(size.mean), Stroke::Solid)).into();
        all.extend(
            CLUSTERINGS.map(|clustering| {
                series(clustering, "maximum", |size| Some(size.differences?.maximum), Stroke::Dashed)
            }),
        );
        if self.papers {
            all.extend(PAPERS_MEANS.map(|(clustering, mean)| Series {
                label: format!("{}, paper", name(clustering)),
                points: vec![(100.0, mean)],
                stroke: Stroke::Dots,
            }));
        }
        figure(
            "error_clustering",
            "Error of random and of consumption-based clusters, with the paper's noise and alpha 0".to_owned(),
            "error",
            all,
        )
    }

    fn deviation_figure(&self) -> Figure {
        let series = CLUSTERINGS.map(|clustering| Series {
            label: name(clustering).to_owned(),
            points: self.curve(clustering, Follows::Highest, Alpha::NONE, |size| Some(size.differences?.deviation)),
            stroke: Stroke::Solid,
        });
        figure(
            "error_deviation",
            format!("Standard deviation of the error of {CLUSTERS} clusters, with the paper's noise and alpha 0"),
            "deviation of the error",
            series.into(),
        )
    }

    fn alpha_figure(&self) -> Figure {
        let mut series = Vec::new();
        for (clustering, stroke) in [(Clustering::Random, Stroke::Solid), (Clustering::Consumption, Stroke::Dashed)] {
            series.extend(Alpha::PAPERS.map(|alpha| Series {
                label: format!("{}, alpha {}", name(clustering), alpha.share()),
                points: self.curve(clustering, Follows::Highest, alpha, |size| Some(size.mean)),
                stroke,
            }));
        }
        figure("error_alpha", "Error by alpha, with the paper's noise".to_owned(), "error", series)
    }

    fn range_figure(&self) -> Figure {
        let mut series = Vec::new();
        for (follows, label, stroke) in self
            .both()
            .into_iter()
            .zip([("highest", Stroke::Dashed), ("range", Stroke::Solid)])
            .map(|(follows, (label, stroke))| (follows, label, stroke))
        {
            series.extend(CLUSTERINGS.map(|clustering| Series {
                label: format!("{}, {label}", name(clustering)),
                points: self.curve(clustering, follows, Alpha::NONE, |size| Some(size.mean)),
                stroke,
            }));
        }
        figure(
            "error_range",
            "Error with the paper's noise and with that of a constant range, alpha 0".to_owned(),
            "error",
            series,
        )
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
                None => series.push(Series { label, points: vec![point], stroke }),
            }
        }
        figure(
            "error_slots_curve",
            "Error of random clusters by the length of slots, alpha 0".to_owned(),
            "error",
            series,
        )
    }
}

/// Of noise that follows the range.
fn range_cell(follows: Follows) -> Cell {
    match follows {
        Follows::Highest => Cell::Empty,
        Follows::Range(range) => range.to_string().trim_end_matches(" W").into(),
    }
}

fn numbers(size: ErrorSize) -> [Cell; 5] {
    let number = Cell::Number;
    let differences = size
        .differences
        .map(|Differences { deviation, maximum, worst_cluster }| [deviation, maximum, worst_cluster].map(number));
    let [deviation, maximum, worst] = differences.unwrap_or([Cell::Empty, Cell::Empty, Cell::Empty]);
    [number(size.mean), number(size.absolute), deviation, maximum, worst]
}

fn figure(name: &'static str, title: String, y: &'static str, series: Vec<Series>) -> Figure {
    Figure { name, title, x: Axis::logarithmic("homes in a cluster"), y: Axis::logarithmic(y), series }
}
