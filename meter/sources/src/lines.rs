//! `lines`: a line a sample, from standard input or a file that grows, for anything that has no source of its own.
//!
//! A line is a number, which is a power, or names what it says: `power=230 import=7881.115 export=0 at=1700000000.5`, where
//! `at` is in Unix seconds. `lost` and words after it say that the meter is gone. Empty lines and those with `#` are skipped.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dream_edge::config::Section;
use dream_protocol::time::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _};

use crate::config::{counter_step, unit};
use crate::decimal;
use crate::mapping::Trouble;
use crate::outlet::{Outlet, Stop};
use crate::sample::{Values, finer};
use crate::slot_mean::{Cadence, Liveness};
use crate::units::Unit;

/// How often a file is looked at for more.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A longer line is no sample.
const LONGEST_LINE: usize = 1000;

#[derive(Debug, Clone)]
pub(crate) struct Lines {
    path: Option<PathBuf>,
    from: From,
    units: Units,
    import_only: bool,
    cadence: Cadence,
}

/// Where in a file to begin.
#[derive(Debug, Clone, Copy)]
enum From {
    Start,
    End,
}

/// The units that the numbers of lines are in.
#[derive(Debug, Clone, Copy)]
pub struct Units {
    pub power: Unit,
    pub energy: Unit,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Nothing,
    Sample(Values, Option<Timestamp>),
    Lost(String),
}

