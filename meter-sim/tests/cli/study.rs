//! `meter-sim study` as a user sees it: what it writes, what a browser makes of it, and what it says to mistakes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dream_testkit::lab::browser::Browser;
use dream_testkit::lab::command::{seen, succeed};
use tempfile::TempDir;

use super::meter_sim;

/// All but the audit, of a hundred homes; all of it, of as many homes as `DREAM_STUDY_HOMES` says, where `make long` sets that.
#[test]
fn the_whole_study_opens_in_a_browser_and_its_files_are_documented() {
    let but_the_audit =
        "error,utility,clipping,filtering,partners,share,windows,presence,activation,composition,shortfall";
    let folder = match std::env::var("DREAM_STUDY_HOMES") {
        Ok(homes) => study(&["--homes", &homes]),
        Err(_) => study(&["--homes", "100", "--only", but_the_audit]),
    };
    let headers = csv_headers(folder.path());
    assert!(headers.len() > 20, "{headers:?}");
    assert_documented(&headers);
    look_at(&folder.path().join("report.html"));
}

#[test]
fn a_file_of_ones_own_gives_what_it_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let trace = ["trace", "--homes", "40", "--days", "3", "--slot-seconds", "900", "--out", "homes.csv"];
    succeed(meter_sim(folder.path()).args(trace));
    let parts = "error,windows,presence,activation,filtering,clipping";
    let asked = ["study", "--csv", "homes.csv", "--slot-seconds", "900", "--out", "ours", "--only", parts];
    insta::assert_snapshot!(succeed(meter_sim(folder.path()).args(asked)));
    let report = fs::read_to_string(folder.path().join("ours/report.html")).unwrap();
    assert!(report.contains("40 homes of homes.csv"));
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

/// What does not depend on homes is in docs/study.md word for word: when the code says something else, so must the page.
#[test]
fn the_documentation_says_what_the_study_says() {
    let folder = study(&["--homes", "100", "--only", "partners,shortfall,composition"]);
    let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
    let page = documentation();
    let tables: Vec<&str> = report.split("\n\n").filter(|block| block.starts_with('|')).collect();
    assert!(tables.len() >= 5, "{report}");
    for table in tables {
        assert!(
            page.contains(table.trim_end()),
            "docs/study.md lacks this table; `make study` puts it there:\n{table}"
        );
    }
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

/// Opens the report wide and narrow: no errors, no empty drawing, nothing wider than the screen.
fn look_at(report: &Path) {
    let browser = Browser::start();
    for width in [1280, 320] {
        browser.resize(width, 900);
        browser.go(&format!("file://{}", report.display()));
        assert_eq!(browser.console_errors(), Vec::<serde_json::Value>::new());
        browser.wait_for("document.readyState === 'complete'");
        let drawings = "document.querySelectorAll('figure svg')";
        assert_ne!(browser.text(&format!("{drawings}.length")), "0");
        let empty =
            format!("[...{drawings}].filter(svg => svg.querySelectorAll('polyline, circle').length < 3).length");
        assert_eq!(browser.text(&empty), "0");
        assert_eq!(
            browser.text("document.querySelectorAll('nav a').length"),
            browser.text("document.querySelectorAll('section').length")
        );
        let beyond = "[...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.hash)).length";
        assert_eq!(browser.text(beyond), "0", "links lead somewhere");
        assert_eq!(browser.text("document.documentElement.scrollWidth <= innerWidth"), "true", "at {width} px");
    }
}
