//! One simulated meter: the protocol's own machine, the home it measures, and what goes wrong with it.

use std::sync::Arc;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::meter::{Input, Meter, MeterConfig, MeterError, Notice, Output, Record};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::{Hidden, Simulation};
use dream_protocol::time::{Now, Slot, Timestamp};
use rand_core::CryptoRng;

use super::records::Change;

/// Who a meter is.
#[derive(Debug, Clone)]
pub struct Setup {
    pub id: MeterId,
    /// DER.
    pub certificate: Vec<u8>,
    pub seed: [u8; 32],
    /// Whether, and how, it cheats.
    pub simulation: Simulation,
}

impl Setup {
    /// The machine as its records left it.
    pub fn resume(&self, cluster: &ClusterId, policy: &Policy, records: Vec<Record>) -> Result<Meter, MeterError> {
        let config = MeterConfig {
            identity: IdentityKey::from_seed(&self.seed),
            certificate: self.certificate.clone(),
            cluster: cluster.clone(),
            policy: policy.clone(),
        };
        let mut meter = Meter::resume(config, records)?;
        meter.simulate(self.simulation);
        Ok(meter)
    }
}

/// A meter with what surrounds it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) setup: Setup,
    pub(super) meter: Meter,
    /// The slot that is being measured, and its end.
    pub(super) measuring: Option<(Slot, Timestamp)>,
    /// How far its clock is ahead.
    pub(super) ahead_millis: u64,
    /// When to look at it next.
    pub(super) wake: Timestamp,
}

/// What a meter wants done, in this order: changes first, then the rest.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) changes: Vec<Change>,
    pub(super) packets: Vec<Packet>,
    pub(super) notices: Vec<Notice>,
    pub(super) hidden: Option<Hidden>,
}

#[derive(Debug)]
pub(super) struct Packet {
    pub(super) topic: String,
    pub(super) payload: Arc<[u8]>,
}

impl Member {
    pub(super) fn new(setup: Setup, meter: Meter) -> Self {
        Self { setup, meter, measuring: None, ahead_millis: 0, wake: Timestamp::from_millis(0) }
    }

    pub(super) fn handle(&mut self, input: Input<'_>, now: Now, rng: &mut (impl CryptoRng + ?Sized)) -> Wants {
        self.meter.handle(input, self.clock(now), rng);
        let mut wants = Wants { hidden: self.meter.take_hidden(), ..Wants::default() };
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => wants.changes.push(Change::Put(record)),
                Output::Erase(key) => wants.changes.push(Change::Erase(key)),
                Output::Publish { topic, payload } => wants.packets.push(Packet { topic, payload }),
                Output::Notice(notice) => wants.notices.push(notice),
            }
        }
        wants
    }

    /// Its own idea of the time.
    pub(super) fn clock(&self, now: Now) -> Now {
        Now { wall: now.wall.plus_millis(self.ahead_millis), ..now }
    }

    /// The slot that has just ended by its clock, if one has.
    pub(super) fn ended(&mut self, now: Now) -> Option<Slot> {
        let at = self.clock(now).wall;
        let ended = self.measuring.filter(|(_, end)| *end <= at).map(|(slot, _)| slot);
        self.measuring = self.meter.measuring(at).map(|(slot, _, end)| (slot, end));
        ended
    }

    /// When something is due next, by the true clock.
    pub(super) fn due(&self) -> Timestamp {
        let due = self.meter.deadline().into_iter().chain(self.measuring.map(|(_, end)| end)).min();
        let due = due.map_or(u64::MAX, Timestamp::as_millis);
        Timestamp::from_millis(due.saturating_sub(self.ahead_millis))
    }
}
