//! The command `dream-meter` as an owner and an authority see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod authority;
mod documentation;
mod inventory;
mod owner;
mod promises;
mod strangers;

use std::path::Path;
use std::process::Command;

use dream_testkit::lab::command::{self, man_pages_are_complete, seen, succeed};

/// Returns the command, to be run in this folder.
fn dream_meter(folder: &Path) -> Command {
    let mut command = command::command(env!("CARGO_BIN_EXE_dream-meter"), folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Runs a line of arguments that must succeed; returns what it says.
fn run(folder: &Path, line: &str) -> String {
    succeed(dream_meter(folder).args(line.split(' ')))
}

/// Returns a text with folders replaced, and what is named after them.
fn elsewhere(folder: &Path, text: &str) -> String {
    let text = text.replace(folder.to_str().unwrap(), "FOLDER");
    let (before, last) = text.rsplit_once(".witness").unwrap_or(("", &text));
    let named = before.split(".witness").filter(|part| !part.is_empty());
    named.map(|part| part.get(..part.len() - 8).unwrap().to_owned() + "HASH.witness").collect::<String>() + last
}

/// Runs a line of arguments, whatever comes of it; returns everything that is seen, with dates and folders replaced.
fn answer(folder: &Path, line: &str) -> String {
    let text = elsewhere(folder, &seen(dream_meter(folder).args(line.split(' '))));
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let date = word.get(..10).is_some_and(|date| date.as_bytes()[4] == b'-' && date.starts_with("20"));
        let time = word.len() >= 5 && word.as_bytes()[2] == b':' && word.as_bytes()[..2].iter().all(u8::is_ascii_digit);
        match (date, time) {
            (true, _) => word.replacen(&word[..10], "DATE", 1),
            (false, true) => word.replacen(&word[..5], "TIME", 1),
            (false, false) => word.to_owned(),
        }
    });
    words.collect()
}

#[test]
fn help_explains_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let commands =
        ["", "join ", "probe ", "enrol ", "check-config ", "run ", "status ", "explain ", "leave ", "report "];
    let help = |command: &&str| answer(folder.path(), &format!("{command}--help"));
    insta::assert_snapshot!(commands.iter().map(help).collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_command_has_a_man_page_and_completions() {
    // Those of the authority, which are two words long, among them.
    assert!(man_pages_are_complete(env!("CARGO_BIN_EXE_dream-meter")) > 12);
    let script = run(Path::new("."), "completions bash");
    assert!(script.contains("--meter-authority") && script.contains("authority"), "{script}");
}
