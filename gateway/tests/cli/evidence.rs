//! `dream-gateway verify-evidence` as a user sees it.

use dream_protocol::ids::ClusterId;
use dream_protocol::keys::ListHash;
use dream_protocol::member_set::MemberSet;
use dream_protocol::time::Slot;
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{EvidenceStatement, FullList, ListStatement, Message as _, RecoveryRequest};
use dream_testkit::pki::Pki;
use tempfile::TempDir;

use crate::command::{command, examples, seen};
use crate::decode::{EPOCH, cluster, list, pem};

/// A folder with certificates of the authority and of a stranger, and whatever evidence is judged.
struct Court {
    folder: TempDir,
    pki: Pki,
}

impl Court {
    fn new() -> Self {
        let court = Self { folder: TempDir::new().unwrap(), pki: Pki::new() };
        court.write("gateway-authority.pem", pem(court.pki.gateway_authority()).as_bytes());
        court.write("stranger.pem", pem(Pki::named("a stranger").gateway_authority()).as_bytes());
        court
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    /// Judges evidence; returns the exit code and everything that was said.
    fn judge(&self, evidence: &EvidenceStatement) -> String {
        self.write("evidence.cbor", &evidence.encode());
        self.run("evidence.cbor --gateway-authority gateway-authority.pem")
    }

    fn run(&self, arguments: &str) -> String {
        seen(command(self.folder.path()).arg("verify-evidence").args(arguments.split_whitespace()))
    }
}

/// Two requests of one attempt that name different members.
pub(crate) fn two_requests(pki: &Pki) -> EvidenceStatement {
    let gateway = pki.gateway("gw");
    let request = |missing: u16| {
        let mut members = MemberSet::empty(5);
        members.insert(missing);
        let (list, missing) = (ListHash([7; 32]), members.as_bytes().to_vec());
        let request = RecoveryRequest { list, slot: Slot(2_980_000), attempt: 0, missing, deadline: 1_788_000_700 };
        request.seal(&gateway.identity(), &GatewayChannel::Recovery.topic(&cluster()))
    };
    let (first, second) = (request(1), request(2));
    EvidenceStatement { cluster: cluster(), certificate: gateway.der.clone(), first, second }
}

/// Two lists of one epoch, by their headers.
pub(crate) fn two_lists(pki: &Pki) -> EvidenceStatement {
    headers(pki, |_| {}, |other| other.terms.max_missing = 0)
}

fn headers(
    pki: &Pki,
    change: impl FnOnce(&mut ListStatement<'_>),
    other: impl FnOnce(&mut ListStatement<'_>),
) -> EvidenceStatement {
    let (first, second) = (list(pki, change), list(pki, other));
    let header = |list: &[u8]| FullList::decode(list).unwrap().header.to_vec();
    EvidenceStatement { cluster: cluster(), certificate: Vec::new(), first: header(&first), second: header(&second) }
}

#[test]
fn two_requests_of_one_attempt_prove_a_contradiction() {
    let court = Court::new();
    insta::assert_snapshot!(court.judge(&two_requests(&court.pki)));
}

#[test]
fn two_lists_of_one_epoch_and_a_list_that_denies_another_prove_a_contradiction() {
    let court = Court::new();
    insta::assert_snapshot!("two_lists", court.judge(&two_lists(&court.pki)));
    let denies = |later: &mut ListStatement<'_>| (later.epoch, later.previous_epoch) = (EPOCH + 60, 0);
    insta::assert_snapshot!("a_denied_list", court.judge(&headers(&court.pki, |_| {}, denies)));
}

#[test]
fn evidence_that_shows_nothing_is_told_with_the_reason() {
    let court = Court::new();
    let good = two_requests(&court.pki);
    let mut tampered = good.clone();
    *tampered.second.last_mut().unwrap() ^= 1;
    let same = EvidenceStatement { second: good.first.clone(), ..good.clone() };
    let elsewhere = EvidenceStatement { cluster: ClusterId::new("south").unwrap(), ..good.clone() };
    let unknown = |later: &mut ListStatement<'_>| {
        (later.epoch, later.previous_epoch, later.previous) = (EPOCH + 60, EPOCH + 30, ListHash([5; 32]));
    };
    let not_contradictory = headers(&court.pki, |_| {}, unknown);
    let mut other_gateway = good.clone();
    other_gateway.certificate = court.pki.gateway("another").der.clone();
    let cases = [
        ("tampered", tampered),
        ("the same twice", same),
        ("of another cluster", elsewhere),
        ("lists that may both be", not_contradictory),
        ("of another gateway", other_gateway),
    ];
    let answers = cases.map(|(name, evidence)| {
        let answer = court.judge(&evidence);
        assert!(answer.starts_with("exit code 1\n--- out\n--- err\n"), "{name}: {answer}");
        format!("{name}\n  {}\n", answer.lines().nth(3).unwrap())
    });
    let strange = court.run("evidence.cbor --gateway-authority stranger.pem");
    assert!(strange.starts_with("exit code 1"), "{strange}");
    insta::assert_snapshot!(format!(
        "{}of another authority\n  {}\n",
        answers.concat(),
        strange.lines().nth(3).unwrap()
    ));
}

#[test]
fn what_cannot_be_read_is_a_mistake_of_the_user() {
    let court = Court::new();
    court.write("cut.cbor", &two_lists(&court.pki).encode()[..100]);
    court.write("list.cbor", &list(&court.pki, |_| {}));
    for mistake in ["nowhere.cbor", "cut.cbor", "list.cbor"] {
        let answer = court.run(&format!("{mistake} --gateway-authority gateway-authority.pem"));
        assert!(answer.starts_with("exit code 2\n--- out\n--- err\n"), "{mistake}: {answer}");
    }
    court.write("evidence.cbor", &two_lists(&court.pki).encode());
    for mistake in ["evidence.cbor", "evidence.cbor --gateway-authority nowhere.pem"] {
        assert!(court.run(mistake).starts_with("exit code 2"), "{mistake}");
    }
}

#[test]
fn help_explains_every_flag_and_its_example_works() {
    let court = Court::new();
    court.write("1", &two_lists(&court.pki).encode());
    let help = court.run("--help");
    let ours: Vec<_> = examples(&help).into_iter().filter(|example| example.starts_with("dream-gateway")).collect();
    assert_eq!(ours.len(), 1);
    let answer = court.run(ours[0].strip_prefix("dream-gateway verify-evidence ").unwrap());
    assert!(answer.starts_with("exit code 0"), "{answer}");
    insta::assert_snapshot!(help);
}
