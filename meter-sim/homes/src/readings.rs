//! A user's own readings: a CSV file with one column a home and one row a slot, mean watts in every cell.
//!
//! A first line of words is a header. A first column that holds times is skipped: it is known by its header (`time`,
//! `timestamp`, `date`, `slot`, or nothing) or, without a header, by not being a number. Empty lines and lines that begin
//! with `#` are skipped too. Power that a home feeds in is negative.
//!
//! Real files have gaps. [`Readings::open_with_gaps`] takes an empty cell, or one that says `NaN`, `NA` or `null`, as a reading
//! that is missing: a meter that was silent. Every slot needs a row, of empty cells if need be: of times, only the date of the first
//! row is read (`2026-11-17`, with or without a time behind it).

use std::io;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use thiserror::Error;

/// More than any home draws or feeds in: a value beyond it is probably not in watts.
const MOST_WATTS: f64 = 1_000_000.0;
const TIME_HEADERS: [&str; 5] = ["time", "timestamp", "date", "slot", ""];

/// The readings of some homes, all over the same slots: at least one home and one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings {
    columns: Vec<Vec<i64>>,
    /// The slots in which each home's reading is missing, in order: its reading there is 0.
    missing: Vec<Vec<usize>>,
    first_day: Option<Date>,
}

/// What an empty cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    Refused,
    Missing,
}

impl Readings {
    /// Reads a file that has a reading in every cell.
    pub fn open(path: &Path) -> Result<Self, ReadingsError> {
        Self::parse(&read(path)?, path)
    }

    /// Reads a file in which readings may be missing.
    pub fn open_with_gaps(path: &Path) -> Result<Self, ReadingsError> {
        Self::parse_with_gaps(&read(path)?, path)
    }

    /// Reads text; the path is for what has to be said about it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ReadingsError> {
        Self::of(text, path, Gaps::Refused)
    }

    /// Reads text in which readings may be missing.
    pub fn parse_with_gaps(text: &str, path: &Path) -> Result<Self, ReadingsError> {
        Self::of(text, path, Gaps::Missing)
    }

    fn of(text: &str, path: &Path, gaps: Gaps) -> Result<Self, ReadingsError> {
        let rows = Row::all(text, path, gaps)?;
        let header = rows.first().filter(|row| row.is_header(gaps));
        let readings = &rows[usize::from(header.is_some())..];
        let first = readings.first().ok_or_else(|| ReadingsError::Empty { path: path.to_owned() })?;
        let skipped = usize::from(first_is_time(header, readings, gaps));
        let width = rows[0].cells.len();
        if width == skipped {
            return Err(ReadingsError::NoHome { path: path.to_owned(), line: first.line });
        }
        let mut columns = vec![Vec::with_capacity(readings.len()); width - skipped];
        for row in readings {
            row.append_to(&mut columns, skipped, path, gaps)?;
        }
        let slots_without = |column: &Vec<Option<i64>>| {
            column.iter().enumerate().filter(|(_, watts)| watts.is_none()).map(|(slot, _)| slot).collect()
        };
        let missing = columns.iter().map(slots_without).collect();
        let columns = columns.into_iter().map(|column| column.into_iter().map(Option::unwrap_or_default).collect());
        let first_day = first.cells.first().filter(|_| skipped == 1).and_then(|time| date(time));
        Ok(Self { columns: columns.collect(), missing, first_day })
    }

    pub fn homes(&self) -> usize {
        self.columns.len()
    }

    pub fn slots(&self) -> usize {
        self.columns[0].len()
    }

    /// The readings of a home, counted from 0; those that are missing are 0.
    pub fn column(&self, home: usize) -> &[i64] {
        &self.columns[home]
    }

    /// The same readings with another date of the first row.
    #[must_use]
    pub fn beginning(self, first_day: Date) -> Self {
        Self { first_day: Some(first_day), ..self }
    }

    /// The date of the first row, if it is known.
    pub fn first_day(&self) -> Option<Date> {
        self.first_day
    }

    /// The slots in which a home's reading is missing, in order.
    pub fn missing(&self, home: usize) -> &[usize] {
        &self.missing[home]
    }
}

/// The date that a time begins with, such as `2026-11-17T10:00:00Z` or `2026-11-17 10:00`.
fn date(time: &str) -> Option<Date> {
    let (date, rest) = time.split_at_checked(10)?;
    let ends = !rest.starts_with(|after: char| after.is_ascii_digit());
    ends.then(|| Date::strptime("%Y-%m-%d", date).ok())?
}

fn read(path: &Path) -> Result<String, ReadingsError> {
    std::fs::read_to_string(path).map_err(|source| ReadingsError::Io { path: path.to_owned(), source })
}

/// What is wrong with a file, and where: lines and columns count from 1.
#[derive(Debug, Error)]
pub enum ReadingsError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is no CSV file: {source}", path = path.display())]
    Csv { path: PathBuf, source: csv::Error },
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

/// A line with cells.
#[derive(Debug)]
struct Row {
    line: usize,
    cells: Vec<String>,
}

