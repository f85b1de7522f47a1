//! A user's own readings: a CSV file with one column a home and one row a slot, mean watts in every cell.
//!
//! A first line of words is a header. A first column that holds times is skipped: it is known by its header (`time`,
//! `timestamp`, `date`, `slot`, or nothing) or, without a header, by not being a number. Empty lines and lines that begin
//! with `#` are skipped too. Power that a home feeds in is negative.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// More than any home draws or feeds in: a value beyond it is probably not in watts.
const MOST_WATTS: f64 = 1_000_000.0;
const TIME_HEADERS: [&str; 5] = ["time", "timestamp", "date", "slot", ""];

/// The readings of some homes, all over the same slots: at least one home and one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings {
    columns: Vec<Vec<i64>>,
}

impl Readings {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, ReadingsError> {
        let text = std::fs::read_to_string(path);
        Self::parse(&text.map_err(|source| ReadingsError::Io { path: path.to_owned(), source })?, path)
    }

    /// Reads text; the path is for what has to be said about it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ReadingsError> {
        let rows: Vec<Row<'_>> = Row::all(text).collect();
        let header = rows.first().filter(|row| row.is_header());
        let readings = &rows[usize::from(header.is_some())..];
        let first = readings.first().ok_or_else(|| ReadingsError::Empty { path: path.to_owned() })?;
        let skipped = usize::from(first_is_time(header, first));
        let width = rows[0].cells.len();
        if width == skipped {
            return Err(ReadingsError::NoHome { path: path.to_owned(), line: first.line });
        }
        let mut columns = vec![Vec::with_capacity(readings.len()); width - skipped];
        for row in readings {
            row.append_to(&mut columns, skipped, path)?;
        }
        Ok(Self { columns })
    }

    pub fn homes(&self) -> usize {
        self.columns.len()
    }

    pub fn slots(&self) -> usize {
        self.columns[0].len()
    }

    /// The readings of a home, counted from 0.
    pub fn column(&self, home: usize) -> &[i64] {
        &self.columns[home]
    }
}

/// What is wrong with a file, and where: lines and columns count from 1.
#[derive(Debug, Error)]
pub enum ReadingsError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} holds no readings; it needs one column a home and one row a slot", path = path.display())]
    Empty { path: PathBuf },
    #[error("{path}, line {line}: there is a column of times and none of a home; add one column a home", path = path.display())]
    NoHome { path: PathBuf, line: usize },
    #[error(
        "{path}, line {line}: the number of columns is {found}, and {expected} in the lines before; \
         separate cells by commas and leave none out",
        path = path.display()
    )]
    Width { path: PathBuf, line: usize, found: usize, expected: usize },
    #[error(
        "{path}, line {line}, column {column}: found `{found}`; allowed is a number of watts from -1000000 to 1000000",
        path = path.display()
    )]
    Value { path: PathBuf, line: usize, column: usize, found: String },
}

/// A line that says something.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = (1..).zip(text.lines());
        let telling = lines.filter(|(_, text)| !text.trim().is_empty() && !text.starts_with('#'));
        telling.map(|(line, text)| Self { line, cells: text.split(',').map(clean).collect() })
    }

    /// Whether all cells are words. Only that of the times may be empty: elsewhere a reading is missing.
    fn is_header(&self) -> bool {
        let wordless = |cell: &&str| cell.parse::<f64>().is_ok();
        !self.cells.iter().any(wordless) && self.cells[1..].iter().all(|cell| !cell.is_empty())
    }

    fn append_to(&self, columns: &mut [Vec<i64>], skipped: usize, path: &Path) -> Result<(), ReadingsError> {
        let (line, expected) = (self.line, columns.len() + skipped);
        if self.cells.len() != expected {
            return Err(ReadingsError::Width { path: path.to_owned(), line, found: self.cells.len(), expected });
        }
        for (at, (cell, column)) in self.cells[skipped..].iter().zip(columns).enumerate() {
            let bad = || ReadingsError::Value {
                path: path.to_owned(),
                line,
                column: at + skipped + 1,
                found: (*cell).to_owned(),
            };
            column.push(watts(cell).ok_or_else(bad)?);
        }
        Ok(())
    }
}

fn first_is_time(header: Option<&Row<'_>>, first: &Row<'_>) -> bool {
    match header {
        Some(header) => TIME_HEADERS.contains(&header.cells[0].to_lowercase().as_str()),
        None => first.cells.len() > 1 && first.cells[0].parse::<f64>().is_err(),
    }
}

/// A cell without blanks and quotation marks around it.
fn clean(cell: &str) -> &str {
    let cell = cell.trim();
    cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
}

/// A number, to the nearest watt.
#[expect(clippy::cast_possible_truncation, reason = "a million at most")]
fn watts(cell: &str) -> Option<i64> {
    let watts: f64 = cell.parse().ok()?;
    (watts.abs() <= MOST_WATTS).then(|| watts.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Readings, String> {
        Readings::parse(text, "homes.csv".as_ref()).map_err(|error| error.to_string())
    }

    fn columns(text: &str) -> Vec<Vec<i64>> {
        parse(text).unwrap().columns
    }

    #[test]
    fn header_and_times_may_be_there_or_not() {
        let expected = [vec![100, 120], vec![-5, 8]];
        for text in [
            "100,-5\n120,8\n",
            "home_1,home_2\n100,-5\n120,8\n",
            "time,home_1,home_2\n00:00,100,-5\n00:10,120,8\n",
            "Timestamp,a,b\n1762000000,100,-5\n1762000600,120,8\n",
            ",a,b\n0,100,-5\n1,120,8\n",
            "2026-11-01T00:00:00Z,100,-5\n2026-11-01T00:10:00Z,120,8",
            "\u{feff}\"a\",\"b\"\r\n# a remark\r\n\r\n 100.4 ,-5\r\n1.2e2,8.0\r\n",
        ] {
            assert_eq!(columns(text), expected, "{text}");
        }
    }

    #[test]
    fn a_single_home_needs_no_comma() {
        assert_eq!(columns("watts\n1\n2\n"), [[1, 2]]);
        assert_eq!(columns("1\n2\n"), [[1, 2]]);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let mistakes = [
            "",
            "home_1,home_2\n",
            "time\n00:00\n",
            "1,2\n3\n",
            "1,2\n3,4,5\n",
            "a,b\n1,2\n\n3,x\n",
            "time,a\n00:00,1\n00:10,\n",
            "1,x\n",
            "1,2\nNaN,3\n",
            "1;2\n3;4\n",
            "1,2000000\n",
        ];
        let told = mistakes.map(|text| format!("{text:?}\n  {}\n", parse(text).unwrap_err()));
        insta::assert_snapshot!(told.concat());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Readings::open("/nowhere/homes.csv".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/homes.csv: "), "{error}");
    }
}
