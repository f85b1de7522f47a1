//! A short dialog with a broker, packet by packet: what it lets a client do, and what it refuses.
//!
//! In MQTT 3.1.1, which [`Client`] speaks, a broker does not say that it refuses a message. In MQTT 5 it does. So a dialog is held in MQTT
//! 5, and in 3.1.1 with brokers that know no other. A broker may give every client of a login one name, and so hand the dialog
//! the session of a program that is away: nothing in that is acknowledged, and it is left as it was.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use rumqttc::tokio_rustls::TlsConnector;
use rumqttc::{ConnectReturnCode, ConnectionError, NetworkOptions};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::dial::{Dial as _, Stream, Tcp};
use super::trouble::Attempt;
use super::{BrokerUrl, Cause, Client, Credentials, Trouble};

/// How long the broker may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a message may take to come back.
const ECHO: Duration = Duration::from_millis(700);

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBLISH_QOS_1: u8 = 0x32;
const RETAIN: u8 = 0x01;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const UNSUBSCRIBE: u8 = 0xa2;
const UNSUBACK: u8 = 0xb0;
const DISCONNECT: u8 = 0xe0;

/// Codes from here on are refusals.
const REFUSED: u8 = 0x80;

/// How long a session is kept, as a property with its length: for ever, or not at all.
const KEPT: [u8; 6] = [5, 0x11, 0xff, 0xff, 0xff, 0xff];
const NOT_KEPT: [u8; 6] = [5, 0x11, 0, 0, 0, 0];

/// The level of the protocol in the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Mqtt311 = 4,
    Mqtt5 = 5,
}

/// What a broker says to a question for a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Granted,
    Refused,
    /// It took the packet, which in MQTT 3.1.1 means nothing.
    Unsaid,
}

/// A broker that has let the client in.
pub struct Dialog {
    stream: Box<dyn Stream>,
    version: Version,
    /// Whether the broker has kept a session of this name.
    is_kept: bool,
    /// The number of the last packet.
    number: u16,
    /// What came and is not a whole packet yet.
    unread: BytesMut,
    /// The topics of messages that came.
    heard: Vec<String>,
}

impl fmt::Debug for Dialog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialog").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Why there is no dialog.
enum End {
    /// The broker does not speak this version, as far as can be seen.
    Version(ConnectionError),
    Other(Box<ConnectionError>),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Other(Box::new(ConnectionError::Io(error)))
    }
}

/// Reaches a broker and ends there, before anybody logs in. Returns its certificate, if it has one.
pub async fn reach(client: &Client, url: &BrokerUrl) -> Result<Option<CertificateDer<'static>>, Trouble> {
    let credentials = credentials(client)?;
    let reached =
        timeout(PATIENCE, open(url, &credentials)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let (_, certificate) =
        reached.map_err(|error| attempt(client, url, &credentials).explain(ConnectionError::Io(error)))?;
    Ok(certificate)
}

fn credentials(client: &Client) -> Result<Credentials, Trouble> {
    (client.credentials)().map_err(|error| Trouble::new(Cause::Secret, error.to_string()))
}

fn attempt<'a>(client: &'a Client, url: &'a BrokerUrl, credentials: &Credentials) -> Attempt<'a> {
    let has_certificate = credentials.tls.as_ref().is_some_and(|tls| tls.client_auth_cert_resolver.has_certs());
    Attempt { url, names: &client.names, client_id: &client.id, has_certificate, connected_for: None }
}

/// Opens a stream, with the broker's certificate if it is encrypted.
async fn open(
    url: &BrokerUrl,
    credentials: &Credentials,
) -> io::Result<(Box<dyn Stream>, Option<CertificateDer<'static>>)> {
    let stream = Tcp.dial(url, NetworkOptions::new()).await?;
    let Some(tls) = credentials.tls.clone().filter(|_| url.tls) else { return Ok((Box::new(stream), None)) };
    let name = ServerName::try_from(url.host.clone());
    let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|chain| chain.first()).map(|first| first.clone().into_owned());
    Ok((Box::new(stream), certificate))
}

