//! The demo, whole: broker, gateway and meters, and a verdict at the end.

use std::path::Path;

use dream_testkit::lab::command::{seen, succeed};
use serde_json::Value;

use super::meter_sim;

/// Runs a demo with these arguments, which must go well; returns its slots, and its verdict.
fn demo(args: &[&str]) -> (Vec<Value>, Value) {
    let out = succeed(meter_sim(Path::new(".")).args(["demo", "--json"]).args(args));
    let mut lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdict = lines.pop().unwrap();
    (lines, verdict)
}

#[test]
fn every_slot_is_ten_minutes_of_the_homes_and_the_filter_knows_the_day_before() {
    let (slots, verdict) = demo(&["--slots", "2", "--clusters", "1", "--meters", "60", "--faults", "0", "--seed", "7"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"], &verdict["exact"]), (&2.into(), &2.into(), &2.into()));
    let times: Vec<&str> = slots.iter().map(|slot| &slot["start"].as_str().unwrap()[10..]).collect();
    assert_eq!(times, ["T17:00:00Z", "T17:10:00Z"], "none is missed while meters agree on keys: {slots:?}");
    for slot in &slots {
        let band = |name: &str| slot[name].as_f64().unwrap();
        // One that had seen no slot before would be as wide.
        assert!(band("band95_filtered_watts") < 0.8 * band("band95_watts"), "{slot}");
    }
}

#[test]
fn slots_are_decoded_although_readings_are_lost_late_and_broken() {
    let (_, verdict) = demo(&["--slots", "3", "--clusters", "1", "--meters", "100", "--faults", "0.05"]);
    assert_eq!((&verdict["slots"], &verdict["decoded"]), (&3.into(), &3.into()), "{verdict}");
    assert_eq!(verdict["exact"], verdict["comparable"], "{verdict}");
}

#[test]
fn holders_of_a_committee_may_vanish_and_every_slot_is_decoded_at_once() {
    let (slots, verdict) = demo(&[
        "--slots",
        "3",
        "--clusters",
        "1",
        "--meters",
        "100",
        "--faults",
        "0",
        "--vanish",
        "0.05",
        "--seed",
        "7",
    ]);
    assert_eq!((&verdict["decoded"], &verdict["exact"]), (&3.into(), &3.into()), "{verdict}");
    assert!(slots.iter().all(|slot| slot["attempts"] == 1 && slot["missing"] == 0), "{slots:?}");
}

#[test]
fn in_real_time_slots_are_seconds_and_without_noise_every_sum_is_exact() {
    let (slots, verdict) =
        demo(&["--real-time", "--slots", "2", "--meters", "50", "--faults", "0", "--no-noise", "--clusters", "2"]);
    assert_eq!((&verdict["decoded"], &verdict["exact"]), (&verdict["slots"], &verdict["slots"]), "{verdict}");
    assert!(verdict["slots"].as_u64().unwrap() >= 4, "{verdict}");
    let now = jiff::Timestamp::now();
    for slot in slots {
        let start: jiff::Timestamp = slot["start"].as_str().unwrap().parse().unwrap();
        assert!((now - start).get_seconds() < 600 && slot["load_watts"] == slot["expected"]["truth"], "{slot}");
    }
}

#[test]
fn homes_with_panels_report_below_0_within_a_range_of_their_own() {
    let homes = ["--pv", "1", "--month", "6", "--clusters", "1", "--meters", "50", "--seed", "7"];
    let (slots, verdict) = demo(&[&homes[..], &["--no-noise", "--faults", "0", "--slots", "1"]].concat());
    assert_eq!((&verdict["decoded"], &verdict["exact"]), (&1.into(), &1.into()), "{verdict}");
    let slot = &slots[0];
    assert_eq!(slot["load_watts"], slot["expected"]["truth"], "{slot}");
}

#[test]
fn what_it_prints_is_for_people_and_cheats_are_told() {
    let args = ["demo", "--slots", "1", "--clusters", "1", "--meters", "60", "--faults", "0", "--seed", "4711"];
    let out = succeed(meter_sim(Path::new(".")).args(args).args(["--shifting", "0.05"]));
    assert!(out.contains("The seed is 4711."), "{out}");
    assert!(out.contains(" 17:00 "), "{out}");
    assert!(out.contains("3 members shift every sum by 15.0 kW: the protocol cannot see this."), "{out}");
    assert!(out.ends_with("Verdict: all is well.\n"), "{out}");
}

#[test]
fn a_liar_is_told_of_found_and_left_out_and_the_story_ends_when_sums_go_on() {
    let args = ["demo", "--clusters", "1", "--meters", "51", "--faults", "0", "--liars", "1", "--seed", "7"];
    // Slots of seconds are a race that a busy machine loses: these are long enough for one.
    let out = succeed(meter_sim(Path::new(".")).args(args).args(["--scheme", "pairwise", "--slot-seconds", "12"]));
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("`{text}` is not in\n{out}"));
    let order = [
        " decoded\n",
        "riverside: a dishonest meter from now on sends readings but does not help to unmask",
        "decoded, attempt 2",
        "riverside: a dishonest meter is found after ",
        "Cheats: one member spoils slots: the gateway has found 1 of 1",
        " slots gave a sum; the dishonest meter is found.\n",
    ];
    assert!(order.map(at).is_sorted(), "{out}");
}

#[test]
fn the_first_look_is_a_town_of_four_honest_clusters() {
    let (slots, verdict) = demo(&["--slots", "1", "--meters", "50", "--faults", "0"]);
    let clusters: Vec<&str> = slots.iter().map(|slot| slot["cluster"].as_str().unwrap()).collect();
    assert!((1..=4).all(|number| clusters.contains(&format!("district-{number}").as_str())), "{clusters:?}");
    assert_eq!((&verdict["decoded"], &verdict["liars"]), (&verdict["slots"], &0.into()), "{verdict}");
}

#[test]
fn mistakes_name_the_flag_and_what_is_allowed() {
    for (args, allowed) in [
        (["--faults", "2"], "use a share from 0 to 1"),
        (["--meters", "1"], "from 2 to 10000"),
        (["--scheme", "secret"], "use auto, committee or pairwise"),
        (["--pv", "2"], "use a share of the homes from 0 to 1"),
        (["--slot-seconds", "1"], "from 2 to 600"),
        (["--real-time", "--slot-seconds=3"], "use --slot-seconds 4 or more"),
        (["--liars", "5"], "from 0 to 4"),
        (["--mqtt-port", "0"], "not in 1..=65535"),
        (["--listen", "8080"], "invalid socket address"),
        (["--meters", "49"], "49 members; the policy demands 50. They accept 50 or more."),
        (["--meters", "2"], "They accept 50 or more."),
    ] {
        let said = seen(meter_sim(Path::new(".")).arg("demo").args(args));
        assert!(said.starts_with("exit code 2\n"), "{said}");
        assert!(said.contains(args[0]) && said.contains(allowed), "{said}");
    }
}
