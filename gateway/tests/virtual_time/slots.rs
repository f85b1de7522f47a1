//! From readings in to aggregates, metrics and API out: every slot to the watt, and told everywhere alike.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{Mac0, MaskedReading, Message as _};
use dream_testkit::lab::aggregates::{Slots, assert_exact, published};
use dream_testkit::lab::client::Message;
use dream_testkit::lab::fleet::{Fate, Outgoing};
use dream_testkit::lab::process::program;
use dream_testkit::lab::prometheus::Samples;
use rand::Rng;

use crate::world::gateway::Gateway;
use crate::world::log::Log;
use crate::world::{AT_REST_MILLIS, World, eventually, eventually_some};

const METERS: usize = 12;

#[tokio::test(start_paused = true)]
async fn two_clusters_with_silent_meters_are_decoded_to_the_watt_and_told_everywhere_alike() {
    let log = Log::capture();
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).cluster("south", METERS);
    let gateway = Gateway::ready(&world, settings).await;
    let north = world.faulty_fleet("north", METERS, silent(&[4]));
    let south = world.faulty_fleet("south", METERS, silent(&[0, 11]));

    for (cluster, fleet, missing) in [("north", &north, 1), ("south", &south, 2)] {
        let slots = decoded_slots(&world, cluster, 3).await;
        slots.values().for_each(|aggregate| assert_exact(aggregate, fleet));
        assert!(slots.values().all(|aggregate| aggregate.missing >= missing), "{slots:?}");
        // Between two slots, so that all speak of the same one.
        world.sleep_into_slot(AT_REST_MILLIS).await;
        let (samples, all) = (gateway.metrics().await, gateway.slots(cluster).await);
        for (slot, aggregate) in &slots {
            assert_eq!(all.get(slot), Some(aggregate), "the API says what was published");
        }
        assert_agreement(&samples, &all, cluster);
        assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
    }
    let samples = gateway.metrics().await;
    assert_eq!(samples.values_of("cluster"), BTreeSet::from(["north", "south"]));
    assert_clean(gateway.get("/metrics").await.text());
    assert_eq!(samples.get("dream_broker_connected", &[]), Some(1.0));
    assert_eq!(samples.get("dream_certificate_expiry_timestamp_seconds", &[]), Some(2_461_449_600.0), "2048-01-01");
    assert!(samples.names().contains("dream_build_info"));
    // Something to be told about a meter, where meters may be told of.
    world.broker.publish("dream/v1/north/reading/north-00", b"no reading", false);
    eventually("the log of details names a meter", async || log.text().contains("north-00")).await;
    assert_no_meter_is_named(&gateway, &log.text()).await;
}

