//! The results of a part of the study: tables and figures, before they are written as files.

/// The results of one part.
#[derive(Debug, Default)]
pub struct Section {
    pub tables: Vec<Table>,
    pub figures: Vec<Figure>,
}

/// A table, written as `NAME.csv`.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The first line of its CSV file.
    pub header: &'static [&'static str],
    pub rows: Vec<Vec<Cell>>,
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

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
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

/// Curves over one pair of axes, written as `NAME.svg` and their points as `NAME.csv`.
#[derive(Debug)]
pub struct Figure {
    pub name: &'static str,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
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
}
