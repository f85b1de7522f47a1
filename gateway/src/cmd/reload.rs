//! `dream-gateway reload`: what a new configuration changes in a running gateway, and the signal that makes it so.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use super::running::RunningGateway;
use super::{BadInput, ConfigArgs};
use crate::board::running::{PATH, Process, RunningJson};
use crate::config::snapshot::{Change, Snapshot, Value};
use crate::daemon;

/// How long a reload may take: a large cluster is rebuilt from its store.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(200);

/// Make a running gateway read its configuration again, and say what changed
///
/// Compares the file with what the gateway has, which it tells only to the role `operator`, and sends it SIGHUP: so it must run on this machine or in
/// this container, as a user who may signal it. Where `http.listen` itself is new, name the old address in --url.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway reload --dry-run --config new.toml --token-file /etc/dream/operator.token
  dream-gateway reload --config /etc/dream/gateway.toml --token-file /etc/dream/operator.token")]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &ReloadArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let path = args.gateway.config().ok_or_else(|| BadInput("--config: name the file to compare with".to_owned()))?;
    let running = ask(&args.gateway)?;
    let later = taken_down(path, &running.configuration)?;
    if args.dry_run {
        let changes = running.configuration.changes(&later);
        if let Some(id) = running.configuration.get("id").filter(|id| later.get("id") != Some(id)) {
            let Value::Text(id) = id else { bail!("the answer has no `id`") };
            bail!("the running gateway is `{id}` and refuses a configuration with another `id`: that needs a restart");
        }
        return print("a reload would change", &changes, out);
    }
    hang_up(running.process)?;
    let after = wait_for_more(&args.gateway, running.reloads)?;
    let last = after.last_reload.context("the answer has no reload")?;
    if let Some(refused) = last.refused {
        if !last.changes.is_empty() {
            print("changed all the same", &last.changes, out)?;
        }
        bail!("the gateway keeps its configuration: {refused}");
    }
    print("reloaded", &last.changes, out)?;
    let mut different = after.configuration.changes(&later);
    different.retain(|change| !change.needs_restart());
    if !different.is_empty() {
        print("still different", &different, out)?;
        bail!("the gateway has something else than {}: does it read another file?", path.display());
    }
    Ok(())
}

fn ask(gateway: &RunningGateway) -> anyhow::Result<RunningJson> {
    serde_json::from_str(&gateway.ask(PATH)?).context("the answer is not a configuration")
}

/// Takes down what a file would make of the gateway that has `running`, if it can be used.
fn taken_down(path: &Path, running: &Snapshot) -> anyhow::Result<Snapshot> {
    let ordinal = match running.get("ordinal") {
        Some(Value::Text(ordinal)) => ordinal.parse().ok(),
        Some(Value::Meters(_)) | None => None,
    };
    let (config, _, files) = daemon::read(&ConfigArgs { config: path.to_owned(), ordinal })?;
    Ok(Snapshot::of(&config).and(files.snapshot(&config.http)))
}

/// Sends SIGHUP to the gateway, if it is the process that has its number here.
fn hang_up(process: Process) -> anyhow::Result<()> {
    let Process { id, started } = process;
    ensure!(
        started.is_some() && Process::seen(id) == process,
        "the gateway that answers does not run here as process {id}: run this on its machine or in its container, or \
         send it SIGHUP there (`systemctl reload dream-gateway`), and read its log"
    );
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("there is no such process")?;
    kill_process(pid, Signal::HUP)
        .with_context(|| format!("cannot send SIGHUP to process {id}; run this as root, or as the gateway's user"))
}

/// Waits for the outcome of one more reload.
fn wait_for_more(gateway: &RunningGateway, before: u64) -> anyhow::Result<RunningJson> {
    let begun = Instant::now();
    loop {
        let answer = ask(gateway);
        match answer {
            Ok(now) if now.reloads > before => return Ok(now),
            Ok(_) if begun.elapsed() > PATIENCE => {
                bail!("the gateway has not reloaded within {} s: its log says why", PATIENCE.as_secs())
            }
            // A certificate or a token that was replaced is not known everywhere at once.
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(error.context("the gateway was told to reload, and its log says what came of it"));
            }
            Ok(_) | Err(_) => std::thread::sleep(GLANCE),
        }
    }
}

fn print(what: &str, changes: &[Change], out: &mut impl Write) -> anyhow::Result<()> {
    if changes.is_empty() {
        return Ok(writeln!(out, "{what}: nothing")?);
    }
    writeln!(out, "{what}:")?;
    for change in changes {
        for line in change.to_string().lines() {
            writeln!(out, "  {line}")?;
        }
    }
    if changes.iter().any(|change| change.to_string().contains("restart  ")) {
        writeln!(out, "what is after `restart` stays as it is until the gateway is restarted")?;
    }
    Ok(())
}
