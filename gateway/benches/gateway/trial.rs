//! A gateway that is started, given backlogs, and stopped again, slot after slot.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use dream_gateway::config::{Config, Overrides};
use dream_gateway::store::FileStore;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_testkit::lab::access::Access;
use dream_testkit::lab::aggregates::Aggregate;
use dream_testkit::lab::gateway::Gateway;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::lab::mosquitto::{Door, Mosquitto};
use dream_testkit::lab::prometheus::Samples;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::{free_port, until, wall};
use rumqttc::{AsyncClient, Event, Packet, PublishOptions, QoS};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::backlog::{clear, publish, start_bare, time_drain};
use crate::members::{self, Members, Message, WATTS};

/// How large a gateway is.
#[derive(Clone, Copy)]
pub struct Plan {
    pub clusters: usize,
    pub members: usize,
    pub slot_seconds: u64,
}

pub struct Trial {
    plan: Plan,
    broker: Mosquitto,
    gateway: Gateway,
    /// Goes after the gateway that uses it: fields are dropped in this order.
    _directory: TempDir,
    members: Vec<Members>,
    /// Requests and aggregates, as meters and consumers see them.
    heard: UnboundedReceiver<(Instant, String, Vec<u8>)>,
    client: AsyncClient,
    slot: Slot,
    /// Resident bytes of a gateway without members, and of this one when it was ready.
    pub empty: u64,
    pub ready: u64,
}

impl Trial {
    /// A gateway that has once been connected, so that the broker keeps messages for it, and is stopped.
    pub async fn start(plan: Plan) -> Self {
        let identities = Identities::default();
        let broker = Mosquitto::with(&Door::Open, "persistence false\nautosave_on_changes false\n");
        let empty = resident_when_empty(&identities, broker.access()).await;
        let (mut gateway, directory) = configured(&identities, &settings(broker.access(), plan));
        let config = Config::load(&gateway.file("gateway.toml"), &Overrides::default()).unwrap();
        let store = FileStore::open(&gateway.file("gateway.redb"), 32).unwrap();
        let then = Timestamp::from_millis(wall().as_millis() - 4 * 1000 * plan.slot_seconds);
        let members = members::enrol(&config, &identities, plan.members, then, &store);
        drop(store);
        let (client, heard) = listen(broker.access());
        gateway.start();
        until_subscribed(&gateway).await;
        // The lists are published when no retained ones have come.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let mut trial = Self {
            plan,
            broker,
            gateway,
            _directory: directory,
            members,
            heard,
            client,
            slot: Slot(0),
            empty,
            ready: 0,
        };
        trial.ready = trial.resident();
        trial.stop();
        trial.bare(0).await;
        trial
    }

    /// Queues a slot's readings for the gateway and for the bare subscriber, and lets both drain their queues, one after
    /// the other; how long they took.
    pub async fn drain(&mut self) -> (Duration, Duration) {
        let slot_seconds = self.plan.slot_seconds;
        self.slot = Slot((wall().as_secs() / slot_seconds).max(self.slot.0 + 1));
        // A gateway gets its retained lists when it connects; they are no part of the backlog.
        let lists = self.members.iter().map(|members| GatewayChannel::FullMembership.topic(&members.cluster));
        clear(self.broker.access(), lists).await;
        let readings: Vec<Message> = self.members.iter().flat_map(|members| members.readings(self.slot)).collect();
        let count = readings.len();
        publish(self.broker.access(), readings).await;
        let bare = self.bare(count).await;
        // Readings count once their slot is over.
        let ended = Timestamp::from_secs((self.slot.0 + 1) * slot_seconds);
        tokio::time::sleep(Duration::from_millis(ended.millis_since(wall()) + 500)).await;
        while self.heard.try_recv().is_ok() {}
        let broker = self.broker.id().unwrap();
        let timing = tokio::task::spawn_blocking(move || time_drain(broker, count));
        self.gateway.start();
        let gateway = timing.await.unwrap();
        println!("drained {count}: gateway {gateway:?}, bare {bare:?}");
        (gateway, bare)
    }

    /// Answers the request for the slot of the last backlog of a single cluster. Takes the time to the aggregate on its
    /// topic: from publishing the last reveal when all others are handled, or from when the broker has them all, which come
    /// as fast as it takes them.
    pub async fn decode(&mut self, in_a_burst: bool) -> Duration {
        let members = &self.members[0];
        let (_, request) = next(&mut self.heard, "/recovery").await;
        let mut reveals = members.reveals(self.slot, &request);
        let last = reveals.pop().unwrap();
        if !in_a_burst {
            publish(self.broker.access(), std::mem::take(&mut reveals)).await;
            let handled = || self.gateway.messages("reveal", "accepted") + 1.0 >= members.len() as f64;
            until("the other reveals are handled", handled).await;
        }
        let published = if in_a_burst {
            reveals.push(last);
            publish(self.broker.access(), reveals).await
        } else {
            let (topic, payload) = last;
            self.client.try_publish(topic, payload, PublishOptions::at_least_once()).unwrap();
            Instant::now()
        };
        let (at, aggregate) = loop {
            let (at, payload) = next(&mut self.heard, "/aggregate").await;
            let aggregate: Aggregate = serde_json::from_slice(&payload).unwrap();
            // Slots that nobody served close too.
            if aggregate.slot == self.slot.0 {
                break (at, aggregate);
            }
        };
        let expected = i64::try_from(WATTS).unwrap() * i64::try_from(members.len()).unwrap();
        assert_eq!(aggregate.load_watts, Some(expected), "{aggregate:?}");
        let took = at.saturating_duration_since(published);
        println!("decoded after {took:?}");
        took
    }

    pub fn stop(&mut self) {
        assert!(self.gateway.stop().success());
    }

    /// What the process takes of the machine's memory, in bytes.
    pub fn resident(&self) -> u64 {
        self.gateway.memory()
    }

    async fn bare(&self, readings: usize) -> Duration {
        let clusters: Vec<ClusterId> = self.members.iter().map(|members| members.cluster.clone()).collect();
        let (broker, access) = (self.broker.id().unwrap(), self.broker.access().clone());
        let bare = move || {
            let timing = std::thread::spawn(move || time_drain(broker, readings));
            let mut process = start_bare(&access, &clusters, readings);
            let took = timing.join().unwrap();
            assert!(process.wait().unwrap().success());
            took
        };
        tokio::task::spawn_blocking(bare).await.unwrap()
    }
}

