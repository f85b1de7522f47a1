//! The connection to the broker as the driver sees it: [`dream_edge::mqtt`] keeps it, and what arrives goes out as [`BrokerEvent`]s.

use std::sync::Arc;

use bytes::Bytes;
use dream_edge::mqtt::{self, Acknowledges, Client, Credentials, Cutting, Event, Message, Names, Outlet};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

pub use dream_edge::mqtt::{Cause, Trouble};

use crate::config::Broker;
use crate::config::secrets;
use crate::engine::transport::{BrokerEvent, Deliveries, Delivery, MAX_METER_MESSAGE, Receipt, Session, SessionState};
use crate::store::Store;

/// How many KiB of payloads may wait: a flood of large ones fills this before it fills the queue.
const QUEUE_KIB: u32 = 64 << 10;

/// One byte more than a meter's message may have is kept of a packet that is too large, so that it is known to be.
const CUTTING: Cutting = Cutting { kept_payload: MAX_METER_MESSAGE + 1, setting: "`broker.max_packet_bytes`" };

const NAMES: Names = Names {
    client: "the gateway",
    url: "`broker.url`",
    ca: "`broker.ca`",
    certificate: Some(("`broker.client_certificate`", "`broker.client_key`")),
    login: "`broker.username`, `broker.password_file`",
    is_another: "is another gateway",
    tell_apart: "Stop it, or give one of them another `id` and certificate, or another `ordinal` if they are replicas",
};

/// Keeps a connection to the broker.
#[derive(Debug)]
pub struct Connector {
    pub broker: Broker,
    /// Also the topic level below which the gateway says that it is online.
    pub client_id: String,
    pub status_topic: String,
    /// Says whether this gateway may still write: whoever was taken over from must not throw out the one that took over.
    pub store: Arc<dyn Store>,
}

impl Connector {
    /// Connects, and again after every loss, until the receiver of the events is gone or the session was disconnected.
    pub async fn run(self, events: mpsc::Sender<BrokerEvent>) {
        let budget = Arc::new(Semaphore::new(QUEUE_KIB as usize));
        let sender = events.clone();
        let outlet: Outlet = Arc::new(move |event| {
            let (sender, budget) = (sender.clone(), budget.clone());
            Box::pin(async move {
                let event = match event {
                    Event::Connected(session) => {
                        let state = SessionState::new(session.number());
                        BrokerEvent::Connected(Arc::new(Connection { session, state }))
                    }
                    Event::Subscribed { session, tag } => BrokerEvent::Subscribed { session, tag },
                    Event::Refused { filter, .. } => BrokerEvent::SubscriptionRefused { filter },
                    Event::Messages(batch) => match deliver(batch, &budget).await {
                        Some(deliveries) => BrokerEvent::Deliveries(deliveries),
                        None => return false,
                    },
                    Event::Lost(trouble) => BrokerEvent::Lost(trouble),
                };
                sender.send(event).await.is_ok()
            })
        });
        self.client().run(outlet).await;
        // Nobody listens any more, or someone waits for this.
        events.send(BrokerEvent::Ended).await.ok();
    }

    fn client(self) -> Client {
        let Self { broker, client_id, status_topic, store } = self;
        Client {
            urls: broker.urls.clone(),
            id: client_id,
            persistent: true,
            last_will: Some((status_topic, "offline")),
            keep_alive_seconds: broker.keep_alive_seconds,
            largest_packet: broker.max_packet_bytes,
            cutting: Some(CUTTING),
            acknowledges: Acknowledges::Later,
            names: NAMES,
            credentials: Box::new(move || {
                store.commit(&[])?;
                Ok(credentials(&broker)?)
            }),
        }
    }
}

/// Reads what is shown to the broker.
fn credentials(broker: &Broker) -> Result<Credentials, secrets::SecretError> {
    let tls = broker.tls.as_ref().map(secrets::broker_tls).transpose()?;
    let login = match &broker.login {
        Some(login) => Some((login.username.clone(), secrets::password(login)?)),
        None => None,
    };
    Ok(Credentials { tls, login })
}

/// Returns a client with the gateway's login and another name, to hold a dialog with the broker.
pub fn visitor(broker: &Broker, name: String) -> Client {
    let (urls, broker) = (broker.urls.clone(), broker.clone());
    let credentials = Box::new(move || Ok(credentials(&broker)?));
    Client { credentials, ..Client::new(urls, name, Credentials::default(), NAMES) }
}

/// Waits until messages fit into the budget.
async fn deliver(batch: Vec<Message>, budget: &Arc<Semaphore>) -> Option<Deliveries> {
    let messages: Vec<Delivery> = batch.into_iter().map(Delivery::new).collect();
    let kib = messages.iter().fold(0, |sum: usize, message| sum + (message.payload.len() >> 10) + 1);
    let kib = u32::try_from(kib).map_or(QUEUE_KIB, |kib| kib.min(QUEUE_KIB));
    let queued = budget.clone().acquire_many_owned(kib).await.ok()?;
    Some(Deliveries { messages, queued: Some(queued) })
}

/// One connection to the broker.
#[derive(Debug)]
struct Connection {
    session: mqtt::Session,
    state: SessionState,
}

impl Session for Connection {
    fn state(&self) -> &SessionState {
        &self.state
    }

    fn publish(&self, topic: String, payload: Bytes, retain: bool) {
        self.session.publish(topic, payload, retain);
    }

    fn acknowledge(&self, receipts: Vec<Receipt>) {
        self.session.acknowledge(receipts);
    }

    fn subscribe(&self, filters: Vec<String>, tag: u64) -> AbortHandle {
        self.session.subscribe(filters, tag)
    }

    fn unsubscribe(&self, filters: Vec<String>) {
        self.session.unsubscribe(filters);
    }

    fn disconnect(&self) {
        self.session.disconnect();
    }
}
