//! The client beside brokers in memory that do as a test says, in virtual time.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use rumqttc::mqttbytes::Error;
use rumqttc::{ConnAck, ConnectReturnCode, NetworkOptions, PingResp, SubAck};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const NAMES: Names = Names {
    client: "the test",
    url: "`url`",
    ca: "`ca`",
    certificate: Some(("`certificate`", "`key`")),
    login: "`login`",
    is_another: "is another test",
    tell_apart: "Stop it",
};

/// Brokers by their host. What is not there refuses connections.
#[derive(Debug, Clone, Default)]
struct Brokers(Arc<Mutex<BTreeMap<String, Broker>>>);

#[derive(Debug, Default)]
struct Broker {
    /// How many filters it refuses before it grants any.
    refusals: usize,
    /// What was asked for, and whether it was granted.
    asked: Vec<(String, bool)>,
    connections: Vec<JoinHandle<()>>,
}

impl Brokers {
    fn start(&self, host: &str, refusals: usize) {
        self.0.lock().unwrap().insert(host.to_owned(), Broker { refusals, ..Broker::default() });
    }

    /// Ends a broker and all its connections.
    fn stop(&self, host: &str) {
        let broker = self.0.lock().unwrap().remove(host).unwrap();
        broker.connections.iter().for_each(JoinHandle::abort);
    }

    fn asked(&self, host: &str) -> Vec<(String, bool)> {
        self.0.lock().unwrap()[host].asked.clone()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a client has nothing else to say")]
    async fn serve(self, host: String, mut stream: DuplexStream) {
        let mut bytes = BytesMut::new();
        loop {
            let packet = match Packet::read(&mut bytes, 10_000) {
                Ok(packet) => packet,
                Err(Error::InsufficientBytes(_)) => {
                    if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                        return;
                    }
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let mut out = BytesMut::new();
            match packet {
                Packet::Connect(_) => ConnAck::new(ConnectReturnCode::Success, false).write(&mut out).unwrap(),
                Packet::Subscribe(subscribe) => {
                    let mut brokers = self.0.lock().unwrap();
                    let Some(broker) = brokers.get_mut(&host) else { return };
                    let mut answer = |filter: SubscribeFilter| {
                        let granted = broker.refusals == 0;
                        broker.refusals -= usize::from(!granted);
                        broker.asked.push((filter.path, granted));
                        if granted {
                            SubscribeReasonCode::Success(QoS::AtLeastOnce)
                        } else {
                            SubscribeReasonCode::Failure
                        }
                    };
                    let codes = subscribe.filters.into_iter().map(&mut answer).collect();
                    SubAck::new(subscribe.pkid, codes).write(&mut out).unwrap()
                }
                Packet::PingReq => PingResp.write(&mut out).unwrap(),
                Packet::Publish(publish) => {
                    let echo = Publish::new("echo", QoS::AtMostOnce, publish.payload.to_vec());
                    PubAck::new(publish.pkid).write(&mut out).unwrap();
                    echo.write(&mut out).unwrap()
                }
                Packet::Disconnect => return,
                other => panic!("{other:?}"),
            };
            if stream.write_all(&out).await.is_err() {
                return;
            }
        }
    }
}

impl Dial for Brokers {
    type Stream = DuplexStream;

    async fn dial(&self, url: &BrokerUrl, _: NetworkOptions) -> io::Result<DuplexStream> {
        let mut brokers = self.0.lock().unwrap();
        let broker = brokers.get_mut(&url.host).ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, theirs) = duplex(1000);
        broker.connections.push(tokio::spawn(self.clone().serve(url.host.clone(), theirs)));
        Ok(ours)
    }
}

/// A client of brokers in memory, and what it says.
struct Running {
    events: mpsc::UnboundedReceiver<Event>,
    session: Option<Session>,
    polling: JoinHandle<()>,
}

impl Running {
    fn start(brokers: &Brokers, hosts: &[&str]) -> Self {
        let urls = hosts.iter().map(|host| BrokerUrl { tls: false, host: (*host).to_owned(), port: 1883 }).collect();
        let client = Client {
            persistent: true,
            largest_packet: 10_000,
            acknowledges: Acknowledges::Later,
            ..Client::new(urls, "test", Credentials::default(), NAMES)
        };
        let (sender, events) = mpsc::unbounded_channel();
        let outlet: Outlet = Arc::new(move |event| {
            let sent = sender.send(event).is_ok();
            Box::pin(async move { sent })
        });
        Self { events, session: None, polling: tokio::spawn(client.run_over(brokers.clone(), outlet)) }
    }

