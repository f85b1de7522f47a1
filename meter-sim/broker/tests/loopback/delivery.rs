//! Messages reach whom they are meant for: now, later, again, and however large they are.

use bytes::Bytes;
use dream_broker::MAX_PACKET;
use dream_testkit::lab::client::{Answer, publish_once, subscribe_once};
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::lab::{embedded_broker, patiently};
use rumqttc::{AckMode, AsyncClient, Connect, Event, Outgoing, Packet, Publish, QoS};

use crate::access;
use crate::raw::Raw;

/// Connects with a session that stays, and takes in so many messages; acknowledges the first of them. Returns each payload with
/// whether it was marked as sent before, and whether there was a session.
async fn receive(options: rumqttc::MqttOptions, count: usize, acknowledged: usize) -> (Vec<(String, bool)>, bool) {
    let mut options = options;
    options.set_clean_session(false).set_ack_mode(AckMode::Manual);
    let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
    let mut seen = Vec::new();
    let mut present = false;
    patiently("messages", async {
        while seen.len() < count {
            match eventloop.poll().await.unwrap() {
                Event::Incoming(Packet::ConnAck(answer)) => present = answer.session_present,
                Event::Incoming(Packet::Publish(publish)) => {
                    if seen.len() < acknowledged {
                        client.try_manual_ack(client.prepare_ack(&publish).unwrap()).unwrap();
                    }
                    seen.push((String::from_utf8(publish.payload.to_vec()).unwrap(), publish.dup));
                }
                Event::Incoming(_) | Event::Outgoing(_) => {}
            }
        }
        client.try_disconnect().unwrap();
        while !matches!(eventloop.poll().await, Ok(Event::Outgoing(Outgoing::Disconnect)) | Err(_)) {}
    })
    .await;
    (seen, present)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_acknowledged_comes_again_and_what_came_meanwhile_after_it() {
    let broker = embedded_broker();
    let access = access(&broker);
    assert_eq!(subscribe_once(access.options("reader"), "news", QoS::AtLeastOnce).await, Answer::Granted);
    for payload in ["0", "1", "2"] {
        assert_eq!(publish_once(access.options("writer"), "news", payload.as_bytes(), false).await, Answer::Granted);
    }
    let named = |expected: &[(&str, bool)]| -> Vec<(String, bool)> {
        expected.iter().map(|&(payload, dup)| (payload.to_owned(), dup)).collect()
    };
    let first = receive(access.options("reader"), 3, 1).await;
    assert_eq!(first, (named(&[("0", false), ("1", false), ("2", false)]), true));
    assert_eq!(publish_once(access.options("writer"), "news", b"3", false).await, Answer::Granted);
    let second = receive(access.options("reader"), 3, 3).await;
    assert_eq!(second, (named(&[("1", true), ("2", true), ("3", false)]), true));
    assert_eq!(publish_once(access.options("writer"), "news", b"4", false).await, Answer::Granted);
    assert_eq!(receive(access.options("reader"), 1, 1).await, (named(&[("4", false)]), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retained_message_is_for_newcomers_until_another_or_an_empty_one_takes_its_place() {
    let broker = embedded_broker();
    let access = access(&broker);
    let mut early = Watcher::start(access.options("early"), &["a/+"]).await;
    for payload in ["old", "new"] {
        publish_once(access.options("writer"), "a/list", payload.as_bytes(), true).await;
        let heard = early.next().await;
        assert!(heard.payload == payload.as_bytes() && !heard.retained, "{heard:?}");
    }
    for (id, filter) in [("plain", "a/list"), ("wild", "#")] {
        let mut late = Watcher::start(access.options(id), &[filter]).await;
        late.wait_until_seen("a/list", b"new").await;
        assert!(late.seen().iter().all(|message| message.retained && message.payload == b"new"), "{:?}", late.seen());
    }
    publish_once(access.options("writer"), "a/list", b"", true).await;
    let mut latest = Watcher::start(access.options("latest"), &["a/list"]).await;
    latest.publish("a/list", b"not kept", false);
    assert_eq!(latest.next().await.payload, b"not kept");
    assert_eq!(latest.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wildcards_match_levels_and_overlapping_filters_deliver_once() {
    let broker = embedded_broker();
    let access = access(&broker);
    let mut one_level = Watcher::start(access.options("one"), &["home/+/watts"]).await;
    let mut below = Watcher::start(access.options("below"), &["home/#", "home/1/watts", "home/+/watts"]).await;
    for topic in ["home", "home/1/watts", "home/1/2/watts", "elsewhere", "home/2/watts"] {
        publish_once(access.options("writer"), topic, topic.as_bytes(), false).await;
    }
    let last = |message: &dream_testkit::lab::client::Message| message.topic == "home/2/watts";
    one_level.wait_for("the last", last).await;
    below.wait_for("the last", last).await;
    let topics = |watcher: &mut Watcher| watcher.seen().iter().map(|seen| seen.topic.clone()).collect::<Vec<_>>();
    assert_eq!(topics(&mut one_level), ["home/1/watts", "home/2/watts"]);
    assert_eq!(topics(&mut below), ["home", "home/1/watts", "home/1/2/watts", "home/2/watts"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsubscribed_filter_delivers_nothing_and_a_clean_session_ends_with_its_connection() {
    let broker = embedded_broker();
    let access = access(&broker);
    let (mut client, present) = Raw::connect(&broker, connect("reader", false));
    assert!(!present);
    client.subscribe("a");
    client.subscribe("b");
    let mut unsubscribe = rumqttc::Unsubscribe::new("a");
    unsubscribe.pkid = 2;
    client.send(&Packet::Unsubscribe(unsubscribe));
    assert!(matches!(client.next(), Some(Packet::UnsubAck(answer)) if answer.pkid == 2));
    publish_once(access.options("writer"), "a", b"for nobody", false).await;
    publish_once(access.options("writer"), "b", b"for the reader", false).await;
    assert!(matches!(client.next(), Some(Packet::Publish(publish)) if publish.topic == "b"));
    client.send(&Packet::Disconnect);
    assert_eq!(client.next(), None);
    assert!(Raw::connect(&broker, connect("reader", false)).1, "it stays");
    assert!(!Raw::connect(&broker, connect("reader", true)).1, "a clean one is new");
    assert!(!Raw::connect(&broker, connect("reader", false)).1, "and leaves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_packet_passes_and_a_larger_one_ends_the_connection() {
    let broker = embedded_broker();
    let access = access(&broker);
    let mut options = access.options("reader");
    options.set_max_packet_size(MAX_PACKET, MAX_PACKET);
    let mut reader = Watcher::start(options, &["list"]).await;
    let (mut writer, _) = Raw::connect(&broker, connect("writer", true));
    // The topic takes six bytes, and the id of the packet two.
    let largest = vec![b'x'; MAX_PACKET - 8];
    writer.send(&publish("list", QoS::AtLeastOnce, 1, largest.clone().into()));
    assert!(matches!(writer.next(), Some(Packet::PubAck(answer)) if answer.pkid == 1));
    reader.wait_until_seen("list", &largest).await;
    writer.send(&publish("list", QoS::AtLeastOnce, 2, vec![b'x'; MAX_PACKET].into()));
    assert_eq!(writer.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_up_nobody_and_loses_what_is_beyond_its_share() {
    const MESSAGES: usize = 150;
    let broker = embedded_broker();
    let access = access(&broker);
    let (mut slow, _) = Raw::connect(&broker, connect("slow", true));
    slow.subscribe("bulk");
    let mut quick = Watcher::start(access.options("quick"), &["bulk"]).await;
    let (mut writer, _) = Raw::connect(&broker, connect("writer", true));
    for number in 0..MESSAGES {
        let mut payload = vec![0; 1 << 20];
        payload[0] = u8::try_from(number).unwrap();
        writer.send(&publish("bulk", QoS::AtLeastOnce, 1, payload.into()));
        assert!(matches!(writer.next(), Some(Packet::PubAck(_))));
        assert_eq!(usize::from(quick.next().await.payload[0]), number);
    }
    writer.send(&publish("bulk", QoS::AtLeastOnce, 1, Bytes::from_static(b"\xffthe last")));
    quick.wait_until_seen("bulk", b"\xffthe last").await;
    // What fits: 64 MiB in the broker, and what the two sockets hold.
    let mut numbers = Vec::new();
    loop {
        let Some(Packet::Publish(message)) = slow.next() else { panic!("the connection has ended") };
        if message.payload[0] == 0xff {
            break;
        }
        numbers.push(usize::from(message.payload[0]));
    }
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "nothing is lost before the share is used up");
    assert!((63..MESSAGES).contains(&numbers.len()), "{}", numbers.len());
}

fn connect(id: &str, clean_session: bool) -> Connect {
    Connect { clean_session, keep_alive: 0, ..Connect::new(id) }
}

fn publish(topic: &str, qos: QoS, pkid: u16, payload: Bytes) -> Packet {
    Packet::Publish(Publish { pkid, ..Publish::from_bytes(topic, qos, payload) })
}
