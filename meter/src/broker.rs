//! A connection to a broker: everything that knows MQTT, and nothing that knows what is in a message.
//!
//! The community's broker and the home's are reached by connections of their own, even if they are one: what is said to the home
//! cannot end up on the other by a mistake in a topic.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rumqttc::{
    AckMode, AsyncClient, Event as Polled, EventLoop, LastWill, ManualAck, MqttOptions, Outgoing, Packet,
    PublishOptions, QoS, SessionMode, SubscribeFilter, SubscribeReasonCode, TlsConfiguration, Transport,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::config::Broker;
use crate::files::{self, FileError};

/// The largest packet that is normal: a list of 10,000 members has up to 7 MB. Memory is taken when one comes.
const MAX_PACKET: usize = 16 << 20;

/// Well below any reveal window, so that a dead connection is noticed within a slot.
const KEEP_ALIVE_SECONDS: u16 = 10;

/// How long to wait before connecting again: twice as long each time, from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Why a broker cannot be reached as it is configured.
#[derive(Debug, Error)]
pub enum AccessError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("TLS towards {address} cannot be set up: {error}")]
    Tls { address: String, error: rustls::Error },
}

/// A broker, and what is shown to it.
#[derive(Clone)]
pub struct Access {
    broker: Broker,
    tls: Option<Arc<rustls::ClientConfig>>,
    password: Option<Zeroizing<Vec<u8>>>,
    session: SessionMode,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({})", self.broker)
    }
}

/// A client's certificate in DER, and its key.
pub type ClientCertificate<'a> = (&'a [u8], Zeroizing<Vec<u8>>);

impl Access {
    /// Reads the files that it takes; with TLS, the client's certificate is shown to the broker.
    pub fn new(broker: &Broker, client: Option<ClientCertificate<'_>>) -> Result<Self, AccessError> {
        let trouble = |error| AccessError::Tls { address: broker.to_string(), error };
        let tls = match &broker.ca {
            None => None,
            Some(ca) => Some(Arc::new(tls(files::certificates(ca)?, client).map_err(trouble)?)),
        };
        let password = broker.login.as_ref().map(|(_, file)| password(file.as_ref())).transpose()?;
        Ok(Self { broker: broker.clone(), tls, password, session: SessionMode::Clean })
    }

    /// Lets the broker keep what it has for this client while it is away.
    #[must_use]
    pub fn persistent(self) -> Self {
        Self { session: SessionMode::Persistent, ..self }
    }

    /// Adds to why there is no connection which setting was checked against what, and what to do.
    fn explain(&self, reason: &str) -> String {
        let Some(ca) = &self.broker.ca else { return reason.to_owned() };
        let (section, ca) = (self.broker.section, ca.display());
        let is = |signs: &[&str]| signs.iter().any(|sign| reason.contains(sign));
        let hint = if is(&[
            "alert: UnknownCA",
            "alert: DecryptError",
            "alert: BadCertificate",
            "alert: CertificateUnknown",
        ]) {
            "the broker does not accept `identity.certificate`: ask its operator to let it trust the authority that certifies \
             your community's meters"
                .to_owned()
        } else if is(&["alert: CertificateExpired"]) {
            "the broker says that `identity.certificate` has ended: renew it, or one of the clocks is wrong".to_owned()
        } else if is(&["UnknownIssuer", "BadSignature"]) {
            format!(
                "the broker's certificate is checked against {ca}, which `{section}.ca` names, and none there has issued it: ask the \
                 operator for the certificate of the authority that certifies the broker"
            )
        } else if is(&["NotValidForName"]) {
            format!("the broker's certificate is for another name than that in `{section}.url`: use one that is in it")
        } else if is(&["InvalidCertificate(Expired", "certificate expired"]) {
            "the broker's certificate has ended, or this machine's clock is wrong".to_owned()
        } else if is(&["InvalidContentType"]) {
            format!("the port does not speak TLS: use the broker's port for TLS in `{section}.url`")
        } else {
            return reason.to_owned();
        };
        format!("{reason}: {hint}")
    }

    fn options(&self, client_id: &str) -> MqttOptions {
        let mut options = MqttOptions::new(client_id, (self.broker.host.clone(), self.broker.port));
        options
            .set_keep_alive(KEEP_ALIVE_SECONDS)
            .set_max_packet_size(MAX_PACKET, MAX_PACKET)
            .set_session_mode(self.session)
            .set_ack_mode(AckMode::Manual);
        if let (Some((name, _)), Some(password)) = (&self.broker.login, &self.password) {
            options.set_credentials(name.clone(), password.to_vec());
        }
        if let Some(tls) = &self.tls {
            options.set_transport(Transport::Tls(TlsConfiguration::Rustls(tls.clone())));
        }
        options
    }
}

