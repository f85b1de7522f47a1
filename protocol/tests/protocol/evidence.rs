//! Two messages of a gateway that contradict each other: what they show to whom, and what shows nothing.

use dream_protocol::certificate::{Anchors, Authorities, CertificateError, Role};
use dream_protocol::cluster::{Notice, Rejection};
use dream_protocol::evidence::{self, Contradiction, EvidenceError};
use dream_protocol::ids::ClusterId;
use dream_protocol::keys::ListHash;
use dream_protocol::time::Slot;
use dream_protocol::wire::{
    EvidenceStatement, FullList, ListStatement, Message as _, RecoveryRequest, Retry, Status, StatusCode,
};

use crate::support::pki::{Issued, Pki};
use crate::support::world::{Packet, World, sign_list};
use crate::support::{START, at, cluster_id};

const RECOVERY: &str = "dream/v1/north/recovery";
const RETRY: &str = "dream/v1/north/retry";

fn request(gateway: &Issued, slot: u64, missing: u8) -> Vec<u8> {
    let (list, missing) = (ListHash([7; 32]), vec![missing]);
    RecoveryRequest { list, slot: Slot(slot), attempt: 0, missing, deadline: START }.seal(&gateway.identity(), RECOVERY)
}

fn retry(gateway: &Issued, deadline: u64) -> Vec<u8> {
    Retry { list: ListHash([7; 32]), slot: Slot(9), attempt: 1, deadline }.seal(&gateway.identity(), RETRY)
}

fn of_recovery(gateway: &Issued, first: Vec<u8>, second: Vec<u8>) -> EvidenceStatement {
    EvidenceStatement { cluster: cluster_id(), certificate: gateway.der.clone(), first, second }
}

fn judged(pki: &Pki, evidence: &EvidenceStatement) -> Result<Contradiction, EvidenceError> {
    evidence::judge(evidence, &pki.authorities()).map(|verdict| verdict.contradiction)
}

#[test]
fn two_requests_or_two_retries_for_one_attempt_convince_anyone() {
    let pki = Pki::new();
    let gateway = pki.gateway("gw");
    let two_requests = of_recovery(&gateway, request(&gateway, 9, 1), request(&gateway, 9, 2));
    assert_eq!(judged(&pki, &two_requests), Ok(Contradiction::Requests { slot: Slot(9), attempt: 0 }));
    let two_retries = of_recovery(&gateway, retry(&gateway, 1), retry(&gateway, 2));
    assert_eq!(judged(&pki, &two_retries), Ok(Contradiction::Retries { slot: Slot(9), attempt: 1 }));
    let verdict = evidence::judge(&two_retries, &pki.authorities()).unwrap();
    assert_eq!((verdict.gateway.as_str(), verdict.cluster), ("gw", cluster_id()));
}

#[test]
fn evidence_is_judged_with_authorities_of_gateways_alone() {
    let pki = Pki::new();
    let gateway = pki.gateway("gw");
    let evidence = of_recovery(&gateway, request(&gateway, 9, 1), request(&gateway, 9, 2));
    let (meters, gateways) = (pki.authorities().meters().clone(), pki.authorities().gateways().clone());
    let only = Authorities::new(Anchors::none(), gateways).unwrap();
    assert!(evidence::judge(&evidence, &only).is_ok());
    let others = Authorities::new(meters, Anchors::none()).unwrap();
    let unknown = EvidenceError::Certificate(CertificateError::UnknownAuthority);
    assert_eq!(evidence::judge(&evidence, &others), Err(unknown));
    // An authority of meters must not be able to frame a gateway.
    let framed = pki.swapped().gateway("gw");
    let evidence = of_recovery(&framed, request(&framed, 9, 1), request(&framed, 9, 2));
    let wrong = EvidenceError::Certificate(CertificateError::WrongAuthority { needed: Role::Gateway });
    assert_eq!(judged(&pki, &evidence), Err(wrong));
}

#[test]
fn messages_that_may_stand_beside_each_other_show_nothing() {
    let pki = Pki::new();
    let gateway = pki.gateway("gw");
    let first = request(&gateway, 9, 1);
    for second in [first.clone(), request(&gateway, 10, 2), retry(&gateway, 1)] {
        let evidence = of_recovery(&gateway, first.clone(), second);
        assert_eq!(judged(&pki, &evidence), Err(EvidenceError::NoContradiction));
    }
}

#[test]
fn messages_that_the_gateway_did_not_sign_for_that_cluster_show_nothing() {
    let pki = Pki::new();
    let (gateway, other) = (pki.gateway("gw"), pki.gateway("gw-2"));
    let first = request(&gateway, 9, 1);
    let forged = of_recovery(&gateway, first.clone(), request(&other, 9, 2));
    assert!(matches!(judged(&pki, &forged), Err(EvidenceError::BadSignature { which: "second", .. })));
    let elsewhere = ClusterId::new("south").unwrap();
    let moved =
        EvidenceStatement { cluster: elsewhere, ..of_recovery(&gateway, first.clone(), request(&gateway, 9, 2)) };
    assert!(matches!(judged(&pki, &moved), Err(EvidenceError::BadSignature { which: "first", .. })));
    let meter = pki.meter("gw");
    let of_a_meter = of_recovery(&meter, request(&meter, 9, 1), request(&meter, 9, 2));
    assert!(matches!(judged(&pki, &of_a_meter), Err(EvidenceError::Certificate(_))));
    let foreign = Pki::named("another authority").gateway("gw");
    let unknown = of_recovery(&foreign, request(&foreign, 9, 1), request(&foreign, 9, 2));
    assert!(matches!(judged(&pki, &unknown), Err(EvidenceError::Certificate(_))));
}

