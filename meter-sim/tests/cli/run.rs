//! `meter-sim run`: the command line. Fleets on real brokers are among the tests of brokers.

use std::path::Path;

use dream_testkit::lab::command::{seen, succeed};

use super::{complaints, meter_sim};

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(seen(meter_sim(Path::new(".")).args(["run", "--help"])));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let provision = ["provision", "--out", "trial", "--meters", "3", "--cluster", "north", "--cluster", "south"];
    succeed(meter_sim(folder.path()).args(provision));
    std::fs::write(folder.path().join("few.csv"), "1,2\n3,4\n").unwrap();
    std::fs::write(folder.path().join("bad.csv"), "1,2\n3,x\n").unwrap();
    let broker = ["--dir", "trial", "--broker", "mqtt://127.0.0.1:1"];
    let beside = |more: &[&'static str]| [&broker, more].concat();
    let mistakes: &[&[&str]] = &[
        &[],
        &["--dir", "nowhere", "--broker", "mqtt://127.0.0.1:1"],
        &["--dir", "trial"],
        &["--dir", "trial", "--broker", "127.0.0.1"],
        &beside(&["--cluster", "west"]),
        &beside(&["--clusters", "3"]),
        &beside(&["--cluster", "north", "--clusters", "1"]),
        &beside(&["--meters", "0"]),
        &beside(&["--slots", "0"]),
        &beside(&["--speed", "0"]),
        &beside(&["--clustering", "alphabet"]),
        &beside(&["--readings", "nowhere.csv"]),
        &beside(&["--readings", "bad.csv"]),
        &beside(&["--readings", "few.csv"]),
        &beside(&["--range-watts", "9000"]),
        &beside(&["--range-watts", "9000..0"]),
        &beside(&["--faults", "5"]),
        &beside(&["--no-noise", "--noiseless", "0.1"]),
        &beside(&["--shift-watts", "5"]),
    ];
    insta::assert_snapshot!(complaints(folder.path(), "run", mistakes));
}

/// The cause of an error is told once, after what it prevents.
#[test]
fn records_that_cannot_be_read_are_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    succeed(meter_sim(folder.path()).args(["provision", "--out", "trial", "--meters", "2"]));
    rubbish(folder.path());
    let mut command = meter_sim(folder.path());
    command.args(["run", "--dir", "trial", "--broker", "mqtt://127.0.0.1:1", "--records", "rubbish.redb"]);
    insta::assert_snapshot!(seen(&mut command));
}

#[test]
fn a_seed_for_real_readings_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    succeed(meter_sim(folder.path()).args(["provision", "--out", "trial", "--meters", "2"]));
    rubbish(folder.path());
    std::fs::write(folder.path().join("homes.csv"), "1,2\n3,4\n").unwrap();
    let said = |more: &[&str]| {
        let mut command = meter_sim(folder.path());
        command.args(["run", "--dir", "trial", "--broker", "mqtt://127.0.0.1:1", "--records", "rubbish.redb"]);
        seen(command.args(more))
    };
    let warning =
        "warning: with --readings, --seed only decides which homes are in which cluster and which faults occur.";
    assert!(said(&["--readings", "homes.csv", "--seed", "7"]).contains(warning));
    for harmless in [&["--readings", "homes.csv"], &["--seed", "7"]] {
        assert!(!said(harmless).contains("warning"));
    }
}

/// Writes a file that holds no records, for its owner alone.
fn rubbish(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("rubbish.redb");
    std::fs::write(&path, "no records").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
