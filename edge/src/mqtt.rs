//! A connection to a broker that is kept: all that knows MQTT, and nothing that knows what is in a message.
//!
//! [`Client::run`] connects to each of its brokers in turn until one lets it in, polls that connection and does nothing else: a
//! task that also waited for room to publish would wait for itself. What happens goes out as [`Event`]s. Everybody else speaks
//! through the [`Session`] of a connection: what is said through one that is gone is dropped, and the next connection begins with
//! a new session and without subscriptions.
//!
//! No type of the MQTT library is visible outside.

mod cut;
mod dial;
pub mod dialog;
mod socket;
#[cfg(test)]
mod tests;
mod trouble;
mod url;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rumqttc::{
    AckMode, AsyncClient, Event as Polled, EventLoop, ManualAck, MqttOptions, Outgoing, Packet, PubAck, Publish,
    PublishOptions, QoS, SessionMode, SubscribeFilter, SubscribeReasonCode,
};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use zeroize::Zeroizing;

pub use trouble::{Cause, Trouble};
pub use url::BrokerUrl;

use crate::backoff::Backoff;
use crate::files::{self, FileError};
use dial::{Dial, Tcp};
use trouble::Attempt;

/// How long to wait before all brokers are tried again, and before a refused subscription is asked for again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
const RESUBSCRIBE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// A connection that stood for so long was a good one.
const GOOD: Duration = Duration::from_secs(10);

/// The largest packet there can be in MQTT.
const LARGEST_PACKET: usize = 268_435_455;

/// How many packets are read before anything is written.
const READ_BATCH: usize = 128;

/// How many filters go into one SUBSCRIBE packet.
const FILTERS_PER_PACKET: usize = 50;

/// How many events may wait. When they are not taken nothing more is read, and the broker keeps what it has.
const EVENTS: usize = 64;

/// A client, and the brokers that it may connect to.
pub struct Client {
    /// The brokers, in the order in which they are tried.
    pub urls: Vec<BrokerUrl>,
    pub id: String,
    /// Reads what is shown to a broker, for every connection anew.
    pub credentials: Box<dyn Fn() -> Result<Credentials, SecretError> + Send + Sync>,
    /// Whether the broker keeps what it has for this client while it is away.
    pub persistent: bool,
    /// What the broker says, retained, on a topic when the connection is lost.
    pub last_will: Option<(String, &'static str)>,
    pub keep_alive_seconds: u16,
    /// The largest packet that is taken. The client of a broker that sends a larger one loses the connection, unless it cuts them.
    pub largest_packet: usize,
    pub cutting: Option<Cutting>,
    pub acknowledges: Acknowledges,
    pub names: Names,
}

/// Why a key, a certificate or a password is invalid.
pub type SecretError = Box<dyn std::error::Error + Send + Sync>;

/// What is shown to a broker.
#[derive(Clone, Default)]
pub struct Credentials {
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A user name and its password.
    pub login: Option<(String, Zeroizing<Vec<u8>>)>,
}

impl Credentials {
    /// Returns a user name with the first line of its password's file, if it has one.
    pub fn login(name: &str, file: Option<&Path>) -> Result<(String, Zeroizing<Vec<u8>>), FileError> {
        let password = file.map(|file| Ok::<_, FileError>(files::password(&files::read(file)?))).transpose()?;
        Ok((name.to_owned(), password.unwrap_or_default()))
    }
}

/// When messages are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledges {
    AtOnce,
    /// By [`Session::acknowledge`]: when all that a message led to is durable.
    Later,
}

/// What is left of packets that are too large: the head, and the first bytes of the payload.
#[derive(Debug, Clone, Copy)]
pub struct Cutting {
    pub kept_payload: usize,
    /// The setting of the largest packet, for the log.
    pub setting: &'static str,
}

/// What the settings of a broker are called where a person sets them, to say what is wrong with which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Who connects, such as `the gateway`.
    pub client: &'static str,
    pub url: &'static str,
    pub ca: &'static str,
    /// The client's certificate and its key, if it can show one.
    pub certificate: Option<(&'static str, &'static str)>,
    pub login: &'static str,
    /// The beginning of the question whether another client has this one's name, and what to do about it.
    pub is_another: &'static str,
    pub tell_apart: &'static str,
}

/// What happens on a connection.
#[derive(Debug)]
pub enum Event {
    /// A broker has let the client in, which has to subscribe.
    Connected(Session),
    /// The broker has granted everything that was asked for with this tag.
    Subscribed { session: u64, tag: u64 },
    /// The broker refuses a filter; it is asked for again after a while.
    Refused { tag: u64, filter: String, again_in: Duration },
    /// Messages that were read together.
    Messages(Vec<Message>),
    /// The connection ended, or could not be made; there will be another one.
    Lost(Trouble),
}