impl Lines {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        // Without a path, standard input.
        let path = section.key("path").text().map(PathBuf::from);
        let from = section.key("from").one_of(&[("start", From::Start), ("end", From::End)]).unwrap_or(From::End);
        let power = unit(section, "power_unit", true).unwrap_or(Unit::W);
        let energy = unit(section, "energy_unit", false).unwrap_or(Unit::KiloWh);
        let interval = section.key("interval_seconds").required("10").number(1..=3600u64);
        let import_only = section.key("import_only").flag().unwrap_or(false);
        let counter_step = counter_step(section);
        let cadence = Cadence { liveness: Liveness::Every { interval_millis: interval? * 1000 }, counter_step };
        Some(Self { path, from, units: Units { power, energy }, import_only, cadence })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        let result = match self.path.clone() {
            Some(path) => self.follow(&path, outlet).await,
            None => self.read_to_the_end(tokio::io::stdin(), outlet).await,
        };
        result.err().unwrap_or_else(|| Stop::Ended("standard input has ended".to_owned()))
    }

    async fn read_to_the_end(&self, mut input: impl AsyncRead + Unpin, outlet: &mut Outlet) -> Result<(), Stop> {
        outlet.connected().await?;
        let mut lines = LineReader::default();
        while lines.read_from(&mut input).await? > 0 {
            self.take(&mut lines, outlet).await?;
        }
        Ok(())
    }

    /// Reads what is added to a file, and begins anew when it was replaced or cut short.
    async fn follow(&mut self, path: &Path, outlet: &mut Outlet) -> Result<(), Stop> {
        let mut file = File::open(path).await?;
        let mut position = match self.from {
            From::Start => 0,
            From::End => file.seek(SeekFrom::End(0)).await?,
        };
        // A file that takes this one's place is new: all of it is.
        self.from = From::Start;
        outlet.connected().await?;
        let mut lines = LineReader::default();
        loop {
            let read = lines.read_from(&mut file).await?;
            position += u64::try_from(read).unwrap_or(u64::MAX);
            self.take(&mut lines, outlet).await?;
            if read > 0 {
                continue;
            }
            let (here, there) = (file.metadata().await?, tokio::fs::metadata(path).await?);
            if there.len() < position || !is_same_file(&here, &there) {
                return Err(Stop::Lost("the file was replaced or cut short; it is read from its start".to_owned()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn take(&self, lines: &mut LineReader, outlet: &mut Outlet) -> Result<(), Stop> {
        while let Some(line) = lines.next() {
            match line.and_then(|line| parse(&line, self.units)) {
                Ok(Line::Nothing) => {}
                Ok(Line::Sample(values, at)) => match (values.import_only(self.import_only), at) {
                    (Ok(values), Some(at)) => outlet.sample_at(values, at).await?,
                    (Ok(values), None) => outlet.sample(values).await?,
                    (Err(Trouble::Lost(problem) | Trouble::Refused(problem)), _) => outlet.refused(problem).await?,
                },
                Ok(Line::Lost(why)) => outlet.lost(why).await?,
                Err(problem) => outlet.lost(format!("line {}: {problem}", lines.number)).await?,
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn is_same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Reads a line. An error does not repeat what the line says: it may be a home's load.
pub fn parse(line: &str, units: Units) -> Result<Line, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    if let Some(why) = line.strip_prefix("lost") {
        let why = why.trim();
        return Ok(Line::Lost(if why.is_empty() { "the lines say so".to_owned() } else { why.to_owned() }));
    }
    let (mut values, mut at) = (Values::default(), None);
    for word in line.split_ascii_whitespace() {
        let (name, number) = word.split_once('=').unwrap_or(("power", word));
        let (place, read) = match name {
            "power" => (&mut values.power, units.power.read(number)),
            "import" => (&mut values.import, units.energy.read(number)),
            "export" => (&mut values.export, units.energy.read(number)),
            "at" => (&mut at, decimal::thousandths(number, 0).filter(|millis| *millis >= 0)),
            _ => return Err("has an unknown key; use power=, import=, export= or at=".to_owned()),
        };
        let Some(read) = read else { return Err(format!("{name} is not a number")) };
        if matches!(name, "import" | "export") {
            values.step = finer(values.step, units.energy.step(number));
        }
        if place.replace(read).is_some() {
            return Err(format!("{name} occurs twice"));
        }
    }
    if values.is_empty() {
        return Err("has no power, import or export".to_owned());
    }
    let at = at.map(|millis| Timestamp::from_millis(u64::try_from(millis).unwrap_or(0)));
    Ok(Line::Sample(values, at))
}

/// Cuts bytes into lines.
#[derive(Debug, Default)]
struct LineReader {
    buffer: Vec<u8>,
    number: u64,
}

impl LineReader {
    /// Returns how many bytes came; 0 at the end.
    async fn read_from(&mut self, input: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
        let mut bytes = [0; 4096];
        let read = input.read(&mut bytes).await?;
        self.buffer.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Returns the next whole line.
    fn next(&mut self) -> Option<Result<String, String>> {
        let end = match self.buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // The rest of a line that is too long is dropped as it comes.
            None if self.buffer.len() > LONGEST_LINE => self.buffer.len(),
            None => return None,
        };
        let line: Vec<u8> = self.buffer.drain(..end).collect();
        self.number += 1;
        if line.len() > LONGEST_LINE {
            return Some(Err(format!("is longer than {LONGEST_LINE} bytes")));
        }
        Some(String::from_utf8(line).map_err(|_| "is not text in UTF-8".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { power: Unit::W, energy: Unit::KiloWh };

    #[test]
    fn a_line_is_a_power_or_names_what_it_says() {
        let sample = |import: Option<i64>, export, power, at: Option<u64>| {
            let step = import.map(|_| 1000);
            Ok(Line::Sample(Values { import, export, power, step }, at.map(Timestamp::from_millis)))
        };
        assert_eq!(parse("-230.5\r\n", UNITS), sample(None, None, Some(-230_500), None));
        assert_eq!(
            parse(" power=1 import=7881.115 export=0 at=1700000000.25 ", UNITS),
            sample(Some(7_881_115_000), Some(0), Some(1000), Some(1_700_000_000_250))
        );
        assert_eq!(parse("0.5", Units { power: Unit::KiloW, ..UNITS }), sample(None, None, Some(500_000), None));
        assert_eq!(parse("# a remark", UNITS), Ok(Line::Nothing));
        assert_eq!(parse("lost no cable", UNITS), Ok(Line::Lost("no cable".to_owned())));
    }

    #[test]
    fn what_is_no_sample_is_refused_without_repeating_it() {
        for (line, problem) in [
            ("volts=230", "has an unknown key; use power=, import=, export= or at="),
            ("power=unknown", "power is not a number"),
            ("1 2", "power occurs twice"),
            ("at=1700000000", "has no power, import or export"),
            ("power=1 at=-5", "at is not a number"),
        ] {
            assert_eq!(parse(line, UNITS), Err(problem.to_owned()), "{line}");
        }
    }
}
