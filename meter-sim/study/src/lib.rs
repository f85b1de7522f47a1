//! `meter-sim study`: what error and what privacy one gets, on simulated homes or on data of one's own, beside the paper's
//! figures and tables.
//!
//! Each part is a module that turns the [`dataset`] into a [`section`]: tables, figures and a finding. `output` writes them,
//! and docs/study.md explains them.

mod accuracy;
mod activation;
pub mod audit;
mod axis;
mod bands;
mod clipping;
mod cluster;
mod composition;
mod cut_off;
pub mod dataset;
mod day;
mod error;
mod filtering;
mod grouping;
mod output;
mod paper;
mod partners;
mod peaks;
pub mod pool;
mod presence;
mod progress;
pub mod section;
mod settings;
mod share;
mod shortfall;
mod spread;
mod svg;
mod usage;
mod utility;
mod windows;

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use jiff::civil::Date;

use self::accuracy::feed_in_note;
use self::dataset::Dataset;
use self::output::{Done, Output};
use self::progress::Progress;
use self::section::Section;
use self::settings::{Setting, Settings};
use dream_homes::args::{BadInput, whole};
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

/// Measure error and privacy, and compare them with the paper's figures and tables
///
/// Writes every table as CSV, every figure as SVG with its points as CSV, and index.html, which shows them all;
/// docs/study.md explains them. Homes are simulated, or come from your own file: one column per home, one row per slot, mean
/// watts in every cell. An empty cell, NaN, NA or null means that the home is silent in that slot. A file has no single
/// appliances; the parts that need them are left out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct StudyArgs {
    /// Folder to write to; created if missing, files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of homes to simulate
    #[arg(long, default_value_t = 3000, value_parser = whole::<u32, 100, 50_000>, conflicts_with = "csv")]
    homes: u32,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1, value_parser = whole::<u64, 0, { u64::MAX }>)]
    seed: u64,
    /// Share of the simulated homes with solar panels; the range then reaches as far below 0 as above it
    #[arg(long, value_name = "SHARE", default_value_t, conflicts_with = "csv")]
    pv: PvShare,
    /// Simulate one month only, 1 to 12; by default days run through the year from 1 November
    #[arg(long, conflicts_with = "csv")]
    month: Option<Month>,
    #[command(flatten)]
    settings: Settings,
    /// File with your own readings, instead of simulated homes
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Length of a row of that file; it has to divide a day
    #[arg(long, value_name = "SECONDS", default_value = "600", requires = "csv")]
    slot_seconds: SlotLength,
    /// Date of that file's first row, to find weekends; by default read from a first column with times
    #[arg(long, value_name = "DATE", requires = "csv", value_parser = date)]
    first_day: Option<Date>,
    /// Compute only these parts, separated by commas
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
}

fn date(text: &str) -> Result<Date, &'static str> {
    Date::strptime("%Y-%m-%d", text).map_err(|_| "it is no date; use year, month and day, such as 2026-11-17")
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
    /// What range and account of a day of a kind of home cost its sums
    Day,
    /// Whether bands hold what homes really draw. Takes many minutes: only if it is named
    Bands,
    /// The table of what meters cut off, as the gateway ships it. Only if it is named
    CutOff,
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
        let output = Output::to(&self.out)?;
        let (mut done, mut left_out) = (Vec::new(), Vec::new());
        let homes = Homes { houses: data.houses(), data };
        let parts = self.parts();
        let progress = Progress::new(parts.len());
        for part in parts {
            progress.begin(part.name());
            match part.section(&homes, &self.settings, self.seed, &progress) {
                Ok(section) => {
                    output.write(&section)?;
                    done.push(Done { name: part.name(), title: part.title(), section });
                    progress.end();
                }
                Err(why) => left_out.push(format!("Left out: {}. {why}", part.name())),
            }
        }
        drop(progress);
        if done.is_empty() {
            return Err(BadInput(format!("there is nothing to compute. {}", left_out.join(" "))).into());
        }
        left_out.extend(feed_in_note(&homes.data, &self.settings));
        left_out.extend(missing_note(&homes.data));
        left_out.extend(weekends_note(&homes.data));
        output.index(&done, &left_out)?;
        output::summary(&self.out, &done, &left_out);
        Ok(())
    }

    fn parts(&self) -> Vec<Part> {
        let parts = Part::value_variants().iter().copied();
        parts.filter(|part| if self.only.is_empty() { !part.is_long() } else { self.only.contains(part) }).collect()
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
            let parts: Vec<String> = parts.map(|part| part.name()).collect();
            let flag = setting.flag();
            Err(BadInput(format!("{flag}: no part of --only uses it; leave it out, or add {}", parts.join(" or "))))
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
        "{missing} of {cells} {are} missing: {homes} silent in those slots. As in the gateway, the sum of the others is scaled \
         to all members; errors are against the load of those who answered."
    ))
}

/// Says that it is not known which days of a file are on a weekend.
fn weekends_note(data: &Dataset) -> Option<String> {
    let note = "The file has no dates, so all days count as weekdays; give the first row's date with --first-day.";
    (!data.has_weekends()).then(|| note.to_owned())
}

impl Part {
    fn value(self) -> PossibleValue {
        self.to_possible_value().expect("no part is hidden")
    }

    fn name(self) -> String {
        self.value().get_name().to_owned()
    }

    fn title(self) -> String {
        self.value().get_help().map(ToString::to_string).unwrap_or_default()
    }

    /// Computes the part, or says what the data is without. Parts about the product look at houses; those that follow the paper
    /// look at all homes.
    fn section(self, homes: &Homes, settings: &Settings, seed: u64, progress: &Progress) -> Result<Section, String> {
        const APPLIANCES: &str = "It needs single appliances, which a file does not have.";
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
            Self::Bands | Self::CutOff if !data.is_model() => Err("It needs simulated homes.".to_owned()),
            Self::Bands => Ok(bands::section(seed)),
            Self::CutOff => Ok(cut_off::section()),
            Self::Shortfall => Ok(shortfall::section()),
            Self::Audit => Ok(audit::section(seed, &|percent| progress.percent(percent))),
        }
    }

    /// Whether it is computed only if it is named.
    fn is_long(self) -> bool {
        matches!(self, Self::Bands | Self::CutOff)
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
            | Self::Bands
            | Self::CutOff
            | Self::Audit => false,
        }
    }
}