/// A message, which a client that acknowledges later has to acknowledge if it has a receipt.
#[derive(Debug)]
pub struct Message {
    pub topic: Bytes,
    pub payload: Bytes,
    /// Whether the broker had kept it.
    pub retained: bool,
    pub receipt: Option<Receipt>,
}

/// What acknowledges a message, through the session in which it came: its packet identifier there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt(pub u16);

/// Takes events, each when there is room for it. Returns whether anybody still wants them.
pub type Outlet = Arc<dyn Fn(Event) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

impl Client {
    /// Returns a client of a session that ends with its connection. It takes the list of 10,000 members, which has up to 7 MB, and notices a
    /// dead connection well within any reveal window.
    pub fn new(urls: Vec<BrokerUrl>, id: impl Into<String>, credentials: Credentials, names: Names) -> Self {
        Self {
            urls,
            id: id.into(),
            credentials: Box::new(move || Ok(credentials.clone())),
            persistent: false,
            last_will: None,
            keep_alive_seconds: 10,
            largest_packet: 16 << 20,
            cutting: None,
            acknowledges: Acknowledges::AtOnce,
            names,
        }
    }

    /// Starts to connect, on a task of its own.
    pub fn start(self) -> Connection {
        let (sender, events) = mpsc::channel(EVENTS);
        let outlet: Outlet = Arc::new(move |event| {
            let sender = sender.clone();
            Box::pin(async move { sender.send(event).await.is_ok() })
        });
        Connection { events, polling: tokio::spawn(self.run(outlet)) }
    }

    /// Connects, and again after every loss, until nobody wants to know or a session was disconnected.
    pub async fn run(self, outlet: Outlet) {
        self.run_over(Tcp, outlet).await;
    }

    async fn run_over(self, dial: impl Dial, outlet: Outlet) {
        let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        for (number, (at, url)) in (1..).zip(self.urls.iter().enumerate().cycle()) {
            let trouble = match self.options(url, &dial) {
                Ok(options) => {
                    let has_certificate = options.1;
                    let (client, eventloop) = AsyncClient::builder(options.0).unbounded().build();
                    let session = Session { client, number, kept: false, outlet: outlet.clone() };
                    let Some((error, connected_for)) = poll(session, eventloop).await else { return };
                    if connected_for.is_some_and(|connected_for| connected_for >= GOOD) {
                        backoff.reset();
                    }
                    let (names, client_id) = (&self.names, self.id.as_str());
                    Attempt { url, names, client_id, has_certificate, connected_for }.explain(error)
                }
                Err(error) => Trouble::new(Cause::Secret, error.to_string()),
            };
            if !outlet(Event::Lost(trouble)).await {
                return;
            }
            // The next broker is tried at once; nobody waits before all of them have failed.
            if at + 1 == self.urls.len() {
                tokio::time::sleep(backoff.next_wait()).await;
            }
        }
    }

    /// Returns the options of a connection to this broker, and whether a client's certificate is shown.
    fn options(&self, url: &BrokerUrl, dial: &impl Dial) -> Result<(MqttOptions, bool), SecretError> {
        let Credentials { tls, login } = (self.credentials)()?;
        let tls = if url.tls { Some(tls.ok_or("there are no certificates to check the broker's with")?) } else { None };
        let has_certificate = tls.as_ref().is_some_and(|tls| tls.client_auth_cert_resolver.has_certs());
        let mut options = MqttOptions::new(self.id.clone(), (url.host.clone(), url.port));
        options
            .set_keep_alive(self.keep_alive_seconds)
            .set_session_mode(if self.persistent { SessionMode::Persistent } else { SessionMode::Clean })
            .set_ack_mode(match self.acknowledges {
                Acknowledges::AtOnce => AckMode::Automatic,
                Acknowledges::Later => AckMode::Manual,
            })
            .set_read_batch_size(READ_BATCH)
            .set_max_packet_size(self.largest_packet, LARGEST_PACKET);
        if let Some((topic, payload)) = &self.last_will {
            options.set_last_will(rumqttc::LastWill::new(topic.clone(), *payload, QoS::AtLeastOnce, true));
        }
        if let Some((name, password)) = login {
            options.set_credentials(name, password.to_vec());
        }
        let cutting = self.cutting.map(|cutting| (self.largest_packet, cutting));
        let (dial, url) = (dial.clone(), url.clone());
        options.set_socket_connector(move |_, network| {
            dial::connect(dial.clone(), url.clone(), network, tls.clone(), cutting)
        });
        Ok((options, has_certificate))
    }
}

