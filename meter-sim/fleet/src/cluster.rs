//! Runs the meters of one cluster.

mod incoming;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dream_edge::clock::{self, Clock as _};
use dream_edge::mqtt::Message;
use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, MeterError};
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_virtual::oracle::Oracle;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::connection::{Connection, Event};
use crate::homes::Homes;
use crate::liar::{Begun, Liar, Lie, NONSENSE};
use crate::meter::{Effects, Measuring, Packet, SimulatedMeter};
use crate::records::{Change, RecordsError};
use crate::{ClusterSetup, Fault, Fleet, MeterSetup, Status};

/// The longest sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How far a skewed clock is ahead. Every gateway tolerates more.
const SKEW_MILLIS: u64 = 1000;

/// Why a fleet cannot go on.
#[derive(Debug, Error)]
pub enum FleetError {
    #[error("the meter `{meter}` cannot start: {error}")]
    Meter { meter: String, error: MeterError },
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("a thread could not be started")]
    Thread(#[from] std::io::Error),
    #[error("a cluster's thread has failed; this is a bug")]
    Panicked,
}

pub(crate) struct ClusterRunner {
    fleet: Arc<Fleet>,
    cluster: ClusterId,
    members: Vec<SimulatedMeter>,
    homes: Homes,
    connections: Vec<Connection>,
    events: mpsc::UnboundedReceiver<Event>,
    wakes: BTreeSet<(Timestamp, usize)>,
    /// The newest list that was verified, whole and in its short form, as far as they came.
    list: Option<Arc<MembershipList>>,
    short: Option<Arc<MembershipList>>,
    /// Connections whose meters need other topics than before, and meters that need whole lists only now.
    resubscribing: BTreeSet<usize>,
    newcomers: Vec<usize>,
    /// Readings that are held back, by when they go out.
    late: BTreeMap<(Timestamp, usize), Packet>,
    /// The slot in which a meter was last restarted by a fault.
    restarted: HashMap<usize, Slot>,
    /// The effects of this round: committed together, then sent.
    effects: Vec<(usize, Effects)>,
    /// The meters that will lie, and those that do not reveal any more.
    liars: Vec<(usize, Liar)>,
    mute: BTreeSet<usize>,
    /// Whether all meters have accepted a list since this process began.
    complete: bool,
    oracle: Arc<Mutex<Oracle>>,
    status: Arc<Mutex<Status>>,
    started: Instant,
}

