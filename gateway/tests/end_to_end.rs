//! The daemon from MQTT in to MQTT, metrics and API out, over a broker inside the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{Mac0, MaskedReading};
use rand::Rng;
use support::aggregates::{self, Slots, assert_exact, published, served};
use support::broker::{self, Access};
use support::client::Message;
use support::fleet::{Fate, Fleet, Outgoing};
use support::gateway::{Gateway, Settings};
use support::identities::Identities;
use support::metrics::Samples;
use support::mosquitto::binary;
use support::watcher::Watcher;
use support::{until, until_some};

const METERS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_with_silent_meters_are_decoded_to_the_watt_and_told_everywhere_alike() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = Settings::new(&access).cluster("north", METERS).cluster("south", METERS);
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    let north = Fleet::with_faults(&identities, &access, "north", METERS, silent(&[4]));
    let south = Fleet::with_faults(&identities, &access, "south", METERS, silent(&[0, 11]));

    for (cluster, fleet, missing) in [("north", &north, 1), ("south", &south, 2)] {
        let slots = decoded_slots(&mut watcher, cluster, 3).await;
        slots.values().for_each(|aggregate| assert_exact(aggregate, fleet));
        assert!(slots.values().all(|aggregate| aggregate.missing >= missing), "{slots:?}");
        let (samples, all) = at_rest(&gateway, cluster).await;
        for (slot, aggregate) in &slots {
            assert_eq!(all.get(slot), Some(aggregate), "the API says what was published");
        }
        assert_agreement(&samples, &all, cluster);
        assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
    }
    let samples = gateway.metrics();
    assert_eq!(samples.values_of("cluster"), BTreeSet::from(["north", "south"]));
    assert_clean(&gateway.get("/metrics").body);
    assert_eq!(samples.get("dream_broker_connected", &[]), Some(1.0));
    assert_eq!(samples.get("dream_certificate_expiry_timestamp_seconds", &[]), Some(2_461_449_600.0), "2048-01-01");
    assert!(samples.names().contains("dream_build_info"));
    // Something to be told about a meter, where meters may be told of.
    watcher.publish("dream/v1/north/reading/north-00", b"no reading", false);
    until("the log of details names a meter", || gateway.said().contains("north-00")).await;
    assert_no_meter_is_named(&gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_meter_that_vanishes_between_reading_and_reveal_costs_an_attempt_and_not_the_slot() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    let fleet = Fleet::with_faults(&identities, &access, "north", METERS, |outgoing| {
        let vanished = outgoing.meter == 2
            && (outgoing.channel == MeterChannel::Reveal
                || (outgoing.channel == MeterChannel::Reading && outgoing.attempt > 0));
        if vanished { Fate::Lost } else { Fate::Sent }
    });
    let slots = decoded_slots(&mut watcher, "north", 2).await;
    for aggregate in slots.values() {
        assert_exact(aggregate, &fleet);
        assert_eq!(aggregate.attempts, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_with_too_many_silent_meters_gives_nothing_and_the_next_is_exact_again() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    let fleet = Fleet::with_faults(&identities, &access, "north", METERS, silent(&[0, 1, 2]));
    let failed = |message: &Message| outcome(message).as_deref() == Some("too_many_missing");
    watcher.wait_for("a slot that fails", failed).await;
    fleet.set_faults(|_| Fate::Sent);
    let slots = decoded_slots(&mut watcher, "north", 2).await;
    slots.values().for_each(|aggregate| assert_exact(aggregate, &fleet));
    assert_eq!(published(watcher.catch_up(), "north").values().next().unwrap().load_watts, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_messages_are_counted_by_reason_and_never_stop_the_good_ones() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    // As long as one is waited for, the readings of the others can be replayed.
    let fleet = Fleet::with_faults(&identities, &access, "north", METERS, silent(&[4]));
    fleet.list(1).await;
    let mut attacker = Watcher::start(&access, "attacker", &["dream/v1/north/reading/+"]).await;

    flood(&attacker, 3000);
    let mut replayed = BTreeSet::new();
    while replayed.len() < 3 * METERS {
        let fresh =
            |message: &Message| slot_of(message).is_some_and(|slot| !replayed.contains(&(slot, message.topic.clone())));
        let reading = attacker.wait_for("a reading", fresh).await;
        replay(&attacker, &reading, replayed.len());
        replayed.insert((slot_of(&reading).unwrap(), reading.topic));
    }
    let slots = decoded_slots(&mut watcher, "north", 3).await;
    slots.values().for_each(|aggregate| assert_exact(aggregate, &fleet));

    let counted = ["malformed", "duplicate", "bad_mac", "not_a_member"];
    until("every kind of bad reading is counted", || {
        counted.iter().all(|result| gateway.messages("reading", result) > 0.0)
    })
    .await;
    for (kind, result) in
        [("reading", "too_large"), ("enrol", "enrolment"), ("reveal", "malformed"), ("membership", "list")]
    {
        assert!(gateway.messages(kind, result) > 0.0, "{kind}, {result}: {}", gateway.get("/metrics").body);
    }
    assert!(gateway.messages("reading", "malformed") >= 500.0);
    assert!(gateway.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_later_finds_the_list_the_last_slot_the_gateway_and_the_sensors_retained() {
    let (identities, access) = (Identities::default(), broker::embedded());
    let settings = Settings::new(&access).cluster("north", METERS).home_assistant();
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, &access, "north", METERS);
    let mut watcher = Watcher::start(&access, "watcher", &["dream/v1/+/aggregate"]).await;
    decoded_slots(&mut watcher, "north", 1).await;

    let cluster = ClusterId::new("north").unwrap();
    let list = late(&access, "late-list", &GatewayChannel::Membership.topic(&cluster)).await;
    let list = MembershipList::verify(&list.payload, &cluster, &identities.pki.authorities()).unwrap();
    assert_eq!((list.members().len(), list.hash()), (METERS, fleet.list(1).await.hash()));
    let aggregate = late(&access, "late-slot", "dream/v1/north/aggregate").await;
    assert_exact(published(&[aggregate], "north").values().next().unwrap(), &fleet);
    let status = late(&access, "late-status", "dream/v1/gateway/gw-0/status").await;
    assert_eq!(status.payload, b"online");

    let sensor = late(&access, "late-sensor", "homeassistant/#").await;
    let sensor: serde_json::Value = serde_json::from_slice(&sensor.payload).unwrap();
    assert!(sensor.to_string().contains("dream/v1/north/aggregate"), "{sensor}");
}

/// These meters' readings are lost.
fn silent(meters: &'static [usize]) -> impl FnMut(&Outgoing<'_>) -> Fate + Send {
    |outgoing| {
        let lost = outgoing.channel == MeterChannel::Reading && meters.contains(&outgoing.meter);
        if lost { Fate::Lost } else { Fate::Sent }
    }
}

/// Waits until so many slots of a cluster were published as decoded.
async fn decoded_slots(watcher: &mut Watcher, cluster: &str, count: usize) -> Slots {
    until_some(&format!("{count} slots of {cluster} are decoded"), || {
        let mut slots = published(watcher.catch_up(), cluster);
        slots.retain(|_, aggregate| aggregate.outcome == "decoded");
        (slots.len() >= count).then_some(slots)
    })
    .await
}

fn outcome(message: &Message) -> Option<String> {
    let aggregate: aggregates::Aggregate = serde_json::from_slice(&message.payload).ok()?;
    Some(aggregate.outcome)
}

/// Metrics and API between two slots, so that they speak of the same one.
async fn at_rest(gateway: &Gateway, cluster: &str) -> (Samples, Slots) {
    let last = |samples: &Samples| samples.get("dream_cluster_last_slot_timestamp_seconds", &[("cluster", cluster)]);
    until_some("metrics stand still for a moment", || {
        let before = gateway.metrics();
        let slots = served(gateway, cluster);
        let after = gateway.metrics();
        (last(&before).is_some() && last(&before) == last(&after)).then_some((after, slots))
    })
    .await
}

/// Compares the metrics with the slots that the API lists.
fn assert_agreement(samples: &Samples, slots: &Slots, cluster: &str) {
    let newest = slots.values().rev().find(|aggregate| aggregate.outcome == "decoded").unwrap();
    let gauge = |name: &str| samples.get(&format!("dream_cluster_{name}"), &[("cluster", cluster)]);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let number = |count: i64| Some(count as f64);
    let count = |count: usize| number(count.try_into().unwrap());
    assert_eq!(gauge("load_watts"), number(newest.load_watts.unwrap()), "{newest:?}");
    assert_eq!(gauge("load_filtered_watts"), number(newest.load_filtered_watts.unwrap()), "{newest:?}");
    let filtered = [("cluster", cluster), ("confidence", "0.95")];
    let filtered = samples.get("dream_cluster_load_filtered_band_watts", &filtered);
    assert_eq!(filtered, number(newest.band95_filtered_watts.unwrap()), "{newest:?}");
    assert_eq!(gauge("members"), count(newest.members));
    assert_eq!(gauge("responders"), count(newest.responders));
    assert_eq!(gauge("missing"), count(newest.missing));
    assert_eq!(gauge("membership_epoch"), number(newest.epoch.try_into().unwrap()));
    assert_eq!(gauge("epsilon"), Some(1.0));
    assert_eq!(gauge("min_members"), count(METERS));
    assert!(gauge("max_missing") >= gauge("missing"), "the newest slot was decoded");
    assert_eq!(gauge("enrolments_expiring"), Some(0.0), "they were made a moment ago");
    for name in ["noise_scale_watts", "epsilon_day", "load_estimated_watts"] {
        assert!(gauge(name).is_some(), "{name}");
    }
    let bands = samples.sum("dream_cluster_load_band_watts", &[("cluster", cluster)]);
    let expected = newest.band95_watts.unwrap() + newest.band99_watts.unwrap();
    assert!((bands - expected).abs() <= 2.0, "{bands}, {newest:?}");
    for outcome in ["decoded", "too_many_missing", "reveal_missing", "unmask_failed", "interrupted"] {
        let closed = slots.values().filter(|aggregate| aggregate.outcome == outcome).count();
        let counted = samples.sum("dream_slots_total", &[("cluster", cluster), ("outcome", outcome)]);
        assert_eq!(Some(counted), count(closed), "{outcome}");
    }
    let readings: usize = slots.values().map(|aggregate| aggregate.responders).sum();
    let accepted = samples.sum("dream_messages_total", &[("kind", "reading"), ("result", "accepted")]);
    assert!(Some(accepted) >= count(readings), "{accepted} < {readings}");
}

/// What Prometheus's own linter says of a scrape: nothing.
fn assert_clean(scrape: &str) {
    let mut command = Command::new(binary("promtool"));
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut linter = command.spawn().unwrap();
    linter.stdin.take().unwrap().write_all(scrape.as_bytes()).unwrap();
    let output = linter.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Nobody learns of a single meter: not from metrics, not from the API or its page, not from a log without `debug`.
fn assert_no_meter_is_named(gateway: &Gateway) {
    let clusters = ["/api/v1/clusters/north", "/api/v1/clusters/north/slots", "/clusters/north"];
    for path in ["/metrics", "/readyz", "/", "/api/v1/clusters"].into_iter().chain(clusters) {
        let body = gateway.get(path).body;
        assert!(!body.contains("north-0") && !body.contains("south-0"), "{path}: {body}");
    }
    let said = gateway.said();
    let (quiet, loud): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.contains("DEBUG"));
    assert!(quiet.iter().any(|line| line.contains("north-0")), "what is looked for is found where it may be");
    assert!(loud.iter().all(|line| !line.contains("north-0") && !line.contains("south-0")), "{loud:?}");
}

/// Noise on every topic that a meter may publish on.
fn flood(attacker: &Watcher, count: usize) {
    let mut rng = rand::rng();
    for at in 0..count {
        let channel = MeterChannel::ALL[at % MeterChannel::ALL.len()];
        let mut noise = vec![0; at % 200];
        rng.fill_bytes(&mut noise);
        attacker.publish(&format!("dream/v1/north/{}/north-{:02}", channel.as_str(), at % 20), &noise, false);
    }
    attacker.publish("dream/v1/north/reading/north-00", &vec![7; 1 << 20], false);
    attacker.publish("dream/v1/north/reading/a/b", b"too deep", false);
    attacker.publish("dream/v1/north/membership", b"no list", false);
    attacker.publish("dream/v1/nowhere/reading/north-00", b"nobody's", false);
}

/// Which slot a reading is of; `None` if it is noise.
fn slot_of(message: &Message) -> Option<u64> {
    let envelope = Mac0::decode(&message.payload).ok()?;
    let reading = MaskedReading::decode(envelope.payload()).ok()?;
    message.topic.contains("north-").then_some(reading.slot.0)
}

/// Says a reading again: as it is, changed, in another meter's name, in nobody's name.
fn replay(attacker: &Watcher, reading: &Message, round: usize) {
    let mut forged = reading.payload.clone();
    if let Some(last) = forged.last_mut() {
        *last ^= 1;
    }
    attacker.publish(&reading.topic, &reading.payload, false);
    attacker.publish(&reading.topic, &forged, false);
    attacker.publish(&format!("dream/v1/north/reading/north-{:02}", round % METERS), &reading.payload, false);
    attacker.publish("dream/v1/north/reading/stranger", &reading.payload, false);
}

/// The first message that the broker has kept for a newcomer.
async fn late(access: &Access, id: &str, filter: &str) -> Message {
    let mut watcher = Watcher::start(access, id, &[filter]).await;
    watcher.wait_for(&format!("something retained on {filter}"), |_| true).await
}
