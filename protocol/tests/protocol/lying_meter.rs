//! Members that lie to an honest gateway, one test per lie: nothing wrong is decoded, and the rule that refuses is named.

mod crashes;
mod enrolments;
mod readings;
mod reveals;
mod statuses;
mod tampering;

use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{Input, Rejection};
use dream_protocol::time::{Slot, Timestamp};

use crate::support::world::{Packet, World};

/// Ten honest members, M = 2, T = 1, in their first slot; meter `i` measures `100 << i` watts, at most 5,000.
struct Round {
    world: World,
    slot: Slot,
    end: Timestamp,
    /// Seconds since the slot ended.
    now: u64,
}

impl Round {
    fn new() -> Self {
        let mut world = World::new(10);
        let slot = world.first_slot();
        let end = world.slot_end(slot);
        world.gateway.handle(Input::Tick, end);
        Self { world, slot, end, now: 31 }
    }

    fn watts(meter: usize) -> i64 {
        (100i64 << meter).min(5000)
    }

    fn sum(meters: impl IntoIterator<Item = usize>) -> i64 {
        meters.into_iter().map(Self::watts).sum()
    }

    /// The reading that a meter's machine makes.
    fn reading(&mut self, meter: usize) -> Packet {
        self.world.measure(meter, self.slot, Self::watts(meter)).remove(0)
    }

    /// Hands the gateway a message, and returns why it was not used.
    fn receive(&mut self, packet: &Packet) -> Option<Rejection> {
        self.world.gateway.receive(packet, self.end.plus_secs(self.now));
        let mut rejections = std::mem::take(&mut self.world.gateway.rejections);
        assert!(rejections.len() <= 1);
        rejections.pop()
    }

    /// Sends these meters' readings in.
    fn report(&mut self, meters: impl IntoIterator<Item = usize>) {
        for meter in meters {
            let reading = self.reading(meter);
            assert_eq!(self.receive(&reading), None);
        }
    }

    /// Lets the reading window end, if it has not because all readings are in, and returns the request.
    fn freeze(&mut self) -> Packet {
        let asked = |packets: Vec<Packet>| packets.into_iter().rfind(|packet| packet.topic.ends_with("/recovery"));
        let complete = asked(self.world.gateway.handle(Input::Connected, self.end.plus_secs(self.now)));
        complete.unwrap_or_else(|| {
            self.now = 60;
            asked(self.world.gateway.tick_until(self.end.plus_secs(60))).unwrap()
        })
    }

    /// The reveal that a meter's machine makes.
    fn reveal(&mut self, meter: usize, request: &Packet) -> Packet {
        self.world.deliver(meter, request, self.end.plus_secs(self.now)).remove(0)
    }

    /// Sends these meters' reveals in.
    fn answer(&mut self, request: &Packet, meters: impl IntoIterator<Item = usize>) {
        for meter in meters {
            let reveal = self.reveal(meter, request);
            assert_eq!(self.receive(&reveal), None);
        }
    }

    fn outcome(&self) -> SlotOutcome {
        let [outcome] = self.world.gateway.outcomes.as_slice() else { panic!("one outcome") };
        *outcome
    }

    /// The decoded sum.
    fn decoded(&self) -> i64 {
        self.outcome().result.unwrap().watts()
    }
}