impl Dialog {
    /// Logs in at one broker.
    pub async fn begin(client: &Client, url: &BrokerUrl) -> Result<Self, Trouble> {
        let credentials = credentials(client)?;
        let mut refused = None;
        for version in [Version::Mqtt5, Version::Mqtt311] {
            let begun = timeout(PATIENCE, Self::connect(client, url, &credentials, version, false)).await;
            match begun.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
                Ok(dialog) => return Ok(dialog),
                Err(End::Version(error)) => refused = Some(error),
                Err(End::Other(error)) => return Err(attempt(client, url, &credentials).explain(*error)),
            }
        }
        let error = refused.unwrap_or(ConnectionError::NetworkTimeout);
        Err(attempt(client, url, &credentials).explain(error))
    }

    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the broker had a session of this name.
    pub const fn is_kept(&self) -> bool {
        self.is_kept
    }

    async fn connect(
        client: &Client,
        url: &BrokerUrl,
        credentials: &Credentials,
        version: Version,
        is_clean: bool,
    ) -> Result<Self, End> {
        let (stream, _) = open(url, credentials).await?;
        let mut dialog =
            Self { stream, version, is_kept: false, number: 0, unread: BytesMut::new(), heard: Vec::new() };
        let mut body = Vec::new();
        put_text(&mut body, b"MQTT");
        let login = credentials.login.as_ref();
        let flags = if login.is_some() { 0xc0 } else { 0 } | if is_clean { 0x02 } else { 0 };
        body.extend([version as u8, flags, 0, 30]);
        if version == Version::Mqtt5 {
            body.extend(if is_clean { NOT_KEPT } else { KEPT });
        }
        put_text(&mut body, client.id.as_bytes());
        if let Some((name, password)) = login {
            put_text(&mut body, name.as_bytes());
            put_text(&mut body, password);
        }
        dialog.write(CONNECT, &body).await?;
        let answer = match dialog.read().await {
            Ok((CONNACK, answer)) if answer.len() >= 2 => answer,
            Ok(_) => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            // A broker that knows no MQTT 5 may hang up on it.
            Err(error) if version == Version::Mqtt5 && error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(End::Version(ConnectionError::Io(error)));
            }
            Err(error) => return Err(error.into()),
        };
        dialog.is_kept = answer[0] & 1 == 1;
        let code = match answer[1] {
            0 => return Ok(dialog),
            1 | 0x84 => {
                return Err(End::Version(ConnectionError::ConnectionRefused(
                    ConnectReturnCode::RefusedProtocolVersion,
                )));
            }
            2 | 0x85 => ConnectReturnCode::BadClientId,
            3 | 0x88 | 0x89 => ConnectReturnCode::ServiceUnavailable,
            4 | 0x86 => ConnectReturnCode::BadUserNamePassword,
            _ => ConnectReturnCode::NotAuthorized,
        };
        Err(End::Other(Box::new(ConnectionError::ConnectionRefused(code))))
    }

    /// Asks for messages.
    pub async fn subscribe(&mut self, filter: &str) -> io::Result<Answer> {
        let mut body = self.numbered();
        put_text(&mut body, filter.as_bytes());
        body.push(0);
        self.write(SUBSCRIBE, &body).await?;
        let code = self.answer(SUBACK).await?.last().copied();
        Ok(if code.is_some_and(|code| code < REFUSED) { Answer::Granted } else { Answer::Refused })
    }

    pub async fn unsubscribe(&mut self, filter: &str) -> io::Result<()> {
        let mut body = self.numbered();
        put_text(&mut body, filter.as_bytes());
        self.write(UNSUBSCRIBE, &body).await?;
        self.answer(UNSUBACK).await.map(drop)
    }

    /// Publishes an empty message, which a broker that is to keep it does not keep.
    pub async fn publish(&mut self, topic: &str, retain: bool) -> io::Result<Answer> {
        let numbered = self.numbered();
        let mut body = Vec::new();
        put_text(&mut body, topic.as_bytes());
        body.extend(numbered);
        self.write(PUBLISH_QOS_1 | if retain { RETAIN } else { 0 }, &body).await?;
        let code = self.answer(PUBACK).await?.first().copied();
        Ok(match (self.version, code) {
            (Version::Mqtt5, Some(REFUSED..)) => Answer::Refused,
            (Version::Mqtt5, _) => Answer::Granted,
            (Version::Mqtt311, _) => Answer::Unsaid,
        })
    }

    /// Waits for a message on this topic, for a moment.
    pub async fn hears(&mut self, topic: &str) -> bool {
        let hear = async {
            while !self.heard.iter().any(|heard| heard == topic) {
                self.read().await?;
            }
            io::Result::Ok(())
        };
        matches!(timeout(ECHO, hear).await, Ok(Ok(())))
    }

    /// Says goodbye. The session stays if it is to be kept, because it was there before; that of the dialog does not.
    pub async fn end(mut self, client: &Client, url: &BrokerUrl, keep: bool) {
        if keep {
            self.write(DISCONNECT, &[]).await.ok();
        } else if self.version == Version::Mqtt5 {
            let body: Vec<u8> = [&[0][..], &NOT_KEPT].concat();
            self.write(DISCONNECT, &body).await.ok();
        } else if let Ok(credentials) = credentials(client) {
            self.write(DISCONNECT, &[]).await.ok();
            let clean = Self::connect(client, url, &credentials, self.version, true);
            if let Ok(Ok(mut clean)) = timeout(PATIENCE, clean).await {
                clean.write(DISCONNECT, &[]).await.ok();
                clean.stream.shutdown().await.ok();
            }
        }
        self.stream.shutdown().await.ok();
    }

    /// Begins a packet with the next number, and in MQTT 5 no properties.
    fn numbered(&mut self) -> Vec<u8> {
        self.number += 1;
        let mut body = self.number.to_be_bytes().to_vec();
        if self.version == Version::Mqtt5 {
            body.push(0);
        }
        body
    }

    /// Waits for the answer to the last packet; returns what follows its number.
    async fn answer(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        let answer = async {
            loop {
                let (found, body) = self.read().await?;
                if found == kind && body.starts_with(&self.number.to_be_bytes()) {
                    return Ok(body[2..].to_vec());
                }
                if found == DISCONNECT {
                    return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
                }
            }
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn write(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let mut packet = vec![kind];
        let mut length = body.len();
        loop {
            let byte = u8::try_from(length % 128).expect("less than 128");
            length /= 128;
            packet.push(if length > 0 { byte | 0x80 } else { byte });
            if length == 0 {
                break;
            }
        }
        packet.extend(body);
        self.stream.write_all(&packet).await?;
        self.stream.flush().await
    }

    /// Reads a packet; of messages only the topic is kept. Nothing is lost if nobody waits for it to the end.
    async fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let (kind, body) = loop {
            if let Some(packet) = take_packet(&mut self.unread)? {
                break packet;
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        if kind & 0xf0 != PUBLISH {
            return Ok((kind, body));
        }
        let mut rest = body.as_slice();
        let topic = rest.try_get_u16().ok().and_then(|length| rest.get(..usize::from(length)));
        self.heard.extend(topic.map(|topic| String::from_utf8_lossy(topic).into_owned()));
        Ok((PUBLISH, Vec::new()))
    }
}

/// Takes a packet from what was read, once it is complete.
fn take_packet(unread: &mut BytesMut) -> io::Result<Option<(u8, Vec<u8>)>> {
    let Some(&kind) = unread.first() else { return Ok(None) };
    let (mut length, mut head) = (0, 1);
    loop {
        let Some(&byte) = unread.get(head) else { return Ok(None) };
        length |= usize::from(byte & 0x7f) << (7 * (head - 1));
        head += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if head > 4 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    if unread.len() < head + length {
        return Ok(None);
    }
    unread.advance(head);
    Ok(Some((kind, unread.split_to(length).to_vec())))
}

fn put_text(body: &mut Vec<u8>, text: &[u8]) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    body.put_u16(length);
    body.extend(&text[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_whole_whatever_pieces_they_come_in() {
        let long = [&[PUBLISH, 0x80, 0x01][..], &[7; 128]].concat();
        let all = [&[CONNACK, 2, 0, 0][..], &long, &[UNSUBACK, 0]].concat();
        for piece in [1, 2, 3, 200] {
            let (mut unread, mut found) = (BytesMut::new(), Vec::new());
            for bytes in all.chunks(piece) {
                unread.extend_from_slice(bytes);
                while let Some((kind, body)) = take_packet(&mut unread).unwrap() {
                    found.push((kind, body.len()));
                }
            }
            assert_eq!(found, [(CONNACK, 2), (PUBLISH, 128), (UNSUBACK, 0)], "{piece}");
            assert!(unread.is_empty());
        }
        let mut endless = BytesMut::from(&[PUBLISH, 0xff, 0xff, 0xff, 0xff, 1][..]);
        take_packet(&mut endless).unwrap_err();
    }
}
