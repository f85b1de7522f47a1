//! Lists with an entry that should not stand in any: wrong keys, periods, certificates and signatures.

use dream_protocol::certificate::CertificateError;
use dream_protocol::enrolment::{Enrolment, EnrolmentError};
use dream_protocol::ids::ClusterId;
use dream_protocol::keys::AgreementPublic;
use dream_protocol::membership::ListError;
use dream_protocol::meter::Refusal;
use rcgen::date_time_ymd;

use super::lists::{enrolled, refused_when};
use crate::support::liar::{Draft, FIRST, LISTED, Liar};
use crate::support::pki::{Issued, Pki};
use crate::support::{START, at, cluster_id, enrol};

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
    let authorities = meters.pki.authorities();
    *Enrolment::verify(&meters.enrolments[meter], &cluster_id(), &authorities).unwrap().agreement()
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
fn a_meter_certificate_that_ends_before_the_list_is_refused() {
    let entry = |meters: &Liar| {
        let short = |params: &mut rcgen::CertificateParams| params.not_after = date_time_ymd(2026, 8, 29);
        enrol("m-0010", &meters.pki.issue("m-0010", "meter", short), |_| {})
    };
    refused_with(entry, ListError::Period { entry: 10 });
}
