//! `dream-gateway doctor` beside real brokers, disks and gateways.

use std::fs;
use std::process::Command;

use dream_testkit::lab::access::Access;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::lab::mosquitto::{Door, Mosquitto};
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::lab::{free_port, until};
use rcgen::date_time_ymd;
use serde_json::Value;
use tempfile::TempDir;

use crate::access::PROGRAM;
use crate::gateway::Gateway;

const METERS: usize = 6;

/// What the doctor found, and its exit code.
#[derive(Debug)]
struct Visit {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl Visit {
    fn pay(gateway: &Gateway, more: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["doctor", "--json", "--config"]).arg(gateway.file("gateway.toml")).args(more);
        let output = command.env_remove("DREAM_TOKEN_FILE").output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!(found["well"], output.status.success(), "{output:?}");
        Self { code: output.status.code(), findings: found["findings"].as_array().unwrap().clone() }
    }

    /// Returns what was said in this state about something.
    fn said(&self, check: &str, state: &str) -> Vec<&str> {
        let of = self.findings.iter().filter(|finding| finding["check"] == check && finding["state"] == state);
        of.map(|finding| finding["says"].as_str().unwrap()).collect()
    }

    fn wrong(&self) -> Vec<&str> {
        let wrong = self.findings.iter().filter(|finding| finding["state"] == "wrong");
        wrong.map(|finding| finding["check"].as_str().unwrap()).collect()
    }
}

const READ: [&str; 4] = ["enrol/+", "reading/+", "reveal/+", "status/+"];

