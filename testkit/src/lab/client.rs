//! MQTT clients: one that stays connected and hands on what arrives, and some that do one thing and go.
//!
//! They take [`MqttOptions`], so that any description of a broker will do.

use std::time::Duration;

use rumqttc::{
    AsyncClient, Event as Polled, EventLoop, LastWill, MqttOptions, Outgoing, Packet, PublishOptions, QoS,
    SubscribeFilter, SubscribeReasonCode,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::patiently;

/// How long a client waits before it connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// A message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    /// Whether the broker had kept it.
    pub retained: bool,
}

impl Message {
    /// Returns the payload as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

/// A broker's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Granted,
    /// The broker said no.
    Refused,
    /// The connection ended instead, or could not be made.
    Disconnected,
}

/// What happens to a client.
#[derive(Debug)]
pub enum Event {
    /// The broker's answer to the subscriptions, on every connection.
    Subscriptions(Answer),
    Message(Message),
}

/// A client with a session that outlives it. It connects and subscribes again after every loss until it is dropped.
#[derive(Debug)]
pub struct Client {
    client: AsyncClient,
    polling: JoinHandle<()>,
}

impl Client {
    /// Starts to connect; what happens comes through the channel.
    pub fn connect(options: MqttOptions, filters: &[String]) -> (Self, UnboundedReceiver<Event>) {
        let (client, connection) = persistent(options);
        let (events, receiver) = unbounded_channel();
        let polling = tokio::spawn(poll(client.clone(), connection, filters.to_vec(), events));
        (Self { client, polling }, receiver)
    }

    /// Publishes with QoS 1, now or when the connection is back.
    pub fn publish(&self, topic: &str, payload: &[u8], retain: bool) {
        let options = PublishOptions::at_least_once().retain(retain);
        self.client.try_publish(topic, payload.to_vec(), options).unwrap();
    }

    /// Disconnects, and leaves the session behind.
    pub async fn leave(mut self) {
        self.client.try_disconnect().unwrap();
        // The task ends when the packet is written.
        patiently("the connection to end", &mut self.polling).await.ok();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

async fn poll(client: AsyncClient, mut connection: EventLoop, filters: Vec<String>, events: UnboundedSender<Event>) {
    while !events.is_closed() {
        let event = match connection.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(_))) if filters.is_empty() => Event::Subscriptions(Answer::Granted),
            Ok(Polled::Incoming(Packet::ConnAck(_))) => {
                let filters = filters.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
                client.try_subscribe_many(filters).unwrap();
                continue;
            }
            Ok(Polled::Incoming(Packet::SubAck(answer))) => Event::Subscriptions(answer_of(&answer.return_codes)),
            Ok(Polled::Incoming(Packet::Publish(publish))) => Event::Message(Message {
                topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                payload: publish.payload.to_vec(),
                retained: publish.retain,
            }),
            Ok(Polled::Outgoing(Outgoing::Disconnect)) => return,
            Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => continue,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                Event::Subscriptions(Answer::Disconnected)
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Subscribes in a session that outlives the connection, and disconnects; returns the broker's answer.
pub async fn subscribe_once(options: MqttOptions, filter: &str, qos: QoS) -> Answer {
    let (client, connection) = persistent(options);
    converse(&client, connection, || client.try_subscribe(filter, qos).map(drop).unwrap()).await
}

/// Publishes one message with QoS 1, and disconnects; returns the broker's answer.
pub async fn publish_once(options: MqttOptions, topic: &str, payload: &[u8], retain: bool) -> Answer {
    let (client, connection) = AsyncClient::builder(options).unbounded().build();
    let how = PublishOptions::at_least_once().retain(retain);
    converse(&client, connection, || client.try_publish(topic, payload.to_vec(), how).map(drop).unwrap()).await
}

/// Asks for one thing when the connection stands, and disconnects when it is answered; returns the answer.
async fn converse(client: &AsyncClient, mut connection: EventLoop, ask: impl Fn()) -> Answer {
    let mut answer = Answer::Disconnected;
    patiently("an answer", async {
        loop {
            match connection.poll().await {
                Ok(Polled::Incoming(Packet::ConnAck(_))) => ask(),
                Ok(Polled::Incoming(Packet::SubAck(codes))) => {
                    answer = answer_of(&codes.return_codes);
                    client.try_disconnect().unwrap();
                }
                Ok(Polled::Incoming(Packet::PubAck(_))) => {
                    answer = Answer::Granted;
                    client.try_disconnect().unwrap();
                }
                Ok(Polled::Outgoing(Outgoing::Disconnect)) | Err(_) => return answer,
                Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => {}
            }
        }
    })
    .await
}

/// Connects once; the connection is cut, without a word of farewell, when this returns.
pub async fn connect_once(options: MqttOptions) -> Answer {
    let (_client, mut connection) = AsyncClient::builder(options).unbounded().build();
    patiently("an answer", async {
        loop {
            match connection.poll().await {
                Ok(Polled::Incoming(Packet::ConnAck(_))) => return Answer::Granted,
                Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => {}
                Err(_) => return Answer::Disconnected,
            }
        }
    })
    .await
}

/// Connects with a last will, which the broker publishes because the connection is cut.
pub async fn leave_will(mut options: MqttOptions, topic: &str, payload: &[u8]) -> Answer {
    options.set_last_will(LastWill::new(topic, payload.to_vec(), QoS::AtLeastOnce, false));
    connect_once(options).await
}

fn persistent(mut options: MqttOptions) -> (AsyncClient, EventLoop) {
    options.set_clean_session(false);
    AsyncClient::builder(options).unbounded().build()
}

fn answer_of(codes: &[SubscribeReasonCode]) -> Answer {
    if codes.contains(&SubscribeReasonCode::Failure) { Answer::Refused } else { Answer::Granted }
}
