//! `dream-gateway restore`: checks a back-up, and puts it in the place of the store.

use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use dream_edge::database;

use super::backup::store_file;
use crate::clock::{Clock as _, SystemClock, rfc3339};
use crate::cmd::BadInput;
use crate::config::{Config, Overrides};
use crate::store::{self, FileStore, Summary};

/// Check a back-up, or put it in the place of the store
///
/// Every page and every row is checked before anything is changed, and the back-up itself never is. What the gateway has asked of meters since the back-up
/// is not in it, so the restored store has no key of a list and no open slot, wherever the copy comes from: the gateway goes on with a new list, two slots
/// after its start, and never contradicts itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway restore --check /backup/gateway-2026-11-18.redb
  dream-gateway restore --config /etc/dream/gateway.toml /backup/gateway-2026-11-18.redb")]
pub(super) struct RestoreArgs {
    /// Only say whether the file is sound, and what it holds
    #[arg(long, conflicts_with_all = ["config", "force"])]
    check: bool,
    /// The configuration file of the gateway, which must not run
    #[arg(long, short, value_name = "CONFIG", required_unless_present = "check")]
    config: Option<PathBuf>,
    /// Which of the replicas; by default DREAM_ORDINAL, the file, or the number that ends the host name
    #[arg(long)]
    ordinal: Option<u32>,
    /// Replace a store, which is kept under another name, and take the back-up of another gateway
    #[arg(long)]
    force: bool,
    /// The back-up, or a copy of a store
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &RestoreArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let backup = FileStore::open_unchanged(&args.file)?;
    let summary = backup.summary().with_context(|| format!("{} is not sound", args.file.display()))?;
    let Some(config) = &args.config else { return show(&args.file, &summary, out) };
    let config = Config::load(config, &Overrides::of_process(args.ordinal))?;
    let path = store_file(&config)?;
    let replica = config.replica_name()?.to_string();
    if let Some(other) = summary.made.get("replica").filter(|made| **made != replica && !args.force) {
        let message = format!(
            "{} is of the gateway {other}, and the configuration is of {replica}; --force takes it all the same",
            args.file.display()
        );
        return Err(BadInput(message).into());
    }
    let in_use = database::is_in_use(path).with_context(|| path.display().to_string())?;
    if in_use || UnixStream::connect(store::socket_of(path)).is_ok() {
        anyhow::bail!("a gateway uses {}: stop it first", path.display());
    }
    if path.exists() && !args.force {
        let message = format!(
            "{} is there; --force keeps it under another name and puts the back-up in its place",
            path.display()
        );
        return Err(BadInput(message).into());
    }
    let (restored, aside) =
        (beside(path, "restored"), beside(path, &format!("replaced-{}", SystemClock.now().as_secs())));
    backup.copy_to(&restored, &[])?;
    keep_owner(path, &restored)?;
    if path.exists() {
        std::fs::rename(path, &aside)
            .with_context(|| format!("{} cannot be kept as {}", path.display(), aside.display()))?;
        writeln!(out, "{}: the store that was there", aside.display())?;
    }
    std::fs::rename(&restored, path)
        .with_context(|| format!("{} cannot become {}", restored.display(), path.display()))?;
    store::sync_folder(path)?;
    show(path, &summary, out)
}

/// Gives a file to the owner of the store that it replaces, or else of the folder: root restores, and the gateway must be able to open it.
fn keep_owner(path: &Path, restored: &Path) -> anyhow::Result<()> {
    let owner = std::fs::metadata(path).or_else(|_| std::fs::metadata(store::folder_of(path)))?;
    if std::fs::metadata(restored)?.uid() != owner.uid() {
        chown(restored, Some(owner.uid()), Some(owner.gid())).with_context(|| {
            format!("{} cannot be given to the owner of the store; run this as root", restored.display())
        })?;
    }
    Ok(())
}

fn beside(path: &Path, what: &str) -> PathBuf {
    PathBuf::from(format!("{}.{what}", path.display()))
}

fn show(path: &Path, summary: &Summary, out: &mut impl Write) -> anyhow::Result<()> {
    let of = |name: &str| summary.made.get(name).map_or("?", String::as_str);
    writeln!(out, "{}: sound, format {}", path.display(), FileStore::FORMAT)?;
    if summary.made.is_empty() {
        writeln!(
            out,
            "a copy of a store, not made by `backup`: it does not say when it was made, nor of which gateway it is"
        )?;
    } else {
        writeln!(out, "made {} of the gateway {}, by version {}", of("made"), of("replica"), of("version"))?;
    }
    if summary.keys + summary.open_slots > 0 {
        writeln!(
            out,
            "keys of {} lists and {} open slots, which `restore` leaves out",
            summary.keys, summary.open_slots
        )?;
    }
    writeln!(out, "{:<24} {:>7} {:>8} {:>8} {:>8}  newest slot ended", "cluster", "meters", "slots", "hours", "days")?;
    for (cluster, of) in &summary.clusters {
        let ended = of.ended.map_or_else(|| "-".to_owned(), |(_, last)| rfc3339(last));
        writeln!(
            out,
            "{:<24} {:>7} {:>8} {:>8} {:>8}  {ended}",
            cluster.as_str(),
            of.enrolments,
            of.slots,
            of.hours,
            of.days
        )?;
    }
    Ok(())
}
