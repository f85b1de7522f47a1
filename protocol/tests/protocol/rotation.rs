//! Authorities come and go, and a cluster's epochs go on.

use std::ops::Range;

use crate::support::pki::Pki;
use crate::support::world::{ClusterNode, Packet};
use crate::support::{cluster_config, cluster_id, enrol, meter_name, rng};
use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::cluster::Input;
use dream_protocol::ids::MeterId;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;

const START: Timestamp = Timestamp::from_secs(crate::support::START);

/// A gateway of one authority that takes the meters of both. Its lists form as soon as there are members.
fn gateway(staying: &Pki, leaving: &Pki) -> ClusterNode {
    let mut config = cluster_config(staying, 5);
    let meters = Anchors::new([staying.meter_authority(), leaving.meter_authority()]).unwrap();
    config.authorities = Authorities::new(meters, staying.authorities().gateways().clone()).unwrap();
    (config.roster.settle_seconds, config.roster.min_interval_seconds) = (1, 0);
    ClusterNode::new(config, START, rng(1))
}

fn enrol_meters(gateway: &mut ClusterNode, pki: &Pki, numbers: Range<usize>, now: Timestamp) {
    for id in numbers.map(meter_name) {
        let topic = MeterChannel::Enrol.topic(&cluster_id(), &MeterId::new(&id).unwrap());
        let payload = enrol(&id, &pki.meter(&id), |_| {});
        gateway.receive(&Packet::new(topic, payload), now);
    }
}

/// The newest list's epoch and how many are in it, a moment later.
fn newest(gateway: &mut ClusterNode, now: Timestamp) -> Option<(u64, usize)> {
    gateway.handle(Input::Tick, now.plus_secs(5));
    gateway.cluster.newest_list().map(|list| (list.epoch(), list.members().len()))
}

/// The epoch of a list that is made when [`newest`] is called so many seconds after the start.
fn epoch(after: u64) -> u64 {
    START.plus_secs(after + 5).as_secs()
}

#[test]
fn a_list_with_members_of_a_removed_authority_is_continued_and_not_started_over() {
    let (staying, leaving) = (Pki::named("staying"), Pki::named("leaving"));
    let mut gateway = gateway(&staying, &leaving);
    enrol_meters(&mut gateway, &staying, 0..6, START);
    enrol_meters(&mut gateway, &leaving, 6..7, START);
    assert_eq!(newest(&mut gateway, START), Some((epoch(0), 7)));

    // The authority is removed: its meter's entry in the list can no longer be read, nor the list with it.
    gateway.config.authorities = staying.authorities();
    gateway.restart(START.plus_secs(60));
    assert_eq!(newest(&mut gateway, START.plus_secs(60)), Some((epoch(60), 6)));

    // And again after another restart.
    let last = START.plus_secs(120);
    gateway.restart(last);
    enrol_meters(&mut gateway, &staying, 9..10, last);
    assert_eq!(newest(&mut gateway, last), Some((epoch(120), 7)));
}

#[test]
fn an_epoch_is_never_used_again_even_if_no_list_could_follow_for_a_while() {
    let (staying, leaving) = (Pki::named("staying"), Pki::named("leaving"));
    let mut gateway = gateway(&staying, &leaving);
    enrol_meters(&mut gateway, &leaving, 0..6, START);
    assert_eq!(newest(&mut gateway, START), Some((epoch(0), 6)));

    gateway.config.authorities = staying.authorities();
    for minute in 1..4 {
        let now = START.plus_secs(60 * minute);
        gateway.restart(now);
        assert_eq!(newest(&mut gateway, now), None);
    }
    let now = START.plus_secs(240);
    gateway.restart(now);
    enrol_meters(&mut gateway, &staying, 10..16, now);
    assert_eq!(newest(&mut gateway, now), Some((epoch(240), 6)));
}
