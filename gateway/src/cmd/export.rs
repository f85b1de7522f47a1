//! `dream-gateway export`: aggregates from the store of a stopped gateway, as CSV or JSON lines.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use serde::Serialize;

use crate::cmd::BadInput;
use crate::config::{Config, Overrides};
use crate::serve::slot_json::{CSV_HEADER, SlotJson};
use crate::store::{History as _, OpenStoreError, Store};

/// Write aggregates from the store as CSV or JSON lines
///
/// The store is used by one process at a time: stop the gateway first, or ask the running one for
/// /api/v1/clusters/NAME/slots?format=csv.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway export --config gateway.toml > all.csv
  dream-gateway export --store gateway.redb --cluster riverside --from 2026-11-01 --to 2026-12-01T00:00:00Z
  dream-gateway export --store gateway.redb --format jsonl | jq .load_watts")]
pub(super) struct ExportArgs {
    /// The store's file
    #[arg(long, value_name = "FILE", required_unless_present = "config", conflicts_with = "config")]
    store: Option<PathBuf>,
    /// A configuration file, for its `store.path`
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this cluster; may be given more than once
    #[arg(long, value_name = "NAME")]
    cluster: Vec<String>,
    /// Only slots that ended at this time or later: a date, RFC 3339, or Unix seconds
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<Timestamp>,
    /// Only slots that ended before this time
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<Timestamp>,
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
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
    let path = match (&args.store, &args.config) {
        (Some(path), _) => path.clone(),
        (None, Some(config)) => Config::load(config, &Overrides::of_process(Some(0)))?.store.path,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let store = Store::open_existing(&path).map_err(|error| match error {
        OpenStoreError::Locked { .. } => {
            anyhow::anyhow!("{error}; a running gateway gives the same from /api/v1/clusters/NAME/slots?format=csv")
        }
        OpenStoreError::Newer { .. }
        | OpenStoreError::Earlier { .. }
        | OpenStoreError::Damaged { .. }
        | OpenStoreError::Io { .. }
        | OpenStoreError::Missing { .. } => error.into(),
    })?;
    let known = store.clusters()?;
    let chosen = choose(&args.cluster, &known)?;
    if matches!(args.format, Format::Csv) {
        writeln!(out, "{CSV_HEADER}")?;
    }
    let mut progress = Progress::default();
    for (at, cluster) in chosen.iter().enumerate() {
        let (first, last) = store.span(cluster)?.unwrap_or((0, 0));
        let end = args.to.map_or(last + 1, |to| to.as_millis().min(last + 1));
        let mut from = args.from.map_or(first, |from| from.as_millis().max(first));
        while from < end {
            let to = end.min(from.saturating_add(PIECE_MILLIS));
            let (begin, until) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
            for closed in store.slots(cluster, begin, until, usize::MAX)? {
                write_slot(&SlotJson::from(&closed), cluster, args.format, out)?;
                progress.step(at, chosen.len());
            }
            from = to;
        }
    }
    progress.end();
    Ok(())
}

fn write_slot(slot: &SlotJson, cluster: &ClusterId, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        cluster: &'a str,
        #[serde(flatten)]
        slot: &'a SlotJson,
    }
    match format {
        Format::Csv => slot.write_csv(cluster, out)?,
        Format::Jsonl => {
            serde_json::to_writer(&mut *out, &Line { cluster: cluster.as_str(), slot })?;
            writeln!(out)?;
        }
    }
    Ok(())
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
    slots: u64,
}

impl Progress {
    #[expect(clippy::print_stderr, reason = "progress is for whoever watches, not for the file")]
    fn step(&mut self, cluster: usize, of: usize) {
        self.slots += 1;
        if self.slots.is_multiple_of(10_000) && std::io::stderr().is_terminal() {
            eprint!("\r{} slots, cluster {} of {of}", self.slots, cluster + 1);
        }
    }

    #[expect(clippy::print_stderr, reason = "progress is for whoever watches, not for the file")]
    fn end(&self) {
        if self.slots >= 10_000 && std::io::stderr().is_terminal() {
            eprintln!("\r{} slots written{:20}", self.slots, "");
        }
    }
}
