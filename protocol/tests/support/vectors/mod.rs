//! How each vector file is made. The files are described in `tests/vectors/README.md`.
#![allow(unreachable_pub, reason = "a module of one test")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod broken;
pub mod cluster;
pub mod credentials;
pub mod json;
pub mod keys;
pub mod messages;
pub mod numbers;
pub mod scene;

use std::path::PathBuf;

use json::Json;

/// Whether the files are to be rewritten.
pub fn blessing() -> bool {
    std::env::var_os("DREAM_BLESS").is_some()
}

pub fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_default()
}

/// Compares what the crate gives with a file, or rewrites the file.
pub fn check(name: &str, vector: &Json) {
    let text = json::render(vector);
    if blessing() {
        std::fs::write(path(name), text).unwrap();
        return;
    }
    let known = read(name);
    let differs = known.lines().zip(text.lines()).find(|(known, made)| known != made);
    if let Some((known, made)) = differs {
        panic!("{name} says\n{known}\nbut the crate gives\n{made}\nIf that is right, bless it: DREAM_BLESS=1");
    }
    assert_eq!(known.len(), text.len(), "{name} is not complete; bless it: DREAM_BLESS=1");
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", name].iter().collect()
}
