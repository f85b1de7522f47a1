//! `dream-gateway reload`: what a file would change, and what it changed.

use std::fs;
use std::process::Command;

use dream_testkit::lab::access::Access;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::settings::Settings;

use crate::access::{PROGRAM, add_token};
use crate::gateway::Gateway;

const METERS: usize = 3;

/// Runs `reload` with the token of an operator; returns its exit code, and what it said.
fn reload(gateway: &Gateway, file: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("reload").args(more).arg("--config").arg(gateway.file(file));
    let output = command.arg("--token-file").arg(gateway.file("operator.token")).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_names_what_it_changes_and_a_dry_run_names_the_same_and_changes_nothing() {
    let broker = Broker::embedded();
    let (identities, access) = (Identities::default(), Access::open(broker.port()));
    let mut settings =
        Settings::new(&access).cluster("north", METERS).cluster("south", METERS).group("all", &["north", "south"]);
    settings.http = "access_file = \"access.toml\"\nopen = [\"health\", \"metrics\", \"pages\"]\n".to_owned();
    let mut gateway = Gateway::prepare(&identities, settings);
    add_token(&gateway, "operator", "operator");
    gateway.start();
    gateway.wait_until_ready().await;
    let told = reload(&gateway, "gateway.toml", &["--dry-run"]);
    assert_eq!(told, (Some(0), "a reload would change: nothing\n".to_owned()));

    fs::write(gateway.file("denied"), "m-0007\nm-0008\n").unwrap();
    gateway.settings.clusters.remove("south");
    gateway.settings = gateway.settings.clone().cluster_with("north", METERS, "epsilon = 0.5\ndeny_file = \"denied\"");
    gateway.settings = gateway.settings.clone().cluster("west", METERS).group("all", &["north", "west"]);
    gateway.settings.broker = "max_packet_bytes = 200000\n";
    gateway.write_settings();
    gateway.renew(&identities);
    add_token(&gateway, "viewer", "viewer");
    let expected = [
        "changed  cluster north: deny_file 0 meters -> 2 meters, 2 added (m-0007 m-0008), epsilon 1 -> 0.5",
        "removed  cluster south",
        "added    cluster west",
        "changed  group all: of [north, south] -> [north, west]",
        "changed  certificate identity.certificate: sha256 ",
        "restart  broker.max_packet_bytes 16777216 -> 200000",
        "added    token viewer",
        "stays as it is until the gateway is restarted",
    ];
    let (code, planned) = reload(&gateway, "gateway.toml", &["--dry-run"]);
    assert_eq!(code, Some(0), "{planned}");
    expected.iter().for_each(|line| assert!(planned.contains(line), "{line} is not in {planned}"));
    assert_eq!(gateway.get("/api/v1/clusters/west").status, 404, "nothing was changed");

    let (code, done) = reload(&gateway, "gateway.toml", &[]);
    assert_eq!(code, Some(0), "{done}");
    expected.iter().for_each(|line| assert!(done.contains(line), "{line} is not in {done}"));
    assert_eq!(gateway.get("/api/v1/clusters/west").status, 200);
    let printed = gateway.printed();
    for line in [
        "configuration: changed what=\"cluster north\" keys=\"deny_file 0 meters -> 2 meters, 2 added, epsilon 1 -> 0.5\"",
        "configuration: added what=\"cluster west\"",
        "configuration: removed what=\"cluster south\"",
        "configuration: added what=\"token viewer\"",
        "configuration: changing these keys needs a restart; keeping their current values \
         keys=\"broker.max_packet_bytes 16777216 -> 200000\"",
    ] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    assert!(!printed.contains("m-0007"), "the log names no meter");
    let (code, again) = reload(&gateway, "gateway.toml", &["--dry-run"]);
    assert!(
        code == Some(0) && again.starts_with("a reload would change:\n  restart  broker.max_packet_bytes"),
        "{again}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_wrong_or_not_the_gateways_own_is_named() {
    let broker = Broker::embedded();
    let (identities, access) = (Identities::default(), Access::open(broker.port()));
    let mut settings = Settings::new(&access).cluster("north", METERS);
    settings.http = "access_file = \"access.toml\"\nopen = [\"health\", \"metrics\", \"pages\"]\n".to_owned();
    let mut gateway = Gateway::prepare(&identities, settings.clone());
    add_token(&gateway, "operator", "operator");
    gateway.start();
    gateway.wait_until_ready().await;

    let other = settings.clone().cluster("south", METERS).toml(gateway.http());
    fs::write(gateway.file("other.toml"), &other).unwrap();
    let (code, planned) = reload(&gateway, "other.toml", &["--dry-run"]);
    assert!(code == Some(0) && planned.contains("added    cluster south"), "{planned}");
    let (code, told) = reload(&gateway, "other.toml", &[]);
    assert!(
        code == Some(1) && told.contains("reloaded: nothing") && told.contains("does it read another file?"),
        "{told}"
    );

    fs::write(gateway.file("other.toml"), other.replace("[clusters.south]", "[clusters.south]\nno_such_key = 1"))
        .unwrap();
    let (code, told) = reload(&gateway, "other.toml", &["--dry-run"]);
    assert!(code == Some(2) && told.contains("no_such_key"), "{told}");
    fs::write(gateway.file("other.toml"), other.replace("id = \"gw\"", "id = \"gw-2\"")).unwrap();
    let (code, told) = reload(&gateway, "other.toml", &["--dry-run"]);
    assert!(code != Some(0) && told.contains("gw-2"), "the certificate is of another gateway: {told}");

    // The answer holds neither the token nor its hash, and only operators get it.
    let secret = fs::read_to_string(gateway.file("access.toml")).unwrap();
    let hash = secret.split('"').find(|part| part.len() == 64).unwrap().to_owned();
    let token = fs::read_to_string(gateway.file("operator.token")).unwrap();
    let curl = |args: &[&str]| {
        let url = format!("http://127.0.0.1:{}/api/v1/configuration", gateway.http());
        let output = Command::new("curl").args(["--silent", "--max-time", "20"]).args(args).arg(url).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let answer = curl(&["--header", &format!("Authorization: Bearer {}", token.trim())]);
    assert!(answer.contains("\"cluster north\"") && answer.contains("token operator"), "{answer}");
    assert!(!answer.contains(&hash) && !answer.contains(token.trim()), "{answer}");
    assert!(curl(&[]).contains("needs a login"), "{}", curl(&[]));
}
