//! The command line: what there is to say, and how a mistake is answered.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use crate::config::{Config, ConfigError, Overrides};
use crate::daemon::{self, Source};
use crate::export::{self, ExportArgs};

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
    Run(ConfigArgs),
    Export(ExportArgs),
    /// Check a configuration, with the files that it names
    CheckConfig(ConfigArgs),
}

#[derive(Debug, Args)]
struct ConfigArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "DREAM_CONFIG")]
    config: PathBuf,
    /// Which of the replicas this one is; by default DREAM_ORDINAL, the file, or the number that ends the host name
    #[arg(long)]
    ordinal: Option<u32>,
}

impl ConfigArgs {
    fn load(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&self.config, &Overrides::of_process(self.ordinal))?)
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout().lock();
    let done = match cli.command {
        Command::Run(args) => daemon::main(&Source { path: args.config, ordinal: args.ordinal }),
        Command::Export(args) => export::run(&args, &mut out),
        Command::CheckConfig(args) => args.load().map(drop),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "the command line's answer to a mistake")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("dream-gateway: {error:#}");
    if error.is::<BadInput>() || error.is::<ConfigError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
