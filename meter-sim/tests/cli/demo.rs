//! The demo, whole: broker, gateway and meters, and a verdict at the end.

use std::path::Path;

use dream_testkit::lab::command::{seen, succeed};
use serde_json::Value;

use super::meter_sim;

/// Runs a demo with these arguments, which must go well; returns its verdict.
fn demo(args: &[&str]) -> Value {
    let out = succeed(meter_sim(Path::new(".")).args(["demo", "--json"]).args(args));
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn every_slot_is_decoded() {
    let verdict = demo(&["--slots", "2", "--faults", "0"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"], &verdict["exact"]), (&2.into(), &2.into(), &2.into()));
}

#[test]
fn slots_are_decoded_although_readings_are_lost_late_and_broken() {
    let verdict = demo(&["--slots", "3", "--faults", "0.05"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"]), (&3.into(), &3.into()), "{verdict}");
    assert_eq!(verdict["exact"], verdict["comparable"], "{verdict}");
}

#[test]
fn without_noise_every_sum_is_exact() {
    let verdict = demo(&["--slots", "2", "--meters", "20", "--faults", "0", "--no-noise", "--clusters", "2"]);
    assert_eq!((&verdict["decoded"], &verdict["exact"]), (&verdict["slots"], &verdict["slots"]), "{verdict}");
    assert!(verdict["slots"].as_u64().unwrap() >= 4, "{verdict}");
}

#[test]
fn mistakes_name_the_flag_and_what_is_allowed() {
    for (args, allowed) in [
        (["--faults", "2"], "use a share from 0 to 1"),
        (["--meters", "1"], "from 5 to 5000"),
        (["--slot-seconds", "1"], "from 4 to 600"),
    ] {
        let said = seen(meter_sim(Path::new(".")).arg("demo").args(args));
        assert!(said.starts_with("exit code 2\n"), "{said}");
        assert!(said.contains(args[0]) && said.contains(allowed), "{said}");
    }
}
