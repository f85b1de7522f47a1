//! The command line: what there is to say, and how a mistake is answered.

mod authority;
mod check_config;
mod enrol;
mod explain;
mod join;
mod leave;
mod probe;
mod report;
mod run;
mod status;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use dream_edge::shell::{self, BadInput, CompletionsArgs, ManArgs};

use crate::authority::{AuthorityError, RequestError};
use crate::broker::AccessError;
use crate::config::{Config, ConfigError};
use crate::driver::ResumeError;
use crate::files::FileError;
use crate::identity::IdentityError;

#[derive(Debug, Parser)]
#[command(name = "dream-meter", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Join(join::JoinArgs),
    Probe(probe::ProbeArgs),
    Enrol(enrol::EnrolArgs),
    /// Check a configuration and the files it names, and explain what it means
    CheckConfig(ConfigArgs),
    /// Take part: measure, blur, mask and send
    ///
    /// SIGTERM and SIGINT stop it; you can stop and start it at any time. SIGHUP loads a renewed certificate.
    #[command(after_help = "Example:\n  dream-meter run --config /etc/dream-meter/meter.toml")]
    Run(ConfigArgs),
    /// Show the running meter's state: enrolment, terms, readings, privacy spent, refusals
    Status(ConfigArgs),
    /// Explain what this home gives away, from its own records: a day, all days so far, and who could break it
    ///
    /// Asks the meter if it runs, and reads its records if it is stopped. Shows no reading.
    #[command(after_help = "Example:\n  dream-meter explain --config /etc/dream-meter/meter.toml")]
    Explain(ConfigArgs),
    Leave(leave::LeaveArgs),
    Report(report::ReportArgs),
    #[command(subcommand)]
    Authority(authority::AuthorityCommand),
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions(CompletionsArgs),
    #[command(after_help = "Example:\n  dream-meter man --out /usr/local/share/man/man1")]
    Man(ManArgs),
}

const COMPLETIONS_EXAMPLE: &str = "\
Example:
  dream-meter completions bash > ~/.local/share/bash-completion/completions/dream-meter";

/// Which configuration.
#[derive(Debug, Clone, Args)]
struct ConfigArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "DREAM_METER_CONFIG", default_value = "/etc/dream-meter/meter.toml")]
    config: PathBuf,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&self.config)
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout().lock();
    let done = match cli.command {
        Command::Join(args) => args.run(&mut out),
        Command::Probe(args) => args.run(&mut out),
        Command::Enrol(args) => args.run(&mut out),
        Command::CheckConfig(args) => check_config::run(&args, &mut out),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::run(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out),
        Command::Leave(args) => args.run(&mut out),
        Command::Report(args) => args.run(&mut out),
        Command::Authority(command) => command.run(&mut out),
        Command::Completions(args) => args.run(Cli::command(), &mut out).map_err(Into::into),
        Command::Man(args) => args.run(Cli::command()).map_err(Into::into),
    };
    let done = done.and_then(|()| Ok(out.flush()?)).map(|()| ExitCode::SUCCESS);
    shell::end("dream-meter", done, is_bad_input)
}

fn is_bad_input(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<ResumeError>().is_some_and(|error| matches!(error, ResumeError::Meter(_)));
    refused
        || error.is::<BadInput>()
        || error.is::<ConfigError>()
        || error.is::<IdentityError>()
        || error.is::<AuthorityError>()
        || error.is::<RequestError>()
        || error.is::<AccessError>()
        || error.is::<FileError>()
}

/// Returns a runtime on this thread alone: a meter waits more than it computes.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
