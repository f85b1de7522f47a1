//! Enrolments that would disturb others, go back in time, or are not allowed.

use std::collections::BTreeSet;

use dream_protocol::certificate::{CertificateError, Role};
use dream_protocol::cluster::Rejection;
use dream_protocol::enrolment::{Enrolment, EnrolmentError};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::AgreementPublic;
use dream_protocol::simulation::Simulation;
use dream_protocol::wire::EnrolmentStatement;

use crate::support::pki::{Issued, Pki};
use crate::support::world::{ClusterNode, Packet, World};
use crate::support::{START, at, cluster_config, cluster_id, enrol, rng};

/// A gateway whose roster is the ten members of its first list.
fn gateway() -> World {
    World::with(10, |_| {}, Simulation::default())
}

/// Offers an enrolment; a refused one must leave roster and store as they were.
fn offer(world: &mut World, id: &str, payload: Vec<u8>) -> Option<Rejection> {
    let (candidates, store) = (world.gateway.cluster.candidates(), world.gateway.store.clone());
    let topic = format!("dream/v1/north/enrol/{id}");
    world.gateway.receive(&Packet::new(topic, payload), at(START + 20));
    let rejection = world.gateway.rejections.pop();
    if rejection.is_some() {
        assert_eq!((world.gateway.cluster.candidates(), &world.gateway.store), (candidates, &store));
    }
    rejection
}

fn agreement_of(world: &World, meter: usize) -> AgreementPublic {
    *world.list.members()[meter].agreement()
}

#[test]
fn a_copied_agreement_key_keeps_nobody_out() {
    let mut world = gateway();
    let agreement = agreement_of(&world, 3);
    let copied = enrol("thief", &world.pki.meter("thief"), |statement| statement.agreement = agreement);
    assert_eq!(offer(&mut world, "thief", copied), None, "the key is of no use without its secret");
    let own = enrol("m-0003", &world.pki.meter("m-0003"), |statement| {
        (statement.agreement, statement.seq) = (agreement, statement.seq + 1);
    });
    assert_eq!(offer(&mut world, "m-0003", own), None);
}

#[test]
fn a_certificate_key_that_another_meter_uses_is_refused() {
    let mut world = gateway();
    let twin = world.pki.issue_for("twin", "meter", world.pki.meter("m-0003").seed, |_| {});
    let payload = enrol("twin", &twin, |statement| statement.agreement = AgreementPublic([9; 32]));
    assert_eq!(offer(&mut world, "twin", payload), Some(Rejection::KeyInUse));
}

#[test]
fn an_older_enrolment_is_refused_and_one_of_the_same_number_is_a_contradiction() {
    let mut world = gateway();
    let issued = world.pki.meter("m-0003");
    let known = world.list.members()[3].seq();
    let with_seq = |seq| enrol("m-0003", &issued, |statement: &mut EnrolmentStatement| statement.seq = seq);
    assert_eq!(offer(&mut world, "m-0003", with_seq(known - 1)), Some(Rejection::OldEnrolment));
    assert_eq!(offer(&mut world, "m-0003", with_seq(known)), Some(Rejection::Contradiction));
    assert_eq!(offer(&mut world, "m-0003", with_seq(known + 1)), None);
    let replayed = world.list.members()[3].bytes().to_vec();
    assert_eq!(offer(&mut world, "m-0003", replayed), Some(Rejection::OldEnrolment), "the first one, replayed");
}

#[test]
fn the_same_enrolment_again_is_a_duplicate() {
    let mut world = gateway();
    let replayed = world.list.members()[3].bytes().to_vec();
    assert_eq!(offer(&mut world, "m-0003", replayed), Some(Rejection::Duplicate));
}

