//! Tells whether the compiler can be trusted with the profile at hand.
//!
//! rustc 1.95 miscompiles some closures (rust-lang/rust#155241): one that changes an array which it took by value, and that
//! is called twice with equal arguments, sees in its second call what the first one changed. It happens wherever the
//! optimiser runs before such a closure is inlined: at the levels 1, `s` and `z`, and in incremental builds at 2 and 3 too.
//! No crate here has such a closure, but a maker cannot know what else was compiled wrongly. So this test contains one. All
//! packages are built to ship with one profile and none has settings of its own, so that the suite `release` runs this for all.

use std::fs;
use std::hint::black_box;
use std::path::Path;

#[test]
fn the_compiler_keeps_the_arguments_of_closures_apart() {
    let flip = |mut bytes: [u8; 32]| {
        bytes[0] ^= 1;
        bytes
    };
    let seven = [7; 32];
    let (first, second) = (flip(seven), flip(seven));
    assert_eq!(
        black_box(first),
        black_box(second),
        "The compiler is broken with this profile: a closure that was called twice with the same array gave two results, \
         because the second call saw what the first one had changed (rust-lang/rust#155241). Nothing that was compiled like \
         this can be trusted, meters least of all. rustc 1.95 does this at opt-level 1, \"s\" and \"z\", and with \
         `incremental = true` also at 2 and 3: build with opt-level 2 or 3 and `incremental = false`, or with another version \
         of rustc, and run this test again with the very profile that you ship."
    );
}

#[test]
fn no_profile_asks_for_a_level_at_which_the_compiler_is_broken() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("Cargo.toml"));
    let manifests = manifests.filter_map(|path| fs::read_to_string(path).ok());
    let workspace = manifests.into_iter().find(|text| text.contains("[workspace]")).expect("the workspace's manifest");
    let settings = |key: &str| {
        let lines = workspace.lines().filter_map(|line| line.split('#').next()?.split_once(key));
        lines.filter_map(|(_, value)| value.trim().strip_prefix('=')).map(|value| value.trim().to_owned()).collect()
    };
    let levels: Vec<String> = settings("opt-level");
    assert!(!levels.is_empty(), "nothing was read");
    let sound = |level: &&String| level.starts_with(['0', '2', '3']);
    assert_eq!(levels.iter().find(|level| !sound(level)), None, "of all profiles and packages");
    assert!(!workspace.contains("[profile.release.package"), "every program ships as the canary is built");
    assert_eq!(settings("incremental").iter().find(|value| !value.starts_with("false")), None::<&String>);
}
