//! Keeps the rooms of this crate apart: each module imports only what its row of the table allows.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules with what they may import from this crate, most specific first. Everything may use `clock`, and itself.
const MAY_IMPORT: [(&str, &[&str]); 13] = [
    ("clock", &[]),
    ("config", &[]),
    ("logging", &["config"]),
    ("history", &[]),
    ("board", &["config", "history"]),
    ("store", &["config", "history"]),
    ("metrics", &["board", "history"]),
    ("http", &["config", "board", "history"]),
    ("engine/mqtt", &["config", "engine::transport", "store"]),
    ("engine", &["config", "history", "board", "store", "metrics"]),
    ("remote_write", &["config", "history", "board", "store", "metrics"]),
    (
        "daemon",
        &[
            "config",
            "logging",
            "history",
            "board",
            "store",
            "metrics",
            "http",
            "engine",
            "remote_write",
            "cmd::ConfigArgs",
        ],
    ),
    ("cmd", &["config", "logging", "history", "board", "store", "daemon", "engine::mqtt", "engine::rights"]),
];

/// Returns all source files below a folder, with their paths from there.
fn sources(root: &Path, folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let within = path.strip_prefix(root).unwrap().with_extension("");
            found.push((within, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns what a source names of this crate, outside of comments.
fn named(source: &str) -> impl Iterator<Item = &str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        rest[..end].trim_end_matches(':')
    })
}

/// Returns whether a name is one of these modules, or in one of them.
fn is_in(name: &str, modules: &[&str]) -> bool {
    let within =
        |module: &&str| name.strip_prefix(*module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    modules.iter().any(within)
}

#[test]
fn no_room_imports_one_that_it_must_not_know() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &root, &mut all);
    all.retain(|(path, _)| !["lib", "main", "rooms"].iter().any(|own| path == Path::new(own)));
    let (mut broken, mut names) = (Vec::new(), 0);
    for (path, source) in &all {
        let row = MAY_IMPORT.iter().find(|(module, _)| path.starts_with(module));
        let (module, allowed) = row.unwrap_or_else(|| panic!("{} has no row in the table", path.display()));
        let own = module.replace('/', "::");
        for name in named(source) {
            names += 1;
            if !is_in(name, &["clock", &own]) && !is_in(name, allowed) {
                broken.push(format!("{}: crate::{name}", path.display()));
            }
        }
    }
    assert!(names > 200, "{names} imports were found: is this still how they are written?");
    assert_eq!(broken, [""; 0]);
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let source = "//! crate::cmd\nuse crate::board::{self, Board};\n    /// crate::cmd\n    let x = crate::http::page(crate::clock);";
    assert_eq!(named(source).collect::<Vec<_>>(), ["board", "http::page", "clock"]);
    assert!(is_in("engine::transport::Session", &["engine::transport"]) && !is_in("engineer", &["engine"]));
}