impl Row {
    /// Reads all lines but empty ones and remarks.
    fn all(text: &str, path: &Path, gaps: Gaps) -> Result<Vec<Self>, ReadingsError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|source| ReadingsError::Csv { path: path.to_owned(), source })?;
            let cells: Vec<String> = record.iter().map(str::to_owned).collect();
            // A line of blanks is as good as empty, or a slot in which every home is silent.
            let silence = gaps == Gaps::Missing && cells.len() > 1 && !rows.is_empty();
            if silence || cells.iter().any(|cell| !cell.is_empty()) {
                rows.push(Self { line: line_of(&record, text), cells });
            }
        }
        Ok(rows)
    }

    /// Returns whether no cell is a number. Only that of the times may be empty: elsewhere a reading is missing.
    fn is_header(&self, gaps: Gaps) -> bool {
        let is_number = |cell: &String| cell.parse::<f64>().is_ok();
        let is_name = |cell: &String| !cell.is_empty() && (gaps == Gaps::Refused || !is_missing(cell));
        !self.cells.iter().any(is_number) && self.cells[1..].iter().all(is_name) && self.cells.iter().any(is_name)
    }

    fn append_to(
        &self,
        columns: &mut [Vec<Option<i64>>],
        skipped: usize,
        path: &Path,
        gaps: Gaps,
    ) -> Result<(), ReadingsError> {
        let (line, expected) = (self.line, columns.len() + skipped);
        if self.cells.len() != expected {
            return Err(ReadingsError::Width { path: path.to_owned(), line, found: self.cells.len(), expected });
        }
        for (at, (cell, column)) in self.cells[skipped..].iter().zip(columns).enumerate() {
            let bad =
                || ReadingsError::Value { path: path.to_owned(), line, column: at + skipped + 1, found: cell.clone() };
            let gap = gaps == Gaps::Missing && is_missing(cell);
            column.push(if gap { None } else { Some(watts(cell).ok_or_else(bad)?) });
        }
        Ok(())
    }
}

/// Returns the line that a record stands on. The reader counts from the empty lines and remarks before it.
fn line_of(record: &csv::StringRecord, text: &str) -> usize {
    let Some(position) = record.position() else { return 0 };
    let from = usize::try_from(position.byte()).ok().and_then(|from| text.get(from..)).unwrap_or_default();
    let skipped = from.lines().take_while(|line| line.is_empty() || line.starts_with('#')).count();
    usize::try_from(position.line()).unwrap_or(usize::MAX).saturating_add(skipped)
}

/// Whether the first column holds times: as its header says or, without one, if its first cell is neither a number nor missing.
fn first_is_time(header: Option<&Row>, readings: &[Row], gaps: Gaps) -> bool {
    let Some(header) = header else {
        let mut cells = readings.iter().filter(|row| row.cells.len() > 1).map(|row| &row.cells[0]);
        let told = cells.find(|cell| gaps == Gaps::Refused || !is_missing(cell));
        return told.is_some_and(|cell| cell.parse::<f64>().is_err());
    };
    TIME_HEADERS.contains(&header.cells[0].to_lowercase().as_str())
}

/// Whether a cell says that there is no reading.
fn is_missing(cell: &str) -> bool {
    ["", "nan", "na", "null"].contains(&cell.to_lowercase().as_str())
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

    #[test]
    fn a_time_begins_with_its_date() {
        for text in ["2026-11-17", "2026-11-17T10:00:00Z", "2026-11-17 10:00"] {
            assert_eq!(date(text), Some(jiff::civil::date(2026, 11, 17)), "{text}");
        }
        for text in ["1795132800", "17/11/2026 10:00", "2026-11-171", "2026-02-29 0", "slot 7", "ümlaut-ü-ü"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

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
            "\"Main St. 1, left\",\"2\"\"b\"\n\"100\",-5\n120,8\n",
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
    fn readings_may_be_missing_where_gaps_are_asked_for() {
        let gaps = |text: &str| {
            let readings = Readings::parse_with_gaps(text, "homes.csv".as_ref()).unwrap();
            let missing: Vec<Vec<usize>> = (0..readings.homes()).map(|home| readings.missing(home).to_vec()).collect();
            (readings.columns, missing)
        };
        let expected = (vec![vec![100, 0, 120, 0], vec![0, 0, 8, -5]], vec![vec![1, 3], vec![0, 1]]);
        for text in [
            "time,a,b\n00:00,100,\n00:10,,\n00:20,120,8\n00:30,,-5\n",
            "a,b\n100,NaN\n,\n120,8\nNA,-5\n",
            "100,null\nnan,na\n120,8\n,-5\n",
            "2026-11-01T00:00,100,\n2026-11-01T00:10,,\n2026-11-01T00:20,120,8\n2026-11-01T00:30,,-5\n",
        ] {
            assert_eq!(gaps(text), expected, "{text}");
        }
        let first = (vec![vec![0, 7], vec![3, 0]], vec![vec![0], vec![1]]);
        assert_eq!(gaps(",3\n7,\n"), first, "an empty cell is no time");
        assert_eq!(gaps("a,b\nNA,3\n7,NA\n"), first, "nor is `NA` a name");
        assert_eq!(gaps("NA,NA\n1,2\n"), (vec![vec![0, 1], vec![0, 2]], vec![vec![0], vec![0]]));
        let wrong = Readings::parse_with_gaps("a,b\n1,x\n", "homes.csv".as_ref()).unwrap_err().to_string();
        assert!(wrong.contains("line 2, column 2: found `x`"), "{wrong}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Readings::open("/nowhere/homes.csv".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/homes.csv: "), "{error}");
    }
}
