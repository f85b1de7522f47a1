//! Configuration files in TOML: each key is declared where it is read, and every mistake names its file, line and key.
//!
//! [`read`] hands the root of a file to a function that takes [`Key`]s out of [`Section`]s, such as
//! `root.key("replicas").number(1..=1000).unwrap_or(1)`. A key that is wrong is noted and counts as missing, so that one reading
//! finds all mistakes. What nobody asked for is refused as unknown. Values of secrets are never repeated.

mod error;
mod value;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use error::{ConfigError, Place, Problem};
pub use value::{Key, one_of};

/// Environment variables that replace keys of a file.
#[derive(Debug, Clone, Default)]
pub struct Variables<'a> {
    /// What their names start with, such as `DREAM_`.
    pub prefix: &'a str,
    pub values: BTreeMap<String, String>,
}

/// What a reading found out: mistakes, and which keys there are.
#[derive(Debug, Default)]
pub struct Report {
    error: ConfigError,
    /// Where the keys that were read stand, and how they are written there.
    places: BTreeMap<String, (String, Place)>,
    /// Every key that was asked for, with its section.
    pub keys: Vec<String>,
    /// The variables that replace keys.
    pub variables: Vec<String>,
}

impl Report {
    pub fn is_empty(&self) -> bool {
        self.error.problems.is_empty() && self.error.others.is_empty()
    }

    /// Notes a mistake that was found after the reading, where its key stands.
    pub fn wrong(&mut self, key: &str, message: impl Into<String>) {
        let (key, place) = self.places.get(key).cloned().unwrap_or_else(|| (key.to_owned(), Place::File));
        self.error.problems.push(Problem { place, key, message: message.into() });
        self.error.sort();
    }

    /// Adds what is wrong with another file that this one names.
    pub fn include(&mut self, other: ConfigError) {
        self.error.others.push(other);
    }

    /// Returns the value, or everything that is wrong.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, ConfigError> {
        value.filter(|_| self.is_empty()).ok_or(self.error)
    }
}

/// Reads a file. There is no value if it cannot be read or is not TOML.
pub fn read<T>(path: &Path, variables: &Variables<'_>, read: impl FnOnce(&Section<'_>) -> T) -> (Option<T>, Report) {
    match std::fs::read_to_string(path) {
        Ok(text) => read_text(path, &text, variables, read),
        Err(error) => (
            None,
            Report { error: ConfigError::of_file(path, format!("cannot be read: {error}")), ..Report::default() },
        ),
    }
}

/// Reads the text of a file.
pub fn read_text<T>(
    path: &Path,
    text: &str,
    variables: &Variables<'_>,
    read: impl FnOnce(&Section<'_>) -> T,
) -> (Option<T>, Report) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let reader = Reader { text, folder, variables, notes: RefCell::default() };
    let value = if errors.is_empty() {
        let root = Section::open(&reader, String::new(), Some(document.get_ref()), None);
        Some(read(&root))
    } else {
        errors.iter().for_each(|error| reader.syntax(error));
        None
    };
    (value, reader.finish(path))
}

/// A file that is read.
struct Reader<'r> {
    text: &'r str,
    /// Relative paths start here.
    folder: &'r Path,
    variables: &'r Variables<'r>,
    notes: RefCell<Notes<'r>>,
}

#[derive(Default)]
struct Notes<'r> {
    sections: Vec<Opened<'r>>,
    problems: Vec<Problem>,
    /// Keys that must be there and are not.
    missing: Vec<Problem>,
    /// Keys whose absence another mistake explains.
    explained: Vec<String>,
    places: BTreeMap<String, (String, Place)>,
    variables: Vec<String>,
}

/// A section, and what was asked of it.
struct Opened<'r> {
    path: String,
    table: Option<&'r DeTable<'r>>,
    keys: Vec<&'static str>,
    /// Whether its keys are names that the owner chooses.
    is_open: bool,
}

