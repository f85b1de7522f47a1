//! One MQTT connection for one or more meters of a cluster.

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
}

impl Connection {
    /// Connects, reconnects after every loss, subscribes to the filters each time, and forwards what arrives.
    pub(crate) fn start(
        number: usize,
        mut options: MqttOptions,
        filters: Vec<String>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        options.set_session_mode(SessionMode::Persistent);
        let (client, eventloop) = AsyncClient::builder(options).unbounded().build();
        let filters = filters.into_iter().map(|filter| SubscribeFilter::new(filter, QoS::AtLeastOnce)).collect();
        tokio::spawn(poll(number, client.clone(), eventloop, filters, events));
        Self { client }
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
    filters: Vec<SubscribeFilter>,
    events: mpsc::UnboundedSender<Event>,
) {
    let mut wait = Duration::from_millis(200);
    while !events.is_closed() {
        let event = match eventloop.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(_))) => {
                wait = Duration::from_millis(200);
                client.try_subscribe_many(filters.clone()).ok();
                continue;
            }
            Ok(Polled::Incoming(Packet::SubAck(_))) => Event::Connected(number),
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
