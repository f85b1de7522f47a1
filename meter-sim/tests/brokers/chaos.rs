//! Broker, gateway and fleet, each a process, are killed, paused, cut off, slowed down and denied their disk, by a seeded
//! schedule. Afterwards every slot was decoded exactly or has failed for a reason that this explains, no meter has broken a
//! rule, no reading was counted twice, and the gateway's memory is what it was.
//!
//! `DREAM_CHAOS_SLOTS` says over how many slots, and `DREAM_CHAOS_SEED` which schedule; every kind of blow comes once at
//! least. `make chaos` is the long version.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dream_fleet::access::Access;
use dream_fleet::directory::Directory;
use dream_fleet::{MeterSetup, Records};
use dream_protocol::ids::ClusterId;
use dream_protocol::meter::Record;
use dream_protocol::params::Terms;
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::gateway::Gateway;
use dream_testkit::lab::proxy::Proxy;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use super::gateway::running;
use super::provisioned::{CLUSTER, Provisioned};
use super::spy::{Heard, Spy};
use super::{EXPLAINED, number};

/// Meter k always reads 2^k watts: without noise, a sum is the set of those that are in it.
const METERS: usize = 13;

const SLOT_SECONDS: u64 = 4;

/// A gateway of one small cluster has no use for more than that, whatever happens.
const MOST_GROWTH: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    KillGateway,
    KillFleet,
    KillBroker,
    RestartBroker,
    PauseGateway,
    PauseFleet,
    PauseBroker,
    CutGateway,
    CutFleet,
    SlowGateway,
    SlowFleet,
    FillDisk,
}

const BLOWS: [Blow; 12] = [
    Blow::KillGateway,
    Blow::KillFleet,
    Blow::KillBroker,
    Blow::RestartBroker,
    Blow::PauseGateway,
    Blow::PauseFleet,
    Blow::PauseBroker,
    Blow::CutGateway,
    Blow::CutFleet,
    Blow::SlowGateway,
    Blow::SlowFleet,
    Blow::FillDisk,
];

