//! `dream-gateway health`: asks a running gateway how it is, for images without a shell.

use std::io::Write;

use clap::Args;

use super::running::RunningGateway;

/// Ask a running gateway whether it is ready
///
/// Exits with 0 if the gateway answers that it is: the store can be written and the broker has confirmed the subscriptions. With
/// --live it is enough that the process answers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway health --config /etc/dream/gateway.toml
  dream-gateway health --url http://127.0.0.1:9464 --live")]
pub(super) struct HealthArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Ask only whether it runs
    #[arg(long)]
    live: bool,
}

pub(super) fn run(args: &HealthArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let body = args.gateway.ask(if args.live { "/livez" } else { "/readyz" })?;
    Ok(writeln!(out, "{body}")?)
}
