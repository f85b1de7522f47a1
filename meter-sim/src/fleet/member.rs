//! One simulated meter: the protocol's own machine, the home it measures, and what goes wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::meter::{About, Input, Meter, MeterConfig, MeterError, Notice, Output, Record};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::{Hidden, Simulated, Simulation};
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};

use super::records::Change;
use crate::access::Access;
use crate::provision::Issued;

/// Who a meter is.
#[derive(Debug, Clone)]
pub struct Setup {
    pub id: MeterId,
    pub issued: Issued,
    /// How it reaches the broker.
    pub access: Access,
    /// Whether, and how, it cheats.
    pub simulation: Simulation,
}

impl Setup {
    /// The machine as its records left it.
    pub fn resume(
        &self,
        cluster: &ClusterId,
        policy: &Policy,
        records: Vec<Record>,
    ) -> Result<Meter<Simulated>, MeterError> {
        let config = MeterConfig {
            identity: self.issued.identity(),
            certificate: self.issued.der.clone(),
            cluster: cluster.clone(),
            policy: policy.clone(),
        };
        Meter::simulated(config, records, self.simulation)
    }
}

/// A meter with what surrounds it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) setup: Setup,
    pub(super) meter: Meter<Simulated>,
    /// What all its chance comes from.
    rng: ChaCha20Rng,
    /// The slots that are to be measured, by their end.
    measuring: BTreeMap<Timestamp, Measuring>,
    /// How far its clock is ahead.
    pub(super) ahead_millis: u64,
    /// When to look at it next.
    pub(super) wake: Timestamp,
}

/// A slot, its begin and its end.
pub(super) type Measuring = (Slot, Timestamp, Timestamp);

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
    pub(super) channel: MeterChannel,
    pub(super) about: Option<About>,
    pub(super) topic: String,
    pub(super) payload: Arc<[u8]>,
}

impl Member {
    /// A meter as its records left it. All its chance follows from `seed` and the records: the same once more, and
    /// something else after a restart, because every secret that was used is recorded before.
    pub(super) fn resume(
        setup: Setup,
        cluster: &ClusterId,
        policy: &Policy,
        records: Vec<Record>,
        seed: u64,
    ) -> Result<Self, MeterError> {
        let mut hash = Sha256::new().chain_update(format!("{seed}/secrets/{}/", setup.id));
        records.iter().for_each(|record| hash.update(record.encode()));
        let rng = ChaCha20Rng::from_seed(hash.finalize().into());
        let meter = setup.resume(cluster, policy, records)?;
        Ok(Self { setup, meter, rng, measuring: BTreeMap::new(), ahead_millis: 0, wake: Timestamp::from_millis(0) })
    }

    pub(super) fn handle(&mut self, input: Input<'_>, now: Now) -> Wants {
        let now = self.clock(now);
        self.meter.handle(input, now, &mut self.rng);
        let mut wants = Wants { hidden: self.meter.take_hidden(), ..Wants::default() };
        while let Some(output) = self.meter.poll() {
            match output {
                Output::Persist(record) => wants.changes.push(Change::Put(record)),
                Output::Erase(key) => wants.changes.push(Change::Erase(key)),
                Output::Measure { slot, from, to } => drop(self.measuring.insert(to, (slot, from, to))),
                Output::Publish { channel, about, payload } => {
                    wants.packets.push(Packet { channel, about, topic: self.meter.topic(channel), payload });
                }
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
    pub(super) fn ended(&mut self, now: Now) -> Option<Measuring> {
        let at = self.clock(now).wall;
        let ended = self.measuring.first_entry().filter(|next| *next.key() <= at);
        ended.map(|ended| ended.remove())
    }

    /// When something is due next, by the true clock.
    pub(super) fn due(&self) -> Timestamp {
        let due = self.meter.deadline().into_iter().chain(self.measuring.keys().next().copied()).min();
        let due = due.map_or(u64::MAX, Timestamp::as_millis);
        Timestamp::from_millis(due.saturating_sub(self.ahead_millis))
    }
}
