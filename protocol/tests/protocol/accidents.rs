//! What accidents and single members must not do to a cluster: strand it, or keep it busy.

use dream_protocol::cluster::{self, CannotForm, Notice, Rejection};
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::keys::AgreementSecret;
use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::meter;
use dream_protocol::scheme::Scheme;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{ANY_GATEWAY_STATUS, GatewayChannel, MeterChannel, gateway_status};
use dream_protocol::wire::{DecodeError, EnrolmentStatement, ListStatement, Message as _, Sign1, Status, StatusCode};
use dream_testkit::virtual_cluster::VirtualCluster;

use crate::support::liar::{FIRST, Liar, on};
use crate::support::pki::Pki;
use crate::support::world::{ClusterNode, MeterNode, Packet, World, sign_list};
use crate::support::{START, at, cluster_config, cluster_id, enrol, meter_config, meter_name, rng};

/// Twelve meters, of which ten make a cluster; a meter that is silent for twelve slots is dropped. Lists last forty slots.
fn twelve() -> VirtualCluster {
    let pki = Pki::new();
    let meters: Vec<MeterNode> = (0..12)
        .map(|index| MeterNode::new(meter_config(&pki, &meter_name(index)), Simulation::NOISELESS, rng(index as u64)))
        .collect();
    let mut config = cluster_config(&pki, 10);
    config.roster.list_slots = 40;
    VirtualCluster::new(config, meters, at(START), rng(99))
}

/// Lets time pass until `wall`; the first `away` homes are not read.
fn run_until(cluster: &mut VirtualCluster, wall: Timestamp, away: usize) {
    while cluster.now() < wall {
        cluster.advance(|meter, _| (meter >= away).then_some(100));
    }
}

fn dropped(cluster: &VirtualCluster) -> bool {
    cluster.gateway.notices.contains(&Notice::Dropped { members: 3 })
}

/// Asserts that a list of all twelve is in force, and that its slots open.
fn assert_goes_on(cluster: &mut VirtualCluster) {
    let now = cluster.now();
    let list = cluster.gateway.cluster.list_at(now).expect("a list is in force");
    assert_eq!((list.previous_epoch() > 0, list.members().len()), (true, 12));
    cluster.gateway.outcomes.clear();
    let outcome = cluster.next_outcome(|_, _| Some(100));
    assert_eq!(outcome.result.map(|sum| sum.watts()), Ok(1200));
}

#[test]
fn a_list_waits_for_seven_in_ten_of_the_meters_that_certificates_count() {
    let pki = Pki::new();
    let mut gateway = ClusterNode::new(cluster_config(&pki, 5), at(START), rng(1));
    let packet = |index: usize| {
        let id = meter_name(index);
        let issued = pki.meter_named(&id, "urn:dream:cluster:north:15");
        let topic = MeterChannel::Enrol.topic(&cluster_id(), &MeterId::new(&id).unwrap());
        Packet::new(topic, enrol(&id, &issued, |_| {}))
    };
    for index in 0..10 {
        gateway.receive(&packet(index), at(START));
    }
    assert_eq!(gateway.handle(cluster::Input::Tick, at(START + 5)), []);
    let reason = CannotForm::TooFew { least: 11 };
    assert_eq!(gateway.notices.last(), Some(&Notice::CannotForm { members: 10, reason }));
    gateway.receive(&packet(10), at(START + 10));
    assert_eq!(gateway.handle(cluster::Input::Tick, at(START + 15)).len(), 2, "a list of eleven, short and whole");
}

#[test]
fn dropped_members_that_are_heard_again_are_in_the_next_list() {
    let mut cluster = twelve();
    run_until(&mut cluster, at(START + 18 * 600), 3);
    assert!(dropped(&cluster));
    run_until(&mut cluster, at(START + 20 * 600), 0);
    assert!(cluster.gateway.notices.contains(&Notice::Readmitted { members: 3 }));
    run_until(&mut cluster, at(START + 46 * 600), 0);
    assert_goes_on(&mut cluster);
}

