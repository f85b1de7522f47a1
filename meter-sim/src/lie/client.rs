//! An MQTT client that forwards what arrives. A lost connection ends it: a run is short and can be repeated.

use rumqttc::{
    AsyncClient, Event as Polled, EventLoop, Packet, PublishOptions, QoS, SubscribeFilter, SubscribeReasonCode,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::link::{Event, Publish};
use dream_fleet::access::Access;

#[derive(Debug)]
pub(super) struct Client {
    client: AsyncClient,
    polling: JoinHandle<()>,
}

impl Client {
    /// Connects and subscribes. Must be called within a runtime.
    pub(super) fn connect(access: &Access, id: &str, filters: &[String]) -> (Self, UnboundedReceiver<Event>) {
        let (client, connection) = AsyncClient::builder(access.options(id)).unbounded().build();
        let filters = filters.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce)).collect();
        let (events, receiver) = unbounded_channel();
        let polling = tokio::spawn(poll(client.clone(), connection, filters, events));
        (Self { client, polling }, receiver)
    }
}

impl Publish for Client {
    fn publish(&self, topic: &str, payload: &[u8]) {
        // It fails only when the connection is gone, which is reported as an event.
        self.client.try_publish(topic, payload.to_vec(), PublishOptions::at_least_once()).ok();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

async fn poll(
    client: AsyncClient,
    mut connection: EventLoop,
    filters: Vec<SubscribeFilter>,
    events: UnboundedSender<Event>,
) {
    loop {
        let event = match connection.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(_))) => {
                client.try_subscribe_many(filters.clone()).ok();
                continue;
            }
            Ok(Polled::Incoming(Packet::SubAck(answer))) => {
                if answer.return_codes.contains(&SubscribeReasonCode::Failure) {
                    Event::Lost("it refuses a subscription; see its access rules".to_owned())
                } else {
                    Event::Subscribed
                }
            }
            Ok(Polled::Incoming(Packet::Publish(publish))) => match String::from_utf8(publish.topic.to_vec()) {
                Ok(topic) => Event::Message { topic, payload: publish.payload.to_vec() },
                Err(_) => continue,
            },
            Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => continue,
            Err(error) => Event::Lost(error.to_string()),
        };
        let over = matches!(event, Event::Lost(_));
        if events.send(event).is_err() || over {
            return;
        }
    }
}
