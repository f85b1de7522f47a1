//! A community of 25 homes whose meters speak different languages, each with an agent in a process of its own, beside a gateway on
//! Mosquitto with mutual TLS. Agents are killed at every step, a source dies for three slots, the broker restarts, and a
//! certificate is renewed; every sum is exact to the watt, and no meter ever says two different things about one attempt.
//!
//! `DREAM_METER_SLOTS` says how many slots must be decoded beside what the steps take; `make long` asks for 50.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dream_meter::files;
use dream_protocol::ids::MeterId;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::Aggregate;
use dream_testkit::lab::command::{command, succeed};
use dream_testkit::lab::http;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::process::Process;
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::lab::{patiently, wall};

use super::homes::Home;
use super::observer::{Heard, Observer};
use super::site::{CLUSTER, Site};
use super::{agent, number};

const HOMES: usize = 25;

/// Outcomes of slots that killing and restarting explain.
const EXPLAINED: [&str; 3] = ["interrupted", "too_many_missing", "reveal_missing"];

/// Two attempts fit a slot, and five homes may be silent: N = 25, T = 3, n = 17, which the profile community accepts.
const TERMS: &str = "\
min_members = 25
slot_seconds = 8
reading_seconds = 3
reveal_seconds = 1
attempts = 2
max_missing = 0.2
list_slots = 24
drop_after_slots = 0
";

/// The home that Home Assistant is asked about, the one whose meter falls silent, and the one whose certificate is renewed.
const SHOWN: usize = 0;
const SILENT: usize = 1;
const RENEWED: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_community_is_summed_to_the_watt_whatever_happens_to_its_agents() {
    let mut street = Street::start().await;
    street.decode(1).await;
    street.home_assistant_is_told().await;

    for step in [MeterChannel::Reading, MeterChannel::Reveal, MeterChannel::Enrol] {
        street.kill_at(step).await;
    }
    street.decode(1).await;

    street.silence_a_source().await;
    street.restart_the_broker().await;
    street.renew_a_certificate().await;
    let wanted = number("DREAM_METER_SLOTS", 2);
    street.decode(usize::try_from(wanted).unwrap()).await;
    assert_eq!(street.observer.contradictions(), 0);
    street.what_was_given_away_is_explained();
}

struct Street {
    agents: Vec<Process>,
    homes: Vec<Home>,
    configs: Vec<PathBuf>,
    watts: BTreeMap<MeterId, i64>,
    observer: Observer,
    home_assistant: Watcher,
    /// The first of the homes whose agent is killed next.
    next_victim: usize,
    site: Site,
    /// The home's own broker, which the community never sees.
    _home_broker: Mosquitto,
}

fn name(home: usize) -> String {
    format!("m-{home:04}")
}

impl Street {
    async fn start() -> Self {
        let mut site = Site::new(TERMS);
        let home_broker = Mosquitto::start();
        let home_assistant = Watcher::start(home_broker.access().options("watcher"), &["#"]).await;
        site.gateway.start();
        site.gateway.wait_until_ready().await;
        let observer = Observer::start(&site).await;
        let (mut homes, mut configs, mut agents, mut watts) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        for home in 0..HOMES {
            let folder = site.file(&format!("{}-meter", name(home)));
            std::fs::create_dir(&folder).unwrap();
            let meter = Home::start(home, &folder, Some(home_broker.access()));
            let mut lines = format!("[source]\n{}", meter.source);
            if home == SHOWN {
                lines += &format!("[home]\nurl = \"{}\"\n", home_broker.access().url());
            }
            // One of them has had its certificate for ten months: the last third of its life has begun.
            let age = if home == RENEWED { 300 * 86_400 } else { 0 };
            let issued = Timestamp::from_secs(wall().as_secs() - age);
            let config = site.home(&name(home), HOMES as u64, issued, &lines);
            let mut agent = agent::process(&config);
            agent.start();
            watts.insert(MeterId::new(&name(home)).unwrap(), meter.watts);
            homes.push(meter);
            agents.push(agent);
            configs.push(config);
        }
        Self {
            agents,
            homes,
            configs,
            watts,
            observer,
            home_assistant,
            next_victim: 3,
            site,
            _home_broker: home_broker,
        }
    }

    /// Waits for a slot to close. A decoded one must be exact; returns it with those whose readings are in it.
    async fn closed(&mut self) -> (Aggregate, BTreeSet<MeterId>) {
        loop {
            let Heard::Closed(closed) = self.observer.next().await else { continue };
            if closed.outcome == "decoded" {
                let responders = self.observer.check(&closed, &self.watts);
                return (closed, responders);
            }
            assert!(EXPLAINED.contains(&closed.outcome.as_str()), "{closed:?}");
        }
    }

    /// Waits until so many slots are decoded with everybody in them.
    async fn decode(&mut self, slots: usize) {
        let mut whole = 0;
        while whole < slots {
            let (_, responders) = self.closed().await;
            whole += usize::from(responders.len() == HOMES);
        }
    }