/// Returns a gateway that is not started yet, in a directory of its own.
fn configured(identities: &Identities, settings: &Settings) -> (Gateway, TempDir) {
    let (directory, http) = (TempDir::new().unwrap(), free_port());
    let gateway = Gateway::new(Path::new(env!("CARGO_BIN_EXE_dream-gateway")), directory.path(), http);
    identities.write_gateway(directory.path(), GATEWAY);
    gateway.configure(&settings.toml(http));
    (gateway, directory)
}

fn settings(access: &Access, plan: Plan) -> Settings {
    let Plan { clusters, members, slot_seconds } = plan;
    let window = slot_seconds / 3;
    let mut settings = Settings::new(access);
    settings.log = "info";
    settings.defaults = format!(
        "meter_policy = \"trial\"\nslot_seconds = {slot_seconds}\nreading_seconds = {window}\nreveal_seconds = {window}\nattempts = 1\n\
         max_missing = 0.1\nsettle_seconds = 1\nlist_slots = 1000\ndrop_after_slots = 0\nmin_interval_seconds = 86400\n"
    );
    let lines = format!("min_members = {members}\nrange_watts = [0, 9000]\n");
    settings.clusters = (0..clusters).map(|cluster| (format!("cluster-{cluster:03}"), lines.clone())).collect();
    settings
}

async fn resident_when_empty(identities: &Identities, access: &Access) -> u64 {
    let mut settings = settings(access, Plan { clusters: 0, members: 0, slot_seconds: 60 });
    settings.clusters =
        BTreeMap::from([("nobody".to_owned(), "min_members = 10\nrange_watts = [0, 9000]\n".to_owned())]);
    let (mut gateway, _directory) = configured(identities, &settings);
    gateway.start();
    until_subscribed(&gateway).await;
    let bytes = gateway.memory();
    assert!(gateway.stop().success());
    bytes
}

async fn until_subscribed(gateway: &Gateway) {
    let subscribed = || {
        let metrics = gateway.try_get("/metrics").map(|response| Samples::parse(response.text()));
        metrics.is_some_and(|metrics| metrics.sum("dream_broker_connected", &[]) > 0.5)
    };
    until("the gateway is subscribed", subscribed).await;
}

/// Hears all requests and aggregates, with QoS 0 so that the broker hears nothing back.
fn listen(access: &Access) -> (AsyncClient, UnboundedReceiver<(Instant, String, Vec<u8>)>) {
    let mut options = access.options("listener");
    options.set_keep_alive(3600).set_max_request_batch(100);
    let (client, mut connection) = AsyncClient::builder(options).unbounded().build();
    for channel in ["recovery", "aggregate"] {
        client.try_subscribe(format!("dream/v1/+/{channel}"), QoS::AtMostOnce).unwrap();
    }
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        // Until the broker stops.
        while let Ok(event) = connection.poll().await {
            if let Event::Incoming(Packet::Publish(publish)) = event {
                let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                if sender.send((Instant::now(), topic, publish.payload.to_vec())).is_err() {
                    return;
                }
            }
        }
    });
    (client, receiver)
}

async fn next(heard: &mut UnboundedReceiver<(Instant, String, Vec<u8>)>, channel: &str) -> (Instant, Vec<u8>) {
    let next = async {
        loop {
            let (at, topic, payload) = heard.recv().await.unwrap();
            if topic.ends_with(channel) && !payload.is_empty() {
                return (at, payload);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), next).await.expect("the gateway answers")
}
