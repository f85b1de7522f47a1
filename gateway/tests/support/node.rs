//! One meter with the records it writes, without noise.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::meter::{Input, Key, Meter, MeterConfig, Notice, Output, Record};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};

use super::now;

pub struct Node {
    meter: Meter,
    records: BTreeMap<Key, Vec<u8>>,
    /// The slot that is being measured, and its end.
    measuring: Option<(Slot, Timestamp)>,
    pub notices: Vec<Notice>,
}

/// What a meter wants published.
pub struct Packet {
    pub topic: String,
    pub payload: Arc<[u8]>,
}

impl Node {
    pub fn new(config: MeterConfig) -> Self {
        Self { meter: resume(config, []), records: BTreeMap::new(), measuring: None, notices: Vec::new() }
    }

    /// The same meter after a power cut.
    pub fn restart(&mut self, config: MeterConfig) {
        self.meter = resume(config, self.records.values().map(|bytes| Record::decode(bytes).unwrap()));
        self.measuring = None;
    }

    pub fn handle(&mut self, input: Input<'_>) -> Vec<Packet> {
        self.meter.handle(input, now(), &mut rand::rng());
        let mut packets = Vec::new();
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => drop(self.records.insert(record.key(), record.encode().to_vec())),
                Output::Erase(key) => drop(self.records.remove(&key)),
                Output::Publish { topic, payload } => packets.push(Packet { topic, payload }),
                Output::Notice(notice) => self.notices.push(notice),
            }
        }
        packets
    }

    /// Does what is due: reports the slot that has ended, with a reading that `watts` gives, and ticks.
    pub fn advance(&mut self, at: Timestamp, watts: impl FnOnce(Slot) -> i64) -> Vec<Packet> {
        let mut packets = Vec::new();
        if let Some((slot, _)) = self.measuring.filter(|(_, end)| *end <= at) {
            packets.extend(self.handle(Input::Measured { slot, watts: watts(slot) }));
        }
        if self.meter.deadline().is_some_and(|due| due <= at) {
            packets.extend(self.handle(Input::Tick));
        }
        self.measuring = self.meter.measuring(at).map(|(slot, _, end)| (slot, end));
        packets
    }

    /// When to advance.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.meter.deadline().into_iter().chain(self.measuring.map(|(_, end)| end)).min()
    }
}

fn resume(config: MeterConfig, records: impl IntoIterator<Item = Record>) -> Meter {
    let mut meter = Meter::resume(config, records).unwrap();
    meter.simulate(Simulation { share: Some(0), ..Simulation::default() });
    meter
}
