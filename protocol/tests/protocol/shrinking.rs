//! A gateway whose cluster shrinks: T falls no faster than members accept, also after its records are lost.

use std::ops::Range;

use crate::support::pki::Pki;
use crate::support::world::{ClusterNode, Packet};
use crate::support::{cluster_config, cluster_id, enrol, meter_name, rng};
use dream_protocol::cluster::Input;
use dream_protocol::ids::MeterId;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{Message as _, Status, StatusCode};

const START: Timestamp = Timestamp::from_secs(crate::support::START);
const DAY: u64 = 86_400;

fn gateway(pki: &Pki) -> ClusterNode {
    let mut config = cluster_config(pki, 5);
    (config.roster.settle_seconds, config.roster.min_interval_seconds) = (1, 0);
    ClusterNode::new(config, START, rng(1))
}

fn enrol_meters(gateway: &mut ClusterNode, pki: &Pki, numbers: Range<usize>, now: Timestamp) {
    for id in numbers.map(meter_name) {
        let payload = enrol(&id, &pki.meter(&id), |statement| {
            let seconds = now.as_secs();
            (statement.not_before, statement.not_after, statement.seq) = (seconds, seconds + 34 * DAY, seconds);
        });
        gateway.receive(&Packet::new(topic(MeterChannel::Enrol, &id), payload), now);
    }
}

fn topic(channel: MeterChannel, id: &str) -> String {
    channel.topic(&cluster_id(), &MeterId::new(id).unwrap())
}

/// N and T of the newest list, a moment later.
fn newest(gateway: &mut ClusterNode, now: Timestamp) -> (u16, u16) {
    gateway.handle(Input::Tick, now.plus_secs(5));
    let list = gateway.cluster.newest_list().expect("a list");
    (list.params().members(), list.params().max_malicious())
}

/// Members say what T they accept at least.
fn report(gateway: &mut ClusterNode, pki: &Pki, numbers: Range<usize>, least_malicious: u16, now: Timestamp) {
    for id in numbers.map(meter_name) {
        let (list, slot, code) = (None, Slot(0), StatusCode::ListRefused);
        let status =
            Status { cluster: cluster_id(), list, slot, code, newest_epoch: 0, least_malicious, evidence: Vec::new() };
        let topic = topic(MeterChannel::Status, &id);
        let payload = status.seal(&pki.meter(&id).identity(), &topic);
        gateway.receive(&Packet::new(topic, payload), now);
        assert_eq!(gateway.rejections, []);
    }
}

#[test]
fn t_falls_by_a_step_at_once_and_then_in_31_days() {
    let pki = Pki::new();
    let mut gateway = gateway(&pki);
    enrol_meters(&mut gateway, &pki, 0..120, START);
    assert_eq!(newest(&mut gateway, START), (120, 12));
    // The next day 80 of them are denied: T may be one less, and no more than that for 31 days.
    gateway.config.roster.deny = (40..120).map(|number| MeterId::new(&meter_name(number)).unwrap()).collect();
    let mut on = |day: u64| {
        let now = START.plus_secs(day * DAY);
        enrol_meters(&mut gateway, &pki, 0..40, now);
        gateway.restart(now);
        newest(&mut gateway, now)
    };
    assert_eq!([1, 30, 32, 62, 63, 94].map(&mut on), [11, 11, 10, 10, 9, 8].map(|malicious| (40, malicious)));
}

#[test]
fn a_gateway_that_lost_its_records_learns_t_from_its_members() {
    let pki = Pki::new();
    let mut gateway = gateway(&pki);
    enrol_meters(&mut gateway, &pki, 0..40, START);
    assert_eq!(newest(&mut gateway, START), (40, 4), "a tenth");
    let now = START.plus_secs(60);
    report(&mut gateway, &pki, 0..4, 12, now);
    assert_eq!(newest(&mut gateway, now), (40, 4), "a tenth of the members could be liars");
    let now = START.plus_secs(120);
    report(&mut gateway, &pki, 4..5, 9, now);
    assert_eq!(newest(&mut gateway, now), (40, 9), "what more than a tenth ask for, or more");
    // It is in the record from then on.
    let now = START.plus_secs(180);
    gateway.restart(now);
    enrol_meters(&mut gateway, &pki, 40..41, now);
    assert_eq!(newest(&mut gateway, now), (41, 9), "they remember a step more");
}

#[test]
fn nobody_can_ask_for_more_than_leaves_enough_honest_members() {
    let pki = Pki::new();
    let mut gateway = gateway(&pki);
    gateway.config.floors.honest = 20;
    enrol_meters(&mut gateway, &pki, 0..40, START);
    gateway.restart(START);
    assert_eq!(newest(&mut gateway, START), (40, 4));
    let now = START.plus_secs(60);
    report(&mut gateway, &pki, 0..40, 10_000, now);
    let (members, malicious) = newest(&mut gateway, now);
    let missing = gateway.cluster.newest_list().unwrap().params().max_missing();
    assert_eq!((members, malicious), (40, 40 - missing - 20));
    // They go on asking, and no further list follows.
    let epoch = gateway.cluster.newest_list().unwrap().epoch();
    let now = START.plus_secs(200);
    report(&mut gateway, &pki, 0..40, 10_000, now);
    newest(&mut gateway, now);
    assert_eq!(gateway.cluster.newest_list().unwrap().epoch(), epoch);
}
