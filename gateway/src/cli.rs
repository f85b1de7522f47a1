//! The command line: what there is to say, and how a mistake is answered.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use crate::check_config::{self, CheckConfigArgs};
use crate::config::{Config, ConfigError, Overrides};
use crate::daemon;
use crate::export::{self, ExportArgs};
use crate::secrets::SecretError;

/// What was asked for cannot be: told in one line, exit code 2. Everything else that goes wrong exits with 1.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadInput(pub String);

#[derive(Debug, Parser)]
#[command(name = "dream-gateway", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    ///
    /// SIGTERM and SIGINT stop it within `shutdown_grace_seconds`. SIGHUP reads the configuration again: clusters, their
    /// settings and lists of meters, the identity's files, the retention and the log level take effect at once.
    #[command(after_help = "Examples:
  dream-gateway run --config /etc/dream/gateway.toml
  DREAM_LOG_LEVEL=debug dream-gateway run --config gateway.toml --ordinal 1")]
    Run(ConfigArgs),
    Export(ExportArgs),
    /// Check a configuration, with the files that it names
    CheckConfig(CheckConfigArgs),
}

/// Which configuration.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "DREAM_CONFIG")]
    config: PathBuf,
    /// Which of the replicas this one is; by default DREAM_ORDINAL, the file, or the number that ends the host name
    #[arg(long)]
    ordinal: Option<u32>,
}

impl ConfigArgs {
    pub fn path(&self) -> &Path {
        &self.config
    }

    /// Reads and checks it.
    pub fn load(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&self.config, &Overrides::of_process(self.ordinal))?)
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout().lock();
    let done = match cli.command {
        Command::Run(args) => daemon::main(&args),
        Command::Export(args) => export::run(&args, &mut out),
        Command::CheckConfig(args) => check_config::run(&args, &mut out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "the command line's answer to a mistake")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("dream-gateway: {error:#}");
    if error.is::<BadInput>() || error.is::<ConfigError>() || error.is::<SecretError>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}