/// The headers of two lists that differ as `change` says.
fn two_headers(world: &World, signer: &Issued, change: impl FnOnce(&mut ListStatement<'_>)) -> EvidenceStatement {
    let first = world.list.header().to_vec();
    let mut other = ListStatement::decode(world.list.bytes()).unwrap();
    change(&mut other);
    let list = other.seal((&signer.identity(), &signer.der), "dream/v1/north/membership");
    let second = FullList::decode(&list).unwrap().header.to_vec();
    EvidenceStatement { cluster: cluster_id(), certificate: Vec::new(), first, second }
}

#[test]
fn headers_of_lists_that_deny_each_other_convince_anyone_in_either_order() {
    let world = World::new(5);
    let (pki, gateway, epoch) = (&world.pki, world.pki.gateway("gw"), world.list.epoch());
    let hash = *world.list.hash();
    let same_epoch = two_headers(&world, &gateway, |list| list.to_slot = list.to_slot.plus(1));
    let names_another = two_headers(&world, &gateway, |list| {
        (list.epoch, list.previous_epoch, list.previous) = (epoch + 9, epoch, ListHash([7; 32]));
    });
    let skips = two_headers(&world, &gateway, |list| (list.epoch, list.previous_epoch) = (epoch + 9, epoch - 1));
    let chain = |named| Contradiction::Chain { earlier: epoch, later: epoch + 9, named };
    for (evidence, shown) in
        [(same_epoch, Contradiction::Lists { epoch }), (names_another, chain(epoch)), (skips, chain(epoch - 1))]
    {
        assert_eq!(judged(pki, &evidence), Ok(shown));
        let (first, second) = (evidence.second.clone(), evidence.first.clone());
        assert_eq!(judged(pki, &EvidenceStatement { first, second, ..evidence }), Ok(shown));
    }

    let continues = two_headers(&world, &gateway, |list| {
        (list.epoch, list.previous_epoch, list.previous) = (epoch + 9, epoch, hash);
    });
    let after_others = two_headers(&world, &gateway, |list| (list.epoch, list.previous_epoch) = (epoch + 9, epoch + 1));
    for evidence in [continues, after_others] {
        assert_eq!(judged(pki, &evidence), Err(EvidenceError::NoContradiction));
    }
    let other = two_headers(&world, &world.pki.gateway("gw-2"), |list| list.to_slot = list.to_slot.plus(1));
    assert!(matches!(judged(pki, &other), Err(EvidenceError::TwoGateways { .. })));
}

fn status(world: &World, meter: &str, evidence: Vec<u8>) -> Packet {
    let topic = format!("dream/v1/north/status/{meter}");
    let (list, slot, code) = (None, Slot(0), StatusCode::Equivocation);
    let status = Status { cluster: cluster_id(), list, slot, code, newest_epoch: 0, least_malicious: 0, evidence };
    let payload = status.seal(&world.pki.meter(meter).identity(), &topic);
    Packet::new(topic, payload)
}

#[test]
fn a_meter_with_nothing_in_hand_raises_no_alert() {
    let mut world = World::new(5);
    world.gateway.notices.clear();
    let gateway = world.pki.gateway("gw");
    let same = of_recovery(&gateway, request(&gateway, 9, 1), request(&gateway, 9, 1)).encode();
    for evidence in [vec![0x80], same] {
        let packet = status(&world, "m-0000", evidence);
        world.gateway.receive(&packet, at(START + 20));
        assert!(matches!(world.gateway.rejections.pop(), Some(Rejection::Evidence(_))));
    }
    assert_eq!(world.gateway.notices, []);
}

#[test]
fn what_members_prove_is_told_once_and_kept_over_a_restart() {
    let mut world = World::new(5);
    world.gateway.notices.clear();
    let gateway = world.pki.gateway("gw");
    let evidence = of_recovery(&gateway, request(&gateway, 9, 1), request(&gateway, 9, 2)).encode();
    for meter in ["m-0000", "m-0001"] {
        let packet = status(&world, meter, evidence.clone());
        world.gateway.receive(&packet, at(START + 20));
    }
    let proven = |notice: &&Notice| matches!(notice, Notice::Proven { gateway, .. } if gateway.as_str() == "gw");
    assert_eq!(world.gateway.notices.iter().filter(proven).count(), 1);
    world.gateway.restart(at(START + 30));
    let [(contradiction, kept)] = world.gateway.cluster.evidence() else { panic!("one piece of evidence") };
    assert_eq!((*contradiction, &**kept), (Contradiction::Requests { slot: Slot(9), attempt: 0 }, &evidence[..]));
}

#[test]
fn a_list_is_refused_before_any_entry_is_looked_into() {
    let world = World::new(5);
    let list = ListStatement::decode(world.list.bytes()).unwrap();
    let sound = sign_list(&world.pki, &list).payload;
    let FullList { header, mut enrolments } = FullList::decode(&sound).unwrap();
    enrolments[4] = &[];
    let altered = FullList { header, enrolments }.encode();
    let verified =
        dream_protocol::membership::MembershipList::verify(&altered, &cluster_id(), &world.pki.authorities());
    assert_eq!(verified.unwrap_err(), dream_protocol::membership::ListError::OtherEntries);
}
