//! What the driver sees of a broker: events that come in, and a [`Session`] through which it answers.
//!
//! A session stands for one connection. What is said through a session whose connection is gone is lost, as it should be,
//! because a new connection starts with a new session. [`crate::engine::mqtt`] has the one of a real broker; tests have one in memory.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use dream_edge::mqtt::Message;
use dream_protocol::topic::Topic;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

pub use dream_edge::mqtt::Receipt;

use crate::engine::mqtt::Trouble;

/// How many events may wait to be handled, each with as many messages as came together: a hundred or so at most.
const QUEUE: usize = 64;

/// Makes the queue of events. What fits into it bounds what a flood can take.
pub fn channel() -> (mpsc::Sender<BrokerEvent>, mpsc::Receiver<BrokerEvent>) {
    mpsc::channel(QUEUE)
}

/// What a connection tells the driver.
#[derive(Debug)]
pub enum BrokerEvent {
    /// A connection stands.
    Connected(Arc<dyn Session>),
    /// The broker confirmed the subscriptions that were asked for with this tag.
    Subscribed {
        session: u64,
        tag: u64,
    },
    /// The broker refuses a subscription; it is asked again from time to time.
    SubscriptionRefused {
        filter: String,
    },
    Deliveries(Deliveries),
    /// The connection ended, or could not be made.
    Lost(Trouble),
    /// The connection ended because it was asked to; there will be no other.
    Ended,
}

/// One connection to a broker. None of its methods waits.
pub trait Session: Debug + Send + Sync {
    /// Returns what the driver knows of this connection.
    fn state(&self) -> &SessionState;

    /// Publishes with QoS 1. A connection that is lost loses this too.
    fn publish(&self, topic: String, payload: Bytes, retain: bool);

    /// Acknowledges messages that came in this session.
    fn acknowledge(&self, receipts: Vec<Receipt>);

    /// Subscribes; an event with the tag says that the broker has confirmed every filter. What it refuses is asked for again
    /// until that is aborted.
    fn subscribe(&self, filters: Vec<String>, tag: u64) -> AbortHandle;

    /// Ends subscriptions.
    fn unsubscribe(&self, filters: Vec<String>);

    /// Ends the connection once everything that was published is confirmed.
    fn disconnect(&self);
}

/// What the driver knows of a connection.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// Tells this connection from earlier ones.
    pub number: u64,
    /// How many messages were handled and are not yet acknowledged; the driver keeps it.
    pub unacknowledged: Arc<AtomicUsize>,
}

impl SessionState {
    /// Makes the state of a new connection.
    pub fn new(number: u64) -> Self {
        Self { number, unacknowledged: Arc::default() }
    }
}

/// Messages that came together.
#[derive(Debug)]
pub struct Deliveries {
    pub messages: Vec<Delivery>,
    /// Their share of what may wait in the queue.
    pub queued: Option<OwnedSemaphorePermit>,
}

/// A message that is not yet acknowledged.
#[derive(Debug)]
pub struct Delivery {
    pub topic: Bytes,
    pub payload: Bytes,
    /// The payload was larger than any message may be and was dropped.
    pub too_large: bool,
    pub receipt: Option<Receipt>,
}

/// The largest message of a meter: an enrolment with its certificate, or a status with evidence.
pub(crate) const MAX_METER_MESSAGE: usize = 16 << 10;

impl Delivery {
    /// Makes a delivery of a message. One that no meter may send is emptied; lists, in both forms, are larger.
    pub fn new(message: Message) -> Self {
        let Message { mut topic, mut payload, receipt, .. } = message;
        let too_large = payload.len() > MAX_METER_MESSAGE && !is_list(&topic);
        if too_large {
            payload = Bytes::new();
            // A slice of the packet would keep all of it.
            topic = Bytes::copy_from_slice(&topic);
        }
        Self { topic, payload, too_large, receipt }
    }
}

/// Returns whether the gateway itself publishes on a topic. A meter may be called `membership`.
fn is_list(topic: &[u8]) -> bool {
    std::str::from_utf8(topic).is_ok_and(|topic| matches!(Topic::parse(topic), Ok(Topic::Gateway { .. })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_larger_than_what_meters_send() {
        let too_large = |topic: &'static str, bytes: usize| {
            let (topic, payload) = (Bytes::from_static(topic.as_bytes()), Bytes::from(vec![0; bytes]));
            let delivery = Delivery::new(Message { topic, payload, retained: false, receipt: None });
            assert_eq!(delivery.payload.len(), if delivery.too_large { 0 } else { bytes });
            delivery.too_large
        };
        // The short list of a committee has every holder's enrolment: 78 kB for 240 members.
        for list in ["dream/v1/north/membership", "dream/v1/north/membership/full"] {
            assert!(!too_large(list, 78_000), "{list}");
        }
        for meter in
            ["dream/v1/north/reading/m-1", "dream/v1/north/enrol/membership", "dream/v1/membership", "elsewhere"]
        {
            assert!(!too_large(meter, MAX_METER_MESSAGE) && too_large(meter, MAX_METER_MESSAGE + 1), "{meter}");
        }
    }
}
