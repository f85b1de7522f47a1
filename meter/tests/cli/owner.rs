//! `dream-meter` from the first key to leaving.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{answer, elsewhere, run};

/// Makes an authority and the certificate of a meter.
fn certified(folder: &Path) {
    run(folder, "authority init --name Riverside --gateway gw-1");
    run(folder, "authority init --directory operator --name Operator --gateway gw-1");
    run(folder, "enrol --directory home --meter m-0007");
    run(folder, "authority sign m-0007 home/meter.csr --cluster riverside --size 25 --out m-0007.pem");
}

const ENROL: &str = "enrol --directory home --certificate m-0007.pem --meter-authority authority/authority.pem \
                     --gateway-authority operator/authority.pem --gateway gw-1 --broker mqtts://broker.example --profile community";

#[test]
fn an_owner_enrols_and_is_told_what_it_means() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certified(at);
    let mut said = String::new();
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say(ENROL);
    say("check-config --config home/meter.toml");
    fs::write(at.join("samples"), "").unwrap();
    let text = fs::read_to_string(at.join("home/meter.toml")).unwrap();
    let source = "[source]\nkind = \"lines\"\npath = \"samples\"\ninterval_seconds = 10\n";
    fs::write(at.join("home/meter.toml"), format!("{text}\n{source}")).unwrap();
    say("check-config --config home/meter.toml");
    say("status --config home/meter.toml");
    say("explain --config home/meter.toml");
    say(ENROL);
    say("enrol --directory home --certificate m-0007.pem");
    say("leave --config home/meter.toml");
    say("leave --config home/meter.toml --yes");
    insta::assert_snapshot!(said);
    insta::assert_snapshot!(elsewhere(at, &text));
    assert!(!at.join("home/meter.key").exists() && !at.join("home/meter.pem").exists());
}

#[test]
fn every_mistake_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certified(at);
    let mut said = String::new();
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say("enrol --directory home");
    say("enrol --directory home --meter M-0007");
    say("enrol --directory home --certificate m-0007.pem");
    say(
        "enrol --directory home --certificate nothing.pem --meter-authority authority/authority.pem --gateway-authority operator/authority.pem --gateway gw-1 --broker mqtt://b",
    );
    say(
        "enrol --directory home --certificate m-0007.pem --meter-authority authority/authority.pem --gateway-authority operator/authority.pem --gateway gw-1",
    );
    say(
        "enrol --directory home --certificate m-0007.pem --meter-authority authority/authority.pem --gateway-authority operator/authority.pem --broker mqtt://me:hunter2@b --gateway gw-1",
    );
    say(
        "enrol --directory home --certificate m-0007.pem --meter-authority authority/authority.pem --gateway-authority operator/authority.pem --broker mqtt://b --profile lax --gateway gw-1",
    );
    say(
        "enrol --directory other --certificate m-0007.pem --meter-authority authority/authority.pem --gateway-authority operator/authority.pem --gateway gw-1 --broker mqtt://b",
    );
    say(
        "enrol --directory home --certificate m-0007.pem --meter-authority authority/authority.pem --gateway-authority authority/authority.pem --gateway gw-1 --broker mqtt://b",
    );
    say(
        "enrol --directory home --certificate m-0007.pem --meter-authority operator/authority.pem --gateway-authority authority/authority.pem --gateway gw-1 --broker mqtt://b",
    );
    assert!(!at.join("home/meter-authorities.pem").exists(), "nothing is installed before it is checked");
    say("probe");
    say("probe --lines nothing");
    say("check-config --config nothing.toml");
    assert!(!said.contains("hunter2\n"), "an answer repeats a password:\n{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certified(at);
    let key = at.join("home/meter.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    insta::assert_snapshot!(answer(at, ENROL));
}

#[test]
fn a_certificate_of_another_key_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certified(at);
    fs::remove_file(at.join("home/meter.key")).unwrap();
    run(at, "enrol --directory home --meter m-0007");
    insta::assert_snapshot!(answer(at, ENROL));
    assert!(!at.join("home/meter.toml").exists());
}
