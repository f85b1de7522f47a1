//! The page for the owner of a home is true: what it shows is sound, and it names every preset.

use std::path::Path;

use dream_edge::config::{Section, Variables, read_text};
use dream_sources::Source;
use dream_sources::mqtt::preset::Preset;

const PAGE: &str = include_str!("../../../../docs/meter-sources.md");

#[test]
fn every_example_of_the_page_is_a_sound_configuration() {
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 7);
    for example in examples {
        let read = |root: &Section<'_>| Source::read(&root.section("source"));
        let (source, report) = read_text(Path::new("page"), example, &Variables::default(), read);
        report.finish(source.flatten()).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}

#[test]
fn every_preset_has_a_row() {
    for preset in Preset::ALL {
        assert!(PAGE.contains(&format!("\n| `{}` |", preset.name())), "{}", preset.name());
    }
}
