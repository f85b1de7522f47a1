//! Who is connected, who subscribed to what, and what is retained. It knows packets, and neither sockets nor time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use rumqttc::{
    ConnAck, Connect, ConnectReturnCode, LastWill, Packet, PubAck, Publish, QoS, SubAck, Subscribe,
    SubscribeReasonCode, UnsubAck, Unsubscribe, matches, valid_filter, valid_topic,
};
use tokio::sync::Notify;

use crate::session::{Connection, Session};
use crate::subscriptions::Subscriptions;

/// One connection of one client.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    client: String,
    number: u64,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said so: there is no last will.
    Farewell,
    /// The client is gone, does what it must not, or another one has taken its place.
    Lost,
}

#[derive(Debug, Default)]
pub(crate) struct Hub {
    sessions: BTreeMap<String, Session>,
    subscriptions: Subscriptions,
    /// The last message that was to be kept, by topic.
    retained: BTreeMap<Bytes, Publish>,
    connections: u64,
}

impl Hub {
    /// Connects a client in place of another one with its id. Returns the answer if it is not let in.
    pub(crate) fn connect(&mut self, connect: Connect, wake: Arc<Notify>) -> Result<Key, ConnAck> {
        let Connect { mut client_id, clean_session: clean, last_will, .. } = connect;
        self.connections += 1;
        let number = self.connections;
        if client_id.is_empty() {
            if !clean {
                return Err(ConnAck::new(ConnectReturnCode::BadClientId, false));
            }
            // No client can call itself that.
            client_id = format!("\0{number}");
        }
        if last_will.as_ref().is_some_and(|will| will.topic.is_empty() || !valid_topic(&will.topic)) {
            return Err(ConnAck::new(ConnectReturnCode::NotAuthorized, false));
        }
        let key = Key { client: client_id, number };
        self.close(&key.client, End::Lost);
        if clean {
            self.forget(&key.client);
        }
        let present = self.sessions.contains_key(&key.client);
        let session = self.sessions.entry(key.client.clone()).or_default();
        session.resume(Connection { number, will: last_will.map(message_of), clean, wake });
        session.answer(Packet::ConnAck(ConnAck::new(ConnectReturnCode::Success, present)));
        Ok(key)
    }

    /// Does what a client asks for; returns how the connection ends if it does.
    pub(crate) fn handle(&mut self, key: &Key, packet: Packet) -> ControlFlow<End> {
        let answer = match packet {
            Packet::Publish(message) => self.take(key, &message)?,
            Packet::Subscribe(subscribe) => return self.subscribe(key, &subscribe),
            Packet::Unsubscribe(unsubscribe) => Some(self.unsubscribe(key, &unsubscribe)),
            Packet::PingReq => Some(Packet::PingResp),
            Packet::PubAck(PubAck { pkid }) => {
                self.served(key)?.acknowledge(pkid);
                None
            }
            Packet::Disconnect => return ControlFlow::Break(End::Farewell),
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::PubRec(_)
            | Packet::PubRel(_)
            | Packet::PubComp(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp => return ControlFlow::Break(End::Lost),
        };
        match answer {
            Some(answer) => self.answer(key, answer),
            None => ControlFlow::Continue(()),
        }
    }

    /// Ends a connection, if another has not taken its place already.
    pub(crate) fn end(&mut self, key: &Key, end: End) {
        if self.served(key).is_continue() {
            self.close(&key.client, end);
        }
    }

    /// Returns the session as long as this connection serves it.
    pub(crate) fn served(&mut self, key: &Key) -> ControlFlow<End, &mut Session> {
        match self.sessions.get_mut(&key.client) {
            Some(session) if session.connection.as_ref().is_some_and(|connection| connection.number == key.number) => {
                ControlFlow::Continue(session)
            }
            Some(_) | None => ControlFlow::Break(End::Lost),
        }
    }

    fn answer(&mut self, key: &Key, packet: Packet) -> ControlFlow<End> {
        if self.served(key)?.answer(packet) { ControlFlow::Continue(()) } else { ControlFlow::Break(End::Lost) }
    }

    /// Takes in a client's message; returns the acknowledgement that its QoS asks for.
    fn take(&mut self, key: &Key, message: &Publish) -> ControlFlow<End, Option<Packet>> {
        self.served(key)?;
        let answer = match message.qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(Packet::PubAck(PubAck::new(message.pkid))),
            QoS::ExactlyOnce => return ControlFlow::Break(End::Lost),
        };
        self.publish(message);
        ControlFlow::Continue(answer)
    }

