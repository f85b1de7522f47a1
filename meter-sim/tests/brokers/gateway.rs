//! The gateway's process on these brokers.

use std::path::{Path, PathBuf};

use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::free_port;
use dream_testkit::lab::gateway::Gateway;

use super::trial::{CLUSTER, GATEWAY, Trial};

/// Starts the gateway of a directory of `meter-sim provision` on a broker at this URL, and returns when it has subscribed:
/// meters that enrol before that are heard a minute later.
pub(super) fn running(directory: &Path, url: &str) -> Gateway {
    let http = free_port();
    let mut gateway = Gateway::new(&program(), directory, http);
    let text = std::fs::read_to_string(gateway.file("gateway.toml")).unwrap();
    gateway.configure(
        &text.replace("mqtts://localhost:8883", url).replace("127.0.0.1:9464", &format!("127.0.0.1:{http}")),
    );
    gateway.start();
    tokio::runtime::Runtime::new().unwrap().block_on(gateway.wait_until_ready());
    gateway
}

/// Returns a gateway of the trial's cluster on this broker, which does not run yet.
pub(super) fn of_trial(trial: &Trial, broker: &Broker, terms: &str, directory: &Path) -> Gateway {
    let http = free_port();
    let at = |name: &str| trial.file(name).display().to_string();
    let (certificate, key) = (trial.gateway.certificate.display(), trial.gateway.key.display());
    let tls = if broker.kind.knows_certificates() {
        format!(
            "ca = \"{}\"\nclient_certificate = \"{certificate}\"\nclient_key = \"{key}\"\n",
            at("gateway-authority.pem")
        )
    } else {
        String::new()
    };
    let gateway = Gateway::new(&program(), directory, http);
    gateway.configure(&format!(
        "id = \"{GATEWAY}\"\nclock_skew_seconds = 1\n\
         [identity]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\nmeter_authorities = [\"{}\"]\n\
         gateway_authorities = [\"{}\"]\n\
         [broker]\nurl = \"{}\"\nkeep_alive_seconds = 5\n{tls}\
         [store]\npath = \"gateway.redb\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
         [home_assistant]\nenabled = true\n\
         [clusters.{CLUSTER}]\nallow_file = \"{}\"\nmeter_policy = \"trial\"\nmin_members = {}\nsettle_seconds = 1\n{terms}",
        at("meter-authority.pem"),
        at("gateway-authority.pem"),
        broker.url(),
        trial.clients().allow_file.display(),
        trial.setups.len(),
    ));
    gateway
}

/// Returns where the gateway is: beside the directory of the tests, because another package's program is not built with
/// them.
pub(super) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("dream-gateway");
    assert!(path.is_file(), "{} is missing: build it with `cargo build --workspace --bins`", path.display());
    path
}
