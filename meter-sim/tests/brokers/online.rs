//! A gateway that comes online hears at once from meters that were there before it: they read its status, with the shipped
//! configuration of each broker.

use std::collections::BTreeSet;
use std::sync::Arc;

use dream_fleet::{ClusterSetup, Records};
use dream_protocol::ids::ClusterId;
use dream_testkit::lab::brokers::{Broker, BrokerKind};
use dream_testkit::lab::patiently;
use dream_testkit::lab::watcher::Watcher;
use tokio::sync::watch;

use super::cluster::{faults, fleet_of, setups};
use super::trial::{CLUSTER, GATEWAY, Trial};

const METERS: usize = 4;

/// How often the gateway comes online. By itself a meter repeats its enrolment after 45 seconds at the earliest: so often would
/// take longer than a test waits.
const TIMES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meters_enrol_when_a_gateway_comes_online_on_mosquitto() {
    meters_enrol_when_a_gateway_comes_online(BrokerKind::Mosquitto).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meters_enrol_when_a_gateway_comes_online_on_rabbitmq() {
    meters_enrol_when_a_gateway_comes_online(BrokerKind::RabbitMq).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meters_enrol_when_a_gateway_comes_online_on_nats() {
    meters_enrol_when_a_gateway_comes_online(BrokerKind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meters_enrol_when_a_gateway_comes_online_on_rumqttd() {
    meters_enrol_when_a_gateway_comes_online(BrokerKind::Rumqttd).await;
}

async fn meters_enrol_when_a_gateway_comes_online(kind: BrokerKind) {
    let trial = Trial::new(METERS);
    let broker = Broker::start(kind, &trial.clients());
    let (id, enrolments) = (format!("{GATEWAY}-0"), format!("dream/v1/{CLUSTER}/enrol/+"));
    let mut gateway = Watcher::start(trial.options_as(&broker, Some(&trial.gateway), &id), &[&enrolments]).await;
    let directory = tempfile::tempdir().unwrap();
    let records = Records::open(&directory.path().join("meters.redb")).unwrap();
    let fleet = Arc::new(fleet_of(&trial, records, faults(0.0, 0.0)));
    let setup = ClusterSetup {
        cluster: ClusterId::new(CLUSTER).unwrap(),
        meters: setups(&trial, &broker),
        homes: (0..METERS).collect(),
        liars: Vec::new(),
    };
    let (stop, stopped) = watch::channel(false);
    let meters = dream_fleet::start(&fleet, setup, stopped).unwrap();

    patiently("meters to enrol each time", async {
        // When they connect.
        all_enrol(&mut gateway).await;
        for _ in 0..TIMES {
            gateway.publish(&format!("dream/v1/gateway/{id}/status"), b"online", true);
            all_enrol(&mut gateway).await;
        }
    })
    .await;
    stop.send_replace(true);
    tokio::task::spawn_blocking(|| meters.join()).await.unwrap().unwrap();
}

/// Waits until every meter has enrolled once more.
async fn all_enrol(gateway: &mut Watcher) {
    let mut heard = BTreeSet::new();
    while heard.len() < METERS {
        heard.insert(gateway.next().await.topic);
    }
}
