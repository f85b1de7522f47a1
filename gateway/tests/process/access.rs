//! TLS and logins of a running process, asked by its own commands and by curl.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use dream_testkit::lab::access::Access;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;

use crate::gateway::Gateway;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_dream-gateway");

/// Writes a new certificate for `localhost` with its key.
fn certify(gateway: &Gateway) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(gateway.file("http.pem"), made.cert.pem()).unwrap();
    write_secret(&gateway.file("http.key"), &made.signing_key.serialize_pem());
}

fn write_secret(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Makes a token, and adds it to the file of tokens.
pub fn add_token(gateway: &Gateway, name: &str, role: &str) {
    let file = gateway.file(format!("{name}.token"));
    let made = Command::new(PROGRAM).args(["access", "token", name, "--role", role, "--out"]).arg(&file).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let access = gateway.file("access.toml");
    let before = fs::read_to_string(&access).unwrap_or_default();
    write_secret(&access, &(before + std::str::from_utf8(&made.stdout).unwrap()));
}

/// Runs a command against the gateway of a configuration; returns whether it succeeded, and what it said.
fn run(gateway: &Gateway, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(PROGRAM);
    command.args(args).arg("--config").arg(gateway.file("gateway.toml"));
    let output = command.env_remove("DREAM_TOKEN_FILE").output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text)
}

/// Asks with curl; returns the status, 000 if there was no answer.
fn curl(gateway: &Gateway, args: &[&str], url: &str) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert"])
        .arg(gateway.file("http.pem"))
        .args(args)
        .arg(url)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_on_tls_are_kept_out_and_new_files_count_after_a_hangup() {
    let broker = Broker::embedded();
    let (identities, access) = (Identities::default(), Access::open(broker.port()));
    let mut settings = Settings::new(&access).cluster("north", 3);
    settings.http =
        "tls_certificate = \"http.pem\"\ntls_key = \"http.key\"\naccess_file = \"access.toml\"\n".to_owned();
    let mut gateway = Gateway::prepare(&identities, settings);
    certify(&gateway);
    add_token(&gateway, "operator", "operator");
    gateway.start();
    until("the gateway is ready", || run(&gateway, &["health"]).0).await;

    let port = gateway.http();
    let url = |path: &str| format!("https://localhost:{port}{path}");
    assert_eq!(curl(&gateway, &[], &url("/readyz")), "200");
    assert_eq!(curl(&gateway, &[], &url("/api/v1/clusters")), "401");
    assert_eq!(curl(&gateway, &["--user", "anna:guess"], &url("/")), "401");
    assert_eq!(curl(&gateway, &["--header", "X-Forwarded-User: anna"], &url("/")), "401");
    assert_eq!(curl(&gateway, &[], &format!("http://localhost:{port}/readyz")), "000", "there is no way without TLS");
    let token = fs::read_to_string(gateway.file("operator.token")).unwrap();
    let bearer = format!("Authorization: Bearer {}", token.trim());
    assert_eq!(curl(&gateway, &["--header", &bearer], &url("/api/v1/offenders")), "200");

    let file = gateway.file("operator.token").display().to_string();
    let (succeeded, told) = run(&gateway, &["offenders"]);
    assert!(!succeeded && told.contains("answers 401") && told.contains("--token-file"), "{told}");
    let (succeeded, told) = run(&gateway, &["offenders", "--token-file", &file]);
    assert!(succeeded && told.contains("no member spoils slots"), "{told}");

    // A file that cannot be used changes nothing.
    fs::write(gateway.file("http.pem"), "nonsense").unwrap();
    gateway.hang_up();
    until("the mistake is named", || gateway.printed().contains("http.tls_certificate")).await;
    certify(&gateway);
    fs::remove_file(gateway.file("access.toml")).unwrap();
    add_token(&gateway, "viewer", "viewer");
    assert_eq!(curl(&gateway, &[], &url("/readyz")), "000", "the new certificate is not served yet");
    gateway.hang_up();
    until("the new certificate is served", || curl(&gateway, &[], &url("/readyz")) == "200").await;
    assert_eq!(curl(&gateway, &["--header", &bearer], &url("/api/v1/clusters")), "401", "the token was taken out");
    let token = fs::read_to_string(gateway.file("viewer.token")).unwrap();
    let viewer = format!("Authorization: Bearer {}", token.trim());
    assert_eq!(curl(&gateway, &["--header", &viewer], &url("/api/v1/clusters")), "200");
    assert_eq!(curl(&gateway, &["--header", &viewer], &url("/api/v1/offenders")), "403");
    let printed = gateway.printed();
    assert!(!printed.contains(token.trim()), "{printed}");
    assert!(gateway.stop().success());
}
