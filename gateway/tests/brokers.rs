//! The daemon with brokers that do not let everyone in.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::aggregates::{assert_exact_or, served};
use support::broker::Access;
use support::fleet::Fleet;
use support::gateway::{Gateway, Settings};
use support::identities::Identities;
use support::mosquitto::{Door, Mosquitto};
use support::until;

const METERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_comes_in_with_its_certificate() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Tls(&identities), "");
    a_slot_is_decoded(&identities, broker.access()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_comes_in_with_a_password() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, "");
    a_slot_is_decoded(&identities, broker.access()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_not_let_in_says_so_and_is_not_ready() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, "");
    let mut access = broker.access().clone();
    access.login = Some(("gateway".to_owned(), "open barley".to_owned()));
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ok("/livez").await;
    until("the refusal is logged", || gateway.said().contains("WARN")).await;
    assert_eq!(gateway.get("/readyz").status, 503);
    assert_eq!(gateway.metrics().get("dream_broker_connected", &[]), Some(0.0));
    assert!(gateway.is_running(), "a broker's configuration can be mended while the gateway waits");
    assert!(!gateway.said().contains("open barley"), "a password is never logged");
}

async fn a_slot_is_decoded(identities: &Identities, access: &Access) {
    let mut gateway = Gateway::start(identities, Settings::new(access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(identities, access, "north", METERS);
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    assert_exact_or(&served(&gateway, "north"), &fleet, &[]);
}
