//! What a part of the study has to say: prose, tables and figures, before anything is written or drawn.

/// One part, as it is told.
#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

#[derive(Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    Table(Table),
    Figure(Figure),
}

/// Numbers with names. Always written to a CSV file; shown in the report unless there are too many of them.
#[derive(Debug)]
pub struct Table {
    /// The name of its file, without an ending.
    pub name: &'static str,
    pub caption: String,
    /// The first line of its CSV file.
    pub header: &'static [&'static str],
    pub rows: Vec<Vec<Cell>>,
    pub shown: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    /// With so many decimals in the report; a file has six significant digits.
    Number(f64, usize),
    /// A probability so small that only its power of ten tells something.
    Tiny(f64),
    Count(u64),
    /// The paper has none, or there is none.
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
    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, decimals) => format!("{value:.decimals$}"),
            Self::Tiny(value) => format!("{value:.1e}"),
            Self::Count(count) => count.to_string(),
            Self::Empty => String::new(),
        }
    }

    /// As programs read it.
    pub fn csv(&self) -> String {
        match self {
            Self::Number(value, _) => significant(*value),
            Self::Tiny(value) => format!("{value:.5e}"),
            Self::Text(_) | Self::Count(_) | Self::Empty => self.shown(),
        }
    }
}

/// Six significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let rounded: f64 = format!("{value:.5e}").parse().expect("a number as it was just written");
    rounded.to_string()
}

/// Curves over one pair of axes.
#[derive(Debug)]
pub struct Figure {
    /// The name of its files, without an ending.
    pub name: &'static str,
    pub caption: String,
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
}

impl Axis {
    pub const fn linear(label: &'static str) -> Self {
        Self { label, scale: Scale::Linear }
    }

    pub const fn logarithmic(label: &'static str) -> Self {
        Self { label, scale: Scale::Logarithmic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_six_significant_digits_and_reports_what_fits() {
        let cell = Cell::Number(0.123_456_789, 2);
        assert_eq!((cell.shown().as_str(), cell.csv().as_str()), ("0.12", "0.123457"));
        assert_eq!(Cell::Number(3.0, 2).csv(), "3");
        assert_eq!(Cell::Number(1_234_567.0, 0).csv(), "1234570");
        assert_eq!(Cell::Number(0.0, 1).csv(), "0");
        assert_eq!(Cell::Tiny(2.08e-8).shown(), "2.1e-8");
        assert_eq!(Cell::Tiny(2.08e-8).csv(), "2.08000e-8");
        assert_eq!(Cell::Empty.csv(), "");
    }
}