    fn publish(&mut self, message: &Publish) {
        // The codec has checked it, and a will's topic is text.
        let Ok(topic) = str::from_utf8(&message.topic) else { return };
        // A copy, because what arrived is a piece of the connection's buffer, which would live as long as the message.
        let kept = Publish {
            dup: false,
            qos: message.qos,
            retain: message.retain,
            topic: Bytes::copy_from_slice(&message.topic),
            pkid: 0,
            payload: Bytes::copy_from_slice(&message.payload),
        };
        for (client, qos) in self.subscriptions.of(topic) {
            if let Some(session) = self.sessions.get_mut(client) {
                session.deliver(Publish { qos: lower(qos, kept.qos), retain: false, ..kept.clone() });
            }
        }
        match (kept.retain, kept.payload.is_empty()) {
            (true, true) => drop(self.retained.remove(&kept.topic)),
            (true, false) => drop(self.retained.insert(kept.topic.clone(), kept)),
            (false, _) => {}
        }
    }

    fn subscribe(&mut self, key: &Key, subscribe: &Subscribe) -> ControlFlow<End> {
        self.served(key)?;
        let mut codes = Vec::new();
        let mut kept = Vec::new();
        for filter in &subscribe.filters {
            if !valid_filter(&filter.path) {
                codes.push(SubscribeReasonCode::Failure);
                continue;
            }
            let qos = lower(filter.qos, QoS::AtLeastOnce);
            codes.push(SubscribeReasonCode::Success(qos));
            self.subscriptions.add(&filter.path, &key.client, qos);
            let wanted = self.retained.values().filter(|message| is_meant(message, &filter.path));
            kept.extend(wanted.map(|message| Publish { qos: lower(qos, message.qos), ..message.clone() }));
        }
        self.answer(key, Packet::SubAck(SubAck::new(subscribe.pkid, codes)))?;
        let session = self.served(key)?;
        kept.into_iter().for_each(|message| session.deliver(message));
        ControlFlow::Continue(())
    }

    fn unsubscribe(&mut self, key: &Key, unsubscribe: &Unsubscribe) -> Packet {
        for filter in &unsubscribe.topics {
            self.subscriptions.remove(filter, &key.client);
        }
        Packet::UnsubAck(UnsubAck::new(unsubscribe.pkid))
    }

    /// Ends the connection of a client, if it has one, and its session with it if it was to.
    fn close(&mut self, client: &str, end: End) {
        let Some(connection) = self.sessions.get_mut(client).and_then(|session| session.connection.take()) else {
            return;
        };
        connection.wake.notify_one();
        if connection.clean {
            self.forget(client);
        }
        if let Some(will) = connection.will.filter(|_| end == End::Lost) {
            self.publish(&will);
        }
    }

    fn forget(&mut self, client: &str) {
        self.sessions.remove(client);
        self.subscriptions.forget(client);
    }
}

fn message_of(will: LastWill) -> Publish {
    Publish { retain: will.retain, ..Publish::from_bytes(will.topic, lower(will.qos, QoS::AtLeastOnce), will.message) }
}

/// Whether a retained message is one that a new subscriber gets.
fn is_meant(message: &Publish, filter: &str) -> bool {
    message.topic == filter || str::from_utf8(&message.topic).is_ok_and(|topic| matches(topic, filter))
}

fn lower(one: QoS, other: QoS) -> QoS {
    if one < other { one } else { other }
}
