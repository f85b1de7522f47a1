//! `dream-gateway import`: the file of a stopped gateway into its new database.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use crate::cmd::{BadInput, ConfigArgs};
use crate::config::Place;
use crate::history::{History, HistoryError, Step};
use crate::store::{self, Change, FileStore, Store as _, StoreError};

/// Copy the file of a stopped gateway into the database that its new configuration names
///
/// Each cluster goes over in one commit. One that the database has already is left as it is, so that an import which was cut
/// off can be started again. The file is only read.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dream-gateway import --config gateway.toml /var/lib/dream/gateway.redb")]
pub(super) struct ImportArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The file: what `store.path` was
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &ImportArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let config = args.config.load()?;
    if matches!(config.store.place, Place::File { .. }) {
        let message =
            "the configuration names no database; set `store.url` and `store.keys`, and leave out `store.path`";
        return Err(BadInput(message.to_owned()).into());
    }
    let file = FileStore::open_existing(&args.file)?;
    let database = store::open(&config.store, config.ordinal, "import")?;
    if let Some(owner) = database.try_take()? {
        anyhow::bail!("the gateway {owner} writes to the database; stop it first, or wait until its lease has ended");
    }
    // One that has no slot yet may have enrolments.
    let mut clusters: BTreeSet<ClusterId> = config.clusters.into_keys().collect();
    clusters.extend(file.clusters()?);
    for cluster in &clusters {
        if database.span(cluster)?.is_some() || !database.records(cluster)?.is_empty() {
            writeln!(out, "{cluster}: left as it is: the database has it already")?;
            continue;
        }
        let changes = all_of(&file, cluster)?;
        database.commit(&changes)?;
        writeln!(out, "{cluster}: {} rows", changes.len())?;
    }
    database.give_back();
    Ok(())
}

/// Returns everything that a store has of a cluster.
fn all_of(store: &FileStore, cluster: &ClusterId) -> Result<Vec<Change>, ImportError> {
    let ever = || Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX);
    let put = |record| Change::Put(cluster.clone(), record);
    // Slots follow below, all of them.
    let records = store.records(cluster)?.into_iter().filter(|record| !matches!(record, Record::Outcome(_)));
    let mut changes: Vec<Change> = records.map(put).collect();
    for closed in store.slots(cluster, ever(), usize::MAX)? {
        let (cluster, end) = (cluster.clone(), closed.outcome.end);
        changes.push(put(Record::Outcome(closed.outcome)));
        let (filtered, smoothed) = (closed.filtered.or(closed.predicted), closed.smoothed);
        changes.extend(filtered.map(|filtered| Change::PutFiltered { cluster: cluster.clone(), end, filtered }));
        changes.extend(smoothed.map(|smoothed| Change::PutSmoothed { cluster: cluster.clone(), end, smoothed }));
        changes.extend(closed.cut_off.map(|cut_off| Change::PutCutOff { cluster, end, cut_off }));
    }
    let sent = store.sent(cluster)?;
    changes.extend(sent.map(|until| Change::PutSent { cluster: cluster.clone(), until }));
    for step in [Step::Hour, Step::Day] {
        let rows = store.rollups(cluster, step, ever(), usize::MAX)?.into_iter();
        changes.extend(rows.map(|rollup| Change::PutRollup { cluster: cluster.clone(), step, rollup }));
    }
    Ok(changes)
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] HistoryError),
}
