//! Backlogs in the broker: making one, draining one with a bare subscriber, and the broker's own view of how long it took.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dream_protocol::ids::ClusterId;
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::access::Access;
use rumqttc::{AsyncClient, Event, Packet, PublishOptions, QoS, SubscribeFilter};

use crate::members::Message;

/// The argument with which this program becomes the bare subscriber.
pub const BARE: &str = "--bare-subscriber";

/// For how long the broker must have heard nothing before a backlog counts as drained.
const SILENCE: Duration = Duration::from_millis(300);

/// Bytes of a PUBACK.
const ACKNOWLEDGEMENT: u64 = 4;

/// Publishes with QoS 1, and says when the broker had them all.
pub async fn publish(access: &Access, messages: Vec<Message>) -> Instant {
    publish_with(access, messages, PublishOptions::at_least_once()).await
}

/// Removes retained messages.
pub async fn clear(access: &Access, topics: impl Iterator<Item = String>) {
    let empty = topics.map(|topic| (topic, Vec::new())).collect();
    publish_with(access, empty, PublishOptions::at_least_once().retain(true)).await;
}

async fn publish_with(access: &Access, messages: Vec<Message>, how: PublishOptions) -> Instant {
    let mut options = access.options("backlog");
    options.set_keep_alive(600).set_inflight(1000).set_max_request_batch(100);
    let (client, mut connection) = AsyncClient::builder(options).unbounded().build();
    let mut left = messages.len();
    for (topic, payload) in messages {
        client.try_publish(topic, payload, how).unwrap();
    }
    while left > 0 {
        if let Event::Incoming(Packet::PubAck(_)) = connection.poll().await.unwrap() {
            left -= 1;
        }
    }
    let done = Instant::now();
    client.try_disconnect().unwrap();
    while connection.poll().await.is_ok() {}
    done
}

/// Starts a process that takes `readings` messages from the queue of its session, and does nothing with them.
pub fn start_bare(access: &Access, clusters: &[ClusterId], readings: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([BARE, &access.port.to_string(), &readings.to_string()]);
    command.args(clusters.iter().map(ClusterId::as_str));
    command.spawn().unwrap()
}

/// The bare subscriber: rumqttc with a session that stays, and acknowledging by itself, which is the faster way.
pub fn bare(arguments: &[String]) {
    let [port, readings, clusters @ ..] = arguments else { panic!("a port, a number of readings, clusters") };
    let filter = |cluster: &String| MeterChannel::Reading.filter(&ClusterId::new(cluster).unwrap());
    let filters: Vec<String> = clusters.iter().map(filter).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let draining = drain(port.parse().unwrap(), readings.parse().unwrap(), filters);
    runtime.block_on(async { tokio::spawn(draining).await.unwrap() });
}

async fn drain(port: u16, readings: usize, filters: Vec<String>) {
    let mut options = Access::open(port).options("bare");
    options.set_clean_session(false);
    let (client, mut connection) = AsyncClient::builder(options).unbounded().build();
    let mut taken = 0;
    loop {
        let wait = if taken < readings { Duration::from_secs(60) } else { 2 * SILENCE };
        match tokio::time::timeout(wait, connection.poll()).await {
            Ok(Ok(Event::Incoming(Packet::ConnAck(_)))) => {
                for chunk in filters.chunks(50) {
                    let wanted = chunk.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
                    client.try_subscribe_many(wanted).unwrap();
                }
            }
            Ok(Ok(Event::Incoming(Packet::Publish(_)))) => taken += 1,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => panic!("the bare subscriber lost its connection: {error}"),
            Err(_) => break,
        }
    }
    assert_eq!(taken, readings, "the bare subscriber did not get everything");
    client.try_disconnect().unwrap();
    while connection.poll().await.is_ok() {}
}

/// How long a client took for a backlog, as the broker sees it: from the first byte that the client sends, its CONNECT, to
/// the last before it falls silent, its last acknowledgement or what it says right after. Nobody else may talk meanwhile.
///
/// What the broker has read is counted by the kernel, so that watching disturbs neither side.
pub fn time_drain(broker: u32, readings: usize) -> Duration {
    let least = ACKNOWLEDGEMENT * u64::try_from(readings).unwrap();
    let before = bytes_read(broker);
    let (mut first, mut last) = (None, Instant::now());
    let mut seen = before;
    loop {
        let (read, now) = (bytes_read(broker), Instant::now());
        if read != seen {
            seen = read;
            first = first.or(Some(now));
            last = now;
        }
        match first {
            Some(first) if seen - before >= least && now - last > SILENCE => return last - first,
            _ => assert!(now - last < Duration::from_secs(60), "the backlog is not drained"),
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn bytes_read(process: u32) -> u64 {
    let counters = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}