/// The gateway's rules of broker-config, but for some.
fn rules(without: &[&str]) -> String {
    let read = READ.map(|topic| ("read", format!("dream/v1/+/{topic}")));
    let both = ["membership", "membership/full"].map(|topic| format!("dream/v1/+/{topic}"));
    let both = both.into_iter().flat_map(|topic| [("read", topic.clone()), ("write", topic)]);
    let write = ["recovery", "retry", "aggregate"].map(|topic| ("write", format!("dream/v1/+/{topic}")));
    let more = ["dream/v1/gateway/+/status", "homeassistant/sensor/+/config"].map(|topic| ("write", topic.to_owned()));
    let all = read.into_iter().chain(both).chain(write).chain(more);
    let lines = all.map(|(right, topic)| format!("{right} {topic}"));
    let granted = lines.filter(|line| !without.contains(&line.as_str())).map(|line| format!("topic {line}\n"));
    format!("user gateway\n{}", granted.collect::<String>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_that_a_broker_refuses_is_named_and_what_it_does_not_say_too() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("acl");
    fs::write(&file, rules(&[])).unwrap();
    let lines = format!("acl_file {}\n", file.display());
    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, &lines);
    let settings = Settings::new(broker.access()).cluster("north", METERS).home_assistant();
    let gateway = Gateway::prepare(&Identities::default(), settings);

    let visit = Visit::pay(&gateway, &[]);
    assert_eq!(visit.wrong(), ["gateway"], "nothing but the gateway, which does not run: {visit:?}");
    assert!(visit.said("broker", "ok")[0].contains("lets the gateway in"), "{visit:?}");
    let unsaid = visit.said("rights", "unknown")[0].to_owned();
    for topic in READ {
        assert!(unsaid.contains(&format!("read dream/v1/+/{topic}")), "{unsaid}");
    }
    assert!(!unsaid.contains("membership") && !unsaid.contains("publish"), "{unsaid}");

    for (topic, refused) in [
        ("dream/v1/+/membership", true),
        ("dream/v1/+/membership/full", true),
        ("dream/v1/+/recovery", true),
        ("dream/v1/+/retry", true),
        ("dream/v1/+/aggregate", true),
        ("dream/v1/gateway/+/status", true),
        ("homeassistant/sensor/+/config", true),
        ("dream/v1/+/membership", false),
        ("dream/v1/+/membership/full", false),
    ] {
        let right = if refused { "write" } else { "read" };
        fs::write(&file, rules(&[&format!("{right} {topic}")])).unwrap();
        broker.hang_up();
        let expected = if refused { format!("publish on {topic} ") } else { format!("read {topic}") };
        let check = if refused { "wrong" } else { "unknown" };
        let found =
            |visit: &Visit| visit.said("rights", check).iter().any(|said| format!("{said} ").contains(&expected));
        until(&format!("{expected} is named"), || found(&Visit::pay(&gateway, &[]))).await;
        let visit = Visit::pay(&gateway, &[]);
        assert_eq!(visit.said("rights", "wrong").len(), usize::from(refused), "{visit:?}");
        assert_eq!(visit.code, Some(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_gateway_is_well_and_is_not_disturbed() {
    let (identities, broker) = (Identities::default(), Mosquitto::start());
    let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let _fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    gateway.decode_more("north", 1).await;
    let visit = Visit::pay(&gateway, &[]);
    assert_eq!((visit.code, visit.wrong()), (Some(0), Vec::new()), "{visit:?}");
    assert!(visit.said("broker", "ok")[0].contains("so the doctor does not log in"), "{visit:?}");
    assert!(visit.said("rights", "ok")[0].contains(" readings"), "{visit:?}");
    assert!(visit.said("lists", "ok")[0].contains("north: a list of 6 members, 6 of 6 in the last slot"), "{visit:?}");
    assert!(visit.said("store", "ok")[0].contains("in use by the gateway"), "{visit:?}");
    assert_eq!(visit.said("clock", "ok").len(), 1, "{visit:?}");

    let visit = Visit::pay(&gateway, &["--log-in"]);
    assert_eq!(visit.code, Some(0), "{visit:?}");
    assert_eq!(visit.said("rights", "ok"), ["12 of 12 were tried and are granted"], "{visit:?}");
    assert!(visit.said("rights", "warning")[0].contains("in the name of meters"), "a broker without rules: {visit:?}");
    gateway.decode_more("north", 1).await;
    let troubles = gateway.metrics().sum("dream_broker_troubles_total", &[]);
    assert_eq!(troubles, 0.0, "{}", gateway.printed());
    assert!(!gateway.printed().contains("dream-doctor"), "{}", gateway.printed());

    gateway.signal("STOP");
    let visit = Visit::pay(&gateway, &[]);
    gateway.signal("CONT");
    assert_eq!(visit.wrong(), ["store", "gateway"], "{visit:?}");
    assert!(visit.said("store", "wrong")[0].contains("in use, but no gateway answers"), "{visit:?}");
    assert!(visit.said("broker", "ok")[0].contains("so the doctor does not log in"), "{visit:?}");
}

/// Nobody is told of a refusal in MQTT 3.1.1; a message that comes back shows that there was none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_knows_no_mqtt_5_is_tried_by_messages_that_come_back() {
    let broker = Broker::embedded();
    let settings = Settings::new(&Access::open(broker.port())).cluster("north", METERS);
    let gateway = Gateway::prepare(&Identities::default(), settings);
    let visit = Visit::pay(&gateway, &[]);
    assert_eq!(visit.said("rights", "ok"), ["12 of 12 were tried and are granted"], "{visit:?}");
    assert_eq!(visit.wrong(), ["gateway"], "{visit:?}");
}

/// Where the broker takes a client's name from its certificate, the doctor is given the gateway's session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_waits_for_its_gateway_is_left_as_it_was() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Tls(&identities), "use_username_as_clientid true\n");
    let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
    gateway.wait_until_ready().await;
    assert!(gateway.stop().success());
    let mut other = broker.access().clone();
    let directory = TempDir::new().unwrap();
    identities.write(directory.path(), "gateway", &identities.gateway("other"));
    other.tls = Some((directory.path().to_owned(), "gateway".to_owned()));
    let mut sender = Watcher::start(other.options("other"), &["dream/v1/north/enrol/+"]).await;
    sender.publish("dream/v1/north/enrol/m-0001", b"no enrolment", false);
    sender.next().await;

    let visit = Visit::pay(&gateway, &[]);
    assert!(visit.said("broker", "ok")[0].contains("its certificate is trusted; lets the gateway in"), "{visit:?}");
    gateway.start();
    gateway.wait_until_ready().await;
    until("the message that waited is handled", || {
        gateway.metrics().sum("dream_messages_total", &[("kind", "enrol")]) > 0.0
    })
    .await;
    assert!(!gateway.printed().contains("dream-doctor"), "{}", gateway.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_off_a_wrong_password_and_an_ended_certificate_are_named() {
    let identities = Identities::default();
    let gateway = Gateway::prepare(&identities, Settings::new(&Access::open(free_port())).cluster("north", METERS));
    let visit = Visit::pay(&gateway, &[]);
    assert_eq!((visit.code, visit.wrong()), (Some(1), vec!["broker", "gateway"]), "{visit:?}");
    assert!(visit.said("broker", "wrong")[0].contains("refuses connections"), "{visit:?}");
    assert!(visit.said("store", "ok")[0].contains("not there yet"), "{visit:?}");
    assert!(visit.said("clock", "unknown")[0].contains("compared with nothing"), "{visit:?}");

    let ended = identities.pki.issue(GATEWAY, "gateway", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    identities.write(gateway.file("").as_path(), "gateway", &ended);
    let visit = Visit::pay(&gateway, &[]);
    assert_eq!(visit.wrong(), ["certificates", "broker", "gateway"], "{visit:?}");
    let said = visit.said("certificates", "wrong")[0];
    assert!(said.starts_with("identity.certificate") && said.contains("ended 2021-01-01"), "{said}");

    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, "");
    let mut access = broker.access().clone();
    access.login = Some(("gateway".to_owned(), "open barley".to_owned()));
    let gateway = Gateway::prepare(&identities, Settings::new(&access).cluster("north", METERS));
    let visit = Visit::pay(&gateway, &[]);
    assert!(visit.said("broker", "wrong")[0].contains("does not let the gateway in"), "{visit:?}");
    assert!(!format!("{visit:?}").contains("open barley"), "a password is never shown");
}

/// `/proc` is a disk without a free byte, on which nothing can be made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_and_a_damaged_store_are_named_and_a_wrong_file_is_exit_code_2() {
    let access = Access::open(free_port());
    let gateway = Gateway::prepare(&Identities::default(), Settings::new(&access).cluster("north", METERS));
    let toml = gateway.settings.toml(gateway.http());
    gateway.configure(&toml.replace("path = \"gateway.redb\"", "path = \"/proc/gateway.redb\""));
    let visit = Visit::pay(&gateway, &[]);
    assert_eq!(visit.wrong(), ["broker", "store", "disk", "gateway"], "{visit:?}");
    assert!(visit.said("store", "wrong")[0].contains("nothing can be written in /proc"), "{visit:?}");
    assert!(visit.said("disk", "wrong")[0].starts_with("0 MiB are free"), "{visit:?}");

    gateway.configure(&toml);
    fs::write(gateway.file("gateway.redb"), vec![7; 100_000]).unwrap();
    let visit = Visit::pay(&gateway, &[]);
    assert!(visit.said("store", "wrong")[0].contains("is damaged"), "{visit:?}");
    assert_eq!(fs::read(gateway.file("gateway.redb")).unwrap(), vec![7; 100_000], "it was left as it is");

    gateway.configure("id = 1\n");
    let output = Command::new(PROGRAM).args(["doctor", "--config"]).arg(gateway.file("gateway.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
