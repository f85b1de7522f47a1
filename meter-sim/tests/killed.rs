//! A fleet that is killed again and again, at the worst moments, never says two different things about one attempt.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dream_meter_sim::access::Access;
use dream_protocol::time::Slot;
use dream_protocol::topic::{MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Reveal};
use rumqttc::{AsyncClient, Event, Packet, QoS};
use support::command;
use support::gateway::Gateway;
use support::mosquitto::Mosquitto;

/// After which of its messages the fleet is killed, in turn.
const MOMENTS: [MeterChannel; 3] = [MeterChannel::Reading, MeterChannel::Reveal, MeterChannel::Reading];

#[test]
fn a_killed_fleet_resumes_and_answers_no_request_twice_differently() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["provision", "--out", "trial", "--meters", "8", "--slot-seconds", "8"];
    command(folder.path()).args(arguments).assert().success();
    let trial = folder.path().join("trial");
    let broker = Mosquitto::start(&trial, "gw-1");
    let _gateway = Gateway::start(&trial, &broker);
    let mut spy = Spy::start(&trial, &broker);

    let mut killed = 0;
    // Until two slots were at work in two lives, and every moment had its turn.
    while spy.slots_of_two_lives() < 2 || killed < MOMENTS.len() {
        assert!(killed < 30, "the fleet never comes back in time");
        let mut fleet = start(folder.path(), &broker, killed);
        spy.wait_for(MOMENTS[killed % MOMENTS.len()]);
        // The first message is out, others are not: some of this life's are lost.
        fleet.kill().unwrap();
        fleet.wait().unwrap();
        spy.take_in();
        killed += 1;
        spy.life = killed;
    }
    let mut again = command(folder.path());
    let url = broker.url();
    again.args(["run", "--dir", "trial", "--broker", &url, "--trial-policy", "--slots", "2"]);
    again.assert().success();
    spy.take_in();
    assert!(spy.said.len() > 8 * killed, "{} attempts", spy.said.len());
}

/// A fleet in a process of its own. Every life has other homes and secrets: only what is recorded can be the same.
fn start(folder: &Path, broker: &Mosquitto, life: usize) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("meter-sim"));
    command.current_dir(folder).args(["run", "--dir", "trial", "--broker", &broker.url(), "--trial-policy"]);
    command.arg("--seed").arg(life.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What one meter says about one attempt on a channel.
type Saying = (MeterChannel, String, Slot, u8);

/// Reads everything with the gateway's rights, and compares.
struct Spy {
    heard: mpsc::Receiver<(String, Vec<u8>)>,
    said: BTreeMap<Saying, Vec<u8>>,
    /// The fleet's lives, and in which of them a slot was talked about.
    life: usize,
    lives: BTreeMap<Slot, BTreeSet<usize>>,
}

impl Spy {
    fn start(trial: &Path, broker: &Mosquitto) -> Self {
        let at = |name: &str| trial.join(name);
        let client = (at("gateway.pem"), at("gateway.key"));
        let client = Some((client.0.as_path(), client.1.as_path()));
        let access = Access::parse(&broker.url(), Some(&at("authority.pem")), client, None).unwrap();
        let (hear, heard) = mpsc::channel();
        let (ready, listening) = mpsc::channel();
        std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let (client, mut eventloop) = AsyncClient::builder(access.options("spy")).unbounded().build();
                client.try_subscribe("dream/v1/+/reading/+", QoS::AtLeastOnce).unwrap();
                client.try_subscribe("dream/v1/+/reveal/+", QoS::AtLeastOnce).unwrap();
                loop {
                    match eventloop.poll().await.unwrap() {
                        Event::Incoming(Packet::SubAck(_)) => drop(ready.send(())),
                        Event::Incoming(Packet::Publish(publish)) => {
                            let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                            if hear.send((topic, publish.payload.to_vec())).is_err() {
                                return;
                            }
                        }
                        Event::Incoming(_) | Event::Outgoing(_) => {}
                    }
                }
            });
        });
        listening.recv().unwrap();
        listening.recv().unwrap();
        Self { heard, said: BTreeMap::new(), life: 0, lives: BTreeMap::new() }
    }

    /// Waits for a message on a channel that was not said before.
    fn wait_for(&mut self, wanted: MeterChannel) {
        let begun = Instant::now();
        loop {
            let (topic, payload) =
                self.heard.recv_timeout(Duration::from_secs(120)).expect("the fleet says nothing for two minutes");
            if self.note(&topic, payload).is_some_and(|(channel, ..)| channel == wanted) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(300), "no {wanted:?} in five minutes");
        }
    }

    /// Hears what is left.
    fn take_in(&mut self) {
        while let Ok((topic, payload)) = self.heard.recv_timeout(Duration::from_millis(200)) {
            self.note(&topic, payload);
        }
    }

    /// Compares with what the same meter said before; gives what is new.
    fn note(&mut self, topic: &str, payload: Vec<u8>) -> Option<Saying> {
        let Topic::Meter { channel, meter, .. } = Topic::parse(topic).unwrap() else { panic!("{topic}") };
        let envelope = Mac0::decode(&payload).unwrap();
        let (slot, attempt) = match channel {
            MeterChannel::Reading => {
                let reading = MaskedReading::decode(envelope.payload()).unwrap();
                (reading.slot, reading.attempt)
            }
            MeterChannel::Reveal => {
                let reveal = Reveal::decode(envelope.payload()).unwrap();
                (reveal.slot, reveal.attempt)
            }
            MeterChannel::Enrol | MeterChannel::Status => panic!("{topic}"),
        };
        self.lives.entry(slot).or_default().insert(self.life);
        let saying = (channel, meter.to_string(), slot, attempt);
        if let Some(before) = self.said.get(&saying) {
            assert_eq!(*before, payload, "{saying:?} was said twice, and differently");
            return None;
        }
        self.said.insert(saying.clone(), payload);
        Some(saying)
    }

    fn slots_of_two_lives(&self) -> usize {
        self.lives.values().filter(|lives| lives.len() > 1).count()
    }
}
