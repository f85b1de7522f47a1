//! `dream-gateway plan`, `completions` and `man` as a user sees them.

use std::path::Path;

use dream_gateway::config::{Config, Overrides};
use dream_testkit::lab::command::man_pages_are_complete;
use serde_json::Value;

use crate::command::{command, examples, seen};

fn plan(arguments: &[&str]) -> String {
    seen(command(Path::new(".")).arg("plan").args(arguments))
}

/// Returns the plan in JSON.
fn json(arguments: &str) -> Value {
    let arguments: Vec<&str> = arguments.split_whitespace().chain(["--json"]).collect();
    let text = dream_gateway::cmd::plan(&arguments).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

/// Returns the plan with everything that it has to say.
fn whole(arguments: &[&str]) -> String {
    plan(&[arguments, &["--verbose"]].concat())
}

#[test]
fn the_default_cluster_is_told_in_a_few_lines() {
    let told = plan(&[]);
    assert!(told.lines().count() < 25, "{told}");
    insta::assert_snapshot!(told);
}

#[test]
fn everything_is_told_on_request() {
    insta::assert_snapshot!(whole(&[]));
}

/// The filter's figures in plans are those of the study.
#[test]
fn what_a_plan_says_of_the_filter_was_measured() {
    let study = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/study.md");
    let study = std::fs::read_to_string(study).unwrap();
    let (_, table) = study.split_once("### By size").unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows.skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    assert!(rows.len() >= 6, "{rows:?}");
    for row in rows {
        let (kind, homes, day) = (row[1], row[2], row[3]);
        let filter = &json(&format!("--kind {kind} --homes {homes} --day-epsilon {day}"))["filter"];
        assert_eq!(filter["homes"].to_string(), homes, "{row:?}: {filter}");
        for (key, measured) in ["raw_percent", "filtered_percent"].into_iter().zip(&row[4..]) {
            let measured: f64 = measured.trim_end_matches(" %").parse().unwrap();
            assert!((number(&filter[key]) - measured).abs() < 0.051, "{row:?}: {filter}");
        }
    }
    // More homes and less noise than were measured are easier for a filter, fewer and more are not.
    assert_eq!(json("--homes 250")["filter"]["homes"], 100);
    for asked in ["--homes 90", "--homes 100 --day-epsilon 4", "--kind pv", "--slot-seconds 900"] {
        assert_eq!(json(asked)["filter"], Value::Null, "{asked}");
    }
}

#[test]
fn the_cluster_of_the_demo_is_useful_filtered_and_a_hundred_houses_are_too_few() {
    let told = plan(&["--homes", "300"]);
    assert_eq!(told, plan(&["--members", "300"]), "the name that it had before");
    assert_eq!(told, plan(&[]), "what a plan assumes");
    assert!(told.contains("Useful filtered: read the filtered load") && !told.contains("WARNING"), "{told}");
    let few = plan(&["--homes", "100"]);
    assert!(few.contains("WARNING: too noisy"), "{few}");
}

#[test]
fn a_large_cluster_is_useful() {
    insta::assert_snapshot!(whole(&["--homes", "1200", "--max-missing", "0.05"]));
}

#[test]
fn a_pairwise_cluster_says_how_often_everybody_answers() {
    insta::assert_snapshot!(whole(&["--scheme", "pairwise", "--loss", "0.05"]));
}

#[test]
fn a_drawn_committee_is_planned_with_what_it_loses_and_risks() {
    insta::assert_snapshot!(whole(&["--homes", "10000", "--willing", "0.6", "--loss", "0.05"]));
}

#[test]
fn too_few_willing_members_are_told_and_leave_the_list_pairwise() {
    let told = whole(&["--homes", "1000", "--willing", "0.3"]);
    assert!(told.contains("No committee can be formed: 300 of 1000 members can be holders"), "{told}");
    assert_eq!(json("--homes 1000 --willing 0.3")["opening"]["scheme"], "pairwise");
}

#[test]
fn losses_cost_a_committee_of_a_hundred_nothing_and_pairs_two_slots_in_three() {
    let committee = json("--homes 100 --loss 0.01");
    assert_eq!((committee["opening"]["scheme"].as_str(), committee["attempts"].as_u64()), (Some("committee"), Some(1)));
    let [small, large] =
        ["slot_fails", "pairwise_attempt_fails"].map(|key| committee["opening"][key].as_f64().unwrap());
    assert!(small < 1e-20 && (large - 0.634).abs() < 0.001, "{small} {large}");
    let thousand = json("--homes 1000 --loss 0.05");
    assert!(thousand["opening"]["slot_fails"].as_f64().unwrap() < 1e-3, "{thousand}");
    let ten_thousand = json("--homes 10000");
    let per_list = |plan: &Value| plan["bytes"]["cluster"]["bytes_per_list"].as_u64().unwrap();
    assert!(per_list(&ten_thousand) < 3_000_000_000, "{ten_thousand}");
    let pairs = json("--homes 10000 --scheme pairwise");
    assert!(per_list(&pairs) > 40_000_000_000, "{pairs}");
}

#[test]
fn fewer_partners_cost_blocks_to_select_them_and_less_epsilon_suffices_the_budget() {
    insta::assert_snapshot!(whole(&[
        "--homes",
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
        "--homes",
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
fn ten_thousand_houses_are_planned_at_a_day_of_four() {
    let asked = ["--homes", "10000", "--kind", "house", "--day-epsilon", "4", "--loss", "0.02", "--willing", "0.9"];
    insta::assert_snapshot!(plan(&asked));
}

#[test]
fn a_plan_has_the_numbers_of_the_protocol() {
    let plan = json("--homes 10000 --day-epsilon 4");
    // 144 squares of 1,750 W are 0.311064 of lambda^2, but for the six places of epsilon. 1.1441 is the utility theorem's for alpha 0.2.
    let lambda = number(&plan["noise_scale_watts"]) / 1000.0;
    assert!((lambda - 1.75 * (144.0f64 / 0.311_064).sqrt()).abs() < 0.001, "{plan}");
    let error = &plan["error_when_all_answer"];
    assert!((number(&error["mean_percent"]) - 100.0 * 1.1441 * lambda / 4800.0).abs() < 0.001, "{error}");
    assert!((number(&error["band95_percent"]) - 100.0 * 3.316 * lambda / 4800.0).abs() < 0.01, "{error}");
    // 144 slots of ten minutes, whose variances add: 2 * 1.25 * lambda^2 each. So many sums are nearly normal.
    let noise = 1.96 * (144.0f64 * 2.5).sqrt() * lambda / 6.0;
    // Of what is cut off, the row of houses (0 to 8,000 W, 1,750 W) of the shipped table, whose homes are as many as the cluster's.
    let (share, lasting, daily): (f64, f64, f64) = (0.00837, 3.31 * 2f64.sqrt() / 100.0, 5.77 / 100.0);
    let unknown = share / (1.0 + share) * lasting.hypot(daily);
    let day = noise.hypot(1.96 * unknown * 24.0 * 4800.0);
    let band = number(&plan["error_of_a_days_energy"]["band95_watt_hours"]) / 1000.0;
    assert!((band / day - 1.0).abs() < 0.005, "{band} kWh and {day} kWh");
    let percent = number(&plan["error_of_a_days_energy"]["band95_percent"]);
    assert!((percent - 100.0 * band / (24.0 * 4800.0)).abs() < 1e-9, "{percent}");
    let costs = &plan["epsilon_per_day"];
    assert_eq!((costs["micro_rho"].as_u64(), costs["rms_watts"].as_u64()), (Some(311_064), Some(1750)));
    assert_eq!(number(&costs["epsilon_at_delta"]), 4.0);
    assert!(
        (number(&costs["epsilon_pure"]) - (288.0f64 * 0.311_064).sqrt()).abs() < 0.001,
        "{costs}: one attempt a slot"
    );
    assert!((number(&costs["epsilon_of_a_kilowatt_hour"]) - 6.0 / lambda).abs() < 1e-5, "{costs}");
    let twice = json("--homes 100 --day-epsilon 4 --scheme pairwise");
    let twice = number(&twice["epsilon_per_day"]["epsilon_of_a_kilowatt_hour"]);
    assert!((twice - 12.0 / lambda).abs() < 1e-5, "{twice}: it is reported again in a retry");
}

#[test]
fn sentences_say_what_the_tables_do() {
    let plan = json("--homes 600 --kind flat --error 5");
    let summary = ["accuracy", "privacy", "robustness"].map(|part| plan["summary"][part].as_str().unwrap());
    assert_eq!(plan["found"]["what"], "day_epsilon");
    let day = number(&plan["epsilon_per_day"]["epsilon_at_delta"]);
    assert!(
        summary[0].starts_with("The load of 600 flats, in slots of 10 minutes, is off by 5.0 % of its mean"),
        "{summary:?}"
    );
    assert!(
        summary[1].contains("60 of the 600 homes") && summary[1].contains(&format!("epsilon {day:.1} a day")),
        "{summary:?}"
    );
    assert!(summary[2].starts_with("Up to 60 of the 600 homes may be silent"), "{summary:?}");
    assert!(
        summary.iter().all(|sentence| sentence.ends_with('.') && sentence.matches(". ").count() == 0),
        "{summary:?}"
    );
    let hidden = |arguments: &str| !json(arguments)["summary"]["privacy"].as_str().unwrap().contains("hides no day");
    assert!(hidden("--homes 10000 --day-epsilon 4") && !hidden("--homes 600"));
}

#[test]
fn what_is_left_out_is_found() {
    insta::assert_snapshot!(plan(&["--error", "6", "--homes", "600", "--day-epsilon", "8"]));
    for (asked, free, value) in [
        ("--error 3 --day-epsilon 10", "homes", "members"),
        ("--error 6 --homes 600", "day_epsilon", "noise_scale_watts"),
        ("--error 6 --homes 600 --day-epsilon 8", "slot_seconds", "slot_seconds"),
    ] {
        let found = json(asked);
        assert_eq!(found["found"]["what"], free);
        assert!(
            number(&found["error_when_all_answer"]["mean_percent"])
                <= if asked.contains("--error 6") { 6.0 } else { 3.0 },
            "{found}"
        );
        let given = json("--homes 600 --day-epsilon 10");
        assert_ne!(found[value], given[value], "{asked}");
    }
}

/// What a plan says to write into the configuration makes a list of the same terms.
#[test]
fn the_lines_for_the_configuration_make_such_a_list() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gateway.example.toml");
    let example = std::fs::read_to_string(example).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("gateway.toml");
    for asked in [
        "",
        "--homes 10000 --day-epsilon 4",
        "--error 4 --kind pv --day-epsilon 13.37",
        "--homes 700 --kind flat --slot-seconds 900 --epsilon 0.123456 --day-epsilon 3 --max-missing 0.05 --max-malicious 0.125",
        "--homes 300 --range -5000..9000 --scheme pairwise --attempts 3 --reading-seconds 30 --reveal-seconds 40",
        "--homes 30 --meter-policy community --day-epsilon 80 --list-slots 500",
    ] {
        let plan = json(asked);
        let lines: Vec<&str> =
            plan["configuration"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let least = if asked.contains("community") { 30 } else { 50 };
        let cluster = format!("[clusters.planned]\nmin_members = {least}\n{}", lines.join("\n"));
        std::fs::write(&file, format!("{example}\n{cluster}\n")).unwrap();
        let config = Config::load(&file, &Overrides::default()).unwrap();
        let settings = config.clusters.iter().find(|(id, _)| id.as_str() == "planned").unwrap().1;
        let members = u16::try_from(plan["members"].as_u64().unwrap()).unwrap();
        let params = settings.formed(members).unwrap();
        let (terms, listed) = (params.terms(), &plan["epsilon_per_day"]);
        let scale = params.noise_scale().as_f64();
        assert!((number(&plan["noise_scale_watts"]) / scale - 1.0).abs() < 1e-12, "{asked}: {scale}");
        assert_eq!(listed["micro_rho"], terms.day_micro_rho, "{asked}");
        assert_eq!((&plan["slot_seconds"], &plan["attempts"]), (&terms.slot_seconds.into(), &params.attempts().into()));
        assert_eq!((&plan["range_watts"][0], &plan["range_watts"][1]), (&terms.lo.into(), &terms.hi.into()));
        let tolerated = [params.max_missing(), params.max_malicious(), params.honest()];
        assert_eq!(
            ["max_missing", "max_malicious", "honest"].map(|key| &plan[key]),
            tolerated.map(Value::from).each_ref()
        );
        assert_eq!(plan["opening"]["scheme"], terms.scheme.kind().as_str(), "{asked}");
        assert_eq!(plan["meter_policy"], settings.profile.as_str());
    }
}

#[test]
fn json_says_the_same_in_numbers() {
    let text = plan(&["--json"]);
    let value = json("");
    assert_eq!(value["honest"], 240);
    assert_eq!(value["verdict"], "useful_filtered");
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
    assert_eq!(examples.len(), 6);
    for example in examples {
        let arguments = example.split(" #").next().unwrap().trim_end();
        let arguments = arguments.strip_prefix("dream-gateway ").unwrap().split(' ');
        command(Path::new(".")).args(arguments).assert().success();
    }
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let mistakes: &[&[&str]] = &[
        &["--homes", "0"],
        &["--homes", "10001"],
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
        &["--error", "0"],
        &["--error", "3 %"],
        &["--error", "101"],
        &["--error", "3", "--homes", "600", "--epsilon", "1"],
        &["--error", "3", "--homes", "600", "--day-epsilon", "4", "--slot-seconds", "600"],
        &["--error", "0.5", "--day-epsilon", "4"],
        &["--error", "1", "--homes", "600"],
        &["--error", "1", "--homes", "600", "--day-epsilon", "10"],
        &["--error", "3", "--range", "9..0"],
        &["--day-epsilon", "0.000001", "--range", "0..1"],
        &["--scheme", "both"],
        &["--scheme", "committee", "--partners", "60"],
        &["--scheme", "committee", "--homes", "20"],
        &["--scheme", "committee", "--homes", "1000", "--willing", "0.3"],
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
fn every_command_has_a_man_page() {
    assert!(man_pages_are_complete(assert_cmd::cargo::cargo_bin!("dream-gateway")) > 10);
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = seen(command(Path::new(".")).args(["completions", shell]));
        assert!(text.starts_with("exit code 0") && text.contains("max-missing"), "{shell}");
    }
    insta::assert_snapshot!(seen(command(Path::new(".")).args(["completions", "tcsh"])));
}
