//! What anyone who may publish can do to a gateway, over a real Mosquitto: be counted, and nothing else.

use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::{Slots, assert_exact_or, decoded, published};
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::{Door, Mosquitto};
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::watcher::Watcher;
use dream_testkit::lab::{until, until_some};
use rand::Rng;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::gateway::Gateway;

const METERS: usize = 12;

/// Far more than a gateway with one small cluster uses, and an eighth of what is thrown at it.
const MEMORY: u64 = 128 << 20;

/// A broker that keeps everything for the gateway, in memory.
const LINES: &str = "autosave_on_changes false\nautosave_interval 3600\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_counted_takes_no_memory_and_stops_no_slot() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Open, LINES);
    let mut settings = Settings::new(broker.access()).cluster("north", METERS);
    settings.log = "info";
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    let mut watcher = Watcher::start(broker.access().options("watcher"), &["dream/v1/+/aggregate"]).await;
    decoded_slots(&mut watcher, 1).await;

    let attacker = Watcher::start(broker.access().options("attacker"), &["nothing"]).await;
    let (before, mut most) = (refused(&gateway), 0);
    for wave in 1..=10 {
        small_ones(&attacker, 4000);
        large_ones(&attacker, 100);
        until("the wave has passed", || {
            most = most.max(gateway.memory());
            let large = gateway.messages("reading", "too_large");
            large >= f64::from(100 * wave) && refused(&gateway) - before >= f64::from(4100 * wave)
        })
        .await;
    }
    assert!(most < MEMORY, "{} MiB", most >> 20);
    let seen = decoded_slots(&mut watcher, 1).await.len();
    let slots = decoded_slots(&mut watcher, seen + 2).await;
    // Readings that were queued behind the flood for too long cost their slot, and nothing more.
    let decoded = assert_exact_or(&slots, &fleet, &["too_many_missing", "reveal_missing"]);
    assert!(decoded >= seen + 2, "{slots:?}");
    assert!(gateway.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_beyond_the_limit_are_dropped_and_cost_neither_the_connection_nor_a_slot() {
    packets_beyond_the_limit_are_dropped(&Identities::default(), &Door::Open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_tls_too_packets_beyond_the_limit_are_dropped() {
    let identities = Identities::default();
    packets_beyond_the_limit_are_dropped(&identities, &Door::Tls(&identities)).await;
}

async fn packets_beyond_the_limit_are_dropped(identities: &Identities, door: &Door<'_>) {
    let broker = Mosquitto::with(door, LINES);
    let mut settings = Settings::new(broker.access()).cluster("north", METERS);
    settings.broker = "max_packet_bytes = 131072";
    settings.log = "info";
    // A busy machine takes a while to get around to everybody.
    for (short, long) in [("slot_seconds = 6", "slot_seconds = 12"), ("reading_seconds = 2", "reading_seconds = 4")] {
        settings.defaults = settings.defaults.replace(short, long);
    }
    settings.defaults = settings.defaults.replace("reveal_seconds = 1", "reveal_seconds = 2");
    let mut gateway = Gateway::start(identities, settings);
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(identities, broker.access(), "north", METERS);
    let mut watcher = Watcher::start(broker.access().options("watcher"), &["dream/v1/+/aggregate"]).await;
    decoded_slots(&mut watcher, 1).await;

    let attacker = Watcher::start(broker.access().options("attacker"), &["nothing"]).await;
    let large = vec![0xda; 3 << 20];
    let (readings, enrolments) = (30, 3);
    for _ in 0..readings {
        attacker.publish("dream/v1/north/reading/north-03", &large, false);
    }
    // The broker hands these out again with every subscription.
    for number in 0..enrolments {
        attacker.publish(&format!("dream/v1/north/enrol/north-{number:02}"), &large, true);
    }
    let mut most = 0;
    until("all packets are dropped", || {
        most = most.max(gateway.memory());
        let dropped = |kind: &str| gateway.messages(kind, "too_large");
        dropped("reading") >= f64::from(readings) && dropped("enrol") >= f64::from(enrolments)
    })
    .await;
    let seen = decoded_slots(&mut watcher, 1).await.len();
    let slots = decoded_slots(&mut watcher, seen + 2).await;
    assert_exact_or(&slots, &fleet, &[]);
    assert!(most < MEMORY, "{} MiB", most >> 20);
    assert_eq!(gateway.messages("reading", "too_large"), f64::from(readings));
    assert_eq!(gateway.metrics().sum("dream_broker_troubles_total", &[]), 0.0, "the connection stands");

    gateway.kill();
    gateway.start();
    gateway.wait_until_ready().await;
    until("retained ones are dropped", || gateway.messages("enrol", "too_large") >= f64::from(enrolments)).await;
    let seen = decoded(&published(watcher.seen(), "north"));
    decoded_slots(&mut watcher, seen + 1).await;
    assert_eq!(gateway.metrics().sum("dream_broker_troubles_total", &[]), 0.0, "the next connection stands too");
    assert!(gateway.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_http_clients_take_no_connection_from_the_broker_and_a_lack_of_handles_is_named() {
    let identities = Identities::default();
    let mut broker = Mosquitto::with(&Door::Open, LINES);
    let settings = Settings::new(broker.access()).cluster("north", METERS);
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    gateway.limit_handles(1024);
    let mut slow = Vec::new();
    for _ in 0..1200 {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.http())).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(stream);
    }
    broker.kill();
    until("the broker is gone", || gateway.get("/readyz").status == 503).await;
    broker.restart();
    gateway.wait_until_ready().await;
    assert!(gateway.handles() < 600, "{}", gateway.handles());
    assert_eq!(gateway.get("/livez").status, 200, "with all of them connected");

    broker.kill();
    until("the broker is gone", || gateway.get("/readyz").status == 503).await;
    gateway.limit_handles(3);
    broker.restart();
    let told = "too many files and connections are open; raise the limit";
    until("the log says what is wrong", || {
        let connecting = |line: &str| line.contains("no connection to the broker") && line.contains(told);
        gateway.printed().lines().any(connecting)
    })
    .await;
    gateway.limit_handles(1024);
    gateway.wait_until_ready().await;
}

/// Noise on every topic that a meter may publish on.
fn small_ones(attacker: &Watcher, count: usize) {
    let mut rng = rand::rng();
    for at in 0..count {
        let channel = MeterChannel::ALL[at % MeterChannel::ALL.len()];
        let mut noise = vec![0; at % 300];
        rng.fill_bytes(&mut noise);
        attacker.publish(&format!("dream/v1/north/{}/north-{:02}", channel.as_str(), at % 20), &noise, false);
    }
}

fn large_ones(attacker: &Watcher, count: usize) {
    let large = vec![0x5a; 1 << 20];
    (0..count).for_each(|_| attacker.publish("dream/v1/north/reading/north-05", &large, false));
}

/// How many messages were counted that were of no use.
fn refused(gateway: &Gateway) -> f64 {
    let samples = gateway.metrics();
    samples.sum("dream_messages_total", &[]) - samples.sum("dream_messages_total", &[("result", "accepted")])
}

/// Waits until so many slots were published as decoded, and returns all that were published.
async fn decoded_slots(watcher: &mut Watcher, count: usize) -> Slots {
    until_some(&format!("{count} slots are decoded"), || {
        let slots = published(watcher.seen(), "north");
        (decoded(&slots) >= count).then_some(slots)
    })
    .await
}
