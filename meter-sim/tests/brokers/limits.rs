//! The limits that the shipped configurations promise, on real brokers: the largest list passes and is kept, a gateway has
//! many messages in its hands at once, and what it did not acknowledge comes again, with all that came while it was away.

use std::collections::BTreeSet;

use dream_testkit::lab::brokers::{Broker, BrokerKind};
use dream_testkit::lab::patiently;
use dream_testkit::lab::watcher::Watcher;
use rumqttc::{AckMode, AsyncClient, Event, MqttOptions, Outgoing, Packet, PublishOptions, QoS};

use super::trial::{CLUSTER, GATEWAY, Trial};

/// 10,000 members of 700 bytes.
const LARGEST_LIST: usize = 7_000_000;

/// What the shipped files allow, and more than any of these brokers hands out by default. That of rumqttd is 100, whatever its
/// file says, and a client that fills it is not served any more.
const fn window(kind: BrokerKind) -> Option<usize> {
    match kind {
        BrokerKind::Mosquitto | BrokerKind::RabbitMq | BrokerKind::Nats => Some(1000),
        BrokerKind::Rumqttd => None,
    }
}

/// Beyond any window, and beyond what a queue holds by default.
const WAITING: usize = 3000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mosquitto_has_room() {
    has_room(BrokerKind::Mosquitto).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_has_room() {
    has_room(BrokerKind::RabbitMq).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_has_room() {
    has_room(BrokerKind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rumqttd_has_room() {
    has_room(BrokerKind::Rumqttd).await;
}

async fn has_room(kind: BrokerKind) {
    let trial = Trial::new(2);
    let broker = Broker::start(kind, &trial.clients());
    the_largest_list_passes_and_is_kept(&trial, &broker).await;
    a_gateway_may_have_many_messages_in_its_hands(&trial, &broker).await;
}

async fn the_largest_list_passes_and_is_kept(trial: &Trial, broker: &Broker) {
    let [early, late] = [&trial.meters[0], &trial.meters[1]];
    let membership = format!("dream/v1/{CLUSTER}/membership/full");
    let list = vec![b'x'; LARGEST_LIST];
    let mut meter = Watcher::start(trial.options(broker, early), &[&membership]).await;
    let gateway = Watcher::start(trial.options_as(broker, Some(&trial.gateway), &client_id()), &[]).await;
    gateway.publish(&membership, &list, true);
    meter.wait_until_seen(&membership, &list).await;
    let mut newcomer = Watcher::start(trial.options(broker, late), &[&membership]).await;
    newcomer.wait_until_seen(&membership, &list).await;
    for listener in [meter, gateway, newcomer] {
        listener.leave().await;
    }
}

async fn a_gateway_may_have_many_messages_in_its_hands(trial: &Trial, broker: &Broker) {
    let gateway = || trial.options_as(broker, Some(&trial.gateway), &client_id());
    let filter = format!("dream/v1/{CLUSTER}/reading/+");
    let nothing = receive(gateway(), &filter, 0, false).await;
    assert!(nothing.is_empty());
    let meter = &trial.meters[0];
    publish_all(trial.options(broker, meter), &meter.name, WAITING).await;
    if let Some(window) = window(broker.kind) {
        assert_eq!(receive(gateway(), &filter, window, false).await.len(), window);
    }
    // None of them was acknowledged, so that all come again, and the others after them.
    let all = receive(gateway(), &filter, WAITING, true).await;
    assert_eq!(all, (0..WAITING).map(|number| number.to_string()).collect());
}

/// Connects as the gateway and takes in so many different messages, acknowledging all or none of them.
async fn receive(mut options: MqttOptions, filter: &str, count: usize, acknowledge: bool) -> BTreeSet<String> {
    options.set_clean_session(false).set_ack_mode(if acknowledge { AckMode::Automatic } else { AckMode::Manual });
    let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
    let mut seen = BTreeSet::new();
    let mut subscribed = false;
    patiently(&format!("{count} messages at once"), async {
        while !(subscribed && seen.len() >= count) {
            match eventloop.poll().await.unwrap() {
                Event::Incoming(Packet::ConnAck(_)) => client.try_subscribe(filter, QoS::AtLeastOnce).unwrap(),
                Event::Incoming(Packet::SubAck(_)) => subscribed = true,
                Event::Incoming(Packet::Publish(publish)) => {
                    seen.insert(String::from_utf8(publish.payload.to_vec()).unwrap());
                }
                Event::Incoming(_) | Event::Outgoing(_) => {}
            }
        }
        client.try_disconnect().unwrap();
        while !matches!(eventloop.poll().await, Ok(Event::Outgoing(Outgoing::Disconnect)) | Err(_)) {}
    })
    .await;
    seen
}

/// Publishes numbers as a meter, and returns when the broker has them all.
async fn publish_all(options: MqttOptions, meter: &str, count: usize) {
    let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
    let topic = format!("dream/v1/{CLUSTER}/reading/{meter}");
    for number in 0..count {
        client.try_publish(topic.clone(), number.to_string(), PublishOptions::new(QoS::AtLeastOnce)).unwrap();
    }
    patiently("the broker to take all messages", async {
        let mut acknowledged = 0;
        while acknowledged < count {
            if let Event::Incoming(Packet::PubAck(_)) = eventloop.poll().await.unwrap() {
                acknowledged += 1;
            }
        }
    })
    .await;
}

fn client_id() -> String {
    format!("{GATEWAY}-0")
}
