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
        "error,utility,clipping,filtering,partners,share,windows,presence,activation,composition,day,shortfall";
    let folder = match std::env::var("DREAM_STUDY_HOMES") {
        Ok(homes) => study(&["--homes", &homes]),
        Err(_) => study(&["--homes", "100", "--size", "20", "--only", but_the_audit]),
    };
    let headers = csv_headers(folder.path());
    assert!(headers.len() > 20, "{headers:?}");
    assert_documented(&headers);
    assert_drawn(folder.path());
    let index = fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(headers.keys().all(|file| index.contains(&format!("href=\"{file}\""))), "{index}");
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

/// A meter that was down for an hour, and one that never came back.
#[test]
fn readings_that_are_missing_are_homes_that_are_silent() {
    let folder = tempfile::tempdir().unwrap();
    let trace = ["trace", "--homes", "40", "--days", "3", "--slot-seconds", "900", "--out", "homes.csv"];
    succeed(meter_sim(folder.path()).args(trace));
    let whole = fs::read_to_string(folder.path().join("homes.csv")).unwrap();
    let mut lines = whole.lines();
    let header = lines.next().unwrap();
    let with_gaps = lines.enumerate().map(|(slot, line)| {
        let mut cells: Vec<&str> = line.split(',').collect();
        if (40..44).contains(&slot) {
            cells[3] = "";
        }
        if slot >= 280 {
            cells[7] = "NaN";
        }
        cells.join(",")
    });
    let with_gaps: Vec<String> = std::iter::once(header.to_owned()).chain(with_gaps).collect();
    fs::write(folder.path().join("gaps.csv"), with_gaps.join("\n")).unwrap();
    let asked = ["--slot-seconds", "900", "--only", "error,filtering", "--range", "0..5000"];
    let study =
        |file: &str| succeed(meter_sim(folder.path()).args(["study", "--out", &file[..4], "--csv", file]).args(asked));
    study("homes.csv");
    insta::assert_snapshot!(study("gaps.csv"));
    let raw = |of: &str| column(&folder.path().join(of).join("filtering_last_week.csv"), "error_raw")[0];
    let (whole, gaps) = (raw("home"), raw("gaps"));
    assert!((gaps / whole - 1.0).abs() < 0.05 && gaps != whole, "{gaps} {whole}: one of forty is silent now and then");
}

/// Settings change what they should, by as much as they should.
#[test]
fn settings_change_the_noise_as_theory_says() {
    let noise = |settings: &[&str]| {
        let folder = study(&[&["--homes", "100", "--only", "error"], settings].concat());
        // The last rows are of a constant range.
        *column(&folder.path().join("error.csv"), "noise_alone").last().unwrap()
    };
    let usual = noise(&[]);
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-5;
    assert!(near(noise(&["--epsilon", "0.25"]), 4.0 * usual));
    assert!(near(noise(&["--range", "-5000..10000"]), 15.0 / 8.0 * usual));
    // The last alpha is 0.5; at 0.8, noise is made of the shares of a fifth: 2 / B(1/2, 5) instead of 1.5.
    assert!(near(noise(&["--alpha", "0.8"]), 2.460_937_5 / 1.5 * usual));
}

#[test]
fn a_size_that_is_asked_for_is_the_one_that_is_looked_at() {
    let folder = study(&["--homes", "100", "--size", "45", "--only", "error,day", "--day-epsilon", "20"]);
    assert!(column(&folder.path().join("error.csv"), "homes").contains(&45.0));
    let day = folder.path().join("day.csv");
    assert!(column(&day, "homes").iter().all(|homes| *homes == 45.0));
    assert!(column(&day, "epsilon_of_a_day").iter().all(|day| *day == 20.0));
    assert_eq!(column(&day, "seed").iter().filter(|seed| **seed == 2.0).count(), 6, "both kinds, three times of a day");
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
        &["--out", "o", "--homes", "100", "--size", "101"],
        &["--out", "o", "--csv", "ten.csv", "--size", "11"],
        &["--out", "o", "--range", "5000"],
        &["--out", "o", "--range", "100..5000"],
        &["--out", "o", "--epsilon", "0"],
        &["--out", "o", "--day-epsilon", "none"],
        &["--out", "o", "--alpha", "1"],
        &["--out", "o", "--csv", "ten.csv", "--pv", "0.5"],
        &["--out", "o", "--homes", "100", "--day-epsilon", "4", "--only", "error,audit"],
        &["--out", "weak", "--homes", "120", "--alpha", "0.05", "--only", "day"],
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

/// The numbers of a column.
fn column(table: &Path, name: &str) -> Vec<f64> {
    let csv = fs::read_to_string(table).unwrap();
    let mut lines = csv.lines();
    let at = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
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
        let curves = svg.matches("stroke-width=\"2\"").count() + svg.matches("class=\"point\"").count();
        assert!(curves >= 2 && svg.contains("<text") && svg.ends_with("</svg>\n"), "{}", path.display());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", path.display());
    }
}
