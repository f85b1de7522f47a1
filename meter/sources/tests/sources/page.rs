//! The page for the owner of a home is true: what it shows is sound, and it names every preset.

use dream_sources::mqtt::preset::Preset;
use dream_sources::{Source, SourceConfig};

const PAGE: &str = include_str!("../../../../docs/meter-sources.md");

#[derive(serde::Deserialize)]
struct File {
    source: SourceConfig,
}

#[test]
fn every_example_of_the_page_is_a_sound_configuration() {
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 7);
    for example in examples {
        let file: File = toml::from_str(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        Source::new(file.source).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}

#[test]
fn every_preset_has_a_row() {
    for preset in Preset::ALL {
        assert!(PAGE.contains(&format!("\n| `{}` |", preset.name())), "{}", preset.name());
    }
}