#[test]
#[expect(clippy::print_stderr, reason = "what a failed run needs to be repeated, and what a good one came to")]
fn nothing_is_lost_doubled_or_told_twice_differently() {
    let (slots, seed) = (number("DREAM_CHAOS_SLOTS", 12), number("DREAM_CHAOS_SEED", 2026));
    eprintln!("chaos of {slots} slots with seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let mut scene = Scene::set();
    scene.wait_for_whole_slots(1);
    let (begun, at_first) = (Instant::now(), scene.gateway.memory());
    let (mut most, mut struck) = (at_first, 0);
    let mut deck = Vec::new();
    // Every kind of blow once at least.
    while begun.elapsed() < Duration::from_secs(slots * SLOT_SECONDS) || struck < BLOWS.len() {
        let blow = deck.pop().unwrap_or_else(|| {
            deck = BLOWS.to_vec();
            deck.shuffle(&mut chance);
            deck.pop().unwrap()
        });
        scene.strike(blow, Duration::from_millis(chance.random_range(200..5000)));
        struck += 1;
        scene.listen_for(Duration::from_millis(chance.random_range(500..8000)));
        most = most.max(scene.gateway.memory());
    }
    scene.wait_for_whole_slots(3);
    assert!(most <= at_first + MOST_GROWTH, "from {at_first} to {most} bytes");

    let outcomes = scene.judge();
    eprintln!("{struck} blows: {outcomes:?}; memory from {} to {} KiB", at_first >> 10, most >> 10);
}

struct Scene {
    provisioned: Provisioned,
    broker: Broker,
    gateway_wire: Proxy,
    gateway: Gateway,
    fleet_wire: Proxy,
    fleet: Child,
    lives: usize,
    spy: Spy,
    /// As the gateway published them, by slot.
    published: BTreeMap<u64, Value>,
}

impl Scene {
    fn set() -> Self {
        let provisioned = Provisioned::new(METERS, SLOT_SECONDS);
        let readings: Vec<String> = (0..METERS).map(|meter| (1 << meter).to_string()).collect();
        std::fs::write(provisioned.folder().join("powers.csv"), readings.join(",") + "\n").unwrap();
        let broker = provisioned.broker();
        let (gateway_wire, fleet_wire) = (Proxy::to(broker.port()), Proxy::to(broker.port()));
        let spy = provisioned.spy(&broker);
        Self {
            gateway: running(&provisioned.trial(), &gateway_wire.url()),
            fleet: fleet(&provisioned, &fleet_wire, 0),
            lives: 1,
            provisioned,
            broker,
            gateway_wire,
            fleet_wire,
            spy,
            published: BTreeMap::new(),
        }
    }

    /// Does something bad for so long, and mends it.
    fn strike(&mut self, blow: Blow, time: Duration) {
        match blow {
            Blow::KillGateway => {
                self.gateway.kill();
                self.listen_for(time);
                self.gateway.start();
            }
            Blow::KillFleet => {
                self.fleet.kill().unwrap();
                self.fleet.wait().unwrap();
                self.listen_for(time);
                self.fleet = fleet(&self.provisioned, &self.fleet_wire, self.lives);
                self.lives += 1;
            }
            Blow::KillBroker => {
                self.broker.kill();
                self.listen_for(time);
                self.broker.restart();
            }
            Blow::RestartBroker => {
                self.broker.stop();
                self.broker.restart();
            }
            Blow::PauseGateway => self.pause(self.gateway.id().unwrap(), time),
            Blow::PauseFleet => self.pause(self.fleet.id(), time),
            Blow::PauseBroker => self.pause(self.broker.id().unwrap(), time),
            Blow::CutGateway => self.disturb(|scene| &scene.gateway_wire, Proxy::cut, time),
            Blow::CutFleet => self.disturb(|scene| &scene.fleet_wire, Proxy::cut, time),
            Blow::SlowGateway => self.disturb(|scene| &scene.gateway_wire, |wire| wire.slow(time / 10), time),
            Blow::SlowFleet => self.disturb(|scene| &scene.fleet_wire, |wire| wire.slow(time / 10), time),
            Blow::FillDisk => {
                self.gateway.limit_files(Some(8192));
                self.listen_for(time);
                self.gateway.limit_files(None);
            }
        }
        assert!(self.gateway.is_running(), "the gateway has ended by itself after {blow:?}");
        assert!(self.fleet.try_wait().unwrap().is_none(), "the fleet has ended by itself after {blow:?}");
    }

    fn disturb(&mut self, wire: fn(&Self) -> &Proxy, how: impl FnOnce(&Proxy), time: Duration) {
        how(wire(self));
        self.listen_for(time);
        wire(self).mend();
    }

    fn pause(&mut self, process: u32, time: Duration) {
        signal(process, "STOP");
        self.listen_for(time);
        signal(process, "CONT");
    }

    fn listen_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.listen(left);
        }
    }

    /// Takes in one thing; gives a slot that has just been published.
    fn listen(&mut self, patience: Duration) -> Option<Value> {
        let Some(Heard::Aggregate(slot)) = self.spy.next(patience) else { return None };
        let number = slot["slot"].as_u64().unwrap();
        let before = self.published.insert(number, slot.clone());
        assert!(before.is_none_or(|before| before == slot), "{slot} was published before, and differently");
        Some(slot)
    }

    /// Waits until so many slots in a row have everyone in them: all is well again.
    fn wait_for_whole_slots(&mut self, wanted: usize) {
        let (begun, mut whole) = (Instant::now(), 0);
        while whole < wanted {
            assert!(begun.elapsed() < Duration::from_secs(240), "there is no end to it: {:?}", self.published);
            let Some(slot) = self.listen(Duration::from_secs(5)) else { continue };
            whole = if slot["responders"] == METERS && slot["outcome"] == "decoded" { whole + 1 } else { 0 };
        }
    }

    /// Ends it all and looks at what is left: how many slots had which outcome.
    fn judge(mut self) -> BTreeMap<String, usize> {
        signal(self.fleet.id(), "TERM");
        self.fleet.wait().unwrap();
        assert!(self.gateway.stop().success());
        let slots: BTreeMap<u64, Value> =
            self.gateway.export(CLUSTER).into_iter().map(|slot| (slot["slot"].as_u64().unwrap(), slot)).collect();
        let (first, last) = (*slots.keys().next().unwrap(), *slots.keys().next_back().unwrap());
        assert_eq!((first..=last).find(|slot| !slots.contains_key(slot)), None, "every slot has an outcome");
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for slot in slots.values() {
            let outcome = slot["outcome"].as_str().unwrap();
            *outcomes.entry(outcome.to_owned()).or_default() += 1;
            match slot["load_watts"].as_u64() {
                Some(load) => {
                    // The sum of n different powers of two has n ones, and with one of them twice fewer.
                    let ones = u64::from(load.count_ones());
                    assert_eq!((Some(ones), load >> METERS), (slot["responders"].as_u64(), 0), "{slot}");
                }
                None => assert!(EXPLAINED.contains(&outcome), "{slot}"),
            }
        }
        let decoded = outcomes.get("decoded").copied().unwrap_or_default();
        assert!(decoded * 5 >= slots.len(), "hardly any slot was decoded: {outcomes:?}");
        for (number, published) in &self.published {
            let stored = slots.get(number).unwrap_or_else(|| panic!("{published} is not in the store"));
            let [published, stored] = [published, stored].map(|slot| (&slot["outcome"], &slot["load_watts"]));
            assert_eq!(published, stored);
        }
        self.audit();
        outcomes
    }

    /// What the meters have recorded: every attempt was paid for, and the gateway was never seen to contradict itself.
    fn audit(&self) {
        let directory = Directory::open(&self.provisioned.trial()).unwrap();
        let records = Records::open(&self.provisioned.trial().join("meters.redb")).unwrap();
        let policy = Policy::new(directory.authorities().clone(), [directory.gateway_id().unwrap()])
            .with_profile(Profile::Trial);
        let cluster = ClusterId::new(CLUSTER).unwrap();
        let (_, meters) = directory.clusters().iter().find(|(name, _)| *name == cluster).unwrap();
        for files in meters {
            let of_meter = records.of(&cluster, &files.id).unwrap();
            assert!(!of_meter.iter().any(|record| matches!(record, Record::Evidence(_))), "{} has evidence", files.id);
            let setup = MeterSetup {
                id: files.id.clone(),
                issued: files.load().unwrap(),
                access: Access::open("nowhere", 1),
                simulation: Simulation::default(),
            };
            let meter = setup.resume(&cluster, &policy, of_meter).unwrap();
            let attempts = self
                .spy
                .said
                .keys()
                .filter(|saying| saying.channel == MeterChannel::Reading && saying.meter == files.id.as_str());
            let starts: Vec<Timestamp> = attempts.map(|saying| begin(saying.slot)).collect();
            let last = starts.iter().copied().max().unwrap();
            let recent = starts.iter().filter(|start| last.millis_since(**start) < 86_400_000).count();
            let Terms { epsilon_numerator, epsilon_denominator, .. } = Terms::DEFAULT;
            let cost = 1_000_000 * epsilon_numerator / epsilon_denominator * u64::try_from(recent).unwrap();
            assert!(meter.spent(last) >= cost, "{} has paid {} for {cost}", files.id, meter.spent(last));
        }
    }
}

fn fleet(provisioned: &Provisioned, wire: &Proxy, life: usize) -> Child {
    provisioned.fleet(&wire.url(), life, &["--no-noise", "--readings", "powers.csv"])
}

fn begin(slot: Slot) -> Timestamp {
    Timestamp::from_secs(slot.0 * SLOT_SECONDS)
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "{process} cannot be told {name}");
}
