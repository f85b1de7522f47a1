//! The connection to the broker: everything that knows MQTT, and nothing that knows what is in a message.
//!
//! [`Connector::run`] keeps a connection and only polls it; what arrives goes out as [`BrokerEvent`]s. The driver handles them; it
//! publishes, subscribes and acknowledges through a [`Session`].

mod backoff;
mod cut;
mod socket;
mod trouble;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rumqttc::tokio_rustls::TlsConnector;
use rumqttc::{
    AckMode, AsyncClient, Event as Polled, EventLoop, LastWill, MqttOptions, Outgoing, Packet, Publish, PublishOptions,
    QoS, SessionMode, SubscribeFilter, SubscribeReasonCode,
};
use rustls::pki_types::ServerName;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

pub use trouble::Trouble;

use crate::config::Broker;
use crate::config::secrets::{self, SecretError};
use crate::engine::transport::{BrokerEvent, Deliveries, Delivery, Receipt, Session, SessionState};
use backoff::Backoff;
use cut::Cut;
use socket::Socket;

/// How many KiB of payloads may wait: a flood of large ones fills this before it fills the queue.
const QUEUE_KIB: u32 = 64 << 10;

/// The largest packet there can be in MQTT.
const MAX_PACKET: usize = 268_435_455;

/// How many packets are read before anything is written.
const READ_BATCH: usize = 128;

/// How many filters go into one SUBSCRIBE packet.
const FILTERS_PER_PACKET: usize = 50;

/// One connection to the broker.
#[derive(Debug, Clone)]
struct Connection {
    client: AsyncClient,
    state: SessionState,
    events: mpsc::Sender<BrokerEvent>,
}

impl Session for Connection {
    fn state(&self) -> &SessionState {
        &self.state
    }

    fn publish(&self, topic: String, payload: Bytes, retain: bool) {
        let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
        if self.client.try_publish(topic, payload, options).is_err() {
            tracing::debug!("a message was not published: the connection is gone");
        }
    }

    fn acknowledge(&self, receipts: Vec<Receipt>) {
        for receipt in receipts {
            if self.client.try_manual_ack(receipt.0).is_err() {
                tracing::debug!("messages were not acknowledged: the connection is gone");
                return;
            }
        }
    }

    fn subscribe(&self, filters: Vec<String>, tag: u64) -> AbortHandle {
        let connection = self.clone();
        let asking = tokio::spawn(async move {
            let mut wait = Backoff::new(5.0, 60.0);
            let confirmed = loop {
                match connection.try_subscribe(&filters).await {
                    Ok(confirmed) => break confirmed,
                    Err(filter) => {
                        connection.send(BrokerEvent::SubscriptionRefused { filter }).await;
                        tokio::time::sleep(wait.next()).await;
                    }
                }
            };
            if confirmed {
                connection.send(BrokerEvent::Subscribed { session: connection.state.number, tag }).await;
            }
        });
        asking.abort_handle()
    }

    fn unsubscribe(&self, filters: Vec<String>) {
        for filter in filters {
            if self.client.try_unsubscribe(filter).is_err() {
                return;
            }
        }
    }

    fn disconnect(&self) {
        if self.client.try_disconnect().is_err() {
            tracing::debug!("nothing to disconnect from");
        }
    }
}

impl Connection {
    /// Returns whether the broker confirmed all; `false` if the connection ended first. The error is a filter that it
    /// refused.
    async fn try_subscribe(&self, filters: &[String]) -> Result<bool, String> {
        for chunk in filters.chunks(FILTERS_PER_PACKET) {
            let wanted = chunk.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
            let Ok(notice) = self.client.try_subscribe_many_tracked(wanted) else { return Ok(false) };
            let Ok(answer) = notice.wait_async().await else { return Ok(false) };
            let refused = answer.return_codes.iter().position(|code| *code == SubscribeReasonCode::Failure);
            if let Some(refused) = refused {
                return Err(chunk.get(refused).cloned().unwrap_or_default());
            }
        }
        Ok(true)
    }

    async fn send(&self, event: BrokerEvent) {
        // The receiver is gone when the gateway stops.
        self.events.send(event).await.ok();
    }

    /// Waits until messages fit into the budget.
    async fn deliver(&self, batch: Vec<Publish>, budget: &Arc<Semaphore>) -> Option<Deliveries> {
        let delivery = |publish: Publish| {
            let receipt = self.client.prepare_ack(&publish).map(Receipt);
            Delivery::new(publish, receipt)
        };
        let messages: Vec<Delivery> = batch.into_iter().map(delivery).collect();
        let kib = messages.iter().fold(0, |sum: usize, message| sum + (message.payload.len() >> 10) + 1);
        let kib = u32::try_from(kib).map_or(QUEUE_KIB, |kib| kib.min(QUEUE_KIB));
        let queued = budget.clone().acquire_many_owned(kib).await.ok()?;
        Some(Deliveries { messages, queued: Some(queued) })
    }
}

