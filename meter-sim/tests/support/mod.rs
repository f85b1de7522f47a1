//! What the command line's tests share.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod brokers;
pub mod client;
pub mod cluster;
pub mod gateway;
pub mod provisioned;
pub mod proxy;
pub mod spy;
pub mod trial;

use std::path::Path;

use assert_cmd::Command;

/// Outcomes of slots that killing and cutting explain.
pub const EXPLAINED: [&str; 3] = ["interrupted", "too_many_missing", "reveal_missing"];

/// The command with a terminal of fixed width, in this folder.
pub fn command(folder: &Path) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("meter-sim");
    command.current_dir(folder).env_clear().env("COLUMNS", "100").env("NO_COLOR", "1");
    command
}

/// Exit code, standard output and standard error as one text.
pub fn seen(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!("exit code {}\n--- out\n{out}--- err\n{err}", output.status.code().unwrap())
}

/// What is said to each of these mistakes, which must all be answered with exit code 2 and nothing on standard output.
pub fn complaints(folder: &Path, name: &str, mistakes: &[&[&str]]) -> String {
    let answer = |mistake: &&[&str]| {
        let answer = seen(command(folder).arg(name).args(*mistake));
        assert!(answer.starts_with("exit code 2\n--- out\n--- err\n"), "{mistake:?}: {answer}");
        let complaint: Vec<_> = answer.lines().skip(3).take_while(|line| !line.is_empty()).collect();
        format!("{name} {}\n  {}\n", mistake.join(" "), complaint.join("\n  "))
    };
    mistakes.iter().map(answer).collect()
}
