//! What SIGHUP and SIGTERM do to a running process.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use dream_testkit::lab::access::Access;
use dream_testkit::lab::aggregates::assert_exact_or;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::{PATIENCE, free_port, until};

use crate::gateway::Gateway;

const METERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_again_at_a_hangup_and_those_that_cannot_be_used_change_nothing() {
    let broker = Broker::embedded();
    let (identities, access) = (Identities::default(), Access::open(broker.port()));
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, &access, "north", METERS);
    fleet.list(1).await;
    let good = gateway.settings.clone();
    gateway.settings = good.clone().cluster_with("south", METERS, "no_such_key = 1");
    gateway.write_settings();
    gateway.hang_up();
    until("the mistake is named", || gateway.printed().contains("no_such_key")).await;
    assert_eq!(gateway.get("/api/v1/clusters/south").status, 404);

    gateway.settings = good.cluster("south", METERS);
    gateway.write_settings();
    gateway.hang_up();
    until("the settings were read", || gateway.get("/api/v1/clusters/south").status == 200).await;
    assert!(gateway.printed().contains("configuration reloaded"), "{}", gateway.printed());
    gateway.hang_up();
    until("nothing new is found", || gateway.printed().contains("configuration reloaded: nothing has changed")).await;
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    let decoded = |line: &&str| line.contains("slot decoded");
    let printed = gateway.printed();
    let line = printed.lines().find(decoded).unwrap();
    for field in [" load_watts=", " band95_watts=", " end=\"20"] {
        assert!(line.contains(field), "{line}");
    }
    let memory = gateway.metrics().get("process_resident_memory_bytes", &[]).unwrap();
    assert!(memory > 1e6 && memory < 1e9, "{memory}");
    assert_exact_or(&gateway.slots("north"), &fleet, &[]);
    let status = gateway.stop();
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_manager_is_told_of_every_change_and_that_the_gateway_gets_on() {
    let broker = Broker::embedded();
    let (identities, access) = (Identities::default(), Access::open(broker.port()));
    let mut gateway = Gateway::prepare(&identities, Settings::new(&access).cluster("north", METERS));
    let address = gateway.file("notify");
    let manager = UnixDatagram::bind(&address).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 100];
        let length = manager.recv(&mut buffer).unwrap();
        // A reload comes with the moment at which it began.
        String::from_utf8(buffer[..length].to_vec()).unwrap().lines().next().unwrap().to_owned()
    };
    let hear_next = |unlike: &str| std::iter::repeat_with(hear).find(|heard| heard != unlike).unwrap();
    let watchdog = ("WATCHDOG_USEC", "200000".to_owned());
    gateway.set_environment(vec![("NOTIFY_SOCKET", address.display().to_string()), watchdog]);
    gateway.start();
    assert_eq!(hear(), "READY=1");
    assert_eq!(gateway.get("/readyz").status, 200, "the service manager learns when the gateway is ready");
    assert_eq!((hear(), hear()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()), "and then that it gets on");
    gateway.hang_up();
    assert_eq!(hear_next("WATCHDOG=1"), "RELOADING=1");
    assert_eq!(hear_next("WATCHDOG=1"), "READY=1");

    let health = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dream-gateway"));
        command.arg("health").arg("--config").arg(gateway.file("gateway.toml")).output().unwrap()
    };
    let answer = health();
    assert!(answer.status.success() && answer.stdout == b"ready\n", "{answer:?}");
    assert!(gateway.stop().success());
    assert_eq!(hear_next("WATCHDOG=1"), "STOPPING=1");
}

/// Without a broker a start is not held up for ever, and the gateway is not healthy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_a_broker_lives_and_is_not_healthy() {
    let nobody = Access::open(free_port());
    let mut gateway = Gateway::start(&Identities::default(), Settings::new(&nobody).cluster("north", METERS));
    gateway.wait_until_ok("/healthz").await;
    let health = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dream-gateway"));
        command.arg("health").arg("--config").arg(gateway.file("gateway.toml")).args(more).output().unwrap()
    };
    let answer = health(&[]);
    assert_eq!(answer.status.code(), Some(1));
    let said = String::from_utf8(answer.stderr).unwrap();
    assert!(said.contains("answers 503: not ready, waiting for: ") && said.contains("broker subscribed"), "{said}");
    assert!(health(&["--live"]).status.success());
}