impl<'r> Reader<'r> {
    fn line(&self, at: usize) -> Place {
        Place::Line(1 + self.text.get(..at).unwrap_or(self.text).matches('\n').count())
    }

    fn wrong(&self, key: String, place: Place, message: String) {
        let (mut notes, problem) = (self.notes.borrow_mut(), Problem { place, key, message });
        // A mistake in the defaults is one, however many sections have them.
        if !notes.problems.contains(&problem) {
            notes.problems.push(problem);
        }
    }

    /// Notes what is no TOML, one mistake a line, and not the line itself: somebody may have written a password into it.
    fn syntax(&self, error: &toml::de::Error) {
        let place = error.span().map_or(Place::File, |span| self.line(span.start));
        if self.notes.borrow().problems.last().is_none_or(|last| last.place != place) {
            let column = error.span().and_then(|span| self.text.get(..span.start)).unwrap_or_default();
            let column = column.chars().rev().take_while(|c| *c != '\n').count() + 1;
            let message = match error.message() {
                "duplicate key" => {
                    let key = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
                    format!("duplicate key `{key}`; leave one of them out")
                }
                message => format!("not TOML: {message} (column {column})"),
            };
            self.wrong(String::new(), place, message);
        }
    }

    fn finish(&self, path: &Path) -> Report {
        let mut notes = self.notes.take();
        let sections = std::mem::take(&mut notes.sections);
        for section in sections.iter().filter(|section| !section.is_open) {
            for (key, value) in section.table.into_iter().flatten() {
                if !section.keys.contains(&key.get_ref().as_ref()) {
                    let (message, meant) = section.unknown(key.get_ref(), value.get_ref().is_table());
                    notes.explained.extend(meant.map(|meant| join(&section.path, meant)));
                    let place = self.line(key.span().start);
                    notes.problems.push(Problem { place, key: String::new(), message });
                }
            }
        }
        let is_explained = |key: &str| {
            let mut all = notes.explained.iter();
            all.any(|explained| {
                key.strip_prefix(explained).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        notes.missing.retain(|problem| !is_explained(&problem.key));
        let mut problems = notes.problems;
        problems.append(&mut notes.missing);
        let mut error = ConfigError { others: Vec::new(), file: path.to_owned(), problems };
        error.sort();
        let keys = sections.iter().filter(|section| !section.is_open);
        let keys = keys.flat_map(|section| section.keys.iter().map(|key| join(&section.path, key))).collect();
        Report { error, places: notes.places, keys, variables: notes.variables }
    }
}

impl Opened<'_> {
    /// Says that a key does not exist, and what may be meant.
    fn unknown(&self, key: &str, is_section: bool) -> (String, Option<&'static str>) {
        let (name, what) = (join(&self.path, key), if is_section { "section" } else { "key" });
        let meant = value::nearest(key, self.keys.iter().copied());
        let help = match (meant, self.path.as_str()) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, "") => format!("there are {}", self.keys.join(", ")),
            (None, path) => format!("[{path}] has {}", self.keys.join(", ")),
        };
        (format!("unknown {what} `{name}`; {help}"), meant)
    }
}

/// A table of a file, or one that is left out.
#[derive(Clone)]
pub struct Section<'r> {
    reader: &'r Reader<'r>,
    path: String,
    /// Its number among those that were opened.
    number: usize,
    table: Option<&'r DeTable<'r>>,
    /// Where a key is looked up that is not here.
    defaults: Option<Box<Self>>,
    place: Place,
}

impl fmt::Debug for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'r> Section<'r> {
    fn open(reader: &'r Reader<'r>, path: String, table: Option<&'r DeTable<'r>>, at: Option<usize>) -> Self {
        let mut notes = reader.notes.borrow_mut();
        notes.sections.push(Opened { path: path.clone(), table, keys: Vec::new(), is_open: false });
        let place = at.map_or(Place::File, |at| reader.line(at));
        notes.places.insert(path.clone(), (path.clone(), place.clone()));
        Self { reader, path, number: notes.sections.len() - 1, table, defaults: None, place }
    }

