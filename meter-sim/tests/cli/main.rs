//! The command `meter-sim` as a user sees it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod demo;
mod lie;
mod plan;
mod provision;
mod run;
mod study;
mod trace;

use std::path::Path;
use std::process::Command;

use dream_testkit::lab::command::{self, man_pages_are_complete, seen, succeed};

/// Returns the command, to be run in this folder.
fn meter_sim(folder: &Path) -> Command {
    command::command(env!("CARGO_BIN_EXE_meter-sim"), folder)
}

/// Returns what is said to each of these mistakes, which must all be answered with exit code 2 and nothing on standard output.
fn complaints(folder: &Path, name: &str, mistakes: &[&[&str]]) -> String {
    let answer = |mistake: &&[&str]| {
        let answer = seen(meter_sim(folder).arg(name).args(*mistake));
        assert!(answer.starts_with("exit code 2\n--- out\n--- err\n"), "{mistake:?}: {answer}");
        let complaint: Vec<_> = answer.lines().skip(3).take_while(|line| !line.is_empty()).collect();
        format!("{name} {}\n  {}\n", mistake.join(" "), complaint.join("\n  "))
    };
    mistakes.iter().map(answer).collect()
}

/// Returns the example commands of a help text, without the program's name.
fn examples(help: &str) -> Vec<&str> {
    let examples = help.lines().skip_while(|line| !line.starts_with("Examples")).skip(1);
    examples.map_while(|line| line.strip_prefix("  meter-sim ")).collect()
}

#[test]
fn every_command_has_a_man_page_and_completions() {
    assert!(man_pages_are_complete(env!("CARGO_BIN_EXE_meter-sim")) > 8);
    let script = succeed(meter_sim(Path::new(".")).args(["completions", "bash"]));
    assert!(script.contains("--slot-seconds") && script.contains("provision"), "{script}");
}
