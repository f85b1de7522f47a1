//! `meter-sim run`: a fleet on a real broker, beside a gateway.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::command::{seen, succeed};
use dream_testkit::lab::mosquitto::{configured, require_password};
use dream_testkit::lab::{free_port, wait_for_port};
use serde_json::Value;

use super::gateway::running;
use super::meter_sim;
use super::provisioned::{CLUSTER, Provisioned};

/// Mutual TLS, rights by certificate, two clusters of homes that use about the same, a file of records.
#[test]
fn a_fleet_works_with_a_gateway_on_a_broker_that_knows_everyone_by_certificate() {
    let folder = tempfile::tempdir().unwrap();
    provision(folder.path(), &["--meters", "6", "--clusters", "2", "--slot-seconds", "4"]);
    let trial = folder.path().join("trial");
    let broker = Broker::mosquitto(&trial, "gw-1", "");
    let _gateway = running(&trial, &broker.url());
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
    let broker = Broker::mosquitto(&trial, "gw-1", "");
    let _gateway = running(&trial, &broker.url());
    let url = broker.url();
    let answer = seen(meter_sim(folder.path()).args(["run", "--dir", "trial", "--broker", &url, "--slots", "1"]));
    assert!(answer.starts_with("exit code 1\n"), "{answer}");
    let told = "cluster-1: meters refuse: slots of 4 s; the policy demands 60 s; real meters keep to that, --trial-policy lifts \
                it\n";
    assert!(answer.contains(told), "{answer}");
    assert!(answer.contains("\nVerdict: SOMETHING IS WRONG.\n  no slot was decoded\n"), "{answer}");
}

#[test]
fn who_may_not_read_results_is_told_why_nothing_is_shown() {
    let provisioned = Provisioned::new(6, 4);
    let broker = provisioned.broker();
    let _gateway = running(&provisioned.trial(), &broker.url());
    // A meter of the other cluster, which is not played, has no right to aggregates.
    let stranger = |extension: &str| format!("trial/meters/zz-spies/m-0012.{extension}");
    let mut command = meter_sim(provisioned.folder());
    command.args(["run", "--dir", "trial", "--cluster", CLUSTER, "--trial-policy"]);
    command.args(["--broker", &broker.url(), "--json"]);
    command.args(["--client-certificate", &stranger("pem"), "--client-key", &stranger("key")]);
    let mut fleet = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(fleet.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = told.next().unwrap();
    assert!(first.starts_with("meters report, but nothing arrives on dream/v1/CLUSTER/aggregate"), "{first}");
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
    std::fs::write(folder.path().join("password"), "a word\n").unwrap();
    let password = require_password(folder.path(), "all", "a word");
    let config = format!("user root\nlistener {port} 127.0.0.1\n{password}");
    let mut broker = configured(folder.path(), &config);
    broker.start();
    wait_for_port(port);
    let trial = folder.path().join("trial");
    let settings = std::fs::read_to_string(trial.join("gateway.toml")).unwrap();
    let login = "[broker]\nusername = \"all\"\npassword_file = \"../password\"\n";
    std::fs::write(trial.join("gateway.toml"), settings.replace("[broker]\n", login)).unwrap();
    let _gateway = running(&trial, &url);

    let run = |more: &[&str]| {
        let mut command = meter_sim(folder.path());
        command.args(["run", "--dir", "trial", "--broker", &url, "--trial-policy", "--meters-per-connection", "3"]);
        seen(command.args(["--username", "all", "--password-file", "password"]).args(more))
    };
    let answer = run(&["--slots", "5", "--vanish", "0.02"]);
    assert!(answer.starts_with("exit code 0\n") && answer.contains("Verdict: all is well."), "{answer}");
}

fn provision(folder: &Path, arguments: &[&str]) {
    succeed(meter_sim(folder).args(["provision", "--out", "trial"]).args(arguments));
}

/// What a fleet says, line by line; its exit code must be 0.
fn run(folder: &Path, broker: &Broker, arguments: &[&str]) -> Vec<Value> {
    let url = broker.url();
    let mut command = meter_sim(folder);
    command.args(["run", "--dir", "trial", "--broker", &url, "--trial-policy", "--json", "--speed", "150"]);
    let out = succeed(command.args(arguments));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
