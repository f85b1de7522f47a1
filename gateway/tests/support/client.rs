//! An MQTT client that subscribes again on every connection and hands on what arrives.

use std::time::Duration;

use rumqttc::{AsyncClient, Event as MqttEvent, EventLoop, Packet, PublishOptions, QoS, SubscribeFilter};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::broker::Access;

/// What happens to a client.
#[derive(Debug)]
pub enum Event {
    /// Connected, and subscribed.
    Subscribed,
    Disconnected,
    Message(Message),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    /// Whether the broker had kept it.
    pub retained: bool,
}

pub struct Client {
    client: AsyncClient,
    polling: JoinHandle<()>,
}

impl Client {
    /// Connects with a session that outlives the connection.
    pub fn connect(access: &Access, id: &str, filters: &[String]) -> (Self, UnboundedReceiver<Event>) {
        let mut options = access.options(id);
        options.set_clean_session(false);
        let (client, connection) = AsyncClient::builder(options).unbounded().build();
        let (events, receiver) = unbounded_channel();
        let filters: Vec<_> =
            filters.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce)).collect();
        let polling = tokio::spawn(poll(client.clone(), connection, filters, events));
        (Self { client, polling }, receiver)
    }

    /// Publishes with QoS 1, now or when the connection is back.
    pub fn publish(&self, topic: &str, payload: &[u8], retained: bool) {
        let options = PublishOptions::at_least_once().retain(retained);
        self.client.try_publish(topic, payload.to_vec(), options).unwrap();
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
    while !events.is_closed() {
        let event = match connection.poll().await {
            Ok(MqttEvent::Incoming(Packet::ConnAck(_))) => {
                client.try_subscribe_many(filters.clone()).unwrap();
                continue;
            }
            Ok(MqttEvent::Incoming(Packet::SubAck(_))) => Event::Subscribed,
            Ok(MqttEvent::Incoming(Packet::Publish(publish))) => Event::Message(Message {
                topic: String::from_utf8(publish.topic.to_vec()).unwrap(),
                payload: publish.payload.to_vec(),
                retained: publish.retain,
            }),
            Ok(_) => continue,
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Event::Disconnected
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}