#[tokio::test(start_paused = true)]
async fn a_meter_that_vanishes_between_reading_and_reveal_costs_an_attempt_and_not_the_slot() {
    let world = World::new();
    let _gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.faulty_fleet("north", METERS, |outgoing| {
        let vanished = outgoing.meter == 2
            && (outgoing.channel == MeterChannel::Reveal
                || (outgoing.channel == MeterChannel::Reading && outgoing.attempt > 0));
        if vanished { Fate::Lost } else { Fate::Sent }
    });
    let slots = decoded_slots(&world, "north", 2).await;
    for aggregate in slots.values() {
        assert_exact(aggregate, &fleet);
        assert_eq!(aggregate.attempts, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_too_many_silent_meters_gives_nothing_and_the_next_is_exact_again() {
    let world = World::new();
    let _gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.faulty_fleet("north", METERS, silent(&[0, 1, 2]));
    let failed = |world: &World| {
        published(&world.broker.log(), "north").values().any(|aggregate| aggregate.outcome == "too_many_missing")
    };
    eventually("a slot fails", async || failed(&world)).await;
    fleet.set_faults(|_| Fate::Sent);
    let slots = decoded_slots(&world, "north", 2).await;
    slots.values().for_each(|aggregate| assert_exact(aggregate, &fleet));
    assert_eq!(published(&world.broker.log(), "north").values().next().unwrap().load_watts, None);
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_twice_count_once() {
    let world = World::new();
    let gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.faulty_fleet("north", METERS, |_| Fate::Twice);
    let slots = decoded_slots(&world, "north", 2).await;
    slots.values().for_each(|aggregate| assert_exact(aggregate, &fleet));
    world.sleep_into_slot(AT_REST_MILLIS).await;
    assert_eq!(world.broker.unacknowledged(&gateway.name()), 0, "what is of no use is acknowledged too");
}

#[tokio::test(start_paused = true)]
async fn bad_messages_are_counted_by_reason_and_never_stop_the_good_ones() {
    let world = World::new();
    let gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    // As long as one is waited for, the readings of the others can be replayed.
    let fleet = world.faulty_fleet("north", METERS, silent(&[4]));
    fleet.list(1).await;

    flood(&world, 400);
    let mut replayed = BTreeSet::new();
    while replayed.len() < 3 * METERS {
        for reading in world.broker.log() {
            let Some(slot) = slot_of(&reading) else { continue };
            if replayed.insert((slot, reading.topic.clone())) {
                replay(&world, &reading, replayed.len());
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let slots = decoded_slots(&world, "north", 3).await;
    slots.values().for_each(|aggregate| assert_exact(aggregate, &fleet));

    let counted = ["malformed", "duplicate", "bad_mac", "not_a_member"].map(|result| ("reading", result));
    let others =
        [("reading", "too_large"), ("enrol", "enrolment"), ("reveal", "malformed"), ("membership/full", "list")];
    for (kind, result) in counted.into_iter().chain(others) {
        let count = gateway.messages(kind, result).await;
        assert!(count > 0.0, "{kind}, {result}: {}", gateway.get("/metrics").await.text());
    }
    assert!(gateway.messages("reading", "malformed").await >= 60.0);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_finds_the_list_the_last_slot_the_gateway_and_the_sensors_retained() {
    let world = World::new();
    let settings = World::settings().cluster("north", METERS).home_assistant();
    let _gateway = Gateway::ready(&world, settings).await;
    let fleet = world.fleet("north", METERS);
    decoded_slots(&world, "north", 1).await;

    let cluster = ClusterId::new("north").unwrap();
    let retained = |topic: &str| world.broker.retained(topic).unwrap_or_else(|| panic!("nothing on {topic}"));
    let list = retained(&GatewayChannel::FullMembership.topic(&cluster));
    let list = MembershipList::verify(&list, &cluster, &world.identities.pki.authorities()).unwrap();
    assert_eq!((list.members().len(), list.hash()), (METERS, fleet.list(1).await.hash()));
    let topic = "dream/v1/north/aggregate";
    let aggregate = Message { topic: topic.to_owned(), payload: retained(topic), retained: true };
    assert_exact(published(&[aggregate], "north").values().next().unwrap(), &fleet);
    assert_eq!(retained("dream/v1/gateway/gw-0/status"), b"online");
    let sensor = retained("homeassistant/sensor/dream_north/config");
    let sensor: serde_json::Value = serde_json::from_slice(&sensor).unwrap();
    assert!(sensor.to_string().contains(topic), "{sensor}");
    let filtered = retained("homeassistant/sensor/dream_north_filtered/config");
    let filtered: serde_json::Value = serde_json::from_slice(&filtered).unwrap();
    assert_eq!(filtered["value_template"], "{{ value_json.load_filtered_watts }}");
    assert_eq!((&filtered["device_class"], &filtered["state_class"]), (&"power".into(), &"measurement".into()));
    assert_eq!(filtered["device"], sensor["device"], "one device for each cluster");
    assert_ne!(filtered["unique_id"], sensor["unique_id"]);
    let energy = retained("homeassistant/sensor/dream_north_energy/config");
    let energy: serde_json::Value = serde_json::from_slice(&energy).unwrap();
    assert_eq!((&energy["device_class"], &energy["state_class"]), (&"energy".into(), &"total".into()), "it may fall");
    assert_eq!((&energy["unit_of_measurement"], &energy["device"]), (&"Wh".into(), &sensor["device"]));
    let last: serde_json::Value = serde_json::from_slice(&retained(topic)).unwrap();
    for (template, expected) in [("value_template", "energy_watt_hours"), ("last_reset_value_template", "start")] {
        let path = energy[template].as_str().unwrap().trim_matches(['{', '}', ' ']).replace('.', "/");
        let pointer = path.strip_prefix("value_json").unwrap();
        assert!(pointer.ends_with(expected) && !last.pointer(pointer).unwrap().is_null(), "{template} of {last}");
    }
    assert!(world.broker.retained("dream/v1/north/recovery").is_none(), "a request is for those who are there");
}

/// These meters' readings are lost.
fn silent(meters: &'static [usize]) -> impl FnMut(&Outgoing<'_>) -> Fate + Send {
    |outgoing| {
        let lost = outgoing.channel == MeterChannel::Reading && meters.contains(&outgoing.meter);
        if lost { Fate::Lost } else { Fate::Sent }
    }
}

/// Waits until so many slots of a cluster were published as decoded.
async fn decoded_slots(world: &World, cluster: &str, count: usize) -> Slots {
    eventually_some(&format!("{count} slots of {cluster} are decoded"), async || {
        let mut slots = published(&world.broker.log(), cluster);
        slots.retain(|_, aggregate| aggregate.outcome == "decoded");
        (slots.len() >= count).then_some(slots)
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
    let mut command = Command::new(program("promtool", "prometheus"));
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut linter = command.spawn().unwrap();
    linter.stdin.take().unwrap().write_all(scrape.as_bytes()).unwrap();
    let output = linter.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Nobody learns of a single meter: not from metrics, not from the API or its page, not from a log without `debug`.
async fn assert_no_meter_is_named(gateway: &Gateway, log: &str) {
    let clusters = ["/api/v1/clusters/north", "/api/v1/clusters/north/slots", "/clusters/north"];
    for path in ["/metrics", "/readyz", "/", "/api/v1/clusters"].into_iter().chain(clusters) {
        let answer = gateway.get(path).await;
        let body = answer.text();
        assert!(!body.contains("north-0") && !body.contains("south-0"), "{path}: {body}");
    }
    let (quiet, loud): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| line.contains("DEBUG"));
    assert!(quiet.iter().any(|line| line.contains("north-0")), "what is looked for is found where it may be");
    assert!(loud.iter().all(|line| !line.contains("north-0") && !line.contains("south-0")), "{loud:?}");
}

/// Noise on every topic that a meter may publish on.
fn flood(world: &World, count: usize) {
    let mut rng = rand::rng();
    for at in 0..count {
        let channel = MeterChannel::ALL[at % MeterChannel::ALL.len()];
        let mut noise = vec![0; at % 200];
        rng.fill_bytes(&mut noise);
        world.broker.publish(&format!("dream/v1/north/{}/north-{:02}", channel.as_str(), at % 20), &noise, false);
    }
    world.broker.publish("dream/v1/north/reading/north-00", &vec![7; 1 << 20], false);
    world.broker.publish("dream/v1/north/reading/a/b", b"too deep", false);
    world.broker.publish("dream/v1/north/membership/full", b"no list", false);
    world.broker.publish("dream/v1/nowhere/reading/north-00", b"nobody's", false);
}

/// Which slot a reading is of; `None` if it is noise.
fn slot_of(message: &Message) -> Option<u64> {
    let envelope = Mac0::decode(&message.payload).ok()?;
    let reading = MaskedReading::decode(envelope.payload()).ok()?;
    message.topic.contains("north-").then_some(reading.slot.0)
}

/// Says a reading again: as it is, changed, in another meter's name, in nobody's name.
fn replay(world: &World, reading: &Message, round: usize) {
    let mut forged = reading.payload.clone();
    if let Some(last) = forged.last_mut() {
        *last ^= 1;
    }
    world.broker.publish(&reading.topic, &reading.payload, false);
    world.broker.publish(&reading.topic, &forged, false);
    world.broker.publish(&format!("dream/v1/north/reading/north-{:02}", round % METERS), &reading.payload, false);
    world.broker.publish("dream/v1/north/reading/stranger", &reading.payload, false);
}
