//! The page, and the commands in it.

use std::collections::BTreeMap;
use std::path::Path;

/// Fenced commands, and the host that they are for, if the page tells hosts apart.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    pub(super) host: String,
    pub(super) commands: String,
}

pub(super) struct Page {
    /// What every procedure may use.
    pub(super) preamble: String,
    procedures: BTreeMap<String, Vec<Block>>,
}

impl Page {
    pub(super) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/day-two.md");
        let text = std::fs::read_to_string(path).unwrap();
        let mut sections = text.split("\n## ");
        let preamble = blocks(sections.next().unwrap()).into_iter().map(|block| block.commands).collect();
        let procedures = sections.map(|section| {
            let (title, text) = section.split_once('\n').unwrap();
            (title.to_owned(), blocks(text))
        });
        Self { preamble, procedures: procedures.collect() }
    }

    pub(super) fn titles(&self) -> impl Iterator<Item = &str> {
        self.procedures.keys().map(String::as_str)
    }

    /// The commands of the procedure with this title.
    pub(super) fn blocks(&self, title: &str) -> Vec<Block> {
        let found = self.procedures.get(title).unwrap_or_else(|| panic!("the page has no section `{title}`"));
        assert!(!found.is_empty(), "`{title}` has no commands");
        found.clone()
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut found, mut open) = (Vec::new(), None::<Block>);
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                let host = kind.strip_prefix("sh").unwrap_or_else(|| panic!("commands are `sh`, not `{kind}`"));
                open = Some(Block { host: host.trim().to_owned(), commands: String::new() });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => block.commands += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block of commands does not end");
    found
}
