//! The owner's guide says what the program does.

use std::path::Path;

use dream_meter::config::{keys, meaning};
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
    let (guide, keys) = (guide(), keys());
    let keys: Vec<&str> = keys.iter().filter_map(|key| key.split('.').nth(1)).collect();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(guide.contains(&format!(".{key}`")) || guide.contains(&format!("`{key}`")), "{key}");
    }
}
