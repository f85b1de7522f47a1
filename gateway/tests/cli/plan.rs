//! `dream-gateway plan` and `completions` as a user sees them.

use std::path::Path;

use crate::command::{command, examples, seen};

fn plan(arguments: &[&str]) -> String {
    seen(command(Path::new(".")).arg("plan").args(arguments))
}

#[test]
fn the_default_cluster_is_accepted_by_meters_but_too_small() {
    insta::assert_snapshot!(plan(&[]));
}

#[test]
fn the_cluster_of_the_demo_is_useful() {
    let told = plan(&["--members", "600"]);
    assert!(told.contains("Useful: single slots can be read.") && !told.contains("WARNING"), "{told}");
}

#[test]
fn a_large_cluster_is_useful() {
    insta::assert_snapshot!(plan(&["--members", "1000", "--max-missing", "0.05"]));
}

#[test]
fn a_pairwise_cluster_says_how_often_everybody_answers() {
    insta::assert_snapshot!(plan(&["--scheme", "pairwise", "--loss", "0.05"]));
}

#[test]
fn a_drawn_committee_is_planned_with_what_it_loses_and_risks() {
    insta::assert_snapshot!(plan(&["--members", "10000", "--willing", "0.6", "--loss", "0.05"]));
}

#[test]
fn too_few_willing_members_are_told_and_leave_the_list_pairwise() {
    let told = plan(&["--members", "1000", "--willing", "0.3"]);
    assert!(told.contains("How sums are opened: pairwise"), "{told}");
    assert!(told.contains("NOTE: no committee can be formed: 300 of 1000 members are willing"), "{told}");
}

#[test]
fn losses_cost_a_committee_of_a_hundred_nothing_and_pairs_two_slots_in_three() {
    let of = |arguments: &[&str]| -> serde_json::Value {
        let text = plan(&[arguments, &["--json"]].concat());
        serde_json::from_str(text.split("--- out\n").nth(1).unwrap().split("--- err").next().unwrap()).unwrap()
    };
    let committee = of(&["--members", "100", "--loss", "0.01"]);
    assert_eq!((committee["opening"]["scheme"].as_str(), committee["attempts"].as_u64()), (Some("committee"), Some(1)));
    let [small, large] =
        ["slot_fails", "pairwise_attempt_fails"].map(|key| committee["opening"][key].as_f64().unwrap());
    assert!(small < 1e-20 && (large - 0.634).abs() < 0.001, "{small} {large}");
    let thousand = of(&["--members", "1000", "--loss", "0.05"]);
    assert!(thousand["opening"]["slot_fails"].as_f64().unwrap() < 1e-3, "{thousand}");
    let ten_thousand = of(&["--members", "10000"]);
    let per_list = |plan: &serde_json::Value| plan["bytes"]["cluster"]["bytes_per_list"].as_u64().unwrap();
    assert!(per_list(&ten_thousand) < 3_000_000_000, "{ten_thousand}");
    let pairs = of(&["--members", "10000", "--scheme", "pairwise"]);
    assert!(per_list(&pairs) > 40_000_000_000, "{pairs}");
}

#[test]
fn fewer_partners_cost_blocks_to_select_them_and_less_epsilon_suffices_the_budget() {
    insta::assert_snapshot!(plan(&[
        "--members",
        "500",
        "--partners",
        "100",
        "--epsilon",
        "0.3",
        "--slot-seconds",
        "900",
        "--attempts",
        "1",
    ]));
}

#[test]
fn a_meter_with_the_default_policy_refuses_by_every_rule_that_is_broken() {
    insta::assert_snapshot!(plan(&[
        "--members",
        "20",
        "--range",
        "-12000..500",
        "--epsilon",
        "1.5",
        "--slot-seconds",
        "40",
        "--attempts",
        "3",
    ]));
}

#[test]
fn json_says_the_same_in_numbers() {
    let text = plan(&["--json"]);
    let json = text.split("--- out\n").nth(1).unwrap().split("--- err").next().unwrap();
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["honest"], 80);
    assert_eq!(value["verdict"], "too_noisy");
    insta::assert_snapshot!(text);
}

#[test]
fn help_explains_every_flag() {
    insta::assert_snapshot!(plan(&["--help"]));
}

#[test]
fn the_examples_in_the_help_work() {
    let help = plan(&["--help"]);
    let examples = examples(&help);
    assert_eq!(examples.len(), 5);
    for example in examples {
        let arguments = example.strip_prefix("dream-gateway ").unwrap().split(' ');
        command(Path::new(".")).args(arguments).assert().success();
    }
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let mistakes: &[&[&str]] = &[
        &["--members", "0"],
        &["--members", "10001"],
        &["--max-missing", "half"],
        &["--max-missing", "0.21"],
        &["--max-malicious", "1.5"],
        &["--max-malicious", "0.05"],
        &["--max-malicious", "0.9"],
        &["--epsilon", "0"],
        &["--epsilon", "-1"],
        &["--epsilon", "1e3"],
        &["--kind", "castle"],
        &["--day-epsilon", "-1"],
        &["--day-epsilon", "1099512"],
        &["--range", "9000"],
        &["--range", "-5000"],
        &["--range", "100..9000"],
        &["--range", "0..0"],
        &["--range", "0..9000000000"],
        &["--slot-seconds", "90000"],
        &["--slot-seconds", "5"],
        &["--reading-seconds", "300"],
        &["--attempts", "6"],
        &["--attempts", "256"],
        &["--partners", "46"],
        &["--mean-load", "0"],
        &["--list-slots", "3"],
        &["--homes", "7"],
        &["--scheme", "both"],
        &["--scheme", "committee", "--partners", "60"],
        &["--scheme", "committee", "--members", "20"],
        &["--scheme", "committee", "--members", "1000", "--willing", "0.3"],
        &["--scheme", "committee", "--max-missing", "0.2", "--max-malicious", "0.2"],
        &["--willing", "1.5"],
        &["--loss", "0.6"],
    ];
    let answers = mistakes.iter().map(|mistake| {
        let answer = plan(mistake);
        assert!(answer.starts_with("exit code 2\n--- out\n--- err\n"), "{mistake:?}: {answer}");
        let complaint: Vec<_> = answer.lines().skip(3).take_while(|line| !line.is_empty()).collect();
        format!("plan {}\n  {}\n", mistake.join(" "), complaint.join("\n  "))
    });
    insta::assert_snapshot!(answers.collect::<String>());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_mistake() {
    let binary = assert_cmd::cargo::cargo_bin!("dream-gateway");
    let script = format!("{{ {} plan; echo $? >&2; }} | :", binary.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "0\n");
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = seen(command(Path::new(".")).args(["completions", shell]));
        assert!(text.starts_with("exit code 0") && text.contains("max-missing"), "{shell}");
    }
    insta::assert_snapshot!(seen(command(Path::new(".")).args(["completions", "tcsh"])));
}
