//! `meter-sim lie`: every lie is refused, and the command line.

use std::path::Path;

use dream_testkit::lab::command::seen;
use dream_testkit::lab::free_port;

use super::{complaints, meter_sim};

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(lie(Path::new("."), &["--help"]));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "no certificate").unwrap();
    let mistakes: &[&[&str]] = &[
        &["--meters", "50"],
        &["--meters", "101"],
        &["--only", "kindness"],
        &["--broker", "localhost"],
        &["--broker", "mqtt://me:secret@localhost"],
        &["--broker", "mqtts://localhost"],
        &["--broker", "mqtts://localhost", "--ca", "nowhere.pem"],
        &["--broker", "mqtts://localhost", "--ca", "ca.pem"],
        &["--broker", "mqtt://localhost", "--ca", "ca.pem"],
        &["--broker", "mqtt://localhost", "--client-certificate", "a.pem"],
        &["--broker", "mqtt://localhost", "--password-file", "password"],
        &["--broker", "mqtt://localhost", "--username", "me", "--password-file", "password"],
        &["--broker", "mqtt://localhost", "--embedded"],
        &["--broker", "mqtt://localhost", "--dir", "nowhere"],
        &["--dir", "nowhere"],
        &["--ca", "ca.pem"],
    ];
    insta::assert_snapshot!(complaints(folder.path(), "lie", mistakes));
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let url = format!("mqtt://127.0.0.1:{}", free_port());
    let answer = lie(Path::new("."), &["--broker", &url]);
    assert!(answer.starts_with("exit code 1\n"), "{answer}");
    assert!(
        answer.contains(&format!("--- err\nmeter-sim: the connection to the broker at {url} failed: ")),
        "{answer}"
    );
}

#[test]
fn every_lie_is_refused_by_every_meter() {
    let answer = lie(Path::new("."), &["--embedded"]);
    assert!(answer.starts_with("exit code 0\n"), "{answer}");
    let table: Vec<&str> = answer.lines().skip_while(|line| !line.starts_with("attack ")).collect();
    insta::assert_snapshot!(table.join("\n"));
    assert!(answer.contains("An honest list: accepted by 51 of 51."), "{answer}");
    assert!(answer.contains("An honest slot: answered by 51 of 51. The gateway may know"), "{answer}");
}

fn lie(folder: &Path, arguments: &[&str]) -> String {
    seen(meter_sim(folder).arg("lie").args(arguments))
}
