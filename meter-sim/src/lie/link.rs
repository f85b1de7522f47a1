//! How the participants exchange messages: through a broker, or in tests in memory.

use std::fmt;

use tokio::sync::mpsc::UnboundedReceiver;

use super::client::Client;
use dream_fleet::access::Access;

/// A way to exchange messages.
pub(super) trait Link: fmt::Debug + fmt::Display + Send + Sync {
    /// Connects and subscribes. Must be called within a runtime.
    fn connect(&self, id: &str, filters: &[String]) -> (Box<dyn Publish>, UnboundedReceiver<Event>);
}

/// A connected client.
pub(super) trait Publish: Send {
    /// Publishes with QoS 1, and never retained: nothing of a run stays on the broker.
    fn publish(&self, topic: &str, payload: &[u8]);
}

/// What happens on a connection.
#[derive(Debug)]
pub(super) enum Event {
    /// Connected, and the broker has confirmed the subscriptions.
    Subscribed,
    Message {
        topic: String,
        payload: Vec<u8>,
    },
    /// The connection is gone, or could not be made.
    Lost(String),
}

impl Link for Access {
    fn connect(&self, id: &str, filters: &[String]) -> (Box<dyn Publish>, UnboundedReceiver<Event>) {
        let (client, events) = Client::connect(self, id, filters);
        (Box::new(client), events)
    }
}
