//! A gateway that lost its store, and the broker its retained list: members know more than it does.

use dream_protocol::cluster::{Notice, Rejection};
use dream_protocol::ids::MeterId;
use dream_protocol::meter::Key;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{ListStatement, Message as _, Status, StatusCode};
use dream_testkit::virtual_cluster::VirtualCluster;

use crate::support::pki::Pki;
use crate::support::world::{ClusterNode, MeterNode, Packet, World, sign_list};
use crate::support::{START, at, cluster_config, cluster_id, meter_config, meter_name, rng};

/// Twelve meters with a list of two days.
fn twelve(members: u16) -> VirtualCluster {
    let pki = Pki::new();
    let meters: Vec<MeterNode> = (0..12)
        .map(|index| MeterNode::new(meter_config(&pki, &meter_name(index)), Simulation::NOISELESS, rng(index as u64)))
        .collect();
    let mut config = cluster_config(&pki, members);
    (config.roster.list_slots, config.roster.settle_seconds) = (288, 60);
    VirtualCluster::new(config, meters, at(START), rng(99))
}

fn run_until(cluster: &mut VirtualCluster, seconds: u64) {
    while cluster.now() < at(seconds) {
        cluster.advance(|_, _| Some(100));
    }
}

#[test]
fn a_cluster_whose_store_and_retained_list_are_lost_together_is_back_within_an_hour() {
    for after in [0, 1, 100, 300, 599] {
        let mut cluster = twelve(10);
        run_until(&mut cluster, START + 6 * 600 + after);
        let lost = cluster.now();
        let known = cluster.list().unwrap().epoch();
        cluster.gateway = ClusterNode::new(cluster.gateway.config.clone(), lost, rng(5));
        run_until(&mut cluster, lost.as_secs() + 3600);

        let list = cluster.gateway.cluster.list_at(cluster.now()).expect("a list is in force");
        assert_eq!((list.members().len(), list.previous_epoch()), (12, known + 1));
        let decoded = cluster.gateway.outcomes.iter().find_map(|outcome| outcome.result.ok());
        assert_eq!(decoded.map(|sum| sum.watts()), Some(1200), "{after} s into a slot");
        for node in cluster.meters.iter_mut().flatten() {
            let evidence = node.store.keys().any(|key| matches!(key, Key::Evidence(_)));
            assert!(!evidence, "nobody takes an accident for a lie");
        }
    }
}

#[test]
fn members_that_speak_up_after_the_first_list_are_in_the_second() {
    // Five are enough for a list, and the first five enrol before anybody says which epoch it knows.
    let mut cluster = twelve(5);
    run_until(&mut cluster, START + 6 * 600);
    let lost = cluster.now();
    let mut late: Vec<_> = (5..12).map(|index| cluster.meters[index].take()).collect();
    for index in 0..5 {
        let pki = Pki::new();
        let config = meter_config(&pki, &meter_name(index));
        cluster.meters[index] = Some(MeterNode::new(config, Simulation::NOISELESS, rng(50 + index as u64)));
    }
    let config = cluster.gateway.config.clone();
    let newcomers = cluster.meters.drain(..5).flatten().collect::<Vec<_>>();
    let mut cluster = VirtualCluster::new(config, newcomers, lost, rng(5));
    run_until(&mut cluster, lost.as_secs() + 300);
    let first = cluster.list().unwrap().clone();
    assert_eq!((first.members().len(), first.previous_epoch()), (5, 0));
    cluster.meters.extend(late.iter_mut().map(Option::take));
    run_until(&mut cluster, lost.as_secs() + 7200);
    let list = cluster.gateway.cluster.list_at(cluster.now()).expect("a list is in force");
    assert_eq!(list.members().len(), 12);
    let last = cluster.gateway.outcomes.last().unwrap();
    assert_eq!(last.result.map(|sum| sum.watts()), Ok(1200), "all of them are heard");
}

/// Lets half a day pass in which these members claim, slot after slot, to know a list of this very moment; returns how many
/// lists follow.
fn lists_that_follow_from(liars: &[usize]) -> usize {
    let pki = Pki::new();
    let mut cluster = twelve(10);
    run_until(&mut cluster, START + 3 * 600);
    let lists = |cluster: &VirtualCluster| {
        let published = |notice: &&Notice| matches!(notice, Notice::ListPublished { .. });
        cluster.gateway.notices.iter().filter(published).count()
    };
    let before = lists(&cluster);
    for slot in 0..72 {
        run_until(&mut cluster, START + (4 + slot) * 600 + 100);
        for &liar in liars {
            let name = meter_name(liar);
            let topic = MeterChannel::Status.topic(&cluster_id(), &MeterId::new(&name).unwrap());
            let status = Status {
                cluster: cluster_id(),
                list: None,
                slot: Slot(0),
                code: StatusCode::NoList,
                newest_epoch: cluster.now().as_secs(),
                least_malicious: 50,
                evidence: Vec::new(),
            };
            let packet = Packet::new(topic.clone(), status.seal(&pki.meter(&name).identity(), &topic));
            cluster.gateway.receive(&packet, cluster.now());
        }
    }
    assert!(cluster.gateway.outcomes.iter().filter(|outcome| outcome.result.is_ok()).count() >= 70);
    lists(&cluster) - before
}

#[test]
fn members_that_claim_to_know_a_later_list_cause_none_or_one_if_they_are_many() {
    assert_eq!(lists_that_follow_from(&[3]), 0, "one member");
    assert_eq!(lists_that_follow_from(&[3, 7]), 0, "two of twelve");
    assert_eq!(lists_that_follow_from(&[1, 3, 7]), 1, "three of twelve, once a day");
}

#[test]
fn one_list_of_a_stolen_key_costs_a_gateway_no_epochs_either() {
    let mut world = World::new(5);
    let own = ListStatement::decode(world.list.bytes()).unwrap();
    let of = |from: u64| {
        let (epoch, slot) = (from * 600, Slot(from));
        sign_list(&world.pki, &ListStatement { epoch, from_slot: slot, to_slot: slot, ..own.clone() })
    };
    let latest = (START + 20 + 2 * 86_400) / 600;
    let (beyond, poison) = (of(latest + 1), of(latest));
    assert_eq!(beyond.topic, GatewayChannel::FullMembership.topic(&cluster_id()));
    world.gateway.receive(&beyond, at(START + 20));
    assert_eq!(world.gateway.rejections, [Rejection::TooFarAhead]);
    world.gateway.receive(&poison, at(START + 20));
    assert!(world.gateway.notices.contains(&Notice::TakenOver { epoch: latest * 600 }));
    // The next list begins when its epoch does, and the list before is in force until its own end.
    let is_list = |packet: &&Packet| packet.topic.ends_with("/membership/full");
    let sent = world.gateway.tick_until(at(START + 900));
    let next = sent.iter().rfind(is_list).expect("a list follows");
    let next = ListStatement::decode(&next.payload).unwrap();
    assert_eq!((next.epoch, next.previous_epoch), (latest * 600 + 1, latest * 600));
    assert_eq!(next.from_slot, Slot(latest + 1));
    let last = world.list.params().slot_end(world.list.to_slot()).as_secs() - 1;
    assert_eq!(world.gateway.cluster.list_at(at(last)).unwrap().hash(), world.list.hash());
}
