//! `meter-sim provision` as a user sees it, and whether gateway and meters can use what it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use dream_fleet::directory::Directory;
use dream_gateway::config::secrets::{self, GatewayIdentity};
use dream_gateway::config::{Config, Overrides};
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use dream_testkit::lab::command::{seen, succeed};

use super::{complaints, examples, meter_sim};

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(provision(Path::new("."), &["--help"]));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let mistakes: &[&[&str]] = &[
        &[],
        &["--out", "t", "--meters", "1"],
        &["--out", "t", "--meters", "10001"],
        &["--out", "t", "--clusters", "0"],
        &["--out", "t", "--clusters", "2", "--cluster", "a"],
        &["--out", "t", "--cluster", "North"],
        &["--out", "t", "--cluster", "gateway"],
        &["--out", "t", "--cluster", "a", "--cluster", "a"],
        &["--out", "t", "--gateway", "GW"],
        &["--out", "t", "--gateway", "g234567890123456789012345678901234567890123456789012345678901"],
        &["--out", "t", "--gateway", "m-0001"],
        &["--out", "t", "--broker-url", "broker:1883"],
        &["--out", "t", "--broker-url", "mqtt://me:secret@broker"],
        &["--out", "t", "--broker-host", "a b"],
        &["--out", "t", "--days", "0"],
        &["--out", "t", "--slot-seconds", "3"],
        &["--out", "t", "--epsilon", "0"],
        &["--out", "t", "--epsilon", "0.1234567"],
        &["--out", "."],
    ];
    insta::assert_snapshot!(complaints(folder.path(), "provision", mistakes));
    assert!(!folder.path().join("t").exists(), "nothing is written before all is known to be right");
}

#[test]
fn the_examples_in_the_help_work() {
    let folder = tempfile::tempdir().unwrap();
    let help = provision(folder.path(), &["--help"]);
    let examples = examples(&help);
    assert_eq!(examples.len(), 5);
    for example in examples {
        succeed(meter_sim(folder.path()).args(example.split(' ')));
    }
    for name in ["trial", "village", "trial-60", "local"] {
        check(&folder.path().join(name));
    }
}

#[test]
fn what_was_written_is_told_with_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(provision(folder.path(), &["--out", "trial", "--meters", "30", "--cluster", "riverside"]));
    insta::assert_snapshot!(fs::read_to_string(folder.path().join("trial/gateway.toml")).unwrap());
}

#[test]
fn what_the_default_policy_would_refuse_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--meters", "10", "--slot-seconds", "10", "--broker-url", "mqtt://localhost"];
    insta::assert_snapshot!(provision(folder.path(), &[&["--out", "trial"], &arguments[..]].concat()));
    insta::assert_snapshot!(fs::read_to_string(folder.path().join("trial/gateway.toml")).unwrap());
    check(&folder.path().join("trial"));
}

#[test]
fn meters_of_a_community_are_certified_for_their_cluster_and_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--out", "village", "--meters", "30", "--cluster", "mill", "--community-policy"];
    let answer = provision(folder.path(), &arguments);
    assert!(
        answer.contains("meter-sim run --dir village --broker mqtts://localhost:8883 --community-policy"),
        "{answer}"
    );
    assert!(!answer.contains("Note:"), "{answer}");
    let directory = Directory::open(&folder.path().join("village")).unwrap();
    let policy = Profile::Community.rules();
    for files in &directory.clusters()[0].1 {
        let certificate = directory.authorities().verify_meter(&files.load().unwrap().der).unwrap();
        let certified = certificate.cluster().unwrap();
        assert_eq!((certified.id.as_str(), certified.size), ("mill", Some(30)));
    }
    let config = Config::load(&folder.path().join("village/gateway.toml"), &Overrides::default()).unwrap();
    let settings = config.clusters.values().next().unwrap();
    assert_eq!((settings.profile, settings.roster.min_members), (Profile::Community, 24));
    assert_eq!(policy.objections(&settings.params(24).unwrap()).collect::<Vec<_>>(), []);
}

#[test]
fn gateway_and_meters_can_use_it_whatever_its_size() {
    let folder = tempfile::tempdir().unwrap();
    for (meters, clusters, slot) in [("2", "3", "4"), ("24", "1", "119"), ("3000", "2", "86400")] {
        let out = format!("trial-{meters}");
        let arguments = ["--out", &out, "--meters", meters, "--clusters", clusters, "--slot-seconds", slot];
        let answer = provision(folder.path(), &arguments);
        assert!(answer.starts_with("exit code 0\n"), "{answer}");
        let path = folder.path().join(out);
        check(&path);
        let directory = Directory::open(&path).unwrap();
        assert_eq!(directory.clusters().len(), clusters.parse::<usize>().unwrap());
        let loaded = directory.clusters().iter().flat_map(|(_, meters)| meters).map(|files| files.load().unwrap().der);
        let all: std::collections::BTreeSet<_> = loaded.collect();
        assert_eq!(all.len(), meters.parse::<usize>().unwrap() * directory.clusters().len(), "no meter is there twice");
        assert_eq!(directory.gateway().unwrap().0.as_str(), "gw-1");
    }
}

