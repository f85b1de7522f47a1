//! An MQTT client that forwards what arrives. A lost connection ends it: a run is short and can be repeated.

use std::sync::{Arc, Mutex, PoisonError};

use dream_edge::mqtt::{self, Connection, Session};
use dream_fleet::access::Access;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::link::{Event, Publish};

#[derive(Debug)]
pub(super) struct Client {
    session: Arc<Mutex<Option<Session>>>,
    forwarding: JoinHandle<()>,
}

impl Client {
    /// Connects and subscribes. Must be called within a runtime.
    pub(super) fn connect(access: &Access, id: &str, filters: &[String]) -> (Self, UnboundedReceiver<Event>) {
        let (events, receiver) = unbounded_channel();
        let session = Arc::new(Mutex::new(None));
        let connection = access.client(id, false).start();
        let forwarding = tokio::spawn(forward(connection, filters.to_vec(), session.clone(), events));
        (Self { session, forwarding }, receiver)
    }
}

impl Publish for Client {
    fn publish(&self, topic: &str, payload: &[u8]) {
        // There is a session when the first event has come; a connection that is gone is reported as another.
        if let Some(session) = &*self.session.lock().unwrap_or_else(PoisonError::into_inner) {
            session.publish(topic.to_owned(), payload.to_vec(), false);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.forwarding.abort();
    }
}

async fn forward(
    mut connection: Connection,
    filters: Vec<String>,
    shared: Arc<Mutex<Option<Session>>>,
    events: UnboundedSender<Event>,
) {
    while let Some(event) = connection.next().await {
        let event = match event {
            mqtt::Event::Connected(session) => {
                session.subscribe(filters.clone(), 0);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
                continue;
            }
            mqtt::Event::Subscribed { .. } => Event::Subscribed,
            mqtt::Event::Refused { .. } => Event::Lost("it refuses a subscription; see its access rules".to_owned()),
            mqtt::Event::Messages(messages) => {
                for message in messages {
                    let Ok(topic) = String::from_utf8(message.topic.to_vec()) else { continue };
                    events.send(Event::Message { topic, payload: message.payload.to_vec() }).ok();
                }
                continue;
            }
            mqtt::Event::Lost(trouble) => Event::Lost(trouble.to_string()),
        };
        let over = matches!(event, Event::Lost(_));
        if events.send(event).is_err() || over {
            return;
        }
    }
}
