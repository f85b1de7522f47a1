//! Every promise names its test: threat-model.md and protocol.md lead from a sentence that promises something, by a footnote, to
//! the test that fails if it is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Footnotes of a page that say why there is no test.
const BY_HAND: &str = "no-test";

struct Page {
    name: &'static str,
    /// What comes before the tests.
    text: String,
    /// By label: what the footnote says.
    notes: BTreeMap<String, String>,
}

#[test]
fn every_footnote_leads_to_tests_that_exist() {
    for page in pages() {
        let used: BTreeSet<String> = labels(&page.text).collect();
        let stated: BTreeSet<String> = page.notes.keys().cloned().collect();
        assert_eq!(used, stated, "{}: every footnote is used, and every use has one", page.name);
        for (label, note) in page.notes.iter().filter(|(label, _)| !label.starts_with(BY_HAND)) {
            let tests = tests(note);
            assert!(!tests.is_empty(), "{}: {label} names no test", page.name);
            for (test, file) in tests {
                let source = std::fs::read_to_string(docs().join(&file))
                    .unwrap_or_else(|error| panic!("{label}: {file}: {error}"));
                assert!(is_test(&source, &test), "{}: {label}: {file} has no test {test}", page.name);
            }
        }
    }
}

#[test]
fn every_attack_that_is_stopped_names_its_test() {
    let page = page("threat-model.md");
    let (_, attacks) = page.text.split_once("## Attacks on privacy").unwrap();
    let (attacks, _) = attacks.split_once("## What is not protected").unwrap();
    let rows = attacks.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Attack"));
    let (mut tested, mut open) = (0, 0);
    for row in rows {
        if labels(row).next().is_some() {
            tested += 1;
        } else {
            assert!(row.contains("**not stopped**") || row.contains("**remains**"), "no test is named: {row}");
            open += 1;
        }
    }
    assert!(tested > 80 && open < 5, "{tested} {open}");
}

#[test]
fn every_rule_for_meters_names_its_test() {
    let page = page("protocol.md");
    let rules: Vec<String> = blocks(&page.text).into_iter().filter(|block| block.contains("MUST")).collect();
    assert!(rules.len() > 40, "{}", rules.len());
    for rule in rules {
        let defines_the_word = rule.contains("MUST, MUST NOT, SHOULD and MAY");
        assert!(defines_the_word || labels(&rule).next().is_some(), "docs/protocol.md: no test is named: {rule}");
    }
}

#[test]
fn a_helper_or_a_name_in_a_comment_is_no_test() {
    let source = "#[test]\n#[cfg(unix)]\nfn one() {}\n// fn two()\nfn three() {}\non_both! {\n    four,\n}\nasync fn four() {}\n";
    assert_eq!(
        ["one", "two", "three", "four", "on"].map(|name| is_test(source, name)),
        [true, false, false, true, false]
    );
}

fn pages() -> [Page; 2] {
    ["threat-model.md", "protocol.md"].map(page)
}

fn page(name: &'static str) -> Page {
    let whole = std::fs::read_to_string(docs().join(name)).unwrap();
    let (text, notes) = whole.split_once("\n## Tests\n").unwrap();
    let notes = notes.lines().filter_map(|line| line.strip_prefix("[^")?.split_once("]: "));
    let notes = notes.map(|(label, note)| (label.to_owned(), note.to_owned())).collect();
    Page { name, text: text.to_owned(), notes }
}

/// The labels of footnotes that a text refers to.
fn labels(text: &str) -> impl Iterator<Item = String> {
    text.split("[^").skip(1).filter_map(|rest| rest.split_once(']')).map(|(label, _)| label.to_owned())
}

/// The tests that a footnote links to, and the files they are in: `[`name`](file)`.
fn tests(note: &str) -> Vec<(String, String)> {
    let links = note.split("[`").skip(1).filter_map(|rest| rest.split_once("`]("));
    links.filter_map(|(name, rest)| Some((name.to_owned(), rest.split_once(')')?.0.to_owned()))).collect()
}

/// Whether a source has a test of this name: marked as one, in a proptest, or in a list of tests that a macro makes.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let listed = format!("{name},");
    lines.iter().enumerate().any(|(at, line)| {
        let marks = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let marked = marks.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
        !line.starts_with("//") && line.contains(&head) && (marked || lines.contains(&listed.as_str()))
    })
}

/// Paragraphs, items and rows, each as one.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.lines() {
        let item = line.trim_start();
        let numbered = item
            .split_once(". ")
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        let begins =
            item.is_empty() || item.starts_with("- ") || item.starts_with('|') || item.starts_with('#') || numbered;
        match blocks.last_mut() {
            Some(block) if !begins => *block += &format!(" {item}"),
            _ => blocks.push(item.to_owned()),
        }
    }
    blocks
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}