/// Keeps a connection to the broker.
#[derive(Debug)]
pub struct Connector {
    pub broker: Broker,
    /// Also the topic level below which the gateway says that it is online.
    pub client_id: String,
    pub status_topic: String,
}

impl Connector {
    /// Connects, and again after every loss, until the receiver of the events is gone or the session was disconnected.
    pub async fn run(self, events: mpsc::Sender<BrokerEvent>) {
        let budget = Arc::new(Semaphore::new(QUEUE_KIB as usize));
        let mut backoff = Backoff::new(0.5, 30.0);
        for number in 1.. {
            let trouble = match self.options() {
                Ok(options) => {
                    let (client, eventloop) = AsyncClient::builder(options).unbounded().build();
                    let state = SessionState::new(number);
                    let connection = Connection { client, state, events: events.clone() };
                    let Some(trouble) = self.poll(connection, eventloop, &budget, &mut backoff).await else {
                        // Nobody listens any more, or someone waits for this.
                        events.send(BrokerEvent::Ended).await.ok();
                        return;
                    };
                    trouble
                }
                Err(error) => Trouble::Secret(error),
            };
            if events.send(BrokerEvent::Lost(trouble)).await.is_err() {
                return;
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Polls one connection to its end. Never publishes: a full channel would wait for itself. `None` if it was meant to
    /// end.
    async fn poll(
        &self,
        connection: Connection,
        mut eventloop: EventLoop,
        budget: &Arc<Semaphore>,
        backoff: &mut Backoff,
    ) -> Option<Trouble> {
        let events = connection.events.clone();
        let mut since = None;
        loop {
            match eventloop.poll().await {
                Ok(Polled::Incoming(Packet::ConnAck(_))) => {
                    since = Some(Instant::now());
                    events.send(BrokerEvent::Connected(Arc::new(connection.clone()))).await.ok()?;
                }
                Ok(Polled::Incoming(Packet::Publish(publish))) => {
                    let batch = gather(publish, &mut eventloop.state.events);
                    let deliveries = connection.deliver(batch, budget).await?;
                    events.send(BrokerEvent::Deliveries(deliveries)).await.ok()?;
                }
                Ok(Polled::Outgoing(Outgoing::Disconnect)) => return None,
                Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => {}
                Err(error) => {
                    let connected_for = since.map(|since| since.elapsed());
                    if connected_for.is_some_and(|connected_for| connected_for.as_secs() >= 10) {
                        backoff.reset();
                    }
                    return Some(Trouble::new(error, &self.broker, &self.client_id, connected_for));
                }
            }
        }
    }

    fn options(&self) -> Result<MqttOptions, SecretError> {
        let Broker { host, port, tls, login, keep_alive_seconds, max_packet_bytes } = &self.broker;
        let limit = *max_packet_bytes;
        let mut options = MqttOptions::new(self.client_id.clone(), (host.clone(), *port));
        options
            .set_keep_alive(*keep_alive_seconds)
            .set_session_mode(SessionMode::Persistent)
            .set_ack_mode(AckMode::Manual)
            .set_read_batch_size(READ_BATCH)
            .set_max_packet_size(limit, MAX_PACKET)
            .set_last_will(LastWill::new(self.status_topic.clone(), "offline", QoS::AtLeastOnce, true));
        if let Some(login) = login {
            options.set_credentials(login.username.clone(), secrets::password(login)?.to_vec());
        }
        // TLS is made here, because what is cut has to be decrypted first.
        if let Some(tls) = tls {
            let (tls, server) = (TlsConnector::from(Arc::new(secrets::broker_tls(tls)?)), host.clone());
            options.set_socket_connector(move |address, network| {
                let (tls, server) = (tls.clone(), server.clone());
                async move {
                    let name = ServerName::try_from(server)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    let socket = Socket::connect(address, network).await?;
                    Ok(Cut::new(tls.connect(name, socket).await?, limit))
                }
            });
        } else {
            options.set_socket_connector(move |address, network| async move {
                Ok(Cut::new(Socket::connect(address, network).await?, limit))
            });
        }
        Ok(options)
    }
}

/// Returns the messages that were read together with the first and wait behind it.
fn gather(first: Publish, waiting: &mut VecDeque<Polled>) -> Vec<Publish> {
    let mut batch = vec![first];
    while let Some(Polled::Incoming(Packet::Publish(_)) | Polled::Outgoing(Outgoing::PubAck(_))) = waiting.front() {
        if let Some(Polled::Incoming(Packet::Publish(publish))) = waiting.pop_front() {
            batch.push(publish);
        }
    }
    batch
}
