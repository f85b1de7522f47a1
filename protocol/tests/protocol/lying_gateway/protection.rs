//! A gateway that lets T fall with the cluster: with twelve colluders among 120 members it would list them with fewer homes
//! the next day, and state that there are fewer of them.

use dream_protocol::ids::ClusterId;
use dream_protocol::keys::ListHash;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, MeterConfig, Refusal};
use dream_protocol::policy::Profile;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{Message as _, Sign1, Status, StatusCode};

use crate::support::liar::{Draft, Liar, NO_NOISE, on};
use crate::support::pki::Pki;
use crate::support::world::{MeterNode, Packet};
use crate::support::{START, at, cluster_id, enrol, meter_config, meter_name, policy, rng};

const DAY: u64 = 86_400;

/// A home with the default floors, and a gateway that signs any list of it and others.
struct Street {
    pki: Pki,
    home: MeterNode,
    enrolment: Vec<u8>,
    last: Option<(u64, Draft)>,
}

impl Street {
    /// A home whose own certificate says how many meters the cluster has, or nothing.
    fn new(size: Option<u16>) -> Self {
        let pki = Pki::new();
        let mut home = MeterNode::new(Self::config(&pki, size), NO_NOISE, rng(1));
        let sent = home.handle(Input::Connected, at(START));
        Self { enrolment: sent[0].payload.to_vec(), pki, home, last: None }
    }

    fn config(pki: &Pki, size: Option<u16>) -> MeterConfig {
        let config = meter_config(pki, &meter_name(0));
        let policy = policy(pki).with_profile(Profile::Strict);
        let named = |size: u16| pki.meter_named(&meter_name(0), &format!("urn:dream:cluster:north:{size}")).der;
        MeterConfig { certificate: size.map_or(config.certificate, named), policy, ..config }
    }

    /// Offers the home the next list, of so many members of whom so many may be malicious. Returns why it is refused.
    fn offer(&mut self, members: usize, malicious: u64, now: u64) -> Option<Refusal> {
        for packet in self.home.handle(Input::Tick, at(now)) {
            if packet.topic == self.home.meter.topic(MeterChannel::Enrol) {
                self.enrolment = packet.payload.to_vec();
            }
        }
        let other = |id: String| {
            enrol(&id, &self.pki.meter(&id), |statement| {
                (statement.not_before, statement.not_after) = (now, now + 30 * DAY)
            })
        };
        let others = (1..members).map(meter_name).map(other);
        let mut draft = Liar::enrolled(0, |_| {}, NO_NOISE).draft();
        draft.enrolments = std::iter::once(self.enrolment.clone()).chain(others).collect();
        draft.terms.max_malicious = malicious;
        draft.epoch = now;
        draft.from_slot.0 = now.div_ceil(600) + 1;
        draft.to_slot.0 = draft.from_slot.0 + 5;
        if let Some((epoch, last)) = &self.last {
            draft.previous_epoch = *epoch;
            draft.previous = self.hash(last);
        }
        let sent = self.home.receive(&draft.sign(&self.pki.gateway("gw")), at(now));
        let refusals = self.home.refusals();
        if refusals.is_empty() {
            self.last = Some((now, draft));
        } else {
            self.check_status(&sent);
        }
        refusals.first().cloned()
    }

    fn hash(&self, draft: &Draft) -> ListHash {
        let packet = draft.sign(&self.pki.gateway("gw"));
        let authorities = self.pki.authorities();
        *MembershipList::verify(&packet.payload, &cluster_id(), &authorities).unwrap().hash()
    }

    /// The status says that the list is refused, and which T it had.
    fn check_status(&self, sent: &[Packet]) {
        let statuses = on(MeterChannel::Status, sent);
        // The same status is not sent more than once a minute.
        for packet in statuses {
            let status = Status::decode(Sign1::decode(&packet.payload).unwrap().payload()).unwrap();
            assert_eq!((status.code, status.least_malicious > 0), (StatusCode::ListRefused, true));
        }
    }
}

fn falls(least: u16, found: u16) -> Option<Refusal> {
    Some(Refusal::ProtectionFalls { least, found })
}

#[test]
fn a_cluster_may_shrink_and_t_may_not_with_it() {
    let mut street = Street::new(None);
    assert_eq!(street.offer(120, 12, START + 600), None);
    assert_eq!(street.offer(50, 10, START + 1200), falls(11, 10));
    assert_eq!(street.offer(50, 12, START + 1800), None, "N may fall");
    assert_eq!(street.offer(100, 10, START + 2400), falls(11, 10), "a list that kept T makes it no less");
    assert_eq!(street.offer(50, 11, START + 3000), None, "one step");
    assert_eq!(street.offer(50, 10, START + 3600), falls(11, 10), "and no second one");
    assert_eq!(street.offer(200, 20, START + 4200), None);
    assert_eq!(street.offer(120, 12, START + 4800), falls(18, 12), "what is gained is not lost");
}

#[test]
fn t_falls_slowly() {
    let mut street = Street::new(None);
    assert_eq!(street.offer(130, 13, START), None);
    let mut accepted = vec![13];
    for day in (5..=120).step_by(5) {
        let now = START + day * DAY;
        let lowest = (10..=13).find(|&malicious| street.offer(60, malicious, now + malicious * 60).is_none());
        let lowest = lowest.expect("what was accepted the day before is accepted");
        if accepted.last() != Some(&lowest) {
            accepted.push(lowest);
        }
        let least = 13 - 1 - (day / 30);
        assert!(lowest >= least, "T is {lowest} after {day} days");
    }
    assert_eq!(accepted, [13, 12, 11, 10]);
}

#[test]
fn the_size_in_the_meters_own_certificate_is_a_reason() {
    let mut street = Street::new(Some(100));
    assert_eq!(street.offer(120, 12, START + 600), None);
    assert_eq!(street.offer(75, 10, START + 1200), None, "the authority says that there are 100");
    let mut street = Street::new(Some(101));
    assert_eq!(street.offer(120, 12, START + 600), None);
    assert_eq!(street.offer(75, 10, START + 1200), falls(11, 10));
}

#[test]
fn what_protected_a_meter_outlives_a_restart_and_another_cluster_starts_anew() {
    let mut street = Street::new(None);
    assert_eq!(street.offer(120, 12, START + 600), None);
    street.home.restart(Street::config(&street.pki, None), NO_NOISE);
    assert_eq!(street.offer(50, 10, START + 1200), falls(11, 10));
    // The owner moves the meter to another cluster, and back.
    let [there, here] = [Street::config(&street.pki, None), Street::config(&street.pki, None)];
    for config in [MeterConfig { cluster: ClusterId::new("south").unwrap(), ..there }, here] {
        street.home.restart(config, NO_NOISE);
        let sent = street.home.handle(Input::Connected, at(START + 1800));
        street.enrolment = on(MeterChannel::Enrol, &sent)[0].payload.to_vec();
    }
    street.last = None;
    assert_eq!(street.offer(50, 10, START + 2400), None);
}