    /// Declares a key, to be read as a type.
    pub fn key<'s>(&'s self, name: &'static str) -> Key<'s, 'r> {
        self.declare(name);
        Key::new(self, name)
    }

    fn declare(&self, name: &'static str) {
        for section in std::iter::once(self).chain(self.defaults.as_deref()) {
            let keys = &mut self.reader.notes.borrow_mut().sections[section.number].keys;
            if !keys.contains(&name) {
                keys.push(name);
            }
        }
    }

    /// Returns whether a key stands here.
    pub fn has(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    /// Opens a section in this one, which may be left out.
    pub fn section(&self, name: &'static str) -> Self {
        self.declare(name);
        self.child(name, self.table.and_then(|table| table.get_key_value(name)))
    }

    /// Opens a section in this one, if it is there.
    pub fn optional(&self, name: &'static str) -> Option<Self> {
        self.declare(name);
        self.has(name).then(|| self.section(name))
    }

    /// Opens all sections in a section that has those that the owner names.
    pub fn sections(&self, name: &'static str) -> Vec<(&'r str, Self)> {
        let all = self.section(name);
        all.accept_any_key();
        let mut found: Vec<_> = all.table.into_iter().flatten().collect();
        found.sort_by_key(|(name, _)| name.span().start);
        found
            .into_iter()
            .map(|(name, value)| (name.get_ref().as_ref(), all.child(name.get_ref(), Some((name, value)))))
            .collect()
    }

    /// Opens the sections of a list of them, such as `[[source.power]]`; `None` if it does not exist.
    pub fn list(&self, name: &'static str) -> Option<Vec<Self>> {
        self.declare(name);
        let (key, value) = self.table?.get_key_value(name)?;
        let Some(items) = value.get_ref().as_array() else {
            let message =
                format!("{}; write a list of tables: [[{}]]", value::what(name, value.get_ref()), self.at(name));
            self.reader.wrong(self.at(name), self.reader.line(key.span().start), message);
            return None;
        };
        Some(items.iter().map(|item| self.child(name, Some((key, item)))).collect())
    }

    fn child(
        &self,
        name: &str,
        found: Option<(&'r Spanned<std::borrow::Cow<'r, str>>, &'r Spanned<DeValue<'r>>)>,
    ) -> Self {
        let path = self.at(name);
        let table = found.and_then(|(_, value)| value.get_ref().as_table());
        let at = found.map(|(key, value)| value.span().start.max(key.span().start));
        if let (Some((key, value)), None) = (found, table) {
            let message = format!("{}; write a section: [{path}]", value::what(name, value.get_ref()));
            self.reader.wrong(path.clone(), self.reader.line(key.span().start), message);
        }
        Self::open(self.reader, path, table, at)
    }

    /// Returns this section with another for the keys that it does not have.
    #[must_use]
    pub fn over(&self, defaults: &Self) -> Self {
        Self { defaults: Some(Box::new(defaults.clone())), ..self.clone() }
    }

    /// Refuses a key of an earlier version. The keys that replace it are then not missed.
    pub fn retired(&self, name: &'static str, replaced_by: &[&str], message: &str) {
        if let Some((key, _)) = self.table.and_then(|table| table.get_key_value(name)) {
            self.declare(name);
            self.reader.wrong(self.at(name), self.reader.line(key.span().start), message.to_owned());
            self.reader.notes.borrow_mut().explained.extend(replaced_by.iter().map(|key| self.at(key)));
        }
    }

    /// Notes a mistake that is not in a value by itself, where the key stands or should.
    pub fn wrong(&self, name: &str, message: impl Into<String>) {
        let known = self.reader.notes.borrow().places.get(&self.at(name)).cloned();
        let written = || {
            let mut sections = std::iter::once(self).chain(self.defaults.as_deref());
            sections.find_map(|section| {
                let (key, _) = section.table?.get_key_value(name)?;
                Some((section.at(name), self.reader.line(key.span().start)))
            })
        };
        let found = known.filter(|(_, place)| matches!(place, Place::Variable(_))).or_else(written);
        let (key, place) = found.unwrap_or_else(|| (self.at(name), self.place.clone()));
        self.reader.wrong(key, place, message.into());
    }

    /// Notes that a key is not there, unless another mistake explains it: it is misspelt, or its value was refused.
    pub fn missing(&self, name: &str, help: &str) {
        if self.has(name) {
            return;
        }
        let problem = Problem { place: self.place.clone(), key: self.at(name), message: format!("missing; {help}") };
        self.reader.notes.borrow_mut().missing.push(problem);
    }

    /// Notes a mistake in the section as a whole.
    pub fn wrong_here(&self, message: impl Into<String>) {
        self.reader.wrong(self.path.clone(), self.place.clone(), message.into());
    }

    /// Accepts any key here: what they mean cannot be known.
    pub fn accept_any_key(&self) {
        self.reader.notes.borrow_mut().sections[self.number].is_open = true;
    }

    /// Returns how many mistakes were found in the file so far.
    pub fn mistakes(&self) -> usize {
        self.reader.notes.borrow().problems.len()
    }

    fn at(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Returns a path as it is meant: from the folder of the file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.reader.folder.join(path)
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Read {
        replicas: u32,
        level: &'static str,
        password: Option<String>,
        sizes: Vec<(String, u16)>,
    }

    fn read_all(root: &Section<'_>) -> Read {
        root.retired("old", &["broker.url"], "replaced by `broker.url`");
        let broker = root.section("broker");
        let url = broker.key("url").required("\"mqtt://broker\"");
        url.parsed(|url| if url.starts_with("mqtt") { Ok(()) } else { Err("not an address") });
        let defaults = root.section("defaults");
        let clusters = root.sections("clusters").into_iter();
        Read {
            replicas: root.key("replicas").overridable().number(1..=1000).unwrap_or(1),
            level: root.key("level").one_of(&[("info", "info"), ("debug", "debug")]).unwrap_or("info"),
            password: broker.key("password").text(),
            sizes: clusters
                .map(|(name, own)| (name.to_owned(), own.over(&defaults).key("size").number(2..=9).unwrap_or(5)))
                .collect(),
        }
    }

    fn told(text: &str) -> String {
        told_with(text, &Variables::default())
    }

    fn told_with(text: &str, variables: &Variables<'_>) -> String {
        let (value, report) = read_text(Path::new("a.toml"), text, variables, read_all);
        report.finish(value).map_or_else(|error| error.to_string(), |read| format!("{read:?}"))
    }

    const BROKER: &str = "[broker]\nurl = \"mqtt://b\"\n";

    #[test]
    fn a_key_is_taken_from_the_section_the_defaults_or_the_code() {
        let text = format!("replicas = 3\n{BROKER}[defaults]\nsize = 4\n[clusters.b]\n[clusters.a]\nsize = 7\n");
        let (read, report) = read_text(Path::new("a.toml"), &text, &Variables::default(), read_all);
        let sizes = vec![("b".to_owned(), 4), ("a".to_owned(), 7)];
        assert_eq!(report.finish(read), Ok(Read { replicas: 3, level: "info", password: None, sizes }));
    }

    #[test]
    fn all_mistakes_are_told_in_the_order_of_lines() {
        let text = "level = \"inf\"\nreplicas = \"7\"\n[clusters.a]\nsize = 1.5\nsizes = 3\n[clusters.b]\nsize = 10\n[brokr]\n";
        let expected = "invalid configuration\n\
            a.toml:1: level: \"inf\" is not allowed; did you mean \"info\"?\n\
            a.toml:2: replicas: \"7\" is text; write the number without quotes: replicas = 7\n\
            a.toml:4: clusters.a.size: 1.5 is not a whole number; use 2 to 9\n\
            a.toml:5: unknown key `clusters.a.sizes`; did you mean `size`?\n\
            a.toml:7: clusters.b.size: 10 is out of range; use 2 to 9\n\
            a.toml:8: unknown section `brokr`; did you mean `broker`?";
        assert_eq!(told(text), expected);
    }

    #[test]
    fn a_mistake_in_the_defaults_is_told_once_and_where_it_stands() {
        let text = format!("{BROKER}[defaults]\nsize = 99\n[clusters.a]\n[clusters.b]\n[clusters.c]\nsize = 2\n");
        assert_eq!(told(&text), "invalid configuration\na.toml:4: defaults.size: 99 is out of range; use 2 to 9");
    }

    #[test]
    fn a_missing_key_is_told_unless_another_mistake_explains_it() {
        let missing = "invalid configuration\na.toml:2: broker.url: missing; for example url = \"mqtt://broker\"";
        assert_eq!(told("\n[broker]\n"), missing);
        assert_eq!(told(""), missing.replace(":2:", ":"));
        assert_eq!(
            told("[broker]\nurls = \"x\"\n"),
            "invalid configuration\na.toml:2: unknown key `broker.urls`; did you mean `url`?"
        );
        assert_eq!(told("old = 1"), "invalid configuration\na.toml:1: old: replaced by `broker.url`");
    }

    #[test]
    fn a_variable_replaces_a_key_and_is_named_instead_of_the_line() {
        let with = |value: &str| {
            let values = BTreeMap::from([
                ("X_REPLICAS".to_owned(), value.to_owned()),
                ("X_LEVEL".to_owned(), "none".to_owned()),
            ]);
            told_with(&format!("replicas = 2\n{BROKER}"), &Variables { prefix: "X_", values })
        };
        assert!(with("5").contains("replicas: 5"), "{}", with("5"));
        assert_eq!(with("many"), "invalid configuration\nX_REPLICAS: \"many\" is not a whole number; use 1 to 1000");
    }

    #[test]
    fn secrets_are_not_repeated() {
        for text in [
            "[broker]\nurl = \"tcp://me:hunter2@b\"\n",
            "[broker]\nurl = mqtt://me:hunter2@b\n",
            "[broker]\npassword = [\"hunter2\"]\n",
        ] {
            let told = told(text);
            assert!(told.contains("a.toml:2: ") && !told.contains("hunter2"), "{told}");
        }
        assert!(
            told(&format!("{BROKER}password = 271828\n"))
                .ends_with("broker.password: the value is a number; write it in quotes")
        );
    }

    #[test]
    fn what_is_no_toml_is_told_with_line_and_column_and_a_duplicate_with_its_name() {
        assert!(told("level = \"info\nreplicas = 2\n").starts_with("invalid configuration\na.toml:1: not TOML: "));
        assert_eq!(
            told("level = \"info\"\nlevel = \"debug\"\n"),
            "invalid configuration\na.toml:2: duplicate key `level`; leave one of them out"
        );
    }

    #[test]
    fn a_section_that_is_none_is_told() {
        let text = format!("{BROKER}[clusters]\na = 5\n");
        assert_eq!(
            told(&text),
            "invalid configuration\na.toml:4: clusters.a: 5 is a number; write a section: [clusters.a]"
        );
    }

    #[test]
    fn a_mistake_that_is_found_later_is_told_where_its_key_stands() {
        let (value, mut report) =
            read_text(Path::new("a.toml"), &format!("replicas = 2\n{BROKER}"), &Variables::default(), read_all);
        report.wrong("broker.url", "nobody answers there");
        report.wrong("", "and so on");
        let told = report.finish(value).unwrap_err().to_string();
        assert_eq!(told, "invalid configuration\na.toml:3: broker.url: nobody answers there\na.toml: and so on");
    }
}
