//! How many draws a meter has: one a day, by the value that its authority drew, whatever number of certificates it has.

use std::collections::BTreeSet;

use dream_protocol::certificate::{Anchors, Authorities, Draw, DrawKey};
use dream_protocol::enrolment::Enrolment;
use dream_protocol::ids::MeterId;
use dream_protocol::scheme::committee::{Committee, threshold};
use proptest::prelude::*;
use rcgen::{SanType, date_time_ymd};

use crate::support::pki::{Issued, Pki};
use crate::support::{cluster_id, enrol};

const DAY: u64 = 20_694;

/// Certificates of one meter: renewed, for another key, of the next authority, and of one more.
fn certificates(id: &str) -> (Authorities, Vec<Issued>) {
    let [first, next, last] = ["test authority", "the next one", "the last one"].map(Pki::named);
    let meters = Anchors::new([&first, &next, &last].map(Pki::meter_authority)).unwrap();
    let authorities = Authorities::new(meters, first.authorities().gateways().clone()).unwrap();
    let issued = vec![
        first.meter(id),
        first.issue(id, "meter", |params| params.not_after = date_time_ymd(2029, 1, 1)),
        first.issue_for(id, "meter", [7; 32], |_| {}),
        next.meter(id),
        last.meter(id),
    ];
    (authorities, issued)
}

fn sigmas(id: &str, day: u64) -> BTreeSet<Option<u64>> {
    let (authorities, issued) = certificates(id);
    let enrolled = |issued: &Issued| {
        let bytes = enrol(id, issued, |statement| statement.holds = 10_000);
        Enrolment::verify(&bytes, &cluster_id(), &authorities).unwrap().sigma(day)
    };
    issued.iter().map(enrolled).collect()
}

#[test]
fn a_meter_with_several_certificates_of_several_authorities_has_one_draw_a_day() {
    for day in DAY..DAY + 3 {
        let found = sigmas("m-0001", day);
        assert_eq!(found.len(), 1, "five certificates, {} draws", found.len());
        assert!(found.iter().all(Option::is_some));
    }
    assert_ne!(sigmas("m-0001", DAY), sigmas("m-0001", DAY + 1));
    assert_ne!(sigmas("m-0001", DAY), sigmas("m-0002", DAY));
}

#[test]
fn a_meter_without_a_value_has_no_draw() {
    let pki = Pki::new();
    let role = SanType::URI("urn:dream:meter:m-0001".try_into().unwrap());
    let issued = pki.issue("m-0001", "meter", |params| params.subject_alt_names = vec![role]);
    let enrolment = enrol("m-0001", &issued, |statement| statement.holds = 100);
    let enrolment = Enrolment::verify(&enrolment, &cluster_id(), &pki.authorities()).unwrap();
    assert_eq!((enrolment.sigma(DAY), enrolment.is_willing(100), enrolment.is_willing(101)), (None, true, false));
}

/// Ten thousand members, a tenth of whom collude.
const N: u64 = 10_000;
const T: u64 = 1_000;
const K: u64 = 160;

#[test]
fn colluders_among_the_holders_of_a_year_stay_far_below_what_is_allowed_for() {
    let key = DrawKey::from_bytes([9; 32]);
    let colluders: Vec<Draw> = (0..T).map(|number| key.value(&MeterId::new(&format!("m-{number}")).unwrap())).collect();
    let below = threshold(K, N).unwrap();
    let drawn = |day: u64| colluders.iter().filter(|draw| draw.sigma(day) < below).count() as u64;
    let by_day: Vec<u64> = (DAY..DAY + 365).map(drawn).collect();
    let (most, all) = (by_day.iter().max().unwrap(), by_day.iter().sum::<u64>());
    let allowed = Committee::colluding(K, N, T).unwrap();
    assert!(*most < allowed / 2, "{most} of {allowed}");
    // 16 a day are expected, so 5,840 in all, with a deviation of 76.
    assert!((5_500..6_200).contains(&all), "{all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However many certificates colluders have, and whatever k and N a gateway chooses, as many of them are holders as there
    /// are values below the threshold.
    #[test]
    fn the_number_of_certificates_changes_nothing(ids in prop::collection::btree_set("[a-z]{1,6}", 1..4), day in 0u64..1 << 30, k in 1u64..200) {
        let below = threshold(k, 200).unwrap_or(u64::MAX);
        let certified: usize = ids.iter().map(|id| {
            let found = sigmas(id, day);
            found.iter().filter(|sigma| sigma.is_some_and(|sigma| sigma < below)).count()
        }).sum();
        let values = ids.iter().filter(|id| crate::support::pki::draw_of(id).sigma(day) < below).count();
        prop_assert_eq!(certified, values);
    }
}