    /// Returns the next event in a few words.
    async fn next(&mut self) -> String {
        match self.events.recv().await.expect("the client runs") {
            Event::Connected(session) => {
                let number = session.number();
                session.subscribe(vec!["a".to_owned(), "b".to_owned()], 7);
                self.session = Some(session);
                format!("connected {number}")
            }
            Event::Subscribed { tag, .. } => format!("subscribed {tag}"),
            Event::Refused { filter, again_in, .. } => {
                assert!(again_in >= RESUBSCRIBE.0 / 2, "{again_in:?}");
                format!("refused {filter}")
            }
            Event::Messages(messages) => {
                let text = |message: &Message| String::from_utf8(message.payload.to_vec()).unwrap();
                messages.iter().map(text).collect::<Vec<_>>().join(" ")
            }
            Event::Lost(trouble) => trouble.label().to_owned(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_is_asked_for_again_until_it_is_granted() {
    let brokers = Brokers::default();
    brokers.start("one", 3);
    let mut client = Running::start(&brokers, &["one"]);
    let begun = Instant::now();
    for expected in ["connected 1", "refused a", "refused a"] {
        assert_eq!(client.next().await, expected);
    }
    assert!(begun.elapsed() >= RESUBSCRIBE.0 / 2, "not at once");
    assert_eq!(client.next().await, "subscribed 7");
    let asked = brokers.asked("one").into_iter().map(|(filter, granted)| format!("{filter} {granted}"));
    let expected = ["a false", "b false", "a false", "b true", "a true", "b true"];
    assert_eq!(asked.collect::<Vec<_>>(), expected, "all filters of a packet are asked for again");
    client.session.unwrap().publish("t".to_owned(), "hello", false);
    let Event::Messages(messages) = client.events.recv().await.unwrap() else { panic!("no message") };
    assert_eq!(messages[0].payload, "hello", "the connection is the same");
}

#[tokio::test(start_paused = true)]
async fn what_was_aborted_is_not_asked_for_again() {
    let brokers = Brokers::default();
    brokers.start("one", usize::MAX);
    let mut client = Running::start(&brokers, &["one"]);
    assert_eq!([client.next().await, client.next().await], ["connected 1", "refused a"]);
    let asking = client.session.as_ref().unwrap().subscribe(vec!["c".to_owned()], 8);
    while client.next().await != "refused c" {}
    asking.abort();
    let before = brokers.asked("one").iter().filter(|(filter, _)| filter == "c").count();
    tokio::time::sleep(10 * RESUBSCRIBE.1).await;
    assert_eq!(brokers.asked("one").iter().filter(|(filter, _)| filter == "c").count(), before);
}

#[tokio::test(start_paused = true)]
async fn brokers_are_tried_in_turn_when_one_is_down_and_when_it_dies() {
    let brokers = Brokers::default();
    brokers.start("two", 0);
    let mut client = Running::start(&brokers, &["one", "two"]);
    let begun = Instant::now();
    for expected in ["refused", "connected 2", "subscribed 7"] {
        assert_eq!(client.next().await, expected);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "the second is tried at once");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    brokers.start("one", 0);
    brokers.stop("two");
    for expected in ["closed", "connected 3", "subscribed 7"] {
        assert_eq!(client.next().await, expected);
    }
    assert_eq!(brokers.asked("one"), [("a".to_owned(), true), ("b".to_owned(), true)]);
    brokers.stop("one");
    let begun = Instant::now();
    for expected in ["closed", "refused", "refused", "refused"] {
        assert_eq!(client.next().await, expected);
    }
    assert!(begun.elapsed() >= RECONNECT.0 / 2 && begun.elapsed() < 2 * RECONNECT.0, "{:?}", begun.elapsed());
    brokers.start("one", 0);
    while client.next().await != "subscribed 7" {}
}

#[tokio::test(start_paused = true)]
async fn one_broker_that_stays_away_is_asked_less_and_less_often() {
    let mut client = Running::start(&Brokers::default(), &["one"]);
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(client.next().await, "refused");
    }
    let mean = begun.elapsed() / 100;
    assert!(mean > RECONNECT.1 / 3 && mean < RECONNECT.1, "{mean:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_disconnected_ends_the_client() {
    let brokers = Brokers::default();
    brokers.start("one", 0);
    let mut client = Running::start(&brokers, &["one"]);
    assert_eq!([client.next().await, client.next().await], ["connected 1", "subscribed 7"]);
    client.session.take().unwrap().disconnect();
    (&mut client.polling).await.unwrap();
    assert!(client.events.recv().await.is_none());
}