impl ClusterRunner {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        setup: ClusterSetup,
        oracle: Arc<Mutex<Oracle>>,
        status: Arc<Mutex<Status>>,
    ) -> Result<Self, FleetError> {
        let ClusterSetup { cluster, meters, homes, liars } = setup;
        let (sender, events) = mpsc::unbounded_channel();
        let mut members = Vec::with_capacity(meters.len());
        for setup in meters {
            members.push(resume(&fleet, &cluster, setup)?);
        }
        let connect = |(number, some): (usize, &[SimulatedMeter])| {
            let first = &some[0].setup;
            let id = if some.len() == 1 { first.id.to_string() } else { format!("fleet-{cluster}-{number}") };
            let topics = incoming::topics(&cluster, some);
            Connection::start(number, first.access.client(id, true), topics, sender.clone())
        };
        let connections: Vec<_> = members.chunks(fleet.per_connection.max(1)).enumerate().map(connect).collect();
        *lock(&status) = Status { meters: members.len(), connections: connections.len(), ..Status::default() };
        let wakes = (0..members.len()).map(|index| (Timestamp::from_millis(0), index)).collect();
        Ok(Self {
            fleet,
            cluster,
            members,
            homes: Homes::new(homes),
            connections,
            events,
            wakes,
            list: None,
            short: None,
            resubscribing: BTreeSet::new(),
            newcomers: Vec::new(),
            late: BTreeMap::new(),
            restarted: HashMap::new(),
            effects: Vec::new(),
            liars,
            mute: BTreeSet::new(),
            complete: false,
            oracle,
            status,
            started: Instant::now(),
        })
    }

    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), FleetError> {
        let mut batch = Vec::new();
        loop {
            let wait = self.until_due();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                _ = self.events.recv_many(&mut batch, 1024) => {}
                () = tokio::time::sleep(wait) => {}
            }
            let fleet = self.fleet.clone();
            let _held = fleet.clock.as_ref().map(|clock| clock.hold());
            for event in batch.drain(..) {
                match event {
                    Event::Connected(connection) => self.connected(connection),
                    Event::Lost { connection, reason } => {
                        let mut status = lock(&self.status);
                        status.connected.remove(&connection);
                        status.trouble = Some(reason);
                    }
                    Event::Messages { connection, messages } => {
                        for Message { topic, payload, .. } in messages {
                            if let Ok(topic) = std::str::from_utf8(&topic) {
                                self.message(connection, topic, &payload);
                            }
                        }
                    }
                }
            }
            self.tick();
            self.carry_out()?;
            while self.follow_subscriptions() {
                self.carry_out()?;
            }
            self.begin_lies()?;
            self.end_round();
        }
        self.connections.iter().for_each(Connection::disconnect);
        Ok(())
    }

    /// Lets meters lie whose time has come. Everything that they have recorded is on disk now, so that they can start again.
    fn begin_lies(&mut self) -> Result<(), FleetError> {
        if self.liars.is_empty() {
            return Ok(());
        }
        let (slots, reported) = {
            let status = lock(&self.status);
            (status.slots, status.slot)
        };
        let Some((slot, ..)) = reported else { return Ok(()) };
        for (index, Liar { lie, .. }) in
            self.liars.extract_if(.., |(_, liar)| liar.after_slots <= slots).collect::<Vec<_>>()
        {
            match lie {
                Lie::NeverReveals => drop(self.mute.insert(index)),
                Lie::SpoilsSums => {
                    self.members[index].setup.simulation.share = Some(NONSENSE);
                    self.restart(index)?;
                }
            }
            let meter = self.members[index].setup.id.clone();
            lock(&self.status).lies.push(Begun { meter, lie, since: slot });
        }
        Ok(())
    }

    fn end_round(&mut self) {
        let now = self.now().wall;
        let mut status = lock(&self.status);
        if std::mem::take(&mut status.busy) {
            status.since = Some(now);
            self.complete = status.list.is_some_and(|(_, accepted)| accepted == status.meters);
        }
    }

    fn now(&self) -> Now {
        if let Some(clock) = &self.fleet.clock {
            return clock.both();
        }
        let monotonic_millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { wall: clock::wall(), monotonic_millis }
    }

    fn until_due(&self) -> Duration {
        let late = self.late.first_key_value().map(|((at, _), _)| *at);
        let due = self.wakes.first().map(|(at, _)| *at).into_iter().chain(late).min();
        let wait = due.map_or(u64::MAX, |due| due.millis_since(self.now().wall));
        let wait = Duration::from_millis(wait);
        self.fleet.clock.as_ref().map_or(wait, |clock| clock.to_sleep(wait)).min(LONGEST_SLEEP)
    }

    fn on(&self, connection: usize) -> Range<usize> {
        let each = self.fleet.per_connection.max(1);
        connection * each..((connection + 1) * each).min(self.members.len())
    }

    fn connection_of(&self, index: usize) -> usize {
        index / self.fleet.per_connection.max(1)
    }

    fn connected(&mut self, connection: usize) {
        lock(&self.status).connected.insert(connection);
        for index in self.on(connection) {
            self.input(index, Input::Connected);
        }
    }

    fn is_off(&self, index: usize, slot: Slot) -> bool {
        self.fleet.faults.at(&self.members[index].setup.id, slot) == Some(Fault::Silent)
    }

    fn input(&mut self, index: usize, input: Input<'_>) {
        let now = self.now();
        let member = &mut self.members[index];
        let effects = member.handle(input, now);
        if let Some(hidden) = effects.hidden {
            let mut oracle = lock(&self.oracle);
            oracle.note_hidden(&member.setup.id, hidden);
        }
        if !effects.notices.is_empty() {
            let mut status = lock(&self.status);
            effects.notices.iter().for_each(|notice| status.note(notice));
        }
        if effects.resubscribes {
            self.resubscribing.insert(self.connection_of(index));
        }
        if effects.subscribed.contains(&GatewayChannel::FullMembership) {
            self.newcomers.push(index);
        }
        self.effects.push((index, effects));
        self.schedule(index);
    }

    fn schedule(&mut self, index: usize) {
        let now = self.now();
        let member = &mut self.members[index];
        self.wakes.remove(&(member.wake, index));
        // A deadline that was handled has moved; never look twice in one millisecond.
        member.wake = member.due().max(now.wall.plus_millis(1));
        self.wakes.insert((member.wake, index));
    }

    /// Reports the slots that have ended, and lets time pass for the meters that are due.
    fn tick(&mut self) {
        let now = self.now();
        while let Some((at, index)) = self.wakes.first().copied().filter(|(at, _)| *at <= now.wall) {
            self.wakes.remove(&(at, index));
            if let Some(ended) = self.members[index].ended(now) {
                self.measured(index, ended);
            }
            self.input(index, Input::Tick);
        }
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now.wall) {
            let ((_, index), packet) = entry.remove_entry();
            self.send(index, packet.topic, packet.payload.to_vec());
        }
    }

    fn measured(&mut self, index: usize, (slot, begin, end): Measuring) {
        let id = &self.members[index].setup.id;
        let fault = self.fleet.faults.at(id, slot);
        let next = self.fleet.faults.at(id, slot.plus(1));
        self.members[index].ahead_millis = if next == Some(Fault::Skew) { SKEW_MILLIS } else { 0 };
        if fault != Some(Fault::Silent) {
            let Fleet { source, speed, .. } = &*self.fleet;
            let watts = self.homes.watts(source, *speed, index, slot, (begin, end));
            self.input(index, Input::Measured { slot, watts });
        }
    }

    /// Commits the effects of this round, then sends their packets.
    fn carry_out(&mut self) -> Result<(), FleetError> {
        let round = std::mem::take(&mut self.effects);
        let (cluster, members) = (&self.cluster, &self.members);
        let changes = round.iter().flat_map(|(index, effects)| {
            let id = &members[*index].setup.id;
            effects.changes.iter().map(move |change: &Change| (cluster, id, change))
        });
        if round.iter().any(|(_, effects)| !effects.changes.is_empty()) {
            let lists: Vec<&[u8]> = self.lists().map(|list| &**list.bytes()).collect();
            self.fleet.records.commit(changes, &lists)?;
        }
        for (index, effects) in round {
            for packet in effects.packets {
                self.publish(index, packet)?;
            }
        }
        Ok(())
    }

    /// Sends a packet, altered by the fault of its slot if there is one.
    fn publish(&mut self, index: usize, packet: Packet) -> Result<(), FleetError> {
        if packet.channel == MeterChannel::Reveal && self.mute.contains(&index) {
            return Ok(());
        }
        let slot = faulty_slot(&packet);
        let fault = slot.and_then(|slot| self.fleet.faults.at(&self.members[index].setup.id, slot));
        let Packet { topic, payload, .. } = &packet;
        let (topic, mut bytes) = (topic.clone(), payload.to_vec());
        match fault {
            Some(Fault::Late) => {
                let after = self.lists().next().map_or(1, |list| list.params().terms().reading_seconds);
                self.late.insert((self.now().wall.plus_secs(after), index), packet);
                return Ok(());
            }
            Some(Fault::Duplicate) => self.send(index, topic.clone(), bytes.clone()),
            Some(Fault::Corrupted) => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x55;
            }
            Some(Fault::Silent) => return Ok(()),
            // Once: it sends its reading again when it is back.
            Some(Fault::Restart) if self.restarted.get(&index).copied() != slot => {
                self.restarted.extend(slot.map(|slot| (index, slot)));
                self.restart(index)?;
            }
            Some(Fault::Restart | Fault::Skew) | None => {}
        }
        self.send(index, topic, bytes);
        Ok(())
    }

    fn send(&self, index: usize, topic: String, bytes: Vec<u8>) {
        self.connections[self.connection_of(index)].publish(topic, bytes);
    }

    /// The newest list, in the forms that came.
    fn lists(&self) -> impl Iterator<Item = &MembershipList> {
        [&self.short, &self.list].into_iter().filter_map(|list| list.as_deref())
    }

    /// Restarts a meter from its records, as after a power loss.
    fn restart(&mut self, index: usize) -> Result<(), FleetError> {
        let before = &self.members[index];
        let again = resume(&self.fleet, &self.cluster, before.setup.clone())?;
        self.wakes.remove(&(before.wake, index));
        self.members[index] = again;
        self.resubscribing.insert(self.connection_of(index));
        self.schedule(index);
        Ok(())
    }
}

/// Restores a meter from its records.
fn resume(fleet: &Fleet, cluster: &ClusterId, setup: MeterSetup) -> Result<SimulatedMeter, FleetError> {
    let records = fleet.records.of(cluster, &setup.id)?;
    let meter = setup.id.to_string();
    SimulatedMeter::resume(setup, cluster, &fleet.policy, records, fleet.seed)
        .map_err(|error| FleetError::Meter { meter, error })
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the slot of a reading's first attempt. Faults happen to no other message.
fn faulty_slot(packet: &Packet) -> Option<Slot> {
    let about = packet.about.filter(|about| packet.channel == MeterChannel::Reading && about.attempt == 0);
    about.map(|about| about.slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_an_error_is_told_once() {
        let told = |error: FleetError| format!("{:#}", anyhow::Error::from(error));
        let thread = FleetError::from(std::io::Error::other("no more of them"));
        assert_eq!(told(thread), "a thread could not be started: no more of them");
        let records = FleetError::from(RecordsError::from(redb::Error::Corrupted("a page".to_owned())));
        assert_eq!(told(records), "the meters' records cannot be read or written: DB corrupted: a page");
    }
}