fn tls(
    roots: Vec<CertificateDer<'static>>,
    client: Option<ClientCertificate<'_>>,
) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store);
    match client {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from(certificate.to_vec())];
            builder.with_client_auth_cert(chain, PrivateKeyDer::Pkcs8(key.to_vec().into()))
        }
    }
}

/// Returns the file's first line, or an empty password without a file.
fn password(file: Option<&PathBuf>) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let Some(path) = file else { return Ok(Zeroizing::default()) };
    let text = files::read(path)?;
    let line = text.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or_default();
    Ok(Zeroizing::new(line.to_vec()))
}

/// What happens on a connection.
#[derive(Debug)]
pub enum Event {
    /// The broker has let this client in; it has to subscribe.
    Connected(Session),
    /// The broker has granted what was subscribed to together.
    Subscribed {
        tag: &'static str,
    },
    /// The broker refuses one of the filters.
    Refused {
        tag: &'static str,
    },
    Message {
        topic: String,
        payload: Bytes,
        receipt: Option<Receipt>,
    },
    Lost {
        reason: String,
    },
}

/// A message that waits to be acknowledged: when all that it led to is durable.
#[derive(Debug)]
pub struct Receipt(ManualAck);

/// One connection, for as long as it lasts. What is said through one that is gone is dropped.
#[derive(Debug, Clone)]
pub struct Session {
    client: AsyncClient,
    events: mpsc::Sender<Event>,
}

impl Session {
    /// Publishes with QoS 1.
    pub fn publish(&self, topic: String, payload: Vec<u8>, retain: bool) {
        let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
        if self.client.try_publish(topic, payload, options).is_err() {
            tracing::debug!("a message was not published: the connection is gone");
        }
    }

    pub fn acknowledge(&self, receipt: Receipt) {
        if self.client.try_manual_ack(receipt.0).is_err() {
            tracing::debug!("a message was not acknowledged: the connection is gone");
        }
    }

    /// Subscribes to filters in one packet; an [`Event`] with this tag follows.
    pub fn subscribe(&self, filters: Vec<String>, tag: &'static str) {
        let filters = filters.into_iter().map(|filter| SubscribeFilter::new(filter, QoS::AtLeastOnce));
        let Ok(notice) = self.client.try_subscribe_many_tracked(filters) else { return };
        let events = self.events.clone();
        tokio::spawn(async move {
            let Ok(answer) = notice.wait_async().await else { return };
            let refused = answer.return_codes.contains(&SubscribeReasonCode::Failure);
            let event = if refused { Event::Refused { tag } } else { Event::Subscribed { tag } };
            // Nobody waits for it when the meter stops.
            events.send(event).await.ok();
        });
    }

    pub fn unsubscribe(&self, filters: Vec<String>) {
        for filter in filters {
            if self.client.try_unsubscribe(filter).is_err() {
                return;
            }
        }
    }

    pub fn disconnect(&self) {
        self.client.try_disconnect().ok();
    }
}

/// How many events may wait. When they are not taken nothing more is read, and the broker keeps what it has.
pub const EVENTS: usize = 64;

/// Connects, and again after every loss, until nobody listens or the session was disconnected. The last will is a topic
/// and what the broker is to say there, retained, when the connection is lost.
pub async fn keep_connected(
    access: Access,
    client_id: String,
    last_will: Option<(String, &'static str)>,
    events: mpsc::Sender<Event>,
) {
    let mut wait = FIRST_WAIT;
    loop {
        let mut options = access.options(&client_id);
        if let Some((topic, payload)) = &last_will {
            options.set_last_will(LastWill::new(topic.clone(), *payload, QoS::AtLeastOnce, true));
        }
        let (client, eventloop) = AsyncClient::builder(options).unbounded().build();
        let session = Session { client, events: events.clone() };
        let Some((reason, was_connected)) = poll(&session, eventloop).await else { return };
        let reason = access.explain(&reason);
        if events.send(Event::Lost { reason }).await.is_err() {
            return;
        }
        if was_connected {
            wait = FIRST_WAIT;
        }
        // Never exactly when others do: a broker that restarts has many clients.
        tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..=1.0))).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Polls one connection to its end, and only polls: a task that also waited for room to publish would wait for itself.
/// Returns why it ended and whether it ever stood, or `None` if it was meant to end.
async fn poll(session: &Session, mut eventloop: EventLoop) -> Option<(String, bool)> {
    let mut connected = false;
    loop {
        let event = match eventloop.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(_))) => {
                connected = true;
                Event::Connected(session.clone())
            }
            Ok(Polled::Incoming(Packet::Publish(publish))) => {
                let receipt = session.client.prepare_ack(&publish).map(Receipt);
                let Ok(topic) = String::from_utf8(publish.topic.to_vec()) else { continue };
                Event::Message { topic, payload: publish.payload, receipt }
            }
            Ok(Polled::Outgoing(Outgoing::Disconnect)) => return None,
            Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => continue,
            Err(error) => return Some((error.to_string(), connected)),
        };
        session.events.send(event).await.ok()?;
    }
}
