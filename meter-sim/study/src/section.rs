//! The results of a part of the study: tables and figures, and how they are written as files.

use std::io;

/// The results of one part.
#[derive(Debug, Default)]
pub struct Section {
    pub tables: Vec<Table>,
    pub figures: Vec<Figure>,
    /// What it found, in one line.
    pub finding: String,
}

impl Section {
    pub(crate) fn new(tables: impl Into<Vec<Table>>, figures: impl Into<Vec<Figure>>) -> Self {
        Self { tables: tables.into(), figures: figures.into(), finding: String::new() }
    }

    /// With what it found, in one line.
    pub(crate) fn finding(self, finding: String) -> Self {
        Self { finding, ..self }
    }
}

/// A table, written as `NAME.csv`.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Columns are separated by blanks.
    ///
    /// # Panics
    ///
    /// If a row has more or fewer cells than there are columns.
    pub(crate) fn new(name: &'static str, columns: &'static str, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        let (header, rows): (Vec<_>, Vec<_>) = (columns.split_whitespace().collect(), rows.into_iter().collect());
        assert!(rows.iter().all(|row| row.len() == header.len()), "{name}: a row has a cell for every column");
        Self { name, header, rows }
    }

    pub(crate) fn csv(&self) -> io::Result<Vec<u8>> {
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::csv).collect());
        written(self.header.iter().map(ToString::to_string).collect(), rows)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    /// Written with six significant digits.
    Number(f64),
    /// A probability so small that only its power of ten tells something.
    Tiny(f64),
    Count(u64),
    /// There is no value, or the paper gives none.
    Empty,
}

/// A row of a table: cells, and after a semicolon more of one kind.
macro_rules! row {
    ($($cell:expr),*) => {
        vec![$($crate::section::Cell::from($cell)),*]
    };
    ($($cell:expr),* $(; $more:expr)+) => {{
        let mut row = row![$($cell),*];
        $(row.extend($more.into_iter().map($crate::section::Cell::from));)+
        row
    }};
}
pub(crate) use row;

macro_rules! cells {
    ($($from:ty: $value:ident => $cell:expr;)*) => {
        $(impl From<$from> for Cell {
            fn from($value: $from) -> Self {
                $cell
            }
        })*
    };
}

cells! {
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
    f64: number => Self::Number(number);
    u16: count => Self::Count(count.into());
    u32: count => Self::Count(count.into());
    u64: count => Self::Count(count);
    usize: count => Self::Count(count as u64);
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

impl Cell {
    /// Returns the text of the cell in a CSV file.
    pub fn csv(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) => significant(*value),
            Self::Tiny(value) => format!("{value:.5e}"),
            Self::Count(count) => count.to_string(),
            Self::Empty => String::new(),
        }
    }
}

/// Returns the number with six significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let rounded: f64 = format!("{value:.5e}").parse().expect("a number as it was just written");
    rounded.to_string()
}

fn written(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    std::iter::once(header).chain(rows).try_for_each(|row| csv.write_record(row))?;
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// Curves over one pair of axes, written as `NAME.svg` and their points as `NAME.csv`.
#[derive(Debug)]
pub struct Figure {
    pub name: &'static str,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

impl Figure {
    pub(crate) fn new(
        name: &'static str,
        title: impl Into<String>,
        (x, y): (Axis, Axis),
        series: impl IntoIterator<Item = Series>,
    ) -> Self {
        Self { name, title: title.into(), x, y, series: series.into_iter().collect() }
    }

    /// The points of all series, one a row.
    pub(crate) fn csv(&self) -> io::Result<Vec<u8>> {
        let number = |value: f64| Cell::Number(value).csv();
        let points = self.series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
        let rows = points.map(|(series, (x, y))| vec![series.label.clone(), number(*x), number(*y)]);
        written(["series", "x", "y"].map(str::to_owned).into(), rows)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Logarithmic,
    /// From 0 to 24, whatever is shown.
    Hours,
}

#[derive(Debug)]
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub stroke: Stroke,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Solid,
    Dashed,
    /// Only points: what the paper gives, or what was counted.
    Dots,
    /// Not a line but what lies between two: the points go along the upper one and back along the lower.
    Band,
}

impl Stroke {
    /// A series of these points.
    pub(crate) fn through(self, label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { label: label.into(), points: points.into_iter().collect(), stroke: self }
    }
}

impl Axis {
    pub const fn linear(label: &'static str) -> Self {
        Self { label, scale: Scale::Linear }
    }

    pub const fn hours(label: &'static str) -> Self {
        Self { label, scale: Scale::Hours }
    }

    pub const fn logarithmic(label: &'static str) -> Self {
        Self { label, scale: Scale::Logarithmic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_significant_digits() {
        assert_eq!(Cell::Number(0.123_456_789).csv(), "0.123457");
        assert_eq!(Cell::Number(3.0).csv(), "3");
        assert_eq!(Cell::Number(1_234_567.0).csv(), "1234570");
        assert_eq!(Cell::Number(0.0).csv(), "0");
        assert_eq!(Cell::Tiny(2.08e-8).csv(), "2.08000e-8");
        assert_eq!(Cell::Empty.csv(), "");
    }

    #[test]
    fn tables_and_points_become_csv() {
        let text = |csv: io::Result<Vec<u8>>| String::from_utf8(csv.unwrap()).unwrap();
        let rows = [row![10_u32, 0.123_456_7, "a, \"b\""], row![20_u32, None::<f64>; ["c|d"]]];
        let table = Table::new("few", "cluster_size mean kind", rows);
        assert_eq!(text(table.csv()), "cluster_size,mean,kind\n10,0.123457,\"a, \"\"b\"\"\"\n20,,c|d\n");
        let axes = (Axis::linear("x"), Axis::linear("y"));
        let figure = Figure::new("curve", "A < B", axes, [Stroke::Dots.through("one, two", [(1.0, 2.5)])]);
        assert_eq!(text(figure.csv()), "series,x,y\n\"one, two\",1,2.5\n");
    }
}
