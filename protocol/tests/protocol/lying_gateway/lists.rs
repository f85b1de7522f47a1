//! Membership lists that no honest gateway signs.

use dream_protocol::certificate::CertificateError;
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::meter::{Input, Meter, MeterConfig, MeterError, Refusal};
use dream_protocol::policy::PolicyError;
use dream_protocol::topic::MeterChannel;
use rcgen::date_time_ymd;

use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::pki::{Issued, Pki};
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
pub(crate) fn refused_when(change: impl FnOnce(&mut Draft, &Liar), rule: impl Into<Refusal>) {
    let mut meters = enrolled();
    let mut draft = meters.draft();
    change(&mut draft, &meters);
    let packet = draft.sign(&meters.identity);
    assert_refused(&mut meters, &packet, &rule.into());
}

#[test]
fn the_unchanged_list_is_accepted() {
    let mut meters = enrolled();
    let packet = meters.draft().sign(&meters.identity);
    assert_eq!(meters.tell(0, &packet, at(LISTED)), (vec![], vec![]));
    assert_eq!(meters.tell(0, &packet, at(LISTED)), (vec![], vec![]), "and again, in silence");
}

#[test]
fn a_list_that_omits_the_meter_is_refused() {
    refused_when(|draft, _| drop(draft.enrolments.remove(0)), Refusal::NotListed);
}

#[test]
fn a_list_that_names_the_meter_twice_is_refused() {
    let twice = |draft: &mut Draft, meters: &Liar| {
        draft.enrolments.insert(0, meters.enrolments[0].clone());
        draft.terms.max_malicious = 2;
    };
    refused_when(twice, ListError::Order { entry: 1 });
}

#[test]
fn a_list_that_gives_the_meters_id_to_another_key_is_refused() {
    // The authority issued a second certificate for this meter's id: its own key is not in the list.
    let twin = |meters: &Liar| meters.pki.issue_for("m-0000", "meter", [5; 32], |_| {});
    refused_when(|draft, meters| draft.enrolments[0] = enrol("m-0000", &twin(meters), |_| {}), Refusal::NotListed);
}

#[test]
fn an_unsorted_list_is_refused() {
    refused_when(|draft, _| draft.enrolments.swap(4, 5), ListError::Order { entry: 5 });
}

#[test]
fn a_list_with_a_key_of_this_meter_that_it_does_not_hold_is_refused() {
    // The gateway cannot sign for the meter; only the meter itself, before its records were lost, could.
    let entry = |meters: &Liar| enrol("m-0000", &meters.pki.meter("m-0000"), |statement| statement.seq = START);
    refused_when(|draft, meters| draft.enrolments[0] = entry(meters), Refusal::RecordLost);
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
    let next = Draft { epoch: 3, previous: hash, ..long };
    meters.refused(0, &next.sign(&meters.identity), later.plus_secs(1), &Refusal::OldEnrolment);
}

#[test]
fn a_gateway_that_the_policy_does_not_name_is_refused() {
    let mut meters = enrolled();
    let packet = meters.draft().sign(&meters.pki.gateway("gw-2"));
    let error = PolicyError::Gateway(GatewayId::new("gw-2").unwrap());
    assert_refused(&mut meters, &packet, &error.into());
}

#[test]
fn a_list_signed_as_a_meter_is_refused() {
    let mut meters = enrolled();
    // A meter that happens to be called like the gateway, too.
    for id in ["m-0009", "gw"] {
        let packet = meters.draft().sign(&meters.pki.meter(id));
        let error = CertificateError::WrongRole { expected: "gateway", found: "meter" };
        meters.refused(0, &packet, at(LISTED), &ListError::Gateway(error).into());
        meters = enrolled();
    }
}

#[test]
fn a_gateway_of_a_foreign_authority_is_refused() {
    for (foreign, error) in [
        (Pki::named("foreign"), CertificateError::UnknownAuthority),
        (Pki::with_key("test authority", "another"), CertificateError::BadSignature),
    ] {
        let mut meters = enrolled();
        let packet = meters.draft().sign(&foreign.gateway("gw"));
        assert_refused(&mut meters, &packet, &ListError::Gateway(error).into());
    }
}

#[test]
fn a_list_verified_under_other_authorities_is_refused_when_handed_over() {
    let mut meters = enrolled();
    let foreign = Pki::named("foreign");
    let mut draft = meters.draft();
    draft.enrolments =
        (0..10).map(|meter| format!("m-{meter:04}")).map(|id| enrol(&id, &foreign.meter(&id), |_| {})).collect();
    let packet = draft.sign(&foreign.gateway("gw"));
    let list = MembershipList::verify(&packet.payload, &cluster_id(), &foreign.authorities()).unwrap();
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
fn a_gateway_certificate_that_ends_before_the_list_is_refused() {
    let mut meters = enrolled();
    let short = meters.pki.issue("gw", "gateway", |params| params.not_after = date_time_ymd(2026, 8, 29));
    let packet = meters.draft().sign(&short);
    assert_refused(&mut meters, &packet, &ListError::GatewayPeriod.into());
}

#[test]
fn a_list_signed_by_another_key_than_the_certificates_is_refused() {
    let mut meters = enrolled();
    let forged = Issued { der: meters.identity.der.clone(), seed: [6; 32] };
    let packet = meters.draft().sign(&forged);
    assert_refused(&mut meters, &packet, &ListError::BadSignature.into());
}

#[test]
fn a_list_signed_for_another_topic_is_refused() {
    for other in ["dream/v1/south/membership", "dream/v2/north/membership", "dream/v1/north/recovery", ""] {
        let mut meters = enrolled();
        let packet = meters.draft().sign_for(&meters.identity, other);
        assert_refused(&mut meters, &packet, &ListError::BadSignature.into());
    }
}

#[test]
fn a_list_for_another_cluster_is_refused() {
    let south = ClusterId::new("south").unwrap();
    let error = ListError::OtherCluster { expected: cluster_id(), found: south.clone() };
    refused_when(|draft, _| draft.cluster = south, error);
}

#[test]
fn a_meter_does_not_start_under_a_gateways_certificate_or_another_key() {
    let pki = Pki::new();
    let good = || meter_config(&pki, "m-0000");
    let gateway = pki.gateway("gw");
    let as_gateway = MeterConfig { identity: gateway.identity(), certificate: gateway.der, ..good() };
    let error = CertificateError::WrongRole { expected: "meter", found: "gateway" };
    assert_eq!(Meter::resume(as_gateway, []).unwrap_err(), MeterError::Certificate(error));
    let other = MeterConfig { certificate: pki.meter("m-0001").der, ..good() };
    assert_eq!(Meter::resume(other, []).unwrap_err(), MeterError::OtherKey);
}
