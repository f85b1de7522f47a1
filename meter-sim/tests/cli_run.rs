//! `meter-sim run`: the command line, and a fleet on a real broker, whole and killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::brokers::{Broker, PasswordBroker, free_port};
use support::gateway::Gateway;
use support::provisioned::{CLUSTER, Provisioned};
use support::{command, complaints, seen};

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(seen(command(Path::new(".")).args(["run", "--help"])));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    provision(folder.path(), &["--meters", "3", "--cluster", "north", "--cluster", "south"]);
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

/// Mutual TLS, rights by certificate, two clusters of homes that use about the same, a file of records.
#[test]
fn a_fleet_works_with_a_gateway_on_a_broker_that_knows_everyone_by_certificate() {
    let folder = tempfile::tempdir().unwrap();
    provision(folder.path(), &["--meters", "6", "--clusters", "2", "--slot-seconds", "4"]);
    let trial = folder.path().join("trial");
    let broker = Broker::mosquitto(&trial, "gw-1");
    let _gateway = Gateway::of(&trial, &broker.url());
    let lines = run(folder.path(), &broker, &["--slots", "3", "--no-noise", "--clustering", "consumption"]);
    let (verdict, slots) = lines.split_last().unwrap();
    assert_eq!((&verdict["wrong"], &verdict["refusals"]), (&Value::Array(Vec::new()), &serde_json::json!({})));
    assert_eq!((&verdict["exact"], &verdict["decoded"]), (&verdict["slots"], &verdict["slots"]), "{verdict}");
    let sum = |cluster: &str| -> i64 {
        let of = slots.iter().filter(|slot| slot["cluster"] == cluster);
        let watts: Vec<i64> = of.map(|slot| slot["load_watts"].as_i64().unwrap()).collect();
        assert!(watts.len() >= 3, "{slots:?}");
        watts.iter().sum()
    };
    assert!(sum("cluster-1") > 0 && sum("cluster-2") > 0, "{slots:?}");

    // The same meters go on, from their records.
    let again = run(folder.path(), &broker, &["--slots", "1", "--noiseless", "0.5", "--shifting", "0.2"]);
    let verdict = again.last().unwrap();
    assert_eq!(verdict["wrong"], Value::Array(Vec::new()), "{verdict}");
    assert_eq!(verdict["exact"], verdict["decoded"], "whatever was hidden is what is published: {verdict}");
}

#[test]
fn meters_that_keep_to_their_policy_say_so_and_the_verdict_is_not_good() {
    let folder = tempfile::tempdir().unwrap();
    provision(folder.path(), &["--meters", "6", "--slot-seconds", "4"]);
    let trial = folder.path().join("trial");
    let broker = Broker::mosquitto(&trial, "gw-1");
    let _gateway = Gateway::of(&trial, &broker.url());
    let url = broker.url();
    let answer = seen(command(folder.path()).args(["run", "--dir", "trial", "--broker", &url, "--slots", "1"]));
    assert!(answer.starts_with("exit code 1\n"), "{answer}");
    let told = "cluster-1: meters refuse: the noise would be made by 5 honest shares; the policy demands 20; real meters \
                keep to that, --trial-policy lifts it\n";
    assert!(answer.contains(told), "{answer}");
    assert!(answer.contains("\nverdict: WRONG\n  no slot was decoded\n"), "{answer}");
}

#[test]
fn who_may_not_read_results_is_told_why_nothing_is_shown() {
    let provisioned = Provisioned::new(6, 4);
    let broker = provisioned.broker();
    let _gateway = Gateway::of(&provisioned.trial(), &broker.url());
    // A meter of the other cluster, which is not played, has no right to aggregates.
    let stranger = |extension: &str| format!("trial/meters/zz-spies/m-0012.{extension}");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("meter-sim"));
    command.current_dir(provisioned.folder()).args(["run", "--dir", "trial", "--cluster", CLUSTER, "--trial-policy"]);
    command.args(["--broker", &broker.url(), "--json"]);
    command.args(["--client-certificate", &stranger("pem"), "--client-key", &stranger("key")]);
    let mut fleet = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(fleet.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = told.next().unwrap();
    assert!(first.starts_with("meters report, but nothing is heard on dream/v1/CLUSTER/aggregate"), "{first}");
    fleet.kill().unwrap();
    fleet.wait().unwrap();
}

/// One login for all, three meters a connection, and meters that vanish: slots may fail, and nothing is wrong.
#[test]
fn meters_share_connections_on_a_broker_with_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("mqtt://127.0.0.1:{port}");
    provision(folder.path(), &["--meters", "6", "--slot-seconds", "4", "--broker-url", &url]);
    let broker = PasswordBroker::start(folder.path(), port);
    let trial = folder.path().join("trial");
    let settings = std::fs::read_to_string(trial.join("gateway.toml")).unwrap();
    let login = "[broker]\nusername = \"all\"\npassword_file = \"../password\"\n";
    std::fs::write(trial.join("gateway.toml"), settings.replace("[broker]\n", login)).unwrap();
    let _gateway = Gateway::of(&trial, &url);

    let run = |more: &[&str]| {
        let mut command = command(folder.path());
        command.args(["run", "--dir", "trial", "--broker", &url, "--trial-policy", "--meters-per-connection", "3"]);
        seen(command.args(["--username", "all", "--password-file", "password"]).args(more))
    };
    let answer = run(&["--slots", "5", "--vanish", "0.02"]);
    assert!(answer.starts_with("exit code 0\n") && answer.contains("verdict: nothing was wrong"), "{answer}");
    drop(broker);
}

fn provision(folder: &Path, arguments: &[&str]) {
    command(folder).args(["provision", "--out", "trial"]).args(arguments).assert().success();
}

/// What a fleet says, line by line; its exit code must be 0.
fn run(folder: &Path, broker: &Broker, arguments: &[&str]) -> Vec<Value> {
    let url = broker.url();
    let mut command = command(folder);
    command.args(["run", "--dir", "trial", "--broker", &url, "--trial-policy", "--json", "--speed", "150"]);
    let output = command.args(arguments).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{out}{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
