//! The command line: what there is to say, and how a mistake is answered.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
pub use dream_homes::args::{BadInput, whole};
use dream_study::StudyArgs;

use crate::access::AccessError;
use crate::demo::DemoArgs;
use crate::lie::LieArgs;
use crate::provision::{OpenError, ProvisionArgs};
use crate::run::RunArgs;
use crate::trace::TraceArgs;

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
    Lie(LieArgs),
    Demo(DemoArgs),
    Study(StudyArgs),
    /// Print a script that completes commands and flags in your shell
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Trace(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Provision(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Run(args) => args.run(),
        Command::Lie(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => args.run(),
        Command::Study(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => completions(shell).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        // Whoever reads the output has seen enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "meter-sim", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[expect(clippy::print_stderr, reason = "the command line's answer to a mistake")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("meter-sim: {error:#}");
    let asked = error.is::<BadInput>() || error.is::<AccessError>() || error.is::<OpenError>();
    if asked { ExitCode::from(2) } else { ExitCode::FAILURE }
}
