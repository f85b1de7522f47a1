//! Commands as a user runs them, in a terminal of fixed width, and everything that the user sees.

use std::path::Path;
use std::process::{Command, Output};

/// Returns a command that runs a program in this folder, without the variables of whoever runs the tests.
pub fn command(program: impl AsRef<Path>, folder: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(folder).env_clear().env("COLUMNS", "100").env("NO_COLOR", "1");
    command
}

/// Runs a command; returns its exit code, standard output and standard error as one text.
pub fn seen(command: &mut Command) -> String {
    let (output, [out, err]) = run(command);
    format!("exit code {}\n--- out\n{out}--- err\n{err}", output.status.code().expect("not killed by a signal"))
}

/// Runs a command that must succeed; returns its standard output.
pub fn succeed(command: &mut Command) -> String {
    let (output, [out, err]) = run(command);
    assert!(output.status.success(), "{command:?}\n{out}{err}");
    out
}

fn run(command: &mut Command) -> (Output, [String; 2]) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    (output, texts)
}
