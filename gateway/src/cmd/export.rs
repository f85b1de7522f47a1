//! `dream-gateway export`: aggregates from the store of a stopped gateway, as CSV or JSON lines.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use serde::Serialize;

use crate::board::csv::NamedRow;
use crate::board::energy::RollupJson;
use crate::board::slot_json::SlotJson;
use crate::cmd::BadInput;
use crate::config::{Config, Overrides, Place};
use crate::history;
use crate::store::{self, OpenStoreError, Store};

/// Write slots, hours or days from the store as CSV or JSON lines
///
/// A file is used by one process at a time: stop the gateway first, or ask the running one for
/// /api/v1/clusters/NAME/slots?format=csv or /api/v1/clusters/NAME/history?step=day&format=csv.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway export --config gateway.toml > all.csv
  dream-gateway export --config gateway.toml --step day > energy.csv
  dream-gateway export --store gateway.redb --cluster riverside --from 2026-11-01 --to 2026-12-01T00:00:00Z
  dream-gateway export --store gateway.redb --format jsonl | jq .load_watts")]
pub(super) struct ExportArgs {
    /// The store's file
    #[arg(long, value_name = "FILE", required_unless_present = "config", conflicts_with = "config")]
    store: Option<PathBuf>,
    /// A configuration file, for its `store.path` or `store.url`
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this cluster; may be given more than once
    #[arg(long, value_name = "NAME")]
    cluster: Vec<String>,
    /// What a line is of: slots as long as they are kept, then hours, then days. Hours and days have energy
    #[arg(long, value_enum, default_value_t = Step::Slot)]
    step: Step,
    /// Only slots that ended, or hours and days that began, at this time or later: a date, RFC 3339, or Unix seconds
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<Timestamp>,
    /// Only slots that ended, or hours and days that began, before this time
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<Timestamp>,
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Step {
    Slot,
    Hour,
    Day,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// With a header
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// How much is read at a time, so that a store of any size is exported with little memory.
const PIECE_MILLIS: u64 = 7 * 86_400_000;

pub(super) fn run(args: &ExportArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let place = match (&args.store, &args.config) {
        (Some(path), _) => Place::File { path: path.clone(), cache_mebibytes: 0 },
        (None, Some(config)) => Config::load(config, &Overrides::of_process(Some(0)))?.store.place,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let store = store::open_existing(&place).map_err(|error| match error {
        OpenStoreError::Locked { .. } => {
            anyhow::anyhow!("{error}; a running gateway gives the same from /api/v1/clusters/NAME/slots?format=csv")
        }
        OpenStoreError::Newer { .. }
        | OpenStoreError::Earlier { .. }
        | OpenStoreError::Outdated { .. }
        | OpenStoreError::Migration { .. }
        | OpenStoreError::Damaged { .. }
        | OpenStoreError::Io { .. }
        | OpenStoreError::Missing { .. }
        | OpenStoreError::Postgres { .. } => error.into(),
    })?;
    let store = &*store;
    let known = store.clusters()?;
    let chosen = choose(&args.cluster, &known)?;
    let mut progress = Progress::default();
    match args.step {
        Step::Slot => export_slots(args, store, &chosen, &mut progress, out)?,
        Step::Hour => export_periods(args, history::Step::Hour, store, &chosen, &mut progress, out)?,
        Step::Day => export_periods(args, history::Step::Day, store, &chosen, &mut progress, out)?,
    }
    progress.end();
    Ok(())
}

fn export_slots(
    args: &ExportArgs,
    store: &dyn Store,
    chosen: &[ClusterId],
    progress: &mut Progress,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    args.write_header::<SlotJson>(out)?;
    for (at, cluster) in chosen.iter().enumerate() {
        let (first, last) = store.span(cluster)?.unwrap_or((0, 0));
        let end = args.to.map_or(last + 1, |to| to.as_millis().min(last + 1));
        let mut from = args.from.map_or(first, |from| from.as_millis().max(first));
        while from < end {
            let to = end.min(from.saturating_add(PIECE_MILLIS));
            let (begin, until) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
            for closed in store.slots(cluster, begin..until, usize::MAX)? {
                args.write_line(cluster, &SlotJson::from(&closed), out)?;
                progress.step(at, chosen.len());
            }
            from = to;
        }
    }
    Ok(())
}

fn export_periods(
    args: &ExportArgs,
    step: history::Step,
    store: &dyn Store,
    chosen: &[ClusterId],
    progress: &mut Progress,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    args.write_header::<RollupJson>(out)?;
    let from = args.from.unwrap_or(Timestamp::from_millis(0));
    let to = args.to.unwrap_or(Timestamp::from_millis(u64::MAX));
    for (at, cluster) in chosen.iter().enumerate() {
        let Some(extent) = store.extent(cluster)? else { continue };
        for rollup in store.rollups(cluster, step, from..to, usize::MAX)? {
            args.write_line(cluster, &RollupJson::new(&rollup, extent), out)?;
            progress.step(at, chosen.len());
        }
    }
    Ok(())
}

impl ExportArgs {
    fn write_header<R: Serialize + Default>(&self, out: &mut impl Write) -> std::io::Result<()> {
        match self.format {
            Format::Csv => NamedRow::new("cluster", "", &R::default()).write_header(out),
            Format::Jsonl => Ok(()),
        }
    }

    fn write_line(&self, cluster: &ClusterId, row: &impl Serialize, out: &mut impl Write) -> anyhow::Result<()> {
        let row = NamedRow::new("cluster", cluster.as_str(), row);
        match self.format {
            Format::Csv => row.write_line(out)?,
            Format::Jsonl => {
                serde_json::to_writer(&mut *out, &row)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

/// Returns all clusters, or those that were named; one that is not in the store is a mistake.
fn choose(named: &[String], known: &[ClusterId]) -> Result<Vec<ClusterId>, BadInput> {
    if named.is_empty() {
        return Ok(known.to_vec());
    }
    let find = |name: &String| {
        let names = || known.iter().map(ClusterId::as_str).collect::<Vec<_>>().join(", ");
        let found = known.iter().find(|cluster| cluster.as_str() == name).cloned();
        found
            .ok_or_else(|| BadInput(format!("--cluster: the store has no aggregates of `{name}`; it has: {}", names())))
    };
    named.iter().map(find).collect()
}

fn instant(text: &str) -> Result<Timestamp, String> {
    let bad = || "use a date (2026-11-01, UTC), RFC 3339 (2026-11-01T12:00:00Z) or Unix seconds".to_owned();
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Timestamp::from_secs(seconds));
    }
    let date = || {
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(date).ok_or_else(bad)?;
    u64::try_from(instant.as_millisecond()).map(Timestamp::from_millis).map_err(|_| bad())
}

/// One line that is written over, on a terminal only.
#[derive(Debug, Default)]
struct Progress {
    lines: u64,
}

impl Progress {
    #[expect(clippy::print_stderr, reason = "progress is for the terminal, not for the file")]
    fn step(&mut self, cluster: usize, of: usize) {
        self.lines += 1;
        if self.lines.is_multiple_of(10_000) && std::io::stderr().is_terminal() {
            eprint!("\r{} lines, cluster {} of {of}", self.lines, cluster + 1);
        }
    }

    #[expect(clippy::print_stderr, reason = "progress is for the terminal, not for the file")]
    fn end(&self) {
        if self.lines >= 10_000 && std::io::stderr().is_terminal() {
            eprintln!("\r{} lines written{:20}", self.lines, "");
        }
    }
}
