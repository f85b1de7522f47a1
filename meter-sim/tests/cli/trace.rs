//! `meter-sim trace` as a user sees it.

use std::fs;
use std::path::Path;

use dream_homes::readings::Readings;
use dream_testkit::lab::command::{seen, succeed};

use super::{complaints, examples, meter_sim};

#[test]
fn a_column_a_home() {
    insta::assert_snapshot!(trace(&["--homes", "5", "--slot-seconds", "3600"]));
}

#[test]
fn a_column_an_appliance_of_one_home() {
    insta::assert_snapshot!(trace(&[
        "--homes",
        "20",
        "--by",
        "appliance",
        "--home",
        "7",
        "--slot-seconds",
        "14400",
        "--residents",
        "4"
    ]));
}

#[test]
fn a_column_an_appliance_of_all_homes_on_two_days_of_a_weekend() {
    let arguments = ["--homes", "40", "--by", "appliance", "--slot-seconds", "21600", "--weekend", "--days", "2"];
    insta::assert_snapshot!(trace(&[&arguments[..], &["--month", "1", "--seed", "9"]].concat()));
}

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(trace(&["--help"]));
}

#[test]
fn the_examples_in_the_help_work() {
    let folder = tempfile::tempdir().unwrap();
    let help = trace(&["--help"]);
    let examples = examples(&help);
    assert_eq!(examples.len(), 5);
    for example in examples {
        succeed(meter_sim(folder.path()).args(example.split(' ')));
    }
    assert!(folder.path().join("homes.csv").exists());
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let mistakes: &[&[&str]] = &[
        &["--homes", "0"],
        &["--homes", "50001"],
        &["--homes", "many"],
        &["--residents", "6"],
        &["--residents", "5..1"],
        &["--residents", "a few"],
        &["--month", "13"],
        &["--month", "May"],
        &["--weekday", "--weekend"],
        &["--days", "0"],
        &["--seed", "-1"],
        &["--activities", "guessed"],
        &["--pv", "1.1"],
        &["--pv", "half"],
        &["--slot-seconds", "7000"],
        &["--slot-seconds", "0"],
        &["--by", "room"],
        &["--home", "0"],
        &["--homes", "10", "--home", "11"],
        &["--threads", "0"],
        &["--meters", "7"],
    ];
    insta::assert_snapshot!(complaints(Path::new("."), "trace", mistakes));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let answer = trace(&["--homes", "1", "--out", "nowhere/homes.csv"]);
    insta::assert_snapshot!(answer);
}

#[test]
fn neither_threads_nor_other_homes_nor_other_days_change_a_home() {
    let [one, four] = ["1", "4"].map(|threads| table(&["--homes", "50", "--days", "2", "--threads", threads]));
    assert_eq!(one, four);
    let alone = table(&["--homes", "3", "--home", "3", "--days", "1"]);
    let column = |table: &str, at: usize| -> Vec<String> {
        table.lines().take(1441).map(|line| line.split(',').nth(at).unwrap().to_owned()).collect()
    };
    assert_eq!(column(&one, 3), column(&alone, 1));
    assert_eq!(column(&one, 3)[0], "home_3");
}

#[test]
fn appliances_add_up_to_the_homes() {
    let sums = |pv: &str, by: &str| -> Vec<i64> {
        let table = table(&["--homes", "30", "--pv", pv, "--month", "6", "--by", by]);
        table
            .lines()
            .skip(1)
            .map(|row| row.split(',').skip(1).map(|watts| watts.parse::<i64>().unwrap()).sum())
            .collect()
    };
    for pv in ["0", "0.5"] {
        assert_eq!(sums(pv, "home"), sums(pv, "appliance"));
    }
}

#[test]
fn panels_leave_homes_without_them_alone_and_let_the_others_feed_in() {
    let columns = |pv: &[&str]| -> Vec<Vec<String>> {
        let table = table(&[&["--homes", "20", "--month", "6", "--slot-seconds", "600"], pv].concat());
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        (1..=20).map(|home| rows.iter().map(|row| row[home].to_owned()).collect()).collect()
    };
    let (without, none, some) = (columns(&[]), columns(&["--pv", "0"]), columns(&["--pv", "0.4"]));
    assert_eq!(without, none);
    let (same, other): (Vec<_>, Vec<_>) = without.iter().zip(&some).partition(|(before, after)| before == after);
    assert!((8..=16).contains(&same.len()), "{} of 20", same.len());
    for (_, panels) in other {
        let watts: Vec<i64> = panels[1..].iter().map(|watts| watts.parse().unwrap()).collect();
        assert!(watts[60..100].iter().any(|watts| *watts < 0), "{} by day", panels[0]);
        assert!(watts[..24].iter().all(|watts| *watts >= 0), "{} by night", panels[0]);
    }
    let told = trace(&["--homes", "20", "--month", "6", "--pv", "1", "--slot-seconds", "600", "--out", "/dev/null"]);
    assert!(told.contains("\nmost fed in: "), "{told}");
}

#[test]
fn what_is_written_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["trace", "--homes", "4", "--days", "2", "--slot-seconds", "600", "--out", "homes.csv"];
    assert_eq!(succeed(meter_sim(folder.path()).args(arguments)), "");
    let path = folder.path().join("homes.csv");
    let readings = Readings::open(&path).unwrap();
    assert_eq!((readings.homes(), readings.slots()), (4, 288));
    let last = fs::read_to_string(&path).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(last.split(',').nth(4).unwrap().parse(), Ok(readings.column(3)[287]));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_mistake() {
    let binary = env!("CARGO_BIN_EXE_meter-sim");
    let script = format!("{{ {binary} trace --homes 200 2>/dev/null; echo $? >&2; }} | head -1");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "0\n");
}

fn trace(arguments: &[&str]) -> String {
    seen(meter_sim(Path::new(".")).arg("trace").args(arguments))
}

/// Standard output alone.
fn table(arguments: &[&str]) -> String {
    succeed(meter_sim(Path::new(".")).arg("trace").args(arguments))
}
