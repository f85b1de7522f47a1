//! `meter-sim study` as a user sees it: the files it writes, and its answers to mistakes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dream_testkit::lab::command::{seen, succeed};
use tempfile::TempDir;

use super::meter_sim;

/// All but the audit, of a hundred homes; all of it, of as many homes as `DREAM_STUDY_HOMES` says, where `make long` sets that.
#[test]
fn the_whole_study_draws_its_figures_and_its_files_are_documented() {
    let but_the_audit =
        "error,utility,clipping,filtering,partners,share,windows,presence,activation,composition,shortfall";
    let folder = match std::env::var("DREAM_STUDY_HOMES") {
        Ok(homes) => study(&["--homes", &homes]),
        Err(_) => study(&["--homes", "100", "--only", but_the_audit]),
    };
    let headers = csv_headers(folder.path());
    assert!(headers.len() > 20, "{headers:?}");
    assert_documented(&headers);
    assert_drawn(folder.path());
}

#[test]
fn a_file_of_ones_own_gives_what_it_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let trace = ["trace", "--homes", "40", "--days", "3", "--slot-seconds", "900", "--out", "homes.csv"];
    succeed(meter_sim(folder.path()).args(trace));
    let parts = "error,windows,presence,activation,filtering,clipping";
    let asked = ["study", "--csv", "homes.csv", "--slot-seconds", "900", "--out", "ours", "--only", parts];
    insta::assert_snapshot!(succeed(meter_sim(folder.path()).args(asked)));
    let written = csv_headers(&folder.path().join("ours"));
    assert!(written.contains_key("error.csv") && !written.contains_key("presence_all.csv"), "{written:?}");
}

#[test]
fn a_seed_repeats_itself_and_a_part_alone_says_the_same() {
    let all = study(&["--homes", "100", "--seed", "7", "--only", "error,share,clipping"]);
    let one = study(&["--homes", "100", "--seed", "7", "--only", "clipping"]);
    let other = study(&["--homes", "100", "--seed", "8", "--only", "clipping"]);
    let clipping = |folder: &TempDir| fs::read(folder.path().join("clipping.csv")).unwrap();
    assert_eq!(clipping(&all), clipping(&one));
    assert_ne!(clipping(&one), clipping(&other));
}

/// Tables that do not depend on homes are in docs/study.md, rounded: when the code computes something else, the page must follow.
#[test]
fn the_documentation_has_the_numbers_of_the_study() {
    let folder = study(&["--homes", "100", "--only", "partners,shortfall,composition"]);
    let page = documentation();
    for name in ["partners", "guessed_slots", "inference", "shortfall", "composition"] {
        let csv = fs::read_to_string(folder.path().join(format!("{name}.csv"))).unwrap();
        let computed: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let printed = table_of(&page, name);
        assert_eq!(printed.len(), computed.len(), "rows of {name}");
        for (printed, computed) in printed.iter().zip(&computed) {
            assert_eq!(printed.len(), computed.len(), "{name}: {printed:?}");
            let same = printed.iter().zip(computed).all(|(printed, computed)| is_rounded(printed, computed));
            assert!(same, "docs/study.md has {printed:?} in {name}, and the study computes {computed:?}");
        }
    }
}

/// Returns the rows of the table that follows `<!-- table NAME -->` on the page, without its head.
fn table_of<'a>(page: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let (_, after) = page.split_once(&format!("<!-- table {name} -->")).unwrap_or_else(|| panic!("no table {name}"));
    let rows = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect();
    rows.skip(2).map(cells).collect()
}

/// Whether a printed number is the computed one, rounded to as many places as are printed. Text has to be the same.
fn is_rounded(printed: &str, computed: &str) -> bool {
    let (Ok(number), Ok(exact)) = (printed.parse::<f64>(), computed.parse::<f64>()) else { return printed == computed };
    let (digits, power) = printed.split_once('e').unwrap_or((printed, "0"));
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
    let unit = 10f64.powf(power.parse::<f64>().unwrap() - places as f64);
    (number - exact).abs() <= 0.5001 * unit
}

#[test]
fn help_explains_every_flag_and_part() {
    insta::assert_snapshot!(seen(meter_sim(Path::new(".")).args(["study", "--help"])));
}

#[test]
fn every_mistake_names_its_flag_what_was_found_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("three.csv"), "1,2,3\n").unwrap();
    fs::write(folder.path().join("ten.csv"), "1,2,3,4,5,6,7,8,9,10\n").unwrap();
    fs::write(folder.path().join("bad.csv"), "1,2\n3,x\n").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let mistakes: &[&[&str]] = &[
        &[],
        &["--out", "o", "--homes", "99"],
        &["--out", "o", "--seed", "-1"],
        &["--out", "o", "--only", "everything"],
        &["--out", "o", "--csv", "nowhere.csv"],
        &["--out", "o", "--csv", "three.csv"],
        &["--out", "o", "--csv", "bad.csv"],
        &["--out", "o", "--csv", "bad.csv", "--homes", "200"],
        &["--out", "o", "--slot-seconds", "900"],
        &["--out", "file/o", "--homes", "100", "--only", "composition"],
        &["--out", "appliances", "--csv", "ten.csv", "--only", "presence"],
    ];
    let answers = mistakes.iter().map(|mistake| {
        let answer = seen(meter_sim(folder.path()).arg("study").args(*mistake));
        let complaint: Vec<_> = answer.lines().take_while(|line| !line.is_empty()).collect();
        format!("study {}\n  {}\n", mistake.join(" "), complaint.join("\n  "))
    });
    insta::assert_snapshot!(answers.collect::<String>());
    assert!(!folder.path().join("o").exists(), "nothing is written");
}

fn study(arguments: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    succeed(meter_sim(folder.path()).args(["study", "--out", "."]).args(arguments));
    folder
}

/// The first line of every CSV file, by its name.
fn csv_headers(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let csv = files.filter(|path| path.extension().is_some_and(|ending| ending == "csv"));
    let header = |path: &Path| fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned();
    csv.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), header(&path))).collect()
}

/// Every file has a line in the documentation that names it and its columns.
fn assert_documented(headers: &BTreeMap<String, String>) {
    let page = documentation();
    for (name, header) in headers {
        if header == "series,x,y" {
            continue; // A figure's points: documented once, for all.
        }
        let line = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let line = line.unwrap_or_else(|| panic!("docs/study.md has no line for {name}"));
        for column in header.split(',') {
            assert!(line.contains(&format!("`{column}`")), "docs/study.md does not explain {column} of {name}");
        }
    }
    assert!(page.contains("`series,x,y`"));
}

fn documentation() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/study.md")).unwrap()
}

/// Every figure has axes and at least one curve or point.
fn assert_drawn(folder: &Path) {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let figures: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "svg")).collect();
    assert!(figures.len() > 10, "{figures:?}");
    for path in figures {
        let svg = fs::read_to_string(&path).unwrap();
        let curves = svg.matches("stroke-width=\"2\"").count() + svg.matches("<circle").count();
        assert!(curves >= 2 && svg.contains("<text") && svg.ends_with("</svg>\n"), "{}", path.display());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", path.display());
    }
}
