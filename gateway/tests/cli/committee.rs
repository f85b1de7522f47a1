//! `dream-gateway decode` with messages of a committee.

use dream_protocol::enrolment::Enrolment;
use dream_protocol::keys::MacKey;
use dream_protocol::membership::MembershipList;
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::committee::{Committee, day_of, threshold};
use dream_protocol::time::Slot;
use dream_protocol::wire::{Answer, DealtReading, ListStatement, MaskedReading, Message as _, ShortList};
use dream_testkit::pki::Pki;
use tempfile::TempDir;

use crate::command::{command, seen};
use crate::decode::{cluster, list, pem};

const SLOT: Slot = Slot(2_980_000);
const SLOT_SECONDS: u64 = 600;

/// A cluster of five with a committee, with its list and its authority in a folder.
struct Capture {
    folder: TempDir,
    pki: Pki,
    full: Vec<u8>,
    list: std::sync::Arc<MembershipList>,
}

impl Capture {
    /// All five are holders, and any four must answer.
    fn of_all() -> Self {
        Self::new(|statement| in_committee(statement, 0, 4, (0..5).collect()))
    }

    /// Some of the five are drawn.
    fn of_drawn() -> Self {
        let pki = Pki::new();
        Self::new(|statement| {
            let drawn = 4;
            let day = day_of(SLOT.0 * SLOT_SECONDS);
            let draw = |entry: &&[u8]| Enrolment::verify(entry, &cluster(), &pki.authorities()).unwrap().sigma(day);
            let below = |entry: &&[u8]| draw(entry).unwrap() < threshold(drawn, 5).unwrap();
            let holders: Vec<u16> =
                (0u16..).zip(&statement.enrolments).filter(|(_, entry)| below(entry)).map(|(index, _)| index).collect();
            let needed = holders.len() as u64;
            in_committee(statement, drawn, needed, holders);
        })
    }

    fn new(change: impl FnOnce(&mut ListStatement<'_>)) -> Self {
        let (folder, pki) = (TempDir::new().unwrap(), Pki::new());
        let full = list(&pki, change);
        std::fs::write(folder.path().join("list.cbor"), &full).unwrap();
        std::fs::write(folder.path().join("meter-authority.pem"), pem(pki.meter_authority())).unwrap();
        std::fs::write(folder.path().join("gateway-authority.pem"), pem(pki.gateway_authority())).unwrap();
        let list = MembershipList::verify(&full, &cluster(), &pki.authorities()).unwrap();
        Self { folder, pki, full, list }
    }

    fn decode(&self, message: &[u8], arguments: &str) -> String {
        let arguments = arguments.split_whitespace();
        seen(command(self.folder.path()).arg("decode").args(arguments).write_stdin(message))
    }

    fn reading(&self, corrections: &[u8]) -> Vec<u8> {
        let ciphertext = Element::from_canonical(0x0123_4567).unwrap();
        let reading = DealtReading { list: self.list.hash().prefix(), slot: SLOT, attempt: 0, ciphertext, corrections };
        reading.seal(&MacKey::from_bytes([7; 32]), "dream/v1/north/reading/m-0001")
    }

    fn answer(&self) -> Vec<u8> {
        let (list, sum) = (self.list.hash().prefix(), Element::from_canonical(0x89ab).unwrap());
        let answer = Answer { list, slot: SLOT, attempt: 0, sum, request: [0x4e; 8] };
        answer.seal(&MacKey::from_bytes([7; 32]), "dream/v1/north/reveal/m-0002")
    }
}

fn in_committee(statement: &mut ListStatement<'_>, drawn: u64, needed: u64, holders: Vec<u16>) {
    statement.terms.scheme = Scheme::Committee(Committee { drawn, needed, holders: holders.len() as u64 });
    (statement.terms.max_missing, statement.terms.attempts) = (0, 1);
    statement.holders = holders;
}

#[test]
fn a_reading_that_is_dealt_to_holders_is_shown_with_its_corrections() {
    let capture = Capture::of_all();
    let reading = capture.reading(&[1; 8]);
    insta::assert_snapshot!("a_dealt_reading_by_itself", capture.decode(&reading, ""));
    let known = "--topic dream/v1/north/reading/m-0001 --list list.cbor";
    insta::assert_snapshot!("a_dealt_reading_with_its_list", capture.decode(&reading, known));
    let short = capture.decode(&capture.reading(&[]), known);
    assert!(short.starts_with("exit code 1") && short.contains("needs 1 (K - q)"), "{short}");
}

#[test]
fn an_answer_is_shown_and_belongs_on_the_reveal_topic() {
    let capture = Capture::of_all();
    let known = "--topic dream/v1/north/reveal/m-0002 --list list.cbor";
    insta::assert_snapshot!("an_answer", capture.decode(&capture.answer(), known));
    let elsewhere = capture.decode(&capture.answer(), "--topic dream/v1/north/reading/m-0002");
    assert!(elsewhere.starts_with("exit code 1"), "{elsewhere}");
}

#[test]
fn a_message_of_the_other_scheme_is_invalid_under_a_list() {
    let capture = Capture::of_all();
    let reading = MaskedReading { list: capture.list.hash().prefix(), slot: SLOT, attempt: 0, ciphertext: 1 };
    let reading = reading.seal(&MacKey::from_bytes([7; 32]), "dream/v1/north/reading/m-0001");
    let told = capture.decode(&reading, "--list list.cbor");
    assert!(told.contains("message of the pairwise scheme, and its list is of the committee one"), "{told}");
}

#[test]
fn a_whole_list_with_a_committee_says_how_many_hold_and_how_many_must_answer() {
    let capture = Capture::of_all();
    insta::assert_snapshot!(
        "a_list_with_a_committee",
        capture
            .decode(&capture.full, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    );
}

#[test]
fn a_short_list_is_shown_and_verifies_with_its_holders() {
    let capture = Capture::of_drawn();
    let short = capture.list.shortened();
    let known = "--topic dream/v1/north/membership --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem --members";
    insta::assert_snapshot!("a_short_list", capture.decode(&short, known));
    let whole = ShortList::decode(&short).unwrap();
    let cut = ShortList { digests: &whole.digests[8..], ..whole }.encode();
    let told = capture.decode(&cut, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem");
    assert!(told.starts_with("exit code 1") && told.contains("4 digests follow"), "{told}");
    let elsewhere = capture.decode(&short, "--topic dream/v1/north/membership/full");
    assert!(elsewhere.contains("it belongs on dream/v1/{cluster}/membership"), "{elsewhere}");
}

#[test]
fn a_short_list_that_is_a_header_alone_sends_members_to_the_whole_list() {
    let capture = Capture::of_all();
    let short = capture.list.shortened();
    insta::assert_snapshot!(
        "a_short_list_of_a_header",
        capture.decode(&short, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    );
    assert!(capture.pki.authorities().verify_gateway(capture.pki.gateway("gw").der.as_slice()).is_ok());
}
