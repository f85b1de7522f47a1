//! `meter-sim trace`: what simulated homes draw, as CSV.

mod sheet;
mod summary;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueEnum};
use indicatif::ProgressBar;

use self::sheet::Sheet;
use self::summary::Summary;
use crate::cli::progress;
use dream_homes::args::{BadInput, whole};
use dream_homes::home::{ActivityModel, Calendar, Day, DayKind, Home, Month, PvShare, Residents};
use dream_homes::slots::SlotLength;
use dream_homes::street;

const EXAMPLES: &str = "\
Examples:
  meter-sim trace --homes 100 --slot-seconds 600 --out homes.csv
  meter-sim trace --homes 50 --residents 2 --month 6 --weekend --days 2 --seed 7
  meter-sim trace --homes 100 --pv 0.3 --month 6 --slot-seconds 600
  meter-sim trace --homes 500 --by appliance --slot-seconds 3600
  meter-sim trace --homes 10 --by appliance --home 3";

/// Write the loads of simulated homes as CSV
///
/// One row per slot, one column per home or appliance, and the mean power in watts in every cell, negative where a home feeds
/// in. A summary goes to standard
/// error. The same seed gives the same homes: home 3 of 10 is home 3 of 1000.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
#[command(group = ArgGroup::new("kind").args(["weekday", "weekend"]))]
pub(crate) struct TraceArgs {
    /// The number of homes
    #[arg(long, default_value_t = 100, value_parser = whole::<u32, 1, 50_000>)]
    homes: u32,
    /// The number of residents per home: from 1 to 5, or a range such as 1..5 whose values are equally probable
    #[arg(long, value_name = "N|LO..HI", default_value = "1..5")]
    residents: Residents,
    /// The month, from 1 to 12: seasons decide about light, heating and panels
    #[arg(long, default_value = "11")]
    month: Month,
    /// Simulate weekdays, which is the default
    #[arg(long)]
    weekday: bool,
    /// Simulate days of the weekend
    #[arg(long)]
    weekend: bool,
    /// The number of consecutive days, all of the same kind
    #[arg(long, default_value_t = 1, value_parser = whole::<u32, 1, 366>)]
    days: u32,
    /// The seed of all randomness
    #[arg(long, default_value_t = 1, value_parser = whole::<u64, 0, { u64::MAX }>)]
    seed: u64,
    /// The model of when residents cook, wash, watch television and so on
    #[arg(long, value_enum, default_value_t)]
    activities: ActivityModel,
    /// The share of homes with solar panels; the other homes stay the same
    #[arg(long, value_name = "SHARE", default_value_t)]
    pv: PvShare,
    /// The length of a slot; it has to divide a day
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    slot_seconds: SlotLength,
    /// What the columns are
    #[arg(long, value_enum, default_value_t = By::Home)]
    by: By,
    /// Limit to this home, counted from 1
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32, 1, 50_000>)]
    home: Option<u32>,
    /// Where to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// The number of threads; by default one per core. It does not change the result
    #[arg(long, value_parser = whole::<usize, 1, 1024>)]
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// One column per home
    Home,
    /// One column per appliance, one for lighting and, with --pv, one for panels: of one home, or summed over all
    Appliance,
}

impl TraceArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let homes = self.chosen_homes()?;
        let mut out = open(&self.out)?;
        let mut summary = Summary::default();
        let progress = progress(homes.len() * self.days as usize, "days of homes");
        for number in 1..=self.days {
            let day = Calendar::Same(self.month, self.kind()).day(number);
            let sheet = self.sheet(&homes, day, &progress);
            if number == 1 {
                sheet.write_header(&mut out)?;
            }
            sheet.write_rows(number, self.slot_seconds, &mut out)?;
            summary.add(number, self.slot_seconds, &sheet);
        }
        out.flush()?;
        progress.finish_and_clear();
        self.tell(&summary, homes.len());
        Ok(())
    }

    fn chosen_homes(&self) -> Result<Vec<Home>, BadInput> {
        match self.home {
            None => Ok(street::with_pv(self.all_homes(), self.pv)),
            Some(number) if (1..=self.homes).contains(&number) => {
                let home = Home::new(self.seed, number, self.residents).with_activities(self.activities);
                Ok(vec![home.with_pv(self.pv)])
            }
            Some(number) => Err(BadInput(format!("--home: there is no home {number}; use 1 to {}", self.homes))),
        }
    }

    fn all_homes(&self) -> Vec<Home> {
        street::homes(self.seed, self.homes, self.residents, self.activities)
    }

    fn kind(&self) -> DayKind {
        if self.weekend { DayKind::Weekend } else { DayKind::Weekday }
    }

    fn sheet(&self, homes: &[Home], day: Day, progress: &ProgressBar) -> Sheet {
        let threads = self.threads.and_then(NonZeroUsize::new);
        let threads = threads.unwrap_or_else(street::all_cores);
        match self.by {
            By::Home => Sheet::by_home(homes, day, self.slot_seconds, threads, progress),
            By::Appliance => Sheet::by_appliance(homes, day, self.slot_seconds, threads, progress),
        }
    }

    #[expect(clippy::print_stderr, reason = "standard output is for the table")]
    fn tell(&self, summary: &Summary, homes: usize) {
        let which = match self.home {
            Some(home) => format!("home {home}"),
            None if homes == 1 => "1 home".to_owned(),
            None => format!("{homes} homes"),
        };
        let days = if self.days == 1 { "day" } else { "days" };
        eprintln!("{which}, {} {days} ({} in {}), seed {}", self.days, self.kind(), self.month, self.seed);
        eprintln!("{summary}");
    }
}

/// The file, or standard output.
fn open(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufWriter::new(std::io::stdout())));
    }
    let file = File::create(path).with_context(|| format!("--out: cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
