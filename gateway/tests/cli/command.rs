//! Runs the real command and puts down all that a user would see.

use std::path::Path;

use assert_cmd::Command;

/// The command with a terminal of fixed width, in this folder.
pub fn command(folder: &Path) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("dream-gateway");
    command.current_dir(folder).env_clear().env("COLUMNS", "100").env("NO_COLOR", "1");
    command
}

/// Exit code, standard output and standard error as one text.
pub fn seen(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    let code = output.status.code().expect("not killed by a signal");
    format!("exit code {code}\n--- out\n{out}--- err\n{err}")
}

/// The example commands of a help text, each with its continuation lines.
pub fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines.fold(Vec::new(), |mut commands: Vec<String>, line| {
        match commands.last_mut().filter(|_| line.starts_with("    ")) {
            // The shell goes on after a pipe or a backslash.
            Some(command) => *command = format!("{command}\n{line}"),
            None => commands.push(line.trim().to_owned()),
        }
        commands
    })
}
