//! `dream-meter leave`: erases keys and records.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_edge::mqtt::Event;
use dream_protocol::ids::MeterId;

use super::{BadInput, ConfigArgs};
use crate::broker::Access;
use crate::config::{Config, Home};
use crate::files;
use crate::home;
use crate::records::{Records, RecordsError};

/// How long the home's broker may take to forget the entities.
const PATIENCE: Duration = Duration::from_secs(10);

/// Leave the cluster: erase the meter's key, certificate and records
///
/// Stop the meter first. The gateway drops it from its lists after some slots of silence; tell the authority, so that
/// it counts one meter fewer. The files are overwritten and removed; copies that a file system or flash keeps
/// elsewhere are out of reach of this command.
#[derive(Debug, Args)]
pub(super) struct LeaveArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Confirm: this cannot be undone
    #[arg(long)]
    yes: bool,
}

impl LeaveArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let config = self.config.load()?;
        let (records, keys) = (Records::file(&config.state), Records::key_file(&config.state));
        let renewed = config.renewed_certificate();
        let mut all = vec![&config.identity.key, &config.identity.certificate, &keys, &records, &config.witness];
        if renewed.exists() {
            all.push(&renewed);
        }
        if !self.yes {
            let named: String = all.iter().map(|path| format!("\n  {}", path.display())).collect();
            return Err(BadInput(format!("this permanently erases:{named}\nrepeat the command with --yes")).into());
        }
        check_not_running(&config.state, &records)?;
        if let (Some(home), Ok(identity)) = (&config.home, config.load_identity()) {
            match super::runtime()?.block_on(forget_at_home(home, &identity.id)) {
                Ok(()) => writeln!(out, "Removed the meter from Home Assistant.")?,
                Err(error) => writeln!(out, "Home Assistant still shows the meter: {error:#}")?,
            }
        }
        for path in all {
            if files::erase(path)? {
                writeln!(out, "Erased {}.", path.display())?;
            }
        }
        report(&config, out)
    }
}

fn report(config: &Config, out: &mut impl Write) -> anyhow::Result<()> {
    let gateways: Vec<&str> = config.policy.gateways.iter().map(|gateway| gateway.as_str()).collect();
    writeln!(
        out,
        "This home has left. Tell the operator of {}, and the authority, which counts its meters.",
        gateways.join(", ")
    )?;
    Ok(())
}

/// Records that are in use would be erased under a running meter.
fn check_not_running(state: &Path, records: &Path) -> anyhow::Result<()> {
    if !records.exists() {
        return Ok(());
    }
    match Records::open(state) {
        Err(locked @ RecordsError::Locked { .. }) => Err(BadInput(locked.to_string()).into()),
        // Damaged ones are erased, too.
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn forget_at_home(home: &Home, meter: &MeterId) -> anyhow::Result<()> {
    let access = Access::new(&home.broker, None)?;
    let mut connection = access.connect(format!("dream-meter-{meter}-home"), None);
    let forgotten = tokio::time::timeout(PATIENCE, async {
        while let Some(event) = connection.next().await {
            match event {
                Event::Connected(session) => {
                    home::remove(&session, &home.prefix, meter);
                    session.disconnect();
                }
                Event::Lost(trouble) => anyhow::bail!("{trouble}"),
                Event::Subscribed { .. } | Event::Refused { .. } | Event::Messages(_) => {}
            }
        }
        Ok(())
    });
    forgotten.await.context("the home's broker does not answer")?
}