#[test]
fn members_that_are_away_until_after_the_last_list_bring_the_cluster_back() {
    let mut cluster = twelve();
    run_until(&mut cluster, at(START + 1800), 0);
    let mut away: Vec<_> = (0..3).map(|index| cluster.meters[index].take()).collect();
    run_until(&mut cluster, at(START + 46 * 600), 3);
    assert!(dropped(&cluster) && cluster.gateway.cluster.list_at(cluster.now()).is_none());
    (0..3).for_each(|index| cluster.meters[index] = away[index].take());
    let back = cluster.now().plus_secs(4 * 600);
    run_until(&mut cluster, back, 0);
    assert_goes_on(&mut cluster);
}

/// A gateway of so many members, and what they need to enrol again.
struct Roll {
    pki: Pki,
    gateway: ClusterNode,
}

impl Roll {
    fn new(members: usize) -> Self {
        let pki = Pki::new();
        let gateway = ClusterNode::new(cluster_config(&pki, u16::try_from(members).unwrap()), at(START), rng(1));
        let mut roll = Self { pki, gateway };
        (0..members).for_each(|index| roll.enrol(index, START));
        roll
    }

    /// Enrols a meter with a new key.
    fn enrol(&mut self, index: usize, now: u64) {
        let id = meter_name(index);
        let agreement = AgreementSecret::generate(&mut rng(now << 16 | index as u64)).public();
        let payload = enrol(&id, &self.pki.meter(&id), |statement| {
            (statement.agreement, statement.seq) = (agreement, now);
            (statement.not_before, statement.not_after) = (now, now + 35 * 86_400);
        });
        let topic = MeterChannel::Enrol.topic(&cluster_id(), &MeterId::new(&id).unwrap());
        self.gateway.receive(&Packet::new(topic, payload), at(now));
        assert_eq!(self.gateway.rejections, []);
    }

    /// Lets time pass; returns how many lists were published.
    fn lists_until(&mut self, now: u64) -> usize {
        self.gateway.notices.clear();
        self.gateway.tick_until(at(now));
        self.gateway.notices.iter().filter(|notice| matches!(notice, Notice::ListPublished { .. })).count()
    }
}

/// Lets a cluster of members renew in turn, each once in 23 days; returns the most lists of a day.
fn lists_a_day(members: usize) -> usize {
    let mut roll = Roll::new(members);
    let apart = 23 * 86_400 / members as u64;
    let days = (0..4).map(|day| {
        let (begin, end) = (START + day * 86_400, START + (day + 1) * 86_400);
        let renewals = (1..).map(|number| number * apart).skip_while(|after| START + after < begin);
        let mut lists = 0;
        for after in renewals.take_while(|after| START + after < end) {
            lists += roll.lists_until(START + after);
            let index = usize::try_from(after / apart).unwrap() % members;
            roll.enrol(index, START + after);
        }
        lists + roll.lists_until(end)
    });
    // The first day has the first list.
    days.skip(1).max().unwrap()
}

#[test]
fn a_quiet_cluster_makes_two_lists_a_day_at_most() {
    let lists = lists_a_day(1000);
    assert!((1..=2).contains(&lists), "{lists} lists in a day");
}

#[test]
fn a_member_that_enrols_every_hour_makes_no_more_lists_than_one_that_does_not() {
    let mut roll = Roll::new(10);
    roll.lists_until(START + 3600);
    let mut lists = 0;
    for hour in 1..=24 {
        roll.enrol(0, START + hour * 3600);
        lists += roll.lists_until(START + (hour + 1) * 3600);
    }
    assert!(lists <= 2, "{lists} lists in a day");
}

#[test]
fn a_retained_list_that_is_replaced_or_erased_is_published_again_and_somebody_is_told() {
    let mut world = World::new(5);
    let list = world.list_packet.clone();
    let mut wall = at(START + 100);
    for (found, erased) in [(&b"nonsense"[..], false), (b"", true)] {
        world.gateway.receive(&list, wall);
        world.gateway.notices.clear();
        let mut published = world.gateway.receive(&Packet::new(list.topic.clone(), found.to_vec()), wall);
        assert!(world.gateway.notices.contains(&Notice::ListOverwritten { epoch: world.list.epoch(), erased }));
        // Once, however often it happens: somebody else may go on publishing there.
        for _ in 0..20 {
            published.extend(world.gateway.receive(&Packet::new(list.topic.clone(), found.to_vec()), wall));
        }
        wall = wall.plus_secs(59);
        published.extend(world.gateway.tick_until(wall));
        assert!(published == [list.clone()], "published {} times", published.len());
        wall = wall.plus_secs(2);
    }
}

