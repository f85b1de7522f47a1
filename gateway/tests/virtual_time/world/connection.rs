//! A gateway's connection to the broker in memory: what `mqtt` is to a real one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dream_gateway::engine::mqtt::Trouble;
use dream_gateway::engine::transport::{BrokerEvent, Deliveries, Delivery, Receipt, Session, SessionState};
use dream_testkit::lab::client::Message;
use rumqttc::{ManualAck, PubAck, Publish, QoS};
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
        for Receipt(ack) in receipts {
            let ManualAck::PubAck(PubAck { pkid, .. }) = ack else { panic!("everything is of QoS 1") };
            self.broker.acknowledge(&self.id, self.state.number, pkid);
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
            events.send(BrokerEvent::Lost(Trouble::Refused { address: "memory".to_owned() })).await.ok();
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
        events.send(BrokerEvent::Lost(closed(&id))).await.ok();
        tokio::time::sleep(PAUSE).await;
    }
}

fn delivery(packet: u16, message: Message) -> Delivery {
    let receipt = Receipt(ManualAck::PubAck(PubAck::new(packet)));
    let mut publish = Publish::new(message.topic, QoS::AtLeastOnce, message.payload);
    publish.retain = message.retained;
    Delivery::new(publish, Some(receipt))
}

fn closed(id: &str) -> Trouble {
    Trouble::Closed {
        address: "memory".to_owned(),
        client_id: id.to_owned(),
        connected_for: None,
        hint: "the broker is gone",
        error: "cut".to_owned(),
    }
}
