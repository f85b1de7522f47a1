//! `meter-sim study`: what error and what privacy one gets, on simulated homes or on data of one's own, beside the paper's
//! figures and tables.
//!
//! Each part is a module that turns the [`dataset`] into a [`section`]: tables and figures. `csv` and `svg` write them, and
//! docs/study.md explains them.

mod accuracy;
mod activation;
pub mod audit;
mod axis;
mod clipping;
mod composition;
mod csv;
pub mod dataset;
mod day;
mod error;
mod filtering;
mod grouping;
mod paper;
mod partners;
mod peaks;
mod presence;
pub mod section;
mod settings;
mod share;
mod shortfall;
mod spread;
mod svg;
mod usage;
mod utility;
mod windows;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use self::accuracy::feed_in_note;
use self::dataset::Dataset;
use self::section::Section;
use self::settings::{Setting, Settings};
use dream_homes::args::{BadInput, whole};
use dream_homes::date::Date;
use dream_homes::home::{ActivityModel, Calendar, Month, PvShare};
use dream_homes::readings::Readings;
use dream_homes::slots::SlotLength;

/// The fewest homes that make a cluster worth a figure.
const FEWEST_HOMES: usize = 10;

const EXAMPLES: &str = "\
Examples:
  meter-sim study --out study
  meter-sim study --out study --only error,filtering
  meter-sim study --out large --homes 12000 --size 10000 --epsilon 0.05 --day-epsilon 4 --only day
  meter-sim study --out panels --pv 0.5 --month 6 --only error,clipping,filtering
  meter-sim study --out ours --csv readings.csv --slot-seconds 900";

/// Work out what error and what privacy one gets, beside the paper's figures and tables
///
/// Writes every table as CSV, and every figure as SVG with its points as CSV; docs/study.md explains them. Homes are
/// simulated, or come from a file of your own: one column a home, one row a slot, mean watts in every cell. A cell that is empty
/// or says NaN, NA or null is a home that is silent in that slot. Parts that need single appliances are left out for a file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct StudyArgs {
    /// The folder to write to; it is created if it does not exist, and files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How many homes to simulate
    #[arg(long, default_value_t = 3000, value_parser = whole::<u32, 100, 50_000>, conflicts_with = "csv")]
    homes: u32,
    /// The seed of all randomness
    #[arg(long, default_value_t = 1, value_parser = whole::<u64, 0, { u64::MAX }>)]
    seed: u64,
    /// The share of the simulated homes with panels on their roofs, which feed in: the range then reaches as far below 0 as
    /// above it
    #[arg(long, value_name = "SHARE", default_value_t, conflicts_with = "csv")]
    pv: PvShare,
    /// Keep the simulated days in one month, from 1 to 12; otherwise they run through the year from the first of November
    #[arg(long, conflicts_with = "csv")]
    month: Option<Month>,
    #[command(flatten)]
    settings: Settings,
    /// A file of your own readings, instead of simulated homes
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The length of a row of that file; it has to divide a day
    #[arg(long, value_name = "SECONDS", default_value = "600", requires = "csv")]
    slot_seconds: SlotLength,
    /// The date of that file's first row, which tells weekends; by default that of a first column with times
    #[arg(long, value_name = "DATE", requires = "csv")]
    first_day: Option<Date>,
    /// Limit to these parts, separated by commas
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
}

/// A part of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Error against the size of a cluster
    Error,
    /// The paper's utility theorem, and the simpler schemes that it beats
    Utility,
    /// Choosing the range of readings
    Clipping,
    /// What a filter takes off the noise without costing privacy
    Filtering,
    /// The chance of guessing a meter's mask partners, and what an epsilon means
    Partners,
    /// A home with nothing but its own share of the noise
    Share,
    /// What epsilon adds up to over windows of ten minutes to a day
    Windows,
    /// The paper's Table 1: what each appliance spends
    Presence,
    /// The paper's Table 2: guessing when an appliance was switched on
    Activation,
    /// What a day costs
    Composition,
    /// What range and energy account of a kind of home cost its sums
    Day,
    /// The epsilon that is left when shares of the noise are missing
    Shortfall,
    /// Whether meters and gateway, run many times, keep the promised epsilon
    Audit,
}

