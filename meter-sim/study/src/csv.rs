//! Tables and the points of figures, as CSV.

use super::section::{Cell, Figure, Table};

impl Table {
    pub(super) fn csv(&self) -> String {
        let mut csv = self.header.join(",") + "\n";
        for row in &self.rows {
            debug_assert_eq!(row.len(), self.header.len(), "{}", self.name);
            csv += &row.iter().map(|cell| quoted(&cell.csv())).collect::<Vec<_>>().join(",");
            csv.push('\n');
        }
        csv
    }
}

impl Figure {
    /// Returns the points of all series, one a row.
    pub(super) fn csv(&self) -> String {
        let mut csv = "series,x,y\n".to_owned();
        for series in &self.series {
            let label = quoted(&series.label);
            for &(x, y) in &series.points {
                csv += &format!("{label},{},{}\n", Cell::Number(x).csv(), Cell::Number(y).csv());
            }
        }
        csv
    }
}

/// Puts text with commas between quotation marks.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{Axis, Series, Stroke};

    #[test]
    fn tables_and_points_become_csv() {
        let table = Table {
            name: "few",
            header: &["cluster_size", "mean", "kind"],
            rows: vec![
                vec![Cell::Count(10), Cell::Number(0.123_456_7), "a, \"b\"".into()],
                vec![Cell::Count(20), Cell::Empty, "c|d".into()],
            ],
        };
        assert_eq!(table.csv(), "cluster_size,mean,kind\n10,0.123457,\"a, \"\"b\"\"\"\n20,,c|d\n");
        let figure = Figure {
            name: "curve",
            title: "A < B".to_owned(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series { label: "one, two".to_owned(), points: vec![(1.0, 2.5)], stroke: Stroke::Dots }],
        };
        assert_eq!(figure.csv(), "series,x,y\n\"one, two\",1,2.5\n");
    }
}
