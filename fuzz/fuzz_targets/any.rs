//! The target that `DREAM_FUZZ_TARGET` names. One program for all: they share all that is slow to build.
#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("DREAM_FUZZ_TARGET").unwrap_or_default();
        let Some((_, target)) = dream_fuzz::TARGETS.iter().find(|(known, _)| *known == name) else {
            eprintln!("DREAM_FUZZ_TARGET is `{name}`; use one of:");
            dream_fuzz::TARGETS.iter().for_each(|(known, _)| println!("{known}"));
            std::process::exit(2);
        };
        TARGET.get_or_init(|| *target);
    },
    |data: &[u8]| TARGET.get().expect("it is set before the first run")(data)
);
