//! The same run on every broker, with the shipped configuration: enrolment, a list, slots with faults and recovery, a gateway
//! that is killed, a broker that is restarted. The verdict must be the same everywhere. `DREAM_INTEROP_SLOTS` says how many
//! slots at least; `make long` runs ten.

use dream_meter_sim::verdict::{FromMeters, Injected, Row, Verdict};
use dream_testkit::lab::brokers::{Broker, BrokerKind};
use dream_testkit::lab::client::{Answer, publish_once};
use dream_testkit::lab::watcher::Watcher;

use super::cluster::{Cluster, faults, is_proven};
use super::trial::{CLUSTER, GATEWAY, Trial};
use super::{EXPLAINED, number};

const METERS: usize = 15;

/// Two attempts of three seconds fill a slot.
const TERMS: &str =
    "slot_seconds = 6\nreading_seconds = 2\nreveal_seconds = 1\nmax_missing = 0.2\ndrop_after_slots = 0\n";

/// Of readings; half of the faults lose the reading.
const FAULTS: f64 = 0.12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mosquitto_carries_it_all() {
    carries_it_all(BrokerKind::Mosquitto).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_carries_it_all() {
    carries_it_all(BrokerKind::RabbitMq).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_carries_it_all() {
    carries_it_all(BrokerKind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rumqttd_carries_it_all_but_its_own_restart() {
    carries_it_all(BrokerKind::Rumqttd).await;
}

async fn carries_it_all(kind: BrokerKind) {
    let trial = Trial::new(METERS);
    let mut broker = Broker::start(kind, &trial.clients());
    let mut cluster = Cluster::start(&trial, &broker, TERMS, faults(FAULTS, 0.0)).await;

    // On with it until one was recovered from missing readings.
    let slots = usize::try_from(number("DREAM_INTEROP_SLOTS", 3)).unwrap();
    cluster.run_until(|rows| is_recovered(rows) && rows.iter().filter(|row| is_proven(row)).count() >= slots).await;
    let verdict = Verdict::of(&cluster.rows, FromMeters::default(), Injected { faults: true, ..Injected::default() });
    assert!(verdict.is_good(), "{kind}: {verdict}");

    cluster.gateway.kill();
    cluster.gateway.start();
    cluster.run_for(1).await;
    assert_nothing_wrong(kind, &cluster.rows);

    if kind.persists() {
        assert!(cluster.gateway.stop().success());
        a_restart_loses_nothing(&trial, &mut broker).await;
        cluster.gateway.start();
        cluster.run_for(1).await;
        assert_nothing_wrong(kind, &cluster.rows);
    }
    cluster.end().await;
}

/// While the gateway is away: what waits for it is there after the broker was restarted, or killed where it promises to survive that,
/// and so is the list.
async fn a_restart_loses_nothing(trial: &Trial, broker: &mut Broker) {
    let spare = trial.spare();
    let status = format!("dream/v1/{CLUSTER}/status/{}", spare.name);
    let said = publish_once(trial.options(broker, spare), &status, b"waits for the gateway", false).await;
    assert_eq!(said, Answer::Granted);

    if broker.kind.survives_kill() {
        broker.kill();
    } else {
        broker.stop();
    }
    broker.restart();

    let membership = format!("dream/v1/{CLUSTER}/membership/full");
    let mut newcomer = Watcher::start(trial.options(broker, spare), &[&membership]).await;
    // It may come before the broker's answer to the subscription.
    if newcomer.seen().is_empty() {
        newcomer.next().await;
    }
    let list = &newcomer.seen()[0];
    assert!(list.retained && list.topic == membership && !list.payload.is_empty(), "{list:?}");
    newcomer.leave().await;

    // In the gateway's own session, without which the message would not be there.
    let options = trial.options_as(broker, Some(&trial.gateway), &format!("{GATEWAY}-0"));
    let mut stand_in = Watcher::start(options, &[&membership]).await;
    stand_in.wait_until_seen(&status, b"waits for the gateway").await;
    stand_in.leave().await;
}

/// Whether a sum was decoded though readings were missing.
fn is_recovered(rows: &[Row]) -> bool {
    rows.iter().any(|row| is_proven(row) && row.aggregate.missing > 0)
}

/// Every slot is what the meters masked, to the watt, or failed for a reason that killing explains.
fn assert_nothing_wrong(kind: BrokerKind, rows: &[Row]) {
    for Row { aggregate, expected } in rows {
        match (aggregate.load_watts, expected) {
            (Some(watts), Some(expected)) => assert_eq!(watts, expected.noisy, "{kind}: {aggregate:?}"),
            (Some(_), None) => {}
            (None, _) => assert!(EXPLAINED.contains(&aggregate.outcome.as_str()), "{kind}: {aggregate:?}"),
        }
    }
}
