//! The report: one page that needs nothing but itself, the same in Markdown, and the numbers as files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::section::{Block, Cell, Figure, Section, Table};

/// All that was found.
#[derive(Debug)]
pub(super) struct Report {
    /// Whose loads these are.
    pub(super) about: String,
    /// Sections by the names of their parts.
    pub(super) sections: Vec<(&'static str, Section)>,
    /// What could not be done, and why.
    pub(super) left_out: Vec<String>,
}

const STYLE: &str = include_str!("data/report.css");

impl Report {
    /// Writes the report, the figures and the tables into a folder that is there. Files of the same names are replaced, others left alone.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).with_context(|| format!("--out: cannot write {}", path.display()))
        };
        let mut names = BTreeSet::new();
        for block in self.sections.iter().flat_map(|(_, section)| &section.blocks) {
            debug_assert!(block.file().is_none_or(|name| names.insert(name)), "{:?} is there twice", block.file());
            match block {
                Block::Text(_) => {}
                Block::Table(table) => put(&format!("{}.csv", table.name), table.csv().as_bytes())?,
                Block::Figure(figure) => {
                    put(&format!("{}.svg", figure.name), figure.svg().as_bytes())?;
                    put(&format!("{}.png", figure.name), &figure.png())?;
                    put(&format!("{}.csv", figure.name), figure.csv().as_bytes())?;
                }
            }
        }
        put("report.md", self.markdown().as_bytes())?;
        put("report.html", self.html().as_bytes())
    }

    /// A page without scripts and without anything from elsewhere.
    fn html(&self) -> String {
        let mut page = String::new();
        let mut add = |markup: &str| page.push_str(markup);
        add("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        add("<title>DREAM: what error, what privacy</title>\n<style>\n");
        add(STYLE);
        add("</style>\n<main>\n<h1>DREAM: what error, what privacy</h1>\n");
        add(&format!("<p>{}</p>\n<nav aria-label=\"Contents\"><ol>\n", escaped(&self.about)));
        for (name, section) in &self.sections {
            add(&format!("<li><a href=\"#{name}\">{}</a></li>\n", escaped(section.title)));
        }
        add("</ol></nav>\n");
        for reason in &self.left_out {
            add(&format!("<p class=\"left-out\">{}</p>\n", escaped(reason)));
        }
        for (name, section) in &self.sections {
            add(&format!("<section id=\"{name}\">\n<h2>{}</h2>\n", escaped(section.title)));
            section.blocks.iter().for_each(|block| add(&block.html()));
            add("</section>\n");
        }
        add("</main>\n</html>\n");
        page
    }

    fn markdown(&self) -> String {
        let mut text = format!("# DREAM: what error, what privacy\n\n{}\n", self.about);
        for reason in &self.left_out {
            write!(text, "\n{reason}\n").expect("a String takes everything");
        }
        for (_, section) in &self.sections {
            write!(text, "\n## {}\n", section.title).expect("a String takes everything");
            section.blocks.iter().for_each(|block| text.push_str(&block.markdown()));
        }
        text
    }
}

impl Block {
    /// The name of its files, without an ending.
    fn file(&self) -> Option<&'static str> {
        match self {
            Self::Text(_) => None,
            Self::Table(table) => Some(table.name),
            Self::Figure(figure) => Some(figure.name),
        }
    }

    fn html(&self) -> String {
        match self {
            Self::Text(text) => format!("<p>{}</p>\n", escaped(text)),
            Self::Table(table) => table.html(),
            Self::Figure(figure) => figure.html(),
        }
    }

    fn markdown(&self) -> String {
        match self {
            Self::Text(text) => format!("\n{text}\n"),
            Self::Table(table) => table.markdown(),
            Self::Figure(figure) => format!("\n![{}]({}.svg)\n", figure.caption, figure.name),
        }
    }
}

impl Table {
    fn csv(&self) -> String {
        let mut csv = self.header.join(",") + "\n";
        for row in &self.rows {
            debug_assert_eq!(row.len(), self.header.len(), "{}", self.name);
            csv += &row.iter().map(|cell| quoted(&cell.csv())).collect::<Vec<_>>().join(",");
            csv.push('\n');
        }
        csv
    }

