//! `dream-gateway decode` as a user sees it, with genuine messages and broken ones.

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, ListHash, MacKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::Terms;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{
    EnrolmentStatement, FullList, ListStatement, MaskedReading, Message as _, RecoveryRequest, Retry, Reveal, Status,
    StatusCode,
};
use dream_testkit::lab::identities;
use dream_testkit::pki::{Issued, Pki};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::command::{command, examples, seen};
use crate::evidence::{two_lists, two_requests};

/// The slot that messages are about, of ten minutes, and its start.
const SLOT: Slot = Slot(2_980_000);
const START: u64 = SLOT.0 * 600;

/// When the list was made.
pub(crate) const EPOCH: u64 = START - 300;

/// A cluster of five, with its list and its authority in a folder.
struct Capture {
    folder: TempDir,
    pki: Pki,
    list: Vec<u8>,
    list_hash: ListHash,
}

impl Capture {
    fn new() -> Self {
        let (folder, pki) = (TempDir::new().unwrap(), Pki::new());
        let list = list(&pki, |_| {});
        let payload = FullList::header_of(&list).unwrap().0.payload();
        let list_hash = ListHash(Sha256::digest(payload).into());
        std::fs::write(folder.path().join("list.cbor"), &list).unwrap();
        std::fs::write(folder.path().join("meter-authority.pem"), pem(pki.meter_authority())).unwrap();
        std::fs::write(folder.path().join("gateway-authority.pem"), pem(pki.gateway_authority())).unwrap();
        std::fs::write(folder.path().join("stranger.pem"), pem(Pki::named("a stranger").meter_authority())).unwrap();
        std::fs::write(folder.path().join("meter.pem"), pem(&pki.meter("m-0001").der)).unwrap();
        Self { folder, pki, list, list_hash }
    }

    fn decode(&self, message: &[u8], arguments: &str) -> String {
        let arguments = arguments.split_whitespace();
        seen(command(self.folder.path()).arg("decode").args(arguments).write_stdin(message))
    }

    fn reading(&self) -> Vec<u8> {
        let reading = MaskedReading { list: self.list_hash.prefix(), slot: SLOT, attempt: 0, ciphertext: 0x0123_4567 };
        reading.seal(&MacKey::from_bytes([7; 32]), "dream/v1/north/reading/m-0001")
    }

    fn reveal(&self) -> Vec<u8> {
        let list = self.list_hash.prefix();
        let reveal = Reveal { list, slot: SLOT, attempt: 1, revealed: u64::MAX - 1, request: [0x4e; 8] };
        reveal.seal(&MacKey::from_bytes([7; 32]), "dream/v1/north/reveal/m-0001")
    }

    fn request(&self, missing: &[u8]) -> Vec<u8> {
        let missing = missing.to_vec();
        let request = RecoveryRequest { list: self.list_hash, slot: SLOT, attempt: 0, missing, deadline: START + 690 };
        request.seal(&self.pki.gateway("gw").identity(), "dream/v1/north/recovery")
    }

    fn retry(&self) -> Vec<u8> {
        self.retry_on("dream/v1/north/retry")
    }

    fn retry_on(&self, topic: &str) -> Vec<u8> {
        let retry = Retry { list: self.list_hash, slot: SLOT, attempt: 1, deadline: START + 750 };
        retry.seal(&self.pki.gateway("gw").identity(), topic)
    }

    fn status(&self, meter: &str, code: StatusCode) -> Vec<u8> {
        let evidence = if code == StatusCode::Equivocation { two_requests(&self.pki).encode() } else { Vec::new() };
        let list = Some(self.list_hash.prefix());
        let status =
            Status { cluster: cluster(), list, slot: SLOT, code, newest_epoch: EPOCH, least_malicious: 1, evidence };
        status.seal(&self.pki.meter(meter).identity(), &format!("dream/v1/north/status/{meter}"))
    }
}

#[test]
fn a_reading_is_shown_and_its_tag_left_to_those_who_can_check_it() {
    let capture = Capture::new();
    insta::assert_snapshot!(capture.decode(&capture.reading(), ""));
    insta::assert_snapshot!(
        "a_reading_with_all_that_is_known",
        capture.decode(&capture.reading(), "--topic dream/v1/north/reading/m-0001 --list list.cbor")
    );
}

