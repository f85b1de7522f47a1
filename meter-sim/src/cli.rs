//! The command line, and the exit codes of errors.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use dream_edge::shell::{self, CompletionsArgs, ManArgs};
use dream_homes::args::BadInput;
#[cfg(feature = "study")]
use dream_study::StudyArgs;
use indicatif::{ProgressBar, ProgressStyle};

#[cfg(feature = "demo")]
use crate::demo::DemoArgs;
#[cfg(feature = "lie")]
use crate::lie::LieArgs;
use crate::provision::ProvisionArgs;
use crate::run::RunArgs;
use crate::trace::TraceArgs;
use dream_fleet::access::AccessError;
use dream_fleet::directory::OpenError;

const COMPLETIONS_EXAMPLE: &str = "\
Example:
  meter-sim completions bash > ~/.local/share/bash-completion/completions/meter-sim";

#[derive(Debug, Parser)]
#[command(name = "meter-sim", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Trace(TraceArgs),
    Provision(ProvisionArgs),
    Run(RunArgs),
    #[cfg(feature = "lie")]
    Lie(LieArgs),
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    #[cfg(feature = "study")]
    Study(StudyArgs),
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions(CompletionsArgs),
    #[command(after_help = "Example:\n  meter-sim man --out ~/.local/share/man/man1")]
    Man(ManArgs),
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Trace(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Provision(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Run(args) => args.run(),
        #[cfg(feature = "lie")]
        Command::Lie(args) => args.run().map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "demo")]
        Command::Demo(args) => args.run(),
        #[cfg(feature = "study")]
        Command::Study(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => finish(args.run(Cli::command(), &mut std::io::stdout())),
        Command::Man(args) => finish(args.run(Cli::command())),
    };
    shell::end("meter-sim", done, |error| {
        error.is::<BadInput>() || error.is::<AccessError>() || error.is::<OpenError>()
    })
}

/// Returns a line on a terminal that counts so many items, which are named in the plural.
pub(crate) fn progress(of: usize, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{pos}} of {{len}} {what}")).expect("a valid template");
    ProgressBar::new(of as u64).with_style(style)
}

fn finish(result: std::io::Result<()>) -> anyhow::Result<ExitCode> {
    Ok(result.map(|()| ExitCode::SUCCESS)?)
}