#[test]
fn keys_are_for_their_owner_alone_even_over_files_that_were_not() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("gateway.key");
    fs::write(&key, "").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    succeed(meter_sim(folder.path()).args(["provision", "--out", ".", "--meters", "2", "--force"]));
    for name in
        ["gateway.key", "meter-authority.key", "gateway-authority.key", "broker.key", "meters/cluster-1/m-0002.key"]
    {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn only_with_force_is_a_directory_written_anew_and_then_without_the_meters_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let again = |arguments: &[&str]| provision(folder.path(), &[&["--out", "trial"], arguments].concat());
    assert!(again(&["--meters", "30", "--cluster", "north"]).starts_with("exit code 0"));
    let before = fs::read(folder.path().join("trial/meter-authority.pem")).unwrap();
    insta::assert_snapshot!(again(&["--meters", "30"]));
    assert_eq!(fs::read(folder.path().join("trial/meter-authority.pem")).unwrap(), before);
    fs::write(folder.path().join("trial/gateway.redb"), "").unwrap();
    insta::assert_snapshot!(again(&["--meters", "30", "--force"]));
    let directory = Directory::open(&folder.path().join("trial")).unwrap();
    assert_eq!(directory.clusters().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cluster-1"]);
    directory.clusters()[0].1[0].load().unwrap();
}

#[test]
fn a_directory_that_cannot_be_used_is_told_with_the_file_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trial");
    let make = || succeed(meter_sim(folder.path()).args(["provision", "--out", "trial", "--meters", "2", "--force"]));
    let mut told = String::new();
    let mut tell = |what: &str| {
        let directory = Directory::open(&path);
        let loaded = directory.and_then(|directory| {
            directory.gateway()?;
            directory.clusters()[0].1[0].load()
        });
        let error = loaded.unwrap_err().to_string().replace(&folder.path().display().to_string(), "DIR");
        told += &format!("{what}\n  {error}\n");
    };
    tell("nothing there");
    make();
    fs::remove_dir_all(path.join("meters")).unwrap();
    tell("no meters");
    make();
    fs::write(path.join("meters/cluster-1/m-0001.pem"), "no certificate").unwrap();
    tell("no PEM");
    make();
    fs::remove_file(path.join("meters/cluster-1/m-0001.key")).unwrap();
    tell("no key");
    make();
    fs::copy(path.join("meters/cluster-1/m-0002.key"), path.join("meters/cluster-1/m-0001.key")).unwrap();
    tell("another meter's key");
    make();
    for end in ["pem", "key"] {
        let file = |name: &str| path.join(format!("meters/cluster-1/{name}.{end}"));
        fs::copy(file("m-0002"), file("m-0001")).unwrap();
    }
    tell("another meter's files");
    make();
    fs::rename(path.join("meters/cluster-1"), path.join("meters/North")).unwrap();
    tell("no cluster's name");
    make();
    let kept = fs::read(path.join("gateway.pem")).unwrap();
    make();
    fs::write(path.join("gateway.pem"), kept).unwrap();
    tell("an earlier run's gateway");
    insta::assert_snapshot!(told);
}

#[test]
fn openssl_agrees_if_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    succeed(meter_sim(folder.path()).args(["provision", "--out", ".", "--meters", "2"]));
    let verify: [&[&str]; 2] = [
        &["gateway.pem", "meters/cluster-1/m-0001.pem"],
        &["-x509_strict", "-purpose", "sslserver", "-verify_hostname", "localhost", "broker.pem"],
    ];
    for arguments in verify {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(folder.path()).args(["verify", "-CAfile", "broker-clients.pem"]).args(arguments);
        let Ok(output) = openssl.output() else { return };
        assert!(output.status.success(), "{output:?}");
    }
}

fn provision(folder: &Path, arguments: &[&str]) -> String {
    seen(meter_sim(folder).arg("provision").args(arguments))
}

/// What `dream-gateway check-config` checks.
fn check(directory: &Path) {
    let config = Config::load(&directory.join("gateway.toml"), &Overrides::default()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    GatewayIdentity::load(&config.identity, &config.id, Timestamp::from_secs(now)).unwrap();
    if let Some(tls) = &config.broker.tls {
        secrets::broker_tls(tls).unwrap();
    }
}
