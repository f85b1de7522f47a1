//! `meter-sim lie` on a broker that knows everyone by certificate.

use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::command::{seen, succeed};

use super::{gateway, meter_sim};

#[test]
fn a_broker_with_certificates_and_rights_works_with_a_provisioned_directory() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["provision", "--out", "trial", "--meters", "51", "--gateway", "gw-north"];
    succeed(meter_sim(folder.path()).args(arguments));
    let broker = Broker::mosquitto(&folder.path().join("trial"), "gw-north", "");
    let url = format!("mqtts://localhost:{}", broker.port());
    let lie = |arguments: &[&str]| seen(meter_sim(folder.path()).args(["lie", "--broker", &url]).args(arguments));
    let answer = lie(&["--dir", "trial", "--only", "two-lists", "--meters", "51"]);
    assert!(answer.starts_with("exit code 0\n"), "{answer}");
    assert!(answer.contains("An honest list: accepted by 51 of 51."), "{answer}");
    assert!(answer.contains("\ntwo-lists ") && !answer.contains("second-request"), "{answer}");
    // Not beside the gateway that it plays: the broker would throw that one off.
    let real = gateway::running(&folder.path().join("trial"), &url);
    let beside = lie(&["--dir", "trial", "--only", "two-lists", "--meters", "51"]);
    assert!(beside.starts_with("exit code 2\n"), "{beside}");
    assert!(beside.contains("the gateway gw-north is online on this broker"), "{beside}");
    assert!(real.get("/metrics").text().contains("dream_broker_connected 1"), "{}", real.printed());
    drop(real);
    let outsider = lie(&["--ca", "trial/gateway-authority.pem"]);
    assert!(outsider.starts_with("exit code 1\n"), "{outsider}");
}
