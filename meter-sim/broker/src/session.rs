//! What one client has to get, in the order in which it gets it: answers, then what it did not acknowledge, then what waits.

use std::collections::VecDeque;
use std::sync::Arc;

use rumqttc::{Packet, Publish, QoS};
use tokio::sync::Notify;

/// How many messages may be on their way without an acknowledgement.
const WINDOW: usize = 1000;

/// How many bytes may wait for a client. Messages beyond are lost to it: a client that never reads costs no more than this.
pub(crate) const MAX_WAITING: usize = 64 << 20;

/// What a message costs beside its bytes.
const OVERHEAD: usize = 128;

/// How many answers may wait for a client that sends and does not read.
const MAX_ANSWERS: usize = 1 << 16;

/// The connection that serves a session.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Tells it from others of the same client.
    pub(crate) number: u64,
    /// Is published if the client leaves without a farewell.
    pub(crate) will: Option<Publish>,
    /// Whether the session ends with it.
    pub(crate) clean: bool,
    /// Wakes whoever writes to the client.
    pub(crate) wake: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) connection: Option<Connection>,
    answers: VecDeque<Packet>,
    /// What was sent and is not acknowledged, oldest first.
    in_flight: VecDeque<Publish>,
    /// How many of these were sent over this connection.
    sent: usize,
    waiting: VecDeque<Publish>,
    waiting_bytes: usize,
    last_id: u16,
}

impl Session {
    /// Goes on with a new connection: what was not acknowledged is sent again.
    pub(crate) fn resume(&mut self, connection: Connection) {
        self.answers.clear();
        self.sent = 0;
        self.connection = Some(connection);
    }

    /// Queues a message. It is lost if too much waits already, and if QoS is 0 and nobody is connected.
    pub(crate) fn deliver(&mut self, message: Publish) {
        let bytes = cost(&message);
        let pointless = message.qos == QoS::AtMostOnce && self.connection.is_none();
        if pointless || self.waiting_bytes + bytes > MAX_WAITING {
            return;
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(message);
        self.wake();
    }

    /// Queues an answer. Returns whether the client takes its answers in; otherwise it is not worth serving.
    pub(crate) fn answer(&mut self, packet: Packet) -> bool {
        self.answers.push_back(packet);
        self.wake();
        self.answers.len() < MAX_ANSWERS
    }

    pub(crate) fn acknowledge(&mut self, id: u16) {
        if let Some(at) = self.in_flight.iter().position(|message| message.pkid == id) {
            self.in_flight.remove(at);
            self.sent -= usize::from(at < self.sent);
            self.wake();
        }
    }

    /// Returns what to send next, if there is something and the client may have it.
    pub(crate) fn next(&mut self) -> Option<Packet> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if let Some(again) = self.in_flight.get(self.sent) {
            self.sent += 1;
            return Some(Packet::Publish(Publish { dup: true, ..again.clone() }));
        }
        let full = self.in_flight.len() >= WINDOW;
        self.waiting.front().filter(|message| !full || message.qos == QoS::AtMostOnce)?;
        let mut message = self.waiting.pop_front()?;
        self.waiting_bytes -= cost(&message);
        if message.qos != QoS::AtMostOnce {
            message.pkid = self.unused_id();
            self.in_flight.push_back(message.clone());
            self.sent += 1;
        }
        Some(Packet::Publish(message))
    }

    fn unused_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if self.in_flight.iter().all(|message| message.pkid != self.last_id) {
                return self.last_id;
            }
        }
    }

    fn wake(&self) {
        if let Some(connection) = &self.connection {
            connection.wake.notify_one();
        }
    }
}

fn cost(message: &Publish) -> usize {
    message.topic.len() + message.payload.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection { number: 1, will: None, clean: false, wake: Arc::default() }
    }

    fn connected() -> Session {
        Session { connection: Some(connection()), ..Session::default() }
    }

    fn message(number: usize, qos: QoS) -> Publish {
        Publish::new("topic", qos, number.to_string())
    }

    /// Returns the payload, the packet's id and whether it is marked as sent before, of all that is sent now.
    fn drain(session: &mut Session) -> Vec<(String, u16, bool)> {
        let describe = |packet| {
            let Packet::Publish(publish) = packet else { panic!("{packet:?}") };
            (String::from_utf8(publish.payload.to_vec()).unwrap(), publish.pkid, publish.dup)
        };
        std::iter::from_fn(|| session.next()).map(describe).collect()
    }

    #[test]
    fn what_is_not_acknowledged_comes_again_first_marked_and_under_its_own_id() {
        let mut session = connected();
        (0..3).for_each(|number| session.deliver(message(number, QoS::AtLeastOnce)));
        assert_eq!(drain(&mut session).len(), 3);
        session.acknowledge(2);
        session.acknowledge(2);
        session.connection = None;
        session.deliver(message(3, QoS::AtLeastOnce));
        session.deliver(message(4, QoS::AtMostOnce));
        session.resume(connection());
        let expected = [("0", 1, true), ("2", 3, true), ("3", 4, false)];
        assert_eq!(drain(&mut session), expected.map(|(payload, id, dup)| (payload.to_owned(), id, dup)));
        assert!(drain(&mut session).is_empty());
    }

    #[test]
    fn an_acknowledgement_while_the_rest_is_sent_again_skips_nothing() {
        let mut session = connected();
        (0..3).for_each(|number| session.deliver(message(number, QoS::AtLeastOnce)));
        drain(&mut session);
        session.resume(connection());
        session.next().unwrap();
        session.acknowledge(1);
        session.acknowledge(3);
        assert_eq!(drain(&mut session), [("1".to_owned(), 2, true)]);
    }

    #[test]
    fn no_more_than_a_window_is_on_its_way_and_ids_in_use_are_skipped() {
        let mut session = connected();
        (0..=WINDOW).for_each(|number| session.deliver(message(number, QoS::AtLeastOnce)));
        assert_eq!(drain(&mut session).len(), WINDOW);
        session.last_id = u16::MAX;
        session.acknowledge(2);
        assert_eq!(drain(&mut session), [(WINDOW.to_string(), 2, false)]);
    }

    #[test]
    fn a_client_that_reads_nothing_costs_no_more_than_the_bound_and_gets_later_messages_when_it_reads() {
        let mut session = connected();
        let big = Publish::from_bytes("topic", QoS::AtLeastOnce, vec![0; 1 << 20].into());
        (0..100).for_each(|_| session.deliver(big.clone()));
        assert_eq!(session.waiting.len(), 63);
        while session.next().is_some() {}
        session.deliver(message(7, QoS::AtLeastOnce));
        assert_eq!(drain(&mut session), [("7".to_owned(), 64, false)]);
        assert_eq!(session.waiting_bytes, 0);
    }

    #[test]
    fn answers_go_first_and_too_many_are_noticed() {
        let mut session = connected();
        session.deliver(message(0, QoS::AtMostOnce));
        assert!(session.answer(Packet::PingResp));
        assert_eq!(session.next(), Some(Packet::PingResp));
        assert!((0..MAX_ANSWERS).any(|_| !session.answer(Packet::PingResp)));
    }
}
