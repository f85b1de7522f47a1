//! The documentation of the configuration says everything there is, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use dream_gateway::config::file::{File, OVERRIDABLE, variable};
use dream_gateway::config::{Config, Overrides};

const TABLES: [&str; 8] = ["", "identity", "broker", "store", "http", "log", "home_assistant", "defaults"];

fn docs(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// The keys of a table, asked from the parser: it lists them when it meets one that it does not know.
fn keys(table: &str) -> BTreeSet<String> {
    let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    let error = toml::from_str::<File>(&format!("{header}nothing = 1")).unwrap_err().to_string();
    let (_, listed) = error.split_once("expected ").unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every key, as the documentation names it: with its table, but for those of clusters.
fn all_keys() -> BTreeSet<String> {
    let of_table = |table: &&str| {
        let prefix = if table.is_empty() || *table == "defaults" { String::new() } else { format!("{table}.") };
        keys(table).into_iter().map(move |key| format!("{prefix}{key}")).collect::<Vec<_>>()
    };
    let tables: BTreeSet<String> = TABLES.iter().copied().chain(["clusters", "groups"]).map(str::to_owned).collect();
    let of_groups = keys("groups.region").into_iter().map(|key| format!("groups.NAME.{key}"));
    TABLES.iter().flat_map(of_table).filter(|key| !tables.contains(key)).chain(of_groups).collect()
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let text = docs("configuration.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(key, _)| key.to_owned()).collect();
    assert_eq!(documented, all_keys());
}

#[test]
fn a_cluster_has_the_keys_of_the_defaults() {
    assert_eq!(keys("clusters.north"), keys("defaults"));
}

#[test]
fn every_variable_is_documented() {
    let text = docs("configuration.md");
    let all = all_keys();
    for key in OVERRIDABLE {
        assert!(all.contains(key), "{key}");
        assert!(text.contains(&format!("`{}`", variable(key))), "{}", variable(key));
    }
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
    let shown =
        ["urls", "attempts", "day_epsilon", "username", "password_file", "operator_listen", "allow_file", "deny_file"];
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