    /// Kills agents right after they said something on a channel, three in a row, and starts them again.
    async fn kill_at(&mut self, step: MeterChannel) {
        let victims: Vec<usize> = (self.next_victim..self.next_victim + 3).collect();
        self.next_victim += victims.len();
        let mut left: BTreeSet<String> = victims.iter().map(|home| name(*home)).collect();
        if step == MeterChannel::Enrol {
            // A meter that has lost its records enrols anew; the gateway lists it again.
            for home in &victims {
                self.agents[*home].kill();
                self.forget(*home);
                self.agents[*home].start();
            }
        }
        while !left.is_empty() {
            let Heard::Saying(saying) = self.observer.next().await else { continue };
            if saying.channel == step && left.remove(&saying.meter) {
                let home = victims.iter().find(|home| name(**home) == saying.meter).unwrap();
                self.agents[*home].kill();
                self.agents[*home].start();
            }
        }
        // They are back in the sums.
        let back: BTreeSet<MeterId> = victims.iter().map(|home| MeterId::new(&name(*home)).unwrap()).collect();
        while !self.closed().await.1.is_superset(&back) {}
    }

    /// Removes a home's records with their witness, as `dream-meter leave` does.
    fn forget(&self, home: usize) {
        let folder = self.configs[home].parent().unwrap();
        std::fs::remove_dir_all(folder.join("state")).unwrap();
        std::fs::remove_file(folder.with_extension("witness")).unwrap();
    }

    /// A source that says nothing for three slots makes its home silent for them, not zero.
    async fn silence_a_source(&mut self) {
        self.homes[SILENT].speak(false);
        let silent = MeterId::new(&name(SILENT)).unwrap();
        let mut missed = 0;
        while missed < 3 {
            let (closed, responders) = self.closed().await;
            if responders.contains(&silent) {
                assert_eq!(missed, 0, "the meter is dead, and yet {closed:?}");
            } else {
                assert!(!self.observer.has_reported(silent.as_str(), closed.slot), "{closed:?}");
                missed += 1;
            }
        }
        let status = self.status(SILENT);
        assert!(status.contains("the last slot had no reading"), "{status}");
        self.homes[SILENT].speak(true);
        while !self.closed().await.1.contains(&silent) {}
    }

    async fn restart_the_broker(&mut self) {
        self.site.broker.stop();
        self.site.broker.restart();
        self.decode(1).await;
    }

    /// The authority renews a certificate, the owner installs it, and the agent enrols with it without missing more than it must.
    async fn renew_a_certificate(&mut self) {
        let meter = MeterId::new(&name(RENEWED)).unwrap();
        let renewed = self.site.authority.renew(&meter, None, 365, wall()).unwrap().path.clone();
        let der = files::certificates(&renewed).unwrap().swap_remove(0);
        std::fs::copy(&renewed, self.configs[RENEWED].with_file_name("meter.pem")).unwrap();
        self.agents[RENEWED].signal("HUP");
        patiently("an enrolment with the new certificate", async {
            loop {
                let heard = self.observer.next().await;
                if let Heard::Closed(closed) = &heard
                    && closed.outcome == "decoded"
                {
                    self.observer.check(closed, &self.watts);
                }
                let enrolment = self.observer.enrolments.get(meter.as_str());
                let carries = |bytes: &Vec<u8>| bytes.windows(der.len()).any(|part| part == &*der);
                if enrolment.is_some_and(carries) {
                    return;
                }
            }
        })
        .await;
        while !self.closed().await.1.contains(&meter) {}
        assert!(self.status(RENEWED).contains("valid until"), "{}", self.status(RENEWED));
    }

    /// Home Assistant hears on the home's broker that the home takes part, and of the cluster; of a reading it hears nothing.
    async fn home_assistant_is_told(&mut self) {
        let state = format!("dream-meter/{}/state", name(SHOWN));
        let told = self.home_assistant.wait_for("the home takes part, and the load of the cluster", |message| {
            let json: serde_json::Value = serde_json::from_slice(&message.payload).unwrap_or_default();
            message.topic == state && json["taking_part"] == "ON" && json["cluster_load"].is_i64()
        });
        let told = told.await;
        let json: serde_json::Value = serde_json::from_slice(&told.payload).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let known = [
            "cluster_load",
            "epsilon_budget",
            "epsilon_today",
            "last_refusal",
            "readings_sent_today",
            "refused",
            "taking_part",
            "what_to_do",
        ];
        assert_eq!(keys, known);
        let discovered = |message: &&dream_testkit::lab::client::Message| message.topic.starts_with("homeassistant/");
        assert_eq!(self.home_assistant.seen().iter().filter(discovered).count(), 6, "the entities of one home");
        let status = self.status(SHOWN);
        assert!(status.starts_with("Taking part: yes\n") && status.contains(CLUSTER), "{status}");
    }

    /// Asks for an explanation while a meter runs, and of its records once it is stopped.
    fn what_was_given_away_is_explained(&mut self) {
        let explain = |config: &Path| {
            let program = Path::new(env!("CARGO_BIN_EXE_dream-meter"));
            succeed(command(program, config.parent().unwrap()).args(["explain", "--config", config.to_str().unwrap()]))
        };
        let config = self.configs[SHOWN].clone();
        let so_far = |told: &str| told.lines().find(|line| line.starts_with("So far: ")).unwrap().to_owned();
        let running = explain(&config);
        assert!(so_far(&running).contains(" since 20") && running.contains("of the other homes"), "{running}");
        self.agents[SHOWN].kill();
        let stopped = explain(&config);
        // Another slot may have been charged in between, but hardly another day.
        let days = |told: &str| so_far(told).split(" (UTC)").next().unwrap().to_owned();
        assert_eq!(days(&stopped), days(&running));
    }

    fn status(&self, home: usize) -> String {
        let config = dream_meter::config::Config::load(Path::new(&self.configs[home])).unwrap();
        http::get(config.http, "/status").unwrap().text().to_owned()
    }
}
