//! Someone with the right to read everything, as nobody has in earnest: who said what about which attempt, and whether anyone
//! ever said two different things.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Message as _, Reveal};
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::Value;

/// What one meter says about one attempt on a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Saying {
    pub(super) channel: MeterChannel,
    pub(super) meter: String,
    pub(super) slot: Slot,
    pub(super) attempt: u8,
}

/// Something that was heard.
#[derive(Debug)]
pub(super) enum Heard {
    Saying {
        saying: Saying,
        /// Whether it was said for the first time.
        new: bool,
    },
    Aggregate(Value),
}

pub(super) struct Spy {
    heard: mpsc::Receiver<(String, Vec<u8>)>,
    pub(super) said: BTreeMap<Saying, Vec<u8>>,
}

impl Spy {
    /// Returns when it listens; it goes on listening when the broker comes back.
    pub(super) fn start(options: MqttOptions) -> Self {
        let (hear, heard) = mpsc::channel();
        let (ready, listening) = mpsc::channel();
        std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
                loop {
                    match eventloop.poll().await {
                        Ok(Event::Incoming(Packet::ConnAck(_))) => {
                            for filter in ["dream/v1/+/reading/+", "dream/v1/+/reveal/+", "dream/v1/+/aggregate"] {
                                client.try_subscribe(filter, QoS::AtLeastOnce).unwrap();
                            }
                        }
                        Ok(Event::Incoming(Packet::SubAck(_))) => drop(ready.send(())),
                        Ok(Event::Incoming(Packet::Publish(publish))) => {
                            let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                            if hear.send((topic, publish.payload.to_vec())).is_err() {
                                return;
                            }
                        }
                        Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
                        Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                    }
                }
            });
        });
        (0..3).for_each(|_| listening.recv().unwrap());
        Self { heard, said: BTreeMap::new() }
    }

    /// The next thing, unless nothing comes for so long. What contradicts something earlier fails the test.
    pub(super) fn next(&mut self, patience: Duration) -> Option<Heard> {
        let (topic, payload) = self.heard.recv_timeout(patience).ok()?;
        let (channel, meter) = match Topic::parse(&topic).unwrap() {
            Topic::Meter { channel, meter, .. } => (channel, meter.to_string()),
            Topic::Gateway { channel: GatewayChannel::Aggregate, .. } => {
                return Some(Heard::Aggregate(serde_json::from_slice(&payload).unwrap()));
            }
            Topic::Gateway { .. } => panic!("{topic}"),
        };
        let envelope = Mac0::decode(&payload).unwrap();
        let (slot, attempt) = match channel {
            MeterChannel::Reading => {
                let reading = MaskedReading::decode(envelope.payload()).unwrap();
                (reading.slot, reading.attempt)
            }
            MeterChannel::Reveal => {
                let reveal = Reveal::decode(envelope.payload()).unwrap();
                (reveal.slot, reveal.attempt)
            }
            MeterChannel::Enrol | MeterChannel::Status => panic!("{topic}"),
        };
        let saying = Saying { channel, meter, slot, attempt };
        let before = self.said.insert(saying.clone(), payload.clone());
        assert!(before.as_ref().is_none_or(|before| *before == payload), "{saying:?} was said twice, and differently");
        Some(Heard::Saying { saying, new: before.is_none() })
    }
}
