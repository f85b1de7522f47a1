//! Sections that commands write into the owner's file, which is left alone otherwise.

use thiserror::Error;

/// Why nothing was written.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("`[{section}]` is already in the file; remove it first")]
pub struct SectionExists {
    section: String,
}

/// Adds sections to a file's text. `sections` is TOML that begins each of them with its own line.
pub fn add(text: &str, sections: &str) -> Result<String, SectionExists> {
    for section in sections.lines().filter_map(header) {
        if text.lines().filter_map(header).any(|found| found == section) {
            return Err(SectionExists { section: section.to_owned() });
        }
    }
    let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
    Ok(format!("{text}{gap}{sections}"))
}

fn header(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.split(']').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_once_and_the_rest_is_left_alone() {
        let before = "# mine\n[policy]\nprofile = \"strict\"\n";
        let after = add(before, "[source]\nkind = \"lines\"\n").unwrap();
        assert_eq!(after, "# mine\n[policy]\nprofile = \"strict\"\n\n[source]\nkind = \"lines\"\n");
        let again = add(&after, "[source]\nkind = \"p1\"\n").unwrap_err();
        assert_eq!(again.to_string(), "`[source]` is already in the file; remove it first");
        assert_eq!(add("", "[source]\n").unwrap(), "[source]\n");
    }
}
