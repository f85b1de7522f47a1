//! The tests' own tools, tried without the daemon: meters, brokers and the right answers around a bare
//! [`Cluster`](dream_protocol::cluster::Cluster).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dream_gateway::config::{Config, Overrides};
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{Cluster, ClusterConfig, Input, Output, RosterRules};
use dream_protocol::ids::ClusterId;
use dream_protocol::params::{Share, Terms};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use support::broker::{self, Access};
use support::client::{Client, Event};
use support::fleet::{Fate, Fleet};
use support::gateway::Settings;
use support::identities::{GATEWAY, Identities, RANGE};
use support::metrics::Samples;
use support::mosquitto::{Door, Mosquitto};
use support::{until, wall};
use tokio::sync::mpsc::UnboundedReceiver;

const CLUSTER: &str = "north";
const METERS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_over_the_embedded_broker() {
    three_slots_are_exact(&Identities::default(), &broker::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_over_mosquitto_with_client_certificates() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Tls(&identities), "");
    three_slots_are_exact(&identities, broker.access()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_over_mosquitto_with_a_password_that_is_killed_on_the_way() {
    let identities = Identities::default();
    let mut broker = Mosquitto::with(&Door::Password { username: "someone", password: "secret" }, "");
    let access = broker.access().clone();
    let slots = three_slots_are_exact(&identities, &access);
    let killed = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        broker.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        broker.restart();
    };
    tokio::join!(slots, killed);
}

#[test]
fn settings_of_tests_are_configurations() {
    let identities = Identities::default();
    let directory = tempfile::tempdir().unwrap();
    identities.write_gateway(directory.path(), GATEWAY);
    let mut access = Access::open(1883);
    for door in 0..3 {
        access.tls = (door == 1).then(|| (directory.path().to_owned(), "gateway".to_owned()));
        access.login = (door == 2).then(|| ("someone".to_owned(), "secret".to_owned()));
        let settings = Settings::new(&access).cluster("north", METERS).cluster_with("south", 6, "epsilon = 0.5");
        let file = directory.path().join("gateway.toml");
        std::fs::write(&file, settings.replica(1, 2).home_assistant().toml(9464)).unwrap();
        let config = Config::load(&file, &Overrides::default()).unwrap();
        assert_eq!((config.clusters.len(), config.ordinal, config.replicas), (2, 1, 2));
        assert_eq!((config.broker.tls.is_some(), config.broker.login.is_some()), (door == 1, door == 2));
    }
}

#[test]
fn samples_are_found_by_name_and_labels() {
    let text = "# HELP a A.\n# TYPE a gauge\na{x=\"1\",y=\"b c\"} 2.5\na{x=\"2\",y=\"b c\"} 3\nb 7\n";
    let samples = Samples::parse(text);
    assert_eq!(samples.get("a", &[("y", "b c"), ("x", "1")]), Some(2.5));
    assert_eq!((samples.get("a", &[]), samples.get("b", &[])), (None, Some(7.0)));
    assert!((samples.sum("a", &[("y", "b c")]) - 5.5).abs() < 1e-9);
    assert_eq!(samples.values_of("x"), BTreeSet::from(["1", "2"]));
}

/// Meter 5 is silent, and meter 3 does not answer in first attempts of even slots.
async fn three_slots_are_exact(identities: &Identities, access: &Access) {
    let fleet = Fleet::with_faults(identities, access, CLUSTER, METERS, |outgoing| match outgoing.channel {
        MeterChannel::Reading if outgoing.meter == 5 => Fate::Lost,
        MeterChannel::Reading if outgoing.meter == 7 => Fate::Twice,
        MeterChannel::Reveal if outgoing.meter == 3 && outgoing.slot.0 % 2 == 0 && outgoing.attempt == 0 => Fate::Lost,
        MeterChannel::Reading | MeterChannel::Reveal | MeterChannel::Enrol | MeterChannel::Status => Fate::Sent,
    });
    let outcomes = Arc::new(Mutex::new(BTreeMap::new()));
    let running = tokio::spawn(run(cluster(identities), access.clone(), outcomes.clone()));
    let decoded = || outcomes.lock().unwrap().values().filter(|outcome: &&SlotOutcome| outcome.result.is_ok()).count();
    until("three slots are decoded", || decoded() >= 3).await;
    running.abort();
    for outcome in outcomes.lock().unwrap().values().filter(|outcome| outcome.result.is_ok()) {
        let expected = fleet.expected(outcome.slot).unwrap();
        assert_eq!(outcome.result.unwrap().watts(), expected.watts, "{outcome:?}, {expected:?}");
        assert!(!expected.responders.contains(&5) && expected.responders.is_subset(&fleet.reported(outcome.slot)));
        assert_eq!((outcome.attempts, outcome.epoch), (expected.attempts, expected.epoch));
    }
    assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
}

/// A gateway without a store.
async fn run(mut cluster: Cluster, access: Access, outcomes: Arc<Mutex<BTreeMap<u64, SlotOutcome>>>) {
    let id = ClusterId::new(CLUSTER).unwrap();
    let mut filters: Vec<String> = MeterChannel::ALL.iter().map(|channel| channel.filter(&id)).collect();
    filters.push(GatewayChannel::Membership.topic(&id));
    let (client, mut events) = Client::connect(&access, GATEWAY, &filters);
    loop {
        let wait = cluster.deadline().map_or(1000, |due| due.millis_since(wall()).min(1000));
        let event = next(&mut events, Duration::from_millis(wait)).await;
        let input = match &event {
            None => Input::Tick,
            Some(Event::Subscribed) => Input::Connected,
            Some(Event::Disconnected) => Input::Disconnected,
            Some(Event::Message(message)) => Input::Message { topic: &message.topic, payload: &message.payload },
        };
        cluster.handle(input, wall(), &mut rand::rng());
        while let Some(output) = cluster.poll() {
            match output {
                Output::Publish { channel, payload } => {
                    client.publish(&channel.topic(&id), &payload, channel == GatewayChannel::Membership);
                }
                Output::Closed(outcome) => {
                    let known = outcomes.lock().unwrap().insert(outcome.slot.0, outcome);
                    assert_eq!(known, None, "a slot closes once");
                }
                Output::Persist(_) | Output::Forget(_) | Output::Reject { .. } | Output::Notice(_) => {}
            }
        }
    }
}

async fn next(events: &mut UnboundedReceiver<Event>, wait: Duration) -> Option<Event> {
    let event = tokio::time::timeout(wait, events.recv()).await.ok()?;
    Some(event.expect("the client polls as long as it is held"))
}

fn cluster(identities: &Identities) -> Cluster {
    let gateway = identities.gateway(GATEWAY);
    let config = ClusterConfig {
        cluster: ClusterId::new(CLUSTER).unwrap(),
        identity: Arc::new(gateway.identity()),
        certificate: gateway.der.clone().into(),
        authorities: identities.pki.authorities(),
        terms: Terms {
            slot_seconds: 6,
            reading_seconds: 2,
            reveal_seconds: 1,
            max_missing: 0,
            max_malicious: 0,
            partners: 0,
            lo: RANGE.0,
            hi: RANGE.1,
            epsilon_numerator: 1,
            epsilon_denominator: 1,
            attempts: 2,
        },
        missing_share: Share::new(1, 5).unwrap(),
        malicious_share: Share::new(1, 10).unwrap(),
        roster: RosterRules {
            min_members: METERS.try_into().unwrap(),
            settle_seconds: 1,
            list_slots: 1000,
            drop_after_slots: 0,
            min_interval_seconds: 0,
            allow: None,
            deny: BTreeSet::new(),
        },
        clock_skew_seconds: 1,
    };
    Cluster::resume(config, [], wall()).unwrap()
}