#[test]
fn a_reveal_is_shown() {
    let capture = Capture::new();
    insta::assert_snapshot!(
        capture.decode(&capture.reveal(), "--topic dream/v1/north/reveal/m-0001 --slot-seconds 600")
    );
}

#[test]
fn a_request_verifies_under_its_list() {
    let capture = Capture::new();
    let request = capture.request(MemberSet::from_members(5, [1]).as_bytes());
    let known = "--topic dream/v1/north/recovery --list list.cbor --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem --members";
    insta::assert_snapshot!(capture.decode(&request, known));
    insta::assert_snapshot!("a_request_by_itself", capture.decode(&request, ""));
}

#[test]
fn a_request_that_breaks_a_rule_of_its_list_is_invalid() {
    let capture = Capture::new();
    let crowded = capture.request(MemberSet::from_members(5, [0, 1, 4]).as_bytes());
    insta::assert_snapshot!("a_request_with_too_many_missing", capture.decode(&crowded, "--list list.cbor"));
    let long = capture.request(&[0x80, 0]);
    insta::assert_snapshot!("a_request_with_a_long_bitmap", capture.decode(&long, "--list list.cbor"));
    let mut forged = capture.request(&[0]);
    *forged.last_mut().unwrap() ^= 1;
    let known = "--list list.cbor --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem";
    insta::assert_snapshot!("a_forged_request", capture.decode(&forged, known));
}

#[test]
fn a_retry_is_shown_and_verifies_under_its_list() {
    let capture = Capture::new();
    let known = "--topic dream/v1/north/retry --list list.cbor --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem";
    insta::assert_snapshot!(capture.decode(&capture.retry(), known));
    let elsewhere = capture.retry_on("dream/v1/north/recovery");
    insta::assert_snapshot!("a_retry_signed_for_requests", capture.decode(&elsewhere, known));
}