#[test]
fn an_earlier_list_that_comes_back_after_a_later_one_replaced_it() {
    let mut world = World::new(5);
    let first = world.list_packet.clone();
    let joined = enrol("new", &world.pki.meter("new"), |_| {});
    world.gateway.receive(&Packet::new("dream/v1/north/enrol/new".to_owned(), joined), at(START + 10));
    let second = world.gateway.tick_until(at(START + 700)).pop().unwrap();
    // The broker sends both, in their order: the first is no news.
    for packet in [&first, &second] {
        world.gateway.receive(packet, at(START + 701));
    }
    let newest = world.gateway.cluster.newest_list().unwrap().epoch();
    let overwritten =
        |world: &World| world.gateway.notices.contains(&Notice::ListOverwritten { epoch: newest, erased: false });
    assert!(!overwritten(&world));
    let mut published = world.gateway.receive(&first, at(START + 702));
    assert!(overwritten(&world));
    published.extend(world.gateway.tick_until(at(START + 800)));
    assert!(published == [second], "published {} times", published.len());
}

fn statement_of(packet: &Packet) -> EnrolmentStatement {
    EnrolmentStatement::decode(Sign1::decode_certified(&packet.payload).unwrap().0.payload()).unwrap()
}

#[test]
fn an_enrolment_of_a_clock_that_was_ahead_is_made_anew() {
    let pki = Pki::new();
    let mut node = MeterNode::new(meter_config(&pki, "m-0000"), Simulation::default(), rng(1));
    let sent = node.handle(meter::Input::Connected, at(START + 365 * 86_400));
    let ahead = statement_of(&sent[0]);
    node.restart(meter_config(&pki, "m-0000"), Simulation::default());
    let sent = node.handle(meter::Input::Connected, at(START));
    let anew = statement_of(on(MeterChannel::Enrol, &sent).last().unwrap());
    assert_eq!((anew.not_before, anew.seq), (START, ahead.seq + 1));
}

#[test]
fn a_gateway_refuses_an_enrolment_that_is_dated_ahead() {
    let mut world = World::new(5);
    for (ahead, rejections) in [(3600, vec![]), (3601, vec![Rejection::DatedAhead])] {
        let dated = enrol("new", &world.pki.meter("new"), |statement| {
            (statement.not_before, statement.seq) = (START + 10 + ahead, START + ahead);
        });
        world.gateway.rejections.clear();
        world.gateway.receive(&Packet::new("dream/v1/north/enrol/new".to_owned(), dated), at(START + 10));
        assert_eq!(world.gateway.rejections, rejections);
    }
}

#[test]
fn a_meter_that_floods_the_gateway_is_not_listened_to_for_a_minute() {
    const TOPIC: &str = "dream/v1/north/status/m-0000";
    let mut world = World::new(5);
    let status = Status {
        cluster: cluster_id(),
        list: None,
        slot: FIRST,
        code: StatusCode::NoList,
        newest_epoch: 0,
        least_malicious: 0,
        evidence: Vec::new(),
    };
    let forged = Packet::new(TOPIC.to_owned(), status.seal(&world.pki.meter("other").identity(), TOPIC));
    let genuine = Packet::new(TOPIC.to_owned(), status.seal(&world.pki.meter("m-0000").identity(), TOPIC));
    let wall = at(START + 100);
    (0..100).for_each(|_| drop(world.gateway.receive(&forged, wall)));
    let checked = world.gateway.rejections.iter().filter(|reason| **reason == Rejection::BadSignature).count();
    assert_eq!(checked, 12);
    world.gateway.rejections.clear();
    world.gateway.receive(&genuine, wall.plus_secs(59));
    assert_eq!(world.gateway.rejections, [Rejection::TooOften]);
    world.gateway.receive(&genuine, wall.plus_secs(60));
    assert_eq!(world.gateway.rejections.len(), 1);

    // Others are not concerned.
    let enrolment = enrol("new", &world.pki.meter("new"), |_| {});
    world.gateway.receive(&Packet::new("dream/v1/north/enrol/new".to_owned(), enrolment), wall);
    assert_eq!((world.gateway.rejections.len(), world.gateway.cluster.candidates()), (1, 6));
}

