//! Membership lists that no honest gateway signs, beside those of `tests/vectors/broken.json`: a meter judges these too.

use dream_protocol::certificate::{Anchors, Authorities, CertificateError, Role};
use dream_protocol::enrolment::EnrolmentError;
use dream_protocol::ids::ClusterId;
use dream_protocol::keys::AgreementPublic;
use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::meter::{Input, Meter, MeterConfig, MeterError, Refusal};
use dream_protocol::policy::{PolicyError, Profile};
use dream_protocol::topic::MeterChannel;

use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, named_authorities, on};
use crate::support::pki::Pki;
use crate::support::world::Packet;
use crate::support::{START, at, cluster_id, enrol, meter_config};

/// Ten meters without a list.
pub(crate) fn enrolled() -> Liar {
    Liar::enrolled(10, |_| {}, NO_NOISE)
}

/// Offers a list to the first meter, which must refuse it by this rule and stay silent for want of another.
fn assert_refused(meters: &mut Liar, packet: &Packet, rule: &Refusal) {
    meters.refused(0, packet, at(LISTED), rule);
    let slot = Input::Measured { slot: FIRST, watts: 100 };
    let sent = meters.meters[0].handle(slot, at((FIRST.0 + 1) * 600));
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
    assert_eq!(on(MeterChannel::Reading, &sent), []);
}

/// Offers a list with one change.
fn refused_when(change: impl FnOnce(&mut Draft, &Liar), rule: impl Into<Refusal>) {
    let mut meters = enrolled();
    let mut draft = meters.draft();
    change(&mut draft, &meters);
    let packet = draft.sign(&meters.identity);
    assert_refused(&mut meters, &packet, &rule.into());
}

#[test]
fn a_list_with_an_older_enrolment_of_this_meter_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    // Two thirds of 35 days later the meter renews; the list in force keeps the old enrolment's key alive.
    let mut long = meters.next_draft();
    long.to_slot = FIRST.plus(35 * 144 - 10);
    let packet = long.sign(&meters.identity);
    assert_eq!(meters.tell(0, &packet, at(LISTED + 1)).1, []);
    let later = at(START + 24 * 86_400);
    let sent = meters.meters[0].handle(Input::Connected, later);
    assert_eq!(on(MeterChannel::Enrol, &sent).len(), 1, "renewed");
    let hash = *MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap().hash();
    let next = Draft { epoch: 3, previous_epoch: 2, previous: hash, ..long };
    meters.refused(0, &next.sign(&meters.identity), later.plus_secs(1), &Refusal::OldEnrolment);
}

#[test]
fn a_list_verified_under_other_authorities_is_refused_when_handed_over() {
    let mut meters = enrolled();
    let foreign = Pki::named("foreign");
    let mut draft = meters.draft();
    (draft.meter_authorities, draft.gateway_authority) = named_authorities(&foreign);
    draft.enrolments =
        (0..10).map(|meter| format!("m-{meter:04}")).map(|id| enrol(&id, &foreign.meter(&id), |_| {})).collect();
    let packet = draft.sign(&foreign.gateway("gw"));
    let list = MembershipList::verify(&packet.payload, &cluster_id(), &foreign.authorities()).unwrap();
    meters.meters[0].handle(Input::List(list), at(LISTED));
    assert_eq!(meters.meters[0].refusals(), [Refusal::Policy(PolicyError::Authorities)]);
}

#[test]
fn a_list_with_one_foreign_authority_beside_a_known_one_is_refused_when_handed_over() {
    let mut meters = enrolled();
    let foreign = Pki::named("foreign");
    let (mut named, _) = named_authorities(&meters.pki);
    named.extend(named_authorities(&foreign).0);
    named.sort_unstable();
    let packet = Draft { meter_authorities: named, ..meters.draft() }.sign(&meters.identity);
    let anchors = |ders: &[&[u8]]| Anchors::new(ders.iter().copied()).unwrap();
    let certifying = anchors(&[meters.pki.meter_authority(), foreign.meter_authority()]);
    let both = Authorities::new(certifying, anchors(&[meters.pki.gateway_authority()])).unwrap();
    let list = MembershipList::verify(&packet.payload, &cluster_id(), &both).unwrap();
    meters.meters[0].handle(Input::List(list), at(LISTED));
    assert_eq!(meters.meters[0].refusals(), [Refusal::Policy(PolicyError::Authorities)]);
}

#[test]
fn a_list_of_another_cluster_is_refused_when_handed_over() {
    let mut meters = enrolled();
    let south = ClusterId::new("south").unwrap();
    let mut draft = meters.draft();
    draft.cluster = south.clone();
    draft.enrolments = (0..10)
        .map(|meter| format!("m-{meter:04}"))
        .map(|id| enrol(&id, &meters.pki.meter(&id), |statement| statement.cluster = south.clone()))
        .collect();
    let packet = draft.sign(&meters.identity);
    let list = MembershipList::verify(&packet.payload, &south, &meters.pki.authorities()).unwrap();
    meters.meters[0].handle(Input::List(list), at(LISTED));
    let error = ListError::OtherCluster { expected: cluster_id(), found: south };
    assert_eq!(meters.meters[0].refusals(), [Refusal::List(error)]);
}

