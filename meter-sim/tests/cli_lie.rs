//! `meter-sim lie`: every lie is refused, a meter without a rule is caught, and the command line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use clap::ValueEnum as _;
use dream_meter_sim::access::Access;
use dream_meter_sim::broker::Embedded;
use dream_meter_sim::lie::{Attack, Cast, Report, play};
use dream_protocol::simulation::Simulation;
use support::brokers::{Broker, free_port};
use support::{command, complaints, seen};

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(lie(Path::new("."), &["--help"]));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "no certificate").unwrap();
    let mistakes: &[&[&str]] = &[
        &["--meters", "23"],
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
    assert!(answer.contains(&format!("--- err\nmeter-sim: the broker at {url} cannot be used: ")), "{answer}");
}

#[test]
fn every_lie_is_refused_by_every_meter() {
    let answer = lie(Path::new("."), &["--embedded"]);
    assert!(answer.starts_with("exit code 0\n"), "{answer}");
    let table: Vec<&str> = answer.lines().skip_while(|line| !line.starts_with("attack ")).collect();
    insta::assert_snapshot!(table.join("\n"));
    assert!(answer.contains("An honest list: accepted by 24 of 24."), "{answer}");
    assert!(answer.contains("An honest slot: answered by 24 of 24. The gateway may know"), "{answer}");
}

#[test]
fn one_lie_alone_and_with_more_meters() {
    let answer = lie(Path::new("."), &["--only", "named-missing", "--meters", "40"]);
    assert!(answer.starts_with("exit code 0\n"), "{answer}");
    // A tenth of forty may be missing, and each of those that are named refuses.
    assert!(answer.contains("\nnamed-missing      refused    4 of 4      A request"), "{answer}");
    assert!(!answer.contains("second-request"), "{answer}");
}

#[test]
fn meters_that_answer_twice_are_found_out() {
    let report = against(Simulation { one_answer: false, ..Simulation::default() });
    assert_eq!(succeeded(&report), [(Attack::SecondRequest, 23)], "all but the one that it names\n{report}");
    assert_eq!(report.complaint(), "not refused by all meters: second-request");
}

#[test]
fn a_meter_that_does_not_count_who_is_missing_is_found_out() {
    let report = against(Simulation { missing_bound: false, ..Simulation::default() });
    assert_eq!(succeeded(&report), [(Attack::OversizedRequest, 1)], "the victim\n{report}");
    assert_eq!(report.complaint(), "not refused by all meters: oversized-request");
}

#[test]
fn a_broker_with_certificates_and_rights_works_with_a_provisioned_directory() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["provision", "--out", "trial", "--meters", "24", "--gateway", "gw-north"];
    command(folder.path()).args(arguments).assert().success();
    let broker = Broker::mosquitto(&folder.path().join("trial"), "gw-north");
    let url = format!("mqtts://localhost:{}", broker.port());
    let answer = lie(folder.path(), &["--broker", &url, "--dir", "trial", "--only", "two-lists"]);
    assert!(answer.starts_with("exit code 0\n"), "{answer}");
    let outsider = lie(folder.path(), &["--broker", &url, "--ca", "trial/authority.pem"]);
    assert!(outsider.starts_with("exit code 1\n"), "{outsider}");
}

/// All lies against meters that break a rule on purpose.
fn against(simulation: Simulation) -> Report {
    let broker = Embedded::start().unwrap();
    let cast = Cast::invented(24, &Access::open(broker.ip().to_string(), broker.port()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(play(cast, simulation, Attack::value_variants(), |_| {})).unwrap();
    assert_eq!(report.outcomes.len(), Attack::value_variants().len());
    assert!(report.controls.iter().all(|control| control.worked()), "{report}");
    assert!(!report.is_good());
    report
}

fn succeeded(report: &Report) -> Vec<(Attack, usize)> {
    let outcomes = report.outcomes.iter().filter(|outcome| !outcome.is_refused());
    outcomes.map(|outcome| (outcome.attack, outcome.complied)).collect()
}

fn lie(folder: &Path, arguments: &[&str]) -> String {
    seen(command(folder).arg("lie").args(arguments))
}