#[test]
fn a_repeated_request_is_answered_once_in_half_a_window() {
    let mut meters = Liar::new(10, 2, 1);
    meters.measure(0, FIRST, 100);
    let (request, asked) = (meters.request(FIRST, 0, &[]), meters.slot_end(FIRST).plus_secs(60));
    let sent = [0, 7, 14, 15, 22, 29, 30].map(|after| {
        let (sent, refusals) = meters.tell(0, &request, asked.plus_secs(after));
        assert_eq!(refusals, []);
        on(MeterChannel::Reveal, &sent).len()
    });
    assert_eq!(sent, [1, 0, 0, 1, 0, 0, 1], "the reveal window is 30 s");
}

#[test]
fn a_meter_without_a_list_enrols_when_a_gateway_comes_online() {
    let pki = Pki::new();
    let mut node = MeterNode::new(meter_config(&pki, "m-0000"), Simulation::default(), rng(1));
    let first = node.handle(meter::Input::Connected, at(START));
    assert!(node.meter.subscriptions().contains(&ANY_GATEWAY_STATUS.to_owned()));
    let replicas = [("gw-0", &b"offline"[..], false), ("other-0", b"online", false), ("gw-12", b"online", true)];
    for (replica, said, enrols) in replicas {
        let topic = gateway_status(&GatewayId::new(replica).unwrap());
        node.receive(&Packet::new(topic, said.to_vec()), at(START + 10));
        let sent = node.handle(meter::Input::Tick, at(START + 15));
        assert_eq!(sent == first, enrols, "{replica} {said:?}");
    }
}

#[test]
fn a_list_of_too_many_entries_is_refused_at_the_head_of_their_array() {
    let meters = Liar::new(5, 1, 1);
    let good = ListStatement::decode(meters.list().bytes()).unwrap();
    let long = sign_list(&meters.pki, &ListStatement { enrolments: vec![&[]; 10_001], ..good });
    let refused = MembershipList::verify(&long.payload, &cluster_id(), &meters.pki.authorities());
    assert_eq!(refused.unwrap_err(), ListError::Decode(DecodeError::OutOfRange { field: "members" }));
}

#[test]
fn the_costly_check_of_mask_partners_comes_after_all_signatures() {
    let meters = Liar::new(20, 1, 2);
    let mut list = ListStatement::decode(meters.list().bytes()).unwrap();
    list.terms.scheme = Scheme::Pairwise { partners: 1 };
    let verify = |list: &ListStatement<'_>| {
        let packet = sign_list(&meters.pki, list);
        MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap_err()
    };
    assert!(matches!(verify(&list), ListError::Params(_)));
    let mut forged = list.enrolments[7].to_vec();
    *forged.last_mut().unwrap() ^= 1;
    list.enrolments[7] = &forged;
    assert!(matches!(verify(&list), ListError::Enrolment { entry: 7, .. }));
}

#[test]
fn a_cluster_handles_the_edges_of_its_list_topic() {
    let mut world = World::new(5);
    let topic = GatewayChannel::FullMembership.topic(&cluster_id());
    // Without a connection nothing is published, and nothing is said.
    world.gateway.receive(&world.list_packet.clone(), at(START + 50));
    world.gateway.handle(cluster::Input::Disconnected, at(START + 60));
    world.gateway.notices.clear();
    world.gateway.receive(&Packet::new(topic, Vec::new()), at(START + 61));
    assert_eq!(world.gateway.notices, []);
}
