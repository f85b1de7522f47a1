//! The demo, whole: broker, gateway and meters, and a verdict at the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use serde_json::Value;

/// The verdict of a demo with these arguments, which must be a good one.
fn demo(args: &[&str]) -> Value {
    let output = Command::cargo_bin("meter-sim").unwrap().arg("demo").arg("--json").args(args).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn five_slots_are_decoded() {
    let verdict = demo(&["--slots", "5", "--faults", "0"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"], &verdict["exact"]), (&5.into(), &5.into(), &5.into()));
}

#[test]
fn five_slots_are_decoded_although_readings_are_lost_late_and_broken() {
    let verdict = demo(&["--slots", "5", "--faults", "0.05"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"]), (&5.into(), &5.into()), "{verdict}");
    assert_eq!(verdict["exact"], verdict["comparable"], "{verdict}");
}

#[test]
fn without_noise_every_sum_is_exact() {
    let verdict = demo(&["--slots", "3", "--meters", "20", "--faults", "0", "--no-noise", "--clusters", "2"]);
    assert_eq!((&verdict["decoded"], &verdict["exact"]), (&verdict["slots"], &verdict["slots"]), "{verdict}");
    assert!(verdict["slots"].as_u64().unwrap() >= 6, "{verdict}");
}

#[test]
fn mistakes_name_the_flag_and_what_is_allowed() {
    for (args, allowed) in [
        (["--faults", "2"], "use a share from 0 to 1"),
        (["--meters", "1"], "from 5 to 5000"),
        (["--slot-seconds", "1"], "from 4 to 600"),
    ] {
        let output = Command::cargo_bin("meter-sim").unwrap().arg("demo").args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(args[0]) && said.contains(allowed), "{said}");
    }
}