#[test]
fn a_meter_does_not_start_under_a_gateways_certificate_or_another_key() {
    let pki = Pki::new();
    let good = || meter_config(&pki, "m-0000");
    let gateway = pki.gateway("gw");
    let as_gateway = MeterConfig { identity: gateway.identity(), certificate: gateway.der, ..good() };
    let error = CertificateError::WrongAuthority { needed: Role::Meter };
    assert_eq!(Meter::resume(as_gateway, []).unwrap_err(), MeterError::Certificate(error));
    let other = MeterConfig { certificate: pki.meter("m-0001").der, ..good() };
    assert_eq!(Meter::resume(other, []).unwrap_err(), MeterError::OtherKey);
}

#[test]
fn a_meter_does_not_start_in_a_cluster_that_its_certificate_is_not_for() {
    let pki = Pki::new();
    let certified =
        |urn: &str| MeterConfig { certificate: pki.meter_named("m-0000", urn).der, ..meter_config(&pki, "m-0000") };
    assert!(Meter::resume(certified("urn:dream:cluster:north:100"), []).is_ok());
    let error = MeterError::OtherCluster { certified: ClusterId::new("south").unwrap(), configured: cluster_id() };
    assert_eq!(Meter::resume(certified("urn:dream:cluster:south"), []).unwrap_err(), error);
}

#[test]
fn a_meter_of_a_community_does_not_start_without_a_certified_size() {
    let pki = Pki::new();
    let started = |urn: &str| {
        let mut config =
            MeterConfig { certificate: pki.meter_named("m-0000", urn).der, ..meter_config(&pki, "m-0000") };
        config.policy = config.policy.with_profile(Profile::Community);
        Meter::resume(config, []).err()
    };
    assert_eq!(started("urn:dream:cluster:north:25"), None);
    for uncounted in ["urn:dream:cluster:north", "urn:example:nothing"] {
        assert_eq!(started(uncounted), Some(MeterError::NoCertifiedSize), "{uncounted}");
    }
}

/// Offers a list of eleven whose last entry is certified with this name.
fn last_entry_certified(urn: &str) -> (Liar, Packet) {
    let meters = enrolled();
    let mut draft = meters.draft();
    draft.enrolments.push(enrol("m-0010", &meters.pki.meter_named("m-0010", urn), |_| {}));
    draft.terms.max_malicious = 2;
    let packet = draft.sign(&meters.identity);
    (meters, packet)
}

#[test]
fn a_list_names_seven_in_ten_of_the_meters_that_any_of_its_certificates_counts() {
    for urn in ["urn:dream:cluster:north", "urn:dream:cluster:north:1", "urn:dream:cluster:north:15"] {
        let (mut meters, packet) = last_entry_certified(urn);
        assert_eq!(meters.tell(0, &packet, at(LISTED)).1, [], "{urn}");
    }
    let (mut meters, packet) = last_entry_certified("urn:dream:cluster:north:16");
    let rule = ListError::CertifiedSize { entry: 10, size: 16, members: 11 };
    assert_refused(&mut meters, &packet, &rule.into());
}

#[test]
fn a_list_with_a_meter_that_is_certified_for_another_cluster_is_refused() {
    let (mut meters, packet) = last_entry_certified("urn:dream:cluster:south:11");
    let reason = EnrolmentError::CertifiedCluster { certified: ClusterId::new("south").unwrap(), found: cluster_id() };
    assert_refused(&mut meters, &packet, &ListError::Enrolment { entry: 10, reason }.into());
}

#[test]
fn every_point_of_small_order_is_refused_in_every_encoding() {
    for point in low_order_points() {
        let entry = |meters: &Liar| {
            enrol("m-0010", &meters.pki.meter("m-0010"), |statement| statement.agreement = AgreementPublic(point))
        };
        let more = |draft: &mut Draft, meters: &Liar| {
            draft.enrolments.push(entry(meters));
            draft.terms.max_malicious = 2;
        };
        refused_when(more, ListError::Enrolment { entry: 10, reason: EnrolmentError::LowOrder });
        refused_when(|draft, _| draft.gateway = AgreementPublic(point), ListError::LowOrder);
    }
}

/// All encodings of the points whose result with any private key is zero (RFC 7748, 6.1; Curve25519's page).
fn low_order_points() -> Vec<[u8; 32]> {
    let order_8 = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ];
    let of_hex = |text: &str| hex::decode(text).unwrap().try_into().unwrap();
    let below = |first: u8| {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (first, 0x7f);
        point
    };
    let mut one = [0; 32];
    one[0] = 1;
    let mut points = vec![[0; 32], one, of_hex(order_8[0]), of_hex(order_8[1]), below(0xec), below(0xed), below(0xee)];
    let twins: Vec<[u8; 32]> = points
        .iter()
        .map(|point| {
            let mut twin = *point;
            twin[31] |= 0x80;
            twin
        })
        .collect();
    points.extend(twins);
    points
}
