//! A fleet that is killed again and again, at the worst moments, never says two different things about one attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::command::succeed;

use super::gateway::running;
use super::meter_sim;
use super::provisioned::{CLUSTER, Provisioned};
use super::spy::{Heard, Spy};

const METERS: usize = 8;

/// After which of its messages the fleet is killed, in turn: the first is out, and the others are not.
const MOMENTS: [MeterChannel; 3] = [MeterChannel::Reading, MeterChannel::Reveal, MeterChannel::Reading];

#[test]
fn a_killed_fleet_resumes_and_answers_no_request_twice_differently() {
    let provisioned = Provisioned::new(METERS, 8);
    let broker = provisioned.broker();
    let _gateway = running(&provisioned.trial(), &broker.url());
    let mut spy = provisioned.spy(&broker);

    let mut lives = Lives::default();
    // Until two slots were at work in two lives, and every moment had its turn.
    while lives.shared_slots() < 2 || lives.life < MOMENTS.len() {
        assert!(lives.life < 30, "the fleet never comes back in time");
        let mut fleet = provisioned.fleet(&broker.url(), lives.life, &[]);
        lives.wait_for(MOMENTS[lives.life % MOMENTS.len()], &mut spy);
        fleet.kill().unwrap();
        fleet.wait().unwrap();
        lives.take_in(&mut spy);
        lives.life += 1;
    }
    let mut again = meter_sim(provisioned.folder());
    again.args(["run", "--dir", "trial", "--broker", &broker.url(), "--cluster", CLUSTER]);
    succeed(again.args(["--trial-policy", "--slots", "1"]));
    lives.take_in(&mut spy);
    assert!(spy.said.len() > METERS * lives.life, "{} attempts", spy.said.len());
}

/// In which lives of the fleet a slot was talked about.
#[derive(Default)]
struct Lives {
    life: usize,
    slots: BTreeMap<Slot, BTreeSet<usize>>,
}

impl Lives {
    /// Waits for a message on a channel that was not said before.
    fn wait_for(&mut self, wanted: MeterChannel, spy: &mut Spy) {
        while let Some(heard) = spy.next(Duration::from_secs(180)) {
            let Heard::Saying { saying, new } = heard else { continue };
            self.slots.entry(saying.slot).or_default().insert(self.life);
            if new && saying.channel == wanted {
                return;
            }
        }
        panic!("the fleet says nothing for three minutes");
    }

    /// Hears what is left.
    fn take_in(&mut self, spy: &mut Spy) {
        while let Some(heard) = spy.next(Duration::from_millis(200)) {
            if let Heard::Saying { saying, .. } = heard {
                self.slots.entry(saying.slot).or_default().insert(self.life);
            }
        }
    }

    fn shared_slots(&self) -> usize {
        self.slots.values().filter(|lives| lives.len() > 1).count()
    }
}
