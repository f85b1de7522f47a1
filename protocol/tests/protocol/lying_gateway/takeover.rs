//! Two gateways with one identity, and a gateway restored from a back-up.

use std::sync::Arc;

use dream_protocol::cluster::{self, Notice, Rejection};
use dream_protocol::keys::ListHash;
use dream_protocol::membership::ListError;
use dream_protocol::meter::{self, Refusal};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::ListStatement;

use crate::support::liar::NO_NOISE;
use crate::support::pki::Issued;
use crate::support::world::{ClusterNode, MeterNode, Packet, World};
use crate::support::{START, at, cluster_id, meter_config, meter_name, rng};

/// The epoch and the hash of the list before.
fn list_of(packet: &Packet) -> (u64, ListHash) {
    let statement = ListStatement::decode(&packet.payload).unwrap();
    (statement.previous_epoch, statement.previous)
}

/// The list that a gateway publishes once its changes have settled.
fn next_list(gateway: &mut ClusterNode, wall: Timestamp) -> Packet {
    let sent = gateway.tick_until(wall);
    let lists: Vec<_> = sent.into_iter().filter(|packet| packet.topic.ends_with("/membership/full")).collect();
    let [list] = lists.as_slice() else { panic!("one list, not {}", lists.len()) };
    list.clone()
}

fn accepted_by_all(world: &mut World, list: &Packet, wall: Timestamp) {
    for meter in 0..world.meters.len() {
        assert_eq!(world.deliver(meter, list, wall), []);
        assert_eq!(world.meters[meter].refusals(), [], "meter {meter}");
    }
}

/// Lets time pass until the list is renewed and everyone holds the new one.
fn renewal(world: &mut World) -> (Packet, Timestamp) {
    loop {
        let wall = world.gateway.cluster.deadline().unwrap();
        let sent = world.gateway.tick_until(wall);
        if let Some(list) = sent.into_iter().find(|packet| packet.topic.ends_with("/membership/full")) {
            accepted_by_all(world, &list, wall);
            return (list, wall);
        }
    }
}

#[test]
fn a_second_gateway_with_the_same_identity_continues_the_retained_list() {
    let mut world = World::new(10);
    let mut second = ClusterNode::new(world.gateway.config.clone(), at(START + 20), rng(99));
    assert_eq!(second.receive(&world.list_packet.clone(), at(START + 20)), []);
    assert_eq!(second.notices, [Notice::TakenOver { epoch: world.list.epoch() }]);
    let list = next_list(&mut second, at(START + 30));
    assert_eq!(list_of(&list), (world.list.epoch(), *world.list.hash()));
    accepted_by_all(&mut world, &list, at(START + 31));
}

#[test]
fn a_takeover_survives_a_restart() {
    let mut world = World::new(10);
    let mut second = ClusterNode::new(world.gateway.config.clone(), at(START + 20), rng(99));
    second.receive(&world.list_packet.clone(), at(START + 20));
    second.restart(at(START + 21));
    let list = next_list(&mut second, at(START + 30));
    assert_eq!(list_of(&list), (world.list.epoch(), *world.list.hash()));
    accepted_by_all(&mut world, &list, at(START + 31));
}

#[test]
fn a_gateway_restored_from_a_backup_continues_what_was_published_since() {
    let mut world = World::new(10);
    let backup = world.gateway.store.clone();
    let (renewed, wall) = renewal(&mut world);

    world.gateway.store = backup;
    world.gateway.restart(wall.plus_secs(1));
    // What it has is due for renewal, but it waits for the retained list, and continues that.
    assert_eq!(world.gateway.receive(&renewed, wall.plus_secs(2)), []);
    let list = next_list(&mut world.gateway, wall.plus_secs(10));
    let epoch = ListStatement::decode(&renewed.payload).unwrap().epoch;
    assert!(world.gateway.notices.contains(&Notice::TakenOver { epoch }));
    assert_eq!(list_of(&list).0, epoch);
    accepted_by_all(&mut world, &list, wall.plus_secs(11));
}

#[test]
fn a_backup_that_never_sees_the_retained_list_makes_a_second_one_that_meters_refuse() {
    let mut world = World::new(10);
    let backup = world.gateway.store.clone();
    let (_, wall) = renewal(&mut world);
    world.gateway.store = backup;
    world.gateway.restart(wall.plus_secs(1));
    let again = next_list(&mut world.gateway, wall.plus_secs(10));
    assert_eq!(list_of(&again), (world.list.epoch(), *world.list.hash()));
    let epoch = ListStatement::decode(&again.payload).unwrap().epoch;
    let mut statuses = Vec::new();
    for meter in 0..10 {
        statuses.extend(world.deliver(meter, &again, wall.plus_secs(11)));
        assert_eq!(world.meters[meter].refusals(), [Refusal::BrokenChain(epoch)]);
    }
    // Their statuses say so, and say which epoch they know: the list after that is one that they accept.
    statuses.iter().for_each(|status| drop(world.gateway.receive(status, wall.plus_secs(12))));
    assert_eq!(world.gateway.rejections, []);
    let next = next_list(&mut world.gateway, wall.plus_secs(700));
    accepted_by_all(&mut world, &next, wall.plus_secs(701));
}

