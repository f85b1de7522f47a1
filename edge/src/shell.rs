//! How programs meet a shell: how a command ends; and what a package installs beside a program, man pages and completions, which are
//! generated from the command line itself, so that they cannot fall behind it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use thiserror::Error;

/// A mistake in the input: one line, exit code 2. Every other failure exits with 1.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// Ends a command: says on standard error why it failed, and returns its exit code. A reader that closes the pipe, as `head` does, has
/// seen enough.
pub fn end(
    program: &str,
    done: anyhow::Result<ExitCode>,
    is_bad_input: impl FnOnce(&anyhow::Error) -> bool,
) -> ExitCode {
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    let broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    // Where nothing can be written the exit code says enough.
    writeln!(io::stderr(), "{program}: {error:#}").ok();
    if is_bad_input(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Print a script that completes commands and flags in your shell
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that the script is for
    shell: Shell,
}

impl CompletionsArgs {
    /// Writes the script for this program.
    pub fn run(&self, mut program: Command, out: &mut impl Write) -> io::Result<()> {
        let name = program.get_name().to_owned();
        // Into memory first: `generate` panics where a reader closes the pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        out.write_all(&script)
    }
}

/// Write man pages: one for the program and one for each command
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory to write them to; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ManArgs {
    /// Writes the pages of this program, which must not be built yet: else its `help` commands get pages too.
    pub fn run(&self, program: Command) -> io::Result<()> {
        std::fs::create_dir_all(&self.out)?;
        clap_mangen::generate_to(program, &self.out)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser, Subcommand};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "program", version, about = "Shows what is generated")]
    struct Program {
        #[command(subcommand)]
        command: Outer,
    }

    #[derive(Debug, Subcommand)]
    enum Outer {
        Man(ManArgs),
        #[command(subcommand)]
        Nested(Inner),
    }

    /// Commands below a command
    #[derive(Debug, Subcommand)]
    enum Inner {
        Completions(CompletionsArgs),
    }

    #[test]
    fn every_command_has_a_page_and_help_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/man1");
        let parsed = Program::try_parse_from(["program", "man", "--out", out.to_str().unwrap()]).unwrap();
        let Outer::Man(args) = parsed.command else { panic!("{parsed:?}") };
        args.run(Program::command()).unwrap();
        let mut pages: Vec<_> =
            out.read_dir().unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
        pages.sort();
        assert_eq!(pages, ["program-man.1", "program-nested-completions.1", "program-nested.1", "program.1"]);
        let page = std::fs::read_to_string(out.join("program-man.1")).unwrap();
        assert!(page.contains("one for the program and one for each command") && page.contains("DIR"), "{page}");
    }

    #[test]
    fn a_script_completes_nested_commands() {
        let parsed = Program::try_parse_from(["program", "nested", "completions", "bash"]).unwrap();
        let Outer::Nested(Inner::Completions(args)) = parsed.command else { panic!("{parsed:?}") };
        let mut script = Vec::new();
        args.run(Program::command(), &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("program__subcmd__nested") || script.contains("program__nested"), "{script}");
    }
}
