//! Connections: who takes whose place, who is gone, and what the broker does not put up with.

use std::io::ErrorKind;

use dream_broker::Broker;
use dream_testkit::lab::client::{Answer, leave_will, publish_once};
use dream_testkit::lab::embedded_broker;
use dream_testkit::lab::watcher::Watcher;
use rumqttc::{ConnAck, Connect, ConnectReturnCode, LastWill, Packet, Publish, QoS, SubAck, SubscribeReasonCode};

use crate::access;
use crate::raw::Raw;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_will_is_published_if_a_connection_is_cut_and_not_after_a_farewell() {
    let broker = embedded_broker();
    let access = access(&broker);
    let mut watcher = Watcher::start(access.options("watcher"), &["will/#"]).await;
    let (mut polite, _) = Raw::connect(&broker, with_will("polite", 0));
    polite.send(&Packet::Disconnect);
    assert_eq!(polite.next(), None);
    assert_eq!(leave_will(access.options("cut"), "will/cut", b"gone").await, Answer::Granted);
    let heard = watcher.next().await;
    assert_eq!((heard.topic.as_str(), heard.payload.as_slice()), ("will/cut", b"gone".as_slice()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_silent_for_too_long_is_gone() {
    let broker = embedded_broker();
    let mut watcher = Watcher::start(access(&broker).options("watcher"), &["will/#"]).await;
    let (mut silent, _) = Raw::connect(&broker, with_will("silent", 1));
    watcher.wait_until_seen("will/silent", b"gone").await;
    assert_eq!(silent.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_same_id_takes_over_the_session_and_the_other_is_cut() {
    let broker = embedded_broker();
    let access = access(&broker);
    let mut watcher = Watcher::start(access.options("watcher"), &["will/#"]).await;
    let (mut old, _) = Raw::connect(&broker, Connect { clean_session: false, ..with_will("meter", 0) });
    old.subscribe("news");
    let (mut new, present) = Raw::connect(&broker, Connect { clean_session: false, ..Connect::new("meter") });
    assert!(present);
    assert_eq!(old.next(), None);
    watcher.wait_until_seen("will/meter", b"gone").await;
    // The end of the old connection does not harm the new one.
    assert_eq!(publish_once(access.options("writer"), "news", b"for the meter", false).await, Answer::Granted);
    assert!(matches!(new.next(), Some(Packet::Publish(publish)) if publish.payload == b"for the meter".as_slice()));
}

#[test]
fn what_no_client_may_do_ends_the_connection() {
    let broker = embedded_broker();
    let mut exactly_once = Publish::new("topic", QoS::ExactlyOnce, "payload");
    exactly_once.pkid = 1;
    for packet in [Packet::Publish(exactly_once), Packet::Connect(Connect::new("again")), Packet::PingResp] {
        let (mut client, _) = Raw::connect(&broker, Connect::new("client"));
        client.send(&packet);
        assert_eq!(client.next(), None, "{packet:?}");
    }
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0x30, 0xff, 0xff, 0xff, 0xff], &[0xc0, 0x00]] {
        let mut client = Raw::open(&broker);
        client.send_bytes(bytes);
        assert_eq!(client.next(), None, "{bytes:?}");
    }
}

#[test]
fn a_client_that_is_not_let_in_is_told_why() {
    let broker = embedded_broker();
    let will = LastWill::new("a/#", "x", QoS::AtMostOnce, false);
    let mut client = Raw::open(&broker);
    client.send(&Packet::Connect(Connect { last_will: Some(will), ..Connect::new("client") }));
    let refused = ConnAck::new(ConnectReturnCode::NotAuthorized, false);
    assert_eq!(client.next(), Some(Packet::ConnAck(refused)));
    assert_eq!(client.next(), None);
    // The client's codec writes neither version 5 nor a session without a name.
    for (bytes, code) in [
        (b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00".as_slice(), ConnectReturnCode::RefusedProtocolVersion),
        (b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x00\x00\x00", ConnectReturnCode::BadClientId),
    ] {
        let mut client = Raw::open(&broker);
        client.send_bytes(bytes);
        assert_eq!(client.next(), Some(Packet::ConnAck(ConnAck::new(code, false))));
        assert_eq!(client.next(), None);
    }
}

#[test]
fn nameless_clients_do_not_cut_each_other_and_a_bad_filter_is_refused() {
    let broker = embedded_broker();
    let [(mut one, _), (mut other, _)] = [(); 2].map(|()| Raw::connect(&broker, Connect::new("")));
    let refused = Packet::SubAck(SubAck::new(1, vec![SubscribeReasonCode::Failure]));
    assert_eq!(other.subscribe("a/#/b"), Some(refused));
    one.send(&Packet::PingReq);
    assert_eq!(one.next(), Some(Packet::PingResp));
}

#[test]
fn a_dropped_broker_closes_its_connections_and_its_port_and_a_taken_port_is_an_error() {
    let broker = embedded_broker();
    let address = broker.address();
    assert_eq!(Broker::start(address).unwrap_err().kind(), ErrorKind::AddrInUse);
    let (mut client, _) = Raw::connect(&broker, Connect::new("client"));
    drop(broker);
    assert_eq!(client.next(), None);
    let again = Broker::start(address).unwrap();
    assert!(!Raw::connect(&again, Connect { clean_session: false, ..Connect::new("client") }).1);
}

/// How a client connects that leaves a will under its own id.
fn with_will(id: &str, keep_alive: u16) -> Connect {
    let will = LastWill::new(format!("will/{id}"), "gone", QoS::AtLeastOnce, false);
    Connect { keep_alive, last_will: Some(will), ..Connect::new(id) }
}
