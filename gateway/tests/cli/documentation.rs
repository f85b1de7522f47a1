//! The documentation of the configuration says everything there is, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use dream_gateway::config::{Config, Overrides, keys};

use crate::command::command;

fn docs(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// Every key, as the documentation names it: with its table, but for those of clusters.
fn all_keys() -> BTreeSet<String> {
    let sections = [
        "identity",
        "broker",
        "store",
        "http",
        "http.proxy",
        "log",
        "home_assistant",
        "remote_write",
        "defaults",
        "clusters",
        "groups",
    ];
    let shown = keys().0.into_iter().filter(|key| !sections.contains(&key.as_str()));
    let shown: BTreeSet<_> =
        shown.map(|key| key.trim_start_matches("clusters.NAME.").trim_start_matches("defaults.").to_owned()).collect();
    assert!(shown.len() > 45, "{shown:?}");
    shown
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let text = docs("configuration.md");
    // A row may be of several keys.
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let documented = rows.flat_map(|(keys, _)| keys.trim_end_matches('`').split("`, `").map(str::to_owned));
    let documented: BTreeSet<String> = documented.collect();
    assert_eq!(documented, all_keys());
}

#[test]
fn a_cluster_has_the_keys_of_the_defaults() {
    let of = |prefix: &str| -> BTreeSet<String> {
        keys().0.iter().filter_map(|key| Some(key.strip_prefix(prefix)?.to_owned())).collect()
    };
    assert_eq!(of("clusters.NAME."), of("defaults."));
}

#[test]
fn every_variable_is_documented() {
    let text = docs("configuration.md");
    let (_, line) = text.split_once("These variables replace a key of the file: ").unwrap();
    let (line, _) = line.split_once(". `DREAM_CONFIG`").unwrap();
    let documented: BTreeSet<&str> = line.split('`').skip(1).step_by(2).collect();
    let there = keys().1;
    assert_eq!(documented, there.iter().map(String::as_str).collect());
}

#[test]
fn the_example_shows_every_key_and_its_comments_show_the_defaults() {
    let dir = tempfile::TempDir::new().unwrap();
    let example = docs("gateway.example.toml");
    let load = |text: &str| {
        let path = dir.path().join("gateway.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path, &Overrides::default()).unwrap()
    };
    // These have no default to show, or one that follows from the scheme or from other keys of a cluster.
    // What a database needs has no effect on a file.
    let shown = [
        "urls",
        "attempts",
        "day_epsilon",
        "username",
        "password_file",
        "tls_certificate",
        "tls_key",
        "access_file",
        "open",
        "addresses",
        "user_header",
        "groups_header",
        "operator_groups",
        "viewer_groups",
        "allow_file",
        "deny_file",
        "cut_off_file",
        "url",
        "ca",
        "keys",
        "lease_seconds",
        "bearer_token_file",
        "labels",
    ];
    let uncomment = |line: &str| {
        let key = |rest: &str| rest.split_once(" = ").map(|(key, _)| key.to_owned()).filter(|key| !key.contains(' '));
        let default =
            line.strip_prefix("# ").filter(|rest| key(rest).is_some_and(|key| !shown.contains(&key.as_str())));
        default.unwrap_or(line).to_owned()
    };
    let uncommented: Vec<String> = example.lines().map(uncomment).collect();
    assert_eq!(load(&example), load(&uncommented.join("\n")));
    for key in all_keys() {
        let name = key.split('.').next_back().unwrap();
        assert!(example.contains(&format!("{name} = ")), "the example does not show `{key}`");
    }
}

/// Returns the titles of a page's sections, with what is in each.
fn sections(page: &str) -> Vec<(&str, &str)> {
    page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect()
}

#[test]
fn every_symptom_has_what_is_seen_and_a_command_that_shows_it() {
    let page = docs("runbooks.md");
    let all = sections(&page);
    assert!(all.len() > 10, "{}", all.len());
    for (title, text) in &all {
        let shows = text.split("```sh\n").nth(1).is_some_and(|command| command.contains("dream-gateway "));
        assert!(text.contains("**You see** ") && (shows || text.contains("curl ")), "{title}");
        let anchor = title.to_lowercase().replace(' ', "-");
        assert!(page.contains(&format!("[{title}](#{anchor})")), "the table of symptoms does not lead to {title}");
    }
}

#[test]
fn the_commands_in_runbooks_exist() {
    let page = docs("runbooks.md");
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| line.starts_with("dream-gateway ")).collect();
    assert!(lines.len() > 15, "{lines:?}");
    for line in lines {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().skip(1).collect();
        let help = command(Path::new(".")).args([words[0], "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "{line}: {flag} is not in the help");
        }
    }
}

#[test]
fn what_the_doctor_points_to_is_there() {
    let (runbooks, operations) = (docs("runbooks.md"), docs("operations.md"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cmd/doctor");
    let mut pointers = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (page, text) in [("runbooks.md", &runbooks), ("operations.md", &operations)] {
            for before in source.rsplit(&format!("\\\" in {page}")).skip(1) {
                let title = before.rsplit("see \\\"").next().unwrap();
                assert!(text.contains(&format!("\n## {title}\n")), "{page} has no section `{title}`");
                pointers += 1;
            }
        }
    }
    assert!(pointers > 5, "{pointers}");
}