/// Two gateways made a list of one epoch each, and each half of the meters holds another one's list.
fn split() -> (World, Packet) {
    let mut world = World::new(10);
    let mut second = ClusterNode::new(world.gateway.config.clone(), at(START), rng(99));
    // The half that hears the second gateway first: the same seeds enrol in the same way.
    for meter in 5..10 {
        world.meters[meter] = MeterNode::new(
            meter_config(&world.pki, &meter_name(meter)),
            Simulation::default(),
            rng(1000 + meter as u64),
        );
        world.meters[meter].handle(meter::Input::Connected, at(START));
    }
    for member in world.list.members() {
        let topic = MeterChannel::Enrol.topic(&cluster_id(), member.id());
        second.receive(&Packet::new(topic, member.bytes().to_vec()), at(START));
    }
    let other = next_list(&mut second, at(START + 5));
    assert_eq!(ListStatement::decode(&other.payload).unwrap().epoch, world.list.epoch());
    for meter in 5..10 {
        assert_eq!(world.deliver(meter, &other, at(START + 6)), []);
        assert_eq!(world.meters[meter].refusals(), []);
    }
    (world, other)
}

#[test]
fn an_epoch_that_two_gateways_made_is_left_out_so_that_both_halves_accept_the_next() {
    let (mut world, other) = split();
    world.gateway.receive(&other, at(START + 700));
    assert_eq!(world.gateway.notices.last(), Some(&Notice::TakenOver { epoch: world.list.epoch() }));
    let list = next_list(&mut world.gateway, at(START + 710));
    assert_eq!(list_of(&list), (world.list.epoch() + 1, ListHash::NONE));
    accepted_by_all(&mut world, &list, at(START + 711));
}

#[test]
fn an_epoch_that_two_gateways_made_is_left_out_after_a_restart_too() {
    let (mut world, other) = split();
    world.gateway.receive(&other, at(START + 700));
    world.gateway.restart(at(START + 701));
    let list = next_list(&mut world.gateway, at(START + 710));
    assert_eq!(list_of(&list), (world.list.epoch() + 1, ListHash::NONE));
    accepted_by_all(&mut world, &list, at(START + 711));
}

#[test]
fn a_retained_list_of_another_gateway_is_not_taken_over() {
    let mut world = World::new(10);
    let statement_bytes = world.list.bytes().clone();
    let own = ListStatement::decode(&statement_bytes).unwrap();
    let statement = ListStatement { epoch: own.epoch + 9, ..own };
    let [topic, full] =
        [GatewayChannel::Membership, GatewayChannel::FullMembership].map(|channel| channel.topic(&cluster_id()));
    let other = world.pki.gateway("gw-2");
    let payload = statement.seal((&other.identity(), &other.der), &topic);
    world.gateway.receive(&Packet::new(full.clone(), payload), at(START + 20));
    assert_eq!(world.gateway.rejections, [Rejection::OtherGateway]);

    // Nor is one that nobody certified signed, or that is older than ours.
    let forged = Issued { der: world.pki.gateway("gw").der, seed: [1; 32] };
    let payload = statement.seal((&forged.identity(), &forged.der), &topic);
    world.gateway.rejections.clear();
    world.gateway.receive(&Packet::new(full.clone(), payload), at(START + 20));
    assert_eq!(world.gateway.rejections, [Rejection::List(ListError::BadSignature)]);
    let own = world.pki.gateway("gw");
    let payload = ListStatement { epoch: 1, ..statement }.seal((&own.identity(), &own.der), &topic);
    world.gateway.rejections.clear();
    world.gateway.receive(&Packet::new(full, payload), at(START + 20));
    assert_eq!(world.gateway.rejections, []);
    assert!(!world.gateway.notices.iter().any(|notice| matches!(notice, Notice::TakenOver { .. })));
    assert_eq!(world.gateway.handle(cluster::Input::Tick, at(START + 30)), []);
}

#[test]
fn a_gateway_with_a_new_key_publishes_a_new_list_at_once() {
    let mut world = World::new(10);
    let renewed = world.pki.issue_for("gw", "gateway", [7; 32], |_| {});
    world.gateway.config.identity = Arc::new(renewed.identity());
    world.gateway.config.certificate = renewed.der.clone().into();
    let retained = world.list_packet.clone();
    world.gateway.restart(at(START + 700));
    world.gateway.receive(&retained, at(START + 701));
    let list = next_list(&mut world.gateway, at(START + 710));
    assert_eq!(list_of(&list).0, world.list.epoch(), "requests under the old list would not verify");
    accepted_by_all(&mut world, &list, at(START + 711));
}

#[test]
fn a_gateway_that_never_drops_members_hears_them_again() {
    let mut world = World::with(10, |config| config.roster.drop_after_slots = 0, NO_NOISE);
    let enrolment = world.list.members()[0].bytes().to_vec();
    let topic = MeterChannel::Enrol.topic(&cluster_id(), world.list.members()[0].id());
    world.gateway.receive(&Packet::new(topic, enrolment), at(START + 60));
    assert_eq!(world.gateway.rejections, [Rejection::Duplicate]);
}
