//! One MQTT connection for one or more meters of a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rumqttc::{
    AsyncClient, Event as Polled, EventLoop, MqttOptions, Packet, PublishOptions, QoS, SessionMode, SubscribeFilter,
};
use tokio::sync::mpsc;

/// What happens on a connection, with its number.
#[derive(Debug)]
pub(crate) enum Event {
    Connected(usize),
    Lost { connection: usize, reason: String },
    Message { connection: usize, topic: String, payload: Bytes },
}

#[derive(Debug)]
pub(crate) struct Connection {
    client: AsyncClient,
    topics: Topics,
}

/// Every topic that a connection may subscribe to, with whether it does.
type Topics = Arc<Mutex<BTreeMap<String, bool>>>;

impl Connection {
    /// Connects, reconnects after every loss, subscribes each time to what is wanted then, and forwards what arrives.
    pub(crate) fn start(
        number: usize,
        mut options: MqttOptions,
        topics: BTreeMap<String, bool>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        options.set_session_mode(SessionMode::Persistent);
        let (client, eventloop) = AsyncClient::builder(options).unbounded().build();
        let topics = Arc::new(Mutex::new(topics));
        tokio::spawn(poll(number, client.clone(), eventloop, topics.clone(), events));
        Self { client, topics }
    }

    /// Subscribes to a topic, or does so no more, now or when the connection is back. Returns whether it did already.
    pub(crate) fn want(&self, topic: String, wanted: bool) -> bool {
        let before = {
            let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            topics.insert(topic.clone(), wanted).unwrap_or_default()
        };
        let told = match (before, wanted) {
            (false, true) => self.client.try_subscribe(topic, QoS::AtLeastOnce),
            (true, false) => self.client.try_unsubscribe(topic),
            (false, false) | (true, true) => Ok(()),
        };
        if told.is_err() {
            // The task that polls has ended with the fleet.
        }
        before
    }

    /// Publishes with QoS 1, now or when the connection is back.
    pub(crate) fn publish(&self, topic: String, payload: Vec<u8>) {
        if self.client.try_publish(topic, payload, PublishOptions::new(QoS::AtLeastOnce)).is_err() {
            // The task that polls has ended with the fleet.
        }
    }

    pub(crate) fn disconnect(&self) {
        self.client.try_disconnect().ok();
    }
}

/// Only polls: a task that also waited for room to publish would wait for itself.
async fn poll(
    number: usize,
    client: AsyncClient,
    mut eventloop: EventLoop,
    topics: Topics,
    events: mpsc::UnboundedSender<Event>,
) {
    let mut wait = Duration::from_millis(200);
    // Whether the broker has not confirmed the first subscriptions of this connection yet.
    let mut connecting = true;
    while !events.is_closed() {
        let event = match eventloop.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(ack))) => {
                (wait, connecting) = (Duration::from_millis(200), true);
                subscribe(&client, &topics, ack.session_present);
                continue;
            }
            Ok(Polled::Incoming(Packet::SubAck(_))) if connecting => {
                connecting = false;
                Event::Connected(number)
            }
            Ok(Polled::Incoming(Packet::Publish(publish))) => {
                let Ok(topic) = String::from_utf8(publish.topic.to_vec()) else { continue };
                Event::Message { connection: number, topic, payload: publish.payload }
            }
            Ok(Polled::Outgoing(rumqttc::Outgoing::Disconnect)) => return,
            Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => continue,
            Err(error) => {
                if events.send(Event::Lost { connection: number, reason: error.to_string() }).is_err() {
                    return;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(10));
                continue;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Subscribes to what is wanted. A session that the broker has kept may be subscribed to more.
fn subscribe(client: &AsyncClient, topics: &Topics, kept: bool) {
    let topics = topics.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (wanted, others): (Vec<_>, Vec<_>) = topics.into_iter().partition(|(_, wanted)| *wanted);
    let wanted = wanted.into_iter().map(|(topic, _)| SubscribeFilter::new(topic, QoS::AtLeastOnce));
    client.try_subscribe_many(wanted.collect::<Vec<_>>()).ok();
    for (topic, _) in others.into_iter().filter(|_| kept) {
        client.try_unsubscribe(topic).ok();
    }
}
