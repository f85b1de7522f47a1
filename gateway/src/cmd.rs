//! The command line: its commands, and how mistakes are reported.

mod access;
mod backup;
mod check_config;
mod decode;
mod doctor;
mod export;
mod health;
mod holders;
mod import;
mod offenders;
mod plan;
mod reload;
mod restore;
mod running;
mod verify_evidence;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use dream_edge::shell::{self, BadInput, CompletionsArgs, ManArgs};

use crate::clock::SystemClock;
use crate::config::secrets::SecretError;
use crate::config::{Config, ConfigError, Draft, Overrides};
use crate::daemon;
use access::AccessArgs;
use backup::BackupArgs;
use check_config::CheckConfigArgs;
use decode::DecodeArgs;
use doctor::DoctorArgs;
use export::ExportArgs;
use health::HealthArgs;
use holders::HoldersArgs;
use import::ImportArgs;
use offenders::OffendersArgs;
use plan::PlanArgs;
use reload::ReloadArgs;
use restore::RestoreArgs;
use verify_evidence::VerifyEvidenceArgs;

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
    /// settings and lists of meters, the identity's files, the retention, the log level, Home Assistant, and who may see what
    /// over HTTP take effect at once.
    #[command(after_help = "Examples:
  dream-gateway run --config /etc/dream/gateway.toml
  DREAM_LOG_LEVEL=debug dream-gateway run --config gateway.toml --ordinal 1")]
    Run(ConfigArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    /// Check a configuration, with the files that it names
    CheckConfig(CheckConfigArgs),
    Health(HealthArgs),
    Doctor(DoctorArgs),
    Reload(ReloadArgs),
    Access(AccessArgs),
    /// Work out how accurate, how private and how costly a cluster would be
    Plan(PlanArgs),
    /// Show a captured message as text, and why it is invalid if it is
    Decode(DecodeArgs),
    Offenders(OffendersArgs),
    Holders(HoldersArgs),
    VerifyEvidence(VerifyEvidenceArgs),
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions(CompletionsArgs),
    #[command(after_help = "Example:\n  dream-gateway man --out /usr/local/share/man/man1")]
    Man(ManArgs),
}

const COMPLETIONS_EXAMPLE: &str = "\
Example:
  dream-gateway completions bash > ~/.local/share/bash-completion/completions/dream-gateway";

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

    /// Reads it as far as it goes, with everything that is wrong.
    fn draft(&self) -> Draft {
        Draft::read(&self.config, &Overrides::of_process(self.ordinal))
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
        Command::Import(args) => import::run(&args, &mut out),
        Command::Backup(args) => backup::run(&args, &mut out),
        Command::Restore(args) => restore::run(&args, &mut out),
        Command::CheckConfig(args) => check_config::run(&args, &SystemClock, &mut out),
        Command::Access(args) => access::run(&args, &mut out),
        Command::Health(args) => health::run(&args, &mut out),
        Command::Doctor(args) => doctor::run(&args, &SystemClock, &mut out),
        Command::Reload(args) => reload::run(&args, &mut out),
        Command::Plan(args) => args.run(&mut out),
        Command::Decode(args) => args.run(&mut out),
        Command::Offenders(args) => offenders::run(&args, &mut out),
        Command::Holders(args) => holders::run(&args, &mut out),
        Command::VerifyEvidence(args) => verify_evidence::run(&args, &mut out),
        Command::Completions(args) => args.run(Cli::command(), &mut out).map_err(Into::into),
        Command::Man(args) => args.run(Cli::command()).map_err(Into::into),
    };
    let done = done.and_then(|()| Ok(out.flush()?)).map(|()| ExitCode::SUCCESS);
    shell::end("dream-gateway", done, |error| {
        error.is::<BadInput>() || error.is::<ConfigError>() || error.is::<SecretError>()
    })
}

/// Returns what `dream-gateway plan` answers to these arguments: for those who hold it against something else.
pub fn plan(arguments: &[&str]) -> anyhow::Result<String> {
    let mut answer = Vec::new();
    PlanArgs::of(arguments.iter().copied())?.run(&mut answer)?;
    Ok(String::from_utf8(answer)?)
}
