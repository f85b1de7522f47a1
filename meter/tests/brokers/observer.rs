//! Hears everything on the community's broker: knows what every sum must be, and whether any meter ever said two different things.

use std::collections::{BTreeMap, BTreeSet};

use dream_meter::identity;
use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::membership::MembershipList;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Message as _, Reveal};
use dream_testkit::lab::aggregates::Aggregate;
use dream_testkit::lab::client::Message;
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::oracle::Oracle;

use super::site::{CLUSTER, Site};

/// What a meter said about an attempt, or offered as its enrolment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Saying {
    pub(super) channel: MeterChannel,
    pub(super) meter: String,
    pub(super) slot: Slot,
    pub(super) attempt: u8,
}

/// Something that was heard.
pub(super) enum Heard {
    Saying(Saying),
    /// A slot that has just closed.
    Closed(Aggregate),
    /// Anything else.
    Other,
}

pub(super) struct Observer {
    watcher: Watcher,
    cluster: ClusterId,
    authorities: Authorities,
    oracle: Oracle,
    said: BTreeMap<Saying, Vec<u8>>,
    /// Enrolments, by meter.
    pub(super) enrolments: BTreeMap<String, Vec<u8>>,
    closed: BTreeSet<u64>,
}

impl Observer {
    pub(super) async fn start(site: &Site) -> Self {
        let [meters, gateways] = site.authorities();
        let authorities = identity::authorities(&[meters], &[gateways]).unwrap();
        Self {
            watcher: Watcher::start(site.spy(), &["#"]).await,
            cluster: ClusterId::new(CLUSTER).unwrap(),
            authorities,
            oracle: Oracle::default(),
            said: BTreeMap::new(),
            enrolments: BTreeMap::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Returns the next thing. What contradicts something earlier fails the test, and so does anything that is not DREAM's.
    pub(super) async fn next(&mut self) -> Heard {
        let Message { topic, payload, .. } = self.watcher.next().await;
        assert!(topic.starts_with("dream/v1/"), "{topic} has no business on the community's broker");
        if topic.starts_with("dream/v1/gateway/") || payload.is_empty() {
            return Heard::Other;
        }
        match Topic::parse(&topic).unwrap() {
            Topic::Meter { channel, meter, .. } => self.meter(channel, meter, payload),
            Topic::Gateway { channel: GatewayChannel::FullMembership, .. } => {
                let list = MembershipList::verify(&payload, &self.cluster, &self.authorities).unwrap();
                self.oracle.note_list(&list);
                Heard::Other
            }
            Topic::Gateway { channel: GatewayChannel::Recovery | GatewayChannel::Retry, .. } => {
                self.oracle.note_recovery(&payload);
                Heard::Other
            }
            Topic::Gateway { channel: GatewayChannel::Aggregate, .. } => {
                let aggregate: Aggregate = serde_json::from_slice(&payload).unwrap();
                if self.closed.insert(aggregate.slot) { Heard::Closed(aggregate) } else { Heard::Other }
            }
            Topic::Gateway { channel: GatewayChannel::Membership, .. } => Heard::Other,
        }
    }

    fn meter(&mut self, channel: MeterChannel, meter: &str, payload: Vec<u8>) -> Heard {
        let (slot, attempt) = match channel {
            MeterChannel::Reading => {
                let reading = MaskedReading::decode(Mac0::decode(&payload).unwrap().payload()).unwrap();
                (reading.slot, reading.attempt)
            }
            MeterChannel::Reveal => {
                let reveal = Reveal::decode(Mac0::decode(&payload).unwrap().payload()).unwrap();
                (reveal.slot, reveal.attempt)
            }
            MeterChannel::Enrol => {
                self.enrolments.insert(meter.to_owned(), payload);
                return Heard::Saying(Saying { channel, meter: meter.to_owned(), slot: Slot(0), attempt: 0 });
            }
            MeterChannel::Status => return Heard::Other,
        };
        let saying = Saying { channel, meter: meter.to_owned(), slot, attempt };
        let before = self.said.insert(saying.clone(), payload.clone());
        assert!(before.is_none_or(|before| before == payload), "{saying:?} was said twice, and differently");
        Heard::Saying(saying)
    }

    /// Returns whether a meter sent a reading of a slot.
    pub(super) fn has_reported(&self, meter: &str, slot: u64) -> bool {
        let of_slot = |saying: &&Saying| saying.channel == MeterChannel::Reading && saying.slot.0 == slot;
        self.said.keys().filter(of_slot).any(|saying| saying.meter == meter)
    }

    /// Checks a decoded slot against what the responders measured, to the watt, and returns who they were.
    pub(super) fn check(&self, closed: &Aggregate, watts: &BTreeMap<MeterId, i64>) -> BTreeSet<MeterId> {
        let expected = self.oracle.expected_of(Slot(closed.slot), |meter, _| watts[meter]);
        let expected = expected.unwrap_or_else(|| panic!("nobody was asked for {closed:?}"));
        assert_eq!(closed.load_watts, Some(expected.truth), "{closed:?}, {expected:?}");
        assert_eq!((closed.members, closed.responders), (expected.members, expected.responders.len()));
        expected.responders
    }

    pub(super) fn contradictions(&self) -> usize {
        self.oracle.contradictions()
    }
}
