//! What does not happen by itself: messages that nobody sent, and records that nobody wrote.

use std::collections::BTreeMap;

use dream_protocol::cluster::{self, Cluster};
use dream_protocol::meter::{self, Meter};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;

use super::Run;
use crate::example::{CLUSTER, meter_name};
use crate::node::Packet;
use crate::simulation::fixture::Fixture;
use crate::simulation::network::{Dice, Node};
use crate::simulation::scenario::Enrolments;
use crate::{now, rng};

/// For how many wakes a machine with damaged records is watched.
const WAKES: usize = 12;

impl Run {
    /// Delivers a changed version of a message, perhaps on another topic. It may be refused by any rule, and must change
    /// nothing that the referee watches.
    pub(super) fn forge(&mut self, to: Node, packet: &Packet) {
        let dice = &mut self.network.dice;
        let mut payload = packet.payload.to_vec();
        damage(&mut payload, dice);
        let topic = if dice.one_in(4) { any_topic(dice) } else { packet.topic.clone() };
        self.referee.expect_forgery(true);
        match to {
            Node::Gateway => {
                self.handle_gateway(cluster::Input::Message { topic: &topic, payload: &payload });
            }
            Node::Meter(meter) => {
                self.handle_meter(meter, meter::Input::Message { topic: &topic, payload: &payload });
            }
        }
        self.referee.expect_forgery(false);
    }

    /// Sometimes starts a meter from a copy of its records with some of them damaged. It may forget what it likes, but it
    /// must neither panic nor spin; the meter of the run is started from the true ones.
    pub(super) fn try_damaged_meter(&mut self, index: usize) {
        if !self.network.dice.chance(self.scenario.damaged, 1000) {
            return;
        }
        let store = damaged(&self.meters[index].process.store, &mut self.network.dice);
        let records = store.iter().filter_map(|bytes| meter::Record::decode(bytes).ok());
        let short_lived = self.scenario.enrolments == Enrolments::ShortLived;
        let config = Fixture::get().meter(index, short_lived, self.scenario.daily_micro_epsilon);
        let mut meter = Meter::simulated(config, records, Simulation::NOISELESS).unwrap();
        let (mut random, mut wall) = (rng(9), self.wall(index));
        meter.handle(meter::Input::Connected, now(wall), &mut random);
        for _ in 0..WAKES {
            while meter.poll().is_some() {}
            let Some(due) = meter.deadline().filter(|due| within_reach(*due, wall)) else { return };
            wall = wall.max(due);
            meter.handle(meter::Input::Tick, now(wall), &mut random);
            assert!(meter.deadline().is_none_or(|next| wall < next), "a meter with damaged records spins");
        }
    }

    /// Like [`Run::try_damaged_meter`], for the gateway.
    pub(super) fn try_damaged_gateway(&mut self) {
        if !self.network.dice.chance(self.scenario.damaged, 1000) {
            return;
        }
        let store = damaged(&self.gateway.store, &mut self.network.dice);
        let records: Vec<_> = store.iter().filter_map(|bytes| cluster::Record::decode(bytes).ok()).collect();
        let (mut random, mut wall) = (rng(9), self.network.now());
        let Ok(mut cluster) = Cluster::resume(self.config.clone(), records, wall) else { return };
        cluster.handle(cluster::Input::Connected, wall, &mut random);
        for _ in 0..WAKES {
            while cluster.poll().is_some() {}
            let Some(due) = cluster.deadline().filter(|due| within_reach(*due, wall)) else { return };
            wall = wall.max(due);
            cluster.handle(cluster::Input::Tick, wall, &mut random);
            assert!(cluster.deadline().is_none_or(|next| wall < next), "a gateway with damaged records spins");
        }
    }
}

/// Returns whether a driver would live to see a deadline: within a year.
fn within_reach(due: Timestamp, wall: Timestamp) -> bool {
    due.millis_since(wall) < 365 * 86_400_000
}

/// Returns what is stored, with up to three of the values damaged.
fn damaged<K>(store: &BTreeMap<K, Vec<u8>>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = store.values().cloned().collect();
    for _ in 0..dice.between((1, 3)) {
        if values.is_empty() {
            break;
        }
        let which = dice.below(values.len());
        damage(&mut values[which], dice);
    }
    values
}

/// Changes one to three places.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.between((1, 3)) {
        let at = dice.below(bytes.len() + 1);
        let any = dice.between((0, 255)).to_le_bytes()[0];
        match (dice.below(8), bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.insert(at, any),
            (2, Some(_)) => drop(bytes.remove(at)),
            (3..=5, Some(byte)) => *byte ^= 1 << (any % 8),
            (_, Some(byte)) => *byte = any,
            (_, None) => bytes.push(any),
        }
    }
}

fn any_topic(dice: &mut Dice) -> String {
    let channels =
        ["reading", "reveal", "enrol", "status", "membership", "membership/full", "recovery", "retry", "aggregate", ""];
    match dice.below(channels.len()) {
        channel @ 0..4 => format!("dream/v1/{CLUSTER}/{}/{}", channels[channel], meter_name(dice.below(12))),
        channel => format!("dream/v1/{CLUSTER}/{}", channels[channel]),
    }
}