impl StudyArgs {
    /// Runs the study and writes its files.
    pub fn run(&self) -> anyhow::Result<()> {
        let data = self.dataset()?;
        self.check(&data)?;
        // A folder that cannot be used is an error before the work, not after.
        std::fs::create_dir_all(&self.out).with_context(|| format!("--out: cannot make {}", self.out.display()))?;
        let parts = self.parts();
        let watch = Watch::new(parts.len());
        let (mut sections, mut left_out) = (Vec::new(), Vec::new());
        let homes = Homes { houses: data.houses(), data };
        for part in parts {
            watch.begin(part);
            match part.section(&homes, &self.settings, self.seed) {
                Ok(section) => {
                    sections.push(section);
                    watch.end(part);
                }
                Err(why) => left_out.push(format!("Left out: {}. {why}", part.name())),
            }
        }
        drop(watch);
        if sections.is_empty() {
            return Err(BadInput(format!("there is nothing to compute. {}", left_out.join(" "))).into());
        }
        sections.iter().try_for_each(|section| section.write(&self.out))?;
        left_out.extend(feed_in_note(&homes.data, &self.settings));
        left_out.extend(missing_note(&homes.data));
        left_out.extend(weekends_note(&homes.data));
        self.tell(&sections, &left_out);
        Ok(())
    }

    fn parts(&self) -> Vec<Part> {
        let parts = Part::value_variants().iter().copied();
        parts.filter(|part| self.only.is_empty() || self.only.contains(part)).collect()
    }

    /// Refuses settings that the homes are too few for, or that no part looks at.
    fn check(&self, data: &Dataset) -> Result<(), BadInput> {
        let homes = data.homes();
        if let Some(size) = self.settings.asked_size().filter(|size| *size > homes) {
            let more = if data.is_model() { ", or simulate more with --homes" } else { "" };
            return Err(BadInput(format!("--size: {size}, but there are {homes} homes; use {homes} or less{more}")));
        }
        let unused = self.settings.asked().find(|setting| !self.parts().iter().any(|part| part.looks_at(*setting)));
        unused.map_or(Ok(()), |setting| {
            let parts = Part::value_variants().iter().filter(|part| part.looks_at(setting));
            let parts: Vec<&str> = parts.map(|part| part.name()).collect();
            let flag = setting.flag();
            Err(BadInput(format!("{flag}: no part of --only looks at it; leave it out, or add {}", parts.join(" or "))))
        })
    }

    fn dataset(&self) -> Result<Dataset, BadInput> {
        let Some(path) = &self.csv else {
            let calendar = self.month.map_or(Calendar::Year, Calendar::Of);
            return Ok(Dataset::street(self.seed, self.homes, ActivityModel::Crest, self.pv, calendar));
        };
        let mut readings = Readings::open_with_gaps(path).map_err(|error| BadInput(format!("--csv: {error}")))?;
        if readings.homes() < FEWEST_HOMES {
            let (path, found) = (path.display(), readings.homes());
            return Err(BadInput(format!(
                "--csv: {path} has {found} homes; a study needs at least {FEWEST_HOMES}, one column each"
            )));
        }
        if let Some(first_day) = self.first_day {
            readings = readings.beginning(first_day);
        }
        Ok(Dataset::own(readings, self.slot_seconds))
    }

    #[expect(clippy::print_stdout, reason = "the command's answer")]
    fn tell(&self, sections: &[Section], notes: &[String]) {
        notes.iter().for_each(|note| println!("{note}"));
        let tables: usize = sections.iter().map(|section| section.tables.len()).sum();
        let figures: usize = sections.iter().map(|section| section.figures.len()).sum();
        println!("Wrote {tables} tables and {figures} figures to {}.", self.out.display());
    }
}

/// The homes of a run, and those of them that have no storage heaters.
struct Homes {
    data: Dataset,
    houses: Dataset,
}

/// Says how many readings a file is without.
fn missing_note(data: &Dataset) -> Option<String> {
    let (missing, cells) = data.missing()?;
    let (are, homes) = if missing == 1 { ("cell is", "its home is") } else { ("cells are", "their homes are") };
    Some(format!(
        "{missing} of {cells} {are} missing: {homes} silent in those slots. Sums of the others stand for all members, as in the \
         gateway, and errors are against the load of those who answered."
    ))
}