#[test]
fn an_enrolment_verifies_under_its_authority_only() {
    let capture = Capture::new();
    let enrolment = enrolment(&capture.pki, 1);
    insta::assert_snapshot!("an_enrolment", capture.decode(&enrolment, "--topic dream/v1/north/enrol/m-0001"));
    insta::assert_snapshot!(
        "an_enrolment_verified",
        capture.decode(&enrolment, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    );
    insta::assert_snapshot!("an_enrolment_of_a_stranger", capture.decode(&enrolment, "--meter-authority stranger.pem"));
    let both = capture.decode(&enrolment, "--meter-authority stranger.pem --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem");
    assert!(both.starts_with("exit code 0"), "{both}");
}

#[test]
fn the_cluster_of_a_certificate_is_shown_and_must_be_the_enrolments() {
    let capture = Capture::new();
    let told = |name: &str| {
        let issued = capture.pki.meter_named("m-0001", name);
        let enrolment = statement(&issued, 1).seal((&issued.identity(), &issued.der), "dream/v1/north/enrol/m-0001");
        capture.decode(&enrolment, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    };
    let good = told("urn:dream:cluster:north:40");
    assert!(good.contains("of meter m-0001 in cluster north of 40 meters, 2026"), "{good}");
    assert!(good.starts_with("exit code 0") && told("urn:dream:cluster:north").contains("in cluster north, 2026"));
    let other = told("urn:dream:cluster:south");
    assert_eq!(problem(&other, "south").lines().count(), 2, "{other}");
    assert!(other.contains("the enrolment is for cluster `north`, its certificate for `south` alone"), "{other}");
}

#[test]
fn a_list_verifies_with_its_entries_and_names_its_members() {
    let capture = Capture::new();
    let known = "--topic dream/v1/north/membership/full --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem --members";
    insta::assert_snapshot!(capture.decode(&capture.list, known));
    insta::assert_snapshot!("a_list_by_itself", capture.decode(&capture.list, ""));
}

#[test]
fn a_list_with_refused_parameters_is_invalid_under_any_signature() {
    let capture = Capture::new();
    let list = list(&capture.pki, |list| list.terms.max_missing = 3);
    insta::assert_snapshot!(
        capture.decode(&list, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    );
}

#[test]
fn a_list_of_an_earlier_format_is_told_to_be_one() {
    let capture = Capture::new();
    let header = FullList::decode(&capture.list).unwrap().header;
    // Earlier lists were one envelope with message 5 in it.
    let at = header.windows(4).position(|part| matches!(part, [0x98, _, 10, 0x65])).unwrap();
    let earlier = [&header[..at + 2], &[5], &header[at + 3..]].concat();
    assert!(capture.decode(&earlier, "").contains("earlier format"), "{}", capture.decode(&earlier, ""));
}

#[test]
fn evidence_is_shown_and_judged_with_authorities() {
    let capture = Capture::new();
    let requests = two_requests(&capture.pki).encode();
    insta::assert_snapshot!(
        "evidence_of_two_requests",
        capture.decode(
            &requests,
            "--list list.cbor --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem"
        )
    );
    insta::assert_snapshot!("evidence_by_itself", capture.decode(&two_lists(&capture.pki).encode(), ""));
    let strange = capture.decode(&requests, "--meter-authority stranger.pem");
    assert!(strange.starts_with("exit code 1"), "{strange}");
    let status = capture.status("m-0002", StatusCode::Equivocation);
    insta::assert_snapshot!(
        "a_status_with_evidence",
        capture.decode(&status, "--meter-authority meter-authority.pem --gateway-authority gateway-authority.pem")
    );
}

#[test]
fn a_status_says_why_a_meter_is_silent() {
    let capture = Capture::new();
    let known = "--list list.cbor --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem --topic dream/v1/north/status/";
    let status = capture.status("m-0002", StatusCode::LedgerExhausted);
    insta::assert_snapshot!(capture.decode(&status, &format!("{known}m-0002")));
    insta::assert_snapshot!("a_status_of_another_meter", capture.decode(&status, &format!("{known}m-0003")));
    insta::assert_snapshot!("a_status_of_no_member", capture.decode(&status, &format!("{known}m-0009")));
    let codes = StatusCode::ALL.map(|code| {
        let text = capture.decode(&capture.status("m-0001", code), "");
        text.lines().find(|line| line.starts_with("  code")).unwrap().to_owned()
    });
    insta::assert_snapshot!("every_status_code", codes.join("\n"));
}

#[test]
fn plain_texts_of_a_gateway_are_recognised() {
    let capture = Capture::new();
    insta::assert_snapshot!("online", capture.decode(b"online", "--topic dream/v1/gateway/gw/status"));
    insta::assert_snapshot!("offline", capture.decode(b"offline", ""));
    let aggregate = br#"{"cluster":"north","slot":2980000,"watts":51234}"#;
    insta::assert_snapshot!("aggregate", capture.decode(aggregate, "--topic dream/v1/north/aggregate"));
    insta::assert_snapshot!("aggregate_elsewhere", capture.decode(aggregate, "--topic dream/v1/north/membership"));
    insta::assert_snapshot!("online_elsewhere", capture.decode(b"online", "--topic dream/v1/north/status/m-0001"));
    insta::assert_snapshot!("nothing_at_all", capture.decode(b"", ""));
}

#[test]
fn a_message_on_the_wrong_topic_is_invalid() {
    let capture = Capture::new();
    let enrolment = enrolment(&capture.pki, 1);
    let cases = [
        (capture.reading(), "dream/v1/north/reveal/m-0001"),
        (capture.reading(), "dream/v2/north/reading/m-0001"),
        (capture.reading(), "dream/v1/north/readings/m-0001"),
        (capture.retry(), "dream/v1/north/recovery"),
        (capture.list.clone(), "dream/v1/south/membership/full"),
        (capture.list.clone(), "dream/v1/north/membership"),
        (enrolment, "dream/v1/north/enrol/m-0002"),
    ];
    let answers = cases.map(|(message, topic)| problem(&capture.decode(&message, &format!("--topic {topic}")), topic));
    insta::assert_snapshot!(answers.concat());
}

#[test]
fn a_message_that_its_list_does_not_allow_is_invalid() {
    let capture = Capture::new();
    let key = MacKey::from_bytes([7; 32]);
    let good = MaskedReading { list: capture.list_hash.prefix(), slot: SLOT, attempt: 0, ciphertext: 1 };
    let cases = [
        (MaskedReading { slot: SLOT.plus(144), ..good }, "reading/m-0001"),
        (MaskedReading { attempt: 2, ..good }, "reading/m-0001"),
        (good, "reading/m-0009"),
    ];
    let answers = cases.map(|(reading, topic)| {
        let arguments = format!("--list list.cbor --topic dream/v1/north/{topic}");
        problem(&capture.decode(&reading.seal(&key, topic), &arguments), topic)
    });
    let elsewhere = capture.decode(&capture.retry(), "--list list.cbor --topic dream/v1/south/retry");
    insta::assert_snapshot!(format!("{}{}", answers.concat(), problem(&elsewhere, "a retry elsewhere")));
    let other = MaskedReading { list: [9; 8], ..good }.seal(&key, "reading");
    insta::assert_snapshot!("a_reading_of_another_list", capture.decode(&other, "--list list.cbor"));
}

#[test]
fn malformed_bytes_are_told_with_what_is_wrong_and_where() {
    let capture = Capture::new();
    let reading = capture.reading();
    let change = |at: usize, byte: u8| {
        let mut bytes = reading.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("ends early", reading[..20].to_vec()),
        ("goes on", [reading.as_slice(), &[0, 0]].concat()),
        ("is tagged", [&[0xd1], reading.as_slice()].concat()),
        ("has five parts", change(0, 0x85)),
        ("has another algorithm", change(4, 0x05)),
        ("has a header", change(5, 0xa1)),
        ("is of an unknown kind", change(9, 0x0c)),
        ("is of another kind", change(9, 0x03)),
        ("is another message in a Mac0", change(9, 0x06)),
        ("has an attempt that is no number", change(24, 0x40)),
        ("is noise", b"\x00\xffnoise".to_vec()),
        ("is text", b"hello".to_vec()),
        ("is broken JSON", b"{\"watts\":".to_vec()),
    ];
    let answers = cases.map(|(name, bytes)| problem(&capture.decode(&bytes, ""), name));
    insta::assert_snapshot!(answers.concat());
    insta::assert_snapshot!("a_reading_with_a_broken_payload", capture.decode(&change(24, 0x40), ""));
}

#[test]
fn an_envelope_that_does_not_fit_the_kind_is_invalid() {
    let capture = Capture::new();
    let issued = capture.pki.meter("m-0001");
    let statement = statement(&issued, 1);
    // An enrolment in the envelope of a status, without its certificate.
    let certified = statement.seal((&issued.identity(), &issued.der), "topic");
    let certificate = [&[0xa1, 0x18, 0x21][..], &certified[8..11 + issued.der.len()]].concat();
    let at = certified.windows(certificate.len()).position(|part| part == certificate).unwrap();
    let bare = [&certified[..at], &[0xa0], &certified[at + certificate.len()..]].concat();
    insta::assert_snapshot!(capture.decode(&bare, ""));
}

#[test]
fn hexadecimal_is_recognised_with_spaces_and_lines() {
    let capture = Capture::new();
    let plain = capture.decode(&capture.reading(), "");
    let digits = hex::encode_upper(capture.reading());
    let spaced = digits.as_bytes().chunks(7).map(|part| str::from_utf8(part).unwrap()).collect::<Vec<_>>().join(" \n");
    assert_eq!(capture.decode(spaced.as_bytes(), ""), plain);
    assert_eq!(capture.decode(spaced.as_bytes(), "--hex"), plain);
    assert_eq!(capture.decode(&capture.reading(), "--raw"), plain);
    std::fs::write(capture.folder.path().join("reading.hex"), digits).unwrap();
    assert_eq!(capture.decode(b"", "reading.hex"), plain);
    assert!(capture.decode(b"", "reading.hex --raw").starts_with("exit code 1"));
}

#[test]
fn mistakes_of_the_user_are_not_the_messages() {
    let capture = Capture::new();
    std::fs::write(capture.folder.path().join("broken.cbor"), b"\x84").unwrap();
    std::fs::write(capture.folder.path().join("empty.pem"), b"").unwrap();
    std::fs::write(capture.folder.path().join("broken.pem"), pem(b"nonsense")).unwrap();
    let mistakes = [
        "nowhere.cbor",
        "--hex",
        "--hex --raw",
        "--meter-authority nowhere.pem",
        "--meter-authority empty.pem",
        "--meter-authority broken.pem",
        "--meter-authority meter.pem",
        "--list nowhere.cbor",
        "--list broken.cbor",
        "--list list.cbor --meter-authority stranger.pem",
        "--list list.cbor --slot-seconds 600",
        "--slot-seconds 0",
    ];
    let answers = mistakes.map(|mistake| {
        let answer = capture.decode(&capture.reading(), mistake);
        assert!(answer.starts_with("exit code 2\n--- out\n--- err\n"), "{mistake}: {answer}");
        format!("decode {mistake}\n  {}\n", answer.lines().nth(3).unwrap())
    });
    let odd = capture.decode(b"84 4", "");
    insta::assert_snapshot!(format!("{}echo 84 4 | decode\n  {}\n", answers.concat(), odd.lines().nth(3).unwrap()));
}

#[test]
fn help_explains_every_flag_and_its_examples_work() {
    let capture = Capture::new();
    let help = capture.decode(b"", "--help");
    let ours = examples(&help).into_iter().filter(|example| !example.starts_with("mosquitto"));
    let binary = assert_cmd::cargo::cargo_bin!("dream-gateway");
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let ran = ours.map(|example| {
        let mut shell = std::process::Command::new("sh");
        let status = shell.args(["-c", &example]).env("PATH", &path).current_dir(&capture.folder).output().unwrap();
        assert!(status.status.success(), "{example}: {status:?}");
    });
    assert_eq!(ran.count(), 2);
    insta::assert_snapshot!(help);
}

/// The name of a case and what is said to be invalid; the exit code must say so too.
fn problem(answer: &str, name: &str) -> String {
    assert!(answer.starts_with("exit code 1"), "{name}: {answer}");
    let problems = answer.lines().filter_map(|line| line.strip_prefix("  INVALID"));
    problems.fold(format!("{name}\n"), |text, problem| format!("{text}  {}\n", problem.trim()))
}

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("north").unwrap()
}

fn statement(issued: &Issued, number: u8) -> EnrolmentStatement {
    EnrolmentStatement {
        cluster: cluster(),
        certificate: Sha256::digest(&issued.der).into(),
        agreement: AgreementSecret::from_bytes([number; 32]).public(),
        not_before: START - 86_400,
        not_after: START + 30 * 86_400,
        seq: START - 86_400,
        holds: 10_000,
    }
}

fn enrolment(pki: &Pki, number: u8) -> Vec<u8> {
    let meter = MeterId::new(&format!("m-{number:04}")).unwrap();
    let issued = pki.meter(meter.as_str());
    let topic = MeterChannel::Enrol.topic(&cluster(), &meter);
    statement(&issued, number).seal((&issued.identity(), &issued.der), &topic)
}

pub(crate) fn list(pki: &Pki, change: impl FnOnce(&mut ListStatement<'_>)) -> Vec<u8> {
    let enrolments: Vec<_> = (1..=5).map(|number| enrolment(pki, number)).collect();
    let mut statement = ListStatement {
        cluster: cluster(),
        epoch: EPOCH,
        previous_epoch: 0,
        previous: ListHash::NONE,
        gateway: AgreementSecret::from_bytes([0x99; 32]).public(),
        meter_authorities: pki.authorities().meters().fingerprints(),
        gateway_authority: pki.authorities().gateways().fingerprints()[0],
        from_slot: SLOT,
        to_slot: SLOT.plus(143),
        terms: Terms {
            reveal_seconds: 30,
            max_missing: 1,
            max_malicious: 1,
            lo: -500,
            epsilon_denominator: 2,
            ..Terms::DEFAULT
        },
        enrolments: enrolments.iter().map(Vec::as_slice).collect(),
        holders: Vec::new(),
    };
    change(&mut statement);
    let issued = pki.gateway("gw");
    statement.seal((&issued.identity(), &issued.der), &GatewayChannel::Membership.topic(&cluster()))
}

pub(crate) fn pem(der: &[u8]) -> String {
    identities::pem("CERTIFICATE", der)
}
