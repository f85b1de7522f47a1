//! The files of a study, the page that links them, and the summary that is printed.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::section::Section;
use super::svg::escaped;

/// A part that was computed.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) section: Section,
}

/// The folder that files are written to. Files of the same names are replaced, others left alone.
#[derive(Debug)]
pub(super) struct Output<'a>(&'a Path);

impl<'a> Output<'a> {
    /// A folder that cannot be used is an error before the work, not after.
    pub(super) fn to(folder: &'a Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("--out: cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("--out: cannot write {}", path.display()))
    }

    /// Writes all tables and figures of a part.
    pub(super) fn write(&self, section: &Section) -> anyhow::Result<()> {
        for table in &section.tables {
            self.put(&format!("{}.csv", table.name), table.csv()?)?;
        }
        for figure in &section.figures {
            self.put(&format!("{}.svg", figure.name), figure.svg())?;
            self.put(&format!("{}.csv", figure.name), figure.csv()?)?;
        }
        Ok(())
    }

    /// Writes the page that shows every finding and figure and links every table.
    pub(super) fn index(&self, parts: &[Done], notes: &[String]) -> anyhow::Result<()> {
        self.put("index.html", page(parts, notes).context("cannot write a page")?)
    }
}

fn page(parts: &[Done], notes: &[String]) -> Result<String, std::fmt::Error> {
    let mut html = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Study</title>\n\
                    <style>body { font: 16px/1.5 sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem } \
                    img { max-width: 100% }</style>\n<h1>Study</h1>\n"
        .to_owned();
    for note in notes {
        writeln!(html, "<p>{}</p>", escaped(note))?;
    }
    for Done { name, title, section } in parts {
        writeln!(html, "<h2 id=\"{name}\">{}</h2>\n<p>{}</p>", escaped(title), escaped(&section.finding))?;
        let tables: Vec<String> =
            section.tables.iter().map(|table| format!("<a href=\"{0}.csv\">{0}.csv</a>", table.name)).collect();
        if !tables.is_empty() {
            writeln!(html, "<p>Tables: {}</p>", tables.join(", "))?;
        }
        for figure in &section.figures {
            let (name, title) = (figure.name, escaped(&figure.title));
            writeln!(html, "<figure><img src=\"{name}.svg\" alt=\"{title}\">")?;
            writeln!(html, "<figcaption>{title} (<a href=\"{name}.csv\">points</a>)</figcaption></figure>")?;
        }
    }
    Ok(html)
}

/// Prints what was found, and where the files are.
#[expect(clippy::print_stdout, reason = "the command's answer")]
pub(super) fn summary(folder: &Path, parts: &[Done], notes: &[String]) {
    notes.iter().for_each(|note| println!("{note}"));
    for Done { name, section, .. } in parts.iter().filter(|part| !part.section.finding.is_empty()) {
        println!("{name:12}{}", section.finding);
    }
    let tables: usize = parts.iter().map(|part| part.section.tables.len()).sum();
    let figures: usize = parts.iter().map(|part| part.section.figures.len()).sum();
    println!("Wrote {tables} tables and {figures} figures; see {}.", folder.join("index.html").display());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{Axis, Figure, Stroke, Table};

    #[test]
    fn the_page_links_every_table_and_shows_every_figure() {
        let figure = Figure::new("b", "x < y", (Axis::linear(""), Axis::linear("")), [Stroke::Solid.through("", [])]);
        let section = Section::new([Table::new("a", "one", [])], [figure]).finding("1 & 2".to_owned());
        let part = Done { name: "error".to_owned(), title: "Error".to_owned(), section };
        let page = page(&[part], &["A note".to_owned()]).unwrap();
        for text in ["href=\"a.csv\"", "src=\"b.svg\"", "href=\"b.csv\"", "x &lt; y", "1 &amp; 2", "<p>A note</p>"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
