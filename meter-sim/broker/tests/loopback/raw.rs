//! A client that sends and reads packets one by one, and only when it is told to.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::BytesMut;
use dream_broker::Broker;
use dream_testkit::lab::PATIENCE;
use rumqttc::mqttbytes::Error;
use rumqttc::{ConnAck, Connect, ConnectReturnCode, Packet, QoS, Subscribe};

/// More than the broker accepts.
pub(crate) const ANY_SIZE: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    /// Opens a connection and says nothing.
    pub(crate) fn open(broker: &Broker) -> Self {
        let stream = TcpStream::connect(broker.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, buffer: BytesMut::new() }
    }

    /// Connects; returns whether the broker has a session of this client.
    pub(crate) fn connect(broker: &Broker, connect: Connect) -> (Self, bool) {
        let mut client = Self::open(broker);
        client.send(&Packet::Connect(connect));
        let Some(Packet::ConnAck(ConnAck { session_present, code })) = client.next() else { panic!("no answer") };
        assert_eq!(code, ConnectReturnCode::Success);
        (client, session_present)
    }

    /// Subscribes with QoS 1; returns the broker's answer, which comes first.
    pub(crate) fn subscribe(&mut self, filter: &str) -> Option<Packet> {
        let mut subscribe = Subscribe::new(filter, QoS::AtLeastOnce);
        subscribe.pkid = 1;
        self.send(&Packet::Subscribe(subscribe));
        self.next()
    }

    pub(crate) fn send(&mut self, packet: &Packet) {
        let mut bytes = BytesMut::new();
        packet.write(&mut bytes, ANY_SIZE).unwrap();
        self.send_bytes(&bytes);
    }

    /// Sends these bytes. A broker that has closed the connection does not take them.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Waits for the next packet; `None` if the broker has closed the connection.
    ///
    /// # Panics
    /// If nothing comes for too long.
    pub(crate) fn next(&mut self) -> Option<Packet> {
        loop {
            match Packet::read(&mut self.buffer, ANY_SIZE) {
                Ok(packet) => return Some(packet),
                Err(Error::InsufficientBytes(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let mut chunk = [0; 1 << 16];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => self.buffer.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the broker says nothing"),
                Err(_) => return None,
            }
        }
    }
}