    fn html(&self) -> String {
        let link = format!("<a href=\"{}.csv\">{}.csv</a>", self.name, self.name);
        if !self.shown {
            return format!(
                "<p class=\"file\">{} <span>({} rows: {link})</span></p>\n",
                escaped(&self.caption),
                self.rows.len()
            );
        }
        let mut markup = format!(
            "<div class=\"wide\" tabindex=\"0\"><table>\n<caption>{} ({link})</caption>\n<thead><tr>",
            escaped(&self.caption)
        );
        for name in self.header {
            markup += &format!("<th scope=\"col\">{}</th>", escaped(&name.replace('_', " ")));
        }
        markup += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            let cells = row.iter().map(|cell| {
                let class = if matches!(cell, Cell::Text(_)) { " class=\"text\"" } else { "" };
                format!("<td{class}>{}</td>", escaped(&cell.shown()))
            });
            markup += &format!("<tr>{}</tr>\n", cells.collect::<String>());
        }
        markup + "</tbody></table></div>\n"
    }

    fn markdown(&self) -> String {
        if !self.shown {
            return format!("\n{} ({} rows: `{}.csv`)\n", self.caption, self.rows.len(), self.name);
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("\n{} (`{}.csv`)\n\n", self.caption, self.name);
        text += &line(self.header.iter().map(|name| name.replace('_', " ")).collect());
        let first = self.rows.first();
        let is_text = |column: usize| first.is_some_and(|row| matches!(row[column], Cell::Text(_)));
        text += &line(
            (0..self.header.len()).map(|column| if is_text(column) { "---" } else { "--:" }.to_owned()).collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| cell.shown().replace('|', "\\|")).collect());
        }
        text
    }
}

impl Figure {
    fn csv(&self) -> String {
        let mut csv = "series,x,y\n".to_owned();
        for series in &self.series {
            let label = quoted(&series.label);
            for &(x, y) in &series.points {
                csv += &format!("{label},{},{}\n", Cell::Number(x, 0).csv(), Cell::Number(y, 0).csv());
            }
        }
        csv
    }

    fn html(&self) -> String {
        let (name, caption) = (self.name, escaped(&self.caption));
        let named = format!("<svg role=\"img\" aria-labelledby=\"{name}-caption\" ");
        let svg = self.svg().replacen("<svg ", &named, 1);
        let links = ["svg", "png", "csv"].map(|ending| format!("<a href=\"{name}.{ending}\">{ending}</a>")).join(", ");
        format!("<figure>\n{svg}<figcaption id=\"{name}-caption\">{caption} ({links})</figcaption>\n</figure>\n")
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text with commas goes between quotation marks.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{Axis, Series, Stroke};

    fn report() -> Report {
        let table = |name, shown| Table {
            name,
            caption: "Errors & more".to_owned(),
            header: &["cluster_size", "mean", "kind"],
            rows: vec![
                vec![Cell::Count(10), Cell::Number(0.123_456_7, 3), "a, \"b\"".into()],
                vec![Cell::Count(20), Cell::Empty, "c|d".into()],
            ],
            shown,
        };
        let figure = Figure {
            name: "curve",
            caption: "A < B".to_owned(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series { label: "one, two".to_owned(), points: vec![(1.0, 2.5)], stroke: Stroke::Dots }],
        };
        let blocks = vec![
            Block::Text("Less <is> more.".to_owned()),
            Block::Table(table("few", true)),
            Block::Table(table("many", false)),
            Block::Figure(figure),
        ];
        let sections = vec![("example", Section { title: "Example", blocks })];
        Report { about: "Ten homes.".to_owned(), sections, left_out: vec!["Nothing else.".to_owned()] }
    }

    #[test]
    fn numbers_become_csv() {
        let Block::Table(table) = &report().sections[0].1.blocks[1] else { panic!("the second block is a table") };
        assert_eq!(table.csv(), "cluster_size,mean,kind\n10,0.123457,\"a, \"\"b\"\"\"\n20,,c|d\n");
        let Block::Figure(figure) = &report().sections[0].1.blocks[3] else { panic!("the last block is a figure") };
        assert_eq!(figure.csv(), "series,x,y\n\"one, two\",1,2.5\n");
    }

    #[test]
    fn the_same_is_said_in_markdown() {
        insta::assert_snapshot!(report().markdown());
    }

    #[test]
    fn the_page_escapes_text_and_needs_nothing_from_elsewhere() {
        let page = report().html();
        assert!(page.contains("Less &lt;is&gt; more.") && page.contains("Errors &amp; more"));
        assert!(page.contains("<a href=\"#example\">Example</a>") && page.contains("<section id=\"example\">"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    }

    #[test]
    fn every_block_has_its_files() {
        let folder = tempfile::tempdir().unwrap();
        report().write(folder.path()).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["curve.csv", "curve.png", "curve.svg", "few.csv", "many.csv", "report.html", "report.md"]);
    }
}
