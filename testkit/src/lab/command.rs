//! Commands as a user runs them, in a terminal of fixed width, and everything that the user sees.

use std::path::Path;
use std::process::{Command, Output};

/// Returns a command that runs a program in this folder, without the environment that the tests run in.
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

/// Has a program write its man pages, and checks that there is one for each command that its `--help` lists, and no other. A page
/// has the long form of every flag of its command. Returns how many pages there are.
pub fn man_pages_are_complete(program: impl AsRef<Path>) -> usize {
    let (program, folder) = (program.as_ref(), tempfile::tempdir().unwrap());
    let name = program.file_stem().unwrap().to_str().unwrap();
    succeed(command(program, folder.path()).args(["man", "--out", "pages"]));
    let commands = commands_below(program, folder.path(), &[]);
    for words in &commands {
        let page = [&[name.to_owned()], &words[..]].concat().join("-") + ".1";
        let page = std::fs::read_to_string(folder.path().join("pages").join(&page))
            .unwrap_or_else(|error| panic!("{page}: {error}"))
            .replace('\\', "");
        let help = succeed(command(program, folder.path()).args(words).arg("--help"));
        let flags = help
            .lines()
            .filter_map(|line| line.trim_start().split("--").nth(1).filter(|_| line.trim_start().starts_with('-')));
        for flag in flags.map(|flag| flag.split([' ', '=', '[']).next().unwrap()) {
            assert!(page.contains(&format!("--{flag}")), "--{flag} is missing in the page of {words:?}");
        }
    }
    let pages = folder.path().join("pages").read_dir().unwrap().count();
    assert_eq!(pages, commands.len());
    pages
}

/// Returns this command and those below it, each as its words, as `--help` lists them.
fn commands_below(program: &Path, folder: &Path, words: &[String]) -> Vec<Vec<String>> {
    let help = succeed(command(program, folder).args(words).arg("--help"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that takes several lines is indented further.
    let names = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let below = names
        .filter(|name| *name != "help")
        .flat_map(|name| commands_below(program, folder, &[words, &[name.to_owned()]].concat()));
    std::iter::once(words.to_vec()).chain(below).collect()
}
