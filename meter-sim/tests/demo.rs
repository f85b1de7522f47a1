//! The demo, whole: broker, gateway and meters, and a verdict at the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use serde_json::Value;

/// What the demo says with these arguments, as JSON, and its exit code.
fn demo(args: &[&str]) -> (Value, i32) {
    let output = Command::cargo_bin("meter-sim").unwrap().arg("demo").arg("--json").args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let verdict = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {:?}", output.stderr));
    (verdict, output.status.code().unwrap())
}

/// One after the other: each takes a port that was free a moment before.
#[test]
fn demos_decode_every_slot_and_find_nothing_wrong() {
    five_slots_with_faults();
    three_slots_without_noise();
}

fn five_slots_with_faults() {
    let (verdict, code) = demo(&["--slots", "5", "--meters", "40", "--faults", "0.05"]);
    assert_eq!(code, 0, "{verdict}");
    assert_eq!(verdict["slots"], 5, "{verdict}");
    assert!(verdict["comparable"].as_u64().unwrap() > 0, "{verdict}");
    assert_eq!(verdict["exact"], verdict["comparable"], "{verdict}");
}

fn three_slots_without_noise() {
    let (verdict, code) = demo(&["--slots", "3", "--meters", "20", "--faults", "0", "--no-noise"]);
    assert_eq!(code, 0, "{verdict}");
    assert_eq!((&verdict["decoded"], &verdict["exact"], &verdict["within_band"]), (&3.into(), &3.into(), &3.into()));
}

#[test]
fn mistakes_name_the_flag_and_what_is_allowed() {
    for (args, allowed) in [
        (["--faults", "2"], "use a share from 0 to 1"),
        (["--meters", "1"], "5..=5000"),
        (["--slot-seconds", "1"], "4..=600"),
    ] {
        let output = Command::cargo_bin("meter-sim").unwrap().arg("demo").args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(args[0]) && said.contains(allowed), "{said}");
    }
}
