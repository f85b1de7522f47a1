//! Membership lists that no honest gateway signs.

use dream_protocol::certificate::CertificateError;
use dream_protocol::enrolment::EnrolmentError;
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::keys::{AgreementPublic, ListHash};
use dream_protocol::membership::{ListError, MembershipList};
use dream_protocol::meter::{Input, Notice, Record, Refusal};
use dream_protocol::policy::PolicyError;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{Sign1, StatusCode};
use rcgen::date_time_ymd;

use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::pki::{Issued, Pki};
use crate::support::world::Packet;
use crate::support::{START, at, cluster_id, enrol, meter_config};

/// Ten meters without a list.
fn enrolled() -> Liar {
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

/// Offers a list with one more entry, which sorts last.
fn refused_with(entry: impl FnOnce(&Liar) -> Vec<u8>, rule: impl Into<Refusal>) {
    refused_when(
        |draft, meters| {
            draft.enrolments.push(entry(meters));
            draft.terms.max_malicious = 2;
        },
        rule,
    );
}

fn bad_entry(reason: impl Into<EnrolmentError>) -> ListError {
    ListError::Enrolment { entry: 10, reason: reason.into() }
}

fn agreement_of(meters: &Liar, meter: usize) -> AgreementPublic {
    use dream_protocol::enrolment::Enrolment;
    let authorities = meters.pki.authorities();
    *Enrolment::verify(&meters.enrolments[meter], &cluster_id(), &authorities).unwrap().agreement()
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
fn one_certificate_key_under_two_names_is_refused() {
    let entry = |meters: &Liar| {
        let seed = meters.pki.meter("m-0009").seed;
        enrol("m-0010", &meters.pki.issue_for("m-0010", "meter", seed, |_| {}), |_| {})
    };
    refused_with(entry, ListError::RepeatedIdentity { entry: 10 });
}

#[test]
fn the_gateways_own_certificate_key_as_a_member_is_refused() {
    let entry =
        |meters: &Liar| enrol("m-0010", &meters.pki.issue_for("m-0010", "meter", meters.identity.seed, |_| {}), |_| {});
    refused_with(entry, ListError::RepeatedIdentity { entry: 10 });
}

#[test]
fn one_agreement_key_under_two_names_is_refused_in_either_encoding() {
    for top_bit in [0, 0x80] {
        let entry = |meters: &Liar| {
            let mut agreement = agreement_of(meters, 3);
            agreement.0[31] |= top_bit;
            enrol("m-0010", &meters.pki.meter("m-0010"), |statement| statement.agreement = agreement)
        };
        refused_with(entry, ListError::RepeatedAgreement { entry: 10 });
    }
}

#[test]
fn the_twins_of_a_key_that_differ_by_the_prime_are_refused() {
    // Only u below 19 has a second representative below 2^255; 9 is the base point, so a colluder knows both.
    let mut nine = AgreementPublic([0; 32]);
    nine.0[0] = 9;
    for top_bit in [0, 0x80] {
        let mut twin = AgreementPublic([0xff; 32]);
        (twin.0[0], twin.0[31]) = (0xed + 9, 0x7f | top_bit);
        let add = |draft: &mut Draft, meters: &Liar| {
            for (id, agreement) in [("m-0010", nine), ("m-0011", twin)] {
                let issued = meters.pki.meter(id);
                draft.enrolments.push(enrol(id, &issued, |statement| statement.agreement = agreement));
            }
            draft.terms.max_malicious = 2;
        };
        refused_when(add, ListError::RepeatedAgreement { entry: 11 });
    }
}

#[test]
fn every_point_of_small_order_is_refused_in_every_encoding() {
    for point in low_order_points() {
        let entry = |meters: &Liar| {
            enrol("m-0010", &meters.pki.meter("m-0010"), |statement| statement.agreement = AgreementPublic(point))
        };
        refused_with(entry, bad_entry(EnrolmentError::LowOrder));
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

#[test]
fn a_gateway_key_that_is_also_a_members_is_refused_in_either_encoding() {
    for top_bit in [0, 0x80] {
        let copy = |draft: &mut Draft, meters: &Liar| {
            draft.gateway = agreement_of(meters, 4);
            draft.gateway.0[31] |= top_bit;
        };
        refused_when(copy, ListError::RepeatedAgreement { entry: 4 });
    }
}

#[test]
fn an_enrolment_that_does_not_hold_for_all_slots_is_refused() {
    let (starts, ends) = (FIRST.0 * 600, (FIRST.0 + 144) * 600);
    for (from, to, good) in
        [(starts, ends, true), (starts + 1, ends, false), (starts, ends - 1, false), (START - 86_400, START, false)]
    {
        let entry = |meters: &Liar| {
            enrol("m-0010", &meters.pki.meter("m-0010"), |statement| {
                (statement.not_before, statement.not_after) = (from, to);
            })
        };
        if good {
            let mut meters = enrolled();
            let mut draft = meters.draft();
            draft.enrolments.push(entry(&meters));
            draft.terms.max_malicious = 2;
            assert_eq!(meters.tell(0, &draft.sign(&meters.identity), at(LISTED)).1, []);
        } else {
            refused_with(entry, ListError::Period { entry: 10 });
        }
    }
}

#[test]
fn an_enrolment_for_longer_than_35_days_or_no_time_is_refused() {
    for (not_before, not_after) in [(START, START + 35 * 86_400 + 1), (START, START), (START, START - 1), (0, u64::MAX)]
    {
        let entry = |meters: &Liar| {
            enrol("m-0010", &meters.pki.meter("m-0010"), |statement| {
                (statement.not_before, statement.not_after) = (not_before, not_after);
            })
        };
        refused_with(entry, bad_entry(EnrolmentError::Period { not_before, not_after }));
    }
}

#[test]
fn an_enrolment_for_another_cluster_is_refused() {
    let south = ClusterId::new("south").unwrap();
    let error = EnrolmentError::OtherCluster { expected: cluster_id(), found: south.clone() };
    let entry =
        |meters: &Liar| enrol("m-0010", &meters.pki.meter("m-0010"), |statement| statement.cluster = south.clone());
    refused_with(entry, bad_entry(error));
}

#[test]
fn an_enrolment_under_a_foreign_authority_is_refused() {
    let foreign = |_: &Liar| enrol("m-0010", &Pki::named("foreign").meter("m-0010"), |_| {});
    refused_with(foreign, bad_entry(CertificateError::UnknownAuthority));
    let namesake = |_: &Liar| enrol("m-0010", &Pki::with_key("test authority", "another").meter("m-0010"), |_| {});
    refused_with(namesake, bad_entry(CertificateError::BadSignature));
}

#[test]
fn a_gateways_certificate_as_a_member_is_refused() {
    let entry = |meters: &Liar| enrol("gw-2", &meters.pki.gateway("gw-2"), |_| {});
    refused_with(entry, bad_entry(CertificateError::WrongRole { expected: "meter", found: "gateway" }));
}

#[test]
fn an_enrolment_signed_by_another_key_is_refused() {
    let entry = |meters: &Liar| {
        let forged = Issued { der: meters.pki.meter("m-0010").der, seed: [6; 32] };
        enrol("m-0010", &forged, |_| {})
    };
    refused_with(entry, bad_entry(EnrolmentError::BadSignature));
}

#[test]
fn an_enrolment_signed_for_another_topic_is_refused() {
    // Signed with the right key, but for the enrol topic of another meter.
    let entry = |meters: &Liar| enrol("m-0011", &meters.pki.meter("m-0010"), |_| {});
    refused_with(entry, bad_entry(EnrolmentError::BadSignature));
}

#[test]
fn an_enrolment_that_names_another_certificate_is_refused() {
    let entry = |meters: &Liar| enrol("m-0010", &meters.pki.meter("m-0010"), |statement| statement.certificate[0] ^= 1);
    refused_with(entry, bad_entry(EnrolmentError::OtherCertificate));
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
fn a_meter_certificate_that_ends_before_the_list_is_refused() {
    let entry = |meters: &Liar| {
        let short = |params: &mut rcgen::CertificateParams| params.not_after = date_time_ymd(2026, 8, 29);
        enrol("m-0010", &meters.pki.issue("m-0010", "meter", short), |_| {})
    };
    refused_with(entry, ListError::Period { entry: 10 });
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
fn slots_and_epochs_out_of_bounds_are_refused() {
    let (from, to) = (FIRST, Slot(FIRST.0 - 1));
    refused_when(|draft, _| draft.to_slot = to, ListError::Slots { from, to });
    let to = Slot(1 << 40);
    refused_when(|draft, _| draft.to_slot = to, ListError::Slots { from, to });
    refused_when(|draft, _| draft.epoch = 1 << 40, ListError::Epoch(1 << 40));
}

#[test]
fn a_list_whose_last_slot_is_over_is_refused() {
    let mut meters = enrolled();
    let mut draft = meters.draft();
    (draft.from_slot, draft.to_slot) = (Slot(FIRST.0 - 1), Slot(FIRST.0 - 1));
    let packet = draft.sign(&meters.identity);
    let over = at((FIRST.0 + 1) * 600);
    meters.meters[0].handle(Input::Tick, over);
    meters.refused(0, &packet, over, &Refusal::ListOver);
}

#[test]
fn a_stale_epoch_is_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let jump = Draft { epoch: 7, ..meters.next_draft() };
    assert_eq!(meters.tell(0, &jump.sign(&meters.identity), at(LISTED + 1)).1, []);
    for found in [0, 1, 6] {
        let packet = Draft { epoch: found, ..meters.next_draft() }.sign(&meters.identity);
        meters.refused(0, &packet, at(LISTED + 2), &Refusal::StaleEpoch { last: 7, found });
    }
}

#[test]
fn a_larger_jump_of_epochs_is_accepted_and_said() {
    let mut meters = Liar::new(10, 2, 1);
    let jump = Draft { epoch: 5, previous: ListHash([7; 32]), ..meters.next_draft() };
    meters.meters[0].notices.clear();
    let packet = jump.sign(&meters.identity);
    assert_eq!(
        meters.meters[0].handle(Input::Message { topic: &packet.topic, payload: &packet.payload }, at(LISTED)),
        []
    );
    assert_eq!(meters.meters[0].notices, [Notice::ListAccepted { epoch: 5, skipped: 3 }]);
}

#[test]
fn two_lists_of_one_epoch_are_refused_and_both_are_kept() {
    let mut meters = Liar::new(10, 2, 1);
    let mut other = meters.draft();
    other.terms = *meters.list().params().terms();
    other.to_slot = other.to_slot.plus(1);
    assert_evidence(&mut meters, &other, &Refusal::TwoListsOfAnEpoch(1));
}

#[test]
fn a_list_that_does_not_continue_the_accepted_one_is_refused_and_both_are_kept() {
    let mut meters = Liar::new(10, 2, 1);
    let broken = Draft { previous: ListHash([7; 32]), ..meters.next_draft() };
    assert_evidence(&mut meters, &broken, &Refusal::BrokenChain(2));
}

fn assert_evidence(meters: &mut Liar, draft: &Draft, rule: &Refusal) {
    let packet = draft.sign(&meters.identity);
    meters.refused(0, &packet, at(LISTED + 1), rule);
    let records = meters.meters[0].records();
    let kept: Vec<_> = records
        .iter()
        .filter_map(|record| if let Record::Evidence(evidence) = record { Some(evidence) } else { None })
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!((&*kept[0].first, &*kept[0].second), (&**meters.list().bytes(), &*packet.payload));
    let gateway = meters.identity.identity().public();
    for bytes in [&kept[0].first, &kept[0].second] {
        assert!(Sign1::decode_certified(bytes).unwrap().0.verifies(&gateway, &packet.topic));
    }
    // The accepted list goes on.
    let reading = meters.measure(0, FIRST, 100);
    assert!(reading.topic.contains("/reading/"));
}

#[test]
fn lists_faster_than_slots_pass_are_refused() {
    let mut meters = Liar::new(10, 2, 1);
    let mut draft = meters.next_draft();
    for epoch in 2..=4 {
        let packet = Draft { epoch, from_slot: FIRST.plus(epoch), ..draft.clone() }.sign(&meters.identity);
        assert_eq!(meters.tell(0, &packet, at(LISTED + 1)).1, []);
        draft.previous =
            *MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap().hash();
    }
    let packet = Draft { epoch: 5, from_slot: FIRST.plus(5), ..draft }.sign(&meters.identity);
    meters.refused(0, &packet, at(LISTED + 2), &Refusal::TooManyLists);
}

#[test]
fn a_list_accepted_in_the_middle_of_a_slot_does_not_hold_for_it() {
    let mut meters = enrolled();
    let packet = meters.draft().sign(&meters.identity);
    let middle = at(FIRST.0 * 600 + 300);
    assert_eq!(meters.tell(0, &packet, middle).1, []);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST, watts: 1 }, at((FIRST.0 + 1) * 600));
    assert_eq!(meters.meters[0].refusals(), [Refusal::NoList]);
    assert_eq!(meters.codes(0, &sent), [StatusCode::NoList]);
    let sent = meters.meters[0].handle(Input::Measured { slot: FIRST.plus(1), watts: 1 }, at((FIRST.0 + 2) * 600));
    assert_eq!((sent, meters.meters[0].refusals()), (vec![], vec![]));
}

#[test]
fn a_meter_does_not_start_under_a_gateways_certificate_or_another_key() {
    use dream_protocol::meter::{Meter, MeterConfig, MeterError};
    let pki = Pki::new();
    let good = || meter_config(&pki, "m-0000");
    let gateway = pki.gateway("gw");
    let as_gateway = MeterConfig { identity: gateway.identity(), certificate: gateway.der, ..good() };
    let error = CertificateError::WrongRole { expected: "meter", found: "gateway" };
    assert_eq!(Meter::resume(as_gateway, []).unwrap_err(), MeterError::Certificate(error));
    let other = MeterConfig { certificate: pki.meter("m-0001").der, ..good() };
    assert_eq!(Meter::resume(other, []).unwrap_err(), MeterError::OtherKey);
}
