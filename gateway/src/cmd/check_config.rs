//! `dream-gateway check-config`: whether a gateway could start, and what it would do.

use std::io::Write;

use clap::Args;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;

use crate::clock::{Clock, rfc3339};
use crate::cmd::ConfigArgs;
use crate::config::secrets::{self, GatewayIdentity};
use crate::config::{Broker, ClusterSettings, Config};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway check-config --config /etc/dream/gateway.toml
  dream-gateway check-config --config gateway.toml --without-files")]
pub(super) struct CheckConfigArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Leave out keys, certificates and passwords: for a place that does not have them
    #[arg(long)]
    without_files: bool,
}

pub(super) fn run(args: &CheckConfigArgs, clock: &dyn Clock, out: &mut impl Write) -> anyhow::Result<()> {
    let config = args.config.load()?;
    let identity = if args.without_files { None } else { Some(check_files(&config, clock.now())?) };
    writeln!(out, "{} can be used", args.config.path().display())?;
    let until = identity.map_or_else(String::new, |identity| {
        format!(", certificate valid until {}", rfc3339(Timestamp::from_secs(identity.checked.not_after())))
    });
    let Config { id, ordinal, replicas, store, .. } = &config;
    writeln!(out, "  gateway   {id}, replica {ordinal} of {replicas}{until}")?;
    writeln!(out, "  broker    {}, as client {id}-{ordinal}", address(&config.broker))?;
    writeln!(out, "  store     {}, aggregates kept for {} days", store.path.display(), store.retention_days)?;
    writeln!(out, "  http      {}", config.http)?;
    let owned: Vec<_> = config.owned().collect();
    writeln!(out, "  clusters  {}, of which this replica serves {}", config.clusters.len(), owned.len())?;
    for (cluster, settings) in owned {
        write_cluster(cluster, settings, out)?;
    }
    Ok(())
}

/// Reads every file that `run` would read before it connects.
fn check_files(config: &Config, now: Timestamp) -> anyhow::Result<GatewayIdentity> {
    let identity = GatewayIdentity::load(&config.identity, &config.id, now)?;
    if let Some(tls) = &config.broker.tls {
        secrets::broker_tls(tls)?;
    }
    if let Some(login) = &config.broker.login {
        secrets::password(login)?;
    }
    Ok(identity)
}

fn address(broker: &Broker) -> String {
    let scheme = if broker.tls.is_some() { "mqtts" } else { "mqtt" };
    let login = match (&broker.tls, &broker.login) {
        (Some(tls), _) if tls.client.is_some() => " with a client certificate",
        (_, Some(_)) => " with a user name",
        (Some(_) | None, None) => " without a login",
    };
    format!("{scheme}://{}{login}", broker.address())
}

fn write_cluster(cluster: &ClusterId, settings: &ClusterSettings, out: &mut impl Write) -> anyhow::Result<()> {
    let terms = &settings.terms;
    let epsilon = terms.epsilon_numerator as f64 / terms.epsilon_denominator as f64;
    writeln!(
        out,
        "    {cluster}: slots of {} s, {} attempts of {} + {} s, epsilon {epsilon} each, {}..{} W, at least {} members",
        terms.slot_seconds,
        terms.attempts,
        terms.reading_seconds,
        terms.reveal_seconds,
        terms.lo,
        terms.hi,
        settings.roster.min_members,
    )?;
    Ok(())
}