#[test]
fn denied_and_unlisted_meters_are_refused() {
    let id = |name: &str| MeterId::new(name).unwrap();
    for (allow, deny) in
        [(None, BTreeSet::from([id("banned")])), (Some(BTreeSet::from([id("m-0000")])), BTreeSet::new())]
    {
        let pki = Pki::new();
        let mut config = cluster_config(&pki, 10);
        (config.roster.allow, config.roster.deny) = (allow, deny);
        let mut node = ClusterNode::new(config, at(START), rng(1));
        let payload = enrol("banned", &pki.meter("banned"), |_| {});
        node.receive(&Packet::new("dream/v1/north/enrol/banned".to_owned(), payload), at(START));
        assert_eq!((node.rejections.as_slice(), node.cluster.candidates()), (&[Rejection::Denied][..], 0));
        assert!(node.store.is_empty());
    }
}

#[test]
fn a_meter_that_is_denied_later_is_forgotten_at_the_next_start_and_counts_until_the_next_list() {
    let mut world = gateway();
    let begins = world.list.params().slot_start(world.list.from_slot());
    assert_eq!(world.gateway.cluster.denied_members(begins), 0);
    world.gateway.config.roster.deny.insert(MeterId::new("m-0003").unwrap());
    world.gateway.restart(at(START + 20));
    world.gateway.drain();
    assert_eq!(world.gateway.cluster.candidates(), 9);
    assert_eq!(world.gateway.cluster.denied_members(begins), 1);
    let again = world.list.members()[3].bytes().to_vec();
    assert_eq!(offer(&mut world, "m-0003", again), Some(Rejection::Denied));
}

#[test]
fn an_enrolment_on_another_meters_topic_is_refused() {
    let mut world = gateway();
    let payload = enrol("newcomer", &world.pki.meter("newcomer"), |_| {});
    assert_eq!(offer(&mut world, "m-0003", payload), Some(Rejection::BadSignature));
}

#[test]
fn an_enrolment_that_no_list_could_hold_is_refused() {
    let mut world = gateway();
    let newcomer = world.pki.meter("newcomer");
    let forged = Issued { der: newcomer.der.clone(), seed: [8; 32] };
    let south = ClusterId::new("south").unwrap();
    let period = EnrolmentError::Period { not_before: START, not_after: START };
    let elsewhere = EnrolmentError::OtherCluster { expected: cluster_id(), found: south.clone() };
    let role = CertificateError::WrongAuthority { needed: Role::Meter };
    let cases: Vec<(Vec<u8>, EnrolmentError)> = vec![
        (
            enrol("newcomer", &newcomer, |statement| statement.agreement = AgreementPublic([0; 32])),
            EnrolmentError::LowOrder,
        ),
        (enrol("newcomer", &newcomer, |statement| statement.not_after = START), period),
        (enrol("newcomer", &newcomer, |statement| statement.cluster = south), elsewhere),
        (enrol("newcomer", &newcomer, |statement| statement.certificate = [0; 32]), EnrolmentError::OtherCertificate),
        (enrol("newcomer", &forged, |_| {}), EnrolmentError::BadSignature),
        (enrol("newcomer", &world.pki.gateway("newcomer"), |_| {}), role.into()),
        (
            enrol("newcomer", &Pki::named("foreign").meter("newcomer"), |_| {}),
            CertificateError::UnknownAuthority.into(),
        ),
    ];
    for (payload, error) in cases {
        assert!(Enrolment::verify(&payload, &cluster_id(), &world.pki.authorities()).is_err());
        assert_eq!(offer(&mut world, "newcomer", payload), Some(Rejection::Enrolment(error)));
    }
}

#[test]
fn enrolments_that_end_soon_are_counted_until_they_are_renewed() {
    let mut world = gateway();
    let ending = |world: &World, days: u64| world.gateway.cluster.enrolments_ending_before(at(START + days * 86_400));
    let before = ending(&world, 7);
    let newcomer = world.pki.meter("newcomer");
    let brief = enrol("newcomer", &newcomer, |statement| statement.not_after = START + 86_400);
    assert_eq!(offer(&mut world, "newcomer", brief), None);
    assert_eq!((ending(&world, 1), ending(&world, 7)), (0, before + 1), "it ends after one day, not before");
    let renewed = enrol("newcomer", &newcomer, |statement| statement.seq += 1);
    assert_eq!(offer(&mut world, "newcomer", renewed), None);
    assert_eq!(ending(&world, 7), before);
}