/// Says that it is not known which days of a file are on a weekend.
fn weekends_note(data: &Dataset) -> Option<String> {
    let note =
        "The file has no dates, so all of its days are taken as weekdays: --first-day tells the date of its first row.";
    (!data.has_weekends()).then(|| note.to_owned())
}

impl Section {
    /// Writes all tables and figures into a folder that exists. Files of the same names are replaced, others left alone.
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let put = |name: String, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("--out: cannot write {}", path.display()))
        };
        for table in &self.tables {
            put(format!("{}.csv", table.name), table.csv())?;
        }
        for figure in &self.figures {
            put(format!("{}.svg", figure.name), figure.svg())?;
            put(format!("{}.csv", figure.name), figure.csv())?;
        }
        Ok(())
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Utility => "utility",
            Self::Clipping => "clipping",
            Self::Filtering => "filtering",
            Self::Partners => "partners",
            Self::Share => "share",
            Self::Windows => "windows",
            Self::Presence => "presence",
            Self::Activation => "activation",
            Self::Composition => "composition",
            Self::Day => "day",
            Self::Shortfall => "shortfall",
            Self::Audit => "audit",
        }
    }

    /// Computes the part, or says what the data is without. Parts about the product look at houses; those that follow the paper
    /// look at all homes.
    fn section(self, homes: &Homes, settings: &Settings, seed: u64) -> Result<Section, String> {
        const APPLIANCES: &str = "It needs single appliances, which a file of homes does not tell.";
        let Homes { data, houses } = homes;
        match self {
            Self::Error => error::section(data, houses, settings, seed),
            Self::Utility => Ok(utility::section(seed)),
            Self::Clipping => clipping::section(houses, settings, seed),
            Self::Filtering => filtering::section(houses, settings, seed),
            Self::Partners => Ok(partners::section()),
            Self::Share => share::section(houses, settings, seed),
            Self::Windows => windows::section(data, settings, seed),
            Self::Presence => presence::section(data).ok_or_else(|| APPLIANCES.to_owned()),
            Self::Activation => activation::section(data, seed).ok_or_else(|| APPLIANCES.to_owned()),
            Self::Composition => Ok(composition::section()),
            Self::Day => day::section(data, houses, settings, seed),
            Self::Shortfall => Ok(shortfall::section()),
            Self::Audit => Ok(audit::section(seed)),
        }
    }

    /// Whether a setting changes what it finds.
    fn looks_at(self, setting: Setting) -> bool {
        match self {
            Self::Error | Self::Clipping | Self::Filtering => setting != Setting::DayEpsilon,
            Self::Day => true,
            Self::Share => matches!(setting, Setting::Range | Setting::Epsilon | Setting::Alpha),
            Self::Windows => matches!(setting, Setting::Range | Setting::Epsilon),
            Self::Utility
            | Self::Partners
            | Self::Presence
            | Self::Activation
            | Self::Composition
            | Self::Shortfall
            | Self::Audit => false,
        }
    }
}

/// Shows which part is being worked on: a bar on a terminal, a line a part elsewhere.
struct Watch {
    bar: ProgressBar,
    begun: std::cell::Cell<Instant>,
    lines: bool,
}

impl Watch {
    fn new(parts: usize) -> Self {
        let lines = !std::io::stderr().is_terminal();
        let bar = if lines { ProgressBar::hidden() } else { ProgressBar::new(parts as u64) };
        bar.set_style(
            ProgressStyle::with_template("{bar:24} {pos} of {len}  {msg} {elapsed}").expect("a valid template"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, begun: Instant::now().into(), lines }
    }

    fn begin(&self, part: Part) {
        self.begun.set(Instant::now());
        self.bar.set_message(part.name());
    }

    #[expect(clippy::print_stderr, reason = "progress is for whoever watches")]
    fn end(&self, part: Part) {
        self.bar.inc(1);
        if self.lines {
            eprintln!("{}: {:.1} s", part.name(), self.begun.get().elapsed().as_secs_f64());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
