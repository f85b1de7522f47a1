//! A gateway's connection to the broker in memory: what `mqtt` is to a real one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dream_edge::mqtt;
use dream_gateway::engine::mqtt::{Cause, Trouble};
use dream_gateway::engine::transport::{BrokerEvent, Deliveries, Delivery, Receipt, Session, SessionState};
use dream_testkit::lab::client::Message;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::broker::{Broker, Connected, Incoming};

/// How long the gateway waits before it connects again.
const PAUSE: Duration = Duration::from_millis(500);

/// How far apart messages come: each is then handled, committed and acknowledged by itself.
const APART: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Connection {
    broker: Broker,
    id: String,
    state: SessionState,
    events: mpsc::Sender<BrokerEvent>,
}

impl Session for Connection {
    fn state(&self) -> &SessionState {
        &self.state
    }

    fn publish(&self, topic: String, payload: Bytes, retain: bool) {
        self.broker.publish_over(&self.id, self.state.number, &topic, &payload, retain);
    }

    fn acknowledge(&self, receipts: Vec<Receipt>) {
        for Receipt(packet) in receipts {
            self.broker.acknowledge(&self.id, self.state.number, packet);
        }
    }

    fn subscribe(&self, filters: Vec<String>, tag: u64) -> AbortHandle {
        self.broker.subscribe(&self.id, self.state.number, &filters);
        let (events, session) = (self.events.clone(), self.state.number);
        let confirm = async move { drop(events.send(BrokerEvent::Subscribed { session, tag }).await) };
        tokio::spawn(confirm).abort_handle()
    }

    fn unsubscribe(&self, filters: Vec<String>) {
        self.broker.unsubscribe(&self.id, self.state.number, &filters);
    }

    fn disconnect(&self) {
        self.broker.disconnect(&self.id, self.state.number);
        let events = self.events.clone();
        tokio::spawn(async move { drop(events.send(BrokerEvent::Ended).await) });
    }
}

/// Keeps a gateway connected until its receiver is gone.
pub async fn keep_connected(broker: Broker, id: String, status_topic: String, events: mpsc::Sender<BrokerEvent>) {
    while !events.is_closed() {
        let will = Some((status_topic.clone(), b"offline".to_vec()));
        let Some(Connected { number, mut incoming }) = broker.connect(&id, will) else {
            events.send(BrokerEvent::Lost(Trouble::new(Cause::Refused, "memory refuses connections"))).await.ok();
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let connection = Connection {
            broker: broker.clone(),
            id: id.clone(),
            state: SessionState::new(number),
            events: events.clone(),
        };
        events.send(BrokerEvent::Connected(Arc::new(connection))).await.ok();
        while let Some(Incoming::Message(packet, message)) = incoming.recv().await {
            let deliveries = Deliveries { messages: vec![delivery(packet, message)], queued: None };
            events.send(BrokerEvent::Deliveries(deliveries)).await.ok();
            tokio::time::sleep(APART).await;
        }
        events.send(BrokerEvent::Lost(Trouble::new(Cause::Closed, "memory hung up"))).await.ok();
        tokio::time::sleep(PAUSE).await;
    }
}

fn delivery(packet: u16, message: Message) -> Delivery {
    Delivery::new(mqtt::Message {
        topic: message.topic.into(),
        payload: message.payload.into(),
        retained: message.retained,
        receipt: Some(Receipt(packet)),
    })
}
