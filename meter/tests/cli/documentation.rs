//! The owner's guide says what the program does.

use std::path::Path;

use dream_meter::config::meaning;
use dream_protocol::policy::Profile;

fn guide() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/meter.md")).unwrap()
}

#[test]
fn the_guide_explains_each_profile_as_the_program_does() {
    for profile in Profile::ALL {
        let (name, words) = meaning(profile).split_once(": ").unwrap();
        assert!(guide().contains(&format!("| `{name}` | {words} |")), "{name}");
    }
}

#[test]
fn the_guide_has_every_key_of_the_configuration() {
    let file = include_str!("../../src/config/file.rs");
    let keys = file.lines().filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split_once(": "));
    let guide = guide();
    // Sections stand before a dot, and `broker` is the part that two of them share.
    let sections = ["identity", "community", "policy", "source", "home", "state", "http", "clock", "log", "broker"];
    let keys: Vec<&str> = keys.map(|(key, _)| key).filter(|key| !sections.contains(key)).collect();
    assert!(keys.len() > 15, "{keys:?}");
    for key in keys {
        assert!(guide.contains(&format!(".{key}`")) || guide.contains(&format!("`{key}`")), "{key}");
    }
}