/// Polls one connection to its end, and only polls. Returns why it ended and for how long it stood, if it did; `None` if it was
/// meant to end.
async fn poll(session: Session, mut eventloop: EventLoop) -> Option<(rumqttc::ConnectionError, Option<Duration>)> {
    let mut since = None;
    loop {
        let event = match eventloop.poll().await {
            Ok(Polled::Incoming(Packet::ConnAck(answer))) => {
                since = Some(Instant::now());
                Event::Connected(Session { kept: answer.session_present, ..session.clone() })
            }
            Ok(Polled::Incoming(Packet::Publish(publish))) => {
                Event::Messages(gather(publish, &mut eventloop.state.events))
            }
            Ok(Polled::Outgoing(Outgoing::Disconnect)) => return None,
            Ok(Polled::Incoming(_) | Polled::Outgoing(_)) => continue,
            Err(error) => return Some((error, since.map(|since| since.elapsed()))),
        };
        if !(session.outlet)(event).await {
            return None;
        }
    }
}

/// Returns the messages that were read together with the first and wait behind it.
fn gather(first: Publish, waiting: &mut VecDeque<Polled>) -> Vec<Message> {
    let mut batch = vec![first.into()];
    while let Some(Polled::Incoming(Packet::Publish(_)) | Polled::Outgoing(Outgoing::PubAck(_))) = waiting.front() {
        if let Some(Polled::Incoming(Packet::Publish(publish))) = waiting.pop_front() {
            batch.push(publish.into());
        }
    }
    batch
}

impl From<Publish> for Message {
    fn from(publish: Publish) -> Self {
        let receipt = (publish.qos != QoS::AtMostOnce).then_some(Receipt(publish.pkid));
        Self { topic: publish.topic, payload: publish.payload, retained: publish.retain, receipt }
    }
}

/// One connection to a broker, for as long as it lasts. None of its methods waits.
#[derive(Clone)]
pub struct Session {
    client: AsyncClient,
    number: u64,
    kept: bool,
    outlet: Outlet,
}

impl Session {
    /// Returns what tells this connection from earlier ones.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the broker has kept subscriptions and messages of an earlier connection.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Publishes with QoS 1.
    pub fn publish(&self, topic: String, payload: impl Into<Bytes>, retain: bool) {
        let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
        if self.client.try_publish(topic, payload.into(), options).is_err() {
            tracing::debug!("a message was not published: the connection is gone");
        }
    }

    /// Acknowledges messages that came in this session.
    pub fn acknowledge(&self, receipts: impl IntoIterator<Item = Receipt>) {
        for Receipt(packet) in receipts {
            if self.client.try_manual_ack(ManualAck::PubAck(PubAck::new(packet))).is_err() {
                tracing::debug!("messages were not acknowledged: the connection is gone");
                return;
            }
        }
    }

    /// Subscribes with QoS 1; an event with this tag says that the broker has granted every filter. What it refuses is asked for
    /// again until the result is aborted: a broker refuses also while something of its own is away.
    pub fn subscribe(&self, filters: Vec<String>, tag: u64) -> AbortHandle {
        let session = self.clone();
        let asking = tokio::spawn(async move {
            let mut backoff = Backoff::new(RESUBSCRIBE.0, RESUBSCRIBE.1);
            loop {
                match session.ask_for(&filters).await {
                    Ok(()) => {
                        (session.outlet)(Event::Subscribed { session: session.number, tag }).await;
                        return;
                    }
                    Err(NotGranted::Gone) => return,
                    Err(NotGranted::Refused(filter)) => {
                        let again_in = backoff.next_wait();
                        if !(session.outlet)(Event::Refused { tag, filter, again_in }).await {
                            return;
                        }
                        tokio::time::sleep(again_in).await;
                    }
                }
            }
        });
        asking.abort_handle()
    }

    async fn ask_for(&self, filters: &[String]) -> Result<(), NotGranted> {
        for chunk in filters.chunks(FILTERS_PER_PACKET) {
            let wanted = chunk.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
            let notice = self.client.try_subscribe_many_tracked(wanted).map_err(|_| NotGranted::Gone)?;
            let answer = notice.wait_async().await.map_err(|_| NotGranted::Gone)?;
            let refused = answer.return_codes.iter().position(|code| *code == SubscribeReasonCode::Failure);
            if let Some(refused) = refused {
                return Err(NotGranted::Refused(chunk.get(refused).cloned().unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// Ends subscriptions.
    pub fn unsubscribe(&self, filters: Vec<String>) {
        for filter in filters {
            if self.client.try_unsubscribe(filter).is_err() {
                return;
            }
        }
    }

    /// Ends the connection once everything that was published is confirmed. There will be no other.
    pub fn disconnect(&self) {
        if self.client.try_disconnect().is_err() {
            tracing::debug!("nothing to disconnect from");
        }
    }
}

/// Why subscriptions are not there.
enum NotGranted {
    /// The broker refuses this filter.
    Refused(String),
    /// The connection ended first.
    Gone,
}

/// A connection that is kept by a task of its own, and ends when it is dropped.
#[derive(Debug)]
pub struct Connection {
    events: mpsc::Receiver<Event>,
    polling: JoinHandle<()>,
}

impl Connection {
    /// Waits for what happens next; `None` when the connection was meant to end and has.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("urls", &self.urls).field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
}
